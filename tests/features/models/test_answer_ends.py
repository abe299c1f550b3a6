"""An answer counts only if its provider ended it in a way that is known to be success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from core_world import at_work, tool
from fake_llm import FakeLLM, Json, Step, call, calls, raw, say, with_finish
from hypothesis import given
from hypothesis import strategies as st
from model_calls import anthropic, anthropic_block, ask

from oh_daemon.features.models.answer_ends import ENDS
from oh_daemon.features.models.assembly import Assembly
from oh_daemon.kernel.turns import may_resume
from oh_daemon.protocol.errors import NetworkError
from oh_daemon.protocol.status import Usage

FAILURES = (
    *("network_error", "ERROR", "failed", "timeout", "cancelled", "OTHER", "load", "server_error"),
    *("repetition_truncation", "guardrail_intervened", "pause_turn", "abort", "error", "unknown"),
    *("insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "SAFETY", "RECITATION"),
)
SUCCESSES = {
    **dict.fromkeys(("stop", "STOP", "end_turn", "stop_sequence", "eos", "COMPLETE"), "stop"),
    **dict.fromkeys(("length", "MAX_TOKENS", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "refusal"), "content_filter"),
}
ECHO = tool("echo", lambda words: words, words={"type": "string"})


def chat(*choices: Any, done: bool = True) -> Step:
    events = [f"data: {json.dumps({'choices': [choice]})}\n\n".encode() for choice in choices]
    return raw(b"".join([*events, b"data: [DONE]\n\n" if done else b""]))


def said(text: str, **fields: Any) -> Json:
    return {"index": 0, "delta": {"content": text}, **fields}


@pytest.mark.parametrize("reason", FAILURES)
def test_unknown_end_is_a_failed_attempt_with_the_words_of_the_provider(reason: str) -> None:
    with (
        FakeLLM([chat(said("Half a"), said("", finish_reason=reason))]) as fake,
        pytest.raises(NetworkError, match=reason),
    ):
        ask(fake)


@given(st.text(min_size=1, max_size=20))
def test_any_word_that_is_not_in_the_table_is_a_failed_attempt(reason: str) -> None:
    assembly = Assembly(lambda _: None)
    assembly.feed({"choices": [said("Half a", finish_reason=reason)]})
    try:
        assembly.answer(Usage())
    except NetworkError:
        assert reason.strip().lower() not in ENDS
    else:
        assert reason.strip().lower() in ENDS


@pytest.mark.parametrize(("reason", "meaning"), SUCCESSES.items())
def test_known_end_is_an_answer(reason: str, meaning: str) -> None:
    with FakeLLM([chat(said("All."), said("", finish_reason=reason))]) as fake:
        assert ask(fake).finish_reason == meaning


PROBLEM = {"message": "The upstream broke.", "code": 502}


@pytest.mark.parametrize(
    "choice",
    [
        said("Half", error=PROBLEM, finish_reason="stop"),
        {"index": 0, "delta": {"content": "Half", "error": PROBLEM}, "finish_reason": "stop"},
        {"index": 0, "message": {"content": "Half", "error": PROBLEM}, "finish_reason": "stop"},
        {"index": 0, "error": PROBLEM},
    ],
)
def test_error_is_an_error_wherever_in_a_chunk_it_stands(choice: Json) -> None:
    with (
        FakeLLM([chat(said("Half"), choice)]) as fake,
        pytest.raises(NetworkError, match="The upstream broke") as caught,
    ):
        ask(fake)
    assert caught.value.retryable


def test_error_event_and_error_object_are_errors() -> None:
    named = raw(b'event: error\ndata: {"message": "The upstream broke."}\n\n')
    whole = raw(b'data: {"object": "error", "message": "The upstream broke.", "code": 500}\n\n')
    with FakeLLM([named, whole]) as fake:
        for _ in range(2):
            with pytest.raises(NetworkError, match="The upstream broke"):
                ask(fake)


def test_failure_of_the_provider_behind_is_one_whatever_the_reason_in_front_says() -> None:
    odd = said("Half", finish_reason="stop", native_finish_reason="network_error")
    fine = said("All.", finish_reason="stop", native_finish_reason="eos_token_of_its_own")
    with FakeLLM([chat(fine), chat(odd)]) as fake:
        assert ask(fake).text == "All."
        with pytest.raises(NetworkError, match="network_error"):
            ask(fake)


def test_clean_end_with_content_and_no_reason_is_an_answer() -> None:
    with FakeLLM([chat(said("All.")), chat(said("Half"), done=False), chat(said(""))]) as fake:
        assert ask(fake).finish_reason == "stop"
        for _ in range(2):
            with pytest.raises(NetworkError, match="before it was complete"):
                ask(fake)


def test_call_that_is_announced_and_does_not_come_is_a_failed_attempt() -> None:
    with (
        FakeLLM([with_finish(say("I call."), "tool_calls")]) as fake,
        pytest.raises(NetworkError, match="without one"),
    ):
        ask(fake)


@pytest.mark.parametrize("reason", ["pause_turn", "error", "something_new"])
def test_unknown_end_of_anthropic_is_a_failed_attempt(reason: str) -> None:
    text = anthropic_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Half"})
    end = anthropic("message_delta", delta={"stop_reason": reason}) + anthropic("message_stop")
    with FakeLLM([raw(text + end)]) as fake, pytest.raises(NetworkError, match=reason):
        ask(fake, model="anthropic/claude-sonnet-4-5")


@pytest.mark.parametrize(
    "response",
    [{"status": "cancelled"}, {"status": "incomplete", "incomplete_details": {"reason": "odd"}}],
)
def test_unknown_end_of_responses_is_a_failed_attempt(response: Json) -> None:
    event = {"type": "response.completed", "response": response}
    with (
        FakeLLM([raw(f"data: {json.dumps(event)}\n\n".encode())]) as fake,
        pytest.raises(NetworkError, match=r"cancelled|odd"),
    ):
        ask(fake, api="responses")


def test_nothing_of_a_failed_attempt_runs_and_the_next_one_counts() -> None:
    broken = with_finish(calls(say("Half."), call("echo", words="a")), "network_error")
    with at_work([broken, say("Whole.")], ECHO) as work:
        turn = work.run()
        items = work.conversation.state.items
    assert turn["finalText"] == "Whole."
    assert [item["kind"] for item in items if item["kind"] not in {"userMessage"}] == [
        "agentMessage",
        "agentMessage",
    ]
    assert [item.get("reason") for item in items if item["kind"] == "agentMessage"] == [
        "retried",
        None,
    ]


def test_turn_whose_attempts_all_fail_is_paused_and_resumed() -> None:
    broken = with_finish(say("Half."), "RECITATION")
    with at_work([broken, say("Whole.")], ECHO) as work:
        turn = work.run()
        assert (turn["status"], work.heard.event("turn.paused")["reason"]) == ("paused", "network")
        assert work.resume()["finalText"] == "Whole."


@pytest.mark.parametrize(
    ("steps", "stop_reason"),
    [([with_finish(say("Half"), "length")], "maxTokens"), ([say("")] * 4, "noAnswer")],
)
def test_resume_goes_on_after_an_answer_that_was_cut_or_empty(
    steps: list[Step], stop_reason: str
) -> None:
    with at_work([*steps, say(" and the rest.")], ECHO) as work:
        assert work.run()["stopReason"] == stop_reason
        assert may_resume(work.conversation.state)
        assert work.resume()["finalText"] == " and the rest."
