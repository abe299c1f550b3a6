/** The daemon's settings as the user has set them, and the API keys in the secret storage. */

import { type SecretStorage, window, workspace } from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

const KEYS = [
  "ANTHROPIC_API_KEY",
  "OPENAI_API_KEY",
  "GEMINI_API_KEY",
  "OPENROUTER_API_KEY",
  "MISTRAL_API_KEY",
  "DEEPSEEK_API_KEY",
  "XAI_API_KEY",
  "GROQ_API_KEY",
  "OH_DAEMON_API_KEY",
] as const;
/** The shortest secret that the daemon accepts. */
export const MIN_KEY_CHARS = 8;

/** Only values that somebody set: a default sent along would override the environment and the user's file. */
export function daemonSettings(): Record<string, unknown> {
  const configuration = workspace.getConfiguration("ohDaemon");
  const values: Record<string, unknown> = {};
  for (const name of Object.keys(configuration)) {
    const found = configuration.inspect(name);
    const value = found?.workspaceValue ?? found?.globalValue;
    if (value !== undefined) values[name] = value;
  }
  return values;
}

export function isKey(name: string): boolean {
  return KEYS.some((key) => key === name);
}

/** Lends the stored keys to the daemon, in requests, which appear in no process list and no log. */
export async function lendKeys(client: LanguageClient, secrets: SecretStorage): Promise<void> {
  for (const name of await storedKeys(secrets)) await lendKey(client, secrets, name);
}

/** Lends one key, or takes it back when it is no longer stored. */
export async function lendKey(client: LanguageClient, secrets: SecretStorage, name: string): Promise<void> {
  const value = await secrets.get(name);
  const sent = value
    ? client.sendRequest("secret/set", { name, value })
    : client.sendRequest("secret/remove", { name });
  await sent.catch((error: unknown) =>
    window.showErrorMessage(`oh: the daemon does not take the key ${name}: ${String(error)}`),
  );
}

/** Asks which key to set or remove, and for its value. */
export async function askForKey(secrets: SecretStorage): Promise<void> {
  const stored = await storedKeys(secrets);
  const choices = KEYS.map((name) => ({ label: name, description: describe(name, stored.includes(name)) }));
  const choice = await window.showQuickPick(choices, { title: "Which provider's key?" });
  if (!choice) return;
  const value = await askForHidden(choice.label, (text) =>
    text.trim().length < MIN_KEY_CHARS ? "A key is longer than this." : undefined,
  );
  if (value === undefined) return;
  const key = value.trim();
  await (key === "" ? secrets.delete(choice.label) : secrets.store(choice.label, key));
}

/** Asks for a value with hidden input; `problemOf` says what is wrong with a value that is not empty. */
export function askForHidden(
  title: string,
  problemOf: (text: string) => string | undefined,
): Thenable<string | undefined> {
  return window.showInputBox({
    title,
    prompt: "Kept in the editor's secret storage. Empty removes it.",
    password: true,
    ignoreFocusOut: true,
    validateInput: (text) => (text === "" ? undefined : problemOf(text)),
  });
}

async function storedKeys(secrets: SecretStorage): Promise<string[]> {
  const values = await Promise.all(KEYS.map((name) => secrets.get(name)));
  return KEYS.filter((_, i) => values[i]);
}

function describe(name: string, isStored: boolean): string {
  const what = name === "OH_DAEMON_API_KEY" ? "for every model" : "";
  return [what, isStored ? "stored" : ""].filter(Boolean).join(" · ");
}
