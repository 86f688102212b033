// The audit log: filters, one call in full, and the chain with its head.

import { useState } from "preact/hooks";
import { hasScope, request } from "./gateway.ts";
import { formatCount, formatDuration, formatMoment } from "./format.ts";
import { Words } from "./markdown.tsx";
import { go } from "./route.ts";
import type { AuditListParams, AuditRowInfo, AuditVerifyResult } from "./wire.ts";
import { Empty, Json, NeedsAdmin, Page, Problem, Tag, Waiting, attempt, useAnswer } from "./ui.tsx";

const FILTERS = ["text", "tool", "verdict", "status", "rule", "host", "path", "session"] as const;
type Filters = Partial<Record<(typeof FILTERS)[number] | "since" | "until", string>>;

export function AuditPage({ query }: { query: string }) {
  if (!hasScope("admin")) return <Page title="Audit"><NeedsAdmin what="The audit log" /></Page>;
  return <AuditList filters={Object.fromEntries(new URLSearchParams(query)) as Filters} />;
}

function AuditList({ filters }: { filters: Filters }) {
  const [more, setMore] = useState<{ of: string; rows: AuditRowInfo[]; next: number | null; stopped: string | null } | null>(null);
  const params: AuditListParams = { limit: 100 };
  for (const name of FILTERS) if (filters[name]) params[name] = filters[name];
  const day = (text: string | undefined, add: number) => (text ? new Date(`${text}T00:00`).getTime() + add : NaN);
  const since = day(filters.since, 0);
  const until = day(filters.until, 86_400_000);
  if (!Number.isNaN(since)) params.sinceMs = since;
  if (!Number.isNaN(until)) params.untilMs = until;
  const of = JSON.stringify(params);
  const found = useAnswer("zero.audit.list", params);
  const extra = more?.of === of ? more : null;
  const next = extra ? extra.next : (found.value?.nextBefore ?? null);
  const load = () => void attempt(async () => {
    const page = await request("zero.audit.list", { ...params, before: next ?? undefined });
    setMore({ of, rows: [...(extra?.rows ?? []), ...page.rows], next: page.nextBefore ?? null, stopped: page.stoppedAtDay ?? null });
  });
  const apply = (event: Event) => {
    event.preventDefault();
    const form = new FormData((event.currentTarget as HTMLElement).closest("form") as HTMLFormElement);
    const given = [...form.entries()].map(([name, value]) => [name, String(value)] as [string, string]).filter(([, value]) => value);
    go(`audit${given.length ? `?${new URLSearchParams(given)}` : ""}`);
  };
  const field = (name: keyof Filters, label: string) => <label class="field"><span>{label}</span><input name={name} defaultValue={filters[name] ?? ""} /></label>;
  const isFiltered = Object.keys(filters).length > 0;
  return (
    <Page title="Audit" wide>
      <Chain />
      <form class="filters" onSubmit={apply} key={JSON.stringify(filters)}>
        <label class="field grow"><span>Text</span><input name="text" type="search" defaultValue={filters.text ?? ""} placeholder="in the title or command" /></label>
        <label class="field"><span>Verdict</span><select name="verdict" onChange={apply}>{["", "allow", "ask", "deny"].map((word) => <option value={word} selected={word === (filters.verdict ?? "")}>{word || "any"}</option>)}</select></label>
        <details open={FILTERS.some((name) => !["text", "verdict"].includes(name) && filters[name]) || !!filters.since || !!filters.until}><summary>More filters</summary><div class="more-filters">
          {field("tool", "Tool")}{field("rule", "Rule")}{field("host", "Host")}{field("path", "Path")}{field("session", "Session id")}{field("status", "Status")}
          <label class="field"><span>From</span><input type="date" name="since" defaultValue={filters.since ?? ""} /></label>
          <label class="field"><span>To</span><input type="date" name="until" defaultValue={filters.until ?? ""} /></label>
        </div></details>
        <button class="primary">Filter</button>{isFiltered ? <a class="button" href="#/audit">Clear</a> : null}
      </form>
      <Waiting of={found}>{(page) => {
        const rows = [...page.rows, ...(extra?.rows ?? [])];
        const stopped = extra ? extra.stopped : page.stoppedAtDay;
        const cut = stopped ? <p class="problem" role="status">The search was stopped at {stopped}, because it took too long: older calls are not shown. Narrow it by <em>From</em> and <em>To</em>, or use <code>zero audit</code>.</p> : null;
        if (!rows.length) return cut ?? <Empty title={isFiltered ? "No call matches" : "No calls are recorded yet"} />;
        return (
          <div class="scroll" tabIndex={0} role="region" aria-label="Calls"><table class="list stack">
            <thead><tr><th>Verdict</th><th>Call</th><th>Rule</th><th>End</th><th class="num">Took</th><th>When</th></tr></thead>
            <tbody>{rows.map((row) => (
              <tr key={`${row.seq} ${row.call}`}>
                <td>{row.verdict ? <Tag word={row.verdict} /> : <span class="muted">–</span>}</td>
                <td class="main"><a href={`#/audit/${encodeURIComponent(row.seq == null ? row.call : String(row.seq))}`}><span class="tool">{row.tool}</span> <Words text={row.title} /></a></td>
                <td class="path small" data-label="Rule">{row.rule ?? ""}</td>
                <td data-label="End">{row.status}</td>
                <td class="num" data-label="Took">{formatDuration(row.durationUs)}</td>
                <td class="small nowrap">{formatMoment(row.timeMs)}</td>
              </tr>
            ))}</tbody>
          </table>{cut}</div>
        );
      }}</Waiting>
      {next != null ? <button class="more" onClick={load}>Show more</button> : null}
    </Page>
  );
}

