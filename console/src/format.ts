// Dates and numbers in the reader's locale.

const money = new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", minimumFractionDigits: 2, maximumFractionDigits: 4 });
const count = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const share = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** Days are counted in UTC, as in `zero usage`. */
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const tenths = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

export const formatMoney = (value: number | null | undefined) => (value == null ? "–" : money.format(value));
export const formatCount = (value: number) => count.format(value);
/** A number of things: `1 file`, `2 files`. */
export const formatCounted = (value: number, one: string, many = `${one}s`) => `${count.format(value)} ${value === 1 ? one : many}`;
export const formatShort = (value: number) => short.format(value);
export const formatShare = (value: number) => share.format(value);
export const formatMoment = (ms: number) => moment.format(ms);
export const formatDay = (ms: number) => day.format(ms);
export const formatClock = (ms: number) => clock.format(ms);

export function formatAgo(ms: number, now = Date.now()): string {
  const seconds = Math.round((ms - now) / 1000);
  const steps: [Intl.RelativeTimeFormatUnit, number][] = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
  let left = seconds;
  for (const [unit, size] of steps) {
    if (Math.abs(left) < size) return relative.format(left, unit);
    left = Math.round(left / size);
  }
  return formatMoment(ms);
}

export function formatDuration(us: number): string {
  if (us < 1_000) return `${us} µs`;
  if (us < 1_000_000) return `${us < 10_000 ? tenths.format(us / 1_000) : count.format(Math.round(us / 1_000))} ms`;
  const seconds = us / 1_000_000;
  return seconds < 60 ? `${tenths.format(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export const shorten = (text: string, most: number) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// What is drawn as nothing, or changes how its neighbours are drawn. Emoji may be joined.
const HIDDEN = /(?![\n\t]|\r\n|(?<=\p{ExtPict})[\ufe0e\ufe0f]|(?<=\p{ExtPict}\ufe0f?)\u200d(?=\p{ExtPict}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u2800]/gu;

const escapeLetter = (letter: string) => `\\u{${letter.codePointAt(0)!.toString(16)}}`;

/** Text by which a person judges what a call does: hidden characters are shown as escapes. */
export const reveal = (text: string) => text.replace(HIDDEN, escapeLetter);

/** Prose: what would show its words in another order than they are in is shown as escapes. */
export const revealOrder = (text: string) => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, escapeLetter);
