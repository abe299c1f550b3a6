/** What travels between the extension and its panel; `protocol.ts` has what the daemon adds to it. */

import type { LeftOut } from "./proposal";
import type {
  CommandItem, ErrorInfo, FileChange, FileChangeItem, Notifications, Part, PlanItem, Range, Requests, ToolCallItem,
} from "./protocol";

export type ToolItem = ToolCallItem | CommandItem | FileChangeItem | PlanItem;

/** What can go along with a message; a terminal's text is read when it is chosen. */
export interface Suggestion {
  kind: "selection" | "problems" | "terminal" | "file" | "symbol" | "conversation" | "command" | "skill";
  label: string;
  detail?: string;
  part?: Part;
}

/** What the panel asks of the extension itself. */
export interface HostRequests {
  "host/openFile": [{ uri: string; range?: Range }, null];
  "host/openProposal": [{ approvalId: string; change: FileChange }, null];
  /** Shows it where it is open. */
  "host/changeProposal": [{ approvalId: string; change: FileChange }, null];
  "host/openDone": [{ conversationId: string; change: FileChange }, null];
  "host/openTurn": [{ conversationId: string; changes: readonly FileChange[] }, null];
  "host/openOutput": [{ conversationId: string; outputRef: string }, null];
  "host/export": [{ conversationId: string }, null];
  "host/openLink": [{ href: string }, null];
  "host/insert": [{ text: string }, null];
  "host/copy": [{ text: string }, null];
  "host/command": [{ command: "oh.setKey" | "oh.restart" | "oh.log" | "oh.settings" | "oh.install" | "oh.mcp" }, null];
  "host/mentions": [Record<string, never>, { suggestions: readonly Suggestion[] }];
  "host/terminalText": [Record<string, never>, { part?: Part }];
}
export type Calls = Requests & HostRequests;

export type DaemonState =
  | { kind: "starting" }
  | { kind: "running" }
  | { kind: "failed"; message: string; details: string; canInstall?: boolean };

/** Where in a conversation the user reads: an item, and how far below the upper edge it begins. */
export interface Place { conversationId: string; itemId: string; offset: number }

/** What the window remembers for the panel, over hiding and reloading. */
export interface PanelMemory {
  conversationId?: string;
  draft?: string;
  attached?: readonly Part[];
  model?: string;
  options?: Record<string, string>;
  /** None while the end is in sight. */
  place?: Place;
  /** By the approval that waits. */
  leftOut?: Record<string, LeftOut>;
}

export type ToPanel =
  | { type: "init"; memory: PanelMemory; daemon: DaemonState }
  | { type: "daemon"; daemon: DaemonState }
  | { type: "answer"; id: number; result?: unknown; error?: ErrorInfo }
  | { type: "notifications"; batch: readonly Notification[] }
  | { type: "attach"; part: Part }
  | { type: "show"; what: "new" | "list" | "input" }
  | { type: "open"; conversationId: string }
  | { type: "leaveOut"; approvalId: string; hunks: LeftOut }
  /** A key of the editor stands for this button of the question. */
  | { type: "press"; optionId: string };

export type Notification = { [M in keyof Notifications]: { method: M; params: Notifications[M] } }[keyof Notifications];

export type FromPanel =
  | { type: "ready" }
  | { type: "call"; id: number; method: keyof Calls; params: unknown }
  /** What waits for an answer where the user sees it. */
  | { type: "asks"; id?: string }
  | { type: "memory"; memory: PanelMemory };
