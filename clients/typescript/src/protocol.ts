/** What crosses the wire; written by `make schema`, explained in protocol.md. */

export type Part = TextPart | ImagePart | DocumentPart | ResourceLinkPart | ResourcePart | SelectionPart | DiagnosticsPart | CommandPart | SkillPart;

export type ConversationState = "idle" | "running" | "waiting" | "pausing" | "paused" | "interrupting" | "error" | "finished" | "closed";

export type PauseReason = "user" | "budget" | "network" | "rateLimit" | "storage" | "daemonRestarted" | "stuck";

export type Isolation = "overlay" | "worktree";

export type Risk = "low" | "medium" | "high" | "unknown";

export type ItemStatus = "pending" | "awaitingApproval" | "running" | "completed" | "failed" | "rejected" | "cancelled";

export type ToolKind = "read" | "edit" | "delete" | "move" | "search" | "execute" | "think" | "fetch" | "other";

export type Delivery = "auto" | "queue" | "steer" | "interrupt";

export type Purpose = "condensation" | "title" | "ask" | "subagent";

export type TurnCause = "message" | "resume" | "condense" | "apply";

export type StopReason = "endTurn" | "finished" | "maxTokens" | "maxSteps" | "maxCostUsd" | "maxCostUsdPerConversation" | "maxCostUsdPerDay" | "maxMinutes" | "refusal" | "cancelled" | "noAnswer" | "toolErrors" | "stuck" | "hook" | "needsInput" | "error";

export type Scope = "once" | "turn" | "conversation" | "edits" | "folder" | "server" | "user";

export type ToolItem = ToolCallItem | CommandItem | FileChangeItem | PlanItem;

export type Item = UserMessageItem | AgentMessageItem | ReasoningItem | ToolCallItem | CommandItem | FileChangeItem | PlanItem | SubagentItem | NoticeItem | CondensationItem;

export type RuleCode = "askAlways" | "autoEdit" | "edited" | "gate" | "hook" | "lowRisk" | "neverAsks" | "outsideSandbox" | "planMode" | "protectedPlace" | "risk" | "ruling" | "sandbox" | "touchesNothing";

export type Subject = CommandSubject | FileChangeSubject | ToolSubject | PathSubject | TrustSubject | SaveDocumentsSubject | HostSubject;

export type InputAction = "accept" | "decline" | "cancel";

export type StuckPattern = "wrongCalls" | "identicalCalls" | "sameError" | "alternatingCalls" | "monologue";

export type KnownEvent = ConversationCreated | AgentChanged | ConversationUpdated | ConversationClosed | StatusChanged | MessageQueued | MessageEdited | MessageDequeued | MessageRefused | TurnStarted | TurnPaused | TurnResumed | TurnCompleted | PauseRequested | InterruptRequested | CondensationRequested | ItemStarted | ItemUpdated | ItemCompleted | ApprovalRequested | ApprovalResolved | InputRequested | InputResolved | ActionDecided | ChangesPlanned | ChangesUpdated | ChangesReviewed | CheckpointCreated | ConversationRolledBack | UsageUpdated | OptionsChanged | RetryScheduled | ErrorRaised | Notice | StuckDetected;

export type Event = KnownEvent;

export type SandboxSetting = "auto" | "overlay" | "landlock" | "off";

export type Trust = "full" | "readOnly" | "none";

export type ContextKind = "file" | "folder" | "symbol" | "conversation" | "changes" | "page" | "command" | "skill";

export type SkillKind = "agent" | "keyword" | "task" | "path" | "always";

export type SkillSource = "project" | "user";

export type McpStatus = "disabled" | "starting" | "running" | "authRequired" | "failed";

/** Create a conversation, subscribe to it and, with `content`, start its first turn. */
export interface StartParams {
  folders?: readonly string[];
  title?: string;
  options?: Record<string, string>;
  content?: readonly Part[];
  clientMessageId?: string;
  tools?: ToolFilter;
  clientTools?: readonly ClientTool[];
  resultSchema?: Record<string, unknown>;
  instructions?: string;
  maxSteps?: number;
  maxCostUsd?: number;
  isolated?: boolean;
  ephemeral?: boolean;
  metadata?: Record<string, unknown>;
  clientRequestId?: string;
}

export interface TextPart {
  type: "text";
  text: string;
}

/** An image, given by one of three fields; in the log it has `data` or `outputRef`. */
export interface ImagePart {
  type: "image";
  mimeType: string;
  data?: string;
  attachmentId?: string;
  outputRef?: string;
}

/** A PDF, given by one of three fields; in the log it has `data` or `outputRef`. */
export interface DocumentPart {
  type: "document";
  mimeType: "application/pdf";
  name?: string;
  data?: string;
  attachmentId?: string;
  outputRef?: string;
}

/** A file or conversation that the user refers to; the agent reads a file when it needs it. */
export interface ResourceLinkPart {
  type: "resourceLink";
  uri: string;
  name?: string;
  range?: Range;
  text?: string;
  fetch?: boolean;
}

export interface Range {
  start: Position;
  end: Position;
}

/** A place in a text; `character` counts code units of the negotiated position encoding. */
export interface Position {
  line: number;
  character: number;
}

/** A text given in full, for instance a web page or an email. */
export interface ResourcePart {
  type: "resource";
  uri: string;
  mimeType?: string;
  text: string;
}

/** The text that the user has selected in an editor, as the editor shows it. */
export interface SelectionPart {
  type: "selection";
  uri: string;
  range: Range;
  text: string;
  version?: number;
}

/** Problems of one document, in LSP's form. */
export interface DiagnosticsPart {
  type: "diagnostics";
  uri: string;
  items: readonly Record<string, unknown>[];
}

/** A command by its name, from `command/list`, with the text that the user wrote after it. */
export interface CommandPart {
  type: "command";
  name: string;
  args?: string;
  prompt?: string;
}

/** A skill by its name, from `skill/list`, with the text that the user wrote after it. */
export interface SkillPart {
  type: "skill";
  name: string;
  args?: string;
  prompt?: string;
}

/** Tool names, in which `*` matches anything. Without `allow`, all are offered; `deny` wins. */
export interface ToolFilter {
  allow?: readonly string[];
  deny?: readonly string[];
}

/** One tool, in MCP's form. */
export interface ClientTool {
  name: string;
  description?: string;
  inputSchema?: Record<string, unknown>;
  annotations?: Record<string, unknown>;
  timeoutS?: number;
}

/** Open a conversation from its log, repair it after a crash, and subscribe to it. */
export interface OpenParams {
  conversationId: string;
  afterSeq?: number;
  replay?: "none" | "items" | "events";
  limit?: number;
  clientTools?: readonly ClientTool[];
}

/** End the conversation's worker and unlock its log; the log is kept. */
export interface CloseParams {
  conversationId: string;
  ifRunning?: "error" | "interrupt" | "pause";
}

/** Rename, tag or archive a conversation, open or not. */
export interface UpdateParams {
  conversationId: string;
  title?: string;
  archived?: boolean;
  tags?: readonly string[];
  metadata?: Record<string, unknown>;
}

/** Move the conversation's log to the trash, or remove it permanently. */
export interface DeleteParams {
  conversationId: string;
  permanent?: boolean;
}

