// What runs used: plots by day, bars for everything else.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { formatCount, formatDay, formatDuration, formatMoney, formatMoment, formatShare, formatShort } from "./format.ts";
import type { BudgetLimitInfo, UsageGroup, UsageResult } from "./wire.ts";
import { Empty, Page, Waiting, useAnswer } from "./ui.tsx";

const GROUPS = ["day", "model", "agent", "session", "owner"] as const;
const DAY_MS = 86_400_000;

/** Mean time of a call, in microseconds. */
const callTime = ({ usage }: UsageGroup) => (usage.tool_calls ? ((usage.call_ms ?? 0) * 1000) / usage.tool_calls : 0);
const shownTime = (us: number) => (us ? formatDuration(Math.round(us)) : "–");
const tokensOf = (group: UsageGroup) => group.usage.input_tokens + group.usage.output_tokens;

export function UsagePage() {
  const [days, setDays] = useState(30);
  const [by, setBy] = useState<(typeof GROUPS)[number]>("day");
  const [since, setSince] = useState(() => Date.now() - 30 * DAY_MS);
  const found = useAnswer("zero.usage", { by, sinceMs: since }, 30_000);
  const choose = (count: number) => {
    setDays(count);
    setSince(Date.now() - count * DAY_MS);
  };
  return (
    <Page title="Usage" wide actions={
      <>
        <label class="inline"><span class="hidden">Time span</span><select value={days} onChange={(event) => choose(Number(event.currentTarget.value))}>{[7, 30, 90, 365].map((count) => <option value={count}>last {count} days</option>)}</select></label>
        <label class="inline"><span class="hidden">Group</span><select value={by} onChange={(event) => setBy(event.currentTarget.value as typeof by)}>{GROUPS.map((name) => <option value={name}>by {name}</option>)}</select></label>
      </>
    }>
      <Waiting of={found}>{(answer) => (
        <>
          <Totals total={answer.total} />
          {answer.rows.length === 0 ? <Empty title="No runs in this time" /> : by === "day" ? <Plots found={answer} since={since} /> : null}
          {answer.rows.length ? <Table found={answer} /> : null}
        </>
      )}</Waiting>
      <Budgets />
    </Page>
  );
}

function Totals({ total }: { total: UsageGroup }) {
  const { usage } = total;
  const unpriced = total.unpricedInputTokens + total.unpricedOutputTokens;
  const facts: [string, string, string?][] = [
    ["Cost", formatMoney(usage.cost_usd), unpriced ? `${formatShort(unpriced)} tokens without a known price` : undefined],
    ["Tokens", formatShort(tokensOf(total)), `${formatShort(usage.input_tokens)} in, ${formatShort(usage.output_tokens)} out`],
    ["From cache", usage.input_tokens ? formatShare((usage.cache_read_tokens ?? 0) / usage.input_tokens) : "–", "of the input"],
    ["Runs", formatCount(total.runs), `${formatCount(usage.failed_runs ?? 0)} failed`],
    ["Calls of tools", formatCount(usage.tool_calls ?? 0), `${formatCount(usage.failed_calls ?? 0)} failed, ${shownTime(callTime(total))} each`],
  ];
  return <dl class="totals">{facts.map(([name, value, more]) => <div><dt>{name}</dt><dd>{value}</dd>{more ? <dd class="muted small">{more}</dd> : null}</div>)}</dl>;
}

const MEASURES: Record<string, [string, (value: number) => string]> = {
  usd: ["Cost", formatMoney], tokens: ["Tokens", formatShort], requests: ["Requests", formatCount], toolCalls: ["Calls of tools", formatCount],
  seconds: ["Time", (seconds) => formatDuration(seconds * 1_000_000)],
};
const SCOPES: Record<string, string> = { run: "Each run", session: "Each session", agent: "Agent, today", owner: "Owner, today" };

function Budgets() {
  const found = useAnswer("zero.budgets", {}, 30_000);
  return (
    <section aria-labelledby="budgets-title">
      <h2 id="budgets-title">Budgets</h2>
      <Waiting of={found}>{({ limits, dayEndsAtMs }) => limits.length === 0
        ? <p class="muted">Nothing limits what may be spent; <code>budgets</code> in the settings does.</p>
        : (
          <>
            <div class="scroll" tabIndex={0} role="region" aria-label="Limits"><table class="list stack">
              <thead><tr><th>For</th><th>Limit</th><th class="num">Used</th><th class="bar-head" aria-hidden="true"></th><th class="num">Of</th><th class="num">Left</th></tr></thead>
              <tbody>{limits.map((limit) => <BudgetRow key={`${limit.scope} ${limit.name} ${limit.measure}`} limit={limit} />)}</tbody>
            </table></div>
            {limits.some((limit) => limit.spent != null) ? <p class="muted small">The day ends {formatMoment(dayEndsAtMs)}.</p> : null}
          </>
        )}</Waiting>
    </section>
  );
}

function BudgetRow({ limit }: { limit: BudgetLimitInfo }) {
  const [label, format] = MEASURES[limit.measure] ?? [limit.measure, formatCount];
  const spent = limit.spent ?? null;
  return (
    <tr>
      <td class="main">{SCOPES[limit.scope] ?? limit.scope}{limit.name ? <> <strong>{limit.name}</strong></> : null}</td>
      <td data-label="Limit">{label}</td>
      <td class="num" data-label="Used">{spent === null ? "–" : format(spent)}</td>
      <td>{spent === null ? null : <meter min={0} max={limit.most || 1} high={limit.most * 0.8} value={Math.min(spent, limit.most || 1)} aria-label={`used of ${label}`} />}</td>
      <td class="num" data-label="Of">{format(limit.most)}</td>
      <td class="num" data-label="Left">{spent === null ? "–" : format(Math.max(0, limit.most - spent))}</td>
    </tr>
  );
}

