// The address of a page: what follows `#/`. It never holds a secret.

import { signal } from "@preact/signals";

const read = () => location.hash.replace(/^#\/?/, "") || "inbox";

export const route = signal(read());

window.addEventListener("hashchange", () => (route.value = read()));

export function go(to: string): void {
  location.hash = `#/${to}`;
}

export function decodePart(text: string | undefined): string {
  try {
    return decodeURIComponent(text ?? "");
  } catch {
    return text ?? "";
  }
}