/** List the conversations of the open folders, or of one folder. */
export interface ListParams {
  folder?: string;
  query?: string;
  texts?: boolean;
  archived?: boolean;
  parentId?: string;
  cursor?: string;
  limit?: number;
}

/** Read items of a conversation without opening or locking it. */
export interface ReadParams {
  conversationId: string;
  before?: string;
  limit?: number;
}

/** Read a page of records as they are in the log. */
export interface EventsParams {
  conversationId: string;
  afterSeq?: number;
  beforeSeq?: number;
  limit?: number;
  types?: readonly string[];
}

/** Export a whole conversation as one text, without opening or locking it. */
export interface ExportParams {
  conversationId: string;
  format?: "jsonl" | "markdown" | "html" | "atif";
}

/** Start a new conversation with the first part of this one, which does not change. */
export interface ForkParams {
  conversationId: string;
  atItemId?: string;
  title?: string;
}

/** Go back to before a message: it and everything after it no longer count. */
export interface RollbackParams {
  conversationId: string;
  toItemId: string;
  files?: "keep" | "restore";
  dryRun?: boolean;
}

/** Send a message: start a turn, steer the running one, queue, or interrupt and start. */
export interface SendMessageParams {
  conversationId: string;
  clientRequestId?: string;
  content: readonly Part[];
  overrides?: Overrides;
  delivery?: Delivery;
  clientMessageId?: string;
  expectedTurnId?: string;
  run?: boolean;
  wait?: "accepted" | "completed";
}

export interface Overrides {
  options?: Record<string, string>;
}

/** Pause the turn after the current step, or now. */
export interface PauseParams {
  conversationId: string;
  clientRequestId?: string;
  when?: "step" | "now";
}

/** Resume the paused turn, or continue after a turn that ended early. */
export interface ResumeParams {
  conversationId: string;
  clientRequestId?: string;
  message?: readonly Part[];
}

/** End the turn now, with its model call, any waiting, and the processes of its tools. */
export interface InterruptParams {
  conversationId: string;
  turnId?: string;
  clearQueue?: boolean;
}

/** Replace older steps by a summary now, in the open turn or in a turn of its own. */
export interface CondenseParams {
  conversationId: string;
  clientRequestId?: string;
  instructions?: string;
}

/** List, edit, remove or move waiting messages, or deliver one now. */
export interface QueueParams {
  conversationId: string;
  op?: "list" | "edit" | "remove" | "move" | "sendNow";
  messageId?: string;
  content?: readonly Part[];
  position?: number;
}

/** Ask the model about the conversation, leaving no trace in it except the cost. */
export interface AskParams {
  conversationId: string;
  question: string;
}

/** Set the mode, approval policy, model or effort, from the next step on. */
export interface SetOptionParams {
  conversationId: string;
  clientRequestId?: string;
  optionId: string;
  value: string;
}

/** Receive the events of an open conversation from now on. */
export interface SubscribeParams {
  conversationId: string;
}

/** Receive no more events of this conversation. */
export interface UnsubscribeParams {
  conversationId: string;
}

/** List the pending approvals. */
export interface ApprovalListParams {
  conversationId?: string;
}

/** Allow or reject an action; the digest must be echoed, and the first answer wins. */
export interface ApprovalRespondParams {
  approvalId: string;
  digest: string;
  optionId?: string;
  decision?: Decision;
  feedback?: string;
  editedSubject?: Subject;
}

export interface Decision {
  effect: "allow" | "reject";
  scope?: Scope;
}

export interface CommandSubject {
  kind: "command";
  command: string;
  cwd: string;
  outside?: string;
  files?: readonly ProgramFile[];
  runsOtherFiles?: boolean;
}

/** A file that a command runs: a program, or the script of an interpreter. */
export interface ProgramFile {
  uri: string;
  sha256: string;
}

export interface FileChangeSubject {
  kind: "fileChange";
  changes: readonly FileChange[];
  hunks?: readonly NamedHunk[];
  origin?: "command";
  git?: readonly GitChange[];
}

/** One file before and after a change; the texts themselves are stored as blobs, by hash. */
export interface FileChange {
  uri: string;
  op: "add" | "modify" | "delete";
  added: number;
  removed: number;
  patch?: string;
  sha256Before?: string;
  sha256After?: string;
  unsaved?: boolean;
  form?: FileForm;
  raw?: "bytes" | "link" | "folder";
  modeBefore?: number;
  modeAfter?: number;
}

/** How a text is stored on disk. */
export interface FileForm {
  encoding?: string;
  bom?: boolean;
  mode?: number;
}

/** A hunk together with the file that it is in. */
export interface NamedHunk {
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
  uri: string;
}

/** A branch, a tag, the stash, HEAD, or what is staged, of one repository. */
export interface GitChange {
  repository: string;
  title: string;
  ref?: string;
  before?: string;
  after?: string;
}

export interface ToolSubject {
  kind: "tool";
  tool: string;
  args: Record<string, unknown>;
  definition?: string;
}

export interface PathSubject {
  kind: "path";
  uri: string;
  access: "read" | "write";
}

/** A folder that is not trusted yet or, if `isTrusted`, what is new in one that is. */
export interface TrustSubject {
  kind: "trust";
  folder: string;
  runs?: readonly ProjectProgram[];
  isTrusted?: boolean;
}

/** Something that a trusted folder runs without asking. */
export interface ProjectProgram {
  kind: "hook" | "skillCommand" | "server";
  command: string;
  uri: string;
  sha256: string;
  runsOtherFiles?: boolean;
}

/** Buffers that the agent edited; a command does not see the edits until they are saved. */
export interface SaveDocumentsSubject {
  kind: "saveDocuments";
  uris: readonly string[];
}

/** A host that programs in the sandbox may connect to, or a group of hosts. */
export interface HostSubject {
  kind: "host";
  host: string;
  port: number;
  isPrivate?: boolean;
  group?: string;
  hosts?: readonly string[];
}

/** Answer a question of the agent; the first answer wins. */
export interface InputRespondParams {
  inputId: string;
  action: InputAction;
  content?: string;
}

/** List the files that the agent changed, with the changes that wait for review. */
export interface ChangesListParams {
  conversationId: string;
  turnId?: string;
}

/** Show the changes to a file that wait for review, with their hunks. */
export interface ChangesDiffParams {
  conversationId: string;
  uri: string;
  turnId?: string;
}

/** Keep changes, which ends their review; the conversation is not isolated. */
export interface KeepParams {
  conversationId: string;
  uris?: readonly string[];
  hunks?: readonly NamedHunk[];
}

/** Undo changes through the editor, leaving later changes of the user in place. */
export interface UndoParams {
  conversationId: string;
  uris?: readonly string[];
  hunks?: readonly NamedHunk[];
}

/** Apply changes of an isolated conversation to its folders, merged with the user's own. */
export interface ApplyParams {
  conversationId: string;
  uris?: readonly string[];
  hunks?: readonly NamedHunk[];
}

/** Discard changes of an isolated conversation: it sees the files of its folders again. */
export interface DiscardParams {
  conversationId: string;
  uris?: readonly string[];
  hunks?: readonly NamedHunk[];
}

/** List the points just before the agent changed files, oldest first. */
export interface CheckpointListParams {
  conversationId: string;
}

/** Undo the agent's changes to files since a checkpoint; the model is told. */
export interface CheckpointRestoreParams {
  conversationId: string;
  checkpointId: string;
  dryRun?: boolean;
}

