/** Several attempts at one task, each in an isolated conversation: with which models, in which ways, and how they are checked. */

import { type Memento, window } from "vscode";
import type { Agent } from "./agent";
import type { Way } from "./messages";
import type { Panel } from "./panel";

const TITLE = "Try It Several Ways";
const LAST_CHECK = "oh.lastCheck";
/** How often the same model tries, if nothing else tells the attempts apart. */
const N_SAME = 3;
const MAX_ATTEMPTS = 8;
const MAX_TITLE = 200;

/** Asks what differs, and starts the attempts; returns the first one's id, or undefined if the user thinks better of it. */
export async function startAttempts(
  agent: Agent,
  panel: Panel,
  memory: Memento,
  given?: string,
): Promise<string | undefined> {
  const task = given || (await ask("What shall be done?", "The task, the same for all attempts"));
  if (!task?.trim()) return undefined;
  const models = await chooseModels(agent, panel.options.model);
  if (!models?.length) return undefined;
  const ways = await ask(
    "What differs? One instruction for each attempt, with | between them, or none",
    "the smallest change | a new module",
  );
  if (ways === undefined) return undefined;
  const last = memory.get(LAST_CHECK, "");
  const check = await ask("Which command says whether an attempt is good? It may be empty", "make test", last);
  if (check === undefined) return undefined;
  await memory.update(LAST_CHECK, check);
  const group = crypto.randomUUID();
  let first: string | undefined;
  for (const { model, how, name } of variantsOf(models, ways)) {
    const way: Way = { group, name, check: check.trim() };
    const { mode } = panel.options;
    const { conversation } = await agent.request("conversation/start", {
      title: `${name}: ${task}`.slice(0, MAX_TITLE),
      content: [{ type: "text", text: task }],
      instructions: instructionsOf(how, way.check),
      options: { ...panel.options, model, ...(mode === "plan" && { mode: "ask" }) },
      isolated: true,
      metadata: { way },
    });
    first ??= conversation.id;
  }
  return first;
}

/** Every model in every way; where both are the same for all, the same several times. */
export function variantsOf(
  models: readonly string[],
  ways: string,
): readonly { model: string; how: string; name: string }[] {
  const hows = ways.split("|").flatMap((each) => each.trim() || []);
  const variants = models.flatMap((model) =>
    (hows.length > 0 ? hows : [""]).map((how) => {
      const names = [models.length > 1 || !how ? model.split("/").at(-1) : "", how];
      return { model, how, name: names.filter(Boolean).join(" · ") };
    }),
  );
  const [only] = variants;
  if (!only || variants.length > 1) return variants.slice(0, MAX_ATTEMPTS);
  return Array.from({ length: N_SAME }, (_, n) => ({ ...only, name: `${only.name} ${n + 1}` }));
}

function instructionsOf(how: string, check: string): string {
  const checked = `When you are done, run this command by itself, exactly as it stands, and mend what it shows:\n\n${check}`;
  return [how && `Do it this way: ${how}`, check && checked].filter(Boolean).join("\n\n");
}

async function ask(prompt: string, placeHolder: string, value = ""): Promise<string | undefined> {
  return window.showInputBox({ title: TITLE, prompt, placeHolder, value, ignoreFocusOut: true });
}

async function chooseModels(agent: Agent, current: string | undefined): Promise<readonly string[] | undefined> {
  const { models, default: usual } = await agent.request("model/list", {});
  const wanted = current ?? usual;
  const names = new Set([...(wanted ? [wanted] : []), ...models.filter((each) => each.available).map(({ id }) => id)]);
  const rows = [...names].map((label) => ({ label, picked: label === wanted }));
  const placeHolder = "Which models? One is enough";
  const chosen = await window.showQuickPick(rows, {
    title: TITLE,
    placeHolder,
    canPickMany: true,
    ignoreFocusOut: true,
  });
  return chosen?.map(({ label }) => label);
}
