/** Owns the daemon's process and the connection to it: start, capped restarts, requests, notifications. */

import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { type Disposable, EventEmitter, type ExtensionContext, type LogOutputChannel, window, workspace } from "vscode";
import {
  type ClientCapabilities,
  CloseAction,
  ErrorAction,
  ErrorCodes,
  LanguageClient,
  type LanguageClientOptions,
  ResponseError,
  RevealOutputChannelOn,
  State,
  type StaticFeature,
  TransportKind,
} from "vscode-languageclient/node";
import { attaching, commandSetting, findDaemon, pythonsOfWindow } from "./command";
import { type ApplyEditParams, applyEdit, openDiff, openNotebook, readDocument, saveDocuments } from "./editor";
import { answerLanguageRequest, readDiagnostics } from "./language";
import { FOR_COMMANDS, exposeChanged, exposeSecrets } from "./exposed";
import { ManagedDaemon } from "./managed";
import type { DaemonState } from "./messages";
import type { Notification } from "oh-daemon-client/store";
import type {
  Approval,
  ClientNotifications,
  ConversationInfo,
  InputRequest,
  Requests,
} from "oh-daemon-client/protocol";
import { Notebooks } from "./notebooks";
import { Reports } from "./reports";
import { daemonSettings, encodingSetting, isKey, exposeKey, exposeKeys } from "./settings";
import { askForTarget, targetOf } from "./target";

const MAX_RESTARTS = 3;
const RESTART_WINDOW_MS = 60_000;
const LAST_ERROR_LINES = 12;
/** A daemon that hangs while it starts must not keep the next one from starting. */
const MAX_START_MS = 4000;
const NOTIFICATIONS = [
  "conversation/event",
  "conversation/delta",
  "conversation/changed",
  "conversation/gap",
  "mcp/statusChanged",
  "port/changed",
] as const;
const FEATURES = {
  applyEdit2: true,
  saveDocument: true,
  readDocument: true,
  approvalRequests: true,
  inputRequests: true,
  diagnostics: true,
  languageRequests: true,
  openDiff: true,
};

export class Agent implements Disposable {
  private readonly stateEmitter = new EventEmitter<DaemonState>();
  private readonly notificationEmitter = new EventEmitter<Notification>();
  private readonly approvalEmitter = new EventEmitter<Approval | InputRequest>();
  private readonly startedEmitter = new EventEmitter<string>();
  private readonly openedEmitter = new EventEmitter<ConversationInfo>();
  private readonly secretsListener: Disposable;
  private readonly managed: ManagedDaemon;
  private readonly reports = new Reports();
  readonly onState = this.stateEmitter.event;
  readonly onNotification = this.notificationEmitter.event;
  /** Fires when the daemon asks the user for an approval or an answer, which stays in the log until it is given. */
  readonly onApproval = this.approvalEmitter.event;
  /** A command of the daemon, such as a code action, has started this conversation. */
  readonly onStarted = this.startedEmitter.event;
  /** A conversation was opened in this window, or has begun here. */
  readonly onOpened = this.openedEmitter.event;
  state: DaemonState = { kind: "starting" };
  private client: LanguageClient | undefined;
  private starting: Promise<void> | undefined;
  /** The end of all earlier clients. */
  private stopped: Promise<void> = Promise.resolve();
  /** Counts the stops: results of work that began in an earlier era are ignored. */
  private era = 0;
  /** Rejects the requests whose answers are awaited: one to a daemon that hangs would never end. */
  private readonly unanswered = new Set<(error: Error) => void>();
  private restarts: number[] = [];
  private lastErrors: string[] = [];
  private failure = { message: "", details: "" };
  /** The setting by which the daemon was started last. */
  private launched: string | undefined;

  constructor(
    private readonly context: ExtensionContext,
    readonly log: LogOutputChannel,
  ) {
    this.managed = new ManagedDaemon(context, log);
    this.secretsListener = context.secrets.onDidChange(({ key }) => this.afterKeyChange(key));
  }

