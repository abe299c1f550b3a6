/** Colours of code for the panel: asks a thread, which knows what the installed extensions contribute. */

import { extname, join } from "node:path";
import { Worker } from "node:worker_threads";
import { type Disposable, type Extension, extensions, workspace } from "vscode";
import type { Tokens, TokensRequest } from "./messages";

/** What the installed extensions contribute; paths are absolute. */
export interface Contributions {
  languages: readonly {
    id: string;
    aliases?: readonly string[];
    extensions?: readonly string[];
    filenames?: readonly string[];
  }[];
  grammars: readonly { language?: string; scopeName: string; path: string; injectTo?: readonly string[] }[];
  themes: readonly { id?: string; label: string; uiTheme: string; path: string }[];
}

/** What the thread is asked. */
export interface Question extends TokensRequest {
  id: number;
  /** The setting `editor.tokenColorCustomizations`, as JSON. */
  customizations: string;
}

interface Waiting {
  question: Question;
  resolve: (tokens: Tokens) => void;
  reject: (error: Error) => void;
}

/** A grammar's expression may try so many ways that it never ends. */
const MAX_ANSWER_MS = 15_000;

export class Colors implements Disposable {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
  /** The languages whose grammars did not come to an end. */
  private readonly failed = new Set<string>();
  private timer: NodeJS.Timeout | undefined;
  private lastId = 0;
  private readonly listener: Disposable;

  /** `script` is the file of the thread, which starts with the first request. */
  constructor(private readonly script: string) {
    this.listener = extensions.onDidChange(() => this.end(new Error("The installed extensions have changed.")));
  }

  tokens(request: TokensRequest): Promise<Tokens> {
    const customizations: unknown = workspace.getConfiguration("editor").get("tokenColorCustomizations");
    // VS Code's own object is a proxy, which no message can carry.
    const question: Question = { ...request, id: ++this.lastId, customizations: JSON.stringify(customizations ?? {}) };
    if (this.failed.has(languageOf(question))) return Promise.resolve(plain(question));
    return new Promise((resolve, reject) => {
      this.worker ??= this.start();
      this.waiting.set(question.id, { question, resolve, reject });
      this.worker.postMessage(question);
      if (this.waiting.size === 1) this.watch();
    });
  }

  dispose(): void {
    this.listener.dispose();
    this.end(new Error("The window closes."));
  }

  private start(): Worker {
    const worker = new Worker(this.script, { workerData: contributions() });
    worker.on("message", ({ id, tokens }: { id: number; tokens: Tokens }) => {
      if (this.worker !== worker) return;
      this.waiting.get(id)?.resolve(tokens);
      this.waiting.delete(id);
      this.watch();
    });
    worker.on("error", (error: Error) => this.worker === worker && this.end(error));
    return worker;
  }

  /** Waits for the next answer, if one is due. */
  private watch(): void {
    clearTimeout(this.timer);
    if (this.waiting.size > 0) this.timer = setTimeout(() => this.giveUp(), MAX_ANSWER_MS);
  }

  /** Leaves the language without colours that the thread is busy with, and asks another thread for the rest. */
  private giveUp(): void {
    void this.worker?.terminate();
    this.worker = undefined;
    // The thread answers in the order of the questions.
    const [first] = this.waiting.values();
    if (first) this.failed.add(languageOf(first.question));
    for (const [id, { question, resolve }] of this.waiting) {
      if (this.failed.has(languageOf(question))) {
        this.waiting.delete(id);
        resolve(plain(question));
      } else {
        this.worker ??= this.start();
        this.worker.postMessage(question);
      }
    }
    this.watch();
  }

  private end(error: Error): void {
    clearTimeout(this.timer);
    this.failed.clear();
    void this.worker?.terminate();
    this.worker = undefined;
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }
}

function languageOf({ language, fileName = "" }: Question): string {
  return language ?? (extname(fileName) || fileName);
}

function plain({ texts }: Question): Tokens {
  return { styles: [], texts: texts.map(() => []) };
}

function contributions(): Contributions {
  const all: readonly Extension<unknown>[] = extensions.all;
  // Data enters here: manifests of any extension. VS Code itself has checked these parts of them.
  const each = all.map(({ extensionPath, packageJSON }) => ({
    folder: extensionPath,
    contributes: ((packageJSON as { contributes?: Partial<Contributions> }).contributes ??
      {}) as Partial<Contributions>,
  }));
  const placed = <T extends { path: string }>(folder: string, parts: readonly T[] = []): T[] =>
    parts.flatMap((part) => (typeof part.path === "string" ? [{ ...part, path: join(folder, part.path) }] : []));
  return {
    languages: each.flatMap(({ contributes }) => contributes.languages ?? []),
    grammars: each.flatMap(({ folder, contributes }) => placed(folder, contributes.grammars)),
    themes: each.flatMap(({ folder, contributes }) => placed(folder, contributes.themes)),
  };
}
