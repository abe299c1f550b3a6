/** The user's progress, as context keys for `when` clauses and the steps of the walkthrough. */

import { commands, type Disposable } from "vscode";
import type { Agent } from "./agent";

export function trackProgress(agent: Agent): Disposable[] {
  return [
    agent.onState(async ({ kind }) => {
      set("oh.daemonRunning", kind === "running");
      if (kind !== "running") return;
      const { default: model } = await agent.request("model/list", {});
      set("oh.hasModel", model !== undefined);
    }),
    agent.onNotification(({ method, params }) => {
      if (method !== "conversation/event") return;
      if (params.event.type === "turn.started") set("oh.taskGiven", true);
      if (params.event.type === "approval.resolved") set("oh.approvalAnswered", true);
    }),
  ];
}

function set(name: string, value: boolean): void {
  void commands.executeCommand("setContext", name, value);
}
