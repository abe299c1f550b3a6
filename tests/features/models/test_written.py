"""Requests whose messages were written before: each message once, and the same bodies as ever."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from core_world import PROMPT, at_work, tool
from fake_llm import Step, call, say
from model_calls import complete, retrying

from oh_daemon.common.masking import Masker
from oh_daemon.features.models import dialect as dialects
from oh_daemon.features.models import model_messages as prepared
from oh_daemon.features.models.anthropic import ANTHROPIC
from oh_daemon.features.models.capabilities import find_capabilities
from oh_daemon.features.models.chat import CHAT
from oh_daemon.features.models.dialect import Dialect, EncodedMessages, ProviderCall, encoded_body
from oh_daemon.features.models.providers import find_provider
from oh_daemon.features.models.responses import RESPONSES
from oh_daemon.kernel import context
from oh_daemon.kernel.ports import Json, ModelRequest
from oh_daemon.protocol.llm import LLMSettings

N_STEPS = 60
MARK = re.compile(r"(?:ask|got)\d+;")
WATCHED: dict[Any, str] = {
    context.render_batch: "rendered",
    context.size_of: "counted",
    prepared.prepare_messages: "prepared",
    dialects.encode_body: "encoded",
    Masker.mask: "masked",
}
MASKED = {
    # Before its title is cut from it, and with the records of the start and the end of the action.
    "ask": 3,
    "got": 1,
}


@contextmanager
def count_calls() -> Generator[dict[str, Counter[str]]]:
    """Count how often each mark is in what threads that start here give to what is watched."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    names = {function.__code__: name for function, name in WATCHED.items()}

    def trace(frame: Any, event: str, _arg: object) -> None:
        name = names.get(frame.f_code) if event == "call" else None
        if name is not None:
            actual_names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            counts[name].update(
                set(MARK.findall(repr([frame.f_locals[each] for each in actual_names])))
            )

    threading.setprofile(trace)
    try:
        yield counts
    finally:
        threading.setprofile(None)


def test_each_message_is_prepared_counted_and_encoded_once() -> None:
    def script(request: Json) -> Step:
        n = sum(message["role"] == "tool" for message in request["messages"])
        return call("look", at=f"ask{n};") if n < N_STEPS else say("Done.")

    look_tool = tool(
        "look", lambda at: at.replace("ask", "got"), at={"type": "string"}, read_only=True
    )
    with count_calls() as counts, at_work(script, look_tool, max_steps=N_STEPS + 1) as work:
        work.run()
        items = work.conversation.state.items
        last = work.llm.requests[-1]
        messages = context.ModelContext(PROMPT).messages(items[:-1])
        complete(retrying(work.llm), ModelRequest(messages, last.body["tools"], cache_key="c1"))
        from_scratch = work.llm.requests[-1]
    assert last.body == from_scratch.body
    for name in WATCHED.values():
        for text, n_masked in MASKED.items():
            times = n_masked if name == "masked" else 1
            expected = {f"{text}{n};": times for n in range(N_STEPS)}
            assert {k: n for k, n in counts[name].items() if k[:3] == text} == expected, name


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def growing_requests(model: str) -> Iterator[list[Json]]:
    """Yield the messages of one request after the other, as a conversation grows and is cut."""
    messages: list[Json] = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": "Look."},
    ]
    for n in range(6):
        yield list(messages)
        calls = [
            {"id": f"c{n}_{k}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for k in range(2)
        ]
        block = {"type": "thinking", "thinking": "Hm.", "signature": f"S{n}"}
        thinking = {"model": "other" if n == 1 else model, "text": "Hm.", "blocks": [block]}
        answer = {"role": "assistant", "content": f"{n} \ud800 ", "tool_calls": calls}
        content = [{"type": "text", "text": "See"}, IMAGE] if n == 2 else f"seen {n}"
        results = [{"role": "tool", "tool_call_id": m["id"], "content": content} for m in calls]
        messages += [{**answer, "thinking": thinking} if n != 3 else answer, *results]
        if n == 4:
            yield list(messages)
            messages += [{"role": "user", "content": "And"}, {"role": "user", "content": "this."}]
            yield list(messages)
            messages += [{"role": "assistant", "content": "Yes. "}]
            yield list(messages)
            # An image that is stored is another object each time.
            messages = [{**m} if isinstance(m["content"], list) else m for m in messages]
    yield list(messages)
    answer, question = {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "So?"}
    messages += [answer, question] * 150
    yield list(messages)
    messages = [{**m} if isinstance(m["content"], list) else m for m in messages]
    yield [*messages, answer]
    yield [*messages[:2], {"role": "user", "content": "<summary/>"}, *messages[-3:]]
    yield messages[:5]


@pytest.mark.parametrize(
    ("model", "dialect", "fields"),
    [
        ("openai/gpt-x", CHAT, {}),
        ("openai/gpt-x", RESPONSES, {"api": "responses"}),
        ("openai/gpt-x", CHAT, {"native_tool_calling": False}),
        ("anthropic/claude-x", ANTHROPIC, {}),
        ("openrouter/anthropic/claude-x", CHAT, {}),
        ("mistral/mistral-x", CHAT, {"extra_body": {"safe": True}}),
        ("deepseek/deepseek-x", CHAT, {"reasoning_effort": "high"}),
        ("anthropic/claude-x", ANTHROPIC, {"reasoning_effort": "high"}),
        ("gemini/gemini-x", CHAT, {}),
    ],
)
@pytest.mark.parametrize("sees_images", [True, False])
def test_a_body_written_piece_by_piece_says_what_one_made_from_scratch_says(
    model: str, dialect: Dialect, fields: Json, *, sees_images: bool
) -> None:
    settings = LLMSettings(model=model, **fields)
    row = {model: {"supports_vision": sees_images}}
    can, provider = find_capabilities(settings, row), find_provider(settings, row)
    function = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    cache = EncodedMessages()
    for messages in growing_requests(model):
        call = ProviderCall(ModelRequest(messages, tools), settings, can, provider)
        body = json.loads(encoded_body(dialect, call, cache))
        assert body == json.loads(dialects.encode_body(dialect.body(call)))
