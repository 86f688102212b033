// Drives the real `zero acp` by the official TypeScript SDK. See README.md.
//
//     scripted_model.py node acp_typescript.mjs ZERO SDK_FOLDER [CLAIM]
//
// Each claim has an agent of its own, with a home and a project of its own; the model is the one at
// MODEL_URL. One line is printed for each, and the exit code is 0 when all hold.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [zero, sdkFolder, only] = process.argv.slice(2);
const sdk = createRequire(join(sdkFolder, "package.json")).resolve("@agentclientprotocol/sdk");
const { client, methods, ndJsonStream, PROTOCOL_VERSION } = await import(pathToFileURL(sdk));

const CLAIM_MS_MAX = Number(process.env.PATIENCE ?? "60") * 1000;
const HELLO = "Hello from the model, ünïcode and all.";

// --- an editor -------------------------------------------------------------------------------------

/** A home with the scripted model in its settings, and a project with one file. */
class Place {
  constructor() {
    this.root = mkdtempSync("/var/tmp/zero-interop-");
    this.agents = [];
    this.home = join(this.root, "home");
    this.project = join(this.root, "work");
    mkdirSync(join(this.home, ".config/zero"), { recursive: true });
    mkdirSync(this.project);
    writeFileSync(this.file("hello.txt"), "hello\n");
    const scripted = { api: "chat", model: "scripted", baseUrl: process.env.MODEL_URL, images: true };
    const other = { ...scripted, model: "other" };
    const settings = { models: { scripted, other }, model: "scripted" };
    writeFileSync(join(this.home, ".config/zero/settings.json"), JSON.stringify(settings));
  }

  file(name) {
    return join(this.project, name);
  }

  remove() {
    for (const agent of this.agents) if (agent.exitCode === null) agent.kill("SIGKILL");
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** A client with an agent of its own. What it hears is kept, in the order it was heard. */
class Editor {
  /** Starts an agent and says hello. */
  static async open(place, { buffers, ...options } = {}) {
    const editor = new Editor(place, { buffers, ...options });
    editor.hello = await editor.agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: {
        fs: { readTextFile: buffers !== undefined, writeTextFile: buffers !== undefined },
        ...options.capabilities,
      },
      clientInfo: { name: "interop", version: "1" },
    });
    return editor;
  }

  constructor(place, { buffers, decide = () => undefined }) {
    this.place = place;
    this.heard = [];
    this.asked = [];
    this.errors = "";
    const environment = { HOME: place.home, PATH: process.env.PATH, LANG: "C.UTF-8" };
    this.process = spawn(zero, ["acp"], { cwd: place.project, env: environment });
    place.agents.push(this.process);
    this.ended = new Promise((ended) => this.process.once("exit", ended));
    this.process.stderr.on("data", (text) => (this.errors += text));
    const stream = ndJsonStream(
      Writable.toWeb(this.process.stdin),
      Readable.toWeb(this.process.stdout),
    );
    const app = client({ name: "interop" })
      .onNotification(methods.client.session.update, ({ params }) => this.hear(params))
      .onRequest(methods.client.session.requestPermission, async ({ params }) => {
        this.asked.push(params);
        this.hear({ sessionId: params.sessionId, update: { sessionUpdate: "ASKED", params } });
        const chosen = await decide(params);
        if (chosen === undefined) return { outcome: { outcome: "cancelled" } };
        const option = params.options.find(({ kind }) => kind === chosen);
        return { outcome: { outcome: "selected", optionId: option?.optionId ?? chosen } };
      });
    if (buffers !== undefined) {
      app
        .onRequest(methods.client.fs.readTextFile, ({ params }) => {
          const text = buffers.get(params.path) ?? readFileSync(params.path, "utf8");
          const from = (params.line ?? 1) - 1;
          const lines = text.split("\n").slice(from, from + (params.limit ?? Infinity));
          return { content: params.line || params.limit ? lines.join("\n") : text };
        })
        .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
          buffers.set(params.path, params.content);
          writeFileSync(params.path, params.content);
          return {};
        });
    }
    this.connection = app.connect(stream);
    this.agent = this.connection.agent;
    this.waiting = [];
  }

  hear({ sessionId, update }) {
    this.heard.push({ sessionId, ...update });
    this.waiting = this.waiting.filter(({ condition, resolve }) => !(condition() && (resolve(), true)));
  }

  /** Resolves as soon as something heard makes a condition true. */
  until(condition) {
    return new Promise((resolve) => {
      if (condition()) resolve();
      else this.waiting.push({ condition, resolve });
    });
  }

  new(params = {}) {
    return this.agent.request(methods.agent.session.new, {
      cwd: this.place.project,
      mcpServers: [],
      ...params,
    });
  }

  prompt(sessionId, text, options) {
    const prompt = [{ type: "text", text }];
    return this.agent.request(methods.agent.session.prompt, { sessionId, prompt }, options);
  }

  said(sessionId, kind = "agent_message_chunk") {
    return this.of(sessionId, kind).map(({ content }) => content.text).join("");
  }

  of(sessionId, ...kinds) {
    return this.heard.filter((it) => it.sessionId === sessionId && kinds.includes(it.sessionUpdate));
  }

  /** What was said of calls, in order. */
  calls(sessionId) {
    return this.of(sessionId, "tool_call", "tool_call_update");
  }

  /** Hangs up, and waits until the agent has ended by itself. */
  async close() {
    this.process.stdin.end();
    const code = await Promise.race([this.ended, sleep(10_000).then(() => "nothing yet")]);
    check(code === 0, `the agent ended with ${code} after its input did: ${this.errors}`);
  }
}

