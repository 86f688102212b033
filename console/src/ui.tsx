// Parts that several pages use.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { epoch, link, request } from "./gateway.ts";
import { formatAgo, formatMoment, reveal } from "./format.ts";
import type { FileDiff, Methods } from "./wire.ts";

/** A short message at the edge of the page. */
export const toast = signal<{ text: string; bad: boolean } | null>(null);
let toastTimer = 0;

export function say(text: string, bad = false): void {
  toast.value = { text, bad };
  window.clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => (toast.value = null), bad ? 8_000 : 3_500);
}

// What went wrong on a page is not about the next one.
window.addEventListener("hashchange", () => {
  if (toast.value?.bad) toast.value = null;
});

export const describe = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** Does something and says what went wrong. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done) say(done);
    return true;
  } catch (error) {
    say(describe(error), true);
    return false;
  }
}

export interface Loaded<T> { value: T | null; error: string | null; loading: boolean; reload: () => void }

/** Loads an answer, again after each new connection, and every so often while the page is visible. */
export function useAnswer<M extends keyof Methods>(method: M | null, params: Methods[M]["params"], everyMs = 0): Loaded<Methods[M]["result"]> {
  const [state, setState] = useState<{ value: any; error: string | null; loading: boolean; of: string }>({ value: null, error: null, loading: true, of: "" });
  const [round, setRound] = useState(0);
  const asked = JSON.stringify([method, params]);
  const connection = epoch.value;
  const isOnline = link.value.is === "online";
  useEffect(() => {
    if (!method || !isOnline) return;
    let gone = false;
    const load = () => {
      if (document.hidden && everyMs) return;
      request(method, params).then(
        (value) => !gone && setState({ value, error: null, loading: false, of: asked }),
        (error) => !gone && error.code !== "DISCONNECTED" && setState((old) => ({ ...old, error: describe(error), loading: false, of: asked })),
      );
    };
    setState((old) => (old.of === asked ? old : { value: null, error: null, loading: true, of: asked }));
    load();
    const timer = everyMs ? window.setInterval(load, everyMs) : 0;
    return () => {
      gone = true;
      window.clearInterval(timer);
    };
  }, [asked, connection, isOnline, round, everyMs]);
  const isOld = state.of !== asked;
  return { value: isOld ? null : state.value, error: isOld ? null : state.error, loading: isOld || state.loading, reload: () => setRound((old) => old + 1) };
}

export function Page({ title, actions, children, wide }: { title: string; actions?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · zero`;
  }, [title]);
  return (
    <div class={wide ? "page wide" : "page"}>
      <header class="page-head"><h1 ref={head} tabIndex={-1}>{title}</h1><div class="actions">{actions}</div></header>
      {children}
    </div>
  );
}

export function Problem({ text, retry }: { text: string; retry?: () => void }) {
  return <div class="problem" role="alert"><p>{text}</p>{retry ? <button onClick={retry}>Try again</button> : null}</div>;
}

/** Keeps an error in one part of a page to that part: what waits elsewhere can still be answered. */
export class Guard extends Component<{ children: ComponentChildren }, { error: string | null }> {
  override state: { error: string | null } = { error: null };
  static override getDerivedStateFromError(error: unknown) {
    return { error: describe(error) };
  }
  override render() {
    const { error } = this.state;
    return error === null ? <>{this.props.children}</> : <Problem text={`This cannot be shown: ${error}`} />;
  }
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children ? <p class="muted">{children}</p> : null}</div>;
}

export const Loading = () => <p class="muted loading" role="status">Loading…</p>;

export function Waiting<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  if (of.value !== null) return <>{children(of.value)}</>;
  if (of.error) return <Problem text={of.error} retry={of.reload} />;
  return <Loading />;
}

const TONES: Record<string, string> = {
  allow: "good", ok: "good", completed: "good", ask: "wait", warning: "wait", running: "wait", started: "wait", unfinished: "wait", "waits for an answer": "wait",
  deny: "bad", denied: "bad", error: "bad", failed: "bad", panic: "bad", timeout: "bad", interrupted: "bad",
};
export const Tag = ({ word }: { word: string }) => <span class={`tag ${TONES[word] ?? "plain"}`}>{word}</span>;

export function Ago({ ms }: { ms: number }) {
  return <time dateTime={new Date(ms).toISOString()} title={formatMoment(ms)}>{formatAgo(ms)}</time>;
}

export function Diff({ diff }: { diff: Pick<FileDiff, "path" | "unified"> }) {
  return (
    <figure class="diff">
      {diff.path ? <figcaption class="path">{reveal(diff.path)}</figcaption> : null}
      <pre tabIndex={0} aria-label={`changes of ${diff.path}`}>{reveal(diff.unified).split("\n").map((line, at) => {
        const kind = line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : line.startsWith("@") ? "hunk" : "same";
        return <span key={at} class={kind}>{line}{"\n"}</span>;
      })}</pre>
    </figure>
  );
}

export function Code({ text, label }: { text: string; label?: string }) {
  return <pre class="code" tabIndex={0} aria-label={label}><code>{reveal(text)}</code></pre>;
}

/** JSON of the gateway, as text. */
export const Json = ({ value, label }: { value: unknown; label?: string }) => <Code text={JSON.stringify(value, null, 2) ?? "null"} label={label} />;

/** A dialog that the browser keeps the focus in. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} onClose={close} aria-label={title} onClick={(event) => event.target === dialog.current && close()}>
      <header><h2>{title}</h2><button class="quiet" aria-label="Close" onClick={close}>✕</button></header>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

/** Asks before what cannot be taken back: the second press does it. */
export function Sure({ label, sure, act, class: name }: { label: string; sure: string; act: () => void; class?: string }) {
  const [asked, setAsked] = useState(false);
  useEffect(() => {
    if (!asked) return;
    const timer = window.setTimeout(() => setAsked(false), 4_000);
    return () => window.clearTimeout(timer);
  }, [asked]);
  return <button class={`${name ?? ""} ${asked ? "danger" : ""}`} onClick={() => (asked ? (setAsked(false), act()) : setAsked(true))}>{asked ? sure : label}</button>;
}

export const NeedsAdmin = ({ what }: { what: string }) => (
  <Empty title={`${what} needs the admin scope`}>This browser was paired without it. Pair it again with <code>zero console --scopes admin</code>.</Empty>
);
