/** Messages between the extension and its panel; `oh-daemon-client` has the daemon's own types in them. */

import type { LeftOut } from "./proposal";
import type {
  CommandItem,
  ContextKind,
  ErrorInfo,
  FileChange,
  FileChangeItem,
  Part,
  PlanItem,
  Range,
  Requests,
  ToolCallItem,
} from "oh-daemon-client/protocol";
import type { Notification } from "oh-daemon-client/store";

export type ToolItem = ToolCallItem | CommandItem | FileChangeItem | PlanItem;

/** Something that can be attached to a message; a terminal's text is read when the terminal is chosen. */
export interface Suggestion {
  kind: "selection" | "problems" | "terminal" | ContextKind;
  label: string;
  detail?: string;
  part?: Part;
}

/** What the conversation of an attempt at a task has in its metadata, as `way`. */
export interface Way {
  /** The same for all attempts at the task. */
  group: string;
  name: string;
  /** A command that says by its exit code whether the attempt is good; may be empty. */
  check: string;
  outcome?: "applied" | "discarded";
}

/** Asks for the colours of code in the active theme. */
export interface TokensRequest {
  /** As behind the fence of a code block; without it, the file's name tells. */
  language?: string;
  fileName?: string;
  theme: string;
  uiTheme: "vs" | "vs-dark" | "hc-black" | "hc-light";
  texts: readonly string[];
}

export interface Tokens {
  /** The font is the sum of 1 for italic, 2 for bold, 4 for underlined, 8 for struck through; none if below 1. */
  styles: readonly { color: string; font: number }[];
  /** For each text the tokens that are not plain: where each begins, where it ends, and its style. */
  texts: readonly (readonly number[])[];
}

export interface LocalServer {
  name: string;
  address: string;
  nModels: number;
}

/** The panel's requests to the extension itself. */
export interface HostRequests {
  "host/openFile": [{ uri: string; range?: Range }, void];
  "host/openProposal": [{ approvalId: string; change: FileChange }, void];
  /** Updates the diff of the proposal if it is open. */
  "host/changeProposal": [{ approvalId: string; change: FileChange }, void];
  "host/openDone": [{ conversationId: string; change: FileChange }, void];
  "host/openTurn": [{ conversationId: string; changes: readonly FileChange[] }, void];
  "host/openOutput": [{ conversationId: string; outputRef: string }, void];
  /** Asks the user first, and answers whether they went back. */
  "host/goBack": [{ conversationId: string; itemId: string }, boolean];
  "host/export": [{ conversationId: string }, void];
  /** Shows the conversation in a tab of its own. */
  "host/openInEditor": [{ conversationId: string }, void];
  /** Asks in which ways, starts the attempts and shows them. */
  "host/startAttempts": [{ task: string }, void];
  "host/openLink": [{ href: string }, void];
  /** Answers which of these name files in the window's folders. */
  "host/existing": [{ hrefs: readonly string[] }, { existing: readonly string[] }];
  /** Shows what is served at an address of this machine in the browser. */
  "host/openAddress": [{ address: string }, void];
  "host/insert": [{ text: string }, void];
  "host/copy": [{ text: string }, void];
  "host/command": [
    {
      command:
        | "oh.setKey"
        | "oh.restart"
        | "oh.log"
        | "oh.settings"
        | "oh.install"
        | "oh.mcp"
        | "workbench.trust.manage";
    },
    void,
  ];
  /** Asks the user for a server unless one is given, and answers what its model is called now. */
  "host/addServer": [{ address?: string }, { model?: string }];
  /** Answers which servers of models run on this machine; none if the agent works elsewhere. */
  "host/localServers": [Record<string, never>, { servers: readonly LocalServer[] }];
  "host/mentions": [Record<string, never>, { suggestions: readonly Suggestion[] }];
  "host/terminalText": [Record<string, never>, { part?: Part }];
  "host/tokens": [TokensRequest, Tokens];
}
export type Calls = Requests & HostRequests;

export type DaemonState =
  | { kind: "starting" }
  /** In a restricted window the agent can only read. */
  | { kind: "running"; isRestricted: boolean }
  | { kind: "missing" }
  /** It is being installed; the step is for people. */
  | { kind: "installing"; step: string }
  | { kind: "failed"; message: string; details: string };

/** The file that the user is looking at. */
export interface Looking {
  /** Its path in the window. */
  name: string;
  /** The lines that are selected, such as `12` or `12–20`. */
  lines?: string;
  /** Its errors and warnings. */
  nProblems: number;
  /** Whether each message tells the agent of it. */
  isShared: boolean;
}

/** Where the user is reading in a conversation: an item, and how far below the upper edge it begins, in pixels. */
export interface Place {
  conversationId: string;
  itemId: string;
  offset: number;
}

/** What the user has typed or chosen for a request that still waits for an answer. */
export interface HalfAnswer {
  answer?: string;
  note?: string;
  command?: string;
  omitted?: LeftOut;
}

/** What is remembered for a page while that is hidden or reloaded. */
export interface PanelMemory {
  conversationId?: string;
  draft?: string;
  attached?: readonly Part[];
  options?: Record<string, string>;
  /** Undefined while the end is in view. */
  place?: Place;
  /** By the id of the pending approval or question. */
  halfAnswers?: Record<string, HalfAnswer>;
  isPlanOpen?: boolean;
  /** Where a turn's work is unfolded: a conversation's id and that of an item. */
  openFolds?: readonly string[];
}

export type ToPanel =
  | { type: "init"; memory: PanelMemory; daemon: DaemonState; looking?: Looking }
  | { type: "looking"; looking?: Looking }
  | { type: "daemon"; daemon: DaemonState }
  | { type: "answer"; id: string; result?: unknown; error?: ErrorInfo }
  | { type: "notifications"; batch: readonly Notification[] }
  | { type: "attach"; part: Part }
  | { type: "show"; what: "new" | "newIsolated" | "list" | "input" }
  | { type: "open"; conversationId: string }
  /** The user pressed an editor key that stands for this button of the request. */
  | { type: "press"; optionId: string };

export type FromPanel =
  | { type: "ready" }
  | { type: "call"; id: string; method: keyof Calls; params: unknown }
  /** The id of the approval or question that the panel shows. */
  | { type: "asks"; id?: string }
  | { type: "memory"; memory: PanelMemory }
  /** The title of the conversation that the page shows; empty for none. */
  | { type: "title"; title: string };
