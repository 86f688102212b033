// What waits for a person: approvals and questions of all sessions, newest first.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { reveal } from "./format.ts";
import { epoch, hasScope, link, listen, request } from "./gateway.ts";
import { Markdown, Words } from "./markdown.tsx";
import { go } from "./route.ts";
import type { ApprovalRequest, ApprovalsListResult, PendingApprovalInfo, PendingQuestionInfo } from "./wire.ts";
import { QuestionForm } from "./question_form.tsx";
import { Ago, Code, Diff, Empty, Guard, Json, Loading, Page, Problem, Tag, attempt } from "./ui.tsx";

const POLL_MS = 2_000;
const POLL_HIDDEN_MS = 5_000;

export const pending = signal<ApprovalsListResult | null>(null);
export const pendingError = signal<string | null>(null);
export const pendingCount = () => (pending.value ? pending.value.approvals.length + pending.value.questions.length : 0);

/** How long buttons wait after the list has changed, so that a press meant for one entry does not hit another
 * that took its place. */
const STEADY_MS = 500;
const isSteady = signal(true);
let steadyTimer = 0;

let known = new Set<string>();
let isFirst = true;
let timer = 0;
/** Notifications of browsers without a service worker, by question. */
const loose = new Map<string, Notification>();

async function loadOnce(): Promise<void> {
  if (link.peek().is === "online" && !hasScope("approvals")) {
    // What was listed before the scope was taken away is of no use, and gets old.
    notify({ approvals: [], questions: [] });
    pending.value = null;
    pendingError.value = null;
  } else if (link.peek().is === "online") {
    try {
      const found = await request("zero.approvals.list", {});
      notify(found);
      if (JSON.stringify(found) !== JSON.stringify(pending.peek())) pending.value = found;
      pendingError.value = null;
    } catch (error: any) {
      if (error.code !== "DISCONNECTED") pendingError.value = error.message;
    }
  }
}

/** Keeps the inbox up to date while the console is open. */
export function watchInbox(): void {
  let isLoading = false;
  let isStale = false;
  // One at a time: an answer that is overtaken may lack the newest question, whose notification would be closed.
  const load = async () => {
    if (isLoading) {
      isStale = true;
      return;
    }
    isLoading = true;
    window.clearTimeout(timer);
    await loadOnce();
    isLoading = false;
    if (isStale) {
      isStale = false;
      void load();
      return;
    }
    timer = window.setTimeout(load, document.hidden ? POLL_HIDDEN_MS : POLL_MS);
  };
  listen("zero.session.event", (payload) => {
    if (/^(approval|question)_/.test(payload.event?.type ?? "")) void load();
  });
  epoch.subscribe(() => void load());
  refreshInbox = () => void load();
}
export let refreshInbox = () => {};

function notify(found: ApprovalsListResult): void {
  const waiting = [
    ...found.approvals.map((one) => ({ id: one.request.id, title: "zero asks for approval", body: one.request.title })),
    ...found.questions.map((one) => ({ id: one.question.id, title: "zero has a question", body: one.question.message })),
  ];
  const fresh = waiting.filter((one) => !known.has(one.id));
  const isChanged = fresh.length > 0 || known.size !== waiting.length;
  if (isChanged) {
    isSteady.value = false;
    window.clearTimeout(steadyTimer);
    steadyTimer = window.setTimeout(() => (isSteady.value = true), STEADY_MS);
  }
  known = new Set(waiting.map((one) => one.id));
  if (isChanged || isFirst) closeOld();
  isFirst = false;
  if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
  for (const one of fresh) {
    const options = { body: one.body.slice(0, 200), tag: one.id, data: one.id, icon: "/icon.png" };
    void navigator.serviceWorker?.getRegistration().then((registration) => {
      if (registration) {
        // It may have been answered meanwhile.
        return registration.showNotification(one.title, options).then(() => (known.has(one.id) ? undefined : closeOld()));
      }
      const shown = new Notification(one.title, options);
      shown.onclick = () => go(`inbox/${encodeURIComponent(one.id)}`);
      loose.set(one.id, shown);
      return undefined;
    });
  }
}

/** Closes notifications of questions that wait no more, wherever they were answered. */
async function closeOld(): Promise<void> {
  for (const [id, shown] of loose) {
    if (known.has(id)) continue;
    shown.close();
    loose.delete(id);
  }
  const registration = await navigator.serviceWorker?.getRegistration();
  for (const shown of (await registration?.getNotifications?.()) ?? []) {
    if (!known.has(String(shown.data))) shown.close();
  }
}