/** Upload an image or a PDF in pieces, to be used in a message; kept until the daemon exits. */
export interface AttachmentPutParams {
  attachmentId?: string;
  mimeType: string;
  index: number;
  total: number;
  data: string;
  sha256?: string;
}

/** Read more of an output of which the item only shows the beginning and the end. */
export interface OutputReadParams {
  conversationId: string;
  outputRef: string;
  offset?: number;
  limit?: number;
  encoding?: "utf-8" | "base64";
}

/** List the agent's terminals; there are none while the conversation is not open. */
export interface TerminalListParams {
  conversationId: string;
}

/** Read what a terminal showed, as text; at least the last MiB is kept. */
export interface TerminalReadParams {
  conversationId: string;
  terminalId: string;
  offset?: number;
  limit?: number;
}

/** Type into the program that runs in a terminal; the agent is told. */
export interface TerminalWriteParams {
  conversationId: string;
  terminalId: string;
  data: string;
}

/** End everything that runs in a terminal, background jobs included; its shell stays. */
export interface TerminalKillParams {
  conversationId: string;
  terminalId: string;
}

/** List the ports on which the conversation's commands listen in the sandbox. */
export interface PortListParams {
  conversationId: string;
}

/** Let the user reach a port of the sandbox; that ends with what listens there. */
export interface PortOpenParams {
  conversationId: string;
  port: number;
}

/** List the tools that the agent is offered. */
export interface ToolListParams {
  conversationId?: string;
}

/** List the agents to delegate to, for a conversation, a folder or the open folders. */
export interface AgentListParams {
  conversationId?: string;
  folder?: string;
}

/** Find what a message can mention, by a few letters of its name. */
export interface ContextSearchParams {
  query: string;
  kinds?: readonly ContextKind[];
  limit?: number;
  conversationId?: string;
}

/** List the commands that a message can contain as a part of type `command`. */
export interface CommandListParams {
  conversationId?: string;
}

/** List the skills of the project and the user; one that is not used says why. */
export interface SkillListParams {
  conversationId?: string;
  folder?: string;
}

/** List the models that can be chosen by name. */
export interface ModelListParams {
}

/** Ask a model for one word, which tells whether its key and address are right. */
export interface ModelCheckParams {
  model?: string;
  baseUrl?: string;
}

/** List the models that a server offers which speaks OpenAI's API, such as Ollama. */
export interface ModelDiscoverParams {
  baseUrl: string;
}

/** Sum the tokens and costs of one conversation, or of all in the open folders. */
export interface UsageReadParams {
  conversationId?: string;
  since?: string;
}

/** Read the settings in force, and the source of each. */
export interface ConfigReadParams {
  section?: string;
}

/** Check settings that are not in force yet, and report their problems. */
export interface ConfigValidateParams {
  settings: Record<string, unknown>;
  source?: "client" | "project" | "user";
}

/** Lend the daemon a key, or a secret for commands, from the editor's store until it exits. */
export interface SecretSetParams {
  name: string;
  value: string;
  forCommands?: boolean;
}

/** Forget a key or a secret; its value is still masked everywhere. */
export interface SecretRemoveParams {
  name: string;
}

/** List the names of the keys and secrets that the editor has exposed. */
export interface SecretListParams {
}

/** List MCP servers of the settings, skills in use and the browser, each with its state. */
export interface McpListParams {
}

/** Start or stop a server; the settings do not change. */
export interface McpSetEnabledParams {
  server: string;
  enabled: boolean;
}

/** Restart a server and accept its tools as they are now. */
export interface McpRestartParams {
  server: string;
}

/** Sign in to a server with a `url`; an earlier sign-in is forgotten. */
export interface McpAuthenticateParams {
  server: string;
}

/** Read the state of the daemon: its load, and warnings. */
export interface DaemonStatusParams {
}

/** Set what agents may do in a folder. */
export interface SetTrustParams {
  folder: string;
  trusted: Trust;
}

/** Report everything that the user now sees; the agent is told with the next message. */
export interface ContextChangedParams {
  activeUri?: string;
  selection?: ShownSelection;
  visibleRanges?: readonly Range[];
  openUris?: readonly string[];
  diagnosticsSummary?: ProblemCounts;
}

/** The selection in the active document; an empty range is the cursor. */
export interface ShownSelection {
  uri: string;
  range: Range;
  text?: string;
}

export interface ProblemCounts {
  errors?: number;
  warnings?: number;
}

/** Says how a `model/complete` under way goes on. */
export interface ModelProgressParams {
  callId: string;
  delta?: ModelDeltaPart;
  retry?: ModelRetryPart;
}

export interface ModelDeltaPart {
  channel: "text" | "reasoning";
  text: string;
}

/** Another attempt is coming; all deltas so far are void. */
export interface ModelRetryPart {
  attempt: number;
  maxAttempts: number;
  delayS: number;
  error: Record<string, unknown>;
  model?: string;
}

/** What the client says of itself: `ohDaemon` in `initializationOptions`. */
export interface ClientBlock {
  protocolVersion?: ProtocolVersion;
  client?: ClientInfo;
  features?: Features;
  events?: EventChoice;
  trust?: readonly FolderVerdict[];
  settings?: Record<string, unknown>;
  models?: ModelOffer;
  plain?: boolean;
  experimental?: readonly string[];
}

/** A version of this protocol. */
export interface ProtocolVersion {
  major: number;
  minor?: number;
}

/** Who the client is. */
export interface ClientInfo {
  name?: string;
  kind?: "panel" | "buffer" | "script" | "unattended";
}

/** The requests that the client answers; one that is missing counts as `false`. */
export interface Features {
  applyEdit2?: boolean;
  saveDocument?: boolean;
  readDocument?: boolean;
  diagnostics?: boolean;
  languageRequests?: boolean;
  openDiff?: boolean;
  approvalRequests?: boolean;
  inputRequests?: boolean;
  modelRequests?: boolean;
}

/** What the client does not want to receive. */
export interface EventChoice {
  deltas?: boolean;
  optOut?: readonly string[];
}

/** Whether the editor trusts a folder, for this connection. */
export interface FolderVerdict {
  folder: string;
  trusted?: boolean;
}

/** All models that the client can reach, as `models` in the block of `initialize`. */
export interface ModelOffer {
  default?: string;
  listed?: readonly OfferedModel[];
}

/** A model that the client can reach. */
export interface OfferedModel {
  id: string;
  label: string;
  kind?: "model" | "profile" | "router";
  contextWindow?: number;
  available: boolean;
  reason?: string;
  efforts?: readonly string[];
  editsByPatch?: boolean;
}

export interface ApplyEditResult {
  applied: boolean;
  saved?: boolean;
  failureReason?: string;
}

export interface ReadDocumentResult {
  text: string;
  version?: number;
}

export interface SaveDocumentResult {
  saved?: readonly string[];
}

export interface DiagnosticsResult {
  items: readonly DocumentDiagnostics[];
  loading?: readonly string[];
}

export interface DocumentDiagnostics {
  uri: string;
  diagnostics: readonly Diagnostic[];
}

/** A problem in a document, in LSP's form. */
export interface Diagnostic {
  range: Range;
  message: string;
  severity?: number;
  source?: string;
  code?: number | string;
}

/** No fields. */
export interface Empty {
}

