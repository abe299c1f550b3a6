/** What the agent can do: write a file, and call the tools of the client. Rules T4, T11 and A4. */

import * as fs from "node:fs";
import { basename, dirname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { digestOf } from "./conversation.ts";
import { Connection, Failure, isObject, newId, wrong, type Json } from "./wire.ts";

export interface Tool {
  name: string; description: string; inputSchema: Json; kind: string; isReadOnly: boolean;
  title: (args: Json) => string;
  /** What the action depends on beside its arguments: the digest covers it. */
  state: (args: Json) => unknown;
  run: (call: Json, signal: AbortSignal) => Json[] | Promise<Json[]>;
}

export const words = (text: string): Json[] => [{ type: "text", text }];

/** Write a whole file of a folder, and replace it at once or not at all. */
export function writeFile(folder: string, isOpen: (path: string) => boolean): Tool {
  const place = (args: Json): string => {
    if (typeof args.path !== "string" || typeof args.content !== "string")
      throw new Failure("toolError", "Give path and content as text.");
    const path = realPath(resolve(folder, args.path)); // Links and `..` are resolved first [T4].
    const names = path.slice(folder.length + 1).split(sep);
    if (!path.startsWith(folder + sep) || names.some((name) => name.startsWith("."))) // [T11]
      throw new Failure("toolError", "Only files of the folder can be written, and none in hidden places.");
    if (isOpen(path)) // [W5]
      throw new Failure("toolError", "The file is open in the editor, and this server writes to the disk only.");
    return path;
  };
  return {
    name: "write_file",
    description: "Write a text file, given its path from the folder and its whole text.",
    inputSchema: { type: "object", properties: { path: { type: "string" }, content: { type: "string" } },
      required: ["path", "content"] },
    kind: "edit",
    isReadOnly: false,
    title: ({ path }) => `Write ${path}`,
    state: (args) => (fs.existsSync(place(args)) ? digestOf(fs.readFileSync(place(args), "utf8")) : null),
    run: ({ arguments: args }) => {
      const [path, fresh] = [place(args), join(dirname(place(args)), `.${newId()}`)];
      fs.mkdirSync(dirname(path), { recursive: true });
      const mode = fs.existsSync(path) ? fs.statSync(path).mode : 0o666;
      fs.writeFileSync(fresh, args.content, { flag: "wx", flush: true, mode });
      fs.renameSync(fresh, path);
      return words(`Wrote ${args.path}.`);
    },
  };
}

/** The real path of a folder or file, given as a path or URI. */
export function pathOf(place: unknown): string {
  try {
    return realPath(String(place).startsWith("file:") ? fileURLToPath(String(place)) : resolve(String(place)));
  } catch {
    throw wrong("folders", "not_a_path");
  }
}

function realPath(path: string): string {
  return fs.existsSync(path) ? fs.realpathSync(path) : join(realPath(dirname(path)), basename(path));
}

/** A tool that the client runs: `tool/call`. */
export function clientTool(tool: Json, connection: Connection): Tool {
  const { name, description = "", inputSchema = { type: "object" }, annotations, timeoutS = 600 } = tool;
  const run = (call: Json, signal: AbortSignal) => new Promise<Json[]>((done, fail) => {
    const withdraw = connection.ask("tool/call", call, ({ result, error }) => {
      clearTimeout(timer);
      const content = result?.content ?? words(JSON.stringify(result?.structuredContent ?? {}));
      if (isObject(result) && !result.isError) done(content);
      else fail(new Failure("toolError", error?.message ?? JSON.stringify(content)));
    });
    const stop = () => { withdraw(); fail(new Failure("toolError", "The tool did not answer in time.")); };
    const timer = setTimeout(stop, timeoutS * 1000).unref();
    signal.addEventListener("abort", stop);
  });
  return { name, description, inputSchema, kind: "other", isReadOnly: annotations?.readOnlyHint === true, run,
    title: (args) => `${name} ${JSON.stringify(args)}`, state: () => [description, inputSchema] };
}