function Chain() {
  const [checked, setChecked] = useState<AuditVerifyResult | null>(null);
  const [busy, setBusy] = useState(false);
  const verify = () => {
    setBusy(true);
    void attempt(async () => setChecked(await request("zero.audit.verify", {}))).then(() => setBusy(false));
  };
  return (
    <section class={`chain ${checked ? (checked.intact ? "good" : "bad") : ""}`} aria-label="Chain">
      <p aria-live="polite">{checked
        ? <><strong>{checked.intact ? "The log is intact." : "The log was changed."}</strong> {formatCount(checked.rows)} {checked.rows === 1 ? "row" : "rows"} of {formatCount(checked.days)} {checked.days === 1 ? "day" : "days"}{checked.head ? <>; head <span class="path hash">{checked.head.seq}:{checked.head.hash}</span></> : null}{checked.unread_before ? <>. The log is long: the days before {checked.unread_before} were not checked; <code>zero audit verify</code> checks them all</> : null}</>
        : "Each row contains the hash of the row before, so that a change shows."}</p>
      <button disabled={busy} onClick={verify}>{busy ? "Checking…" : checked ? "Check again" : "Check the chain"}</button>
      {checked?.findings.length ? <ul>{checked.findings.map((one) => <li><span class="path">{one.file}{one.line ? `:${one.line}` : ""}</span> {one.message}</li>)}</ul> : null}
    </section>
  );
}

export function AuditCallPage({ call }: { call: string }) {
  const found = useAnswer(hasScope("admin") ? "zero.audit.show" : null, { call });
  if (!hasScope("admin")) return <Page title="Audit"><NeedsAdmin what="The audit log" /></Page>;
  return (
    <Page title="Call" actions={<a class="button" href="#/audit">All calls</a>}>
      <Waiting of={found}>{(hit) => {
        const row = hit.record as any;
        const decision = row.decision;
        return (
          <>
            <h2 class="card-title"><span class="tool">{row.tool}</span> <Words text={row.title ?? ""} /></h2>
            <dl class="facts wide-facts">
              <div><dt>Decision</dt><dd>{decision ? <><Tag word={decision.verdict} /> <Words text={decision.reason} /></> : "ended before it was judged"}</dd></div>
              {decision?.rule ? <div><dt>Rule</dt><dd><code>{decision.rule}</code> <span class="muted">{decision.source}</span></dd></div> : null}
              {decision?.answered ? <div><dt>Answer</dt><dd>{decision.answered}</dd></div> : null}
              <div><dt>End</dt><dd><Tag word={row.status} /> {row.message ?? ""}</dd></div>
              <div><dt>Took</dt><dd>{formatDuration(row.duration_us)}</dd></div>
              <div><dt>When</dt><dd>{formatMoment(Date.parse(row.time))}</dd></div>
              <div><dt>Workspace</dt><dd class="path">{row.workspace}</dd></div>
              {row.session ? <div><dt>Session</dt><dd><a class="path" href={`#/audit?session=${encodeURIComponent(row.session)}`}>{row.session}</a></dd></div> : null}
              <div><dt>Call</dt><dd class="path">{row.call}</dd></div>
              <div><dt>Recorded</dt><dd class="path">{hit.file}:{hit.line}</dd></div>
              {hit.chain ? <div><dt>Chain</dt><dd><span class="path hash">{hit.chain.seq}:{hit.chain.hash}</span> {hit.chain.hash_is_right ? <Tag word="ok" /> : <Tag word="error" />}</dd></div> : null}
            </dl>
            {row.effects?.length ? <><h2>Effects</h2><table class="effects"><tbody>{row.effects.map((effect: any) => <tr><td>{effect.decision ? <Tag word={effect.decision} /> : null}</td><td class="kind">{effect.kind}</td><td class="target"><span class="path">{effect.target}</span>{effect.rule ? <span class="muted small">{effect.rule}</span> : null}</td></tr>)}</tbody></table></> : null}
            <h2>Input</h2><Json value={row.input} label="input" />
            <details><summary>The whole row</summary><Json value={row} label="row" /></details>
          </>
        );
      }}</Waiting>
      {found.error ? <Problem text={found.error} /> : null}
    </Page>
  );
}

