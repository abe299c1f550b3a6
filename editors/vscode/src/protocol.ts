/** The parts of the daemon's protocol that this extension uses; `protocol.md` explains them. */

export type Status =
  | "idle" | "running" | "waiting" | "pausing" | "paused" | "interrupting" | "finished" | "error" | "closed";
export type Risk = "low" | "medium" | "high" | "unknown";

export interface Position { line: number; character: number }
export interface Range { start: Position; end: Position }
export interface TextEdit { range: Range; newText: string }

export type Part =
  | { type: "text"; text: string }
  | { type: "image"; mimeType: string; data: string }
  | { type: "resourceLink"; uri: string; name?: string }
  | { type: "resource"; uri: string; text: string }
  | { type: "selection"; uri: string; range: Range; text: string; version?: number }
  | { type: "diagnostics"; uri: string; items: readonly unknown[] };

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  requests: number;
  cost?: { amount: number };
}

export interface ConversationInfo {
  id: string;
  title: string;
  status: Status;
  statusReason?: string;
  model: string;
  updatedAt: string;
  lastSeq: number;
  epoch?: string;
  turnId?: string;
  usage?: Usage;
  context: { used: number; size?: number };
  options: Record<string, string>;
  pendingCount: number;
}

export interface FileChange {
  uri: string;
  op: "add" | "modify" | "delete";
  added: number;
  removed: number;
  patch?: string;
  unsaved?: boolean;
}

export interface PlanEntry { id: string; text: string; status: "pending" | "inProgress" | "completed" }

interface ItemBase {
  id: string;
  status: "pending" | "awaitingApproval" | "running" | "completed" | "failed" | "rejected" | "cancelled";
  reason?: string;
}
export interface ToolItem extends ItemBase {
  kind: "toolCall" | "command" | "fileChange" | "plan";
  toolKind: string;
  title: string;
  summary?: string;
  args: Record<string, unknown>;
  content: readonly { type: string; text?: string }[];
  outputRef?: string;
  durationMs?: number;
  /** Of a command. */
  command?: string;
  exitCode?: number;
  /** Of a file change. */
  changes?: readonly FileChange[];
  /** Of a plan. */
  entries?: readonly PlanEntry[];
}
export interface NoticeItem extends ItemBase { kind: "notice"; severity: string; title: string; description?: string }
export type Item =
  | (ItemBase & { kind: "userMessage"; content: readonly Part[] })
  | (ItemBase & { kind: "agentMessage" | "reasoning"; text: string })
  | ToolItem
  | NoticeItem;

export type Subject =
  | { kind: "command"; command: string; cwd: string }
  | { kind: "fileChange"; changes: readonly FileChange[] }
  | { kind: "tool"; tool: string; args: Record<string, unknown> }
  | { kind: "path"; uri: string; access: "read" | "write" }
  | { kind: "trust"; folder: string }
  | { kind: "saveDocuments"; uris: readonly string[] };

export interface Approval {
  id: string;
  digest: string;
  conversationId: string;
  itemId: string;
  title: string;
  description?: string;
  subject: Subject;
  risk: Risk;
  reason?: string;
  options: readonly { id: string; label: string; effect: "allow" | "reject"; scope: string }[];
  editable?: boolean;
}

export interface QueuedMessage { messageId: string; content: readonly Part[]; delivery: string }
export interface Choice { value: string; label: string }
export interface Option { id: string; name: string; value: string; choices: readonly Choice[] }
export interface ErrorInfo { code: number; kind: string; message: string; hint?: string }

export type Event =
  | { type: "item.started" | "item.completed"; item: Item }
  | { type: "item.updated"; status: ItemBase["status"] }
  | { type: "status.changed"; to: Status; reason?: string }
  | { type: "approval.requested"; approval: Approval }
  | { type: "approval.resolved"; approvalId: string }
  | { type: "message.queued"; message: QueuedMessage }
  | { type: "message.dequeued"; messageId: string }
  | { type: "options.changed"; values: Record<string, string> }
  | { type: "usage.updated"; usage: Usage; contextUsed?: number; contextSize?: number }
  | { type: "retry.scheduled"; attempt: number; maxAttempts: number; delayMs: number; error: ErrorInfo; dropItemIds?: readonly string[] }
  | { type: "error.raised"; error: ErrorInfo }
  | { type: "notice"; severity: string; title: string; description?: string }
  | { type: "turn.started" | "turn.resumed" }
  | { type: "turn.completed"; turn: { status: string; stopReason?: string } }
  | { type: "conversation.updated"; title: string };

