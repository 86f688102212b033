// Keeps the shell of the console, so that an installed console opens while the gateway restarts. No
// answer of the gateway is ever kept.

export {};
declare const self: any;

const CACHE = "zero-console-{{version}}";
const SHELL = ["/", "/app.js", "/app.css", "/icon.svg", "/manifest.webmanifest"];

self.addEventListener("install", (event: any) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event: any) => {
  const old = caches.keys().then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name))));
  event.waitUntil(old.then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event: any) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== location.origin || !SHELL.includes(url.pathname)) return;
  // What is newer at the gateway wins; the kept shell serves while it cannot be reached.
  event.respondWith(fetch(event.request).catch(async () => (await caches.match(url.pathname)) ?? Response.error()));
});

self.addEventListener("notificationclick", (event: any) => {
  event.notification.close();
  const target = `/#/inbox/${encodeURIComponent(String(event.notification.data ?? ""))}`;
  event.waitUntil(
    self.clients.matchAll({ type: "window" }).then(async (known: any[]) => {
      const open = known[0];
      if (!open) return self.clients.openWindow(target);
      open.postMessage({ show: String(event.notification.data ?? "") });
      return open.focus();
    }),
  );
});
