/** The panel's requests to the editor: open, copy, insert, find files. All others go to the daemon. */

import { commands, env, Uri, window } from "vscode";
import type { Agent } from "./agent";
import type { EditorContext } from "./context";
import type { Diffs } from "./diff";
import { toCodeRange } from "./editor";
import { exportConversation } from "./export";
import { suggestions, terminalText } from "./mentions";
import type { HostRequests } from "./messages";

const COMMANDS = ["oh.setKey", "oh.restart", "oh.log", "oh.settings", "oh.install", "oh.mcp"];

type Handlers = { [M in keyof HostRequests]: (params: HostRequests[M][0]) => Promise<HostRequests[M][1]> };

export function hostHandlers(agent: Agent, diffs: Diffs, editors: EditorContext): Handlers {
  return {
    "host/openFile": async ({ uri, range }) => {
      const selection = range && toCodeRange(range);
      await window.showTextDocument(Uri.parse(uri), { preview: true, ...(selection && { selection }) });
      return null;
    },
    "host/openProposal": async ({ approvalId, change }) => {
      await diffs.openProposal(approvalId, change);
      return null;
    },
    "host/changeProposal": async ({ approvalId, change }) => {
      await diffs.changeProposal(approvalId, change);
      return null;
    },
    "host/openDone": async ({ conversationId, change }) => {
      await diffs.openDone(conversationId, change);
      return null;
    },
    "host/openTurn": async ({ conversationId, changes }) => {
      await diffs.openTurn(conversationId, changes);
      return null;
    },
    "host/openOutput": async ({ conversationId, outputRef }) => {
      await window.showTextDocument(Uri.from({ scheme: "oh-output", path: `/${conversationId}/${outputRef}` }), {
        preview: true,
      });
      return null;
    },
    "host/export": async ({ conversationId }) => {
      await exportConversation(agent, conversationId);
      return null;
    },
    "host/openLink": async ({ href }) => {
      // A model's text may contain any scheme; only links that a browser shows are opened.
      if (/^https?:\/\//i.test(href)) await env.openExternal(Uri.parse(href, true));
      return null;
    },
    "host/insert": async ({ text }) => {
      const { editor } = editors;
      if (!editor) throw new Error("There is no open editor to insert into.");
      await editor.edit((edit) => edit.replace(editor.selection, text));
      return null;
    },
    "host/copy": async ({ text }) => {
      await env.clipboard.writeText(text);
      return null;
    },
    "host/command": async ({ command }) => {
      if (COMMANDS.includes(command)) await commands.executeCommand(command);
      return null;
    },
    "host/mentions": async () => ({ suggestions: suggestions(editors) }),
    "host/terminalText": async () => {
      const part = await terminalText("all");
      return part ? { part } : {};
    },
  };
}