export interface EventRecord { conversationId?: string; epoch?: string; seq: number; ts: string; turnId?: string; itemId?: string; event: Event }
export interface Delta { conversationId: string; itemId: string; channel: "text" | "reasoning" | "output"; offset: number; text: string }

export interface Opened {
  conversation: ConversationInfo;
  options: readonly Option[];
  items?: readonly Item[];
  lastSeq: number;
  hasMore: boolean;
  pending: readonly Approval[];
  queue: readonly QueuedMessage[];
  repaired?: readonly string[];
}

/** Requests to the daemon, each with its params and its result. */
export interface Requests {
  "conversation/start": [{ content: readonly Part[]; options: Record<string, string>; clientRequestId: string }, { conversation: ConversationInfo; options: readonly Option[] }];
  "conversation/open": [{ conversationId: string; replay?: "items" | "none"; limit?: number }, Opened];
  "conversation/list": [{ query?: string; cursor?: string; limit?: number }, { conversations: readonly ConversationInfo[]; nextCursor?: string }];
  "conversation/read": [{ conversationId: string; before?: string; limit?: number }, { conversation: ConversationInfo; items: readonly Item[]; nextBefore?: string }];
  "conversation/events": [{ conversationId: string; afterSeq?: number; beforeSeq?: number; limit?: number; types?: readonly string[] }, { events: readonly EventRecord[]; truncated: boolean }];
  "conversation/sendMessage": [{ conversationId: string; content: readonly Part[]; delivery: "auto" | "queue" | "steer"; clientRequestId: string }, { disposition: string }];
  "conversation/pause": [{ conversationId: string }, unknown];
  "conversation/resume": [{ conversationId: string }, unknown];
  "conversation/interrupt": [{ conversationId: string }, { status: string }];
  "conversation/queue": [{ conversationId: string; op: "remove"; messageId: string }, { queue: readonly QueuedMessage[] }];
  "conversation/setOption": [{ conversationId: string; optionId: string; value: string }, { options: readonly Option[] }];
  "approval/respond": [{ approvalId: string; digest: string; optionId: string; feedback?: string; editedSubject?: Subject }, { resolved: boolean }];
  "output/read": [{ conversationId: string; outputRef: string; offset: number }, { text: string; nextOffset: number; total: number }];
  "model/list": [Record<string, never>, { models: readonly { id: string; label: string; available: boolean; reason?: string }[]; default?: string }];
  "config/read": [Record<string, never>, { value: Record<string, unknown> }];
}

/** What the panel asks of the extension itself. */
export interface HostRequests {
  "host/openFile": [{ uri: string; range?: Range }, null];
  "host/openDiff": [{ change: FileChange; isDone: boolean }, null];
  "host/openOutput": [{ conversationId: string; outputRef: string }, null];
  "host/openLink": [{ href: string }, null];
  "host/insert": [{ text: string }, null];
  "host/copy": [{ text: string }, null];
  "host/command": [{ command: "oh.setKey" | "oh.restart" | "oh.log" | "oh.settings" }, null];
  "host/files": [{ query: string }, { files: readonly { uri: string; name: string }[] }];
}
export type Calls = Requests & HostRequests;

export type DaemonState =
  | { kind: "starting" }
  | { kind: "running" }
  | { kind: "failed"; message: string; details: string };

/** What the window remembers for the panel, over hiding and reloading. */
export interface PanelMemory { conversationId?: string; draft?: string; model?: string; options?: Record<string, string> }

export type ToPanel =
  | { type: "init"; memory: PanelMemory; daemon: DaemonState }
  | { type: "daemon"; daemon: DaemonState }
  | { type: "answer"; id: number; result?: unknown; error?: ErrorInfo }
  | { type: "notifications"; batch: readonly Notification[] }
  | { type: "attach"; part: Part }
  | { type: "show"; what: "new" | "list" | "input" };

export type Notification =
  | { method: "conversation/event"; params: EventRecord }
  | { method: "conversation/delta"; params: Delta }
  | { method: "conversation/changed"; params: { conversation: ConversationInfo } }
  | { method: "conversation/gap"; params: { conversationId: string } };

export type FromPanel =
  | { type: "ready" }
  | { type: "call"; id: number; method: keyof Calls; params: unknown }
  | { type: "memory"; memory: PanelMemory };