  /** Whether the agent works on this machine. */
  get isHere(): boolean {
    return targetOf(this.context.workspaceState) === undefined;
  }

  /** Starts the daemon unless it is running or has failed; a failure is a state, not an exception. */
  start(): Promise<void> {
    const { era } = this;
    this.starting ??= this.launch(era).catch((error: unknown) => {
      if (era === this.era) this.fail("The daemon could not start.", String(error));
    });
    return this.starting;
  }

  async restart(): Promise<void> {
    this.enter({ kind: "starting" });
    await this.stop();
    this.restarts = [];
    await this.start();
  }

  /** VS Code also tells of settings that are as before: a restart for nothing would interrupt a turn. */
  async restartIfCommandChanged(): Promise<void> {
    if (this.launched !== undefined && this.launched !== commandSetting()) await this.restart();
  }

  /** Asks where the agent is to work, and starts it there. */
  async move(): Promise<void> {
    if (await askForTarget(this.context.workspaceState)) await this.restart();
  }

  /** Installs the daemon, after asking the user. */
  async install(): Promise<void> {
    const { era } = this;
    if (await this.managed.installAfterConsent(await pythonsOfWindow(), this.onStepOf(era))) await this.restart();
    else if (era === this.era && this.state.kind === "installing") this.enter({ kind: "missing" });
  }

  /** Sends a request; while the daemon restarts after a crash, the request waits for it. */
  async request<M extends keyof Requests>(method: M, params: Requests[M][0]): Promise<Requests[M][1]> {
    await this.start();
    while (this.state.kind === "starting" || this.state.kind === "installing")
      await new Promise<void>((resolve) => this.onceState(resolve));
    const { client, unanswered } = this;
    if (!client?.isRunning()) throw new Error("The daemon is not running.");
    return new Promise((resolve, reject) => {
      unanswered.add(reject);
      const answer = client.sendRequest<Requests[M][1]>(method, params);
      answer.then(resolve, reject).finally(() => unanswered.delete(reject));
      if (method === "conversation/open" || method === "conversation/start") {
        void answer.then(
          (opened) => "conversation" in opened && this.openedEmitter.fire(opened.conversation),
          () => undefined,
        );
      }
    });
  }

  /** Notifies the daemon if it is running; what it misses is sent when it starts. */
  async notify<M extends keyof ClientNotifications>(method: M, params: ClientNotifications[M]): Promise<void> {
    if (this.client?.isRunning()) await this.client.sendNotification(method, params);
  }

  async sendSettings(): Promise<void> {
    const settings = { ohDaemon: daemonSettings() };
    if (this.client?.isRunning()) await this.client.sendNotification("workspace/didChangeConfiguration", { settings });
  }

  stop(): Promise<void> {
    const { client, starting, stopped } = this;
    this.era++;
    this.client = undefined;
    this.starting = undefined;
    this.stopped = Promise.all([stopped, this.end(client, starting)]).then(() => undefined);
    return this.stopped;
  }

  dispose(): Promise<void> {
    const { stateEmitter, notificationEmitter, approvalEmitter, startedEmitter, openedEmitter } = this;
    const emitters = [stateEmitter, notificationEmitter, approvalEmitter, startedEmitter, openedEmitter];
    for (const each of [...emitters, this.secretsListener, this.reports]) each.dispose();
    return this.stop();
  }

  /** Ends a client and its daemon, also one that hangs. */
  private async end(client: LanguageClient | undefined, starting: Promise<void> | undefined): Promise<void> {
    // A client cannot be stopped before it has started.
    if (!client?.isRunning()) await Promise.race([starting, delay(MAX_START_MS)]);
    const daemon = client?.serverProcess;
    await client?.dispose().catch((error: unknown) => {
      this.log.warn(String(error));
      daemon?.kill("SIGKILL");
    });
    // The next client starts after this, so these are requests to the daemon that has ended.
    const error = new ResponseError(ErrorCodes.PendingResponseRejected, "The daemon ended before it answered.");
    for (const reject of this.unanswered) reject(error);
  }

