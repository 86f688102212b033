// A session step by step: what the model saw, what each call would touch, which rule decided, and what
// changed.

import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { ShownSession, findRecord } from "./audit_record.ts";
import { hasScope } from "./gateway.ts";
import { formatMoment } from "./format.ts";
import { Entry, useTranscript } from "./session.tsx";
import { sessionPath } from "./sessions.tsx";
import { resultText, type CallItem, type LogItem } from "./session_log.ts";
import { Words } from "./markdown.tsx";
import { Code, Diff, Empty, Loading, Page, Problem, Tag, describe, useAnswer } from "./ui.tsx";

export function ReplayPage({ sessionKey }: { sessionKey: string }) {
  const transcript = useTranscript(sessionKey, true);
  const [at, setAt] = useState(0);
  const { items } = transcript.log;
  const steps = useMemo(() => inOrder(items), [items, items.length, transcript.version]);
  const most = Math.max(0, steps.length - 1);
  const here = Math.min(at, most);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.target as HTMLElement).closest("input,textarea,select,summary,pre")) return;
      if (event.key === "ArrowRight") setAt((old) => Math.min(most, old + 1));
      else if (event.key === "ArrowLeft") setAt((old) => Math.max(0, old - 1));
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [most]);
  const step = steps[here];
  const changed = useMemo(() => filesUntil(steps, here), [steps, here, transcript.version]);
  return (
    <Page title="Replay" actions={<a class="button" href={`#/${sessionPath(sessionKey)}`}>To the session</a>}>
      <p class="muted path">{sessionKey}</p>
      {transcript.error ? <Problem text={transcript.error} /> : !transcript.ready ? <Loading /> : !step ? <Empty title="The ledger is empty" /> : (
        <>
          <div class="slider">
            <button aria-label="Previous step" disabled={here === 0} onClick={() => setAt(here - 1)}>‹</button>
            <input type="range" min={0} max={most} value={here} aria-label="Step" aria-valuetext={`step ${here + 1} of ${steps.length}`} onInput={(event) => setAt(Number(event.currentTarget.value))} />
            <button aria-label="Next step" disabled={here === most} onClick={() => setAt(here + 1)}>›</button>
            <output>{here + 1} / {steps.length}</output>
          </div>
          <p class="muted small">{step.is === "call" && step.endSeq ? `Entries ${step.seq} to ${step.endSeq}` : `Entry ${step.seq}`} · {formatMoment(step.is === "call" ? step.endMs ?? step.timeMs : step.timeMs)}</p>
          <ShownSession.Provider value={sessionKey}><div class="replay">
            <section aria-label="Step" class={`item ${step.is}`} key={step.key}><h2>{STEP_NAMES[step.is]}</h2><Entry item={step} open /></section>
            <aside>
              {step.is === "call" ? <CallFacts item={step} log={steps} /> : null}
              <h2>Files changed so far</h2>
              {changed.length ? <ul class="plain">{changed.map(([path, times]) => <li class="path">{path}{times > 1 ? <span class="muted"> ×{times}</span> : null}</li>)}</ul> : <p class="muted">none</p>}
            </aside>
          </div></ShownSession.Provider>
        </>
      )}
    </Page>
  );
}

const STEP_NAMES: Record<LogItem["is"], string> = {
  prompt: "The user sent", text: "The model wrote", thought: "The model reasoned", call: "The model called a tool", plan: "The plan",
  approval: "The user was asked", question: "A question", notice: "Note", end: "The run ended",
};

/** A call is shown with its result, so it comes where it ended: after the question whether it may run, and
 * after what happened while it ran. */
function inOrder(items: LogItem[]): LogItem[] {
  const at = (item: LogItem) => (item.is === "call" ? (item.outcome ? item.endSeq ?? item.seq : Infinity) : item.seq);
  return items.map((item) => [at(item), item] as const)
    .sort(([one, first], [other, second]) => (one === other ? first.seq - second.seq : one < other ? -1 : 1))
    .map(([, item]) => item);
}

function filesUntil(steps: LogItem[], here: number): [string, number][] {
  const files = new Map<string, number>();
  for (const step of steps.slice(0, here + 1)) {
    const result = step.is === "call" && step.outcome && "result" in step.outcome ? step.outcome.result : null;
    const display = result?.display as any;
    if (display?.type === "diff") files.set(display.path, (files.get(display.path) ?? 0) + 1);
  }
  return [...files];
}

function CallFacts({ item, log }: { item: CallItem; log: LogItem[] }) {
  const isAdmin = hasScope("admin");
  const session = useContext(ShownSession);
  const [row, setRow] = useState<string | null>(null);
  const [missing, setMissing] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    setRow(null);
    setMissing(null);
    if (isAdmin && item.outcome) {
      findRecord(session, item).then(
        (found) => !gone && (setRow(found), setMissing(found ? null : "The audit log has no row of this call.")),
        (error) => !gone && setMissing(describe(error)),
      );
    }
    return () => void (gone = true);
  }, [session, item.call, item.outcome != null]);
  const record = useAnswer(row ? "zero.audit.show" : null, { call: row ?? "" });
  const asked = log.find((one) => one.is === "approval" && one.request.call === item.call);
  const kept = record.value?.record as any;
  const decision = kept?.decision;
  const effects: any[] = kept?.effects ?? (asked?.is === "approval" ? asked.request.effects : []);
  const result = item.outcome && "result" in item.outcome ? item.outcome.result : null;
  const display = result?.display as any;
  return (
    <>
      <h2>What it would touch</h2>
      {effects.length ? <ul class="plain">{effects.map((effect) => <li><Tag word={effect.decision ?? effect.verdict ?? "allow"} /> {effect.kind} <span class="path">{effect.target}</span></li>)}</ul> : <p class="muted">{row && record.loading ? "…" : "nothing that is recorded"}</p>}
      <h2>What decided</h2>
      {decision ? <p><Tag word={decision.verdict} /> <Words text={decision.reason} />{decision.rule ? <><br /><code>{decision.rule}</code> <span class="muted small">{decision.source}</span></> : null}{decision.answered ? <><br />{decision.answered}</> : null}</p>
        : asked?.is === "approval" ? <p><Words text={asked.request.reason} />{asked.answer ? <><br />{asked.answer.replaceAll("_", " ")} by {asked.by}</> : null}</p>
        : <p class="muted">{isAdmin ? (missing ?? record.error ?? "…") : "The audit log needs the admin scope."}</p>}
      <h2>What the model saw</h2>
      {item.outcome ? <Code text={resultText(item.outcome) || "(no text)"} label="result" /> : <p class="muted">nothing yet</p>}
      {display?.type === "diff" ? <><h2>What changed</h2><Diff diff={display} /></> : null}
    </>
  );
}
