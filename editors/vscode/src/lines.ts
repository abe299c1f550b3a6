/** Where the lines of a text are after somebody has changed it. */

/**
 * Returns the line of `now` for a line of `before`, both counted from 0. Lines that are in both texts only once, in the
 * same order, hold the others: a line between two of them is where the one above leads, at most where the next one is.
 */
export function lineMap(before: readonly string[], now: readonly string[]): (line: number) => number {
  const start = commonStart(before, now);
  const [oldEnd, newEnd] = commonEnd(before, now, start);
  const held = [[start - 1, start - 1], ...anchors(before, now, start, oldEnd, newEnd), [oldEnd, newEnd]] as const;
  return (line) => {
    if (line < start) return line;
    if (line >= oldEnd) return line - oldEnd + newEnd;
    const next = held.findIndex(([old]) => old > line);
    const [old, to] = held[next - 1] ?? [0, 0];
    return Math.min(to + line - old, held[next]?.[1] ?? newEnd);
  };
}

function commonStart(before: readonly string[], now: readonly string[]): number {
  let n = 0;
  while (n < before.length && before[n] === now[n]) n++;
  return n;
}

function commonEnd(before: readonly string[], now: readonly string[], start: number): [number, number] {
  let [old, to] = [before.length, now.length];
  while (old > start && to > start && before[old - 1] === now[to - 1]) [old, to] = [old - 1, to - 1];
  return [old, to];
}

/** The longest row of lines that are unique in both texts and in the same order in both. */
function anchors(
  before: readonly string[],
  now: readonly string[],
  start: number,
  oldEnd: number,
  newEnd: number,
): [number, number][] {
  const places = uniqueLines(now, start, newEnd);
  const pairs: [number, number][] = [];
  for (const [line, old] of uniqueLines(before, start, oldEnd)) {
    const to = places.get(line);
    if (old >= 0 && to !== undefined && to >= 0) pairs.push([old, to]);
  }
  // Patience sorting: each pair is put on the first pile whose top is not above it, and points to the pile before.
  const piles: number[] = [];
  const previous = pairs.map(([, to], i) => {
    const isBefore = (pile: number) => (pairs[pile]?.[1] ?? 0) < to;
    let [low, high] = [0, piles.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(piles[middle] ?? 0)) low = middle + 1;
      else high = middle;
    }
    piles[low] = i;
    return piles[low - 1];
  });
  const row: [number, number][] = [];
  for (let i = piles.at(-1); i !== undefined; i = previous[i]) row.unshift(...pairs.slice(i, i + 1));
  return row;
}

/** The line number of each text that is there once, -1 for the others. */
function uniqueLines(lines: readonly string[], start: number, end: number): Map<string, number> {
  const places = new Map<string, number>();
  for (let i = start; i < end; i++) {
    const line = lines[i] ?? "";
    places.set(line, places.has(line) ? -1 : i);
  }
  return places;
}
