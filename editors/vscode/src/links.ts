/** The links to files and folders in what the agent writes: a click stays in the window's folders, or asks first. */

import { commands, FileType, Range, Uri, window, workspace } from "vscode";
import { decoded } from "./words";

/** A path, and perhaps a line as `#L12` or `:12`. */
const PLACE = /^(.+?)(?:#L(\d+).*|:(\d+)(?:[:-]\d+)?|#.*)?$/;

interface Place {
  uri: Uri;
  type: FileType;
}

export async function openLink(href: string): Promise<void> {
  const [, path = href, ...lines] = PLACE.exec(decoded(href.replace(/^file:\/\//i, ""))) ?? [];
  const found = (await within(path)) ?? (await outside(path));
  if (!found) throw new Error(`There is no ${path} in this window's folders.`);
  if (!isInside(found.uri) && !(await isWanted(found.uri))) return;
  if (found.type & FileType.Directory) {
    await commands.executeCommand("revealInExplorer", found.uri);
    return;
  }
  const line = Number(lines.find((each) => each !== undefined) ?? 0) - 1;
  const selection = line < 0 ? {} : { selection: new Range(line, 0, line, 0) };
  await commands.executeCommand("vscode.open", found.uri, { preview: true, ...selection });
}

/** Returns those that name files in the window's folders. */
export async function existing(hrefs: readonly string[]): Promise<string[]> {
  const found = await Promise.all(hrefs.map((href) => within(PLACE.exec(href)?.[1] ?? href)));
  return hrefs.filter((_, i) => ((found[i]?.type ?? FileType.Unknown) & FileType.File) !== 0);
}

async function within(path: string): Promise<Place | undefined> {
  const uris = (workspace.workspaceFolders ?? []).map(({ uri }) => resolved(uri, path));
  for (const uri of uris.filter(isInside)) {
    const found = await stat(uri);
    // The next folder may have it.
    if (found) return found;
  }
  return undefined;
}

async function outside(path: string): Promise<Place | undefined> {
  const folder = workspace.workspaceFolders?.[0]?.uri;
  return folder && stat(resolved(folder, path));
}

function resolved(folder: Uri, path: string): Uri {
  return path.startsWith("/") ? Uri.joinPath(folder.with({ path: "/" }), path) : Uri.joinPath(folder, path);
}

async function stat(uri: Uri): Promise<Place | undefined> {
  return workspace.fs.stat(uri).then(
    ({ type }) => ({ uri, type }),
    () => undefined,
  );
}

function isInside(uri: Uri): boolean {
  return workspace.getWorkspaceFolder(uri) !== undefined;
}

async function isWanted({ path }: Uri): Promise<boolean> {
  const detail = "The agent wrote this link. The file is outside this window's folders.";
  return (await window.showWarningMessage(`Open ${path}?`, { modal: true, detail }, "Open")) === "Open";
}
