// The form of a question. What it checks is what the gateway checks, so that a user learns at the field
// what is wrong; patterns are left to the gateway, since one of a server could keep the page busy.

import { useId, useRef, useState } from "preact/hooks";
import { reveal } from "./format.ts";
import { hasScope, request } from "./gateway.ts";
import { Link, Markdown } from "./markdown.tsx";
import type { UserQuestion } from "./wire.ts";
import { describe } from "./ui.tsx";

/** Who asks the agent's own questions. A form of theirs that is left empty answers nothing. */
const AGENT = "the agent";
const INPUT_TYPES: Record<string, string> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };
/** What a text of a format looks like, and what to write instead. */
const FORMATS: Record<string, [RegExp, string]> = {
  email: [/^[^\s@]+@[^\s@]+$/, "Write an email address."],
  uri: [/^[a-z][a-z\d+.-]*:\S+$/i, "Write a whole URL, such as https://example.com."],
  date: [/^\d{4}-\d\d-\d\d$/, "Write a whole date."],
  "date-time": [/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/, "Write a whole date with the time."],
};

interface Choice { value: unknown; name: string }

export function QuestionForm({ question, ready, done }: { question: UserQuestion; ready: boolean; done: () => void }) {
  const [sent, setSent] = useState(false);
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [refused, setRefused] = useState("");
  const form = useRef<HTMLFormElement>(null);
  const schema = (question.schema ?? {}) as any;
  const fields = Object.entries<any>(schema.properties ?? {});
  const required = new Set<string>(schema.required ?? []);
  const send = async (action: string, content?: Record<string, unknown>) => {
    setSent(true);
    setRefused("");
    try {
      await request("zero.questions.resolve", { id: question.id, action, ...(content ? { content } : {}) });
    } catch (error) {
      setRefused(describe(error));
      setSent(false);
    }
    done();
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const data = new FormData(event.target as HTMLFormElement);
    const content: Record<string, unknown> = {};
    const wrong: Record<string, string> = {};
    fields.forEach(([name, field], at) => {
      const value = readValue(field, data.getAll(`field-${at}`).map(String));
      // What a browser cannot read as a number or a date is missing in the data.
      const isUnread = (form.current?.querySelector(`[name="field-${at}"]`) as HTMLInputElement | null)?.validity.badInput;
      const problem = isUnread ? (FORMATS[field.format]?.[1] ?? "Write a number.") : checkValue(field, value, required.has(name));
      if (problem) wrong[name] = problem;
      else if (value !== undefined) content[name] = value;
    });
    setProblems(wrong);
    const first = fields.findIndex(([name]) => name in wrong);
    if (first >= 0) {
      (form.current?.querySelector(`[name="field-${first}"]`) as HTMLElement | null)?.focus();
    } else if (question.origin === AGENT && fields.length && !Object.keys(content).length) {
      setRefused("Nothing is chosen or written yet. Fill in a field, or decline.");
    } else void send("accept", content);
  };
  return (
    <form onSubmit={submit} ref={form} noValidate>
      <div class="card-title"><Markdown text={question.message} /></div>
      {question.url ? <p><Link to={question.url}>{question.url}</Link></p> : null}
      {fields.map(([name, field], at) => <Field key={name} name={`field-${at}`} label={reveal(String(field.title ?? name))} field={field} required={required.has(name)} problem={problems[name] ?? ""} />)}
      {refused ? <p class="problem" role="alert">{refused}</p> : null}
      <div class="answers">
        <button class="primary" disabled={sent || !ready || !hasScope("questions")}>{sent ? "Sending…" : "Answer"}</button>
        <button type="button" disabled={sent || !hasScope("questions")} onClick={() => void send("decline")}>Decline</button>
      </div>
    </form>
  );
}

/** What was given for a field; undefined if nothing was. */
function readValue(field: any, given: string[]): unknown {
  if (field.type === "boolean") return given.length > 0;
  const choices = choicesOf(field);
  if (choices.length) {
    const chosen = given.map((at) => choices[Number(at)]?.value);
    return chosen.length === 0 ? undefined : field.type === "array" ? chosen : chosen[0];
  }
  const text = given[0] ?? "";
  if (text === "") return undefined;
  if (field.type === "array") return text.split("\n").filter(Boolean);
  if (isTime(field)) {
    const time = new Date(text);
    return Number.isNaN(time.getTime()) ? text : time.toISOString();
  }
  return field.type === "number" || field.type === "integer" ? Number(text) : text;
}

