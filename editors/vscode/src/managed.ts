/** The daemon in the extension's own Python environment, made from two files that come with the extension:
 * the wheel and the lock file of its dependencies, so that nothing is installed by name alone. */

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { type CancellationToken, type ExtensionContext, type LogOutputChannel, ProgressLocation, window } from "vscode";
import type { DaemonCommand } from "./command";

const run = promisify(execFile);
const PYTHONS = ["python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"];
const IS_USABLE = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))";
const LOCK = "requirements.lock";
/** Written last: without this file the environment is incomplete. */
const MARK = "complete";
const LAST_LINES = 12;
/** What makes a Python the daemon. It runs in the user's folder, and without -P that folder's modules would come first. */
export const OF_PYTHON = ["-P", "-m", "oh_daemon"];

export class ManagedDaemon {
  private readonly home: string;
  private readonly brought: string;

  constructor(
    context: ExtensionContext,
    private readonly log: LogOutputChannel,
  ) {
    this.home = context.globalStorageUri.fsPath;
    this.brought = context.asAbsolutePath("daemon");
  }

  /** The command of the installed daemon, if it belongs to this version of the extension. */
  async command(): Promise<DaemonCommand | undefined> {
    const folder = await this.folder();
    const isWhole = await readFile(join(folder, MARK)).then(
      () => true,
      () => false,
    );
    return isWhole ? { command: pythonIn(folder), args: OF_PYTHON } : undefined;
  }

  /** Whether the user has agreed to the installation of an earlier version. */
  async wasInstalled(): Promise<boolean> {
    return (await this.environments()).length > 0;
  }

  /** Installs the daemon after asking the user. Returns whether it is installed. */
  async installAfterConsent(pythons: readonly string[], onStep: (step: string) => void): Promise<boolean> {
    const detail =
      "It comes with this extension and goes into the editor's own storage, in a Python environment that nothing else uses. " +
      "Its dependencies, about 300 MB, come from your package index, each checked against the list in this extension.";
    const answer = await window.showInformationMessage("Install the oh daemon?", { modal: true, detail }, "Install");
    return answer === "Install" && this.install(pythons, onStep);
  }

  /** Installs with progress, and shows the reason when it fails. */
  async install(pythons: readonly string[], onStep: (step: string) => void): Promise<boolean> {
    const options = { location: ProgressLocation.Notification, title: "Installing the oh daemon", cancellable: true };
    try {
      await window.withProgress(options, (progress, token) =>
        this.make(pythons, token, (message) => {
          progress.report({ message });
          onStep(message);
        }),
      );
      return true;
    } catch (error) {
      this.log.error(String(error));
      const message = error instanceof Error ? error.message : String(error);
      // Not awaited: it may stay open for long.
      const shown = window.showErrorMessage(`The oh daemon is not installed: ${message}`, "Show Log");
      void shown.then((answer) => answer && this.log.show());
      return false;
    }
  }

  private async make(
    pythons: readonly string[],
    token: CancellationToken,
    report: (message: string) => void,
  ): Promise<void> {
    const base = await usablePython([...pythons, ...PYTHONS]);
    const folder = await this.folder();
    const python = pythonIn(folder);
    const pip = ["-m", "pip", "--disable-pip-version-check", "--no-input", "install"];
    await rm(folder, { recursive: true, force: true });
    await mkdir(this.home, { recursive: true });
    report("making an environment");
    await this.step(base, ["-m", "venv", folder], token);
    const locked = ["--require-hashes", "--only-binary=:all:", "-r", join(this.brought, LOCK)];
    await this.step(python, [...pip, ...locked], token, (line) => {
      const name = /^(?:Collecting|Using cached|Downloading) (\S+)/.exec(line)?.[1];
      if (name) report(name.replace(/-\d.*/, ""));
      else if (line.startsWith("Installing")) report("unpacking");
    });
    await this.step(python, [...pip, "--no-deps", "--no-index", await this.wheel()], token);
    await writeFile(join(folder, MARK), "");
    const others = (await this.environments()).filter((each) => each !== folder);
    await Promise.all(others.map((each) => rm(each, { recursive: true, force: true })));
  }

  /** Runs a program and logs its output; the end of the output says why it failed. */
  private async step(
    command: string,
    args: readonly string[],
    token: CancellationToken,
    onLine?: (line: string) => void,
  ): Promise<void> {
    if (token.isCancellationRequested) throw new Error("you stopped it.");
    this.log.info(`${command} ${args.join(" ")}`);
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    const stop = token.onCancellationRequested(() => child.kill());
    const last: string[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        this.log.info(line);
        last.push(line);
        onLine?.(line);
      });
    }
    const code = await new Promise<number | null>((resolve, reject) => child.on("error", reject).on("close", resolve));
    stop.dispose();
    if (token.isCancellationRequested) throw new Error("you stopped it.");
    if (code !== 0) throw new Error(last.slice(-LAST_LINES).join("\n"));
  }

  /** The environment's folder, named after the hash of what is installed into it. */
  private async folder(): Promise<string> {
    const hash = createHash("sha256");
    for (const file of [await this.wheel(), join(this.brought, LOCK)]) hash.update(await readFile(file));
    return join(this.home, `daemon-${hash.digest("hex").slice(0, 12)}`);
  }

  private async wheel(): Promise<string> {
    const name = (await readdir(this.brought)).find((each) => each.endsWith(".whl"));
    if (!name) throw new Error(`there is no wheel in ${this.brought}; make vsix puts one there.`);
    return join(this.brought, name);
  }

  private async environments(): Promise<string[]> {
    const names = await readdir(this.home).catch(() => []);
    return names.filter((each) => each.startsWith("daemon-")).map((each) => join(this.home, each));
  }
}

async function usablePython(pythons: readonly string[]): Promise<string> {
  for (const python of pythons) {
    const isUsable = await run(python, ["-c", IS_USABLE], { timeout: 20_000 }).then(
      () => true,
      () => false,
    );
    if (isUsable) return python;
  }
  throw new Error("it needs Python 3.11 or newer with its venv module. Install that, then try again.");
}

function pythonIn(folder: string): string {
  return process.platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}
