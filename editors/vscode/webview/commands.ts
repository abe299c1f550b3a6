/** What `/` offers: the daemon's prompt templates, and what the panel can do for this conversation. */

import type { Suggestion } from "../src/messages";
import type { CommandInfo, Part } from "../src/protocol";
import { call } from "./host";

export interface LocalCommand { name: string; description: string; isPossible: () => boolean; run: () => void }

export class SlashCommands {
  private templates: readonly CommandInfo[] | undefined;

  constructor(private readonly local: readonly LocalCommand[]) {}

  async find(query: string): Promise<Suggestion[]> {
    this.templates ??= (await call("command/list", {})).commands;
    const local = this.local.filter((each) => each.isPossible());
    return [...this.templates, ...local]
      .filter(({ name }) => name.startsWith(query.toLowerCase()))
      .map(({ name, description }) => ({ kind: "command", label: `/${name}`, detail: description }));
  }

  /** True when it was one of the panel's own, which has been carried out. */
  run(label: string): boolean {
    const command = this.local.find(({ name, isPossible }) => `/${name}` === label && isPossible());
    command?.run();
    return command !== undefined;
  }

  /** `/fix the test` as the daemon takes it; what starts with an unknown name is text. */
  async part(text: string): Promise<Part> {
    const [, name, args = ""] = /^\/([\w-]+)(?:\s+([\s\S]*))?$/.exec(text) ?? [];
    if (name === undefined) return { type: "text", text };
    await this.find("");
    if (!this.templates?.some((each) => each.name === name)) return { type: "text", text };
    return { type: "command", name, ...(args !== "" && { args }) };
  }
}
