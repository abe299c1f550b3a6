/** What `/` offers: the daemon's prompt templates, and what the panel can do for this conversation. */

import type { Suggestion } from "../src/messages";
import type { CommandInfo, Part } from "../src/protocol";
import { call } from "./host";

export interface LocalCommand {
  name: string;
  description: string;
  isPossible: () => boolean;
  /** With what the user wrote after the name. */
  run: (text: string) => void;
  needsText?: true;
}

const WRITTEN = /^\/([\w-]+)(?:\s+([\s\S]*))?$/;

export class SlashCommands {
  private templates: readonly CommandInfo[] | undefined;

  constructor(private readonly local: readonly LocalCommand[]) {}

  async find(query: string): Promise<Suggestion[]> {
    // Skills come and go with their files, so each list is a new one.
    if (query === "" || !this.templates) this.templates = (await call("command/list", {})).commands;
    const local = this.local.filter((each) => each.isPossible());
    return [...this.templates, ...local]
      .filter(({ name }) => name.startsWith(query.toLowerCase()))
      .map(({ name, description }) => ({ kind: "command", label: `/${name}`, detail: description }));
  }

  /** True when it was one of the panel's own, which has been carried out. One that lacks its text is not. */
  run(message: string): boolean {
    const [, label, text = ""] = WRITTEN.exec(message) ?? [];
    const command = this.local.find(({ name, needsText, isPossible }) => name === label && (text !== "") === (needsText ?? false) && isPossible());
    command?.run(text);
    return command !== undefined;
  }

  /** `/fix the test` as the daemon takes it; what starts with an unknown name is text. */
  async part(text: string): Promise<Part> {
    const [, name, args = ""] = WRITTEN.exec(text) ?? [];
    if (name === undefined) return { type: "text", text };
    await this.find("");
    if (!this.templates?.some((each) => each.name === name)) return { type: "text", text };
    return { type: "command", name, ...(args !== "" && { args }) };
  }
}
