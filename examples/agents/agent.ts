// An agent in TypeScript on `zero mcp`. It needs Node 22.18 or newer, and no packages:
//
//   MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3:8b node agent.ts "what does notes.txt say?"
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

type Json = Record<string, any>;

const TURNS_MAX = 20;
const zero = spawn("zero", ["mcp"], { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map<number, { resolve: (result: Json) => void; reject: (error: Error) => void }>();
let lastId = 0;

const send = (message: Json) => zero.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

function request(method: string, params: Json): Promise<Json> {
  const id = ++lastId;
  send({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

createInterface({ input: zero.stdout }).on("line", (line) => {
  const message: Json = JSON.parse(line);
  if (message.method && message.id !== undefined) {
    // zero asks about a call with a form. This agent has nobody to show it to.
    const result = message.method === "elicitation/create" ? { action: "decline" } : {};
    return send({ id: message.id, result });
  }
  const call = waiting.get(message.id);
  waiting.delete(message.id);
  if (message.error) call?.reject(new Error(message.error.message));
  else call?.resolve(message.result);
});

async function complete(messages: Json[], tools: Json[]): Promise<Json> {
  const key = process.env.MODEL_KEY;
  const answer = await fetch(`${process.env.MODEL_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({ model: process.env.MODEL ?? "default", messages, tools }),
  });
  if (!answer.ok) throw new Error(`the model answered ${answer.status}`);
  return ((await answer.json()) as Json).choices[0].message;
}

async function main(prompt: string): Promise<void> {
  await request("initialize", {
    protocolVersion: "2025-11-25",
    capabilities: { elicitation: {} },
    clientInfo: { name: "agent", version: "1.0" },
  });
  send({ method: "notifications/initialized" });
  const listed = await request("tools/list", {});
  const tools = listed.tools.map((tool: Json) => ({
    type: "function",
    function: { name: tool.name, description: tool.description, parameters: tool.inputSchema },
  }));
  const messages: Json[] = [{ role: "user", content: prompt }];
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    const message = await complete(messages, tools);
    messages.push(message);
    for (const call of message.tool_calls ?? []) {
      const result = await request("tools/call", {
        name: call.function.name,
        arguments: JSON.parse(call.function.arguments),
      });
      const text = result.content.map((part: Json) => part.text ?? "").join("\n");
      messages.push({ role: "tool", tool_call_id: call.id, content: text });
    }
    if (!message.tool_calls?.length) return console.log(message.content);
  }
  throw new Error("the model did not finish");
}

main(process.argv.slice(2).join(" "))
  .catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  })
  .finally(() => zero.stdin.end());
