/**
 * What a client can ask for: each method with the rules of its params, and what it does. Rules C, K and R6.
 *
 * What a function returns is the answer: at once, or later if it is a promise. Its events are on the disk by then [O2].
 */

import { CHOICES, checkOption, type Agent } from "./agent.ts";
import { digestOf, type Conversation } from "./conversation.ts";
import type { Server } from "./server.ts";
import { pathOf } from "./tools.ts";
import { Failure, LIMITS, MIB, newId, type Json, type Later, type Rules } from "./wire.ts";

type Serve = (server: Server, params: Json, later: Later) => unknown;
type Act = (agent: Agent, params: Json) => Json;

const ID = "text 1 128";
const TEXT = "text?";
const KEY = { clientRequestId: "text? 1 200" };
const OF_ONE = { conversationId: ID };
const CONTENT = `list 1 ${LIMITS.partsPerMessage}`;
const MESSAGE = { content: CONTENT, clientMessageId: "text? 1 200" };
const TOOLS = { clientTools: "list? 0 128" };
const PAGE = { limit: "integer? 1 500" };
const DELIVERY = { delivery: "auto|queue|steer|interrupt?", run: "flag?", wait: "accepted|completed?",
  expectedTurnId: TEXT, overrides: "object?" };
const CREATION = { folders: "list?", title: "text? 1 200", options: "object?", metadata: "object?",
  instructions: "text? 0 65536", maxSteps: "integer? 1 10000" };
const FILTER = { folder: TEXT, query: "text? 0 200", archived: "flag?", parentId: TEXT, cursor: TEXT };
const RANGE = { afterSeq: "integer? 0", beforeSeq: "integer? 1", types: "list?" };
const ANSWER = { approvalId: "text", digest: "text", optionId: TEXT, decision: "object?", feedback: "text? 0 8000",
  editedSubject: "object?" };

export const METHODS: Record<string, [Rules, Serve]> = {
  "conversation/start": [{ ...MESSAGE, ...CREATION, ...TOOLS, ...KEY, content: CONTENT.replace(" ", "? ") }, start],
  "conversation/open": [{ ...OF_ONE, ...TOOLS, ...PAGE, afterSeq: "integer? 0", replay: "none|items|events?" }, open],
  "conversation/close": [{ ...OF_ONE, ifRunning: "error|interrupt|pause?" }, close],
  "conversation/list": [{ ...FILTER, limit: `integer? 1 ${LIMITS.conversationsPerPage}` }, list],
  "conversation/read": [{ ...OF_ONE, ...PAGE, before: TEXT }, read],
  "conversation/events": [{ ...OF_ONE, ...PAGE, ...RANGE }, events],
  "conversation/sendMessage": [{ ...OF_ONE, ...KEY, ...MESSAGE, ...DELIVERY }, sendMessage],
  "conversation/pause": [{ ...OF_ONE, ...KEY, when: "step|now?" },
    once("conversation/pause", (agent, { when }) => agent.pause(when))],
  "conversation/resume": [{ ...OF_ONE, ...KEY, message: CONTENT.replace(" ", "? ") },
    once("conversation/resume", (agent, { message }) => agent.resume(message))],
  "conversation/interrupt": [{ ...OF_ONE, turnId: TEXT, clearQueue: "flag?" }, interrupt],
  "conversation/setOption": [{ ...OF_ONE, ...KEY, optionId: "text", value: "text" },
    once("conversation/setOption", setOption)],
  "conversation/subscribe": [OF_ONE, subscribe],
  "conversation/unsubscribe": [OF_ONE, unsubscribe],
  "approval/list": [{ conversationId: "text? 1 128" }, listApprovals],
  "approval/respond": [ANSWER, respond],
  "input/respond": [{ inputId: "text", action: "accept|decline|cancel" }, () => {
    throw new Failure("approvalNotFound", "The agents of this server ask no questions."); // [I4]
  }],
};

