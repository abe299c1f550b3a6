/** The panel's requests to the editor: open, copy, insert, find files. All others go to the daemon. */

import { commands, env, FileSystemError, type Range, Uri, window, workspace } from "vscode";
import type { Agent } from "./agent";
import { goBack } from "./checkpoints";
import type { Colors } from "./colors";
import type { EditorContext } from "./context";
import type { Diffs } from "./diff";
import { toCodeRange } from "./editor";
import { exportConversation } from "./export";
import { addServer } from "./keys";
import { existing, openLink } from "./links";
import { localServers } from "./localservers";
import { suggestions, terminalText } from "./mentions";
import type { HostRequests } from "./messages";

const COMMANDS = ["oh.setKey", "oh.restart", "oh.log", "oh.settings", "oh.install", "oh.mcp", "workbench.trust.manage"];

export type Handlers = { [M in keyof HostRequests]: (params: HostRequests[M][0]) => Promise<HostRequests[M][1]> };

export function hostHandlers(agent: Agent, diffs: Diffs, editors: EditorContext, colors: Colors): Handlers {
  return {
    "host/openFile": ({ uri, range }) => show(Uri.parse(uri), range && toCodeRange(range)),
    "host/openProposal": ({ approvalId, change }) => diffs.openProposal(approvalId, change),
    "host/changeProposal": ({ approvalId, change }) => diffs.changeProposal(approvalId, change),
    "host/openDone": ({ conversationId, change }) => diffs.openDone(conversationId, change),
    "host/openTurn": ({ conversationId, changes }) => diffs.openTurn(conversationId, changes),
    "host/openOutput": ({ conversationId, outputRef }) =>
      show(Uri.from({ scheme: "oh-output", path: `/${conversationId}/${outputRef}` })),
    "host/goBack": ({ conversationId, itemId }) => goBack(agent, conversationId, itemId),
    "host/export": ({ conversationId }) => exportConversation(agent, conversationId),
    "host/openInEditor": async ({ conversationId }) => {
      await commands.executeCommand("oh.openInEditor", conversationId);
    },
    "host/startAttempts": async ({ task }) => {
      await commands.executeCommand("oh.startAttempts", task);
    },
    "host/openLink": ({ href }) => openLink(href),
    "host/existing": async ({ hrefs }) => ({ existing: await existing(hrefs) }),
    "host/openAddress": async ({ address }) => {
      await env.openExternal(Uri.parse(`http://${address}`));
    },
    "host/insert": async ({ text }) => {
      const { editor } = editors;
      if (!editor) throw new Error("There is no open editor to insert into.");
      await editor.edit((edit) => edit.replace(editor.selection, text));
    },
    "host/copy": async ({ text }) => env.clipboard.writeText(text),
    "host/command": async ({ command }) => {
      if (COMMANDS.includes(command)) await commands.executeCommand(command);
    },
    "host/addServer": async ({ address }) => {
      const model = await addServer(agent, address);
      return model === undefined ? {} : { model };
    },
    "host/localServers": async () => ({ servers: agent.isHere ? await localServers() : [] }),
    "host/mentions": async () => ({ suggestions: suggestions(editors) }),
    "host/terminalText": async () => {
      const part = await terminalText("all");
      return part ? { part } : {};
    },
    "host/tokens": (request) => colors.tokens(request),
  };
}

async function show(uri: Uri, selection?: Range): Promise<void> {
  try {
    await window.showTextDocument(uri, { preview: true, ...(selection && { selection }) });
  } catch (error) {
    // The editor's own words are addresses and the inner error.
    if (await isThere(uri)) throw error;
    throw new Error(`${workspace.asRelativePath(uri)} does not exist any more.`);
  }
}

async function isThere(uri: Uri): Promise<boolean> {
  return workspace.fs.stat(uri).then(
    () => true,
    (error: unknown) => !(error instanceof FileSystemError && error.code === "FileNotFound"),
  );
}
