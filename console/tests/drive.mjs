// Drives the console in a real browser, for the tests of `zero`. The test answers what this program asks
// on standard output, such as a pairing code, by one line on standard input.
//
//   node drive.mjs SCENARIO GATEWAY_ADDRESS [FOLDER]

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect as connectTcp, createServer as createTcpServer } from "node:net";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { takeScreenshots } from "./screenshots.mjs";

const [scenario, address, folder] = process.argv.slice(2);
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PATIENCE = 30_000;
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const WIDE = { width: 1280, height: 860 };
const PHONE = { width: 360, height: 740 };

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
/** Asks the test for something. */
async function ask(what, ...more) {
  process.stdout.write(`${JSON.stringify([what, ...more])}\n`);
  const { value, done } = await lines.next();
  assert.ok(!done, "the test has ended");
  return JSON.parse(value);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
const problems = [];
const networks = [];

/** A browser of its own, with its own key. */
async function openBrowser(options = {}) {
  const context = await browser.newContext({ viewport: WIDE, locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.on("pageerror", (error) => problems.push(`error: ${error.stack ?? error}`));
  page.on("dialog", (dialog) => (problems.push(`dialog: ${dialog.message()}`), dialog.dismiss()));
  page.on("console", (message) => {
    const text = message.text();
    if (/Content Security Policy|TrustedHTML|TrustedScript|violates/i.test(text)) problems.push(`CSP: ${text}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !networks.some((one) => url.startsWith(one.address)) && !/^(data|blob|ws):/.test(url)) problems.push(`request elsewhere: ${url}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => (window.__violations ??= []).push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  return page;
}

async function pair(page, code, at = address) {
  await page.goto(at);
  await page.getByLabel("Code").fill(code ?? (await ask("code")));
  await page.getByRole("button", { name: "Pair", exact: true }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  return page;
}

async function visit(page, path) {
  await page.evaluate((to) => (location.hash = `#/${to}`), path);
}

/** The modules of the QR code on a page, a digit for each. */
async function qrRows(page) {
  const path = await page.locator("svg.qr path").getAttribute("d");
  const size = Number((await page.locator("svg.qr").getAttribute("viewBox")).split(" ")[2]) - 8;
  const rows = Array.from({ length: size }, () => new Array(size).fill("0"));
  for (const [, x, y] of path.matchAll(/M(\d+) (\d+)h1v1h-1z/g)) rows[y - 4][x - 4] = "1";
  return rows.map((row) => row.join(""));
}

/** Waits until everything is loaded. */
async function settled(page) {
  await page.waitForFunction(() => !document.querySelector(".loading"));
}

/** Waits for words of the model. */
async function said(page, words, at = 0) {
  await page.locator(".item.text", { hasText: words }).nth(at).waitFor();
}

async function send(page, text) {
  await page.getByLabel("Prompt").fill(text);
  await page.getByRole("button", { name: /^(Send|Queue)$/ }).click();
}

async function newSession(page) {
  await visit(page, "sessions");
  await page.getByRole("button", { name: "New session" }).click();
  await page.getByLabel("Prompt").waitFor();
  return decodeURIComponent(new URL(page.url()).hash.split("/")[2]);
}

/** Waits until the tools of the MCP server are there: it starts beside the first prompts. */
async function serverReady(page) {
  for (let asked = 0; asked < 100; asked++) {
    await send(page, SCRIPT(`call forms__echo ${JSON.stringify({ text: `call ${asked}` })}`, "turn", `say Asked ${asked} times.`));
    await said(page, `Asked ${asked} times.`);
    if (await page.locator(".call-box.completed").count()) return;
  }
  assert.fail("the MCP server does not come");
}

/** Nothing that axe finds, and nothing wider than the window. */
async function checkPage(page, what) {
  await page.waitForLoadState("networkidle").catch(() => {});
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const told = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
  assert.deepEqual(told, [], `axe on ${what}`);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${what} is ${over} pixels wider than the window`);
}

async function checkNoProblems(...pages) {
  for (const page of pages) {
    const violations = await page.evaluate(() => window.__violations ?? []);
    assert.deepEqual(violations, [], "violations of the policy");
  }
  assert.deepEqual(problems, []);
}

/** The network between a browser and the gateway: a proxy that can lose what it is given. */
async function openNetwork() {
  const target = new URL(address);
  const pairs = new Set();
  const state = { isLosing: false };
  const server = createTcpServer((near) => {
    const far = connectTcp(Number(target.port), target.hostname);
    const pair = [near, far];
    pairs.add(pair);
    near.on("data", (data) => far.write(data));
    far.on("data", (data) => state.isLosing || near.write(data));
    for (const one of pair) one.on("error", () => {}).on("close", () => (pairs.delete(pair), pair.forEach((other) => other.destroy())));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const cut = () => [...pairs].flat().forEach((one) => one.destroy());
  return {
    address: `http://127.0.0.1:${server.address().port}/`,
    /** What the gateway answers does not arrive any more, while what it is sent does. */
    lose: () => (state.isLosing = true),
    /** Connections break, and none can be made until `restore`. */
    drop: () => new Promise((done) => (server.close(() => done()), cut())),
    restore: (port) => (state.isLosing = false, new Promise((done) => server.listen(port, "127.0.0.1", done))),
    cut: () => (state.isLosing = false, cut()),
  };
}

const SCRIPT = (...steps) => `script:\n${steps.join("\n")}`;
const bash = (command) => `call Bash ${JSON.stringify({ command })}`;

const form = (question, labels) => JSON.stringify({ questions: [{ question, header: "Choice", multiSelect: false, options: labels.map((label) => ({ label, description: `It is ${label}` })) }] });

const PAGES = [
  ["inbox", "Inbox"], ["sessions", "Sessions"], ["audit", "Audit"], ["policy", "Policy"], ["usage", "Usage"], ["machine", "Machine"],
];

async function makeHistory(page) {
  const key = await newSession(page);
  await send(page, SCRIPT("say I write **two** files and run `a command`.", `call Write ${JSON.stringify({ file_path: "notes.md", content: "# Notes\n\n- one\n- two\n" })}`, "turn", "say Done: see [the docs](https://docs.example/).") );
  await page.getByRole("button", { name: /^Allow once|^Allow$/i }).first().click();
  await said(page, "Done: see");
  return key;
}

const scenarios = {
  async pages() {
    const page = await pair(await openBrowser());
    const key = await makeHistory(page);
    await page.locator(".ending").first().waitFor();
    for (const [size, what] of [[WIDE, "wide"], [PHONE, "phone"]]) {
      await page.setViewportSize(size);
      for (const scheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
        for (const [path, title] of PAGES) {
          await visit(page, path);
          await page.getByRole("heading", { level: 1, name: title }).waitFor();
          await settled(page);
          await checkPage(page, `${title}, ${what}, ${scheme}`);
        }
        await visit(page, `session/${encodeURIComponent(key)}`);
        await page.locator(".ending").first().waitFor();
        await checkPage(page, `session, ${what}, ${scheme}`);
        await visit(page, `replay/${encodeURIComponent(key)}`);
        await page.getByRole("slider", { name: "Step" }).waitFor();
        await checkPage(page, `replay, ${what}, ${scheme}`);
      }
    }
    // A call comes after the question whether it may run.
    await page.setViewportSize(WIDE);
    const names = [];
    for (let step = 0; step <= Number(await page.getByRole("slider", { name: "Step" }).getAttribute("max")); step++) {
      await page.getByRole("slider", { name: "Step" }).fill(String(step));
      names.push(await page.locator(".replay > section h2").first().innerText());
    }
    const order = ["The user sent", "The model wrote", "The user was asked", "The model called a tool", "The model wrote", "The run ended"];
    assert.deepEqual(names.filter((name) => order.includes(name)), order, String(names));
    // The slider shows what a call would touch, what decided and what changed.
    await page.setViewportSize(WIDE);
    await page.getByRole("slider", { name: "Step" }).focus();
    await page.keyboard.press("Home");
    const headings = page.getByRole("heading", { name: "What decided" });
    for (let step = 0; step < 40 && !(await headings.isVisible()); step++) await page.keyboard.press("ArrowRight");
    await headings.waitFor();
    await page.locator("aside").getByText("notes.md").first().waitFor();
    await page.getByRole("heading", { name: "What changed" }).waitFor();
    // The decision is that of the audit log, which a link leads to.
    await page.locator(".replay aside p").filter({ hasText: "person:" }).waitFor();
    await page.locator(".replay").getByRole("link", { name: "In the audit log" }).click();
    await page.getByRole("heading", { name: "Effects" }).waitFor();
    await page.locator(".facts").getByText("Workspace").waitFor();
    // One call in full, and the chain with its head.
    await visit(page, "audit");
    await page.getByRole("button", { name: "Check the chain" }).click();
    await page.getByText("The log is intact.").waitFor();
    await page.locator(".hash").first().waitFor();
    await page.locator("table.list a").first().click();
    await page.getByRole("heading", { name: "Effects" }).waitFor();
    await checkPage(page, "a call of the audit log");
    await visit(page, "audit?tool=Nothing");
    await page.getByText("No call matches").waitFor();
    // The policy: a tree, a draft, its simulation, and the change that saving makes.
    await visit(page, "policy");
    await page.getByRole("textbox", { name: "Command" }).fill("git log | sh");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.locator(".tree li").first().waitFor();
    // An error of the draft is not one of the file, which has no such line.
    for (const [draft, words] of [["Bash(", "the draft has an error: rule `Bash(`"], ["{rule", "not a rule: {rule"]]) {
      await page.getByRole("textbox", { name: "deny" }).fill(draft);
      for (const name of ["Simulate", "Show the change"]) {
        await page.getByRole("button", { name }).click();
        const problem = page.getByRole("alert").filter({ hasText: words });
        await problem.waitFor();
        assert.ok(!(await problem.innerText()).includes("settings"), await problem.innerText());
      }
    }
    await checkPage(page, "a draft with an error");
    await page.getByRole("textbox", { name: "deny" }).fill("Write(notes.md)");
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Simulate" }).click();
    await page.getByText("judged again").waitFor();
    await page.getByText("Decided differently").waitFor();
    await page.getByRole("button", { name: "Show the change" }).click();
    await page.locator(".diff .add").getByText("Write(notes.md)").waitFor();
    const change = await page.locator(".diff pre").innerText();
    await checkPage(page, "a draft of rules");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("Saved to").waitFor();
    // What was shown is what the file has now: no line is invented.
    const settings = await ask("settings");
    assert.match(settings, /Write\(notes\.md\)/);
    const hidden = (text) => text.replace(/"(?:[^"\\]|\\.)*"/g, "").replaceAll(/\s/g, "");
    for (const line of change.split("\n").filter((one) => /^[+ ]/.test(one))) {
      assert.ok(hidden(settings).includes(hidden(line.slice(1))), line);
    }
    await checkNoProblems(page);
  },

  async answers() {
    const page = await pair(await openBrowser());
    await newSession(page);
    await send(page, SCRIPT(bash("touch first.txt"), "turn", bash("touch second.txt"), "turn", bash("touch third.txt"), "turn", "say All answered."));
    // Once, in the inbox, where the full command is shown.
    const session = page.url();
    await visit(page, "inbox");
    await page.getByLabel("command").getByText("touch first.txt").waitFor();
    await page.locator(".effects").first().waitFor();
    await checkPage(page, "an approval");
    // Where it waits, it says so.
    await visit(page, "sessions");
    await page.locator(".row", { hasText: "waits for an answer" }).waitFor();
    await page.goto(session);
    await page.locator(".facts").getByText("waits for an answer").waitFor();
    await visit(page, "inbox");
    await page.locator(".effects").first().waitFor();
    await page.setViewportSize(PHONE);
    await checkPage(page, "an approval on a phone");
    const buttons = await page.locator(".answers button").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
    assert.ok(buttons.every((height) => height >= 40), `too small for a thumb: ${buttons}`);
    await page.getByRole("button", { name: /allow once/i }).click();
    await page.getByLabel("command").getByText("touch second.txt").waitFor();
    await page.getByRole("button", { name: /^(reject|deny)\b(?!.*(session|tool|always))/i }).first().click();
    await page.getByLabel("command").getByText("touch third.txt").waitFor();
    await page.locator(".answers button").filter({ hasText: /session|always/i }).filter({ hasNotText: /reject|deny/i }).first().click();
    await page.goto(session);
    await said(page, "All answered.");
    const files = await ask("files");
    assert.ok(files.includes("first.txt") && !files.includes("second.txt") && files.includes("third.txt"), String(files));
    // A question with a form.
    await send(page, SCRIPT(`call AskUserQuestion ${form("Which colour?", ["red", "green"])}`, "turn", "say Thank you."));
    await visit(page, "inbox");
    await page.getByText("Which colour?").waitFor();
    await checkPage(page, "a question");
    // Nothing chosen is no answer.
    await page.locator(".answers button.primary:enabled").waitFor();
    await page.getByRole("button", { name: "Answer" }).click();
    await page.getByRole("alert").getByText("Nothing is chosen or written yet").waitFor();
    await checkPage(page, "an empty form");
    const choice = page.getByLabel("green");
    await choice.first().check();
    await page.getByRole("button", { name: "Answer" }).click();
    await page.goto(session);
    await said(page, "Thank you.");
    // Names of programs are not emphasis.
    await send(page, SCRIPT("say In __init__.py, snake_case__x__y and __main__ it is __this is bold__."));
    const words = page.locator(".item.text", { hasText: "snake_case" });
    await words.getByText("In __init__.py, snake_case__x__y and __main__ it is this is bold.").waitFor();
    assert.deepEqual(await words.locator("strong").allInnerTexts(), ["this is bold"]);
    // A call is rejected in the session itself.
    await send(page, SCRIPT(bash("touch never.txt"), "turn", "say It was rejected."));
    const asked = page.locator(".open-questions .ask");
    await asked.getByText("touch never.txt").first().waitFor();
    await asked.getByRole("button", { name: /^(reject|deny)\b(?!.*(session|tool|always))/i }).first().click();
    await said(page, "It was rejected.");
    await asked.waitFor({ state: "detached" });
    assert.ok(!(await ask("files")).includes("never.txt"));
    // Each answer names its call. A call that did not run took no time.
    await page.locator(".item.approval summary", { hasText: "touch never.txt" }).waitFor();
    await page.locator(".call-box.completed .took").first().waitFor();
    assert.equal(await page.locator(".call-box.denied .took").count(), 0);
    // A command that fails says so without being opened.
    await send(page, SCRIPT(bash("exit 3"), "turn", "say It failed."));
    await said(page, "It failed.");
    await page.locator(".call-box summary", { hasText: "exit 3" }).getByText("exit code 3").waitFor();
    // A run that hangs is stopped; what is queued meanwhile waits.
    await send(page, "[hang]");
    await page.getByText("one two three").waitFor();
    await send(page, "and then");
    await page.getByRole("button", { name: /^Stop/ }).click();
    await page.getByRole("button", { name: "Stop?" }).click();
    await page.locator(".ending", { hasText: /^Stopped( ·|$)/ }).first().waitFor();
    // Mode and title, a fork, and a rewind.
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Title").fill("A good title");
    await page.locator("select[name=mode]").selectOption("plan");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { level: 1, name: "A good title" }).waitFor();
    await page.getByRole("button", { name: "Fork" }).first().click();
    await page.waitForFunction((old) => location.href !== old, session);
    await page.goto(session);
    await page.getByRole("button", { name: "Rewind" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(/1\. script/).waitFor();
    await checkPage(page, "the rewind dialog");
    await dialog.getByLabel("Take back").selectOption("conversation");
    await dialog.getByRole("button", { name: "Rewind" }).last().click();
    await dialog.getByRole("button", { name: "To before this?" }).click();
    await page.getByText(/Rewound to before prompt 1 \(/).waitFor();
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export" }).click();
    const text = readFileSync(await (await saved).path(), "utf8");
    assert.ok(text.trim().split("\n").map((line) => JSON.parse(line)).some((event) => event.type === "rewound"));
    await checkNoProblems(page);
  },

  async pairing() {
    const first = await openBrowser();
    const code = await ask("code");
    await pair(first, code);
    // A code works once, and a wrong one not at all.
    const second = await openBrowser({ viewport: PHONE });
    await second.goto(address);
    await checkPage(second, "pairing");
    for (const wrong of [code, "AAAA-AAAA"]) {
      await second.getByLabel("Code").fill(wrong);
      await second.getByRole("button", { name: "Pair", exact: true }).click();
      await second.getByRole("alert").getByText(/code is wrong, was used or has expired/).waitFor();
    }
    // An approval on the paired browser, of the scopes that are chosen there.
    await second.getByLabel("Name of this browser").fill("Phone in the kitchen");
    await second.getByRole("button", { name: /Ask a paired device/ }).click();
    const words = await second.locator(".pair-code").innerText();
    await visit(first, "machine");
    await first.getByText(words).waitFor();
    await checkPage(first, "a request to be paired");
    await first.getByText("Phone in the kitchen").waitFor();
    await first.getByRole("button", { name: /^Pair: / }).click();
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    await visit(second, "machine");
    await second.getByText("It may: read, approvals, questions.").waitFor();
    await visit(second, "audit");
    await second.getByText("needs the admin scope").waitFor();
    assert.equal(await second.getByRole("button", { name: "New session" }).count(), 0);
    // The devices can be told apart: by name, id, scopes, when they were seen, and which one this is.
    await visit(second, "machine");
    await first.locator(".row", { hasText: "Phone in the kitchen" }).getByText("connected now").waitFor();
    const listed = await first.locator(".row", { hasText: "paired" }).allInnerTexts();
    const id = async (page) => (await page.getByText("In lists of devices it is").locator("code").innerText()).trim();
    const [own, theirs] = [await id(first), await id(second)];
    assert.notEqual(own, theirs);
    const [mine] = listed.filter((text) => text.includes(own));
    const [kitchen] = listed.filter((text) => text.includes(theirs));
    assert.match(mine, /this browser[\s\S]*connected now/);
    assert.match(kitchen, /Phone in the kitchen[\s\S]*read, approvals, questions[\s\S]*connected now/);
    assert.ok(!kitchen.includes("this browser"));
    // The page that pairs another device shows the address as a QR code, and the code as text only.
    await first.getByRole("button", { name: "Show a code" }).click();
    assert.deepEqual(await qrRows(first), await ask("qr", address));
    await checkPage(first, "a code for another device");
    // Its scopes are changed there, which it follows without a reload.
    const changed = first.locator(".row", { hasText: "paired" }).filter({ hasNotText: "this browser" });
    await visit(second, "machine");
    await changed.getByRole("button", { name: "Change" }).click();
    await changed.getByLabel("write").check();
    await changed.getByLabel("questions").uncheck();
    await checkPage(first, "the scopes of a device");
    await changed.getByRole("button", { name: "Save" }).click();
    await second.getByText("It may: write, approvals.").waitFor();
    await first.getByRole("heading", { name: "Tokens" }).waitFor();
    // No secret where a page could lose it, and the key cannot be taken out.
    const kept = await second.evaluate(async () => {
      const database = await new Promise((done) => (indexedDB.open("zero-console").onsuccess = (event) => done(event.target.result)));
      const stored = await new Promise((done) => (database.transaction("device").objectStore("device").get("this").onsuccess = (event) => done(event.target.result)));
      const taken = await crypto.subtle.exportKey("pkcs8", stored.keys.privateKey).then(() => "taken", (error) => error.name);
      return { taken, token: stored.token, local: JSON.stringify({ ...localStorage, ...sessionStorage }), cookies: document.cookie, url: location.href };
    });
    assert.equal(kept.taken, "InvalidAccessError");
    assert.ok(kept.token.length >= 40);
    assert.deepEqual([kept.local, kept.cookies], ["{}", ""]);
    assert.ok(!kept.url.includes(kept.token));
    assert.ok(!(await ask("log")).includes(kept.token), "the token is in the log or the state of the gateway");
    // The token is of no use without the key.
    const stolen = await first.evaluate((token) => new Promise((done) => {
      const socket = new WebSocket(location.origin.replace("http", "ws"));
      socket.onmessage = (message) => {
        const frame = JSON.parse(message.data);
        if (frame.event) socket.send(JSON.stringify({ type: "req", id: "1", method: "connect", params: { minProtocol: 4, maxProtocol: 4, client: { id: "webchat-ui", version: "1", platform: "web", mode: "ui" }, auth: { deviceToken: token } } }));
        else done(frame.error?.details?.code ?? "let in");
      };
    }), kept.token);
    assert.equal(stolen, "AUTH_DEVICE_PROOF_MISSING");
    // A reload keeps the pairing; revoking ends it at once, without a reload.
    await second.reload();
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    await second.evaluate(() => (window.__same = true));
    const row = first.locator(".row", { hasText: "paired" }).filter({ hasNotText: "this browser" });
    await row.getByRole("button", { name: "Revoke" }).click();
    await row.getByRole("button", { name: "Really revoke?" }).click();
    const isRevoked = second.getByText("the device was revoked");
    await isRevoked.waitFor();
    assert.ok(await second.evaluate(() => window.__same));
    await checkPage(second, "a device that was revoked");
    // It stays, with what to do about it: no attempt to connect, wrong code or reload takes it away.
    await second.evaluate(() => new Promise((done) => (dispatchEvent(new Event("online")), document.dispatchEvent(new Event("visibilitychange")), setTimeout(done, 0))));
    await second.getByLabel("Code").fill("AAAA-AAAA");
    await second.getByRole("button", { name: "Pair", exact: true }).click();
    await second.getByRole("alert").getByText(/code is wrong/).waitFor();
    assert.ok(await isRevoked.isVisible());
    await second.reload();
    await isRevoked.waitFor();
    await second.getByText("To pair it again, run").waitFor();
    const again = await ask("code", "read");
    await second.getByLabel("Code").fill(again.toLowerCase().replace("-", ""));
    await second.getByRole("button", { name: "Pair", exact: true }).click();
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    await ask("revoke");
    await isRevoked.waitFor();
    // Forgetting the token says so, too, and connects no more.
    await second.getByLabel("Code").fill(await ask("code", "read"));
    await second.getByRole("button", { name: "Pair", exact: true }).click();
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    await visit(second, "machine");
    const opened = await second.evaluate(() => ((window.__opened = 0), (window.WebSocket = class extends WebSocket { constructor(...all) { super(...all); window.__opened++; } }), window.__opened));
    await second.getByRole("button", { name: "Forget its token" }).click();
    await second.getByRole("button", { name: "Really forget?" }).click();
    await second.getByText("has forgotten its token").waitFor();
    await second.evaluate(() => new Promise((done) => (dispatchEvent(new Event("online")), setTimeout(done, 0))));
    assert.equal(await second.evaluate(() => window.__opened), opened);
    await checkNoProblems(first, second);
  },

  async follow() {
    const page = await pair(await openBrowser());
    const key = await newSession(page);
    for (let at = 0; at < 14; at++) {
      await send(page, SCRIPT(`say Answer ${at}.`));
      await said(page, `Answer ${at}.`);
    }
    const rest = () => page.evaluate(() => document.documentElement.scrollHeight - scrollY - innerHeight);
    const atEnd = () => page.waitForFunction(() => document.documentElement.scrollHeight - scrollY - innerHeight < 2);
    const top = (locator) => locator.evaluate((element) => element.getBoundingClientRect().top);
    assert.ok((await page.evaluate(() => document.documentElement.scrollHeight)) > 2 * WIDE.height, "the transcript is too short");
    await atEnd();
    // A question appears below the transcript, and its answers above the composer.
    await send(page, SCRIPT(bash("touch one.txt"), "turn", bash("touch two.txt"), "turn", "say Both are made."));
    const asked = page.locator(".open-questions .ask");
    await asked.getByRole("button", { name: /allow once/i }).waitFor();
    await atEnd();
    const bottom = await asked.locator(".answers").evaluate((element) => element.getBoundingClientRect().bottom);
    assert.ok(bottom <= await top(page.getByLabel("Prompt")), `the answers end at ${bottom}, below the prompt`);
    // Who reads further up stays there, whatever appears.
    await page.mouse.move(600, 300);
    await page.mouse.wheel(0, -500);
    await page.waitForFunction(() => document.documentElement.scrollHeight - scrollY - innerHeight > 400);
    const read = page.locator(".item.text", { hasText: "Answer 9." });
    const before = await top(read);
    const other = await page.context().newPage();
    other.setDefaultTimeout(PATIENCE);
    await other.goto(page.url());
    await other.locator(".open-questions").getByRole("button", { name: /allow once/i }).click();
    await asked.getByText("touch two.txt").first().waitFor();
    assert.ok(Math.abs((await top(read)) - before) < 2, `it moved from ${before} to ${await top(read)}`);
    await other.locator(".open-questions .ask").getByText("touch two.txt").first().waitFor();
    await other.locator(".open-questions").getByRole("button", { name: /allow once/i }).click();
    await said(page, "Both are made.");
    assert.ok(Math.abs((await top(read)) - before) < 2 && (await rest()) > 100);
    // Who sends a prompt sees what comes of it.
    await send(page, SCRIPT("say At the end."));
    await said(page, "At the end.");
    await atEnd();
    // A part that is opened stays where it is.
    const call = page.locator(".call-box summary").last();
    await call.scrollIntoViewIfNeeded();
    await atEnd();
    const opened = await top(call);
    await call.click();
    await page.locator(".call-box[open] .call-body").last().waitFor();
    await page.waitForFunction(() => document.documentElement.scrollHeight - scrollY - innerHeight > 60);
    assert.ok(Math.abs((await top(call)) - opened) < 2, `it moved from ${opened} to ${await top(call)}`);
    await checkNoProblems(page);
  },

  async subagents() {
    const page = await pair(await openBrowser());
    await newSession(page);
    const child = SCRIPT("say The sub-agent looks.", bash("touch child.txt"), "turn", "say The sub-agent has found it.");
    await send(page, SCRIPT(`call Task ${JSON.stringify({ description: "Look for it", prompt: child })}`, "turn", "say The parent is done."));
    // Its entries are under the call that started it, while it works and afterwards.
    const nested = page.locator(".call-box .subagent");
    await nested.getByText("The sub-agent looks.", { exact: true }).waitFor();
    await nested.getByText("touch child.txt").first().waitFor();
    await page.getByRole("group", { name: "Answers" }).getByRole("button", { name: /allow once/i }).click();
    await said(page, "The parent is done.");
    await page.locator(".call-box", { hasText: "Look for it" }).first().evaluate((call) => (call.open = true));
    await nested.getByText("The sub-agent has found it.", { exact: true }).waitFor();
    await nested.locator(".ending").waitFor();
    await checkPage(page, "a sub-agent");
    await page.setViewportSize(PHONE);
    await checkPage(page, "a sub-agent on a phone");
    await page.setViewportSize(WIDE);
    await page.reload();
    await said(page, "The parent is done.");
    await page.locator(".call-box", { hasText: "Look for it" }).first().evaluate((call) => (call.open = true));
    await nested.getByText("The sub-agent has found it.", { exact: true }).waitFor();
    // Its own page leads back.
    const parent = page.url();
    await nested.getByRole("link", { name: /task-/ }).click();
    await page.locator(".facts").getByRole("link").click();
    await said(page, "The parent is done.");
    assert.equal(page.url(), parent);
    await checkNoProblems(page);
  },

  async usage() {
    const page = await pair(await openBrowser());
    await newSession(page);
    await send(page, SCRIPT(`call Read ${JSON.stringify({ file_path: "missing.txt" })}`, "turn", "say It is not there."));
    await said(page, "It is not there.");
    await page.locator(".ending").first().waitFor();
    await send(page, SCRIPT('fail 400 {"error":{"message":"no"}}'));
    await page.locator(".ending.failed").waitFor();
    await visit(page, "usage");
    const total = (name) => page.locator(".totals > div", { has: page.locator("dt", { hasText: name }) });
    await total("Runs").getByText("1 failed").waitFor();
    await total("Calls of tools").getByText(/^1 failed, /).waitFor();
    await page.getByText("Time of a call").first().waitFor();
    for (const by of ["model", "agent", "session", "owner", "day"]) {
      await page.getByLabel("Group").selectOption(by);
      await page.locator("table.list th").first().getByText(by).waitFor();
      await checkPage(page, `usage by ${by}`);
    }
    const budget = (text) => page.getByRole("region", { name: "Budgets" }).locator("tr", { hasText: text });
    const cells = async (text) => (await budget(text).first().locator("td").allInnerTexts()).map((cell) => cell.trim());
    const owner = await cells("Owner, today");
    assert.deepEqual([owner[1], owner[2], owner[4], owner[5]], ["Calls of tools", "1", "100", "99"], String(owner));
    const run = await cells("Each run");
    assert.deepEqual([run[1], run[2], run[5]], ["Cost", "–", "–"], String(run));
    await page.setViewportSize(PHONE);
    await checkPage(page, "usage on a phone");
    await checkNoProblems(page);
  },

  async installed() {
    const page = await pair(await openBrowser());
    const tools = await page.context().newCDPSession(page);
    const { installabilityErrors } = await tools.send("Page.getInstallabilityErrors");
    // A window of a test is like a private one, which is never offered to be installed.
    assert.deepEqual(installabilityErrors.map((one) => one.errorId).filter((id) => id !== "in-incognito"), []);
    const { errors, data } = await tools.send("Page.getAppManifest");
    assert.deepEqual(errors, []);
    const manifest = JSON.parse(data);
    assert.deepEqual([manifest.display, manifest.start_url, manifest.scope], ["standalone", "/", "/"]);
    await page.evaluate(() => navigator.serviceWorker.ready);
    await newSession(page);
    // Nothing that a model says reads in another order than it is in, and code hides nothing.
    await send(page, SCRIPT("say the file \u202etxt.exe and `rm\u200b -r`"));
    await said(page, "the file \\u{202e}txt.exe and rm\\u{200b} -r");
    await send(page, "hello");
    await said(page, "Hello from the model.");
    // Only the shell is kept, and no answer of the gateway.
    const kept = await page.evaluate(async () => {
      const found = [];
      for (const name of await caches.keys()) for (const request of await (await caches.open(name)).keys()) found.push(new URL(request.url).pathname);
      return found.sort();
    });
    assert.ok(kept.includes("/") && kept.every((path) => /^\/(|index\.html|app(-[0-9a-f]+)?\.(js|css)|icon\.(svg|png)|manifest\.webmanifest)$/.test(path)), String(kept));
    // It opens while the gateway is away, says so, and shows nothing that it should not have.
    await ask("kill");
    await page.reload();
    await page.getByText(/Pair this browser|cannot be reached/).first().waitFor();
    assert.equal(await page.getByText("Hello from the model.").count(), 0);
    await ask("publicUrl", "https://box.lan:18789");
    await ask("start");
    await said(page, "Hello from the model.");
    // Another device is led to the address that the settings name.
    await visit(page, "machine");
    await page.getByRole("button", { name: "Show a code" }).click();
    await page.locator(".code-card .path", { hasText: "https://box.lan:18789" }).waitFor();
    assert.deepEqual(await qrRows(page), await ask("qr", "https://box.lan:18789/"));
    assert.equal(await page.getByText("cannot reach this address").count(), 0);
    await checkNoProblems(page);
  },

  async notifications() {
    const page = await openBrowser({ permissions: ["notifications"] });
    await page.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => window.__hidden === true }));
    await pair(page);
    await page.evaluate(() => navigator.serviceWorker.ready);
    const key = await newSession(page);
    const shown = () => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(({ title, body, data, tag }) => ({ title, body, data, tag })));
    // Who looks at the console is not notified.
    await send(page, SCRIPT(bash("touch seen.txt"), "turn", bash("touch unseen.txt"), "turn", "say Both answered."));
    await page.locator(".ask").first().waitFor();
    assert.deepEqual(await shown(), []);
    await page.evaluate(() => (window.__hidden = true));
    await page.getByRole("button", { name: /allow once/i }).click();
    await page.locator(".ask", { hasText: "unseen.txt" }).first().waitFor();
    let found = [];
    for (let wait = 0; wait < 100 && !found.length; wait++) {
      found = await shown();
      await page.waitForTimeout(100);
    }
    assert.equal(found.length, 1, JSON.stringify(found));
    assert.equal(found[0].title, "zero asks for approval");
    assert.match(found[0].body, /touch unseen\.txt/);
    // Pressing it opens the question. Nothing else of the session is in it.
    await visit(page, "usage");
    const [worker] = page.context().serviceWorkers();
    await worker.evaluate(async () => {
      const [notification] = await self.registration.getNotifications();
      self.dispatchEvent(new NotificationEvent("notificationclick", { notification }));
    });
    await page.locator(".ask.meant").waitFor();
    assert.match(page.url(), new RegExp(`#/inbox/${found[0].data}$`));
    await page.getByRole("button", { name: /allow once/i }).click();
    await page.getByText("Nothing waits for you").waitFor();
    await visit(page, `session/${encodeURIComponent(key)}`);
    await said(page, "Both answered.");
    // One that is answered on another device is closed here.
    await send(page, SCRIPT(bash("touch elsewhere.txt"), "turn", "say Answered elsewhere."));
    for (let wait = 0; wait < 100 && !(await shown()).length; wait++) await page.waitForTimeout(100);
    const [left] = await shown();
    assert.match(left.body, /touch elsewhere\.txt/);
    const other = await pair(await openBrowser());
    await visit(other, `inbox/${left.data}`);
    await other.getByRole("button", { name: /allow once/i }).click();
    for (let wait = 0; wait < 100 && (await shown()).length; wait++) await page.waitForTimeout(100);
    assert.deepEqual(await shown(), []);
    // Its link says that it was answered.
    await visit(page, `inbox/${left.data}`);
    await page.getByText("does not wait any more").waitFor();
    await other.context().close();
    await checkNoProblems(page);
  },

  async scopes() {
    const admin = await pair(await openBrowser());
    const phone = await openBrowser({ permissions: ["notifications"], viewport: PHONE });
    await phone.addInitScript(() => Object.defineProperty(document, "hidden", { get: () => window.__hidden === true }));
    await pair(phone, await ask("code", "read,approvals,questions"));
    await phone.evaluate(() => navigator.serviceWorker.ready);
    await phone.evaluate(() => (window.__hidden = true));
    await newSession(admin);
    await send(admin, SCRIPT(bash("touch private.txt"), "turn", "say Done."));
    await phone.locator(".ask", { hasText: "private.txt" }).waitFor();
    const shown = () => phone.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).length);
    for (let wait = 0; wait < 100 && !(await shown()); wait++) await phone.waitForTimeout(100);
    assert.equal(await shown(), 1);
    // Without the scope, nothing of what waits is left: no card, no count, no notification.
    await visit(admin, "machine");
    const row = admin.locator(".row", { hasText: "paired" }).filter({ hasNotText: "this browser" });
    await row.getByRole("button", { name: "Change" }).click();
    await row.getByLabel("approvals").uncheck();
    await row.getByRole("button", { name: "Save" }).click();
    await phone.getByRole("alert").getByText("may not answer approvals").waitFor();
    await phone.locator(".ask").waitFor({ state: "detached" });
    assert.equal(await phone.locator(".badge").count(), 0);
    for (let wait = 0; wait < 100 && (await shown()); wait++) await phone.waitForTimeout(100);
    assert.equal(await shown(), 0);
    // With it, it is there again.
    await row.getByRole("button", { name: "Change" }).click();
    await row.getByLabel("approvals").check();
    await row.getByRole("button", { name: "Save" }).click();
    await phone.locator(".ask", { hasText: "private.txt" }).waitFor();
    await checkNoProblems(admin, phone);
  },

  async forms() {
    const page = await pair(await openBrowser());
    await newSession(page);
    await serverReady(page);
    const session = page.url();
    const wanted = { message: "Who gets it?", requestedSchema: { type: "object", required: ["name", "size", "color"], properties: {
      name: { type: "string", title: "Name", minLength: 2, maxLength: 5 },
      size: { type: "integer", title: "Size", minimum: 1, maximum: 9 },
      color: { type: "string", title: "Color", enum: ["red", "green"] },
      mail: { type: "string", title: "Mail", format: "email" },
      site: { type: "string", title: "Website", format: "uri" },
      day: { type: "string", title: "Day", format: "date" },
      time: { type: "string", title: "Time", format: "date-time" },
      gift: { type: "boolean", title: "As a gift" },
    } } };
    await send(page, SCRIPT(`call forms__ask ${JSON.stringify({ text: JSON.stringify(wanted) })}`, "turn", "say It is on its way."));
    await page.locator(".open-questions form").waitFor();
    await visit(page, "inbox");
    await page.getByText("MCP server `forms`").or(page.getByText("MCP server forms")).first().waitFor();
    const answer = page.locator(".answers button.primary:enabled");
    await answer.waitFor();
    await answer.click();
    await page.getByText("Fill this in.").first().waitFor();
    assert.equal(await page.locator(".wrong").count(), 3);
    await checkPage(page, "a form that is wrong");
    await page.setViewportSize(PHONE);
    await checkPage(page, "a form that is wrong on a phone");
    await page.setViewportSize(WIDE);
    const problem = async (label, value, words) => {
      await page.getByLabel(label).fill(value);
      await answer.click();
      await page.locator(".field", { hasText: label }).getByText(words).waitFor();
    };
    await problem("Name", "x", "At least 2 characters");
    await problem("Name", "toolong", "At most 5 characters");
    await problem("Size", "0", "At least 1.");
    await problem("Size", "10", "At most 9.");
    await problem("Size", "1.5", "Write a whole number.");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "INPUT");
    await problem("Mail", "me", "Write an email address.");
    await problem("Website", "x.org", "Write a whole URL");
    await page.getByLabel("Mail").fill("");
    await page.getByLabel("Website").fill("https://x.org/");
    // What is only begun is not left out silently.
    await page.getByLabel("Day").press("3");
    await answer.click();
    await page.locator(".field", { hasText: "Day" }).getByText("Write a whole date.").waitFor();
    await page.getByLabel("Day").fill("2026-01-31");
    await page.getByLabel("Time").fill("2026-01-31T12:00:00");
    await page.getByLabel("Size").fill("9");
    await page.getByLabel("Name").fill("Ada");
    await answer.click();
    await page.getByText("Choose one.").waitFor();
    await page.getByLabel("green").check();
    await answer.click();
    await page.getByText("Nothing waits for you").waitFor();
    await page.goto(session);
    await said(page, "It is on its way.");
    await page.locator(".call-box").last().evaluate((call) => (call.open = true));
    const result = page.getByLabel("result").last();
    await result.getByText('"color": "green"').waitFor();
    assert.match(await result.innerText(), /"action": "accept".*"day": "2026-01-31", "gift": false.*"name": "Ada", "site": "https:\/\/x.org\/", "size": 9, "time": "2026-01-31T12:00:00.000Z"/);
    await checkNoProblems(page);
  },

  async keyboard() {
    const page = await openBrowser();
    await page.goto(address);
    await page.getByLabel("Code").waitFor();
    // Nothing but keys: each control is reached by Tab, and shows that it has the focus.
    const reach = async (name) => {
      for (let steps = 0; steps < 120; steps++) {
        const here = await page.evaluate(() => {
          const one = document.activeElement;
          const shown = one?.matches("input[type=file]") ? one.closest("label") : one;
          const style = shown ? getComputedStyle(shown) : null;
          return { name: one?.getAttribute("aria-label") || one?.labels?.[0]?.innerText || one?.innerText || "", outline: style?.outlineStyle !== "none" };
        });
        if (name.test(here.name.trim())) {
          assert.ok(here.outline, `${here.name} does not show the focus`);
          return;
        }
        await page.keyboard.press("Tab");
      }
      assert.fail(`${name} is not reached`);
    };
    await reach(/^Code/);
    await page.keyboard.type(await ask("code"));
    await page.keyboard.press("Enter");
    await page.getByRole("navigation", { name: "Pages" }).waitFor();
    await reach(/^Sessions$/);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
    await reach(/^New session$/);
    await page.keyboard.press("Enter");
    await page.getByLabel("Prompt").waitFor();
    await reach(/^Prompt$/);
    await page.keyboard.insertText(SCRIPT(bash("touch keys.txt"), "turn", `call AskUserQuestion ${form("Which colour?", ["red", "green"])}`, "turn", "say By keys alone."));
    await reach(/^Attach images$/);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    const ready = page.locator(".open-questions .answers button:enabled").first();
    await ready.waitFor();
    await reach(/^allow once/i);
    await page.keyboard.press("Space");
    await page.getByText("Which colour?").first().waitFor();
    await page.locator(".open-questions .answers button.primary:enabled").waitFor();
    await reach(/^red/);
    await page.keyboard.press("ArrowDown");
    await reach(/^Answer$/);
    await page.keyboard.press("Enter");
    await said(page, "By keys alone.");
    assert.ok((await ask("files")).includes("keys.txt"));
    // A dialog keeps the focus, Escape closes it, and the focus goes back.
    await reach(/^Settings$/);
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    for (let step = 0; step < 12; step++) {
      await page.keyboard.press("Tab");
      assert.ok(await page.evaluate(() => document.activeElement === document.body || !!document.activeElement.closest("dialog")), "the focus left the dialog");
    }
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement.innerText), "Settings");
    // Nothing moves for who does not want it.
    const moving = () => page.evaluate(() => document.getAnimations().length + [...document.querySelectorAll("*")].filter((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0).length);
    await send(page, "[hang]");
    await page.getByText("one two three").waitFor();
    await visit(page, "sessions");
    await page.locator(".dot.live").waitFor();
    assert.equal(await moving(), 0);
    await page.emulateMedia({ reducedMotion: "no-preference" });
    assert.ok((await moving()) > 0);
    await checkNoProblems(page);
  },

  async phone() {
    const page = await pair(await openBrowser({ viewport: PHONE, hasTouch: true }));
    const key = await makeHistory(page);
    await page.locator(".ending").first().waitFor();
    await send(page, SCRIPT(bash(`touch waits.txt # ${"a long command ".repeat(12)}`)));
    await page.locator(".ask").first().waitFor();
    const check = async (what) => {
      const found = await page.evaluate(() => {
        const visible = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".hidden, .skip, .brand");
        const small = [...document.querySelectorAll("button, a.button, a.row, nav a, select, textarea, summary, input:not([type=checkbox], [type=radio], [type=file]), label.check, label.attach")].filter(visible)
          .map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => box.height < 44 || box.width < 44)
          .map(([one, box]) => `${Math.round(box.width)}x${Math.round(box.height)} ${one.outerHTML.slice(0, 90)}`);
        const wide = [...document.querySelectorAll("#app *")].filter((one) => visible(one) && !["INPUT", "TEXTAREA"].includes(one.tagName) && one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(one).overflowX))
          .map((one) => `${one.scrollWidth}>${one.clientWidth} ${one.outerHTML.slice(0, 90)}`);
        return { small, wide };
      });
      assert.deepEqual(found, { small: [], wide: [] }, what);
      await checkPage(page, what);
    };
    for (const [path, title] of PAGES) {
      await visit(page, path);
      await page.getByRole("heading", { level: 1, name: title }).waitFor();
      await settled(page);
      await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
      await check(title);
    }
    await page.getByRole("button", { name: "Show a code" }).click();
    await page.locator("svg.qr").waitFor();
    await check("a code for another device");
    await visit(page, "policy");
    await page.getByRole("textbox", { name: "Command" }).fill("git log | sh");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.locator(".tree li").first().waitFor();
    // An error of the draft is not one of the file, which has no such line.
    for (const [draft, words] of [["Bash(", "the draft has an error: rule `Bash(`"], ["{rule", "not a rule: {rule"]]) {
      await page.getByRole("textbox", { name: "deny" }).fill(draft);
      for (const name of ["Simulate", "Show the change"]) {
        await page.getByRole("button", { name }).click();
        const problem = page.getByRole("alert").filter({ hasText: words });
        await problem.waitFor();
        assert.ok(!(await problem.innerText()).includes("settings"), await problem.innerText());
      }
    }
    await checkPage(page, "a draft with an error");
    await page.getByRole("textbox", { name: "deny" }).fill("Write(notes.md)");
    await page.getByRole("alert").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Simulate" }).click();
    await page.getByText("judged again").waitFor();
    await page.getByRole("button", { name: "Show the change" }).click();
    await page.locator(".diff .add").first().waitFor();
    await check("a draft of rules");
    // What is wrong with a draft uses the width.
    await page.getByRole("textbox", { name: "deny" }).fill("Write(((");
    await page.getByRole("button", { name: "Simulate" }).click();
    const problem = page.getByRole("alert").filter({ hasText: "the draft has an error" });
    await problem.waitFor();
    assert.ok((await problem.boundingBox()).width > 300, "a narrow problem");
    await check("a draft with an error");
    // A message does so, too, and is not said on the next page.
    await visit(page, `session/${encodeURIComponent(key)}`);
    const name = `${"a-long-name-".repeat(8)}.txt`;
    await page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from("no image") });
    const message = page.locator(".toasts p.bad");
    await message.waitFor();
    assert.ok((await message.boundingBox()).width > 300, "a narrow message");
    await visit(page, "audit");
    await message.waitFor({ state: "detached", timeout: 2_000 });
    await page.locator("table.list a").first().click();
    await page.getByRole("heading", { name: "Effects" }).waitFor();
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
    await check("a call of the audit log");
    await visit(page, `session/${encodeURIComponent(key)}`);
    await page.locator(".ask").first().waitFor();
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
    await check("a session");
    for (const name of ["Settings", "Rewind"]) {
      await page.getByRole("button", { name }).first().click();
      await page.getByRole("dialog").waitFor();
      await settled(page);
      await check(`the dialog ${name}`);
      await page.keyboard.press("Escape");
    }
    await visit(page, `replay/${encodeURIComponent(key)}`);
    const slider = page.getByRole("slider", { name: "Step" });
    for (let step = 0; step <= Number(await slider.getAttribute("max")); step++) {
      await slider.fill(String(step));
      await settled(page);
      await check(`step ${step} of a replay`);
    }
    await checkNoProblems(page);
  },

  async images() {
    const page = await pair(await openBrowser());
    await ask("picture", "red.png");
    await newSession(page);
    await send(page, SCRIPT(`call Read ${JSON.stringify({ file_path: "red.png" })}`, "turn", "say Done."));
    await said(page, "I see 1 picture.");
    await page.locator(".call-box").first().evaluate((call) => (call.open = true));
    const result = page.getByAltText("image of the result");
    await result.waitFor();
    const facts = (image) => image.evaluate(async (element) => (await element.decode(), [element.naturalWidth, element.src.slice(0, 22)]));
    assert.deepEqual(await facts(result), [2, "data:image/png;base64,"]);
    // An image of a prompt, and what is not an image.
    const png = readFileSync(new URL("../static/icon.png", import.meta.url));
    const input = page.locator("input[type=file]");
    await input.setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("text") });
    await page.getByText("notes.txt is not an image").waitFor();
    await input.setInputFiles({ name: "icon.png", mimeType: "image/png", buffer: png });
    await page.getByText("icon.png").waitFor();
    await send(page, "what is this");
    const sent = page.locator(".item.prompt img.picture");
    await sent.waitFor();
    assert.deepEqual(await facts(sent), [192, "data:image/png;base64,"]);
    await page.reload();
    await sent.waitFor();
    await checkPage(page, "images");
    await checkNoProblems(page);
  },

  async network() {
    const network = await openNetwork();
    networks.push(network);
    const port = Number(new URL(network.address).port);
    const page = await pair(await openBrowser(), undefined, network.address);
    await newSession(page);
    await page.evaluate(() => (window.__same = true));
    // The prompt arrives and its answer does not: it is sent again, and runs once.
    network.lose();
    await send(page, "first");
    await ask("requests", "1");
    network.cut();
    await said(page, "Hello from the model.");
    await page.getByText("Not delivered yet").waitFor({ state: "detached" });
    assert.equal(await page.locator(".item.prompt").getByText("first").count(), 1);
    // Nothing can be reached: what is sent waits, and what happens meanwhile is shown afterwards.
    await send(page, SCRIPT("say Before the break.", bash("touch once.txt"), "turn", "say After the break."));
    await page.locator(".ask").first().waitFor();
    await network.drop();
    await page.getByRole("alert").getByText(/cannot be reached/).waitFor();
    await send(page, "second");
    await page.getByText("Not delivered yet").waitFor();
    await network.restore(port);
    await page.getByText("Not delivered yet").waitFor({ state: "detached" });
    // The answer to an approval is lost: it counts once.
    network.lose();
    await page.getByRole("button", { name: /allow once/i }).click();
    await ask("requests", "3");
    network.cut();
    await said(page, "After the break.");
    await said(page, "Hello from the model.", 1);
    assert.equal(await page.locator(".item.prompt").getByText("second").count(), 1);
    assert.equal(await page.locator(".item.text", { hasText: "Before the break." }).count(), 1);
    assert.ok(await page.evaluate(() => window.__same), "it was reloaded");
    assert.equal(await ask("requests", "4"), 4, "the model was asked more often than needed");
    await checkNoProblems(page);
  },

  async restart() {
    const page = await pair(await openBrowser());
    await newSession(page);
    await send(page, "hello");
    await said(page, "Hello from the model.");
    await page.evaluate(() => (window.__same = true));
    await send(page, "[hang]");
    await page.getByText("one two three").waitFor();
    await ask("kill");
    await page.getByRole("alert").getByText(/gateway cannot be reached/).waitFor();
    await page.getByLabel("Prompt").fill("sent while it was away");
    await page.getByRole("button", { name: /^(Send|Queue)$/ }).click();
    await page.getByText("Not delivered yet").waitFor();
    await ask("start");
    await page.getByText("Not delivered yet").waitFor({ state: "detached" });
    await said(page, "Hello from the model.", 1);
    await page.getByText("Interrupted").first().waitFor();
    assert.equal(await page.locator(".item.prompt").getByText("sent while it was away").count(), 1);
    assert.ok(await page.evaluate(() => window.__same), "it was reloaded");
    // The network drops, and comes back.
    await page.context().setOffline(true);
    await ask("drop");
    await page.context().setOffline(false);
    await page.locator(".offline").waitFor({ state: "detached" });
    await send(page, "once more");
    await said(page, "Hello from the model.", 2);
    // A session that is deleted elsewhere says so.
    const key = decodeURIComponent(new URL(page.url()).hash.split("/")[2]);
    await ask("delete", key);
    await page.getByRole("alert").getByText(/no session|not exist|not found/i).waitFor();
    await visit(page, "sessions");
    await page.getByText("No sessions yet").waitFor();
    await checkNoProblems(page);
  },

  async hostile() {
    const page = await pair(await openBrowser());
    const corpus = [
      "<script>window.__xss=1</script>", "<img src=x onerror=window.__xss=1>", "<svg onload=window.__xss=1>", "\"><iframe src=javascript:window.__xss=1>",
      "[a](javascript:window.__xss=1)", "[b](data:text/html,<script>window.__xss=1</script>)", "![c](https://evil.example/x.png)", "<a href=//evil.example>d</a>",
      "[e](https://evil.example/\" onmouseover=window.__xss=1)", "${window.__xss=1}", "{{constructor.constructor('window.__xss=1')()}}", "<style>*{display:none}</style>", "<form action=//evil.example><button>f</button></form>",
    ];
    const all = corpus.join(" ");
    const key = await newSession(page);
    const name = "<img src=x onerror=window.__xss=1>.md";
    await send(page, `${corpus.join("\n\n")}\n${SCRIPT(
      ...corpus.map((one) => `say ${one}`), ...corpus.map((one) => `think ${one}`),
      `call Write ${JSON.stringify({ file_path: name, content: corpus.join("\n") })}`, "turn",
      bash(`touch '${name}2'; : '${corpus[2]}'`), "turn",
      `call AskUserQuestion ${form(all, corpus.slice(0, 3))}`, "turn", "say **The end.**")}`);
    const passed = async () => {
      for (const path of ["inbox", `session/${encodeURIComponent(key)}`]) {
        await visit(page, path);
        await page.locator(".ask").first().waitFor();
        await check(path);
      }
    };
    const check = async (where) => {
      const found = await page.evaluate(() => ({
        xss: window.__xss ?? null,
        elements: [...document.querySelectorAll("#app script, #app iframe, #app style, #app object, #app embed, #app base, #app form[action]")].map((one) => one.outerHTML),
        handlers: [...document.querySelectorAll("#app *")].filter((one) => [...one.attributes].some((attribute) => attribute.name.startsWith("on"))).map((one) => one.outerHTML),
        links: [...document.querySelectorAll("#app a[href]")].filter((one) => !["http:", "https:", "mailto:"].includes(one.protocol) || (one.origin !== location.origin && (!/noreferrer/.test(one.rel) || one.referrerPolicy !== "no-referrer" || one.target !== "_blank"))).map((one) => one.outerHTML),
        images: [...document.querySelectorAll("#app img")].map((one) => one.getAttribute("src")).filter((src) => !/^(data:image\/|\/icon\.)/.test(src)),
      }));
      assert.deepEqual(found, { xss: null, elements: [], handlers: [], links: [], images: [] }, where);
    };
    await passed();
    await page.getByRole("button", { name: /allow once/i }).click();
    await page.locator(".ask pre").getByText("touch").waitFor();
    await passed();
    await page.getByRole("button", { name: /allow once/i }).click();
    await page.getByRole("button", { name: "Answer" }).waitFor();
    await passed();
    await page.getByRole("button", { name: "Decline" }).click();
    await said(page, "The end.");
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
    await check("session, all open");
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Title").fill(all.slice(0, 190));
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    for (const path of ["sessions", `replay/${encodeURIComponent(key)}`, "audit", "usage", "machine", `audit/${encodeURIComponent(corpus[1])}`, `session/${encodeURIComponent(corpus[1])}`, `audit?text=${encodeURIComponent(corpus[1])}`, `inbox/${encodeURIComponent(corpus[1])}`, encodeURIComponent(corpus[1])]) {
      await visit(page, path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await settled(page);
      await check(path);
    }
    await visit(page, `replay/${encodeURIComponent(key)}`);
    const steps = Number(await page.getByRole("slider").getAttribute("max"));
    for (let step = 0; step <= Math.min(steps, 60); step++) {
      await page.getByRole("slider").fill(String(step));
      await check(`step ${step}`);
    }
    // The name of a sub-agent's work, and of a device that asks.
    const asked = await page.evaluate((name) => new Promise((done) => {
      const socket = new WebSocket(location.origin.replace("http", "ws"));
      socket.onmessage = async (message) => {
        const frame = JSON.parse(message.data);
        if (frame.event !== "connect.challenge") return frame.id && done(frame.error?.details?.code);
        const keys = await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign"]);
        const raw = new Uint8Array(await crypto.subtle.exportKey("raw", keys.publicKey));
        const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
        const id = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
        const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
        const { nonce, ts } = frame.payload;
        const signed = ["v3", id, "webchat-ui", "ui", "operator", "", ts, "", nonce, "web", ""].join("|");
        const signature = text(await crypto.subtle.sign("Ed25519", keys.privateKey, new TextEncoder().encode(signed)));
        socket.send(JSON.stringify({ type: "req", id: "1", method: "connect", params: {
          minProtocol: 4, maxProtocol: 4, role: "operator", caps: ["zero-pairing"], client: { id: "webchat-ui", displayName: name, version: "1", platform: "web", mode: "ui" },
          device: { id, publicKey: text(raw), signature, signedAt: ts, nonce },
        } }));
      };
    }), corpus[1].slice(0, 60));
    assert.equal(asked, "PAIRING_REQUIRED");
    await visit(page, "machine");
    await page.getByText("Ask to be paired").waitFor();
    await page.locator(".card-title", { hasText: "<img" }).waitFor();
    await check("a request to be paired");
    await newSession(page);
    await send(page, SCRIPT(`call Task ${JSON.stringify({ description: corpus[1], prompt: SCRIPT(...corpus.map((one) => `say ${one}`)) })}`, "turn", "say **The second end.**"));
    await said(page, "The second end.");
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
    await page.locator(".subagent .ending").waitFor();
    await check("a sub-agent");
    await visit(page, "audit");
    await page.locator("table.list a").first().click();
    await page.getByRole("heading", { name: "Input" }).waitFor();
    await check("a call");
    // A form of a server, whose own name is hostile, and the name of a model.
    await newSession(page);
    await serverReady(page);
    const hostile = {
      message: all, requestedSchema: { type: "object", properties: {
        text: { type: "string", title: corpus[1], description: all.slice(0, 400), default: corpus[0] },
        one: { type: "string", title: corpus[2], enum: [corpus[0], corpus[1]] },
        yes: { type: "boolean", title: corpus[3] },
        [corpus[1]]: { type: "integer", title: corpus[4], minimum: 1 },
      } },
    };
    await send(page, SCRIPT(`call forms__ask ${JSON.stringify({ text: JSON.stringify(hostile) })}`, "turn", "say **The third end.**"));
    await page.getByRole("button", { name: "Answer" }).waitFor();
    await check("a form of a server");
    await visit(page, "inbox");
    await page.getByRole("button", { name: "Answer" }).waitFor();
    await check("a form of a server in the inbox");
    await page.locator(".answers button.primary:enabled").waitFor();
    await page.locator("input[type=number]").fill("0");
    await page.getByRole("button", { name: "Answer" }).click();
    await page.getByText("At least 1.").waitFor();
    await check("a form that is wrong");
    await page.getByRole("button", { name: "Decline" }).click();
    await page.goBack();
    await said(page, "The third end.");
    await page.getByRole("button", { name: "Settings" }).click();
    await page.locator("select[name=model]").selectOption({ label: "<img src=x onerror=window.__xss=1>" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".facts").getByText("<img src=x").waitFor();
    await check("a model with a hostile name");
    for (const path of ["sessions", "machine", "usage"]) {
      await visit(page, path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await settled(page);
      await check(`${path} with hostile names`);
    }
    await visit(page, "policy");
    await page.getByRole("textbox", { name: "Command" }).fill(`echo '${corpus[1]}'`);
    await page.getByRole("button", { name: "Explain" }).click();
    await page.locator(".tree").waitFor();
    await check("policy");
    await checkNoProblems(page);
  },

  async attacks() {
    const page = await pair(await openBrowser());
    // A page of another origin on this machine: no frame, no socket, no request that changes something.
    const evil = createServer((_, reply) => reply.setHeader("content-type", "text/html").end("<!doctype html><title>evil</title><iframe id=f></iframe>"));
    await new Promise((done) => evil.listen(0, "127.0.0.1", done));
    const origin = `http://127.0.0.1:${evil.address().port}`;
    const other = await page.context().newPage();
    await other.goto(origin);
    const seen = await other.evaluate(async (gateway) => {
      const socket = await new Promise((done) => {
        const made = new WebSocket(gateway.replace("http", "ws"));
        made.onopen = () => done("open");
        made.onerror = () => done("refused");
      });
      const read = await fetch(gateway).then(() => "read", () => "refused");
      const post = await fetch(gateway, { method: "POST", mode: "no-cors", body: "{}" }).then((reply) => reply.type, () => "refused");
      const frame = document.getElementById("f");
      const loaded = new Promise((done) => (frame.onload = done));
      frame.src = gateway;
      await loaded;
      return { socket, read, post };
    }, address);
    assert.deepEqual([seen.socket, seen.read], ["refused", "refused"], String(seen));
    const frames = await Promise.all(other.frames().slice(1).map((frame) => frame.evaluate(() => document.body?.innerText ?? "").catch(() => "")));
    assert.ok(frames.every((text) => !/Inbox|Pair/.test(text)), String(frames));
    evil.close();
    // An address with a foreign gateway or a token in it changes nothing.
    await page.goto(`${address}?gatewayUrl=ws://127.0.0.1:1/&token=abc#/sessions?gatewayUrl=ws://127.0.0.1:1/`);
    await page.getByRole("heading", { level: 1, name: "Sessions" }).waitFor();
    // The browser reports what the attacker's page was refused; the console itself violates nothing.
    problems.splice(0, problems.length, ...problems.filter((one) => !one.includes(origin)));
    await checkNoProblems(page);
  },
};

scenarios.screenshots = () => takeScreenshots({ openBrowser, pair, visit, send, said, settled, newSession, SCRIPT, bash, folder, PHONE });

try {
  const run = scenarios[scenario];
  assert.ok(run, `there is no scenario ${scenario}`);
  await run();
  process.stdout.write(`${JSON.stringify(["done"])}\n`);
} catch (error) {
  console.error(error);
  if (problems.length) console.error("also:", problems);
  for (const context of browser.contexts()) for (const page of context.pages()) {
    console.error(`--- ${page.url()}\n${await page.locator("body").innerText().catch(() => "")}`.slice(0, 3_000));
  }
  process.exitCode = 1;
} finally {
  await browser.close();
  process.exit();
}
