// A session step by step: what the model saw, what each call would touch, which rule decided, and what
// changed.

import { useEffect, useMemo, useState } from "preact/hooks";
import { hasScope } from "./gateway.ts";
import { formatMoment } from "./format.ts";
import { Entry, useTranscript } from "./session.tsx";
import { sessionPath } from "./sessions.tsx";
import { resultText, type CallItem, type LogItem } from "./session_log.ts";
import { Code, Diff, Empty, Loading, Page, Problem, Tag, useAnswer } from "./ui.tsx";

export function ReplayPage({ sessionKey }: { sessionKey: string }) {
  const transcript = useTranscript(sessionKey, true);
  const [at, setAt] = useState(0);
  const steps = transcript.log.items;
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
          <p class="muted small">Entry {step.seq} · {formatMoment(step.timeMs)}</p>
          <div class="replay">
            <section aria-label="Step" class={`item ${step.is}`} key={step.key}><h2>{STEP_NAMES[step.is]}</h2><Entry item={step} open /></section>
            <aside>
              {step.is === "call" ? <CallFacts item={step} log={steps} /> : null}
              <h2>Files changed so far</h2>
              {changed.length ? <ul class="plain">{changed.map(([path, times]) => <li class="path">{path}{times > 1 ? <span class="muted"> ×{times}</span> : null}</li>)}</ul> : <p class="muted">none</p>}
            </aside>
          </div>
        </>
      )}
    </Page>
  );
}

const STEP_NAMES: Record<LogItem["is"], string> = {
  prompt: "The user sent", text: "The model wrote", thought: "The model reasoned", call: "The model called a tool", plan: "The plan",
  approval: "The user was asked", question: "A question", notice: "Note", end: "The run ended",
};

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
  const record = useAnswer(isAdmin ? "zero.audit.show" : null, { call: item.call });
  const asked = log.find((one) => one.is === "approval" && one.request.call === item.call);
  const row = record.value?.record as any;
  const decision = row?.decision;
  const effects: any[] = row?.effects ?? (asked?.is === "approval" ? asked.request.effects : []);
  const result = item.outcome && "result" in item.outcome ? item.outcome.result : null;
  const display = result?.display as any;
  return (
    <>
      <h2>What it would touch</h2>
      {effects.length ? <ul class="plain">{effects.map((effect) => <li><Tag word={effect.decision ?? effect.verdict ?? "allow"} /> {effect.kind} <span class="path">{effect.target}</span></li>)}</ul> : <p class="muted">{record.loading && isAdmin ? "…" : "nothing that is recorded"}</p>}
      <h2>What decided</h2>
      {decision ? <p><Tag word={decision.verdict} /> {decision.reason}{decision.rule ? <><br /><code>{decision.rule}</code> <span class="muted small">{decision.source}</span></> : null}{decision.answered ? <><br />{decision.answered}</> : null}</p>
        : asked?.is === "approval" ? <p>{asked.request.reason}{asked.answer ? ` — ${asked.answer.replaceAll("_", " ")} by ${asked.by}` : ""}</p>
        : <p class="muted">{isAdmin ? (record.error ?? "…") : "The audit log needs the admin scope."}</p>}
      <h2>What the model saw</h2>
      {item.outcome ? <Code text={resultText(item.outcome) || "(no text)"} label="result" /> : <p class="muted">nothing yet</p>}
      {display?.type === "diff" ? <><h2>What changed</h2><Diff diff={display} /></> : null}
    </>
  );
}