export function InboxPage({ id }: { id: string | null }) {
  const found = pending.value;
  const canNotify = "Notification" in window && Notification.permission === "default";
  const [, again] = useState(0);
  const actions = canNotify
    ? <button onClick={() => void Notification.requestPermission().then(() => again((n) => n + 1))}>Notify me</button>
    : null;
  const all = [
    ...(found?.approvals ?? []).map((one) => ({ id: one.request.id, at: one.createdAtMs ?? 0, item: <Approval pending={one} isMeant={one.request.id === id} /> })),
    ...(found?.questions ?? []).map((one) => ({ id: one.question.id, at: one.createdAtMs ?? 0, item: <Question pending={one} isMeant={one.question.id === id} /> })),
  ].sort((one, other) => other.at - one.at);
  return (
    <Page title="Inbox" actions={actions}>
      {!hasScope("approvals") && link.value.is === "online" ? <Problem text="This browser may not answer approvals." /> : null}
      {pendingError.value ? <Problem text={pendingError.value} retry={refreshInbox} /> : null}
      {id && found && !all.some((one) => one.id === id) ? <p class="notice" role="status">The question of this link does not wait any more: it was answered or withdrawn.</p> : null}
      {found === null ? (hasScope("approvals") ? <Loading /> : null)
        : all.length === 0 ? <Empty title="Nothing waits for you">Approvals and questions of all sessions appear here.</Empty>
        : <ul class="cards">{all.map((one) => <li key={one.id}><Guard>{one.item}</Guard></li>)}</ul>}
    </Page>
  );
}

function useScrollTo(isMeant: boolean) {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isMeant) card.current?.scrollIntoView({ block: "start" });
  }, [isMeant]);
  return card;
}

function SessionLink({ sessionKey }: { sessionKey: string }) {
  return <a href={`#/session/${encodeURIComponent(sessionKey)}`}>{sessionKey}</a>;
}

export function Approval({ pending: one, isMeant, plain }: { pending: PendingApprovalInfo; isMeant?: boolean; plain?: boolean }) {
  const [sent, setSent] = useState("");
  const { request: asked } = one;
  const card = useScrollTo(!!isMeant);
  const answer = (word: string) => {
    setSent(word);
    void attempt(() => request("zero.approvals.resolve", { id: asked.id, answer: word })).then((done) => {
      if (!done) setSent("");
      refreshInbox();
    });
  };
  const options = asked.options.some((option) => option.id === "reject_once")
    ? asked.options
    : [...asked.options, { id: "reject_once", name: "Deny" }];
  return (
    <article class={`card ask ${isMeant ? "meant" : ""}`} ref={card} aria-label={`Approval: ${asked.title}`}>
      {plain ? null : <p class="card-top"><SessionLink sessionKey={one.sessionKey} /><Ago ms={one.createdAtMs ?? 0} /></p>}
      <ApprovalDetails asked={asked} />
      <div class="answers" role="group" aria-label="Answers">
        {options.map((option) => (
          <button key={option.id} disabled={!!sent || !isSteady.value || !hasScope("approvals")} class={option.id === "allow_once" ? "primary" : option.id.startsWith("reject") ? "deny" : ""} onClick={() => answer(option.id)}>
            {sent === option.id ? "Sending…" : <span><Words text={option.name} /></span>}
          </button>
        ))}
      </div>
    </article>
  );
}

export function ApprovalDetails({ asked }: { asked: ApprovalRequest }) {
  return (
    <>
      <h2 class="card-title"><span class="tool">{asked.tool}</span> <Words text={asked.title} /></h2>
      <p class="muted"><Words text={asked.reason} /> <span class={`risk ${asked.risk}`}>{asked.risk} risk</span></p>
      {asked.commands?.map((command, at) => <Code key={at} text={command} label="command" />)}
      {asked.preview?.type === "diff" ? <Diff diff={asked.preview} /> : null}
      {asked.preview?.type === "markdown" && !asked.commands?.length ? <Markdown text={asked.preview.text} /> : null}
      {asked.preview?.type === "plan" ? <ol>{asked.preview.entries.map((entry) => <li>{entry.content}</li>)}</ol> : null}
      {asked.effects.length ? (
        <table class="effects"><caption class="hidden">What the call would touch</caption><tbody>
          {asked.effects.map((effect) => (
            <tr><td><Tag word={effect.verdict} /></td><td class="kind">{effect.kind}</td><td class="target"><span class="path">{reveal(effect.target)}</span><span class="muted small"><Words text={effect.reason} /></span></td></tr>
          ))}
        </tbody></table>
      ) : null}
      {asked.input ? <details><summary>Arguments after hooks</summary><Json value={asked.input} /></details> : null}
      <p class="muted small">in <span class="path">{reveal(asked.cwd)}</span></p>
    </>
  );
}

export function Question({ pending: one, isMeant, plain }: { pending: PendingQuestionInfo; isMeant?: boolean; plain?: boolean }) {
  const card = useScrollTo(!!isMeant);
  return (
    <article class={`card ask ${isMeant ? "meant" : ""}`} ref={card} aria-label="Question">
      {plain ? null : <p class="card-top"><SessionLink sessionKey={one.sessionKey} /><Ago ms={one.createdAtMs ?? 0} /></p>}
      <p class="muted small"><Words text={one.question.origin} /></p>
      <QuestionForm question={one.question} ready={isSteady.value} done={refreshInbox} />
    </article>
  );
}
