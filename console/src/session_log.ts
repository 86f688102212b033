// The ledger of a session, folded into what is shown: consecutive text becomes one part, and a call
// with its news and its end becomes one entry.

import { formatCounted } from "./format.ts";
import type { ApprovalRequest, Event, PlanEntry, PromptAttachment, RunOutcome, TokenUsage, ToolOutcome, UserQuestion } from "./wire.ts";

interface Common {
  key: number; seq: number; run: string | null; timeMs: number;
  /** The entry that ended a call or answered a question. */
  endSeq?: number;
}

export type CallItem = Common & {
  is: "call"; call: string; name: string; title: string; kind: string; input: unknown; waits: boolean;
  /** Whether it waits for an approval. */
  isAsked: boolean;
  status: string; outcome: ToolOutcome | null; progress: string[];
  /** When it began: after the calls before it and the user's answer. Null while it waits for them. */
  beginMs: number | null;
  endMs: number | null;
  /** Key of the session of the sub-agent that it started. */
  subagent: string | null;
};
export type LogItem =
  | (Common & { is: "prompt"; text: string; attachments: PromptAttachment[] })
  | (Common & { is: "text" | "thought"; text: string })
  | CallItem
  | (Common & { is: "plan"; entries: PlanEntry[] })
  | (Common & { is: "approval"; request: ApprovalRequest; answer: string | null; by: string })
  | (Common & { is: "question"; question: UserQuestion; action: string | null })
  | (Common & { is: "notice"; tone: "info" | "bad"; text: string; details?: string })
  | (Common & { is: "end"; end: RunOutcome; usage: TokenUsage });

const PROGRESS_MAX = 200;
/** Entries after which the oldest are forgotten, and how many stay. */
const ITEMS_MAX = 2_000;
const ITEMS_KEPT = 1_000;

export class SessionLog {
  items: LogItem[] = [];
  lastSeq = 0;
  firstSeq = 0;
  usage: { context: number; window: number } | null = null;
  active: string | null = null;
  /** Key of the session whose sub-agent works in this one. */
  parent: string | null = null;
  private calls = new Map<string, CallItem>();
  private questions = new Map<string, LogItem>();
  /** Answers to questions that were asked before the first entry. */
  private looseAnswers = new Map<string, object>();
  private nextKey = 1;

  /** Adds entries that follow; returns whether something was new. */
  add(events: Event[]): boolean {
    let changed = false;
    for (const event of events) {
      if (event.seq <= this.lastSeq) continue;
      this.firstSeq ||= event.seq;
      this.lastSeq = event.seq;
      this.fold(event as any);
      changed = true;
    }
    return changed;
  }

  /** Adds entries that precede all others. */
  addEarlier(events: Event[]): void {
    const earlier = new SessionLog();
    earlier.nextKey = -1_000_000_000 + (events[0]?.seq ?? 0) * 2;
    earlier.add(events);
    for (const item of [...earlier.items]) {
      const id = item.is === "approval" ? item.request.id : item.is === "question" ? item.question.id : null;
      if (id !== null) {
        Object.assign(item, this.looseAnswers.get(id));
        this.looseAnswers.delete(id);
        this.questions.set(id, item);
      }
      if (item.is === "approval" && item.answer) earlier.note(item.request.call, false, null);
    }
    // The end of a call may be known already while its begin comes only now.
    for (const item of earlier.items) {
      if (item.is === "call" && item.status === "running") {
        const known = this.calls.get(item.call);
        if (known && known !== item) {
          Object.assign(item, { status: known.status, outcome: known.outcome, endMs: known.endMs, endSeq: known.endSeq, subagent: item.subagent ?? known.subagent });
          this.items = this.items.filter((other) => other !== known);
          this.calls.set(item.call, item);
        } else if (!known) this.calls.set(item.call, item);
      }
    }
    this.items = [...earlier.items, ...this.items];
    for (const [id, answer] of earlier.looseAnswers) this.looseAnswers.set(id, answer);
    this.parent ??= earlier.parent;
    this.firstSeq = earlier.firstSeq || this.firstSeq;
  }