const isTime = (field: any) => field.type === "string" && field.format === "date-time";

/** What a field has at first. Times are written in the reader's zone. */
function presetOf(field: any): string {
  const preset = field.default ?? "";
  const time = new Date(preset);
  if (!isTime(field) || Number.isNaN(time.getTime())) return String(preset);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function checkValue(field: any, value: unknown, required: boolean): string | null {
  const { minimum: least, maximum: most, minLength = 0, maxLength = Infinity, minItems = 0, maxItems = Infinity } = field;
  if (value === undefined) return required || minItems > 0 ? (choicesOf(field).length ? "Choose one." : "Fill this in.") : null;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) return "Write a number.";
    if (field.type === "integer" && !Number.isInteger(value)) return "Write a whole number.";
    if (least != null && value < least) return `At least ${least}.`;
    if (most != null && value > most) return `At most ${most}.`;
    if (field.exclusiveMinimum != null && value <= field.exclusiveMinimum) return `More than ${field.exclusiveMinimum}.`;
    if (field.exclusiveMaximum != null && value >= field.exclusiveMaximum) return `Less than ${field.exclusiveMaximum}.`;
  } else if (typeof value === "string" && !choicesOf(field).length) {
    const length = [...value].length;
    if (length < minLength) return `At least ${minLength} characters; these are ${length}.`;
    if (length > maxLength) return `At most ${maxLength} characters; these are ${length}.`;
    const format = FORMATS[field.format];
    if (format && !format[0].test(value)) return format[1];
  } else if (Array.isArray(value)) {
    if (value.length < minItems) return `Choose at least ${minItems}.`;
    if (value.length > maxItems) return `Choose at most ${maxItems}.`;
  }
  return null;
}

function Field({ name, label, field, required, problem }: { name: string; label: string; field: any; required: boolean; problem: string }) {
  const choices = choicesOf(field);
  const about = useId();
  const marks = { name, "aria-invalid": problem ? true : undefined, "aria-describedby": problem ? about : undefined } as const;
  const help = field.description ? <span class="muted small">{reveal(String(field.description))}</span> : null;
  const wrong = problem ? <span class="wrong small" id={about} role="alert">{problem}</span> : null;
  const title = <>{label}{required && field.type !== "boolean" ? <span class="muted"> (required)</span> : null}</>;
  if (field.type === "boolean") {
    return <label class="check"><input type="checkbox" {...marks} defaultChecked={!!field.default} /> {label} {help}</label>;
  }
  if (choices.length) {
    const kind = field.type === "array" ? "checkbox" : "radio";
    const preset = (value: unknown) => (Array.isArray(field.default) ? field.default.includes(value) : field.default === value);
    return (
      <fieldset><legend>{title}</legend>{help}
        {choices.map((choice, at) => <label class="check"><input type={kind} {...marks} value={at} defaultChecked={preset(choice.value)} /> {choice.name}</label>)}
        {wrong}
      </fieldset>
    );
  }
  const isNumber = field.type === "number" || field.type === "integer";
  const type = isNumber ? "number" : (INPUT_TYPES[field.format] ?? "text");
  return (
    <label class="field"><span>{title}</span>{help}
      {field.type === "array" ? <textarea {...marks} rows={3} />
        : <input {...marks} type={type as any} step={isNumber ? (field.type === "integer" ? 1 : "any") : isTime(field) ? 1 : undefined} min={field.minimum} max={field.maximum} required={required} defaultValue={presetOf(field)} />}
      {wrong}
    </label>
  );
}

function choicesOf(field: any): Choice[] {
  const of = field?.type === "array" ? field.items : field;
  if (Array.isArray(of?.enum)) return of.enum.map((value: unknown, at: number) => ({ value, name: reveal(String(of.enumNames?.[at] ?? value)) }));
  const listed = of?.oneOf ?? of?.anyOf;
  if (Array.isArray(listed)) return listed.map((one: any) => ({ value: one.const, name: reveal(String(one.title ?? one.const)) }));
  return [];
}
