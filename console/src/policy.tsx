// What the rules decide, and what other rules would have decided.

import { useEffect, useState } from "preact/hooks";
import { hasScope, request } from "./gateway.ts";
import { formatCount, formatCounted, formatMoment } from "./format.ts";
import { Words } from "./markdown.tsx";
import type { PolicyExplainResult, PolicyRuleLists, PolicySaveResult, PolicySimulateResult, VerdictNodeInfo } from "./wire.ts";
import { Diff, Empty, Json, NeedsAdmin, Page, Problem, Tag, Waiting, describe, useAnswer } from "./ui.tsx";

export function PolicyPage() {
  if (!hasScope("admin")) return <Page title="Policy"><NeedsAdmin what="The policy" /></Page>;
  return <Page title="Policy" wide><Explain /><Draft /></Page>;
}

function Explain() {
  const [found, setFound] = useState<PolicyExplainResult | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [isTool, setTool] = useState(false);
  const explain = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    let call;
    try {
      call = isTool ? { tool: text("tool"), input: JSON.parse(text("input") || "{}") } : { command: text("command") };
    } catch {
      setError("The arguments are not JSON.");
      return;
    }
    const place = { ...(text("cwd") ? { cwd: text("cwd") } : {}), ...(text("mode") ? { mode: text("mode") } : {}) };
    request("zero.policy.explain", { ...call, ...place }).then(
      (answer) => (setFound(answer), setError(null)),
      (failed) => (setFound(null), setError(describe(failed))),
    );
  };
  return (
    <section aria-labelledby="explain-title">
      <h2 id="explain-title">Explain a call</h2>
      <form class="filters" onSubmit={explain}>
        <label class="field"><span>Kind</span><select value={isTool ? "tool" : "command"} onChange={(event) => setTool(event.currentTarget.value === "tool")}><option value="command">command</option><option value="tool">tool</option></select></label>
        {isTool ? <><label class="field"><span>Tool</span><input name="tool" required placeholder="Read" /></label><label class="field grow"><span>Arguments</span><input name="input" class="mono" placeholder={'{"file_path": ".env"}'} /></label></>
          : <label class="field grow"><span>Command</span><input name="command" class="mono" required placeholder="git push --force" autocomplete="off" spellcheck={false} /></label>}
        <label class="field"><span>Folder</span><input name="cwd" class="mono" placeholder="the gateway's" /></label>
        <label class="field"><span>Mode</span><select name="mode">{["", "ask", "accept-edits", "plan", "auto"].map((mode) => <option value={mode}>{mode || "from settings"}</option>)}</select></label>
        <button class="primary">Explain</button>
      </form>
      <div aria-live="polite">
        {error ? <Problem text={error} /> : null}
        {found ? (
          <div class="card verdict">
            <p class="card-title"><Tag word={found.decision} /> <Words text={found.reason} /></p>
            {found.matched_rule ? <p><code>{found.matched_rule}</code> <span class="muted">{found.source}</span></p> : null}
            {found.tree?.length ? <ul class="tree">{found.tree.map((node) => <Node node={node} />)}</ul> : null}
            {found.grants.length ? <p class="muted">Can be allowed for a session: {found.grants.map((grant) => <code>{grant}</code>)}</p> : null}
            {found.hooks?.length ? <p class="muted">Hooks may still deny it, ask or change it: {found.hooks.join(", ")}</p> : null}
            <details><summary>Effects and sandbox</summary><Json value={{ effects: found.effects, sandbox: found.sandbox }} /></details>
          </div>
        ) : null}
      </div>
    </section>
  );
}

function Node({ node }: { node: VerdictNodeInfo }) {
  return (
    <li><Tag word={node.decision} /> <code>{node.label}</code>{node.reason && node.reason !== node.label ? <span class="muted"> <Words text={node.reason} /></span> : null}
      {node.children.length ? <ul>{node.children.map((child) => <Node node={child} />)}</ul> : null}</li>
  );
}

const LISTS = ["allow", "ask", "deny"] as const;
type Texts = Record<(typeof LISTS)[number], string>;

const toText = (rules: PolicyRuleLists): Texts => {
  const text = (list: unknown[] | undefined) => (list ?? []).map((rule) => (typeof rule === "string" ? rule : JSON.stringify(rule))).join("\n");
  return { allow: text(rules.allow), ask: text(rules.ask), deny: text(rules.deny) };
};

function toRules(texts: Texts): PolicyRuleLists {
  const list = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    if (!line.startsWith("{")) return line;
    try {
      return JSON.parse(line);
    } catch {
      throw new Error(`The draft has a line that is not a rule: ${line}`);
    }
  });
  return { allow: list(texts.allow), ask: list(texts.ask), deny: list(texts.deny) };
}