/** LSP's result; with several servers, that of the first server that has one. */
export interface LanguageRequestResult {
  result: unknown;
}

/** Without an option, nothing is decided: the approval stays pending. */
export interface ApprovalAnswer {
  optionId?: string;
  feedback?: string;
  editedSubject?: Subject;
}

/** Without an action, nothing is decided: the question stays open. */
export interface InputAnswer {
  action?: InputAction;
  content?: string;
}

/** A tool result in MCP's form. */
export interface ToolCallResult {
  content?: readonly Record<string, unknown>[];
  structuredContent?: unknown;
  isError?: boolean;
}

export interface ModelDescribeResult {
  contextWindow?: number;
  mayBeWider?: boolean;
  seesImages?: boolean;
  readsPdfs?: boolean;
  caveats?: readonly ModelCaveat[];
  inputPrice?: number;
}

export interface ModelCaveat {
  code: "demoModel" | "noFunctionCalls" | "unknownPrice";
  title: string;
  description?: string;
  about?: string;
}

export interface ModelCompleteResult {
  text?: string;
  reasoning?: string;
  thinkingBlocks?: readonly Record<string, unknown>[];
  toolCalls?: readonly AnsweredCall[];
  finishReason?: "stop" | "tool_calls" | "length" | "content_filter" | "";
  usage?: CallUsage;
  responseId?: string;
  model?: string;
}

export interface AnsweredCall {
  id: string;
  name: string;
  arguments: string;
}

/** What a client says of one call, where each field may be missing. */
export interface CallUsage {
  inputTokens?: number;
  outputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  reasoningTokens?: number;
  cost?: Cost;
  requests?: number;
}

export interface Cost {
  amount: number;
  currency: "USD";
}

export interface StartResult {
  conversation: ConversationInfo;
  options: readonly Option[];
  messageId?: string;
  turnId?: string;
  duplicate?: boolean;
}

/** A conversation at a glance. */
export interface ConversationInfo {
  id: string;
  title: string;
  folders: readonly string[];
  status: ConversationState;
  statusReason?: PauseReason;
  model: string;
  modelLabel: string;
  createdAt: string;
  updatedAt: string;
  lastSeq: number;
  epoch?: string;
  turnId?: string;
  messageCount: number;
  fileCount?: number;
  usage?: Usage;
  context: ContextInfo;
  options: Record<string, string>;
  archived: boolean;
  tags: readonly string[];
  metadata: Record<string, unknown>;
  queueLength: number;
  pendingCount: number;
  lock: LockInfo;
  forkedFrom?: ForkOrigin;
  parentId?: string;
  isolated?: Isolation;
}

/** Tokens and cost of model calls. `cost` is absent when any call had no known price. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  reasoningTokens: number;
  cost?: Cost;
  requests: number;
}

/** How full the model's context is, in tokens; `size` is absent when unknown. */
export interface ContextInfo {
  used: number;
  size?: number;
}

export interface LockInfo {
  mine: boolean;
  pid?: number;
}

/** The conversation that another one was forked from, and the last event that both share. */
export interface ForkOrigin {
  id: string;
  seq: number;
}

/** A setting of one conversation that a client may show as a picker. */
export interface Option {
  id: string;
  name: string;
  category: "mode" | "approval" | "model" | "effort";
  type: "select";
  value: string;
  choices: readonly Choice[];
}

export interface Choice {
  value: string;
  label: string;
}

/** The conversation up to `lastSeq`; live events continue at `lastSeq + 1` after this answer. */
export interface OpenResult {
  conversation: ConversationInfo;
  options: readonly Option[];
  items?: readonly Item[];
  plan?: PlanItem;
  events?: readonly LogRecord[];
  firstSeq: number;
  lastSeq: number;
  hasMore: boolean;
  pending: readonly (Approval | InputRequest)[];
  queue: readonly QueuedMessage[];
  repaired: readonly string[];
}

export interface UserMessageItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  kind: "userMessage";
  messageId: string;
  clientMessageId?: string;
  content: readonly Part[];
  delivery: Delivery;
  editor?: Record<string, string>;
  environment?: Record<string, string>;
}

export interface AgentMessageItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  kind: "agentMessage";
  messageId: string;
  text: string;
  batch?: string;
}

export interface ReasoningItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  kind: "reasoning";
  text: string;
  batch?: string;
  blocks: readonly Record<string, unknown>[];
  model?: string;
}

export interface ToolCallItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  tool: string;
  toolKind: ToolKind;
  title: string;
  args: Record<string, unknown>;
  risk: Risk;
  selfRating?: Risk;
  summary?: string;
  locations: readonly Location[];
  content: readonly Record<string, unknown>[];
  meta?: Record<string, unknown>;
  outputRef?: string;
  durationMs?: number;
  call: ModelCall;
  kind: "toolCall";
}

export interface Location {
  uri: string;
  range?: Range;
}

/** The model's tool call, as it must be sent back to the model; clients ignore it. */
export interface ModelCall {
  id: string;
  name: string;
  arguments: string;
  batch: string;
}

export interface CommandItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  tool: string;
  toolKind: ToolKind;
  title: string;
  args: Record<string, unknown>;
  risk: Risk;
  selfRating?: Risk;
  summary?: string;
  locations: readonly Location[];
  content: readonly Record<string, unknown>[];
  meta?: Record<string, unknown>;
  outputRef?: string;
  durationMs?: number;
  call: ModelCall;
  kind: "command";
  command: string;
  cwd: string;
  terminalId: string;
  exitCode?: number;
  signal?: number;
  truncated?: boolean;
  changes?: readonly FileChange[];
  git?: readonly GitChange[];
}

export interface FileChangeItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  tool: string;
  toolKind: ToolKind;
  title: string;
  args: Record<string, unknown>;
  risk: Risk;
  selfRating?: Risk;
  summary?: string;
  locations: readonly Location[];
  content: readonly Record<string, unknown>[];
  meta?: Record<string, unknown>;
  outputRef?: string;
  durationMs?: number;
  call: ModelCall;
  kind: "fileChange";
  changes: readonly FileChange[];
  route?: "editor" | "disk";
  undoLabel?: string;
  git?: readonly GitChange[];
  origin?: "command";
}

export interface PlanItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  tool: string;
  toolKind: ToolKind;
  title: string;
  args: Record<string, unknown>;
  risk: Risk;
  selfRating?: Risk;
  summary?: string;
  locations: readonly Location[];
  content: readonly Record<string, unknown>[];
  meta?: Record<string, unknown>;
  outputRef?: string;
  durationMs?: number;
  call: ModelCall;
  kind: "plan";
  entries: readonly PlanEntry[];
}

export interface PlanEntry {
  id: string;
  text: string;
  status: "pending" | "inProgress" | "completed";
  priority: "high" | "medium" | "low";
}

/** A sub-agent; what it does is in the log of its own conversation. */
export interface SubagentItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  kind: "subagent";
  conversationId: string;
  agent: string;
  title: string;
}

export interface NoticeItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  kind: "notice";
  severity: "info" | "warning" | "error";
  code?: string;
  about?: string;
  title: string;
  description?: string;
  note?: string;
  skill?: string;
  skills?: readonly string[];
  environment?: Record<string, string>;
  settles?: string;
}

