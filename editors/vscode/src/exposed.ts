/** Secrets for the agent's commands: kept in the editor's secret storage, exposed to the daemon while it runs. */

import { type SecretStorage, window } from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import type { SecretNames } from "oh-daemon-client/protocol";
import { askForHidden, MIN_KEY_CHARS } from "./settings";

/** One entry holds all of the secrets, since the storage cannot list its keys. */
export const FOR_COMMANDS = "ohDaemon.commandSecrets";
const SHOWN_MS = 10_000;
const NEW = "$(add) A new one…";

/** Exposes the stored secrets to the daemon, and takes back those that are no longer stored.
 * Returns the names of those that are exposed now, or undefined if the daemon refuses. */
export async function exposeSecrets(client: LanguageClient, secrets: SecretStorage): Promise<string[] | undefined> {
  try {
    const stored = await load(secrets);
    const exposed = await client.sendRequest<SecretNames>("secret/list", {});
    for (const name of exposed.forCommands) if (!(name in stored)) await client.sendRequest("secret/remove", { name });
    for (const [name, value] of Object.entries(stored))
      await client.sendRequest("secret/set", { name, value, forCommands: true });
    return Object.keys(stored);
  } catch (error) {
    void window.showErrorMessage(`oh: the daemon does not take the secrets for commands: ${String(error)}`);
    return undefined;
  }
}

/** Exposes what is stored now, after a change, and says what is exposed. */
export async function exposeChanged(client: LanguageClient, secrets: SecretStorage): Promise<void> {
  const names = await exposeSecrets(client, secrets);
  if (!names) return;
  const said = names.length === 0 ? "no secret is exposed" : `exposed to commands that name it: ${names.join(", ")}`;
  window.setStatusBarMessage(`oh: ${said}`, SHOWN_MS);
}

/** Asks which secret to set or remove, and for its value. */
export async function askForSecret(secrets: SecretStorage): Promise<void> {
  const stored = await load(secrets);
  const known = Object.keys(stored);
  const title = "Which secret may commands get, when they name it and you allow it?";
  const chosen = known.length ? await window.showQuickPick([...known, NEW], { title }) : NEW;
  const name = chosen === NEW ? await askForName() : chosen;
  if (!name) return;
  const tooShort = `At least ${MIN_KEY_CHARS} characters, so that it can be hidden.`;
  const value = await askForHidden(name, (text) => (text.length < MIN_KEY_CHARS ? tooShort : undefined));
  if (value === undefined) return;
  const { [name]: _former, ...others } = stored;
  await secrets.store(FOR_COMMANDS, JSON.stringify(value === "" ? others : { ...others, [name]: value }));
}

function askForName(): Thenable<string | undefined> {
  return window.showInputBox({
    title: "A secret for commands",
    prompt: "The variable that holds it, such as GITHUB_TOKEN.",
    ignoreFocusOut: true,
    validateInput: (text) => (/^[A-Z][A-Z0-9_]{0,99}$/.test(text) ? undefined : "Capital letters, digits and _ only."),
  });
}

async function load(secrets: SecretStorage): Promise<Record<string, string>> {
  const parsed: unknown = JSON.parse((await secrets.get(FOR_COMMANDS)) ?? "{}");
  const entries = typeof parsed === "object" && parsed !== null ? Object.entries(parsed) : [];
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}
