"""How the tests of the model layer reach the fake: settings for it, and one blocking call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fake_llm import FakeLLM, Json, Step, raw

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.models.remote_model import RemoteModel
from oh_daemon.kernel.ports import Model, ModelAnswer, ModelDelta, ModelRequest, Progress, Retry
from oh_daemon.protocol.llm import LLMSettings

KEY = "sk-test-0123456789abcdefghijklmn"
HELLO: list[Json] = [{"role": "user", "content": "Hello."}]
TOOL: Json = {
    "type": "function",
    "function": {"name": "terminal", "parameters": {"type": "object", "properties": {}}},
}


def settings_for(fake: FakeLLM, **changes: Any) -> LLMSettings:
    fields = {"model": "openai/fake", "api_key": KEY, "base_url": fake.url, **changes}
    if fields["model"].startswith("anthropic/") and fields["base_url"]:
        fields["base_url"] = fields["base_url"].removesuffix("/v1")
    return LLMSettings.model_validate(fields)


def ask(
    fake: FakeLLM,
    request: ModelRequest | None = None,
    on_delta: Callable[[ModelDelta], None] = lambda _: None,
    cancel: CancelToken | None = None,
    **changes: Any,
) -> ModelAnswer:
    """Ask the model once, without retries."""
    model = RemoteModel(settings_for(fake, max_attempts=1, **changes))
    return complete(model, request, on_delta=on_delta, cancel=cancel)


def retrying(fake: FakeLLM, max_attempts: int = 4, **changes: Any) -> RemoteModel:
    """Return a model that hardly waits between its attempts."""
    return RemoteModel(
        settings_for(fake, max_attempts=max_attempts, **changes), first_delay_s=0.001
    )


def complete(
    model: Model,
    request: ModelRequest | None = None,
    on_delta: Callable[[ModelDelta], None] = lambda _: None,
    on_retry: Callable[[Retry], None] = lambda _: None,
    cancel: CancelToken | None = None,
) -> ModelAnswer:
    progress = Progress(cancel or CancelToken(), on_delta, on_retry)
    return model.complete(request or ModelRequest(messages=HELLO, tools=[TOOL]), progress)


def anthropic(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()


def anthropic_block(index: int, start: Json, *deltas: Json) -> bytes:
    events = [anthropic("content_block_start", index=index, content_block=start)]
    events += [anthropic("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*events, anthropic("content_block_stop", index=index)])


def claude(*blocks: bytes, stop: str) -> Step:
    """Return an answer of Anthropic's API."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    message |= {"model": "claude", "usage": usage}
    end = anthropic("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 20})
    start = anthropic("message_start", message=message)
    return raw(b"".join([start, *blocks, end, anthropic("message_stop")]))


def thinking_chunk(text: str) -> bytes:
    return anthropic_block(
        0,
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": text},
        {"type": "signature_delta", "signature": f"SIG({text})"},
    )


def tool_use(call_id: str, name: str, **args: Any) -> bytes:
    piece = {"type": "input_json_delta", "partial_json": json.dumps(args)}
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return anthropic_block(1, start, piece)


def thinking_sent(body: Json) -> list[Json]:
    contents = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
    return [p for c in contents if isinstance(c, list) for p in c if p["type"] == "thinking"]