/** From here on, the model gets `summary` in place of everything before `keepFrom`. */
export interface CondensationItem {
  id: string;
  status: ItemStatus;
  reason?: string;
  startedAt?: string;
  endedAt?: string;
  kind: "condensation";
  keepFrom?: string;
  pruned: readonly string[];
  limits?: Record<string, number>;
  contextSize?: number;
  summary?: string;
  tokensBefore: number;
  tokensAfter: number;
}

/** One line of the log. */
export interface LogRecord {
  v: 2;
  seq: number;
  ts: string;
  turnId?: string;
  itemId?: string;
  cause?: Cause;
  event: Event;
}

/** The client request that caused an event, kept so that a repeated request is recognised. */
export interface Cause {
  method: string;
  clientRequestId: string;
  bodyHash: string;
  result: Record<string, unknown>;
}

/** The first event: everything that later behaviour depends on or that a reader needs. */
export interface ConversationCreated {
  type: "conversation.created";
  title: string;
  folders: readonly string[];
  agent: AgentInfo;
  options: Record<string, string>;
  maxSteps: number;
  maxCostUsd?: number;
  resultSchema?: Record<string, unknown>;
  metadata: Record<string, unknown>;
  forkedFrom?: ForkOrigin;
  parentId?: string;
  isolated?: Isolation;
}

/** The model, prompt and tools of a conversation, exactly as they are sent to the model. */
export interface AgentInfo {
  model: string;
  label: string;
  systemPrompt: string;
  contextFiles?: readonly string[];
  skills?: Record<string, string>;
  environment?: Record<string, string>;
  tools: readonly Record<string, unknown>[];
}

/** The conversation continues with another model, prompt or set of tools. */
export interface AgentChanged {
  type: "agent.changed";
  agent: AgentInfo;
}

/** The title, tags, metadata or folders changed, or it was archived or unarchived. */
export interface ConversationUpdated {
  type: "conversation.updated";
  title?: string;
  archived?: boolean;
  tags?: readonly string[];
  metadata?: Record<string, unknown>;
  folders?: readonly string[];
}

/** The conversation was closed cleanly by `conversation/close`; it can be opened again. */
export interface ConversationClosed {
  type: "conversation.closed";
}

/** The status changed; `reason` says why the conversation is paused. */
export interface StatusChanged {
  type: "status.changed";
  from: ConversationState;
  to: ConversationState;
  reason?: PauseReason;
}

/** A message waits: for the next step if it steers, else for a turn of its own. */
export interface MessageQueued {
  type: "message.queued";
  message: QueuedMessage;
}

export interface QueuedMessage {
  messageId: string;
  clientMessageId?: string;
  content: readonly Part[];
  delivery: Delivery;
  held?: boolean;
  options?: Record<string, string>;
  createdAt: string;
}

/** The content, position or delivery of a waiting message changed. */
export interface MessageEdited {
  type: "message.edited";
  message: QueuedMessage;
  position: number;
}

/** A message left the queue: it starts a turn, steers the running one, or was removed. */
export interface MessageDequeued {
  type: "message.dequeued";
  messageId: string;
  outcome: "started" | "steered" | "removed";
}

/** A hook refused the message that this item shows; the model never gets it. */
export interface MessageRefused {
  type: "message.refused";
  reason: string;
}

/** The agent starts to work on a message, a resume, a condensation, or what a job changed. */
export interface TurnStarted {
  type: "turn.started";
  cause: TurnCause;
  options?: Record<string, string>;
}

/** The turn is paused; `conversation/resume` or a message resumes it. */
export interface TurnPaused {
  type: "turn.paused";
  reason: PauseReason;
}

/** The paused turn continues. */
export interface TurnResumed {
  type: "turn.resumed";
}

/** The turn ended; this is its last event. */
export interface TurnCompleted {
  type: "turn.completed";
  turn: Turn;
}

/** The agent's work from a user message (or a resume) until it rests. */
export interface Turn {
  id: string;
  status: "running" | "completed" | "interrupted" | "paused" | "failed";
  stopReason?: StopReason;
  startedAt: string;
  endedAt?: string;
  nSteps: number;
  usage?: Usage;
  error?: ErrorInfo;
  finalText?: string;
  result?: unknown;
}

/** A failure as clients show it: what happened and what to do, never a traceback. */
export interface ErrorInfo {
  code: number;
  kind: string;
  message: string;
  retryable: boolean;
  hint?: string;
}

/** A client asked to pause, after the current step or now. */
export interface PauseRequested {
  type: "pause.requested";
  when: "step" | "now";
}

/** A client asked to end the turn now. */
export interface InterruptRequested {
  type: "interrupt.requested";
}

/** A client asked to condense the part of the conversation that is sent to the model. */
export interface CondensationRequested {
  type: "condensation.requested";
  instructions?: string;
}

/** An item started. For a tool item, this is the action, logged durably before the tool runs. */
export interface ItemStarted {
  type: "item.started";
  item: Item;
}

/** The status changed; the other fields are set if the user edited the action to allow it. */
export interface ItemUpdated {
  type: "item.updated";
  status: ItemStatus;
  args?: Record<string, unknown>;
  title?: string;
  command?: string;
  risk?: Risk;
  summary?: string;
}

/** The item in its final state. For a tool item, this is the observation. */
export interface ItemCompleted {
  type: "item.completed";
  item: Item;
}

/** An action is held until the user decides. */
export interface ApprovalRequested {
  type: "approval.requested";
  approval: Approval;
}

/** An action held until the user decides, across restarts. `digest` covers all that is shown. */
export interface Approval {
  id: string;
  digest: string;
  conversationId: string;
  turnId: string;
  itemId: string;
  title: string;
  description?: string;
  subject: Subject;
  risk: Risk;
  reason?: string;
  options: readonly ApprovalOption[];
  editable: boolean;
  createdAt: string;
}

export interface ApprovalOption {
  id: string;
  label: string;
  effect: "allow" | "reject";
  scope: Scope;
}

/** An approval was decided, and by whom; `editedSubject` is what runs instead. */
export interface ApprovalResolved {
  type: "approval.resolved";
  approvalId: string;
  decision: Decision;
  by: "user" | "policy" | "superseded" | "interrupted" | "noClient" | "changed";
  feedback?: string;
  editedSubject?: Subject;
}

/** The agent asks the user something and waits. */
export interface InputRequested {
  type: "input.requested";
  input: InputRequest;
}

/** A question of the agent, kept until the user answers. The model wrote it: untrusted. */
export interface InputRequest {
  id: string;
  conversationId: string;
  turnId: string;
  itemId: string;
  kind: "text" | "choice";
  prompt: string;
  choices?: readonly string[];
  createdAt: string;
}

/** A question was answered, by a `message` if the user typed into the chat instead. */
export interface InputResolved {
  type: "input.resolved";
  inputId: string;
  action: InputAction;
  content?: string;
  by: "user" | "message" | "interrupted" | "changed";
}

/** An action was allowed or rejected without asking: the rule, and the action's digest. */
export interface ActionDecided {
  type: "action.decided";
  effect: "allow" | "reject";
  code?: RuleCode;
  rule: string;
  risk: Risk;
  reasons: readonly string[];
  digest: string;
}

/** A command ended, and its changes wait to be applied to the open folders. */
export interface ChangesPlanned {
  type: "changes.planned";
  changes: readonly FileChange[];
  omitted: Record<string, string>;
  git: readonly RepositoryChanges[];
  notes: readonly string[];
  refusals: readonly string[];
  itemFields: Record<string, unknown>;
}

