/** Says that a conversation is done, or asks, while the window does not have the focus: through the system, or by a toast. */

import { execFile } from "node:child_process";
import { type Disposable, EventEmitter, env, UIKind, window, workspace } from "vscode";
import type { Agent } from "./agent";
import { showConversation } from "./commands";
import type { Notification } from "oh-daemon-client/store";
import type { Panel } from "./panel";
import type { ConversationState } from "oh-daemon-client/protocol";
import { oneLine } from "./words";

/** A program that shows a notice; the texts are never part of its code. */
interface Notifier {
  file: string;
  args: readonly string[];
  env?: Record<string, string>;
}

const MAX_TEXT_CHARS = 200;
const WORKING: ReadonlySet<ConversationState> = new Set(["running", "waiting", "pausing"]);
const ENDS: Partial<Record<ConversationState, string>> = { idle: "is done", finished: "is done", error: "has stopped" };
const APPLESCRIPT = (sound: string) => [
  "on run argv",
  `display notification (item 2 of argv) with title (item 1 of argv)${sound}`,
  "end run",
];
/** Shows the toast under the name of PowerShell, which Windows knows. */
const POWERSHELL = `
[Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime] > $null
$xml = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent(5)
$texts = $xml.GetElementsByTagName('text')
$texts.Item(0).AppendChild($xml.CreateTextNode($env:OH_TITLE)) > $null
$texts.Item(1).AppendChild($xml.CreateTextNode($env:OH_TEXT)) > $null
$audio = $xml.CreateElement('audio')
$audio.SetAttribute('silent', $env:OH_SILENT)
$xml.DocumentElement.AppendChild($audio) > $null
$id = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\\WindowsPowerShell\\v1.0\\powershell.exe'
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($id).Show([Windows.UI.Notifications.ToastNotification]::new($xml))
`;

export class Notices implements Disposable {
  private readonly working = new Set<string>();
  private readonly ended = new EventEmitter<void>();
  readonly onEnded = this.ended.event;
  /** How many turns have ended since the user was in this window. */
  nEnded = 0;
  private readonly listeners: Disposable[];

  constructor(
    agent: Agent,
    private readonly panel: Panel,
  ) {
    this.listeners = [
      agent.onNotification((notification) => this.onNotification(notification)),
      window.onDidChangeWindowState(({ focused }) => focused && this.count(0)),
    ];
  }

  /** Shows it, unless the user is in this window; without `hasToast`, a toast is there already. */
  tell(title: string, about: string, conversationId: string, hasToast = true): void {
    const settings = workspace.getConfiguration("oh");
    const isLocal = env.uiKind === UIKind.Desktop && env.remoteName === undefined;
    const chosen = settings.get<string>("notify", "auto");
    const how = chosen === "auto" ? (isLocal ? "system" : "toast") : chosen;
    if (window.state.focused || how === "off") return;
    const text = oneLine(about, MAX_TEXT_CHARS);
    const toast = () => hasToast && void this.toast(title, text, conversationId);
    if (how === "toast") return void toast();
    const { file, args, env: texts } = notifier(process.platform, title, text, settings.get("notifySound", true));
    execFile(file, args, { env: { ...process.env, ...texts }, timeout: 10_000 }, (error) => {
      if (error) toast();
    });
  }

  dispose(): void {
    for (const each of [...this.listeners, this.ended]) each.dispose();
  }

  private async toast(title: string, text: string, conversationId: string): Promise<void> {
    const answer = await window.showInformationMessage(`${title}: ${text}`, "Show");
    if (answer) await showConversation(conversationId, this.panel);
  }

  private onNotification({ method, params }: Notification): void {
    if (method !== "conversation/changed") return;
    const { id, title, status, parentId } = params.conversation;
    const end = ENDS[status];
    if (WORKING.has(status)) this.working.add(id);
    else if (this.working.delete(id) && end && params.change !== "deleted" && parentId === undefined) {
      if (!window.state.focused) this.count(this.nEnded + 1);
      this.tell(`The agent ${end}`, title, id);
    }
  }

  private count(nEnded: number): void {
    this.nEnded = nEnded;
    this.ended.fire();
  }
}

/** Returns the platform's own program for a notice. */
export function notifier(platform: NodeJS.Platform, title: string, text: string, hasSound: boolean): Notifier {
  if (platform === "darwin") {
    const lines = APPLESCRIPT(hasSound ? ' sound name "Glass"' : "");
    return { file: "osascript", args: [...lines.flatMap((line) => ["-e", line]), title, text] };
  }
  if (platform === "win32") {
    const texts = { OH_TITLE: title, OH_TEXT: text, OH_SILENT: String(!hasSound) };
    return { file: "powershell.exe", args: ["-NoProfile", "-NonInteractive", "-Command", POWERSHELL], env: texts };
  }
  const sound = hasSound ? "string:sound-name:message-new-instant" : "boolean:suppress-sound:true";
  // Its body is markup for many desktops.
  const body = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return { file: "notify-send", args: ["--app-name=oh", `--hint=${sound}`, "--", title, body] };
}
