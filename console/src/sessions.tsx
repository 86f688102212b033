// The list of sessions.

import { useEffect, useState } from "preact/hooks";
import { hasScope, request } from "./gateway.ts";
import { formatMoney } from "./format.ts";
import { go } from "./route.ts";
import type { SessionInfo } from "./wire.ts";
import { Ago, Empty, Page, Tag, Waiting, attempt, useAnswer } from "./ui.tsx";

const FIRST = 50;
const MOST = 1_000;
const POLL_MS = 4_000;

export const WAITS = "waits for an answer";
export const sessionPath = (key: string) => `session/${encodeURIComponent(key)}`;

export function SessionsPage() {
  const [search, setSearch] = useState("");
  const [shown, setShown] = useState(FIRST);
  const [all, setAll] = useState<SessionInfo[]>([]);
  const newest = useAnswer("zero.sessions.list", { limit: FIRST }, POLL_MS);
  const hasMore = newest.value?.nextOffset != null;
  useEffect(() => {
    // The rest is needed only to search it or to see more.
    if (!hasMore || all.length > 0 || (!search && shown <= FIRST)) return;
    void attempt(async () => setAll((await request("zero.sessions.list", { limit: MOST })).sessions));
  }, [hasMore, search, shown]);
  const fresh = newest.value?.sessions ?? [];
  const isFresh = new Set(fresh.map((one) => one.sessionKey));
  const sessions = [...fresh, ...all.filter((one) => !isFresh.has(one.sessionKey))];
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = sessions.filter((one) => {
    const text = [one.sessionKey, one.title, one.label, one.cwd, one.model, one.agent, one.owner].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  // Where all are of one owner, it says nothing.
  const hasOwners = new Set(sessions.map((one) => one.owner)).size > 1;
  const create = async () => {
    const name = `console-${Date.now().toString(36)}`;
    const opened = await request("zero.sessions.open", { sessionKey: name });
    go(sessionPath(opened.sessionKey));
  };
  return (
    <Page title="Sessions" actions={hasScope("write") ? <button class="primary" onClick={() => void attempt(create)}>New session</button> : null}>
      <label class="search"><span class="hidden">Search sessions</span><input type="search" placeholder="Search by name, folder, model…" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></label>
      <Waiting of={newest}>{() => found.length === 0
        ? <Empty title={search ? "No session matches" : "No sessions yet"}>{search ? null : "Start one here, in a terminal with `zero`, or in an editor."}</Empty>
        : <ul class="rows">{found.slice(0, shown).map((one) => <li key={one.sessionKey}><Row session={one} owner={hasOwners ? one.owner : null} /></li>)}</ul>}
      </Waiting>
      {found.length > shown || (hasMore && !search && all.length === 0) ? <button class="more" onClick={() => setShown(shown + 200)}>Show more</button> : null}
    </Page>
  );
}

/** What a session does: it may wait for an answer while its run is parked. */
export function sessionState(session: SessionInfo): string {
  return (session.openQuestions ?? 0) > 0 ? WAITS : session.runIds.length > 0 ? "running" : "idle";
}

function Row({ session, owner }: { session: SessionInfo; owner?: string | null }) {
  const state = sessionState(session);
  const name = session.title || session.label || session.sessionKey;
  return (
    <a class="row" href={`#/${sessionPath(session.sessionKey)}`}>
      <span class={`dot ${state === "idle" ? "" : "live"}`} aria-label={state} role="img" />
      <span class="row-main"><span class="row-name">{name} {state === WAITS ? <Tag word={WAITS} /> : null}</span><span class="muted small path">{owner != null ? `${owner} · ` : ""}{session.cwd ?? "the gateway's folder"}</span></span>
      <span class="row-side"><span class="small">{session.model}</span><span class="muted small"><Ago ms={session.updatedMs} />{session.usage.cost_usd != null ? ` · ${formatMoney(session.usage.cost_usd)}` : ""}</span></span>
    </a>
  );
}