/** The pending changes to one repository, which are applied as a whole. */
export interface RepositoryChanges {
  gitDir: string;
  workTree?: string;
  isNew?: boolean;
  refs: readonly RefMove[];
  stash?: StashMove;
  index?: string;
  pack?: string;
  ends: readonly string[];
  protectedNames: readonly string[];
  signing?: Signing;
  unsigned?: boolean;
  conflict?: string;
  summary: readonly GitChange[];
}

/** A branch, a tag or HEAD that moves, if it is still where it was. */
export interface RefMove {
  ref: string;
  before?: string;
  after?: string;
}

/** All entries of the stash, the newest first. */
export interface StashMove {
  before: readonly StashEntry[];
  after: readonly StashEntry[];
}

export interface StashEntry {
  commit: string;
  message: string;
}

/** The program and the key that sign new commits and tags, from the user's own settings. */
export interface Signing {
  format: "openpgp" | "ssh" | "x509";
  program: string;
  key: string;
  problem?: string;
}

/** All files that differ from before the turn, each with its first and last hash. */
export interface ChangesUpdated {
  type: "changes.updated";
  files: readonly FileChange[];
  bySubagent?: readonly FileChange[];
}

/** The user settled changes to a file; a hash is absent if there is no file. */
export interface ChangesReviewed {
  type: "changes.reviewed";
  uri: string;
  decision: "kept" | "undone" | "applied" | "discarded";
  base?: string;
  now?: string;
}

/** A command or tool changed files; the store has the folders before and after it. */
export interface CheckpointCreated {
  type: "checkpoint.created";
  before: Record<string, string>;
  after: Record<string, string>;
  nFiles: number;
  saved?: Record<string, string>;
  changes?: readonly FileChange[];
}

/** This item and all later ones no longer count, nor do the events after `toSeq`. */
export interface ConversationRolledBack {
  type: "conversation.rolledBack";
  toSeq: number;
  toItemId: string;
  files: "keep" | "restore";
}

/** Usage of one model call; the totals are sums of these. */
export interface UsageUpdated {
  type: "usage.updated";
  usage: Usage;
  model: string;
  latencyMs: number;
  contextUsed: number;
  contextSize?: number;
  purpose?: Purpose;
}

/** The options that changed, with their values from the next step on. */
export interface OptionsChanged {
  type: "options.changed";
  values: Record<string, string>;
}

/** A model call failed and is retried; deltas of the items in `dropItemIds` no longer count. */
export interface RetryScheduled {
  type: "retry.scheduled";
  attempt: number;
  maxAttempts: number;
  delayMs: number;
  error: ErrorInfo;
  dropItemIds: readonly string[];
  model?: string;
}

/** A failure that the turn could not recover from. */
export interface ErrorRaised {
  type: "error.raised";
  error: ErrorInfo;
}

/** Something worth knowing, for instance that the log can be written again. */
export interface Notice {
  type: "notice";
  severity: "info" | "warning" | "error";
  title: string;
  description?: string;
}

/** The agent repeats itself: it was told to try another way, or its turn was ended. */
export interface StuckDetected {
  type: "stuck.detected";
  pattern: StuckPattern;
  outcome: "nudged" | "stopped";
}

export interface ConversationResult {
  conversation: ConversationInfo;
}

/** Newest first. */
export interface ListResult {
  conversations: readonly ConversationInfo[];
  matches?: Record<string, string>;
  nextCursor?: string;
}

export interface ReadResult {
  conversation: ConversationInfo;
  items: readonly Item[];
  nextBefore?: string;
}

/** Records as they are in the log; `truncated` says that there are more in that direction. */
export interface EventsResult {
  events: readonly LogRecord[];
  firstSeq: number;
  lastSeq: number;
  epoch: string;
  truncated: boolean;
}

export interface ExportResult {
  text: string;
}

export interface RollbackResult {
  restored: readonly string[];
  conflicts: readonly Conflict[];
  conversation: ConversationInfo;
}

/** A file that was left unchanged, and why. */
export interface Conflict {
  uri: string;
  reason: string;
}

export interface SendMessageResult {
  messageId: string;
  disposition: "started" | "steered" | "queued" | "interruptedAndStarted";
  turnId?: string;
  queuePosition?: number;
  turn?: Turn;
  finalText?: string;
  duplicate?: boolean;
}

export interface PauseResult {
  status: ConversationState;
  turnId: string;
  duplicate?: boolean;
}

export interface ResumeResult {
  turnId?: string;
  duplicate?: boolean;
}

/** Sent when the turn has really ended, or after 10 s with status `interrupting`. */
export interface InterruptResult {
  turnId?: string;
  status: ConversationState | "interrupted";
}

export interface CondenseResult {
  turnId: string;
  duplicate?: boolean;
}

export interface QueueResult {
  queue: readonly QueuedMessage[];
}

export interface AskResult {
  text: string;
  usage: Usage;
}

export interface SetOptionResult {
  options: readonly Option[];
  duplicate?: boolean;
}

export interface SubscribeResult {
  lastSeq: number;
}

export interface ApprovalListResult {
  pending: readonly Approval[];
}

/** Whether this answer to an approval or a question took effect, or which one came first. */
export interface RespondResult {
  resolved: boolean;
  alreadyResolved?: EarlierAnswer;
  needsResume?: boolean;
}

/** The answer that counts. */
export interface EarlierAnswer {
  by: "user" | "policy" | "message" | "superseded" | "interrupted" | "noClient" | "changed";
  decision?: Decision;
  action?: InputAction;
}

export interface ChangesListResult {
  files: readonly ReviewedFile[];
  omitted?: Record<string, string>;
  git?: readonly GitChange[];
}

/** All pending changes to a file, as one change. */
export interface ReviewedFile {
  uri: string;
  op: "add" | "modify" | "delete";
  added: number;
  removed: number;
  patch?: string;
  sha256Before?: string;
  sha256After?: string;
  unsaved?: boolean;
  form?: FileForm;
  raw?: "bytes" | "link" | "folder";
  modeBefore?: number;
  modeAfter?: number;
  state: "pending" | "kept" | "undone" | "applied" | "discarded" | "conflict";
  byCommand?: boolean;
}

/** Both texts use LF as line ending; a text is absent when there was no file. */
export interface ChangesDiffResult {
  oldText?: string;
  newText?: string;
  patch: string;
  hunks: readonly Hunk[];
}

/** Lines that differ, counted from 0; `old` is the accepted text, `new` the agent's. */
export interface Hunk {
  oldStart: number;
  oldLines: number;
  newStart: number;
  newLines: number;
}

/** The files that were changed or settled, and those left unchanged, with the reason. */
export interface ReviewResult {
  done: readonly string[];
  conflicts: readonly Conflict[];
}

export interface CheckpointListResult {
  checkpoints: readonly Checkpoint[];
  problem?: string;
}

export interface Checkpoint {
  id: string;
  createdAt: string;
  title: string;
  nFiles: number;
}

/** URIs of the files that were restored or, with `dryRun`, would be; others do not change. */
export interface RestoreResult {
  restored: readonly string[];
  conflicts: readonly Conflict[];
}

