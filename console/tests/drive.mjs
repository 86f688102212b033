// Drives the console in a real browser, for the tests of `zero`. The test answers what this program asks
// on standard output, such as a pairing code, by one line on standard input.
//
//   node drive.mjs SCENARIO GATEWAY_ADDRESS [FOLDER]

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
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
    if (!url.startsWith(address) && !/^(data|blob|ws):/.test(url)) problems.push(`request elsewhere: ${url}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => (window.__violations ??= []).push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  return page;
}

async function pair(page, code) {
  await page.goto(address);
  await page.getByLabel("Code").fill(code ?? (await ask("code")));
  await page.getByRole("button", { name: "Pair", exact: true }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  return page;
}

async function visit(page, path) {
  await page.evaluate((to) => (location.hash = `#/${to}`), path);
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
    // The slider shows what a call would touch, what decided and what changed.
    await page.setViewportSize(WIDE);
    await page.getByRole("slider", { name: "Step" }).focus();
    await page.keyboard.press("Home");
    const headings = page.getByRole("heading", { name: "What decided" });
    for (let step = 0; step < 40 && !(await headings.isVisible()); step++) await page.keyboard.press("ArrowRight");
    await headings.waitFor();
    await page.locator("aside").getByText("notes.md").first().waitFor();
    await page.getByRole("heading", { name: "What changed" }).waitFor();
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
    await page.getByRole("textbox", { name: "deny" }).fill("Write(notes.md)");
    await page.getByRole("button", { name: "Simulate" }).click();
    await page.getByText("judged again").waitFor();
    await page.getByText("Decided differently").waitFor();
    await page.getByRole("button", { name: "Show the change" }).click();
    await page.locator(".diff .add").getByText("Write(notes.md)").waitFor();
    await checkPage(page, "a draft of rules");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("Saved to").waitFor();
    assert.match(await ask("settings"), /Write\(notes\.md\)/);
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
    const choice = page.getByLabel("green");
    await choice.first().check();
    await page.getByRole("button", { name: "Answer" }).click();
    await page.goto(session);
    await said(page, "Thank you.");
    // A run that hangs is stopped; what is queued meanwhile waits.
    await send(page, "[hang]");
    await page.getByText("one two three").waitFor();
    await send(page, "and then");
    await page.getByRole("button", { name: /^Stop/ }).click();
    await page.getByRole("button", { name: "Stop?" }).click();
    await page.getByText(/^Stopped by/).first().waitFor();
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
    await second.getByRole("button", { name: /Ask a paired device/ }).click();
    const words = await second.locator(".pair-code").innerText();
    await visit(first, "machine");
    await first.getByText(words).waitFor();
    await checkPage(first, "a request to be paired");
    await first.getByRole("button", { name: /^Pair: / }).click();
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    await visit(second, "machine");
    await second.getByText("It may: read, approvals, questions.").waitFor();
    await visit(second, "audit");
    await second.getByText("needs the admin scope").waitFor();
    assert.equal(await second.getByRole("button", { name: "New session" }).count(), 0);
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
    const row = first.locator(".row", { hasText: "seen" }).filter({ hasNotText: "this browser" });
    await row.getByRole("button", { name: "Revoke" }).click();
    await row.getByRole("button", { name: "Really revoke?" }).click();
    await second.getByText("its token was revoked").waitFor();
    assert.ok(await second.evaluate(() => window.__same));
    const again = await ask("code", "read");
    await second.getByLabel("Code").fill(again.toLowerCase().replace("-", ""));
    await second.getByRole("button", { name: "Pair", exact: true }).click();
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    await ask("revoke");
    await second.getByText("its token was revoked").waitFor();
    await checkNoProblems(first, second);
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
    await visit(page, "audit");
    await page.locator("table.list a").first().click();
    await page.getByRole("heading", { name: "Input" }).waitFor();
    await check("a call");
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
    problems.splice(0, problems.length, ...problems.filter((one) => !one.includes(origin)));
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
