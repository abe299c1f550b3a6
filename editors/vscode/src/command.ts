/** Finds the program that starts the daemon: the setting, this window's Python, the PATH. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { extensions, type Uri, workspace } from "vscode";

const run = promisify(execFile);

export interface DaemonCommand { command: string; args: string[] }

export async function findDaemon(folder: Uri | undefined): Promise<DaemonCommand | undefined> {
  const [command, ...args] = workspace.getConfiguration("oh").get<string[]>("daemon.command", []);
  if (command) return { command, args };
  // A folder that nobody trusts may name a Python of its own; that is not started.
  if (workspace.isTrusted) {
    for (const python of await pythonsOfWindow(folder)) {
      if (await succeeds(python, ["-c", "import oh_daemon"])) return { command: python, args: ["-m", "oh_daemon"] };
    }
  }
  if (await succeeds("oh-daemon", ["--help"])) return { command: "oh-daemon", args: [] };
  return undefined;
}

interface PythonApi { environments?: { getActiveEnvironmentPath(resource?: Uri): { path: string } } }

async function pythonsOfWindow(folder: Uri | undefined): Promise<string[]> {
  const api = await extensions.getExtension<PythonApi>("ms-python.python")?.activate();
  const active = api?.environments?.getActiveEnvironmentPath(folder).path;
  const configured = workspace.getConfiguration("python", folder).get<string>("defaultInterpreterPath");
  return [active, configured].flatMap((path) => path || []);
}

async function succeeds(command: string, args: string[]): Promise<boolean> {
  try {
    await run(command, args, { timeout: 20_000 });
    return true;
  } catch {
    return false;
  }
}