export interface AttachmentPutResult {
  attachmentId: string;
  received: number;
  complete: boolean;
}

/** Bytes `offset` to `nextOffset` of the whole output, as text. */
export interface OutputReadResult {
  text: string;
  nextOffset: number;
  total: number;
}

export interface TerminalListResult {
  terminals: readonly TerminalInfo[];
}

export interface TerminalInfo {
  terminalId: string;
  command?: string;
  cwd: string;
  running: boolean;
  exitCode?: number;
  sizeBytes: number;
}

export interface TerminalReadResult {
  data: string;
  nextOffset: number;
  eof: boolean;
}

export interface PortListResult {
  ports: readonly OpenPort[];
}

/** A port of the sandbox, which is not one of this machine. */
export interface OpenPort {
  port: number;
  address?: string;
}

export interface PortOpenResult {
  address: string;
}

export interface ToolListResult {
  tools: readonly ToolInfo[];
}

export interface ToolInfo {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
  annotations: Record<string, unknown>;
}

/** Sorted by name; a project's agent replaces a user's agent of the same name. */
export interface AgentListResult {
  agents: readonly AgentSummary[];
}

export interface AgentSummary {
  name: string;
  description: string;
  source: "builtin" | "project" | "user";
  path?: string;
}

/** Best match first. */
export interface ContextSearchResult {
  items: readonly ContextItem[];
}

export interface ContextItem {
  kind: ContextKind;
  label: string;
  detail?: string;
  part: Part;
}

export interface CommandListResult {
  commands: readonly CommandInfo[];
}

export interface CommandInfo {
  name: string;
  description: string;
  argumentHint?: string;
}

/** Nearest folder first. */
export interface SkillListResult {
  skills: readonly SkillInfo[];
}

export interface SkillInfo {
  name: string;
  description: string;
  kind: SkillKind;
  source: SkillSource;
  path: string;
  argumentHint?: string;
  problem?: string;
}

export interface ModelListResult {
  models: readonly ModelInfo[];
  default?: string;
}

export interface ModelInfo {
  id: string;
  label: string;
  kind: "model" | "profile" | "router";
  contextWindow?: number;
  available: boolean;
  reason?: string;
  efforts?: readonly string[];
}

export interface ModelCheckResult {
  model: string;
}

export interface ModelDiscoverResult {
  baseUrl: string;
  models: readonly string[];
}

/** Sums over all calls, including titles and summaries, but not deleted conversations. */
export interface UsageReadResult {
  usage: Usage;
  byModel: readonly ModelUsage[];
  byDay: readonly DayUsage[];
}

export interface ModelUsage {
  model: string;
  usage: Usage;
}

export interface DayUsage {
  day: string;
  usage: Usage;
}

/** The settings in force; `sources` names the source of each. Keys are shown as `***`. */
export interface ConfigReadResult {
  value: Record<string, unknown>;
  sources: Record<string, string>;
  problems: readonly string[];
}

export interface ConfigValidateResult {
  problems: readonly string[];
}

/** The names of exposed keys and secrets, never their values. */
export interface SecretNames {
  names: readonly string[];
  forCommands: readonly string[];
}

/** All MCP servers with their current state, by name. */
export interface McpServers {
  servers: readonly McpServerInfo[];
}

/** The current state of one server. */
export interface McpServerInfo {
  name: string;
  status: McpStatus;
  tools: readonly string[];
  omitted: readonly string[];
  error?: string;
}

/** Where the user signs in; the server's status becomes `running` once they have. */
export interface McpAuthenticateResult {
  url?: string;
  opened: boolean;
  servers: readonly McpServerInfo[];
}

export interface DaemonStatusResult {
  version: string;
  pid: number;
  uptimeS: number;
  rssBytes: number;
  conversations: readonly ConversationLoad[];
  writerQueueBytes: number;
  sandbox: SandboxInfo;
  warnings: readonly string[];
}

export interface ConversationLoad {
  id: string;
  status: ConversationState;
}

/** What holds the commands that run unasked, as `initialize` reports it, too. */
export interface SandboxInfo {
  level: "overlay" | "landlock" | "off";
  setting: SandboxSetting;
  cause?: string;
  cure?: string;
}

export interface SetTrustResult {
  folders: readonly FolderTrust[];
}

export interface FolderTrust {
  folder: string;
  trusted: Trust;
}

/** A durable event: a record of the log, byte for byte, with two more fields in front. */
export interface EventParams {
  v: 2;
  seq: number;
  ts: string;
  turnId?: string;
  itemId?: string;
  cause?: Cause;
  event: Event;
  conversationId: string;
  epoch: string;
}

/** A piece of streamed text; the log has the whole text once the item has ended. */
export interface DeltaParams {
  conversationId: string;
  turnId: string;
  itemId: string;
  channel: "text" | "reasoning" | "output";
  offset: number;
  text: string;
}

/** A conversation was created, updated or deleted; for lists of conversations. */
export interface ChangedParams {
  conversation: ConversationInfo;
  change: "created" | "updated" | "deleted";
}

/** This client was too slow and missed events; `conversation/events` has them. */
export interface GapParams {
  conversationId: string;
  fromSeq: number;
  toSeq: number;
}

/** Something that the user should know about the daemon itself. */
export interface DaemonStatusChangedParams {
  kind: "normal" | "warning" | "error";
  message: string;
  conversationId?: string;
  error?: ErrorInfo;
}

/** All ports on which the conversation's commands listen in the sandbox. */
export interface PortChangedParams {
  conversationId: string;
  ports: readonly OpenPort[];
}

/** Apply an edit as one undo step; feature `applyEdit2`, else `workspace/applyEdit`. */
export interface ApplyEditParams {
  label: string;
  edit: Record<string, unknown>;
  save: "ifWasClean" | "never";
}

/** Return a document's text, asked when the daemon lost track of it; feature `readDocument`. */
export interface ReadDocumentParams {
  uri: string;
}

/** Save documents; feature `saveDocument`, else the agent is told that they are unsaved. */
export interface SaveDocumentParams {
  uris: readonly string[];
}

/** Return the diagnostics of `uris`, or all that are known; feature `diagnostics`. */
export interface DiagnosticsParams {
  uris?: readonly string[];
  minSeverity: number;
}

/** Show a file's changes; feature `openDiff`, else `window/showDocument` of the patch. */
export interface OpenDiffParams {
  conversationId: string;
  uri: string;
  oldUri: string;
  newUri: string;
  title: string;
}

/** Ask the user's language servers, with LSP's `params`; feature `languageRequests`. */
export interface LanguageRequestParams {
  method: "textDocument/definition" | "textDocument/references" | "textDocument/hover" | "textDocument/documentSymbol" | "textDocument/rename" | "workspace/symbol";
  params: Record<string, unknown>;
}

/** Ask the user to approve an action; `approvalRequests`, else `window/showMessageRequest`. */
export interface ApprovalRequestParams {
  id: string;
  digest: string;
  conversationId: string;
  turnId: string;
  itemId: string;
  title: string;
  description?: string;
  subject: Subject;
  risk: Risk;
  reason?: string;
  options: readonly ApprovalOption[];
  editable: boolean;
  createdAt: string;
}

/** Ask the user a question; `inputRequests`, else `window/showMessageRequest` for choices. */
export interface InputRequestParams {
  id: string;
  conversationId: string;
  turnId: string;
  itemId: string;
  kind: "text" | "choice";
  prompt: string;
  choices?: readonly string[];
  createdAt: string;
}

