/** The daemon's settings as the user has set them, and the API keys in the secret storage. */

import { env, type SecretStorage, ThemeIcon, Uri, window, workspace } from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";

export interface Key {
  /** Whose models it is for. */
  name: string;
  variable: string;
  /** How the names of these models begin. */
  provider?: string;
  /** Where it is made. */
  page?: string;
}

export const KEYS: readonly Key[] = [
  of("Anthropic", "anthropic", "https://console.anthropic.com/settings/keys"),
  of("OpenAI", "openai", "https://platform.openai.com/api-keys"),
  of("Google Gemini", "gemini", "https://aistudio.google.com/apikey"),
  of("OpenRouter", "openrouter", "https://openrouter.ai/settings/keys"),
  of("Mistral", "mistral", "https://console.mistral.ai/api-keys"),
  of("DeepSeek", "deepseek", "https://platform.deepseek.com/api_keys"),
  of("xAI", "xai", "https://console.x.ai"),
  of("Groq", "groq", "https://console.groq.com/keys"),
  { name: "Servers of your own", variable: "HOSTED_VLLM_API_KEY" },
  { name: "Every model", variable: "OH_DAEMON_API_KEY" },
];
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

/** The encoding that VS Code reads a file in, as in "windows1251". */
export function encodingSetting(uri: string | undefined): string | undefined {
  return workspace.getConfiguration("files", uri ? Uri.parse(uri) : undefined).get<string>("encoding");
}

function of(name: string, provider: string, page: string): Key {
  return { name, variable: `${provider.toUpperCase()}_API_KEY`, provider, page };
}

export function isKey(name: string): boolean {
  return KEYS.some(({ variable }) => variable === name);
}

/** Exposes the stored keys to the daemon, in requests, which appear in no process list and no log. */
export async function exposeKeys(client: LanguageClient, secrets: SecretStorage): Promise<void> {
  for (const { variable } of KEYS) if (await secrets.get(variable)) await exposeKey(client, secrets, variable);
}

/** Exposes one key, or takes it back when it is no longer stored. */
export async function exposeKey(client: LanguageClient, secrets: SecretStorage, name: string): Promise<void> {
  const value = await secrets.get(name);
  const sent = value
    ? client.sendRequest("secret/set", { name, value })
    : client.sendRequest("secret/remove", { name });
  await sent.catch((error: unknown) =>
    window.showErrorMessage(`oh: the daemon does not take the key ${name}: ${String(error)}`),
  );
}

/** Asks for a value with hidden input; `problemOf` says what is wrong with a value that is not empty.
 * Where one is made is a button. A value that fails its `trial` is taken when Enter is pressed once more. */
export function askForHidden(
  title: string,
  problemOf: (text: string) => string | undefined,
  { page, trial }: { page?: string; trial?: (text: string) => Promise<string | undefined> } = {},
): Promise<string | undefined> {
  const box = window.createInputBox();
  const made = page === undefined ? "" : `Made at ${page.replace("https://", "")}. `;
  Object.assign(box, {
    title,
    prompt: `${made}Kept in the editor's secret storage. Empty removes it.`,
    password: true,
    ignoreFocusOut: true,
    buttons: page === undefined ? [] : [{ iconPath: new ThemeIcon("link-external"), tooltip: `Open ${page}` }],
  });
  let failed = "";
  const problem = async (text: string): Promise<string | undefined> => {
    if (text === "" || text === failed) return undefined;
    const wrong = problemOf(text);
    if (wrong !== undefined || !trial) return wrong;
    Object.assign(box, { busy: true, enabled: false, validationMessage: undefined });
    const why = await trial(text);
    Object.assign(box, { busy: false, enabled: true });
    if (why !== undefined) failed = text;
    return why && `${why} (Enter keeps it anyway)`;
  };
  return new Promise((resolve) => {
    box.onDidChangeValue((text) => {
      box.validationMessage = text === "" ? undefined : problemOf(text);
    });
    box.onDidAccept(async () => {
      box.validationMessage = await problem(box.value);
      if (box.validationMessage !== undefined) return;
      resolve(box.value);
      box.hide();
    });
    box.onDidTriggerButton(() => void env.openExternal(Uri.parse(page ?? "")));
    box.onDidHide(() => {
      resolve(undefined);
      box.dispose();
    });
    box.show();
  });
}
