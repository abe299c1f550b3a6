/** Where the agent works, if not on this machine: what the user chose for this window, which no file of a project can. */

import { type Memento, window } from "vscode";

const NAME = "target";
const FORM = /^((ssh|docker|podman|kubectl):\/\/[^\s-]|cmd:\S)/;

export function targetOf(memory: Memento): string | undefined {
  return memory.get<string>(NAME);
}

/** Asks for another place. Returns whether the user has chosen one. */
export async function askForTarget(memory: Memento): Promise<boolean> {
  const answer = await window.showInputBox({
    title: "Where does the agent work?",
    prompt:
      "docker://CONTAINER, podman://CONTAINER, kubectl://POD, ssh://HOST/FOLDER or cmd:COMMAND. Empty: on this machine.",
    value: targetOf(memory) ?? "",
    placeHolder: "docker://CONTAINER",
    ignoreFocusOut: true,
    validateInput: (text) =>
      text.trim() === "" || FORM.test(text.trim()) ? undefined : "This names no other machine, such as docker://web.",
  });
  if (answer === undefined) return false;
  await memory.update(NAME, answer.trim() || undefined);
  return true;
}
