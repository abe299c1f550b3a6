"""What a model is sent of a conversation in which other models may have answered before it."""

from __future__ import annotations

from typing import Any

import pytest

from oh_daemon.features.models.assembly import Assembly
from oh_daemon.features.models.capabilities import Capabilities, find_capabilities
from oh_daemon.features.models.model_messages import lacks_thinking, prepare_messages
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.status import Usage

SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "S"}
ENCRYPTED = {"type": "reasoning.encrypted", "data": "xyz", "id": "rs_1", "index": 0}


def capabilities(model: str, **table_entry: Any) -> Capabilities:
    return find_capabilities(LLMSettings(model=model), {model: table_entry} if table_entry else {})


def answer(model: str, *blocks: Json, call_id: str = "call_1", text: str = "Hm.") -> Json:
    native_call = {
        "id": call_id,
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    thinking = {"model": model, "text": text, "blocks": list(blocks)}
    return {"role": "assistant", "content": None, "tool_calls": [native_call], "thinking": thinking}


@pytest.mark.parametrize(
    ("model", "blocks", "fields"),
    [
        ("anthropic/claude-x", [SIGNED], {"thinking_blocks": [SIGNED]}),
        ("openrouter/openai/gpt-x", [ENCRYPTED], {"reasoning_details": [ENCRYPTED]}),
        ("deepseek/deepseek-x", [], {"reasoning_content": "Hm."}),
        ("openai/gpt-x", [], {}),
    ],
)
def test_thinking_goes_back_to_the_model_that_thought_it(
    model: str, blocks: list[Json], fields: Json
):
    [message] = prepare_messages([answer(model, *blocks)], model, capabilities(model))
    assert {k: v for k, v in message.items() if "thinking" in k or "reasoning" in k} == fields
    [message] = prepare_messages([answer("other", *blocks)], model, capabilities(model))
    assert message.keys() == {"role", "content", "tool_calls"}


@pytest.mark.parametrize(
    ("model", "call_id", "is_kept"),
    [
        ("openai/gpt-x", "toolu_01-a", True),
        ("openai/gpt-x", "call_1__thought__a+b=", False),
        ("openai/gpt-x", "c" * 65, False),
        ("gemini/gemini-x", "call_1__thought__a+b=", True),
        ("mistral/mistral-x", "toolu_01-a", False),
        ("mistral/mistral-x", "a1B2c3D4e", True),
    ],
)
def test_an_id_that_a_model_refuses_is_another_one_in_call_and_result(
    model: str, call_id: str, is_kept: bool
):
    result = {"role": "tool", "tool_call_id": call_id, "content": "seen"}
    can = capabilities(model)
    call_message, result_message = prepare_messages(
        [answer("any", call_id=call_id), result], model, can
    )
    [native_call] = call_message["tool_calls"]
    assert native_call["id"] == result_message["tool_call_id"]
    assert (native_call["id"] == call_id) is is_kept
    assert can.rules.call_ids.fullmatch(native_call["id"])


def test_a_tool_loop_that_another_model_began_lacks_thinking_until_it_has_ended():
    result = {"role": "tool", "tool_call_id": "call_1", "content": "seen"}
    answer_message = {"role": "assistant", "content": "Done."}
    question_message = {"role": "user", "content": "And now?"}
    own, foreign = answer("me", SIGNED), answer("other", SIGNED)
    assert not lacks_thinking([question_message, own, result], "me")
    assert lacks_thinking([question_message, own, result, foreign, result], "me")
    assert not lacks_thinking(
        [question_message, foreign, result, answer_message, question_message], "me"
    )


def test_a_block_without_a_type_is_dropped_since_it_could_not_be_sent_back():
    assembly = Assembly(lambda _delta: None)
    for block in ({"text": "Hm."}, {"type": None, "text": "Hm."}, {"type": 1}, SIGNED):
        assembly.feed({"choices": [{"delta": {"reasoning_details": [block]}}]})
    assert assembly.answer(Usage()).thinking_blocks == (SIGNED,)


def test_reasoning_details_in_pieces_are_put_together_and_end_with_their_signature():
    assembly = Assembly(lambda _: None)
    text = {"type": "reasoning.text", "format": "f", "index": 0}
    pieces: list[Json] = [
        {**text, "text": "Let me", "signature": None},
        {**text, "text": " see."},
        {**text, "signature": "SIG"},
        {**ENCRYPTED, "index": 1},
    ]
    for piece in pieces:
        assembly.feed({"choices": [{"delta": {"reasoning_details": [piece]}}]})
    assert assembly.answer(Usage()).thinking_blocks == (
        {**text, "text": "Let me see.", "signature": "SIG"},
        {**ENCRYPTED, "index": 1},
    )


def test_a_thinking_block_with_half_a_character_is_not_kept_and_a_split_one_is():
    for pieces, expected_text in ((["\ud83d", "\ude00"], "\U0001f600"), (["\ud83d", "x"], None)):
        assembly = Assembly(lambda _: None)
        for piece in pieces:
            block = {"type": "thinking", "thinking": piece}
            assembly.feed({"choices": [{"delta": {"thinking_blocks": [block]}}]})
        blocks = assembly.answer(Usage()).thinking_blocks
        assert blocks == (
            () if expected_text is None else ({"type": "thinking", "thinking": expected_text},)
        )


PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def results(*contents: str | list[Json]) -> list[Json]:
    return [{"role": "tool", "tool_call_id": "call_1", "content": each} for each in contents]


def test_images_of_results_are_in_them_or_follow_them_or_are_named():
    messages = [answer("any"), *results([{"type": "text", "text": "See:"}, PNG], "two")]
    question_message: Json = {"role": "user", "content": "And?"}
    inside = prepare_messages(messages, "anthropic/claude-x", capabilities("anthropic/claude-x"))
    assert PNG in inside[1]["content"]
    after = prepare_messages([*messages, question_message], "openai/x", capabilities("openai/x"))
    notice = "See:\n(an image, in the message after the results)"
    assert after[1:] == [
        *results(notice, "two"),
        {"role": "user", "content": [PNG]},
        question_message,
    ]
    assert prepare_messages(messages, "openai/x", capabilities("openai/x")) == after[:-1]
    blind = prepare_messages(messages, "openai/x", capabilities("openai/x", mode="chat"))
    left_out = "See:\n(an image, left out: this model does not see images)"
    assert blind[1:] == results(left_out, "two")
