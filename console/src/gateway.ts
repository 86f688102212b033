// The connection to the gateway that served this page: handshake, requests, events, and a new
// connection after each break.

import { signal } from "@preact/signals";
import { canPair, deviceName, loadDevice, sign, storeToken, type Device, type Loss } from "./device.ts";
import type { Methods } from "./wire.ts";

export type LinkState =
  | { is: "connecting" }
  | { is: "online" }
  | { is: "offline"; why: string }
  | { is: "unpaired"; why: string; lost: Loss | null }
  | { is: "waiting"; words: string }
  | { is: "unsupported" };

export class GatewayError extends Error {
  constructor(readonly code: string, message: string, readonly reason: string | null = null) {
    super(message);
  }
}

export const link = signal<LinkState>({ is: "connecting" });
export const scopes = signal<string[]>([]);
export const serverVersion = signal("");
/** Counts connections, so that what depends on one is loaded again. */
export const epoch = signal(0);

const VERSION = "1";
const PATIENCE_MS = 60_000;
const RETRY_FIRST_MS = 400;
const RETRY_MAX_MS = 8_000;
const ASK_AGAIN_MS = 2_000;

type Answer = { done: (payload: any) => void; failed: (error: Error) => void; timer: number };
type Listener = (payload: any) => void;
type Credential = { kind: "token" } | { kind: "code"; code: string } | { kind: "ask" };

let socket: WebSocket | null = null;
let device: Device | null = null;
let credential: Credential = { kind: "token" };
/** Name by which the user will know this browser, once it is paired. */
let givenName = "";
let retryMs = RETRY_FIRST_MS;
let retryTimer = 0;
let nextId = 1;
let tickMs = 30_000;
let silence = 0;
const waiting = new Map<string, Answer>();
const listeners = new Map<string, Set<Listener>>();

export function hasScope(scope: "read" | "write" | "approvals" | "questions" | "admin"): boolean {
  const held = scopes.value;
  return held.includes("operator.admin") || held.includes(`operator.${scope}`)
    || (scope === "read" && held.includes("operator.write"));
}

export function listen(event: string, listener: Listener): () => void {
  let known = listeners.get(event);
  if (!known) listeners.set(event, (known = new Set()));
  known.add(listener);
  return () => known.delete(listener);
}

export function request<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
  if (link.peek().is !== "online" || !socket) {
    return Promise.reject(new GatewayError("DISCONNECTED", "the gateway is not connected"));
  }
  return call(socket, method, params);
}

function call(over: WebSocket, method: string, params: unknown): Promise<any> {
  const id = String(nextId++);
  return new Promise((done, failed) => {
    const timer = window.setTimeout(() => {
      waiting.delete(id);
      failed(new GatewayError("TIMEOUT", "the gateway did not answer in time"));
    }, PATIENCE_MS);
    waiting.set(id, { done, failed, timer });
    over.send(JSON.stringify({ type: "req", id, method, params }));
  });
}

export async function start(): Promise<void> {
  if (!canPair()) {
    link.value = { is: "unsupported" };
    return;
  }
  try {
    device = await loadDevice();
  } catch {
    link.value = { is: "unsupported" };
    return;
  }
  window.addEventListener("online", () => {
    if (link.peek().is === "offline") connectSoon(0);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && link.peek().is === "offline") connectSoon(0);
  });
  connect();
}

/** Pairs this browser by a code. */
export function pairByCode(code: string, name: string): void {
  givenName = name;
  credential = { kind: "code", code };
  connect();
}

/** Asks to be paired by an approval on another device. */
export function askForPairing(name: string): void {
  givenName = name;
  credential = { kind: "ask" };
  connect();
}

export function stopAsking(): void {
  unpaired("");
}

/** Forgets the token of this browser. */
export async function forget(): Promise<void> {
  await lose("forgotten");
}

/** Id of this browser, by which a list of devices tells it from others of the same name. */
export const deviceId = () => device?.id ?? "";

/** Ends the connection and all attempts at another one. */
function leave(state: LinkState): void {
  window.clearTimeout(retryTimer);
  window.clearTimeout(silence);
  const old = socket;
  socket = null;
  old?.close();
  failWaiting("the connection was closed before the answer came");
  link.value = state;
}

/** Shows how to pair. Why the last token was lost is shown until there is another one, also after a reload. */
function unpaired(why: string): void {
  credential = { kind: "token" };
  leave({ is: "unpaired", why, lost: device?.lost ?? null });
}

/** Forgets the token, and keeps why. */
async function lose(loss: Loss): Promise<void> {
  if (device) Object.assign(device, { token: null, lost: loss });
  unpaired("");
  await storeToken(null, loss);
}

function connectSoon(afterMs: number): void {
  window.clearTimeout(retryTimer);
  retryTimer = window.setTimeout(connect, afterMs);
}

