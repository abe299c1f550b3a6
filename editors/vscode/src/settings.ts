/** The daemon's settings as the user has set them, and the keys that are kept in the secret storage. */

import { type SecretStorage, window, workspace } from "vscode";

const KEYS = [
  "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "MISTRAL_API_KEY",
  "DEEPSEEK_API_KEY", "XAI_API_KEY", "GROQ_API_KEY", "OH_DAEMON_API_KEY",
] as const;

/** Only what somebody set: a default sent along would outrank the environment and the user's file. */
export function daemonSettings(): Record<string, unknown> {
  const configuration = workspace.getConfiguration("ohDaemon");
  const values: Record<string, unknown> = {};
  for (const name of Object.keys(configuration)) {
    const found = configuration.inspect(name);
    const value = found?.workspaceFolderValue ?? found?.workspaceValue ?? found?.globalValue;
    if (value !== undefined) values[name] = value;
  }
  return values;
}

export async function keysForEnvironment(secrets: SecretStorage): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const name of KEYS) {
    const value = await secrets.get(name);
    if (value) found[name] = value;
  }
  return found;
}

/** Asks for a key; true when one was stored or removed. */
export async function askForKey(secrets: SecretStorage): Promise<boolean> {
  const stored = await keysForEnvironment(secrets);
  const choices = KEYS.map((name) => ({ label: name, description: describe(name, name in stored) }));
  const choice = await window.showQuickPick(choices, { title: "Which provider's key?" });
  if (!choice) return false;
  const value = await window.showInputBox({
    title: choice.label,
    prompt: "Kept in the editor's secret storage. Empty removes it.",
    password: true,
    ignoreFocusOut: true,
  });
  if (value === undefined) return false;
  await (value === "" ? secrets.delete(choice.label) : secrets.store(choice.label, value));
  return true;
}

function describe(name: string, isStored: boolean): string {
  const what = name === "OH_DAEMON_API_KEY" ? "for every model" : "";
  return [what, isStored ? "stored" : ""].filter(Boolean).join(" · ");
}
