// One session: its live transcript, and everything that can be done with it.

import { signal } from "@preact/signals";
import { Component } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ShownSession, findRecord } from "./audit_record.ts";
import { epoch, hasScope, link, listen, request } from "./gateway.ts";
import { formatClock, formatCounted, formatDuration, formatMoney, formatShare, formatShort, shorten } from "./format.ts";
import { Approval, Question, ApprovalDetails, pending } from "./inbox.tsx";
import { Markdown, Words, safeImage } from "./markdown.tsx";
import { go } from "./route.ts";
import { SessionLog, resultImages, resultText, type CallItem, type LogItem } from "./session_log.ts";
import { WAITS, sessionPath, sessionState } from "./sessions.tsx";
import type { Event, PromptInfo, SessionInfo } from "./wire.ts";
import { Ago, Code, Dialog, Diff, Empty, Guard, Json, Loading, Page, Problem, Sure, Tag, attempt, describe, say, useAnswer } from "./ui.tsx";

const PAGE = 1_000;
const WINDOW = 160;
const STEP = 80;
const FLUSH_MS = 60;
/** Pixels from the end of the page at which the newest entries are followed. */
const NEAR_END = 48;
/** Entries of a sub-agent that are shown under its call. */
const SUBAGENT_ITEMS = 30;
const IMAGE_BYTES_MAX = 5 * 1024 * 1024;

/** A prompt that the gateway has not acknowledged. Its key lets it be sent again without harm. */
interface Unsent { key: string; sessionKey: string; text: string; attachments: any[]; interrupt: boolean; why: string }
const unsent = signal<Unsent[]>([]);

async function deliver(prompt: Unsent): Promise<void> {
  try {
    await request("chat.send", {
      sessionKey: prompt.sessionKey, message: prompt.text, idempotencyKey: prompt.key,
      ...(prompt.attachments.length ? { attachments: prompt.attachments } : {}),
      ...(prompt.interrupt ? { queueMode: "steer" as const } : {}),
    });
    unsent.value = unsent.value.filter((one) => one.key !== prompt.key);
  } catch (error: any) {
    // Unknown whether it arrived: it is sent again with the same key after the next connection.
    if (error.code === "DISCONNECTED" || error.code === "TIMEOUT") return;
    unsent.value = unsent.value.map((one) => (one.key === prompt.key ? { ...one, why: describe(error) } : one));
  }
}

export function deliverUnsent(): void {
  for (const prompt of unsent.peek()) if (!prompt.why) void deliver(prompt);
}

/** Subscriptions are changed one after the other: the gateway may finish requests in another order. */
let subscribing: Promise<unknown> = Promise.resolve();

function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const done = subscribing.then(work, work);
  subscribing = done.catch(() => {});
  return done;
}

interface Transcript {
  log: SessionLog; version: number; error: string | null; ready: boolean; earlier: () => Promise<void>;
  /** Whether the newest entries are shown, so that old ones can be forgotten. */
  isAtEnd: { current: boolean };
}

