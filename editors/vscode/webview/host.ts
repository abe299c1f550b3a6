/** The panel's only connection: messages to the extension, with typed answers. */

import type { Calls, FromPanel, PanelMemory, ToPanel } from "../src/messages";
import type { ErrorInfo } from "oh-daemon-client/protocol";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPanel): void;
  setState?(memory: PanelMemory): void;
  hasEditor?: false;
};

const vscode = acquireVsCodeApi();
/** Whether there is an editor around the panel; what only an editor can do is not offered without one. */
export const hasEditor = vscode.hasEditor ?? true;
const waiting = new Map<string, { resolve: (value: unknown) => void; reject: (error: CallError) => void }>();

export class CallError extends Error {
  constructor(readonly info: ErrorInfo) {
    super(info.message);
  }
}

export function call<M extends keyof Calls>(method: M, params: Calls[M][0]): Promise<Calls[M][1]> {
  // An answer to a page that is gone reaches the next one, which must not take it for an answer to itself.
  const id = crypto.randomUUID();
  return new Promise((resolve, reject) => {
    // Data enters here: the daemon's contract and `Calls` define this method's result.
    waiting.set(id, { resolve: (value) => resolve(value as Calls[M][1]), reject });
    vscode.postMessage({ type: "call", id, method, params });
  });
}

let show = (_error: unknown): void => undefined;

/** Sets the function that shows reported errors. */
export function reportTo(shown: (error: unknown) => void): void {
  show = shown;
}

export function report(error: unknown): void {
  show(error);
}

/** Sends a request whose result is not needed; an error is shown. */
export function run<M extends keyof Calls>(method: M, params: Calls[M][0]): void {
  call(method, params).catch(report);
}

export function remember(memory: PanelMemory): void {
  vscode.postMessage({ type: "memory", memory });
  // A tab gets it back after a reload.
  vscode.setState?.(memory);
}

export function tellAsked(id: string | undefined): void {
  vscode.postMessage({ type: "asks", ...(id !== undefined && { id }) });
}

export function tellTitle(title: string): void {
  vscode.postMessage({ type: "title", title });
}

export function listen(onMessage: (message: Exclude<ToPanel, { type: "answer" }>) => void): void {
  window.addEventListener("message", ({ data }: MessageEvent<ToPanel>) => {
    if (data.type !== "answer") return onMessage(data);
    const call = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) call?.reject(new CallError(data.error));
    else call?.resolve(data.result);
  });
  vscode.postMessage({ type: "ready" });
}
