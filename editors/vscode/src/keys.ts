/** Giving the agent a model: a provider's key, which is tried before it is kept, or a server of one's own. */

import {
  ConfigurationTarget,
  ProgressLocation,
  QuickPickItemKind,
  type SecretStorage,
  window,
  workspace,
} from "vscode";
import type { Agent } from "./agent";
import { SERVERS } from "./localservers";
import { askForHidden, KEYS, type Key, MIN_KEY_CHARS } from "./settings";

const OTHER = "Another address…";

/** Asks whose key to set or remove, and for its value. */
export async function askForKey(agent: Agent, secrets: SecretStorage): Promise<void> {
  const stored = await Promise.all(KEYS.map(({ variable }) => secrets.get(variable)));
  const choices = KEYS.map((key, i) => ({ label: key.name, description: stored[i] ? "stored" : "", key }));
  const separator = { label: "", kind: QuickPickItemKind.Separator, key: undefined };
  const server = {
    label: "A server of your own…",
    description: SERVERS.map(({ name }) => name).join(", "),
    key: undefined,
  };
  const choice = await window.showQuickPick([...choices, separator, server], { title: "Whose models?" });
  if (choice === server) await addServer(agent);
  if (!choice?.key) return;
  const { key } = choice;
  const value = await askForHidden(`${key.name}: API key`, tooShort, {
    ...(key.page !== undefined && { page: key.page }),
    trial: (text) => problemOf(agent, key, text.trim()),
  });
  // Until it is stored, it was only exposed for the trial.
  if (value === undefined) await exposeStored(agent, secrets, key);
  else if (value.trim() === "") await secrets.delete(key.variable);
  else await secrets.store(key.variable, value.trim());
}

function tooShort(text: string): string | undefined {
  return text.trim().length < MIN_KEY_CHARS ? "A key is longer than this." : undefined;
}

/** Exposes the key to the daemon and asks a model of its provider for a word. Returns why that did not work. */
async function problemOf(agent: Agent, key: Key, value: string): Promise<string | undefined> {
  if (agent.state.kind !== "running") return undefined;
  try {
    await agent.request("secret/set", { name: key.variable, value });
    const { models } = await agent.request("model/list", {});
    const model = models.find(({ id, available }) => available && id.startsWith(`${key.provider}/`));
    if (!model) return undefined;
    await agent.request("model/check", { model: model.id });
    void window.showInformationMessage(`${key.name} answers: the key works.`);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

async function exposeStored(agent: Agent, secrets: SecretStorage, { variable: name }: Key): Promise<void> {
  if (agent.state.kind !== "running") return;
  const value = await secrets.get(name);
  await (value ? agent.request("secret/set", { name, value }) : agent.request("secret/remove", { name }));
}

/** Adds a model of a server that speaks OpenAI's API to the settings; asks which server unless its address is given.
 * Returns the model's name there. */
export async function addServer(agent: Agent, given?: string): Promise<string | undefined> {
  const address = given ?? (await askForAddress());
  if (!address) return undefined;
  const { baseUrl, models } = await agent.request("model/discover", { baseUrl: address });
  const host = new URL(baseUrl).host;
  const [first, ...others] = models;
  const chosen = others.length > 0 ? await window.showQuickPick(models, { title: `Which model of ${host}?` }) : first;
  if (chosen === undefined) return undefined;
  const model = `hosted_vllm/${chosen}`;
  if (!(await answers(agent, model, baseUrl))) return undefined;
  const name = `${chosen} (${host})`;
  const configuration = workspace.getConfiguration("ohDaemon");
  const profiles = { ...configuration.get<object>("profiles"), [name]: { model, llm: { baseUrl } } };
  await configuration.update("profiles", profiles, ConfigurationTarget.Global);
  await agent.sendSettings();
  return name;
}

async function askForAddress(): Promise<string | undefined> {
  const known = SERVERS.map(({ name, address }) => ({ label: name, description: address }));
  const choice = await window.showQuickPick([...known, { label: OTHER, description: "" }], { title: "Which server?" });
  if (choice?.label !== OTHER) return choice?.description;
  return window.showInputBox({
    title: "The server's address",
    placeHolder: "http://localhost:11434",
    prompt: "It speaks OpenAI's API.",
    ignoreFocusOut: true,
    validateInput: (text) => (/^https?:\/\/[^\s/]+/.test(text) ? undefined : "It begins with http:// or https://."),
  });
}

/** Whether the model answers, or is wanted all the same: a large one is slow at first. */
async function answers(agent: Agent, model: string, baseUrl: string): Promise<boolean> {
  try {
    await window.withProgress({ location: ProgressLocation.Notification, title: "Asking it for a word" }, () =>
      agent.request("model/check", { model, baseUrl }),
    );
    return true;
  } catch (error) {
    return (await window.showWarningMessage(`It does not answer: ${messageOf(error)}`, "Add It Anyway")) !== undefined;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