/** The ledger of a session: the newest part first, then everything as it is written. */
export function useTranscript(key: string, whole = false): Transcript {
  const [state, setState] = useState({ version: 0, error: null as string | null, ready: false });
  const log = useRef<SessionLog>(new SessionLog());
  const isAtEnd = useRef(!whole);
  const of = useRef("");
  if (of.current !== key) {
    of.current = key;
    log.current = new SessionLog();
  }
  const connection = epoch.value;
  useEffect(() => {
    if (link.peek().is !== "online") return;
    let gone = false;
    const mine = log.current;
    let queue: Event[] = [];
    let timer = 0;
    let isCaughtUp = false;
    const update = (more: object) => !gone && setState((old) => ({ ...old, version: old.version + 1, ...more }));
    const flush = () => {
      timer = 0;
      if (!isCaughtUp || queue.length === 0) return;
      const first = queue[0]!;
      const isGap = first.seq > mine.lastSeq + 1 && mine.lastSeq > 0;
      const added = queue;
      queue = [];
      if (isGap) void catchUp();
      else if (mine.add(added)) {
        if (isAtEnd.current) mine.trim();
        update({});
      }
    };
    const stop = listen("zero.session.event", (payload) => {
      if (payload.sessionKey !== key) return;
      queue.push(payload.event);
      if (!timer) timer = window.setTimeout(flush, FLUSH_MS);
    });
    const catchUp = async () => {
      try {
        const { lastSeq } = await inTurn(() => request("zero.sessions.subscribe", { sessionKey: key }));
        let after = mine.lastSeq || (whole ? 0 : Math.max(0, lastSeq - PAGE));
        while (!gone) {
          const page = await request("zero.sessions.events", { sessionKey: key, after });
          mine.add(page.events);
          after = page.events[page.events.length - 1]?.seq ?? after;
          if (!page.hasMore || page.events.length === 0) break;
          update({ ready: true });
        }
        isCaughtUp = true;
        flush();
        update({ ready: true, error: null });
      } catch (error: any) {
        if (error.code !== "DISCONNECTED") update({ error: describe(error) });
      }
    };
    setState({ version: 0, error: null, ready: mine.lastSeq > 0 });
    void catchUp();
    return () => {
      gone = true;
      stop();
      window.clearTimeout(timer);
      // Subscriptions end with their connection.
      if (epoch.peek() !== connection || link.peek().is !== "online") return;
      inTurn(() => request("zero.sessions.unsubscribe", { sessionKey: key })).catch(() => {});
    };
  }, [key, connection]);
  const earlier = async () => {
    const mine = log.current;
    if (mine.firstSeq <= 1 || link.peek().is !== "online") return;
    const after = Math.max(0, mine.firstSeq - 1 - PAGE);
    const before = mine.firstSeq;
    const page = await request("zero.sessions.events", { sessionKey: key, after, limit: Math.min(PAGE, before - 1 - after) });
    if (mine.firstSeq !== before || mine !== log.current) return;
    mine.addEarlier(page.events.filter((event) => event.seq < before));
    setState((old) => ({ ...old, version: old.version + 1 }));
  };
  return { log: log.current, ...state, earlier, isAtEnd };
}

export function SessionPage({ sessionKey }: { sessionKey: string }) {
  const transcript = useTranscript(sessionKey);
  const session = useAnswer("zero.sessions.show", { sessionKey }, 3_000);
  const [dialog, setDialog] = useState<"settings" | "rewind" | null>(null);
  const info = session.value;
  const isGone = session.error ?? (transcript.error && !transcript.ready ? transcript.error : null);
  if (isGone) {
    return <Page title="Session"><Problem text={isGone} retry={session.reload} /><p><a href="#/sessions">All sessions</a></p></Page>;
  }
  const canWrite = hasScope("write");
  const name = info?.title || info?.label || sessionKey;
  const fork = async () => {
    const copy = await request("zero.sessions.fork", { sessionKey });
    say(`Copied to ${copy.sessionKey}`);
    go(sessionPath(copy.sessionKey));
  };
  const actions = (
    <>
      <a class="button" href={`#/replay/${encodeURIComponent(sessionKey)}`}>Replay</a>
      {canWrite ? <button onClick={() => setDialog("rewind")}>Rewind</button> : null}
      {canWrite ? <button onClick={() => void attempt(fork)}>Fork</button> : null}
      <button onClick={() => void attempt(() => exportSession(sessionKey))}>Export</button>
      {canWrite ? <button onClick={() => setDialog("settings")}>Settings</button> : null}
    </>
  );
  const isActive = (info?.runIds.length ?? 0) > 0 || !!transcript.log.active;
  return (
    <div class="session">
      <Page title={name} actions={actions}>
        {info ? <Facts info={info} log={transcript.log} /> : null}
        {transcript.ready ? <TranscriptView transcript={transcript} sessionKey={sessionKey} /> : <Loading />}
        <Open sessionKey={sessionKey} />
      </Page>
      {canWrite ? <Composer sessionKey={sessionKey} isActive={isActive} runIds={info?.runIds ?? []} /> : null}
      {dialog === "settings" && info ? <SettingsDialog info={info} close={() => setDialog(null)} changed={session.reload} /> : null}
      {dialog === "rewind" ? <RewindDialog sessionKey={sessionKey} close={() => setDialog(null)} /> : null}
    </div>
  );
}