/** Do it once, however often it is asked for [K1, K2]: the log has the result. */
function repeatable(agent: Agent, method: string, params: Json, clientRequestId: string | undefined, act: Act): Json {
  const [earlier, bodyHash] = [agent.log.causes.get(`${method} ${clientRequestId}`), digestOf(params)];
  if (earlier && earlier.bodyHash !== bodyHash)
    throw new Failure("idempotencyConflict", "The same id came with other params before.");
  if (earlier) return { ...earlier.result, duplicate: true };
  const result = act(agent, params);
  agent.log.commit(clientRequestId ? { method, clientRequestId, bodyHash, result } : undefined);
  return result;
}

function once(method: string, act: Act): Serve {
  return (server, params) =>
    repeatable(server.agent(params.conversationId), method, params, params.clientRequestId, act);
}

// The life of a conversation

function start(server: Server, params: Json): Json {
  const { clientRequestId: key, content, clientMessageId, clientTools } = params;
  for (const name of ["ephemeral", "isolated", "resultSchema", "tools"])
    if (params[name]) throw new Failure("requestFailed", `This server has no conversations with ${name}.`);
  const id = key ? digestOf(["conversation/start", key]).slice(0, 32) : newId(); // [K3]
  const earlier = server.find(id);
  const agent = earlier?.lastSeq ? server.open(earlier, clientTools) : server.create(id, params);
  const begin = () => (content ? agent.send({ content, clientMessageId }) : {});
  const { messageId, turnId, duplicate } = repeatable(agent, "conversation/start", params, key, begin);
  return { conversation: agent.log.info(), options: optionsOf(agent.log), messageId, turnId, duplicate };
}

function open(server: Server, { conversationId, replay = "items", afterSeq, limit = 200, clientTools }: Json): Json {
  const { log } = server.open(server.read(conversationId), clientTools);
  const all = [...(replay === "items" ? log.items.values() : log.records)];
  const isForward = replay === "events" && afterSeq !== undefined;
  const page = isForward ? all.filter(({ seq }) => seq > afterSeq).slice(0, limit) : all.slice(-limit);
  const isCut = isForward ? (page.at(-1)?.seq ?? log.lastSeq) < log.lastSeq : page.length < all.length;
  return { conversation: log.info(), options: optionsOf(log), pending: [...log.pending.values()], queue: log.queue,
    repaired: log.repaired, lastSeq: log.lastSeq, firstSeq: (replay === "events" && page[0]?.seq) || 1,
    hasMore: replay !== "none" && isCut, ...(replay !== "none" && { [replay]: page }) };
}

/** A promise is answered after the events [O3]: here and in `interrupt`, the result reports an end. */
async function close(server: Server, { conversationId, ifRunning = "error" }: Json): Promise<Json> {
  const agent = server.agent(conversationId);
  const isRunning = agent.log.turn && agent.log.status !== "paused";
  if (isRunning && ifRunning === "error") throw new Failure("conversationBusy", "A turn is running."); // [C6]
  if (ifRunning === "interrupt") agent.interrupt();
  server.close(agent);
  return {};
}

// What it says

function list(server: Server, { folder, query = "", archived, parentId, cursor, limit = 50 }: Json): Json {
  const isIn = ({ about }: Conversation) => about.folders.some((each: string) => pathOf(each) === pathOf(folder));
  const isNamed = ({ about }: Conversation) => about.title.toLowerCase().includes(query.toLowerCase());
  const logs = archived || parentId ? [] : server.list().filter((log) => (!folder || isIn(log)) && isNamed(log));
  const from = logs.findIndex(({ id }) => id === cursor) + 1;
  if (cursor && !from) throw new Failure("cursorInvalid", "The list has changed; ask for it anew.");
  const page = logs.slice(from, from + limit).map((log) => log.info());
  return { conversations: page, nextCursor: logs.length > from + limit ? page.at(-1)!.id : undefined }; // [C17]
}

