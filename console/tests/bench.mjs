// Measures the console in a real browser, with a gateway and a model of its own, for `cargo xtask bench`.
// Prints the figures as one line of JSON.
//
//   node bench.mjs ZERO FOLDER RUNS SECONDS [EVENTS]

import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { webcrypto } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const { ws: WebSocket } = createRequire(import.meta.url)("playwright-core/lib/utilsBundle");
const [zero, folder, runs, seconds] = [process.argv[2], process.argv[3], Number(process.argv[4]), Number(process.argv[5])];
const SESSIONS = 1_000;
const EVENTS = Number(process.argv[6] ?? 20_000);
/** Calls of one reply, and replies of one prompt, that fill a ledger. */
const CALLS = 50;
const ROUNDS = 8;
const STREAMED = 500;
const CONSOLES = 200;
/** Sessions that 200 consoles watch, and words of each in a second. */
const WATCHED = 10;
const WATCHED_WORDS = 100;
/** What the console does by itself, in milliseconds. */
const INBOX_MS = 2_000;
const SESSIONS_MS = 4_000;
const FRAMES = 240;

const now = () => performance.timeOrigin + performance.now();
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const quantile = (values, share) => [...values].sort((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))];
const median = (values) => quantile(values, 0.5);
const note = (text) => process.stderr.write(`   console: ${text}\n`);

// The model.

function textOf(content) {
  return typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("");
}

const model = createServer((request, response) => {
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => void answer(JSON.parse(body), response));
});