function check(holds, why) {
  if (!holds) throw new Error(typeof why === "string" ? why : JSON.stringify(why));
}

function sleep(time) {
  return new Promise((resolve) => setTimeout(resolve, time).unref());
}

/** The error that a request is answered with. */
async function refused(request) {
  try {
    const answer = await request;
    throw new Error(`it was not refused: ${JSON.stringify(answer)}`);
  } catch (error) {
    check(typeof error.code === "number", `no answer of the protocol: ${error}`);
    return error;
  }
}

// --- the claims --------------------------------------------------------------------------------------

const claims = {
  async "initialize is answered with what is offered"(place) {
    const editor = await Editor.open(place);
    const { protocolVersion, agentInfo, agentCapabilities: can } = editor.hello;
    check(protocolVersion === 1 && agentInfo.name === "zero", editor.hello);
    check(can.loadSession && can.promptCapabilities.image && can.mcpCapabilities.http, can);
    const { list, resume, close } = can.sessionCapabilities;
    check(list && resume && close && can.sessionCapabilities.delete, can);
    await editor.close();
  },

  async "an answer streams, and ends"(place) {
    const editor = await Editor.open(place);
    const { sessionId, modes, configOptions } = await editor.new();
    check(modes.currentModeId === "ask" && configOptions.length >= 3, { modes, configOptions });
    const { stopReason } = await editor.prompt(sessionId, "hi");
    check(stopReason === "end_turn", stopReason);
    check(editor.said(sessionId) === HELLO, editor.said(sessionId));
    check(editor.of(sessionId, "agent_message_chunk").length > 1, "it came in one piece");
    await editor.close();
  },

  async "an answer that was cut says so"(place) {
    const editor = await Editor.open(place);
    const { sessionId } = await editor.new();
    const { stopReason } = await editor.prompt(sessionId, "[long]");
    check(stopReason === "max_tokens", stopReason);
    await editor.close();
  },

  async "a tool call is told from its start to its end"(place) {
    const editor = await Editor.open(place);
    const { sessionId } = await editor.new();
    await editor.prompt(sessionId, "[read]");
    const [first, ...others] = editor.calls(sessionId);
    check(first.sessionUpdate === "tool_call" && first.kind === "read", first);
    const places = editor.calls(sessionId).flatMap(({ locations }) => locations ?? []);
    check(places.some(({ path }) => path === place.file("hello.txt")), editor.calls(sessionId));
    check(others.every((it) => it.toolCallId === first.toolCallId), others);
    check(others.at(-1).status === "completed", others);
    const said = editor.said(sessionId);
    check(said.startsWith("I look first.") && /The tool said: .*hello/s.test(said), said);
    check(editor.asked.length === 0, editor.asked);
    await editor.close();
  },

  async "permission: a yes has the call run, after the change was shown"(place) {
    const editor = await Editor.open(place, { decide: () => "allow_once" });
    const { sessionId } = await editor.new();
    const { stopReason } = await editor.prompt(sessionId, "[write]");
    check(stopReason === "end_turn", stopReason);
    check(readFileSync(place.file("made.txt"), "utf8") === "made\n", "nothing was written");
    const told = editor.of(sessionId, "tool_call", "ASKED", "tool_call_update");
    check(told[0].sessionUpdate === "tool_call", told);
    const asked = told.findIndex((it) => it.sessionUpdate === "ASKED");
    check(told.slice(0, asked).every((it) => (it.status ?? "pending") === "pending"), told);
    const [{ toolCall, options }] = editor.asked;
    check(toolCall.toolCallId === told[0].toolCallId, toolCall);
    const [diff] = toolCall.content;
    check(diff.type === "diff" && diff.newText === "made\n", toolCall);
    check(diff.path === place.file("made.txt"), toolCall);
    const kinds = options.map(({ kind }) => kind);
    check(kinds.includes("allow_once") && kinds.includes("reject_once"), options);
    check(new Set(kinds).size === kinds.length, options);
    check(told.at(-1).status === "completed", told);
    await editor.close();
  },

  async "permission: a no does not, and the turn goes on"(place) {
    const editor = await Editor.open(place, { decide: () => "reject_once" });
    const { sessionId } = await editor.new();
    const { stopReason } = await editor.prompt(sessionId, "[write]");
    check(stopReason === "end_turn", stopReason);
    check(!existsSync(place.file("made.txt")), "it was written though denied");
    check(editor.calls(sessionId).at(-1).status === "failed", editor.calls(sessionId));
    check(editor.said(sessionId).includes("The tool said:"), editor.said(sessionId));
    await editor.close();
  },

  async "permission: an answer that was not offered is a no"(place) {
    const editor = await Editor.open(place, { decide: () => "whatever" });
    const { sessionId } = await editor.new();
    await editor.prompt(sessionId, "[write]");
    check(editor.asked.length === 1, editor.asked);
    check(!existsSync(place.file("made.txt")), "it was written");
    await editor.close();
  },

  async "cancel ends a prompt in mid-stream, and the session goes on"(place) {
    const editor = await Editor.open(place);
    const { sessionId } = await editor.new();
    const slow = editor.prompt(sessionId, "[slow]");
    await editor.until(() => editor.said(sessionId).includes("3 "));
    await editor.agent.notify(methods.agent.session.cancel, { sessionId });
    check((await slow).stopReason === "cancelled", await slow);
    const heard = editor.said(sessionId);
    check((await editor.prompt(sessionId, "hi")).stopReason === "end_turn", "it does not go on");
    check(editor.said(sessionId) === heard + HELLO, editor.said(sessionId));
    await editor.close();
  },

  async "cancel ends a prompt that waits for a permission"(place) {
    let asked;
    const isAsked = new Promise((resolve) => (asked = resolve));
    let withdraw;
    const decide = () => (asked(), new Promise((resolve) => (withdraw = resolve)));
    const editor = await Editor.open(place, { decide });
    const { sessionId } = await editor.new();
    const prompt = editor.prompt(sessionId, "[write]");
    await isAsked;
    await editor.agent.notify(methods.agent.session.cancel, { sessionId });
    withdraw(undefined);
    check((await prompt).stopReason === "cancelled", await prompt);
    check(!existsSync(place.file("made.txt")), "it was written");
    check(editor.calls(sessionId).at(-1).status === "failed", editor.calls(sessionId));
    await editor.close();
  },

  async "a request that is cancelled by its id is answered as cancelled"(place) {
    const editor = await Editor.open(place);
    const { sessionId } = await editor.new();
    const abort = new AbortController();
    const slow = editor.prompt(sessionId, "[slow]", { cancellationSignal: abort.signal });
    await editor.until(() => editor.said(sessionId).includes("3 "));
    abort.abort();
    check((await slow).stopReason === "cancelled", await slow);
    await editor.close();
  },

  async "two prompts at once are both answered"(place) {
    const editor = await Editor.open(place);
    const { sessionId } = await editor.new();
    const both = [editor.prompt(sessionId, "one"), editor.prompt(sessionId, "two")];
    const reasons = (await Promise.all(both)).map(({ stopReason }) => stopReason);
    check(reasons.every((reason) => reason === "end_turn"), reasons);
    check(editor.said(sessionId) === HELLO + HELLO, editor.said(sessionId));
    await editor.close();
  },

  async "another process lists a session, and loads it with its calls"(place) {
    const first = await Editor.open(place);
    const { sessionId } = await first.new();
    await first.prompt(sessionId, "[read] first");
    await first.close();
    const second = await Editor.open(place);
    const { sessions } = await second.agent.request(methods.agent.session.list, { cwd: place.project });
    const [listed] = sessions.filter((it) => it.sessionId === sessionId);
    check(listed?.cwd === place.project && !Number.isNaN(Date.parse(listed.updatedAt)), sessions);
    const elsewhere = await second.agent.request(methods.agent.session.list, { cwd: place.home });
    check(elsewhere.sessions.length === 0, elsewhere);
    const load = { sessionId, cwd: place.project, mcpServers: [] };
    await second.agent.request(methods.agent.session.load, load);
    check(second.said(sessionId, "user_message_chunk").includes("[read] first"), second.heard);
    check(second.said(sessionId) === first.said(sessionId), second.said(sessionId));
    const [call, ...others] = second.calls(sessionId);
    check(call.kind === "read" && [call, ...others].at(-1).status === "completed", second.heard);
    check((await second.prompt(sessionId, "hi")).stopReason === "end_turn", "it does not go on");
    await second.close();
  },

  async "resume goes on without a replay, close and delete end a session"(place) {
    const first = await Editor.open(place);
    const { sessionId } = await first.new();
    await first.prompt(sessionId, "hi");
    await first.agent.request(methods.agent.session.close, { sessionId });
    check((await refused(first.prompt(sessionId, "hi"))).code === -32002, "it is still open");
    await first.close();
    const second = await Editor.open(place);
    const resume = { sessionId, cwd: place.project, mcpServers: [] };
    await second.agent.request(methods.agent.session.resume, resume);
    check(second.said(sessionId) === "", "it was replayed");
    check((await second.prompt(sessionId, "hi")).stopReason === "end_turn", "it does not go on");
    await second.agent.request(methods.agent.session.delete, { sessionId });
    const { sessions } = await second.agent.request(methods.agent.session.list, {});
    check(sessions.every((it) => it.sessionId !== sessionId), sessions);
    await second.close();
  },

  async "a mode decides what is asked about"(place) {
    const editor = await Editor.open(place);
    const { sessionId } = await editor.new();
    const mode = { sessionId, modeId: "accept-edits" };
    await editor.agent.request(methods.agent.session.setMode, mode);
    await editor.prompt(sessionId, "[write]");
    check(editor.asked.length === 0, editor.asked);
    check(existsSync(place.file("made.txt")), "nothing was written");
    const wrong = editor.agent.request(methods.agent.session.setMode, { sessionId, modeId: "none" });
    check((await refused(wrong)).code === -32602, "an unknown mode was taken");
    await editor.close();
  },

  async "options: each is answered with all of them"(place) {
    const editor = await Editor.open(place);
    const { sessionId, configOptions: before } = await editor.new();
    const set = (configId, value) =>
      editor.agent.request(methods.agent.session.setConfigOption, { sessionId, configId, value });
    const value = (options, wanted) => options.find(({ id }) => id === wanted)?.currentValue;
    const changes = { mode: "auto", model: "other", thought_level: "low" };
    for (const [id, wanted] of Object.entries(changes)) {
      const { configOptions } = await set(id, wanted);
      check(configOptions.length === before.length, configOptions);
      check(value(configOptions, id) === wanted, configOptions);
    }
    check((await refused(set("model", "none"))).code === -32602, "an unknown value was taken");
    check((await refused(set("none", "none"))).code === -32602, "an unknown option was taken");
    await editor.close();
  },

  async "a command runs confined, and what it prints is shown"(place) {
    const editor = await Editor.open(place, { decide: () => "allow_once" });
    const { sessionId } = await editor.new();
    await editor.prompt(sessionId, "[shell]");
    check(editor.said(sessionId).includes("from the shell"), editor.said(sessionId));
    const last = editor.calls(sessionId).at(-1);
    check(last.status === "completed", editor.calls(sessionId));
    const kinds = editor.calls(sessionId).map(({ kind }) => kind);
    check(kinds.includes("execute"), kinds);
    const shown = JSON.stringify(editor.calls(sessionId).map(({ content }) => content));
    check(shown.includes("from the shell"), shown);
    await editor.close();
  },

  async "what a command prints goes to a terminal of the client's, if it has any"(place) {
    const capabilities = { _meta: { terminal_output: true } };
    const editor = await Editor.open(place, { capabilities, decide: () => "allow_once" });
    const { sessionId } = await editor.new();
    await editor.prompt(sessionId, "[shell]");
    const meta = editor.calls(sessionId).flatMap((it) => (it._meta ? [it._meta] : []));
    const terminal = meta.find((it) => it.terminal_info)?.terminal_info.terminal_id;
    check(terminal, editor.calls(sessionId));
    const output = meta.flatMap((it) => (it.terminal_output ? [it.terminal_output] : []));
    check(output.every((it) => it.terminal_id === terminal), output);
    check(output.map(({ data }) => data).join("").includes("from the shell"), output);
    const ends = meta.filter((it) => it.terminal_exit?.terminal_id === terminal);
    check(ends.length === 1 && ends[0].terminal_exit.exit_code === 0, meta);
    await editor.close();
  },

  async "buffers: what is not saved yet is read, and a write goes by the editor"(place) {
    const buffers = new Map([[place.file("hello.txt"), "not saved yet\n"]]);
    const editor = await Editor.open(place, { buffers, decide: () => "allow_once" });
    const { sessionId } = await editor.new();
    await editor.prompt(sessionId, "[read]");
    check(editor.said(sessionId).includes("not saved yet"), editor.said(sessionId));
    await editor.prompt(sessionId, "[write]");
    check(buffers.get(place.file("made.txt")) === "made\n", [...buffers]);
    await editor.close();
  },

  async "tools can be used without a model, by the same permissions"(place) {
    const answers = ["allow_once", "reject_once"];
    const editor = await Editor.open(place, { decide: () => answers.shift() });
    const { sessionId } = await editor.new();
    const { tools } = await editor.agent.request("_zero/tools/list", { sessionId });
    const names = tools.map(({ name }) => name);
    check(["Read", "Write", "Edit", "Bash"].every((name) => names.includes(name)), names);
    const use = (toolCallId, toolName, input) =>
      editor.agent.request("_zero/tools/use", { sessionId, toolCallId, toolName, input });
    const read = await use("own-1", "Read", { file_path: "hello.txt" });
    check(!read.isError && JSON.stringify(read.content).includes("hello"), read);
    check(read.toolCallId === "own-1", read);
    const write = (id, name) => use(id, "Write", { file_path: name, content: "made\n" });
    check(!(await write("own-2", "yes.txt")).isError, "a yes was not taken");
    check((await write("own-3", "no.txt")).isError, "a no was not taken");
    check(existsSync(place.file("yes.txt")) && !existsSync(place.file("no.txt")), "not as decided");
    check(editor.asked.length === 2, editor.asked);
    check((await refused(editor.agent.request("_zero/none", {}))).code === -32601, "taken");
    await editor.close();
  },

  async "bad requests get the code they deserve"(place) {
    const editor = await Editor.open(place);
    const code = async (request) => (await refused(request)).code;
    check((await code(editor.new({ cwd: "relative" }))) === -32602, "a relative folder was taken");
    check((await code(editor.new({ cwd: "/" }))) === -32602, "the root was taken");
    check((await code(editor.new({ cwd: place.file("none") }))) === -32602, "no folder was taken");
    check((await code(editor.prompt("none", "hi"))) === -32002, "an unknown session was taken");
    const load = { sessionId: "acp:none", cwd: place.project, mcpServers: [] };
    const loaded = editor.agent.request(methods.agent.session.load, load);
    check((await code(loaded)) === -32002, "an unknown session was loaded");
    check((await editor.new()).sessionId, "the connection has suffered");
    await editor.close();
  },
};

// --- the rig -----------------------------------------------------------------------------------------

let failed = 0;
for (const [name, claim] of Object.entries(claims)) {
  if (only && !name.includes(only)) continue;
  const place = new Place();
  try {
    const late = sleep(CLAIM_MS_MAX).then(() => {
      throw new Error("it took too long");
    });
    await Promise.race([claim(place), late]);
    console.log(`  holds  ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`  FAILS  ${name}: ${error.message.slice(0, 2000)}`);
  } finally {
    place.remove();
  }
}
process.exit(failed ? 1 : 0);
