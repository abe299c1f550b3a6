/** Colours of code for the panel: asks a thread, which knows what the installed extensions contribute. */

import { join } from "node:path";
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
  resolve: (tokens: Tokens) => void;
  reject: (error: Error) => void;
}

export class Colors implements Disposable {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
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
    return new Promise((resolve, reject) => {
      this.waiting.set(question.id, { resolve, reject });
      this.worker ??= this.start();
      this.worker.postMessage(question);
    });
  }

  dispose(): void {
    this.listener.dispose();
    this.end(new Error("The window closes."));
  }

  private start(): Worker {
    const worker = new Worker(this.script, { workerData: contributions() });
    worker.on("message", ({ id, tokens }: { id: number; tokens: Tokens }) => {
      this.waiting.get(id)?.resolve(tokens);
      this.waiting.delete(id);
    });
    worker.on("error", (error: Error) => this.worker === worker && this.end(error));
    return worker;
  }

  private end(error: Error): void {
    void this.worker?.terminate();
    this.worker = undefined;
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }
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
    parts.map((part) => ({ ...part, path: join(folder, part.path) }));
  return {
    languages: each.flatMap(({ contributes }) => contributes.languages ?? []),
    grammars: each.flatMap(({ folder, contributes }) => placed(folder, contributes.grammars)),
    themes: each.flatMap(({ folder, contributes }) => placed(folder, contributes.themes)),
  };
}