async function answer(asked, response) {
  response.writeHead(200, { "content-type": "text/event-stream", connection: "close" });
  const send = (delta, finish) => response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish ?? null }] })}\n\n`);
  const last = asked.messages.findLastIndex((message) => message.role === "user");
  const round = asked.messages.slice(last).filter((message) => message.role === "assistant").length;
  const [verb, first, second] = textOf(asked.messages[last].content).trim().split(/\s+/);
  if (verb === "calls" && round < ROUNDS) {
    for (let at = 0; at < CALLS; at++) {
      const call = { name: "Glob", arguments: JSON.stringify({ pattern: `none-${first}-${round}-${at}` }) };
      send({ tool_calls: [{ index: at, id: `call_${first}_${round}_${at}`, type: "function", function: call }] });
    }
    send({}, "tool_calls");
  } else if (verb === "stream") {
    // In bursts of as many words as are due, so that the rate is kept on a busy machine.
    const begin = now();
    let sent = 0;
    while (now() - begin < Number(second) * 1_000 && !response.destroyed) {
      const due = Math.floor(((now() - begin) / 1_000) * Number(first));
      for (; sent < due; sent++) send({ content: sent % 40 === 39 ? "and\n\n" : `@${now().toFixed(1)} ` });
      await pause(1);
    }
    send({}, "stop");
  } else {
    send({ content: "Done." });
    send({}, "stop");
  }
  response.end("data: [DONE]\n\n");
}

await new Promise((done) => model.listen(0, "127.0.0.1", done));

// The gateway.

mkdirSync(`${folder}/home/.config/zero`, { recursive: true });
mkdirSync(`${folder}/work`, { recursive: true });
const scripted = { api: "chat", model: "scripted", baseUrl: `http://127.0.0.1:${model.address().port}/v1`, contextWindow: 100_000_000 };
writeFileSync(`${folder}/home/.config/zero/settings.json`, JSON.stringify({ models: { scripted }, model: "scripted" }));
const environment = { PATH: "/usr/bin:/bin", HOME: `${folder}/home`, SHELL: "/bin/sh" };
const gateway = spawn(zero, ["gateway", "--port", "0", "--json", "--grace", "1s"], { cwd: `${folder}/work`, env: environment, stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => gateway.kill("SIGKILL"));
const ready = await new Promise((done) => createInterface({ input: gateway.stdout }).once("line", (line) => done(JSON.parse(line))));
const address = ready.url.replace("ws:", "http:") + "/";
const peakBytes = () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.pid}/status`, "utf8"))[1]) * 1024;
const newCode = () => JSON.parse(execFileSync(zero, ["console", "--json", "--scopes", "admin"], { cwd: `${folder}/work`, env: environment })).code;

// Clients without a browser, with a device key like it.

const keys = await webcrypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
const publicKey = new Uint8Array(await webcrypto.subtle.exportKey("raw", keys.publicKey));
const deviceId = Buffer.from(await webcrypto.subtle.digest("SHA-256", publicKey)).toString("hex");
const base64Url = (bytes) => Buffer.from(bytes).toString("base64url");
let deviceToken = null;

/** A connection that is let in. `hear` gets each frame that is no answer, as text. */
async function connect(hear = () => {}) {
  const socket = new WebSocket(ready.url, { perMessageDeflate: false });
  const waiting = new Map();
  let count = 0;
  const call = (method, params) => new Promise((done, failed) => {
    const id = String(++count);
    waiting.set(id, { done, failed });
    socket.send(JSON.stringify({ type: "req", id, method, params }));
  });
  let greeted;
  const challenge = new Promise((done) => (greeted = done));
  socket.on("error", (error) => note(String(error)));
  socket.on("message", (data) => {
    const text = data.toString();
    if (!text.startsWith('{"type":"res"') && !text.includes('"connect.challenge"')) return hear(text);
    const frame = JSON.parse(text);
    if (frame.event) return greeted(frame.payload);
    const one = waiting.get(frame.id);
    waiting.delete(frame.id);
    if (frame.ok) one?.done(frame.payload);
    else one?.failed(new Error(JSON.stringify(frame.error)));
  });
  const { nonce, ts } = await challenge;
  const secret = deviceToken ?? newCode();
  const client = { id: "webchat-ui", displayName: "bench", version: "1", platform: "web", mode: "ui" };
  const signed = ["v3", deviceId, client.id, client.mode, "operator", "", ts, secret, nonce, "web", ""].join("|");
  const signature = base64Url(await webcrypto.subtle.sign("Ed25519", keys.privateKey, Buffer.from(signed)));
  const hello = await call("connect", {
    minProtocol: 4, maxProtocol: 4, client, role: "operator", caps: ["zero-events"],
    auth: deviceToken ? { deviceToken } : { bootstrapToken: secret },
    device: { id: deviceId, publicKey: base64Url(publicKey), signature, signedAt: ts, nonce },
  });
  deviceToken ??= hello.auth.deviceToken;
  return { call, close: () => socket.close() };
}

const own = await connect();
/** Opens a session without watching it. */
const open = async (name) => {
  const { sessionKey } = await own.call("zero.sessions.open", { sessionKey: name });
  await own.call("zero.sessions.unsubscribe", { sessionKey });
  return sessionKey;
};
const send = (sessionKey, message) => own.call("chat.send", { sessionKey, message, idempotencyKey: `bench-${Math.random()}` });
const finished = async (runId) => {
  for (;;) {
    const { status } = await own.call("agent.wait", { runId, timeoutMs: 30_000 });
    if (status !== "timeout") return;
  }
};

note(`${SESSIONS} sessions`);
for (let at = 0; at < SESSIONS; at += 50) {
  await Promise.all(Array.from({ length: 50 }, (_, more) => open(`session-${at + more}`)));
}
note(`a session of ${EVENTS} events`);
const long = await open("long");
for (let at = 0; (await own.call("zero.sessions.show", { sessionKey: long })).lastSeq < EVENTS; at++) {
  await finished((await send(long, `calls ${at}`)).runId);
  await own.call("sessions.reset", { key: long });
}
const longEvents = (await own.call("zero.sessions.show", { sessionKey: long })).lastSeq;

// The browser.

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
/** When something is first on the screen, from the start of the page or of a step. */
await context.addInitScript(() => {
  window.whenShown = (selector) => new Promise((done) => {
    const look = () => document.querySelector(selector) && (watcher.disconnect(), requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
    const watcher = new MutationObserver(look);
    watcher.observe(document, { childList: true, subtree: true });
    look();
  });
  window.firstRow = window.whenShown(".rows a.row");
});
const pairing = await context.newPage();
await pairing.goto(address);
await pairing.getByLabel("Code").fill(newCode());
await pairing.getByRole("button", { name: "Pair", exact: true }).click();
await pairing.getByRole("navigation", { name: "Pages" }).waitFor();
await pairing.close();

note("first paint and opening");
const paints = [];
const opens = [];
for (let run = 0; run < runs + 1; run++) {
  const page = await context.newPage();
  await page.goto(`${address}#/sessions`);
  const paint = await page.evaluate(() => window.firstRow);
  const opened = await page.evaluate(async (key) => {
    const begin = performance.now();
    location.hash = `#/session/${encodeURIComponent(key)}`;
    return (await window.whenShown(".log .item")) - begin;
  }, long);
  // The first one fills the caches of the browser.
  if (run > 0) (paints.push(paint), opens.push(opened));
  await page.close();
}

