/** A model: an endpoint of the chat-completions format, which streams. */

import type { Tool } from "./tools.ts";
import { Failure, newId, type Json } from "./wire.ts";

export interface Answer { text: string; calls: Json[]; stopReason: string; usage: Json }
const BY_STATUS: Record<number, ConstructorParameters<typeof Failure>[0]> = { 401: "authRequired", 403: "authRequired",
  404: "modelUnavailable", 429: "rateLimit" };
const STOP_REASONS: Record<string, string> = { length: "maxTokens", content_filter: "refusal" };

/** Where a model is, by the client's settings `llm` or the environment; `model` without the provider's name. */
interface Endpoint { url: string; key: string | undefined; model: string }

export function endpointOf(model: string, llm: Json | undefined): Endpoint {
  const { OH_DAEMON_BASE_URL: url = "https://api.openai.com/v1", OH_DAEMON_API_KEY, OPENAI_API_KEY } = process.env;
  const name = model.replace(/^(openai|hosted_vllm)\//, "");
  return { url: llm?.baseUrl ?? url, key: OH_DAEMON_API_KEY ?? OPENAI_API_KEY, model: name };
}

/** Return the whole answer, and say each piece of its text as it comes. Throws a `Failure`, or when it is aborted. */
export async function askModel({ url, key, model }: Endpoint, messages: Json[], tools: Tool[],
  onText: (text: string) => void, signal: AbortSignal): Promise<Answer> {
  const functions = tools.length ? tools.map(functionOf) : undefined;
  const stream = { stream: true, stream_options: { include_usage: true } };
  const body = JSON.stringify({ model, messages, tools: functions, ...stream });
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const unreachable = () => new Failure("network", `The model at ${url} could not be reached, or broke off.`);
  const request = { method: "POST", headers, body, signal };
  const response = await fetch(`${url}/chat/completions`, request).catch(() => { throw unreachable(); });
  const { ok, status } = response;
  if (!ok) throw new Failure(BY_STATUS[status] ?? "providerError", `The model at ${url} answered HTTP ${status}.`);
  const answer: Answer = { text: "", calls: [], stopReason: "", usage: { requests: 1 } };
  try {
    for await (const chunk of chunksOf(response, signal)) {
      const { prompt_tokens: inputTokens = 0, completion_tokens: outputTokens = 0 } = chunk.usage ?? {};
      if (chunk.usage) answer.usage = { requests: 1, inputTokens, outputTokens };
      const { delta, finish_reason: finish } = chunk.choices?.[0] ?? {};
      if (delta?.content) onText(delta.content);
      answer.text += delta?.content ?? "";
      for (const { index, id, function: part } of delta?.tool_calls ?? []) {
        const call = (answer.calls[index] ??= { id: id ?? newId(), name: "", arguments: "" });
        call.name += part?.name ?? "";
        call.arguments += part?.arguments ?? "";
      }
      if (finish) answer.stopReason = STOP_REASONS[finish] ?? (answer.text ? "endTurn" : "noAnswer");
    }
  } catch {
    throw unreachable();
  }
  if (!answer.stopReason) throw unreachable();
  return answer;
}

/** A tool as the model is told of it. */
export function functionOf({ name, description, inputSchema }: Tool): Json {
  return { type: "function", function: { name, description, parameters: inputSchema } };
}

async function* chunksOf(response: Response, signal: AbortSignal): AsyncGenerator<Json> {
  let rest = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    signal.throwIfAborted();
    const lines = (rest + piece).split(/\r?\n/);
    rest = lines.pop()!;
    for (const line of lines) if (line.startsWith("data:") && !line.endsWith("[DONE]")) yield JSON.parse(line.slice(5));
  }
}