  private async launch(era: number): Promise<void> {
    this.enter({ kind: "starting" });
    // Two clients at a time would register the same commands.
    await this.stopped;
    this.launched = commandSetting();
    const daemon = (await findDaemon(this.managed)) ?? (await this.renewed(era));
    if (era !== this.era) return;
    if (!daemon) {
      this.enter({ kind: "missing" });
      return;
    }
    const target = targetOf(this.context.workspaceState);
    const args = [...daemon.args, ...(target ? ["remote", target] : attaching())];
    this.log.info(`starting ${[daemon.command, ...args].join(" ")}`);
    const folder = workspace.workspaceFolders?.[0]?.uri;
    const options = folder?.scheme === "file" ? { cwd: folder.fsPath } : {};
    const client = new QuietClient(
      "oh",
      "oh",
      { ...daemon, args, options, transport: TransportKind.stdio },
      this.clientOptions(era),
    );
    this.client = client;
    client.registerFeature(new WithoutProgress());
    this.listen(client);
    await client.start();
    if (era !== this.era) await client.stop();
  }

  /** Installs this version's daemon without asking if the user has agreed to an earlier version's. */
  private async renewed(era: number) {
    if (!(await this.managed.wasInstalled())) return undefined;
    if (!(await this.managed.install(await pythonsOfWindow(), this.onStepOf(era)))) return undefined;
    return this.managed.command();
  }

  private listen(client: LanguageClient): void {
    for (const method of NOTIFICATIONS) {
      // Data enters here: the daemon's contract defines the params of this method.
      client.onNotification(method, (params: unknown) =>
        this.notificationEmitter.fire({ method, params } as Notification),
      );
    }
    client.onNotification("daemon/statusChanged", (params: { kind: string; message: string }) => {
      if (params.kind === "error") void window.showErrorMessage(`oh: ${params.message}`);
      else this.log.info(params.message);
    });
    const notebooks = new Notebooks(client);
    client.registerFeature(notebooks);
    client.onRequest("editor/applyEdit", (params: ApplyEditParams) => {
      const notebook = openNotebook(params.edit.documentChanges[0]?.textDocument.uri ?? "");
      return notebook ? notebooks.applyEdit(notebook, params) : applyEdit(params);
    });
    client.onRequest("editor/readDocument", (params: { uri: string }) => {
      const notebook = openNotebook(params.uri);
      return notebook ? notebooks.read(notebook) : readDocument(params);
    });
    client.onRequest("editor/saveDocument", async (params: { uris: string[] }) => {
      const result = await saveDocuments(params);
      // The daemon compares the text that it has with the file.
      for (const notebook of params.uris.map(openNotebook)) if (notebook) await notebooks.send(notebook);
      return result;
    });
    client.onRequest("editor/openDiff", openDiff);
    client.onRequest("editor/diagnostics", (params: { uris?: string[] }) =>
      readDiagnostics(client, this.reports, params),
    );
    client.onRequest("editor/languageRequest", (params: { method: string; params: unknown }) =>
      answerLanguageRequest(client, params),
    );
    // The user's answer is sent by approval/respond or input/respond, which also work after a reload. This
    // request stays open until the daemon withdraws it; it only shows that the user is being asked.
    for (const method of ["approval/request", "input/request"]) {
      client.onRequest(method, (asked: Approval | InputRequest, token) => {
        this.approvalEmitter.fire(asked);
        return new Promise((resolve) => token.onCancellationRequested(() => resolve({})));
      });
    }
    client.onDidChangeState(({ newState }) => {
      if (client === this.client) void this.onClientState(client, newState);
    });
  }

  private async onClientState(client: LanguageClient, state: State): Promise<void> {
    if (state === State.Starting) this.enter({ kind: "starting" });
    if (state === State.Running) {
      await exposeKeys(client, this.context.secrets);
      await exposeSecrets(client, this.context.secrets);
      // It may have ended or been replaced meanwhile.
      if (client === this.client && client.isRunning())
        this.enter({ kind: "running", isRestricted: !workspace.isTrusted });
    }
    // `launch` reports a first start that fails; a restart that fails is reported only here.
    const isRestart = this.restarts.length > 0 && this.state.kind === "starting";
    if (state === State.Stopped && isRestart) this.fail("The daemon could not start again.", "");
  }

