/** A daemon as a child process. Only this module needs Node. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { DaemonClient } from "./connection.js";

/** Starts a daemon and connects to it; its stderr is this process's. */
export function startDaemon(
  command: readonly string[] = ["oh-daemon", "--stdio"],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): DaemonClient {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { ...options, stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit").then(
    ([code, signal]) => `the daemon has ended (${signal ?? `exit code ${code}`}); its log file may say why`,
    (error: Error) => `the daemon could not be started: ${error.message}`,
  );
  // What is written to a daemon that has ended is lost; `reason` says that it has.
  child.stdin.on("error", () => undefined);
  return new DaemonClient(child.stdout, child.stdin, { kill: () => child.kill(), reason: () => ended });
}
