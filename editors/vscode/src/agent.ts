/** Owns the daemon's process and the connection to it: start, capped restarts, requests, notifications. */

import { type Disposable, EventEmitter, type ExtensionContext, type LogOutputChannel, window, workspace } from "vscode";
import {
  type ClientCapabilities, CloseAction, ErrorAction, LanguageClient, type LanguageClientOptions, State, type StaticFeature,
  TransportKind,
} from "vscode-languageclient/node";
import { findDaemon } from "./command";
import { type ApplyEditParams, applyEdit, readDocument, saveDocuments } from "./editor";
import type { DaemonState, Notification } from "./messages";
import type { Approval, Requests } from "./protocol";
import { daemonSettings, keysForEnvironment } from "./settings";

const MAX_RESTARTS = 3;
const RESTART_WINDOW_MS = 60_000;
const NOTIFICATIONS = ["conversation/event", "conversation/delta", "conversation/changed", "conversation/gap"] as const;

export class Agent implements Disposable {
  private readonly stateEmitter = new EventEmitter<DaemonState>();
  private readonly notificationEmitter = new EventEmitter<Notification>();
  private readonly approvalEmitter = new EventEmitter<Approval>();
  readonly onState = this.stateEmitter.event;
  readonly onNotification = this.notificationEmitter.event;
  /** An approval is before the user; it stays in the log until it is answered. */
  readonly onApproval = this.approvalEmitter.event;
  state: DaemonState = { kind: "starting" };
  private client: LanguageClient | undefined;
  private starting: Promise<void> | undefined;
  private restarts: number[] = [];

  constructor(
    private readonly context: ExtensionContext,
    readonly log: LogOutputChannel,
  ) {}

  /** Starts the daemon unless it runs or has failed; a failure is a state, not an exception. */
  start(): Promise<void> {
    this.starting ??= this.launch().catch((error: unknown) => this.fail("The daemon could not start.", String(error)));
    return this.starting;
  }

  async restart(): Promise<void> {
    await this.stop();
    this.restarts = [];
    await this.start();
  }

  async request<M extends keyof Requests>(method: M, params: Requests[M][0]): Promise<Requests[M][1]> {
    await this.start();
    if (!this.client?.isRunning()) throw new Error("The daemon is not running.");
    return this.client.sendRequest<Requests[M][1]>(method, params);
  }

  /** Tells the running daemon about changed settings. */
  async sendSettings(): Promise<void> {
    if (!this.client?.isRunning()) return;
    await this.client.sendNotification("workspace/didChangeConfiguration", { settings: { ohDaemon: daemonSettings() } });
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.starting = undefined;
    if (client?.needsStop()) await client.stop().catch((error: unknown) => this.log.warn(String(error)));
    await client?.dispose().catch(() => undefined);
  }

  dispose(): Promise<void> {
    for (const emitter of [this.stateEmitter, this.notificationEmitter, this.approvalEmitter]) emitter.dispose();
    return this.stop();
  }

  private async launch(): Promise<void> {
    this.enter({ kind: "starting" });
    const folder = workspace.workspaceFolders?.[0]?.uri;
    const daemon = await findDaemon(folder);
    if (!daemon) {
      this.fail(
        "oh-daemon was not found.",
        "Install it into this window's Python (pip install oh-daemon) or name its program in the setting oh.daemon.command.",
      );
      return;
    }
    const keys = await keysForEnvironment(this.context.secrets);
    const options = { env: { ...process.env, ...keys }, ...(folder?.scheme === "file" && { cwd: folder.fsPath }) };
    const run = { ...daemon, options, transport: TransportKind.stdio };
    this.client = new LanguageClient("oh", "oh", run, this.clientOptions());
    this.client.registerFeature(new WithoutProgress());
    this.listen(this.client);
    await this.client.start();
  }

  private listen(client: LanguageClient): void {
    for (const method of NOTIFICATIONS) {
      // The message edge: the daemon's contract says what this method carries.
      client.onNotification(method, (params: unknown) =>
        this.notificationEmitter.fire({ method, params } as Notification));
    }
    client.onNotification("daemon/statusChanged", (params: { kind: string; message: string }) => {
      if (params.kind === "error") void window.showErrorMessage(`oh: ${params.message}`);
      else this.log.info(params.message);
    });
    client.onRequest("editor/applyEdit", (params: ApplyEditParams) => applyEdit(params));
    client.onRequest("editor/readDocument", readDocument);
    client.onRequest("editor/saveDocument", saveDocuments);
    // The answer goes through approval/respond, which also works after a reload; the request stays
    // open until it is withdrawn, and says only that the question is before the user.
    client.onRequest("approval/request", (approval: Approval, token) => {
      this.approvalEmitter.fire(approval);
      return new Promise((resolve) => token.onCancellationRequested(() => resolve({})));
    });
    client.onDidChangeState(({ newState }) => {
      if (client !== this.client) return;
      if (newState === State.Running) this.enter({ kind: "running" });
      if (newState === State.Starting) this.enter({ kind: "starting" });
    });
  }

  private clientOptions(): LanguageClientOptions {
    const isTrusted = workspace.isTrusted;
    const folders = workspace.workspaceFolders ?? [];
    return {
      documentSelector: [{ scheme: "file" }],
      outputChannel: this.log,
      initializationOptions: {
        ohDaemon: {
          protocolVersion: { major: 1, minor: 0 },
          client: { name: "vscode", kind: "panel" },
          features: { applyEdit2: true, saveDocument: true, readDocument: true, approvalRequests: true },
          trust: folders.map((folder) => ({ folder: folder.uri.toString(), trusted: isTrusted })),
          settings: daemonSettings(),
        },
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.afterClose(),
      },
      middleware: {
        workspace: {
          configuration: (params) => params.items.map(() => daemonSettings()),
        },
      },
    };
  }

  /** Restarts a daemon that had started, a few times a minute; else says why it cannot. */
  private afterClose(): { action: CloseAction; handled: boolean } {
    const now = Date.now();
    this.restarts = [...this.restarts.filter((at) => now - at < RESTART_WINDOW_MS), now];
    if (this.state.kind === "running" && this.restarts.length <= MAX_RESTARTS) {
      return { action: CloseAction.Restart, handled: true };
    }
    this.fail("The daemon ended unexpectedly.", "Its log may say why.");
    return { action: CloseAction.DoNotRestart, handled: true };
  }

  private fail(message: string, details: string): void {
    this.log.error(`${message} ${details}`);
    this.enter({ kind: "failed", message, details });
  }

  private enter(state: DaemonState): void {
    this.state = state;
    this.stateEmitter.fire(state);
  }
}

/** The panel shows what runs; a progress notification per turn would say it twice. */
class WithoutProgress implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    capabilities.window = { ...capabilities.window, workDoneProgress: false };
  }
  initialize(): void {}
  getState(): { kind: "static" } {
    return { kind: "static" };
  }
  clear(): void {}
}