function Plots({ found, since }: { found: UsageResult; since: number }) {
  // Days without runs are in the plots, too.
  const known = new Map(found.rows.map((row) => [row.name, row]));
  const days: number[] = [];
  for (let at = Math.floor(since / DAY_MS) * DAY_MS; at <= Date.now(); at += DAY_MS) days.push(at / 1000);
  const pick = (value: (group: UsageGroup) => number) => days.map((at) => {
    const row = known.get(new Date(at * 1000).toISOString().slice(0, 10));
    return row ? value(row) : 0;
  });
  return (
    <div class="plots">
      <Plot title="Cost" days={days} format={(value) => formatMoney(value)} series={[["cost", pick((row) => row.usage.cost_usd ?? 0)]]} />
      <Plot title="Tokens" days={days} format={formatShort} series={[["input", pick((row) => row.usage.input_tokens)], ["output", pick((row) => row.usage.output_tokens)], ["from cache", pick((row) => row.usage.cache_read_tokens ?? 0)]]} />
      <Plot title="Runs" days={days} format={formatShort} series={[["runs", pick((row) => row.runs)], ["failed", pick((row) => row.usage.failed_runs ?? 0)]]} />
      <Plot title="Calls of tools" days={days} format={formatShort} series={[["calls", pick((row) => row.usage.tool_calls ?? 0)], ["failed", pick((row) => row.usage.failed_calls ?? 0)]]} />
      <Plot title="Time of a call" days={days} format={shownTime} series={[["mean", pick(callTime)]]} />
    </div>
  );
}

const PLOT_HEIGHT = 170;

function Plot({ title, days, series, format }: { title: string; days: number[]; series: [string, number[]][]; format: (value: number) => string }) {
  const place = useRef<HTMLDivElement>(null);
  const data = JSON.stringify([days, series]);
  useEffect(() => {
    const target = place.current;
    if (!target) return;
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    let plot: uPlot | null = null;
    const draw = () => {
      plot?.destroy();
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string) => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      plot = new uPlot({
        width: target.clientWidth, height: PLOT_HEIGHT, cursor: { show: false }, legend: { show: false },
        tzDate: (at) => uPlot.tzDate(new Date(at * 1_000), "UTC"),
        scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [{ ...axis, values: (_, moments) => moments.map((moment) => formatDay(moment * 1_000)) }, { ...axis, size: 58, values: (_, values) => values.map(format) }],
        series: [{}, ...series.map(([label], at) => ({ label, stroke: colour(`--plot-${at + 1}`), width: 2, fill: at === 0 ? colour("--plot-fill") : undefined, points: { show: days.length < 40, size: 4 } }))],
      }, [days, ...series.map(([, values]) => values)] as uPlot.AlignedData, target);
    };
    draw();
    const sizes = new ResizeObserver(() => plot?.setSize({ width: target.clientWidth, height: PLOT_HEIGHT }));
    sizes.observe(target);
    scheme.addEventListener("change", draw);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener("change", draw);
      plot?.destroy();
    };
  }, [data]);
  return (
    <figure class="plot">
      <figcaption>{title}{series.length > 1 ? <span class="keys">{series.map(([label], at) => <span class={`key k${at + 1}`}>{label}</span>)}</span> : null}</figcaption>
      <div ref={place} role="img" aria-label={`${title} by day; the table below has the numbers`} />
    </figure>
  );
}

function Table({ found }: { found: UsageResult }) {
  const rows = found.by === "day" ? [...found.rows].reverse() : found.rows;
  const most = Math.max(1, ...rows.map(tokensOf));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Numbers"><table class="list stack">
      <thead><tr><th>{found.by}</th><th class="num">Cost</th><th class="num">Tokens</th><th class="bar-head" aria-hidden="true"></th><th class="num">Cache</th><th class="num">Runs</th><th class="num">Failed</th><th class="num">Calls</th><th class="num">Failed</th><th class="num">Time of a call</th></tr></thead>
      <tbody>{rows.map((row) => (
        <tr key={row.name}>
          <td class="main">{row.name || "–"}</td>
          <td class="num" data-label="Cost">{formatMoney(row.usage.cost_usd)}</td>
          <td class="num" data-label="Tokens">{formatShort(tokensOf(row))}</td>
          <td><meter min={0} max={most} value={tokensOf(row)} aria-label={`share of tokens of ${row.name}`} /></td>
          <td class="num" data-label="Cache">{row.usage.input_tokens ? formatShare((row.usage.cache_read_tokens ?? 0) / row.usage.input_tokens) : "–"}</td>
          <td class="num" data-label="Runs">{formatCount(row.runs)}</td>
          <td class="num" data-label="Failed runs">{formatCount(row.usage.failed_runs ?? 0)}</td>
          <td class="num" data-label="Calls">{formatCount(row.usage.tool_calls ?? 0)}</td>
          <td class="num" data-label="Failed calls">{formatCount(row.usage.failed_calls ?? 0)}</td>
          <td class="num" data-label="Time of a call">{shownTime(callTime(row))}</td>
        </tr>
      ))}</tbody>
    </table></div>
  );
}
