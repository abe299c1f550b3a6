/** Finds the program that starts the daemon: from the setting, this window's Python, the PATH, or the extension. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { extensions, workspace } from "vscode";
import { type ManagedDaemon, OF_PYTHON } from "./managed";

const run = promisify(execFile);

export interface DaemonCommand {
  command: string;
  args: string[];
}

/** The user's own command, as text to compare. */
export function commandSetting(): string {
  return JSON.stringify([workspace.getConfiguration("oh").get("daemon.command", []), attaching()]);
}

/** The arguments with which the daemon for several clients is used, if that runs. */
export function attaching(): string[] {
  return workspace.getConfiguration("oh").get("attach") === "auto" ? ["attach", "--or-alone"] : [];
}

export async function findDaemon(managed: ManagedDaemon): Promise<DaemonCommand | undefined> {
  const [command, ...args] = workspace.getConfiguration("oh").get<string[]>("daemon.command", []);
  if (command) return { command, args };
  for (const python of await pythonsOfWindow()) {
    if (await succeeds(python, ["-P", "-c", "import oh_daemon"])) return { command: python, args: OF_PYTHON };
  }
  if (await succeeds("oh-daemon", ["--help"])) return { command: "oh-daemon", args: [] };
  return managed.command();
}

interface PythonApi {
  environments?: { getActiveEnvironmentPath(resource?: unknown): { path: string } };
}

/** The interpreters that the user has chosen here. One that an untrusted folder names is not started. */
export async function pythonsOfWindow(): Promise<string[]> {
  if (!workspace.isTrusted) return [];
  const folder = workspace.workspaceFolders?.[0]?.uri;
  const api = await extensions.getExtension<PythonApi>("ms-python.python")?.activate();
  const active = api?.environments?.getActiveEnvironmentPath(folder).path;
  const configured = workspace.getConfiguration("python", folder).get<string>("defaultInterpreterPath");
  return [active, configured].flatMap((path) => path || []);
}

async function succeeds(command: string, args: string[]): Promise<boolean> {
  return run(command, args, { timeout: 20_000 }).then(
    () => true,
    () => false,
  );
}