function Draft() {
  const stored = useAnswer("zero.policy.rules", {});
  const [texts, setTexts] = useState<Texts | null>(null);
  const [simulated, setSimulated] = useState<PolicySimulateResult | null>(null);
  const [change, setChange] = useState<PolicySaveResult | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [days, setDays] = useState(7);
  const version = stored.value?.version;
  useEffect(() => {
    if (stored.value && !texts) setTexts(toText(stored.value.rules));
  }, [version]);
  const work = (make: (rules: PolicyRuleLists) => Promise<unknown>) => {
    if (!texts) return;
    setBusy(true);
    setProblem(null);
    (async () => make(toRules(texts)))().catch((error) => setProblem(describe(error))).finally(() => setBusy(false));
  };
  const simulate = () => work(async (rules) => {
    setSimulated(null);
    setSimulated(await request("zero.policy.simulate", { rules, sinceMs: Date.now() - days * 86_400_000 }));
  });
  const preview = () => work(async (rules) => setChange(await request("zero.policy.save", { rules, version: version ?? "", write: false })));
  const save = () => work(async (rules) => {
    const saved = await request("zero.policy.save", { rules, version: version ?? "", write: true });
    setChange(saved);
    stored.reload();
  });
  const edit = (name: keyof Texts, text: string) => {
    setTexts({ ...texts!, [name]: text });
    setChange(null);
    setProblem(null);
  };
  const discard = (rules: PolicyRuleLists) => {
    setTexts(toText(rules));
    setChange(null);
    setSimulated(null);
    setProblem(null);
  };
  return (
    <section aria-labelledby="draft-title">
      <h2 id="draft-title">Draft rules</h2>
      <Waiting of={stored}>{(known) => (
        <>
          <p class="muted">Rules of your settings, <span class="path">{known.file}</span>, one per line. Nothing is saved until you say so.</p>
          {texts ? <div class="rule-lists">{LISTS.map((name) => (
            <label class="field"><span><Tag word={name} /></span><textarea class="mono" rows={7} spellcheck={false} value={texts[name]} onInput={(event) => edit(name, event.currentTarget.value)} /></label>
          ))}</div> : null}
          <div class="answers">
            <label class="inline">Calls of the last <select value={days} onChange={(event) => setDays(Number(event.currentTarget.value))}>{[1, 7, 30, 90].map((count) => <option value={count}>{count}</option>)}</select> days</label>
            <button class="primary" disabled={busy} onClick={simulate}>{busy ? "Working…" : "Simulate"}</button>
            <button disabled={busy} onClick={preview}>Show the change</button>
            <button onClick={() => discard(known.rules)}>Discard</button>
          </div>
          {problem ? <Problem text={problem} /> : null}
        </>
      )}</Waiting>
      {change ? (
        <div class="card" aria-live="polite">{change.written ? <p><Tag word="ok" /> Saved to <span class="path">{change.file}</span>. New sessions and gateways use it.</p>
          : change.diff ? <><p>This would change <span class="path">{change.file}</span>:</p><Diff diff={{ path: "", unified: change.diff }} /><div class="answers"><button class="primary" disabled={busy} onClick={save}>Save</button></div></>
          : <p>The draft has the rules of the file.</p>}</div>
      ) : null}
      {simulated ? <Simulated found={simulated} /> : null}
    </section>
  );
}

function Simulated({ found }: { found: PolicySimulateResult }) {
  const lost = Object.entries(found.cannot_be_replayed);
  return (
    <div class="card" aria-live="polite">
      <p>{formatCounted(found.calls, "recorded call")}, judged again:</p>
      {found.stopped_at_ms ? <p class="problem" role="status">The simulation was stopped at the calls of {formatMoment(found.stopped_at_ms)}: there are too many. Later ones were not judged; choose fewer days.</p> : null}
      <table class="list counts"><thead><tr><th>Verdict</th><th class="num">then</th><th class="num">now</th></tr></thead><tbody>{LISTS.map((name) => <tr><td><Tag word={name} /></td><td class="num">{formatCount(found.then[name])}</td><td class="num">{formatCount(found.now[name])}</td></tr>)}</tbody></table>
      {found.changes.length ? <><h3>Decided differently</h3><div class="scroll" tabIndex={0}><table class="list stack"><thead><tr><th class="num">Calls</th><th>Then</th><th>Now</th><th>Call</th><th>Why</th></tr></thead><tbody>{found.changes.map((change) => <tr><td class="num" data-label="Calls">{formatCount(change.calls)}</td><td data-label="Then"><Tag word={change.then} /></td><td data-label="Now"><Tag word={change.now} /></td><td class="main"><span class="tool">{change.tool}</span> <Words text={change.title} /></td><td class="muted"><Words text={change.reason} /></td></tr>)}</tbody></table></div></> : <Empty title="No call would be decided differently" />}
      {found.suggested_rules.length ? <><h3>Rules that would save questions</h3><ul class="plain">{found.suggested_rules.map((one) => <li>{one.rules.map((rule) => <code>{rule}</code>)} <span class="muted">{formatCounted(one.questions_saved, "question")}</span></li>)}</ul></> : null}
      {lost.length ? <p class="muted small">Could not be judged again: {lost.map(([why, count]) => `${String(count)} ${why.replaceAll("_", " ")}`).join(", ")}</p> : null}
    </div>
  );
}