  private async afterKeyChange(name: string): Promise<void> {
    if (!this.client?.isRunning()) return;
    if (name === FOR_COMMANDS) await exposeChanged(this.client, this.context.secrets);
    if (!isKey(name)) return;
    await exposeKey(this.client, this.context.secrets, name);
    // Makes the panel request the list of models again.
    this.enter(this.state);
  }

  private clientOptions(era: number): LanguageClientOptions {
    const isTrusted = workspace.isTrusted;
    const folders = workspace.workspaceFolders ?? [];
    this.lastErrors = [];
    return {
      documentSelector: [{ scheme: "file" }],
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions: {
        ohDaemon: {
          protocolVersion: { major: 1, minor: 0 },
          client: { name: "vscode", kind: "panel" },
          features: FEATURES,
          trust: folders.map((folder) => ({ folder: folder.uri.toString(), trusted: isTrusted })),
          settings: daemonSettings(),
        },
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => (era === this.era ? this.afterClose() : { action: CloseAction.DoNotRestart, handled: true }),
      },
      stdioOptions: {
        stdout: () => undefined,
        stderr: (stream) => createInterface({ input: stream }).on("line", (line) => this.onErrorLine(line)),
      },
      middleware: {
        executeCommand: async (command, args, next) => {
          const result = (await next(command, args)) as { conversation?: { id: string } } | undefined;
          if (result?.conversation) this.startedEmitter.fire(result.conversation.id);
          return result;
        },
        workspace: {
          configuration: ({ items }) =>
            items.map(({ section, scopeUri }) =>
              section === "files.encoding" ? encodingSetting(scopeUri) : daemonSettings(),
            ),
        },
      },
    };
  }

  private onErrorLine(line: string): void {
    this.log.error(line);
    this.lastErrors = [...this.lastErrors, line].slice(-LAST_ERROR_LINES);
    // The end of the process may be noticed before its last output is read.
    if (this.state.kind === "failed") this.showFailure();
  }

  /** Restarts a daemon that had started, unless several in a row ran for less than a minute. */
  private afterClose(): { action: CloseAction; handled: boolean } {
    const now = Date.now();
    const isInARow = now - (this.restarts.at(-1) ?? 0) < RESTART_WINDOW_MS;
    this.restarts = isInARow ? [...this.restarts, now] : [now];
    if (this.state.kind === "running" && this.restarts.length <= MAX_RESTARTS) {
      return { action: CloseAction.Restart, handled: true };
    }
    const times = this.restarts.length > 1 ? `${this.restarts.length} times in a row` : "unexpectedly";
    this.fail(`The daemon ended ${times}.`, "Its log may say why.");
    return { action: CloseAction.DoNotRestart, handled: true };
  }

  private fail(message: string, details: string): void {
    this.log.error(`${message} ${details}`);
    this.failure = { message, details };
    this.showFailure();
  }

  /** The last lines that the daemon wrote usually name the reason. */
  private showFailure(): void {
    const { message, details } = this.failure;
    const said = this.lastErrors.length > 0 ? `\n\n\`\`\`\n${this.lastErrors.join("\n")}\n\`\`\`` : "";
    this.enter({ kind: "failed", message, details: details + said });
  }

  private onceState(listener: () => void): void {
    const subscription = this.onState(() => {
      subscription.dispose();
      listener();
    });
  }

  private onStepOf(era: number): (step: string) => void {
    return (step) => era === this.era && this.enter({ kind: "installing", step });
  }

  private enter(state: DaemonState): void {
    this.state = state;
    this.stateEmitter.fire(state);
  }
}

/** Shows no notifications of its own: the panel already says that the daemon is not running, and why. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

/** Shows no progress notification per turn: the panel already shows what is running. */
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
