/** Numbers as people read them, the same in the panel and in the status bar. */

import type { Usage } from "./protocol";

/** 950, 1.5k, 15k */
export function compact(n: number): string {
  return n < 1000 ? String(n) : `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k`;
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** Empty when nothing was paid, or nobody knows how much. */
export function formatCost(usage: Usage | undefined): string {
  const amount = usage?.cost?.amount ?? 0;
  return amount === 0 ? "" : `$${amount.toFixed(amount < 1 ? 3 : 2)}`;
}
