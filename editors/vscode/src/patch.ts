/** Applies a unified diff to a text, exactly or not at all. */

interface Hunk {
  start: number;
  before: string[];
  after: string[];
}

/** Returns the text with the patch applied, or undefined when it does not fit. Lines keep their endings. */
export function patched(text: string, patch: string): string | undefined {
  const lines = text.split(/(?<=\n)/);
  const result: string[] = [];
  const hunks = hunksOf(patch);
  if (!hunks) return undefined;
  let at = 0;
  for (const hunk of hunks) {
    const from = findHunk(lines, hunk.before, Math.max(at, hunk.start));
    if (from === undefined || from < at) return undefined;
    const ending = lines[from]?.endsWith("\r\n") ? "\r\n" : "\n";
    result.push(...lines.slice(at, from), ...hunk.after.map((line) => line.replace(/\n$/, ending)));
    at = from + hunk.before.length;
  }
  return [...result, ...lines.slice(at)].join("");
}

/** Lines of the text, counted from 0, that a patch replaces, or before which it adds some. */
export interface Place {
  start: number;
  nRemoved: number;
  added: string[];
}

/** Returns where the patch would change the text; places whose text is another by now are left out. */
export function placesOf(patch: string, text: readonly string[]): Place[] {
  const places: (Place & { removed: string[] })[] = [];
  let [line, isOpen] = [-1, false];
  for (const row of patch.split("\n")) {
    const head = /^@@ -(\d+)(,0)?/.exec(row);
    if (head) line = Number(head[1]) - (head[2] === undefined ? 1 : 0);
    const isChange = line >= 0 && !head && /^[-+]/.test(row);
    if (isChange && !isOpen) places.push({ start: line, nRemoved: 0, added: [], removed: [] });
    const place = places.at(-1);
    if (isChange && place) (row.startsWith("-") ? place.removed : place.added).push(row.slice(1));
    if (line >= 0 && !head && /^[- ]/.test(row)) line++;
    isOpen = isChange || (isOpen && row.startsWith("\\"));
  }
  return places
    .filter(({ start, removed }) => removed.every((each, n) => text[start + n] === each))
    .map(({ start, removed, added }) => ({ start, nRemoved: removed.length, added }));
}

/** Returns undefined for a patch that was truncated: its last line is not part of a diff. */
function hunksOf(patch: string): Hunk[] | undefined {
  const hunks: Hunk[] = [];
  for (const line of patch.split("\n")) {
    const head = /^@@ -(\d+)/.exec(line);
    if (head) {
      hunks.push({ start: Math.max(0, Number(head[1]) - 1), before: [], after: [] });
      continue;
    }
    const hunk = hunks.at(-1);
    if (!hunk || line === "") continue;
    const sign = line[0];
    if (sign === "\\") dropLastNewline(hunk);
    else if (sign === " ") for (const side of [hunk.before, hunk.after]) side.push(`${line.slice(1)}\n`);
    else if (sign === "-" || sign === "+") (sign === "-" ? hunk.before : hunk.after).push(`${line.slice(1)}\n`);
    else return undefined;
  }
  return hunks;
}

/** Git's marker for a missing newline at the end of a file applies to the line above it. */
function dropLastNewline(hunk: Hunk): void {
  for (const side of [hunk.before, hunk.after]) {
    const last = side.at(-1);
    if (last !== undefined) side[side.length - 1] = last.replace(/\n$/, "");
  }
}

/** Where the hunk applies: at its line, or at the only other place that has this text. */
function findHunk(lines: string[], before: string[], start: number): number | undefined {
  const fits = (at: number) => before.every((line, i) => sameLine(lines[at + i], line));
  if (fits(start)) return start;
  const places = lines.flatMap((_, at) => (fits(at) ? [at] : []));
  return places.length === 1 ? places[0] : undefined;
}

function sameLine(line: string | undefined, wanted: string): boolean {
  return line?.replace(/\r?\n$/, "") === wanted.replace(/\n$/, "");
}
