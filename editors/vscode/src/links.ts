/** The links to files and folders in what the agent writes. */

import { commands, FileType, Range, Uri, workspace } from "vscode";
import { decoded } from "./words";

/** A path, and perhaps a line as `#L12` or `:12`. */
const PLACE = /^(.+?)(?:#L(\d+).*|:(\d+)(?::\d+)?|#.*)?$/;

export async function openLink(href: string): Promise<void> {
  const [, path = href, ...lines] = PLACE.exec(decoded(href.replace(/^file:\/\//i, ""))) ?? [];
  const found = await find(path);
  if (!found) throw new Error(`There is no ${path} in this window's folders.`);
  if (found.type & FileType.Directory) {
    await commands.executeCommand("revealInExplorer", found.uri);
    return;
  }
  const line = Number(lines.find((each) => each !== undefined) ?? 0) - 1;
  const selection = line < 0 ? {} : { selection: new Range(line, 0, line, 0) };
  await commands.executeCommand("vscode.open", found.uri, { preview: true, ...selection });
}

async function find(path: string): Promise<{ uri: Uri; type: FileType } | undefined> {
  for (const { uri: folder } of workspace.workspaceFolders ?? []) {
    const uri = path.startsWith("/") ? folder.with({ path }) : Uri.joinPath(folder, path);
    try {
      return { uri, type: (await workspace.fs.stat(uri)).type };
    } catch {
      // The next folder may have it.
    }
  }
  return undefined;
}