const page = await context.newPage();
const tools = await context.newCDPSession(page);
await tools.send("Performance.enable");
const metrics = async () => Object.fromEntries((await tools.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
const heap = async () => {
  for (let at = 0; at < 3; at++) await tools.send("HeapProfiler.collectGarbage");
  return (await metrics()).JSHeapUsedSize;
};

note("scrolling");
await page.goto(`${address}#/session/${encodeURIComponent(long)}`);
await page.locator(".log .item").first().waitFor();
await pause(500);
const beforeScroll = await metrics();
const frames = await page.evaluate((count) => new Promise((done) => {
  const times = [];
  const step = (at) => {
    times.push(at);
    if (times.length > count) return done(times);
    window.scrollBy(0, -90);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}), FRAMES);
const afterScroll = await metrics();
const spans = frames.slice(1).map((at, index) => at - frames[index]);

note(`${STREAMED} events a second`);
const streamed = await open("streamed");
await page.goto("about:blank");
let heard = 0;
page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => (heard += String(payload).includes('"zero.session.event"') ? 1 : 0)));
await page.goto(`${address}#/session/${encodeURIComponent(streamed)}`);
await page.getByLabel("Prompt").waitFor();
// What is made once is made before.
await finished((await send(streamed, `stream ${STREAMED} 2`)).runId);
await pause(500);
const heapBefore = await heap();
const before = await metrics();
heard = 0;
const begin = now();
for (let left = seconds; left > 0; left -= 5) await finished((await send(streamed, `stream ${STREAMED} ${Math.min(5, left)}`)).runId);
const took = (now() - begin) / 1_000;
const after = await metrics();
const perSecond = heard / took;
const heapAfter = await heap();
await page.close();
await browser.close();

note(`${CONSOLES} consoles`);
const watched = [];
for (let at = 0; at < WATCHED; at++) watched.push(await open(`watched-${at}`));
const delays = [];
let isMeasuring = false;
let watchedEvents = 0;
const hear = (text) => {
  if (!isMeasuring || !text.includes('"zero.session.event"')) return;
  watchedEvents++;
  const at = text.lastIndexOf("@");
  if (at >= 0) delays.push(now() - Number.parseFloat(text.slice(at + 1, at + 20)));
};
const consoles = [];
for (let at = 0; at < CONSOLES; at++) consoles.push(await connect(hear));
await Promise.all(consoles.map((one, at) => one.call("zero.sessions.subscribe", { sessionKey: watched[at % WATCHED] })));
const timers = consoles.flatMap((one) => [
  setInterval(() => void one.call("zero.approvals.list", {}), INBOX_MS),
  setInterval(() => void one.call("zero.sessions.list", { limit: 50 }), SESSIONS_MS),
]);
const watchedSeconds = Math.min(seconds, 10);
const watchedRuns = await Promise.all(watched.map((key) => send(key, `stream ${WATCHED_WORDS} ${watchedSeconds + 2}`)));
await pause(1_000);
isMeasuring = true;
await pause(watchedSeconds * 1_000);
isMeasuring = false;
await Promise.all(watchedRuns.map(({ runId }) => finished(runId)));
timers.forEach(clearInterval);
consoles.forEach((one) => one.close());
assert.ok(delays.length > 0, "no console heard anything");

console.log(JSON.stringify({
  paint_ms: median(paints), open_ms: median(opens), long_events: longEvents,
  frames_per_second: 1_000 / (spans.reduce((sum, span) => sum + span, 0) / spans.length),
  frame_p95_ms: quantile(spans, 0.95), frame_work_ms: ((afterScroll.TaskDuration - beforeScroll.TaskDuration) * 1_000) / FRAMES,
  streamed_per_second: perSecond, busy: (after.TaskDuration - before.TaskDuration) / took,
  grown_bytes: Math.max(0, heapAfter - heapBefore), streamed_events: heard,
  consoles_per_second: watchedEvents / watchedSeconds, late_p50_ms: median(delays), late_p99_ms: quantile(delays, 0.99), gateway_bytes: peakBytes(),
}));
gateway.kill("SIGTERM");
process.exit(0);