function Facts({ info, log }: { info: SessionInfo; log: SessionLog }) {
  const context = log.usage ?? (info.contextTokens && info.contextWindow ? { context: info.contextTokens, window: info.contextWindow } : null);
  const state = sessionState(info);
  return (
    <dl class="facts">
      <div><dt>State</dt><dd>{state === "idle" ? state : <Tag word={state} />}{info.runIds.length > 1 ? ` · ${info.runIds.length - 1} queued` : ""}</dd></div>
      <div><dt>Model</dt><dd>{info.model}</dd></div>
      <div><dt>Mode</dt><dd>{info.mode ?? "from settings"}</dd></div>
      <div><dt>Folder</dt><dd class="path">{info.cwd ?? "the gateway's"}{info.toolHost ? ` on ${info.toolHost}` : ""}</dd></div>
      {log.parent ? <div><dt>Sub-agent of</dt><dd><a class="path" href={`#/${sessionPath(log.parent)}`}>{log.parent}</a></dd></div> : null}
      {context && context.window > 0 ? <div><dt>Context</dt><dd>{formatShort(context.context)} of {formatShort(context.window)} ({formatShare(context.context / context.window)})</dd></div> : null}
      <div><dt>Used</dt><dd>{formatShort(info.usage.input_tokens + info.usage.output_tokens)} tokens{info.usage.cost_usd != null ? `, ${formatMoney(info.usage.cost_usd)}` : ""}</dd></div>
      <div><dt>Key</dt><dd class="path">{info.sessionKey}</dd></div>
    </dl>
  );
}

/** The questions of this session that wait, with their buttons. */
function Open({ sessionKey }: { sessionKey: string }) {
  const found = pending.value;
  const approvals = found?.approvals.filter((one) => one.sessionKey === sessionKey) ?? [];
  const questions = found?.questions.filter((one) => one.sessionKey === sessionKey) ?? [];
  if (!approvals.length && !questions.length) return null;
  return (
    <div class="open-questions">
      {approvals.map((one) => <Guard key={one.request.id}><Approval pending={one} plain /></Guard>)}
      {questions.map((one) => <Guard key={one.question.id}><Question pending={one} plain /></Guard>)}
    </div>
  );
}

/** Draws a part of the entries around what is visible, so that long sessions stay fast. */
function TranscriptView({ transcript, sessionKey }: { transcript: Transcript; sessionKey: string }) {
  const { log } = transcript;
  const [end, setEnd] = useState<number | null>(null);
  const [isLoading, setLoading] = useState(false);
  const list = useRef<HTMLOListElement>(null);
  const stick = useRef(true);
  const count = log.items.length;
  transcript.isAtEnd.current = end === null && stick.current;
  const last = end === null ? count : Math.min(end, count);
  const first = Math.max(0, last - WINDOW);
  const items = log.items.slice(first, last);
  const isEnd = end === null;
  useLayoutEffect(() => {
    const page = document.documentElement;
    const isNearEnd = () => isEnd && page.scrollHeight - window.scrollY - window.innerHeight < NEAR_END;
    let top = window.scrollY;
    const follow = () => {
      if (isNearEnd()) stick.current = true;
      if (stick.current) window.scrollTo(0, page.scrollHeight);
      top = window.scrollY;
    };
    const onScroll = () => {
      if (isNearEnd()) stick.current = true;
      // Whatever else moves the end away is followed: only the user goes up.
      else if (window.scrollY < top || !isEnd) stick.current = false;
      top = window.scrollY;
    };
    // Who opens a part wants to read it, and not what follows.
    const onClick = (event: MouseEvent) => {
      if (event.target instanceof Element && event.target.closest("summary")) stick.current = false;
    };
    // Text, questions below it, pictures and the composer: everything that changes the height of the page.
    const watcher = new ResizeObserver(follow);
    watcher.observe(document.body);
    window.addEventListener("scroll", onScroll, { passive: true });
    window.addEventListener("resize", follow);
    window.addEventListener("click", onClick, true);
    return () => {
      watcher.disconnect();
      window.removeEventListener("scroll", onScroll);
      window.removeEventListener("resize", follow);
      window.removeEventListener("click", onClick, true);
    };
  }, [isEnd]);
  useLayoutEffect(() => {
    if (stick.current) window.scrollTo(0, document.documentElement.scrollHeight);
  }, [transcript.version, count]);
  const up = async () => {
    if (isLoading) return;
    stick.current = false;
    const anchor = list.current?.firstElementChild as HTMLElement | null;
    const anchorKey = anchor?.dataset["key"];
    const top = anchor?.getBoundingClientRect().top ?? 0;
    if (first > 0) setEnd(Math.max(WINDOW, last - STEP));
    else {
      setLoading(true);
      const before = log.items.length;
      await attempt(transcript.earlier);
      setLoading(false);
      const added = log.items.length - before;
      if (added > 0) setEnd(Math.min(log.items.length, added + WINDOW - STEP));
    }
    requestAnimationFrame(() => {
      const same = anchorKey && list.current?.querySelector(`[data-key="${CSS.escape(anchorKey)}"]`);
      if (same) window.scrollBy(0, same.getBoundingClientRect().top - top);
    });
  };
  const down = () => setEnd(last + STEP >= count ? null : last + STEP);
  const shown = unsent.value.filter((one) => one.sessionKey === sessionKey);
  const unsentBefore = useRef(0);
  useLayoutEffect(() => {
    const isNew = shown.length > unsentBefore.current;
    unsentBefore.current = shown.length;
    if (!isNew) return;
    // Who sends something wants to see what comes of it.
    stick.current = true;
    setEnd(null);
    window.scrollTo(0, document.documentElement.scrollHeight);
  }, [shown.length]);
  return (
    <>
      {first > 0 || log.firstSeq > 1 ? <Edge label={isLoading ? "Loading…" : "Earlier"} reached={() => void up()} /> : null}
      {count === 0 && !shown.length ? <Empty title="Nothing here yet">Send a prompt to begin.</Empty> : null}
      <ShownSession.Provider value={sessionKey}>
        <ol class="log" ref={list} aria-label="Transcript">{items.map((item) => <li key={item.key} data-key={item.key} class={`item ${item.is}`}><Guard><Entry item={item} /></Guard></li>)}</ol>
      </ShownSession.Provider>
      {last < count ? <Edge label="Later" reached={down} /> : null}
      {shown.map((one) => (
        <div class="item prompt unsent" key={one.key}><p>{one.text}</p>
          <p class="muted small">{one.why || "Not delivered yet; it is sent when the gateway is back."}
            {one.why ? <> <button class="quiet" onClick={() => (unsent.value = unsent.value.filter((other) => other.key !== one.key))}>Discard</button></> : null}</p>
        </div>
      ))}
      <div class="live" role="status" aria-live="polite">{log.active ? "The run is active" : ""}</div>
    </>
  );
}

