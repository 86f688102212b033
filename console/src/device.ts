// The key and the token of this browser. The private key cannot be read, not even by this page; both
// are kept in IndexedDB, never in local storage or in an address.

export interface Device {
  id: string;
  publicKey: string;
  key: CryptoKey;
  token: string | null;
  /** Why there is no token any more. */
  lost: Loss | null;
}

export type Loss = "revoked" | "forgotten";

interface StoredDevice {
  keys: CryptoKeyPair;
  token: string | null;
  lost?: Loss | null;
}

const DATABASE = "zero-console";
const STORE = "device";
const ENTRY = "this";

/** Whether the browser offers keys to this page: only to pages of this machine or over HTTPS. */
export function canPair(): boolean {
  return window.isSecureContext && !!crypto.subtle && "indexedDB" in window;
}

function open(): Promise<IDBDatabase> {
  return new Promise((done, failed) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

async function access<T>(mode: IDBTransactionMode, use: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const database = await open();
  try {
    return await new Promise((done, failed) => {
      const transaction = database.transaction(STORE, mode);
      const request = use(transaction.objectStore(STORE));
      transaction.oncomplete = () => done(request.result);
      transaction.onerror = transaction.onabort = () => failed(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** The device of this browser; a new key if there is none. */
export async function loadDevice(): Promise<Device> {
  let stored: StoredDevice | undefined = await access("readonly", (store) => store.get(ENTRY));
  if (!stored) {
    const keys = (await crypto.subtle.generateKey({ name: "Ed25519" }, false, ["sign", "verify"])) as CryptoKeyPair;
    stored = { keys, token: null };
    await access("readwrite", (store) => store.put(stored, ENTRY));
  }
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", stored.keys.publicKey));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
  const id = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id, publicKey: base64Url(raw), key: stored.keys.privateKey, token: stored.token, lost: stored.lost ?? null };
}

/** Keeps the token, or why there is none any more. */
export async function storeToken(token: string | null, lost: Loss | null): Promise<void> {
  const stored: StoredDevice | undefined = await access("readonly", (store) => store.get(ENTRY));
  if (stored) await access("readwrite", (store) => store.put({ ...stored, token, lost }, ENTRY));
}

export async function sign(device: Device, text: string): Promise<string> {
  const signature = await crypto.subtle.sign({ name: "Ed25519" }, device.key, new TextEncoder().encode(text));
  return base64Url(new Uint8Array(signature));
}

function base64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** A name by which a user recognises this browser in the list of devices. */
export function deviceName(): string {
  const agent = navigator.userAgent;
  const browser = /Edg\//.test(agent) ? "Edge"
    : /Firefox\//.test(agent) ? "Firefox"
    : /Chrome\//.test(agent) ? "Chrome"
    : /Safari\//.test(agent) ? "Safari"
    : "Browser";
  const system = /Android/.test(agent) ? "Android"
    : /iPhone|iPad/.test(agent) ? "iOS"
    : /Mac OS X/.test(agent) ? "macOS"
    : /Windows/.test(agent) ? "Windows"
    : /Linux/.test(agent) ? "Linux"
    : "unknown system";
  return `${browser} on ${system}`;
}
