"""The Responses API: what is sent, how events are read, and that failures mean what they do in
chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_llm import (
    FakeLLM,
    Json,
    Step,
    calls,
    cut_step,
    error,
    hang,
    raw,
    raw_call,
    reason,
    reply,
    say,
)
from fake_llm import call as calling
from model_calls import HELLO, KEY, TOOL, ask, complete, retrying

from oh_daemon.features.models.assembly import Assembly
from oh_daemon.features.models.capabilities import find_capabilities
from oh_daemon.features.models.responses import Reader, render_request
from oh_daemon.kernel.ports import Json as Message
from oh_daemon.kernel.ports import ModelRequest, ToolCall
from oh_daemon.protocol import errors as e
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.status import Usage

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]
CAN = find_capabilities(LLMSettings(model="openai/fake"), {})


def test_settings_tools_and_keys_are_in_the_request():
    request = ModelRequest(
        [{"role": "system", "content": "Be good."}, *HELLO], [TOOL], "required", "conversation-1"
    )
    with FakeLLM([say("a")]) as fake:
        ask(
            fake,
            request,
            api="responses",
            max_output_tokens=99,
            temperature=0.25,
            top_k=7,
            reasoning_effort="low",
            extra_headers={"x-team": "blue"},
            extra_body={"seed": 3},
        )
        actual_request = fake.requests[0]
    assert actual_request.path == "/v1/responses"
    assert actual_request.headers["authorization"] == f"Bearer {KEY}"
    assert actual_request.headers["x-team"] == "blue"
    assert actual_request.body == {
        "model": "fake",
        "instructions": "Be good.",
        "input": HELLO,
        "tools": [{"type": "function", **TOOL["function"], "strict": False}],
        "tool_choice": "required",
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "stream": True,
        "max_output_tokens": 99,
        "temperature": 0.25,
        "reasoning": {"effort": "low"},
        "prompt_cache_key": "conversation-1",
        "seed": 3,
    }


def test_an_answer_goes_back_in_its_order_and_another_models_reasoning_does_not():
    first: Json = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "A"}
    second = {**first, "id": "rs_2", "encrypted_content": "B"}
    phase = {"type": "message", "phase": "commentary"}
    blocks = [first, phase, second, {"type": "function_call"}, {"type": "function_call"}]
    actual_calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("a", "b")
    ]
    answer: Message = {"role": "assistant", "content": "Hm.", "tool_calls": actual_calls}
    answer["thinking"] = {"model": "me", "text": "", "blocks": blocks}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}
    tool_message: Message = {"role": "tool", "tool_call_id": "a", "content": [image]}
    sent_calls = [
        {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"} for name in "ab"
    ]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    output = {"type": "function_call_output", "call_id": "a", "output": [picture]}
    text = {"role": "assistant", "content": "Hm."}
    own = render_request([answer, tool_message], (), "me", CAN)["input"]
    assert own == [first, {**phase, **text}, second, *sent_calls, output]
    assert render_request([answer], (), "other", CAN)["input"] == [text, *sent_calls]


def test_parts_that_come_whole_and_reasoning_without_content_are_understood():
    items: list[Json] = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]},
        {"type": "function_call", "call_id": "c1", "name": "a", "arguments": '{"x": 1}'},
    ]
    assembly, reader = Assembly(lambda _: None), Reader()
    for n, item in enumerate(items):
        assembly.feed(
            reader.chunk({"type": "response.output_item.done", "output_index": n, "item": item})
        )
    assembly.feed(reader.chunk({"type": "response.completed", "response": {"id": "r"}}))
    answer = assembly.answer(Usage())
    assert (answer.text, answer.tool_calls) == ("Hi.", (ToolCall("c1", "a", '{"x": 1}'),))
    assert answer.thinking_blocks == ()


def failed_step(code: str) -> Step:
    problem = {"code": code, "message": "It went wrong."}
    event = {"type": "response.failed", "response": {"id": "r", "error": problem}}
    return raw(f"data: {json.dumps(event)}\n\n".encode())


@pytest.mark.parametrize(
    ("step", "kind", "is_retryable"),
    [
        (error(401, "no"), e.AuthRequiredError, False),
        (error(404, "no"), e.ModelUnavailableError, False),
        (error(429, "slow down", {"retry-after": "7"}), e.RateLimitError, True),
        (error(503, "no"), e.NetworkError, True),
        (error(400, "no", code="context_length_exceeded"), e.ContextWindowExceededError, False),
        (failed_step("context_length_exceeded: too many tokens"), e.NetworkError, True),
        (failed_step("rate_limit_exceeded"), e.RateLimitError, True),
        (failed_step("invalid_prompt"), e.ModelError, False),
        (raw(b'data: {"type": "error", "message": "Oh.", "code": "server_error"}\n\n'),
         e.NetworkError, True),
        (raw(b'data: {"type": "response.completed"}\n\n'), e.NetworkError, True),
        (raw(b'data: {"type": "response.output_item.done", "item": 5}\n\n'), e.NetworkError, True),
        (cut_step(calling("terminal"), 400), e.NetworkError, True),
        (cut_step(calling("terminal"), 400, clean=True), e.NetworkError, True),
        (reply(200, {"detail": "Log in"}), e.ModelError, False),
        (reply(307, b"", {"location": "http://127.0.0.1:9/v1/responses"}), e.ModelError, False),
    ],
)  # fmt: skip
def test_a_failure_means_what_it_means_in_chat(
    step: Step, kind: type[e.ModelError], is_retryable: bool
):
    with FakeLLM([step]) as fake, pytest.raises(kind) as error_info:
        ask(fake, api="responses")
    assert error_info.value.retryable is is_retryable
    assert KEY not in f"{error_info.value!r} {error_info.value.hint}"


def test_a_failed_attempt_is_tried_again_and_a_silent_stream_has_a_deadline():
    with FakeLLM([error(500), hang(say("Some.")), say("Hello.")]) as fake:
        retries: list[Any] = []
        model = retrying(fake, api="responses", first_token_timeout_s=2)
        assert complete(model, on_retry=retries.append).text == "Hello."
        assert len(retries) == 2
        assert fake.requests[1].close_event.wait(90)


def test_a_provider_without_the_api_is_told_to_choose_chat():
    with FakeLLM([say("Never.")] * 2) as fake, pytest.raises(e.ModelError) as error_info:
        ask(fake, model="deepseek/deepseek-chat", api="responses")
    assert "`llm.api`" in str(error_info.value.hint)
    assert not error_info.value.retryable


TABLE: dict[str, Json] = {
    "gpt-codex": {"mode": "responses", "litellm_provider": "openai", "supports_reasoning": True},
    "gpt-think": {
        "mode": "chat",
        "litellm_provider": "openai",
        "supports_reasoning": True,
        "supported_endpoints": ["/v1/chat/completions", "/v1/responses"],
    },
    "gpt-plain": {"mode": "chat", "litellm_provider": "openai"},
}


@pytest.mark.parametrize(
    ("fields", "api"),
    [
        ({"model": "openai/gpt-codex"}, "responses"),
        ({"model": "openai/gpt-codex", "base_url": "http://127.0.0.1/v1"}, "responses"),
        ({"model": "openai/gpt-codex", "api": "chat"}, "chat"),
        ({"model": "openai/gpt-think"}, "responses"),
        ({"model": "openai/gpt-think", "base_url": "http://127.0.0.1/v1"}, "chat"),
        ({"model": "openai/gpt-plain"}, "chat"),
        ({"model": "openai/own"}, "chat"),
        ({"model": "openai/own", "api": "responses"}, "responses"),
    ],
)
def test_the_api_is_the_users_choice_or_what_suits_the_model(fields: Json, api: str):
    assert find_capabilities(LLMSettings.model_validate(fields), TABLE).api == api


def test_reasoning_is_asked_for_where_the_model_is_known_to_reason():
    with FakeLLM([say("a")]) as fake:
        ask(fake, model="openai/gpt-5-codex")
        body = fake.requests[0].body
    assert body["reasoning"] == {"summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]


def test_arguments_and_text_stay_as_they_were_written():
    step = calls(reason("Hm.\u2028", say("A [DONE]\u2028B")), raw_call("a", '{"x": '))
    with FakeLLM([step]) as fake:
        answer = ask(fake, api="responses")
    assert (answer.text, answer.reasoning) == ("A [DONE]\u2028B", "Hm.\u2028")
    assert answer.tool_calls[0].arguments == '{"x": '