/** Loads more when it comes into view, or when it is pressed. */
function Edge({ label, reached }: { label: string; reached: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  const act = useRef(reached);
  act.current = reached;
  useEffect(() => {
    let isArmed = false;
    const watcher = new IntersectionObserver(([seen]) => {
      if (seen?.isIntersecting && isArmed) act.current();
      // What is in view at first was not scrolled to.
      isArmed = true;
    }, { rootMargin: "200px" });
    if (button.current) watcher.observe(button.current);
    return () => watcher.disconnect();
  }, []);
  return <button class="edge" ref={button} onClick={reached}>{label}</button>;
}

export class Entry extends Component<{ item: LogItem; open?: boolean }> {
  override shouldComponentUpdate(next: { item: LogItem }) {
    return next.item !== this.props.item;
  }
  override render() {
    const { item, open } = this.props;
    switch (item.is) {
      case "prompt":
        return (
          <div class="bubble"><Markdown text={item.text} />
            {item.attachments.map((one) => <Picture mime={one.mime} data={one.data} name={one.name ?? "attachment"} />)}
            <p class="muted small stamp">{formatClock(item.timeMs)}</p>
          </div>
        );
      case "text":
        return <Markdown text={item.text} />;
      case "thought":
        return <details open={open}><summary>Reasoning</summary><Markdown text={item.text} /></details>;
      case "call":
        return <Call item={item} open={open} />;
      case "plan":
        return <ol class="plan" aria-label="Plan">{item.entries.map((entry) => <li class={entry.status}>{entry.content}</li>)}</ol>;
      case "approval":
        return (
          <details open={open}><summary><Tag word={item.answer ? (item.answer.startsWith("allow") ? "allow" : "deny") : "ask"} /> {item.answer ? `${item.answer.replace(/^(allow|reject)_/, "").replaceAll("_", " ")}, by ${item.by}` : "waits for an approval"} · <Words text={item.request.title} /></summary>
            <div class="card"><ApprovalDetails asked={item.request} /></div></details>
        );
      case "question":
        return <p class="muted">Question: {item.question.message} {item.action ? `(${item.action})` : "(waits)"}</p>;
      case "notice":
        return <p class={`notice ${item.tone}`}><Words text={item.text} />{item.details ? <details><summary>Summary</summary><Markdown text={item.details} /></details> : null}</p>;
      case "end":
        return <p class={`ending ${item.end.how}`}>{endText(item.end)}{item.usage.input_tokens + item.usage.output_tokens > 0 ? ` · ${formatShort(item.usage.input_tokens + item.usage.output_tokens)} tokens` : ""}{item.usage.cost_usd != null ? ` · ${formatMoney(item.usage.cost_usd)}` : ""} · {formatClock(item.timeMs)}</p>;
    }
  }
}

const ABORTS: Record<string, string> = {
  rpc: "Stopped", timeout: "Stopped: the run took too long", shutdown: "Stopped: the gateway was shutting down",
  loop_guard: "Stopped: the model kept repeating the same calls", reset: "Stopped: the session was reset", delete: "Stopped: the session was deleted",
};

function endText(end: any): string {
  switch (end.how) {
    case "completed": return "Done";
    case "max_tokens": return "Cut off: the output limit was reached";
    case "max_turns": return `Stopped after ${formatCounted(end.turns, "request")}`;
    case "aborted": return ABORTS[end.by] ?? `Stopped (${end.by})`;
    case "interrupted": return "Interrupted: zero was killed";
    default: return `${end.how}: ${end.message ?? ""}`;
  }
}

function Picture({ mime, data, name }: { mime: string; data: string; name: string }) {
  const url = safeImage(mime, data);
  return url ? <img class="picture" src={url} alt={name} loading="lazy" /> : <p class="muted">[{name}: {mime}]</p>;
}

const ICONS: Record<string, string> = { read: "○", edit: "✎", delete: "✕", move: "→", search: "⌕", execute: "›", fetch: "↓", think: "·" };

/** What a call does: it may not have begun yet. */
function callState(item: CallItem): string {
  if (item.status !== "running") return item.status;
  return item.isAsked ? WAITS : item.waits ? "waits" : "running";
}

function Call({ item, open }: { item: CallItem; open?: boolean }) {
  const session = useContext(ShownSession);
  const showRecord = async () => {
    const row = await findRecord(session, item);
    if (!row) throw new Error("The audit log has no row of this call.");
    go(`audit/${row}`);
  };
  const outcome = item.outcome;
  const result = outcome && "result" in outcome ? outcome.result : null;
  // A command that fails is a call that was made: its result says how it went.
  const code = item.kind === "execute" ? Number((result?.structured as any)?.exit_code ?? 0) : 0;
  const took = item.endMs && item.beginMs ? formatDuration(Math.max(0, item.endMs - item.beginMs) * 1000) : null;
  const body = () => (
    <div class="call-body">
      {result?.display && "type" in result.display && result.display.type === "diff" ? <Diff diff={result.display} /> : null}
      {outcome ? <Code text={shorten(resultText(outcome), 20_000)} label="result" /> : item.progress.length ? <Code text={item.progress.join("\n")} label="live output" /> : null}
      {outcome ? resultImages(outcome).map((image) => <Picture mime={image.mime} data={image.data} name="image of the result" />) : null}
      {item.subagent ? <Subagent sessionKey={item.subagent} /> : null}
      <details><summary>Arguments</summary><Json value={item.input} /></details>
      {hasScope("admin") && outcome ? <p class="small"><a href="#/audit" onClick={(event) => (event.preventDefault(), void attempt(showRecord))}>In the audit log</a></p> : null}
    </div>
  );
  return (
    <Lazy open={open || item.status === "running" || (result?.display as any)?.type === "diff"} class={`call-box ${item.status}`}
      summary={<><span class="icon" aria-hidden="true">{ICONS[item.kind] ?? "◦"}</span><span class="call-title"><Words text={item.title} /></span>
        {item.status !== "completed" && item.status ? <Tag word={callState(item)} /> : null}{code ? <span class="tag bad">exit code {code}</span> : null}{took ? <span class="muted small took">{took}</span> : null}</>}
      body={body} />
  );
}

/** The newest entries of a sub-agent, live, under the call that started it. */
function Subagent({ sessionKey }: { sessionKey: string }) {
  const { log, ready, error } = useTranscript(sessionKey);
  const items = log.items.slice(-SUBAGENT_ITEMS);
  return (
    <section class="subagent" aria-label={`Sub-agent ${sessionKey}`}>
      <p class="card-top"><a class="path" href={`#/${sessionPath(sessionKey)}`}>{sessionKey}</a>{log.active ? <Tag word="running" /> : null}</p>
      {error ? <Problem text={error} /> : !ready ? <Loading /> : (
        <>
          {log.items.length > items.length || log.firstSeq > 1 ? <p class="muted small">Earlier entries are in its session.</p> : null}
          <ShownSession.Provider value={sessionKey}>
            <ol class="log">{items.map((item) => <li key={item.key} class={`item ${item.is}`}><Guard><Entry item={item} /></Guard></li>)}</ol>
          </ShownSession.Provider>
        </>
      )}
    </section>
  );
}

/** Details whose content is made only when they are open. */
function Lazy({ open, class: name, summary, body }: { open: boolean; class: string; summary: any; body: () => any }) {
  const [isOpen, setOpen] = useState(open);
  useEffect(() => {
    if (open) setOpen(true);
  }, [open]);
  return <details class={name} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}><summary>{summary}</summary>{isOpen ? body() : null}</details>;
}

