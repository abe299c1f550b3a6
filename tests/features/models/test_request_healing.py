"""Any conversation is a request that each provider takes, and a refusal is not the end of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from core_world import at_work, tool
from fake_llm import FakeLLM, Json, Step, error, raw_call, say
from hypothesis import given, settings
from model_calls import ask, complete, retrying
from model_corpus import A, answer, image, result, text, user
from model_histories import histories, unreadable
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from oh_daemon.features.models.anthropic import ANTHROPIC
from oh_daemon.features.models.capabilities import find_capabilities
from oh_daemon.features.models.chat import CHAT
from oh_daemon.features.models.dialect import Dialect, EncodedMessages, ProviderCall, encoded_body
from oh_daemon.features.models.litellm_child import load_litellm
from oh_daemon.features.models.providers import find_provider
from oh_daemon.features.models.request_healing import NO_SIGNATURE, with_ends, within_images
from oh_daemon.features.models.request_rules import ROWS, rules_for
from oh_daemon.features.models.responses import RESPONSES
from oh_daemon.kernel.ports import ModelRequest
from oh_daemon.protocol.errors import ModelError
from oh_daemon.protocol.llm import LLMSettings

MODELS: Sequence[tuple[str, Dialect]] = (
    ("anthropic/claude-x", ANTHROPIC),
    ("openai/gpt-x", CHAT),
    ("openai/gpt-x", RESPONSES),
    ("mistral/devstral-x", CHAT),
    ("openrouter/mistralai/mistral-nemo", CHAT),
    ("hosted_vllm/google/gemma-x", CHAT),
    ("llamafile/any", CHAT),
    ("gemini/gemini-3-x", CHAT),
    ("deepseek/deepseek-x", CHAT),
)


# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]


# Conversations


def body_of(model: str, dialect: Dialect, messages: list[Json], tools: Sequence[Json]) -> Json:
    """Return the body as it is sent, written piece by piece."""
    api = "responses" if dialect is RESPONSES else "chat"
    llm = LLMSettings(model=model, api=api)
    table = {model: {"supports_vision": True, "supports_function_calling": True}}
    can, provider = find_capabilities(llm, table), find_provider(llm, table)
    whole = with_ends(within_images(messages, can.rules, unreadable))
    request = ProviderCall(ModelRequest(whole, tools), llm, can, provider)
    return json.loads(encoded_body(dialect, request, EncodedMessages()))


PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "$.filter": {"type": "string"},
        "due date": {"type": "string"},
        "due_date": {"type": "string"},
        "größe": {"type": "object", "properties": {"in mm": {"type": "number"}}},
        "k" * 70: {"type": "array", "items": {"properties": {"a b": {}}, "required": ["a b"]}},
    },
    "required": ["due date", "größe"],
    "oneOf": [{"required": ["$.filter"]}, {"required": ["due_date"]}],
    "not": {"required": ["x"]},
}
ODD: Json = {
    "type": "function",
    "function": {"name": "srv.odd tool", "description": "Odd.", "parameters": PARAMETERS},
}
TERMINAL: Json = {
    "type": "function",
    "function": {"name": "terminal", "parameters": {"type": "object", "properties": {}}},
}
ITEMS = TypeAdapter(list[ResponseInputItemParam])
CHATS = TypeAdapter(list[ChatCompletionMessageParam])
CHAT_TOOLS = TypeAdapter(list[ChatCompletionToolUnionParam])


@cache
def anthropic_types() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """Return the types of messages and tools, which litellm brings along."""
    load_litellm()
    from litellm.types.llms import anthropic as types  # noqa: PLC0415 - see load_litellm.

    return TypeAdapter(list[types.AllAnthropicMessageValues]), TypeAdapter(
        list[types.AnthropicMessagesTool]
    )


def judge(model: str, dialect: Dialect, body: Json) -> None:
    """Fail where the types of the vendors, or the orders that their servers demand, are broken."""
    if dialect is RESPONSES:
        ITEMS.validate_python(body["input"])
        return
    messages: list[Json] = body["messages"]
    if dialect is ANTHROPIC:
        turns, tools = anthropic_types()
        turns.validate_python(messages)
        tools.validate_python(body["tools"])
        assert [each["role"] for each in messages] == ["user", "assistant"] * (
            len(messages) // 2
        ) + ["user"]
        return
    CHATS.validate_python(messages)
    CHAT_TOOLS.validate_python(body["tools"])
    roles = [each["role"] for each in messages if each["role"] != "system"]
    assert (roles[0], roles[-1] != "assistant") == ("user", True)
    pairs = {*itertools.pairwise(roles)}
    if rules_for(model, None).alternates:
        assert not pairs & {("user", "user"), ("assistant", "assistant")}
    if rules_for(model, None).bridges_results:
        assert ("tool", "user") not in pairs
    answers = [each for each in messages if "tool_calls" in each]
    if not rules_for(model, None).takes_text_with_calls:
        assert not any(each.get("content") for each in answers)
    names = [c["function"]["name"] for each in answers for c in each["tool_calls"]]
    assert all(rules_for(model, None).tool_names.fullmatch(name) for name in names)
    if rules_for(model, None).needs_signatures:
        firsts = [each["tool_calls"][0] for each in messages if each.get("tool_calls")]
        assert all(first["extra_content"]["google"]["thought_signature"] for first in firsts)


@pytest.mark.parametrize(("model", "dialect"), MODELS)
@given(messages=histories())
@settings(max_examples=25, deadline=None)
def test_any_conversation_is_taken_by_any_provider(
    model: str, dialect: Dialect, messages: list[Json]
) -> None:
    judge(model, dialect, body_of(model, dialect, messages, [TERMINAL, ODD]))


@pytest.mark.full
@pytest.mark.parametrize(("model", "dialect"), MODELS)
@given(messages=histories())
@settings(max_examples=3_000, deadline=None)
def test_many_conversations_are_taken_by_any_provider(
    model: str, dialect: Dialect, messages: list[Json]
) -> None:
    judge(model, dialect, body_of(model, dialect, messages, [TERMINAL, ODD]))


def test_every_row_has_a_source_with_its_date() -> None:
    assert all("20" in row.source and "." in row.source for row in ROWS)


# The shapes of the reports


def test_call_of_another_model_has_the_stand_in_for_a_signature() -> None:
    body = body_of(
        "gemini/gemini-3-x", CHAT, [user("Go."), answer(None, A), result("call_a", "a")], [TERMINAL]
    )
    [made_call] = body["messages"][1]["tool_calls"]
    assert made_call["extra_content"] == {"google": {"thought_signature": NO_SIGNATURE}}


def test_odd_names_of_arguments_are_sent_as_others_and_come_back() -> None:
    args = {"due_date_2": "a", "gr__e": {"in_mm": 5}, "k" * 64: [{"a_b": 1}], "due_date": "b"}
    step = raw_call("srv_odd_tool", json.dumps(args))
    with FakeLLM([step]) as fake:
        request = ModelRequest([user("Go.")], [TERMINAL, ODD])
        [called] = ask(fake, request, model="openrouter/anthropic/claude-x").tool_calls
        function = fake.requests[0].body["tools"][1]["function"]
    assert called.name == "srv.odd tool"
    assert json.loads(called.arguments) == {
        "due date": "a",
        "größe": {"in mm": 5},
        "k" * 70: [{"a b": 1}],
        "due_date": "b",
    }
    assert function["parameters"]["required"] == ["due_date_2", "gr__e"]
    assert not {"oneOf", "not"} & function["parameters"].keys()
    assert '"oneOf"' in function["description"]


def test_tools_beyond_the_limit_are_left_out_and_the_user_is_told() -> None:
    tools = [
        {**TERMINAL, "function": {**TERMINAL["function"], "name": f"t{n}"}} for n in range(132)
    ]
    with FakeLLM([say("Done.")]) as fake:
        answered = ask(fake, ModelRequest([user("Go.")], tools))
        assert len(fake.requests[0].body["tools"]) == 128
    assert [caveat.code for caveat in answered.caveats] == ["requestChanged"]


# The net


def refusing(words: str, is_refused: Any) -> Any:
    return lambda body: error(400, words) if is_refused(body) else say("Done.")


PICTURE = user([text("See:"), image()])
REFUSALS: dict[str, tuple[str, Any, list[Json]]] = {
    "image": (
        "messages.0.content.1.image.source: Could not process image",
        lambda body: "image_url" in json.dumps(body),
        [PICTURE],
    ),
    "tool by place": (
        "tools.1.custom.input_schema: JSON schema is invalid",
        lambda body: len(body["tools"]) > 1,
        [user("Go.")],
    ),
    "tool by name": (
        "Invalid schema for function 'srv_odd': schema must be an object",
        lambda body: "srv_odd" in json.dumps(body),
        [user("Go.")],
    ),
    "schemas": (
        "Invalid JSON schema in the tools",
        lambda body: "oneOf" in body["tools"][1]["function"]["parameters"],
        [user("Go.")],
    ),
    "order": (
        "Conversation roles must alternate user/assistant/user/assistant/...",
        lambda body: [m["role"] for m in body["messages"]] == ["user", "user"],
        [user("Go."), user("Now.")],
    ),
    "setting": (
        "Unsupported parameter: 'temperature' is not supported with this model.",
        lambda body: "temperature" in body,
        [user("Go.")],
    ),
}
SIMPLE: Json = {"type": "function", "function": {"name": "srv_odd", "parameters": PARAMETERS}}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal_that_names_a_part_leads_to_one_more_try_and_is_told_once(name: str) -> None:
    words, is_refused, messages = REFUSALS[name]
    with FakeLLM(refusing(words, is_refused)) as fake:
        model = retrying(fake, 1, temperature=0.5)
        history = Marked()
        request = ModelRequest(messages, [TERMINAL, SIMPLE], history=history)
        first, second = complete(model, request), complete(model, request)
        assert len(fake.requests) == 3
    assert [caveat.code for caveat in first.caveats] == ["requestChanged"]
    assert words.rstrip(".") in first.caveats[0].title
    assert second.caveats == ()


class Marked:
    """Stands for a conversation, which has an identity."""


def test_refusal_that_names_nothing_is_an_error_at_once() -> None:
    with FakeLLM([error(400, "No."), say("Never.")]) as fake, pytest.raises(ModelError):
        ask(fake)


def test_conversation_goes_on_after_a_refusal_and_the_log_keeps_what_was_refused() -> None:
    def script(body: Json) -> Step:
        roles = [message["role"] for message in body["messages"]]
        if ("user", "user") in itertools.pairwise(roles):
            return error(500, "Jinja Exception: Conversation roles must alternate")
        return say("Done.") if "<note>" in json.dumps(body["messages"]) else say("")

    with at_work(script, tool("echo", lambda words: words, words={"type": "string"})) as work:
        assert work.run()["finalText"] == "Done."
        assert [item["code"] for item in work.items("notice")] == ["emptyAnswer", "requestChanged"]
