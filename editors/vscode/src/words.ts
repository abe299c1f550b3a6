/** Formats numbers and times for people, the same in the panel and around it. */

import type { Usage } from "oh-daemon-client/protocol";

/** 950, 1.5k, 15k */
export function compact(n: number): string {
  return n < 1000 ? String(n) : `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k`;
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000
    ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** Empty when the cost is unknown; "$0" only when nothing is paid, as for a model on this machine. */
export function formatCost(usage: Usage | undefined): string {
  const amount = usage?.cost?.amount;
  if (amount === undefined) return "";
  if (amount > 0 && amount < 0.001) return "<$0.001";
  return amount === 0 ? "$0" : `$${amount.toFixed(amount < 1 ? 3 : 2)}`;
}

/** "1 file", "3 files" */
export function formatCount(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

/** "2" or "2–5", counted from 1 */
export function formatLines(first: number, last: number): string {
  return last > first ? `${first + 1}–${last + 1}` : String(first + 1);
}

/** White space and control characters become single spaces. */
export function oneLine(text: string, maxChars: number): string {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length > maxChars ? `${line.slice(0, maxChars)}…` : line;
}

/** Says how much of a longer text is missing. */
export function shortened(text: string, maxChars: number): string {
  const rest = text.length - maxChars;
  return rest > 0 ? `${text.slice(0, maxChars)}\n[${rest} more characters]` : text;
}

export function formatAgo(time: string): string {
  const minutes = Math.floor((Date.now() - Date.parse(time)) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return new Date(time).toLocaleDateString();
}

/** Undoes `%20` and the like. A `%` may also mean itself, or a byte of a file's name that is no UTF-8. */
export function decoded(uri: string): string {
  try {
    return decodeURIComponent(uri);
  } catch {
    return uri;
  }
}

/** Returns the text in place of an item, part or subject of a later release. */
export function unknownText(kind: string): string {
  return `(${kind}: this version cannot show it)`;
}
