// Finds the row of a call in the audit log.

import { createContext } from "preact";
import { request } from "./gateway.ts";
import type { CallItem } from "./session_log.ts";
import type { AuditRowInfo } from "./wire.ts";

/** Clocks of a row and of its call may differ by so much. */
const SLACK_MS = 2_000;
const ROWS_MOST = 200;

/** Key of the session whose calls are shown. */
export const ShownSession = createContext("");

/** Number or id of the row of a call; null if there is none. The log gives calls ids of its own, so that nobody
 * can use one twice: a call is found by its session, tool, title and time. */
export async function findRecord(sessionKey: string, item: CallItem): Promise<string | null> {
  const { sessionId } = await request("zero.sessions.show", { sessionKey });
  const { rows } = await request("zero.audit.list", {
    session: sessionId, tool: item.name, limit: ROWS_MOST,
    sinceMs: item.timeMs - SLACK_MS, untilMs: (item.endMs ?? Date.now()) + SLACK_MS,
  });
  const off = (row: AuditRowInfo) => Math.abs(row.timeMs - item.timeMs);
  const found = rows.filter((row) => row.title === item.title).sort((one, other) => off(one) - off(other))[0];
  return found ? String(found.seq ?? found.call) : null;
}
