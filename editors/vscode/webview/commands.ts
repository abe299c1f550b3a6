/** The commands that `/` offers: the daemon's prompt templates, and the panel's own commands. */

import type { Suggestion } from "../src/messages";
import type { CommandInfo, Part } from "oh-daemon-client/protocol";
import { call } from "./host";

export interface LocalCommand {
  name: string;
  description: string;
  isPossible: () => boolean;
  /** Gets the text that the user wrote after the name. */
  run: (text: string) => void;
  needsText?: true;
}

const WRITTEN = /^\/([\w-]+)(?:\s+([\s\S]*))?$/;

export class SlashCommands {
  private templates: readonly CommandInfo[] | undefined;

  constructor(private readonly local: readonly LocalCommand[]) {}

  async find(query: string): Promise<Suggestion[]> {
    // Skills come and go with their files, so the templates are read again each time the list opens.
    if (query === "" || !this.templates) this.templates = (await call("command/list", {})).commands;
    const local = this.local.filter((each) => each.isPossible());
    return [...this.templates, ...local]
      .filter(({ name }) => name.startsWith(query.toLowerCase()))
      .map(({ name, description }) => ({ kind: "command", label: `/${name}`, detail: description }));
  }

  /** Runs a command of the panel's own. Returns false if the message is none, or lacks the text that it needs. */
  run(message: string): boolean {
    const [, label, text = ""] = WRITTEN.exec(message) ?? [];
    const command = this.local.find(
      ({ name, needsText, isPossible }) => name === label && (text !== "") === (needsText ?? false) && isPossible(),
    );
    command?.run(text);
    return command !== undefined;
  }

  /** Turns `/fix the test` into the part that the daemon expects; with an unknown name it is plain text. */
  async part(text: string): Promise<Part> {
    const [, name, args = ""] = WRITTEN.exec(text) ?? [];
    if (name === undefined) return { type: "text", text };
    await this.find("");
    if (!this.templates?.some((each) => each.name === name)) return { type: "text", text };
    return { type: "command", name, ...(args !== "" && { args }) };
  }
}
