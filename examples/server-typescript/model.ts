/** A model: an endpoint of the chat-completions format, which streams. */

import type { Tool } from "./tools.ts";
import { Failure, newId, type Json } from "./wire.ts";

export interface Answer { text: string; calls: Json[]; stopReason: string; usage: Json }
const BY_STATUS: Record<number, ConstructorParameters<typeof Failure>[0]> = { 401: "authRequired", 403: "authRequired",
  404: "modelUnavailable", 429: "rateLimit" };
const STOP_REASONS: Record<string, string> = { length: "maxTokens", content_filter: "refusal" };

export async function askModel(model: string, llm: Json | undefined, messages: Json[], tools: Tool[], signal: AbortSignal,
  onText: (text: string) => void): Promise<Answer> {
  const { OH_DAEMON_BASE_URL, OH_DAEMON_API_KEY, OPENAI_API_KEY } = process.env;
  const [url, key] = [llm?.baseUrl ?? OH_DAEMON_BASE_URL ?? "https://api.openai.com/v1", OH_DAEMON_API_KEY ?? OPENAI_API_KEY];
  const functions = tools.length ? tools.map(functionOf) : undefined;
  const body = { model: model.replace(/^(openai|hosted_vllm)\//, ""), messages, tools: functions, stream: true,
    stream_options: { include_usage: true } };
  const headers = { "content-type": "application/json", ...(key && { authorization: `Bearer ${key}` }) };
  const unreachable = () => new Failure("network", `The model at ${url} could not be reached, or broke off.`);
  const response = await fetch(`${url}/chat/completions`, { method: "POST", headers, body: JSON.stringify(body), signal })
    .catch(() => { throw unreachable(); });
  if (!response.ok) throw new Failure(BY_STATUS[response.status] ?? "providerError", `${url} answered HTTP ${response.status}.`);
  const answer: Answer = { text: "", calls: [], stopReason: "", usage: { requests: 1 } };
  try {
    for await (const chunk of chunksOf(response, signal)) {
      if (chunk.usage) Object.assign(answer.usage, { inputTokens: chunk.usage.prompt_tokens, outputTokens: chunk.usage.completion_tokens });
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