  /** Forgets the oldest entries of a long log, which can be loaded again. Cuts only where no call or
   * question before ends after, so that what is loaded again is whole. */
  trim(): boolean {
    if (this.items.length <= ITEMS_MAX) return false;
    let cut = 0;
    let endsBy = 0;
    for (let at = 0; at <= this.items.length - ITEMS_KEPT; at++) {
      const item = this.items[at]!;
      if (item.seq > endsBy) cut = at;
      const isOpen = (item.is === "call" && item.status === "running") || (item.is === "approval" && !item.answer) || (item.is === "question" && !item.action);
      endsBy = isOpen ? Infinity : Math.max(endsBy, item.endSeq ?? 0);
    }
    if (cut === 0) return false;
    for (const item of this.items.slice(0, cut)) {
      if (item.is === "call") this.calls.delete(item.call);
      else if (item.is === "approval") this.questions.delete(item.request.id);
      else if (item.is === "question") this.questions.delete(item.question.id);
    }
    this.items = this.items.slice(cut);
    this.firstSeq = this.items[0]!.seq;
    return true;
  }

  private push(event: any, item: any): any {
    const made = { key: this.nextKey++, seq: event.seq, run: event.run ?? null, timeMs: event.time_ms, ...item };
    this.items.push(made);
    return made;
  }

  private fold(event: any): void {
    const last = this.items[this.items.length - 1];
    switch (event.type) {
      case "prompt":
        this.push(event, { is: "prompt", text: event.text, attachments: event.attachments ?? [] });
        break;
      case "run_started":
        this.active = event.run ?? null;
        this.parent = event.parent?.session_key ?? this.parent;
        break;
      case "text":
      case "thought":
        if (last?.is === event.type && last?.run === (event.run ?? null)) {
          // A new object, so that what is shown of it is drawn again.
          this.items[this.items.length - 1] = { ...(last as any), text: (last as any).text + event.text };
        } else this.push(event, { is: event.type, text: event.text });
        break;
      case "tool_started": {
        const call = this.push(event, {
          is: "call", call: event.call, name: event.name, title: event.title, kind: event.kind, input: event.input,
          waits: !!event.waits, isAsked: false, status: "running", outcome: null, progress: [], beginMs: event.waits ? null : event.time_ms, endMs: null, subagent: null,
        });
        this.calls.set(event.call, call);
        break;
      }
      case "tool_updated":
        this.change(event.call, (call) => {
          if (event.title) call.title = event.title;
          if (event.begins) [call.waits, call.beginMs] = [false, event.time_ms];
          if (event.subagent) call.subagent = event.subagent;
          const words = typeof event.progress === "string" ? event.progress : event.progress?.message;
          if (typeof words === "string") call.progress = [...call.progress, words].slice(-PROGRESS_MAX);
        });
        break;
      case "tool_ended":
        if (!this.calls.has(event.call)) {
          const call = this.push(event, { is: "call", call: event.call, name: "", title: "a call", kind: "other", input: null, waits: false, isAsked: false, status: "", outcome: null, progress: [], beginMs: null, endMs: null, subagent: null });
          this.calls.set(event.call, call);
        }
        this.change(event.call, (call) => {
          call.status = event.status;
          call.outcome = event.outcome;
          call.endMs = event.time_ms;
          call.endSeq = event.seq;
          // Ledgers of earlier versions name the sub-agent only in the result.
          const session = call.name === "Task" ? event.outcome?.result?.structured?.session : null;
          if (typeof session === "string") call.subagent ??= session;
        });
        break;
      case "plan":
        if (last?.is === "plan") this.items[this.items.length - 1] = { ...last, entries: event.entries };
        else this.push(event, { is: "plan", entries: event.entries });
        break;
      case "approval_requested":
        this.questions.set(event.id, this.push(event, { is: "approval", request: event, answer: null, by: "" }));
        // A command that asks for a connection goes on.
        if (event.subject !== "connection") this.note(event.call, true, null);
        break;
      case "approval_resolved": {
        this.answer(event, { answer: event.answer, by: event.by });
        const known = this.questions.get(event.id);
        if (known?.is === "approval") this.note(known.request.call, false, event.answer.startsWith("allow") ? event.time_ms : null);
        break;
      }
      case "question_asked":
        this.questions.set(event.id, this.push(event, { is: "question", question: event, action: null }));
        break;
      case "question_answered":
        this.answer(event, { action: event.action });
        break;
      case "usage_reported":
        this.usage = { context: event.context_tokens, window: event.context_window };
        break;
      case "notice":
        this.push(event, { is: "notice", tone: "info", text: event.text });
        break;
      case "compacted":
        this.push(event, { is: "notice", tone: "info", text: `The conversation was compacted: about ${event.tokens_before} tokens before, ${event.tokens_after} now.`, details: event.summary });
        break;
      case "model_fallback":
        this.push(event, { is: "notice", tone: "info", text: `${event.from} is not available (${event.reason}); ${event.to} answers instead.` });
        break;
      case "reset":
        this.push(event, { is: "notice", tone: "info", text: "The session was reset; a new transcript begins." });
        break;
      case "rewound":
        this.push(event, { is: "notice", tone: "info", text: event.prompt ? `Rewound to before prompt ${event.prompt} (${event.scope}, ${formatCounted(event.files, "file")}).` : "The last rewind was taken back." });
        break;
      case "changed":
        this.push(event, { is: "notice", tone: "info", text: `${event.field}: ${event.value ?? "cleared"}` });
        break;
      case "run_ended":
        this.active = null;
        this.push(event, { is: "end", end: event.end, usage: event.usage });
        break;
      default:
        this.push(event, { is: "notice", tone: "bad", text: `An entry of kind ${String(event.type)} that this console cannot show.` });
    }
  }