function read(server: Server, { conversationId, before, limit = 200 }: Json): Json {
  const log = server.read(conversationId);
  const items = [...log.items.values()];
  const end = before === undefined ? items.length : items.findIndex((item) => item.id === before);
  if (end < 0) throw new Failure("cursorInvalid", "The conversation has no such item.");
  const page = items.slice(Math.max(0, end - limit), end);
  return { conversation: log.info(), items: page, nextBefore: end > limit ? page[0]!.id : undefined };
}

/** Every record of the types between `firstSeq` and `lastSeq` [R6], from one end on, and at most 1 MiB. */
function events(server: Server, { conversationId, afterSeq, beforeSeq, types, limit = 500 }: Json): Json {
  const log = server.read(conversationId);
  const [isForward, last] = [afterSeq !== undefined, Math.min((beforeSeq ?? Infinity) - 1, log.lastSeq)];
  const isInside = ({ seq }: Json) => (isForward ? seq > afterSeq : seq <= last);
  const wanted = log.records.filter((record) => isInside(record) && (!types || types.includes(record.event.type)));
  const nearest = isForward ? wanted.slice(0, limit) : wanted.slice(-limit).reverse();
  let size = 0;
  const page = nearest.filter((record, index) => (size += JSON.stringify(record).length) < MIB || !index);
  const truncated = page.length < wanted.length;
  const edge = page.at(-1)?.seq;
  const [firstSeq, lastSeq] = isForward ? [afterSeq + 1, truncated ? edge : log.lastSeq] : [truncated ? edge : 1, last];
  return { events: isForward ? page : page.reverse(), firstSeq, lastSeq, epoch: log.epoch, truncated };
}

// Messages and turns

function sendMessage(server: Server, params: Json, later: Later): unknown {
  const agent = server.agent(params.conversationId);
  const key = params.clientRequestId ?? params.clientMessageId; // [K4]
  for (const [name, value] of Object.entries(params.overrides?.options ?? {}))
    checkOption(name, value, `overrides.options.${name}`);
  const result = repeatable(agent, "conversation/sendMessage", params, key, () => agent.send(params));
  if (params.wait !== "completed" || result.duplicate) return result; // [K5]
  later.cancel = () => agent.cancel(result.messageId);
  return agent.outcome(result.messageId).then((turn) => ({ ...result, turn, finalText: turn.finalText }));
}

async function interrupt(server: Server, { conversationId, turnId, clearQueue }: Json): Promise<Json> {
  const agent = server.agent(conversationId);
  const result = agent.interrupt(turnId, clearQueue);
  agent.log.commit();
  return result;
}

function setOption({ log }: Agent, { optionId, value }: Json): Json {
  checkOption(optionId, value, optionId in log.about.options ? "value" : "optionId");
  log.record({ type: "options.changed", values: { [optionId]: value } });
  return { options: optionsOf(log) };
}

function optionsOf({ about }: Conversation): Json[] {
  return Object.entries<string>(about.options).map(([id, value]) => {
    const choices = (CHOICES[id] ?? [value]).map((each) => ({ value: each, label: each }));
    return { id, name: id, category: id, type: "select", value, choices };
  });
}

// Who hears of it, and who decides

function subscribe(server: Server, { conversationId }: Json): Json {
  const agent = server.agent(conversationId);
  agent.subscribe();
  return { lastSeq: agent.log.lastSeq };
}

function unsubscribe(server: Server, { conversationId }: Json): Json {
  server.agent(conversationId).unsubscribe();
  return {};
}

function listApprovals(server: Server, { conversationId }: Json): Json {
  const agents = conversationId ? [server.agent(conversationId)] : server.agents;
  return { pending: agents.flatMap(({ log }) => [...log.pending.values()]) };
}

function respond(server: Server, params: Json): Json {
  const id = params.approvalId;
  const agent = server.agents.find(({ log }) => log.pending.has(id) || log.decisions.has(id));
  if (!agent) throw new Failure("approvalNotFound", "No approval with this id is here."); // [A7]
  const result = agent.respond(params);
  agent.log.commit();
  return result;
}
