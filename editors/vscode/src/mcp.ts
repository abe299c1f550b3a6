/** The MCP servers of the settings in a quick pick: the state of each, its reason, and possible actions. */

import {
  commands,
  type Disposable,
  env,
  type QuickInputButton,
  type QuickPick,
  type QuickPickItem,
  ThemeIcon,
  Uri,
  window,
} from "vscode";
import type { Agent } from "./agent";
import type { McpServerInfo, McpServers } from "oh-daemon-client/protocol";
import { formatCount } from "./words";

const SETTING = "ohDaemon.mcpServers";
const ICONS = {
  running: "check",
  starting: "loading~spin",
  failed: "error",
  authRequired: "key",
  disabled: "circle-slash",
};
const RESTART = { iconPath: new ThemeIcon("debug-restart"), tooltip: "Restart" };
const SIGN_IN = { iconPath: new ThemeIcon("sign-in"), tooltip: "Sign in with the browser" };
const ENABLE = { iconPath: new ThemeIcon("play"), tooltip: "Enable" };
const DISABLE = { iconPath: new ThemeIcon("circle-slash"), tooltip: "Disable until the daemon ends" };
const SETTINGS = { iconPath: new ThemeIcon("gear"), tooltip: "Open the setting" };

interface Row extends QuickPickItem {
  server?: string;
}

export async function showMcpServers(agent: Agent): Promise<void> {
  const list = window.createQuickPick<Row>();
  list.title = "MCP Servers";
  list.placeholder = "Servers that give the agent more tools";
  list.matchOnDetail = true;
  list.buttons = [SETTINGS];
  let nTold = 0;
  // Notifications that came while the answer was on its way may be newer than the answer.
  const settle = async (work: Promise<McpServers>): Promise<void> => {
    const before = nTold;
    const { servers } = await work;
    if (before === nTold) show(list, servers);
    else await settle(agent.request("mcp/list", {}));
  };
  const act = (work: Promise<McpServers>) => settle(work).catch(complain);
  const listeners: Disposable[] = [
    agent.onNotification(({ method, params }) => {
      if (method !== "mcp/statusChanged") return;
      nTold++;
      show(list, params.servers);
    }),
    list.onDidTriggerButton(openSetting),
    list.onDidTriggerItemButton(
      ({ item, button }) => item.server !== undefined && act(pressed(agent, item.server, button)),
    ),
    list.onDidAccept(() => list.selectedItems[0] && list.selectedItems[0].server === undefined && openSetting()),
    list.onDidHide(() => {
      for (const each of [...listeners, list]) each.dispose();
    }),
  ];
  list.busy = true;
  list.show();
  await act(agent.request("mcp/list", {}));
}

function show(list: QuickPick<Row>, servers: readonly McpServerInfo[]): void {
  list.busy = servers.some(({ status }) => status === "starting");
  list.keepScrollPosition = true;
  list.items =
    servers.length > 0
      ? servers.flatMap((server) => [row(server), ...server.omitted.map(omission)])
      : [{ label: "There is none yet", detail: "Add one in the setting." }];
}

function row({ name, status, tools, omitted, error }: McpServerInfo): Row {
  const left = omitted.length > 0 ? `, ${omitted.length} left out` : "";
  const words =
    status === "running"
      ? `${formatCount(tools.length, "tool")}${left}`
      : status === "authRequired"
        ? "wants you to sign in"
        : status;
  const details = error ?? tools.map((tool) => tool.replace(`${name}__`, "")).join(", ");
  const switched =
    status === "disabled" ? [ENABLE] : [...(status === "authRequired" ? [SIGN_IN] : []), RESTART, DISABLE];
  return {
    server: name,
    label: `$(${ICONS[status]}) ${name}`,
    description: words,
    ...(details && { detail: details }),
    buttons: switched,
  };
}

/** A tool that is left out, with the reason, below its server. */
function omission(reason: string): Row {
  return { label: `$(warning) ${reason}`, description: "left out" };
}

function pressed(agent: Agent, server: string, button: QuickInputButton): Promise<McpServers> {
  if (button === SIGN_IN) return signIn(agent, server);
  if (button === RESTART) return agent.request("mcp/restart", { server });
  return agent.request("mcp/setEnabled", { server, enabled: button === ENABLE });
}

async function signIn(agent: Agent, server: string): Promise<McpServers> {
  const begun = await agent.request("mcp/authenticate", { server });
  if (begun.url && !begun.opened) await env.openExternal(Uri.parse(begun.url, true));
  return begun;
}

function openSetting(): void {
  void commands.executeCommand("workbench.action.openSettings", SETTING);
}

function complain(error: unknown): void {
  void window.showErrorMessage(`oh: ${error instanceof Error ? error.message : String(error)}`);
}