function connect(): void {
  window.clearTimeout(retryTimer);
  const old = socket;
  socket = null;
  old?.close();
  if (!["offline", "waiting", "unpaired"].includes(link.peek().is)) link.value = { is: "connecting" };
  // Only ever the gateway that served this page.
  const made = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`);
  socket = made;
  made.onmessage = (message) => {
    if (made === socket) receive(made, message.data);
  };
  made.onclose = (closed) => {
    if (made === socket) dropped(closed);
  };
}

function receive(over: WebSocket, data: unknown): void {
  watchSilence(over);
  let frame: any;
  try {
    frame = JSON.parse(String(data));
  } catch {
    return;
  }
  if (frame.type === "event") {
    if (frame.event === "connect.challenge") void greet(over, frame.payload);
    for (const listener of listeners.get(frame.event) ?? []) listener(frame.payload);
    return;
  }
  const answer = waiting.get(frame.id);
  if (frame.type !== "res" || !answer) return;
  waiting.delete(frame.id);
  window.clearTimeout(answer.timer);
  if (frame.ok) {
    answer.done(frame.payload);
  } else {
    const { code = "UNAVAILABLE", message = "the request failed", details } = frame.error ?? {};
    answer.failed(Object.assign(new GatewayError(code, message, details?.code ?? null), { details }));
  }
}

/** A connection on which nothing arrives for two ticks is dead, though the browser may not know. */
function watchSilence(over: WebSocket): void {
  window.clearTimeout(silence);
  silence = window.setTimeout(() => over.close(4000, "tick timeout"), 2 * tickMs + 5_000);
}

async function greet(over: WebSocket, challenge: { nonce: string; ts: number }): Promise<void> {
  if (!device) return;
  const used = credential;
  const secret = used.kind === "code" ? used.code : used.kind === "token" ? device.token : null;
  const client = { id: "webchat-ui", displayName: givenName || deviceName(), version: VERSION, platform: "web", mode: "ui" };
  const signed = ["v3", device.id, client.id, client.mode, "operator", "", challenge.ts, secret ?? "", challenge.nonce, "web", ""];
  try {
    const signature = await sign(device, signed.join("|"));
    const auth = used.kind === "code" ? { bootstrapToken: used.code } : secret ? { deviceToken: secret } : undefined;
    const hello = await call(over, "connect", {
      minProtocol: 4, maxProtocol: 4, client, role: "operator", auth,
      caps: used.kind === "ask" ? ["zero-events", "zero-pairing"] : ["zero-events"],
      device: { id: device.id, publicKey: device.publicKey, signature, signedAt: challenge.ts, nonce: challenge.nonce },
    });
    if (over !== socket) return;
    if (hello.auth?.deviceToken) {
      Object.assign(device, { token: hello.auth.deviceToken, lost: null });
      await storeToken(device.token, null);
    }
    credential = { kind: "token" };
    retryMs = RETRY_FIRST_MS;
    tickMs = hello.policy?.tickIntervalMs ?? tickMs;
    scopes.value = hello.auth?.scopes ?? [];
    serverVersion.value = hello.server?.version ?? "";
    link.value = { is: "online" };
    epoch.value++;
  } catch (error) {
    if (over === socket) await refused(error as GatewayError & { details?: any });
  }
}

async function refused(error: GatewayError & { details?: any }): Promise<void> {
  switch (error.reason) {
    case "PAIRING_REQUIRED":
      leave({ is: "waiting", words: String(error.details?.words ?? "") });
      connectSoon(ASK_AGAIN_MS);
      return;
    case "AUTH_TOKEN_MISSING":
    case "AUTH_PASSWORD_MISSING":
      unpaired("");
      return;
    case "AUTH_DEVICE_TOKEN_MISMATCH":
      // The connection ends by itself meanwhile, which must not look like a break.
      leave({ is: "connecting" });
      if (await hasNewToken()) connect();
      else await lose("revoked");
      return;
    case "AUTH_BOOTSTRAP_TOKEN_INVALID":
    case "AUTH_RATE_LIMITED":
      unpaired(error.message.replace(/^unauthorized: /, ""));
      return;
  }
  if (error.code === "DISCONNECTED") return;
  leave({ is: "offline", why: error.message });
  connectSoon(nextRetry());
}

/** Whether another tab has paired this browser anew. */
async function hasNewToken(): Promise<boolean> {
  const stored = await loadDevice();
  if (!stored.token || stored.token === device?.token) return false;
  device = stored;
  return true;
}

function nextRetry(): number {
  const now = retryMs * (0.75 + Math.random() / 2);
  retryMs = Math.min(RETRY_MAX_MS, retryMs * 2);
  return now;
}

function dropped(closed: CloseEvent): void {
  socket = null;
  window.clearTimeout(silence);
  failWaiting("the connection broke before the answer came");
  const why = closed.code === 1012 ? "The gateway restarts." : "The gateway cannot be reached.";
  link.value = { is: "offline", why };
  connectSoon(nextRetry());
}

function failWaiting(why: string): void {
  for (const [id, answer] of waiting) {
    waiting.delete(id);
    window.clearTimeout(answer.timer);
    answer.failed(new GatewayError("DISCONNECTED", why));
  }
}