function Composer({ sessionKey, isActive, runIds }: { sessionKey: string; isActive: boolean; runIds: string[] }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState<any[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const send = (interrupt: boolean) => {
    if (!text.trim() && !files.length) return;
    const prompt: Unsent = { key: `console-${crypto.randomUUID()}`, sessionKey, text, attachments: files, interrupt, why: "" };
    unsent.value = [...unsent.value, prompt];
    setText("");
    setFiles([]);
    if (area.current) area.current.style.height = "";
    void deliver(prompt);
  };
  const stop = () => void attempt(() => request("chat.abort", { sessionKey }), "Stopped");
  const add = async (list: FileList | null) => {
    for (const file of list ?? []) {
      if (!file.type.startsWith("image/") || file.size > IMAGE_BYTES_MAX) {
        say(`${file.name} is not an image of at most 5 MB`, true);
        continue;
      }
      const bytes = new Uint8Array(await file.arrayBuffer());
      let binary = "";
      for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
      setFiles((old) => [...old, { type: "image", mimeType: file.type, content: btoa(binary), fileName: file.name }]);
    }
  };
  return (
    <form class="composer" onSubmit={(event) => (event.preventDefault(), send(false))}>
      {files.length ? <p class="small">{files.map((file, at) => <span class="chip">{file.fileName} <button type="button" class="quiet" aria-label={`Remove ${file.fileName}`} onClick={() => setFiles(files.filter((_, other) => other !== at))}>✕</button></span>)}</p> : null}
      <textarea ref={area} rows={1} aria-label="Prompt" placeholder={isActive ? "Queue a prompt…" : "Send a prompt…"} value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          event.currentTarget.style.height = "auto";
          event.currentTarget.style.height = `${Math.min(240, event.currentTarget.scrollHeight + 2)}px`;
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing && matchMedia("(pointer: fine)").matches) {
            event.preventDefault();
            send(event.ctrlKey || event.metaKey);
          }
        }} />
      <div class="composer-actions">
        <label class="button quiet attach"><span class="hidden">Attach images</span><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 5v14M5 12h14" /></svg><input class="hidden" type="file" accept="image/*" multiple onChange={(event) => void add(event.currentTarget.files)} /></label>
        {isActive ? <Sure label={runIds.length > 1 ? "Stop all" : "Stop"} sure="Stop?" act={stop} /> : null}
        {isActive && text.trim() ? <button type="button" title="Stops the run and sends this; prompts that wait run after it" onClick={() => send(true)}>Send now</button> : null}
        <button class="primary" disabled={!text.trim() && !files.length}>{isActive ? "Queue" : "Send"}</button>
      </div>
    </form>
  );
}

function SettingsDialog({ info, close, changed }: { info: SessionInfo; close: () => void; changed: () => void }) {
  const choices = useAnswer("zero.sessions.choices", { sessionKey: info.sessionKey });
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "");
    const given = { title: text("title"), label: text("label"), model: text("model"), mode: text("mode") };
    const now: Record<string, string> = { title: info.title ?? "", label: info.label ?? "", model: info.model, mode: info.mode ?? "" };
    const fields = Object.fromEntries(Object.entries(given).filter(([name, value]) => value !== now[name]));
    void attempt(async () => {
      if (Object.keys(fields).length) await request("zero.sessions.set", { sessionKey: info.sessionKey, ...fields });
      changed();
      close();
    });
  };
  const remove = () => void attempt(async () => {
    await request("sessions.delete", { key: info.sessionKey });
    close();
    go("sessions");
  }, "Deleted");
  const models = choices.value?.models ?? [info.model];
  return (
    <Dialog title="Session settings" close={close}>
      <form onSubmit={save}>
        <label class="field"><span>Title</span><input name="title" defaultValue={info.title ?? ""} maxLength={200} /></label>
        <label class="field"><span>Label</span><input name="label" defaultValue={info.label ?? ""} maxLength={64} /></label>
        <label class="field"><span>Model</span><select name="model">{(models.includes(info.model) ? models : [info.model, ...models]).map((model) => <option selected={model === info.model}>{model}</option>)}</select></label>
        <label class="field"><span>Mode</span><select name="mode"><option value="" selected={!info.mode}>from settings</option>{(choices.value?.modes ?? []).map((mode) => <option selected={mode === info.mode}>{mode}</option>)}</select></label>
        <div class="answers"><button class="primary">Save</button>{hasScope("admin") ? <Sure label="Delete session" sure="Really delete?" act={remove} /> : null}</div>
      </form>
    </Dialog>
  );
}

function RewindDialog({ sessionKey, close }: { sessionKey: string; close: () => void }) {
  const prompts = useAnswer("zero.sessions.prompts", { sessionKey });
  const [scope, setScope] = useState<"both" | "files" | "conversation">("both");
  const [conflicts, setConflicts] = useState<{ prompt: PromptInfo; paths: string[] } | null>(null);
  const rewind = (prompt: PromptInfo, force: boolean) => void attempt(async () => {
    const done = await request("zero.sessions.rewind", { sessionKey, prompt: prompt.number, scope, ...(force ? { force } : {}) });
    if (!done.rewound) return setConflicts({ prompt, paths: done.conflicts.map((one) => `${one.path} (${one.what})`) });
    say(`Rewound to before prompt ${prompt.number}; ${formatCounted(done.fileCount, "file")} restored`);
    close();
  });
  const fork = (prompt: PromptInfo) => void attempt(async () => {
    const copy = await request("zero.sessions.fork", { sessionKey, prompt: prompt.number });
    close();
    go(sessionPath(copy.sessionKey));
  });
  return (
    <Dialog title="Rewind" close={close}>
      {conflicts ? (
        <div class="problem"><p>Another program changed these files since; nothing was touched:</p><ul>{conflicts.paths.map((path) => <li class="path">{path}</li>)}</ul>
          {hasScope("approvals") ? <Sure label="Overwrite them" sure="Really overwrite?" act={() => rewind(conflicts.prompt, true)} /> : null}</div>
      ) : null}
      <label class="field"><span>Take back</span><select value={scope} onChange={(event) => setScope(event.currentTarget.value as any)}><option value="both">files and conversation</option><option value="files">files</option><option value="conversation">conversation</option></select></label>
      {prompts.value ? (
        prompts.value.prompts.length ? <ul class="rows">{[...prompts.value.prompts].reverse().map((prompt) => (
          <li class="row static" key={prompt.number}>
            <span class="row-main"><span class="row-name">{prompt.number}. {prompt.words}</span><span class="muted small"><Ago ms={prompt.timeMs} /> · {formatCounted(prompt.files, "file")}, {formatCounted(prompt.commands, "command")}{prompt.inEffect ? "" : " · taken back"}</span></span>
            <span class="row-side answers"><Sure label="Rewind" sure="To before this?" act={() => rewind(prompt, false)} /><button onClick={() => fork(prompt)}>Fork</button></span>
          </li>
        ))}</ul> : <Empty title="No prompts yet" />
      ) : <Loading />}
    </Dialog>
  );
}

/** Saves the whole ledger as JSON lines. */
async function exportSession(sessionKey: string): Promise<void> {
  const lines: string[] = [];
  let after = 0;
  for (;;) {
    const page = await request("zero.sessions.events", { sessionKey, after });
    for (const event of page.events) lines.push(JSON.stringify(event));
    after = page.events[page.events.length - 1]?.seq ?? after;
    if (!page.hasMore || page.events.length === 0) break;
  }
  const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = `${sessionKey.replace(/[^\w.-]+/g, "-")}.jsonl`;
  anchor.click();
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
