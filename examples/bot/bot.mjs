// A bot on the gateway: sends each line of stdin as a prompt and prints the answer. It needs Node with
// WebSocket (22, or 20 with --experimental-websocket), and no packages:
//
//   GATEWAY_URL=ws://127.0.0.1:18789 GATEWAY_TOKEN=… node bot.mjs
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";

const socket = new WebSocket(process.env.GATEWAY_URL);
const waiting = new Map();
let lastId = 0;

function request(method, params) {
  const id = String(++lastId);
  socket.send(JSON.stringify({ type: "req", id, method, params }));
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

async function answer(prompt) {
  const run = await request("chat.send", {
    sessionKey: process.env.SESSION ?? "agent:main:bot",
    message: prompt,
    idempotencyKey: randomUUID(),
  });
  let ended;
  do {
    // Returns `timeout` while the run goes on.
    ended = await request("agent.wait", { runId: run.runId, timeoutMs: 30_000 });
  } while (ended.status === "timeout");
  const history = await request("chat.history", {
    sessionKey: process.env.SESSION ?? "agent:main:bot",
    limit: 1,
  });
  const last = history.messages.at(-1)?.content;
  const text = typeof last === "string" ? last : last?.map((part) => part.text ?? "").join("");
  return ended.status === "ok" ? text : `the run ended as ${ended.status}: ${ended.error ?? ""}`;
}

async function main() {
  await request("connect", {
    minProtocol: 3,
    maxProtocol: 4,
    client: { id: "gateway-client", version: "1.0", platform: process.platform, mode: "cli" },
    role: "operator",
    scopes: ["operator.write"],
    auth: { token: process.env.GATEWAY_TOKEN },
  });
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim()) console.log(await answer(line));
  }
}

socket.onmessage = ({ data }) => {
  const frame = JSON.parse(data);
  if (frame.event === "connect.challenge") {
    main()
      .catch((error) => {
        console.error(error.message);
        process.exitCode = 1;
      })
      .finally(() => socket.close());
  }
  const call = frame.type === "res" && waiting.get(frame.id);
  if (!call) return;
  waiting.delete(frame.id);
  if (frame.ok) call.resolve(frame.payload);
  else call.reject(new Error(frame.error.message));
};
socket.onerror = () => {
  console.error("the gateway cannot be reached");
  process.exitCode = 1;
};