  /** Notes whether a call waits for an approval, and when it goes on. */
  private note(id: string, isAsked: boolean, beginMs: number | null): void {
    this.change(id, (call) => {
      if (isAsked || call.isAsked) call.beginMs = beginMs;
      call.isAsked = isAsked;
    });
  }

  private change(id: string, edit: (call: CallItem) => void): void {
    const known = this.calls.get(id);
    if (!known) return;
    const call = { ...known };
    edit(call);
    this.replace(known, call);
    this.calls.set(id, call);
  }

  private answer(event: any, fields: object): void {
    const known = this.questions.get(event.id);
    if (!known) {
      this.looseAnswers.set(event.id, { ...fields, endSeq: event.seq });
      return;
    }
    const made = { ...known, ...fields, endSeq: event.seq } as LogItem;
    this.replace(known, made);
    this.questions.set(event.id, made);
  }

  private replace(old: LogItem, made: LogItem): void {
    // What changes is nearly always near the end.
    const at = this.items.lastIndexOf(old);
    if (at >= 0) this.items[at] = made;
  }
}

/** The text of a result for a person. */
export function resultText(outcome: ToolOutcome): string {
  if ("error" in outcome) return outcome.error.message;
  return outcome.result.content.map((part: any) => {
    if (typeof part === "string") return part;
    if (typeof part.text === "string") return part.text;
    if (part.lines) return part.lines.text;
    if (part.matches) return part.matches.hits.map((hit: any) => `${hit.file}:${hit.line ?? ""}: ${hit.text}`).join("\n");
    if (part.diff) return part.diff.summary;
    if (part.resource) return part.resource.uri;
    return "";
  }).filter(Boolean).join("\n");
}

export function resultImages(outcome: ToolOutcome): { mime: string; data: string }[] {
  if ("error" in outcome) return [];
  return outcome.result.content.flatMap((part: any) => (part.image ? [part.image] : []));
}