/** Run a tool that this client provided in `clientTools`. */
export interface ToolCallParams {
  conversationId: string;
  itemId: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** Say what is known of a model before it is called. Fallback: nothing is known. */
export interface ModelDescribeParams {
  model: string;
}

/** Ask a model, with the client's key. Fallback: the call fails, and the turn pauses. */
export interface ModelCompleteParams {
  callId: string;
  model: string;
  messages: readonly Record<string, unknown>[];
  tools: readonly Record<string, unknown>[];
  toolChoice: "auto" | "required" | "none";
  cacheKey?: string;
  purpose?: Purpose;
}

/** What the server says of itself: `ohDaemon` in `capabilities.experimental` of its answer. */
export interface ServerBlock {
  protocolVersion: ProtocolVersion;
  daemon: DaemonInfo;
  methods: readonly string[];
  notifications: readonly string[];
  limits: Record<string, number>;
  sandbox?: SandboxInfo;
  understood?: Understood;
  experimental: readonly string[];
}

/** The process at the other end. */
export interface DaemonInfo {
  name: string;
  version: string;
  pid: number;
}

/** What the server has made of the client's block. */
export interface Understood {
  features: readonly string[];
  unknown: readonly string[];
}

/** `error.data` of every error. */
export interface ErrorData {
  kind: string;
  retryable: boolean;
  hint?: string;
  retryAfterMs?: number;
  httpStatus?: number;
  reference?: string;
  errors?: readonly FieldError[];
}

/** What is wrong with one field. */
export interface FieldError {
  path: string;
  code: string;
  message: string;
}

export interface Requests {
  "conversation/start": [StartParams, StartResult];
  "conversation/open": [OpenParams, OpenResult];
  "conversation/close": [CloseParams, Empty];
  "conversation/update": [UpdateParams, ConversationResult];
  "conversation/delete": [DeleteParams, Empty];
  "conversation/list": [ListParams, ListResult];
  "conversation/read": [ReadParams, ReadResult];
  "conversation/events": [EventsParams, EventsResult];
  "conversation/export": [ExportParams, ExportResult];
  "conversation/fork": [ForkParams, ConversationResult];
  "conversation/rollback": [RollbackParams, RollbackResult];
  "conversation/sendMessage": [SendMessageParams, SendMessageResult];
  "conversation/pause": [PauseParams, PauseResult];
  "conversation/resume": [ResumeParams, ResumeResult];
  "conversation/interrupt": [InterruptParams, InterruptResult];
  "conversation/condense": [CondenseParams, CondenseResult];
  "conversation/queue": [QueueParams, QueueResult];
  "conversation/ask": [AskParams, AskResult];
  "conversation/setOption": [SetOptionParams, SetOptionResult];
  "conversation/subscribe": [SubscribeParams, SubscribeResult];
  "conversation/unsubscribe": [UnsubscribeParams, Empty];
  "approval/list": [ApprovalListParams, ApprovalListResult];
  "approval/respond": [ApprovalRespondParams, RespondResult];
  "input/respond": [InputRespondParams, RespondResult];
  "changes/list": [ChangesListParams, ChangesListResult];
  "changes/diff": [ChangesDiffParams, ChangesDiffResult];
  "changes/keep": [KeepParams, ReviewResult];
  "changes/undo": [UndoParams, ReviewResult];
  "changes/apply": [ApplyParams, ReviewResult];
  "changes/discard": [DiscardParams, ReviewResult];
  "checkpoint/list": [CheckpointListParams, CheckpointListResult];
  "checkpoint/restore": [CheckpointRestoreParams, RestoreResult];
  "attachment/put": [AttachmentPutParams, AttachmentPutResult];
  "output/read": [OutputReadParams, OutputReadResult];
  "terminal/list": [TerminalListParams, TerminalListResult];
  "terminal/read": [TerminalReadParams, TerminalReadResult];
  "terminal/write": [TerminalWriteParams, Empty];
  "terminal/kill": [TerminalKillParams, Empty];
  "port/list": [PortListParams, PortListResult];
  "port/open": [PortOpenParams, PortOpenResult];
  "tool/list": [ToolListParams, ToolListResult];
  "agent/list": [AgentListParams, AgentListResult];
  "context/search": [ContextSearchParams, ContextSearchResult];
  "command/list": [CommandListParams, CommandListResult];
  "skill/list": [SkillListParams, SkillListResult];
  "model/list": [ModelListParams, ModelListResult];
  "model/check": [ModelCheckParams, ModelCheckResult];
  "model/discover": [ModelDiscoverParams, ModelDiscoverResult];
  "usage/read": [UsageReadParams, UsageReadResult];
  "config/read": [ConfigReadParams, ConfigReadResult];
  "config/validate": [ConfigValidateParams, ConfigValidateResult];
  "secret/set": [SecretSetParams, SecretNames];
  "secret/remove": [SecretRemoveParams, SecretNames];
  "secret/list": [SecretListParams, SecretNames];
  "mcp/list": [McpListParams, McpServers];
  "mcp/setEnabled": [McpSetEnabledParams, McpServers];
  "mcp/restart": [McpRestartParams, McpServers];
  "mcp/authenticate": [McpAuthenticateParams, McpAuthenticateResult];
  "daemon/status": [DaemonStatusParams, DaemonStatusResult];
  "workspace/setTrust": [SetTrustParams, SetTrustResult];
}

export interface ClientNotifications {
  "editor/contextChanged": ContextChangedParams;
  "model/progress": ModelProgressParams;
}

export interface Notifications {
  "conversation/event": EventParams;
  "conversation/delta": DeltaParams;
  "conversation/changed": ChangedParams;
  "conversation/gap": GapParams;
  "daemon/statusChanged": DaemonStatusChangedParams;
  "mcp/statusChanged": McpServers;
  "port/changed": PortChangedParams;
}

export interface ClientRequests {
  "editor/applyEdit": [ApplyEditParams, ApplyEditResult];
  "editor/readDocument": [ReadDocumentParams, ReadDocumentResult];
  "editor/saveDocument": [SaveDocumentParams, SaveDocumentResult];
  "editor/diagnostics": [DiagnosticsParams, DiagnosticsResult];
  "editor/openDiff": [OpenDiffParams, Empty];
  "editor/languageRequest": [LanguageRequestParams, LanguageRequestResult];
  "approval/request": [ApprovalRequestParams, ApprovalAnswer];
  "input/request": [InputRequestParams, InputAnswer];
  "tool/call": [ToolCallParams, ToolCallResult];
  "model/describe": [ModelDescribeParams, ModelDescribeResult];
  "model/complete": [ModelCompleteParams, ModelCompleteResult];
}

/** Values of the options, for pickers; an open conversation brings its own. */
export const CHOICES: { readonly mode: readonly Choice[]; readonly approval: readonly Choice[]; } = {
  mode: [
    { value: "plan", label: "Plan: read only" },
    { value: "ask", label: "Ask" },
    { value: "autoEdit", label: "Edit freely" },
    { value: "full", label: "Full: never ask" },
  ],
  approval: [
    { value: "askAlways", label: "Ask always" },
    { value: "askRisky", label: "Ask if risky" },
    { value: "askNever", label: "Never ask" },
  ],
};
