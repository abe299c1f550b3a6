"""Conversations that switch between models, each with its own way to think and to call tools."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest
from core_world import SECRET, Work, at_work, tool
from fake_llm import Json, Step, calls, reason, say
from fake_llm import call as calling
from model_calls import anthropic_block, claude, thinking_chunk, thinking_sent, tool_use

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]

ECHO = tool("echo", lambda words: words, words={"type": "string"})
CLAUDE: Json = {"model": "anthropic/claude-sonnet-4-5", "reasoning_effort": "low"}
DONE = {"type": "text_delta", "text": "Done."}


@contextmanager
def switching(script: Sequence[Step], **other_fields: Json) -> Generator[Work]:
    """Run an agent whose model may call the tool `switch` to hand over to another model."""
    works: list[Work] = []

    def switch(to: str) -> None:
        works[0].switch(to)

    with at_work(
        script, ECHO, tool("switch", switch, to={"type": "string"}), other_steps=other_fields
    ) as work:
        works.append(work)
        yield work


def test_signed_thinking_goes_back_unmodified_and_to_its_own_model_only():
    script = [
        claude(
            thinking_chunk("Hm \u2028."), tool_use("toolu_1", "echo", words="a"), stop="tool_use"
        ),
        claude(thinking_chunk("Oh."), tool_use("toolu_2", "switch", to="fake"), stop="tool_use"),
        reason("Private.", calling("switch", to="claude")),
        claude(anthropic_block(0, {"type": "text", "text": ""}, DONE), stop="end_turn"),
        claude(anthropic_block(0, {"type": "text", "text": ""}, DONE), stop="end_turn"),
    ]
    with switching(script, claude=CLAUDE) as work:
        work.switch("claude")
        assert [work.run()["status"], work.run("again")["status"]] == ["completed"] * 2
        own, in_loop, foreign, back, later = (request.body for request in work.llm.requests)
    signed_parts = [
        {"type": "thinking", "thinking": text, "signature": f"SIG({text})"}
        for text in ("Hm \u2028.", "Oh.")
    ]
    assert thinking_sent(in_loop) == signed_parts[:1]
    assert not any(word in json.dumps(foreign) for word in ("Hm", "Oh.", "SIG"))
    assert thinking_sent(later) == signed_parts
    assert "Private." not in json.dumps(back)
    # Claude would refuse to think in a tool loop whose last calls another model made.
    assert ["thinking" in body for body in (own, in_loop, back, later)] == [True, True, False, True]


def test_thinking_that_holds_a_secret_is_masked_in_the_log_and_not_sent_back_changed():
    script = [
        claude(
            thinking_chunk(f"It is {SECRET}."),
            tool_use("toolu_1", "echo", words="a"),
            stop="tool_use",
        ),
        claude(anthropic_block(0, {"type": "text", "text": ""}, DONE), stop="end_turn"),
    ]
    with switching(script, claude=CLAUDE) as work:
        work.switch("claude")
        assert work.run()["status"] == "completed"
        assert work.items("reasoning")[0]["text"] == "It is <secret hidden>."
        assert thinking_sent(work.llm.requests[1].body) == []


def written_calls(*call_list: Json) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps(call_fields)}\n</tool_call>" for call_fields in call_list
    )


def test_a_conversation_goes_from_functions_to_text_and_back():
    in_text = [{"name": "echo", "arguments": {"words": word}} for word in "bc"]
    back = {"name": "switch", "arguments": {"to": "fake"}}
    script = [
        calls(calling("echo", words="a"), calling("switch", to="plain")),
        say(f"Two.\n{written_calls(*in_text)}", n_chunks=9),
        say(written_calls(back)),
        calling("echo", words="d"),
        say("Done."),
    ]
    with switching(script, plain={"native_tool_calling": False}) as work:
        assert work.run()["status"] == "completed"
        bodies = [request.body for request in work.llm.requests]
        items = work.items("toolCall")
        shown_text = "".join(text for channel, _, text in work.heard.deltas if channel == "text")
    assert [item["args"].get("words") for item in items] == ["a", None, "b", "c", None, "d"]
    assert len({item["call"]["id"] for item in items}) == 6
    assert ["tools" in body for body in bodies] == [True, False, False, True, True]
    assert "Two.\nDone." in shown_text
    assert "tool_call" not in shown_text
    assert [m["role"] for m in bodies[2]["messages"]] == ["system", "user"] + [
        "assistant",
        "user",
    ] * 2
    assert bodies[2]["messages"][5]["content"] == (
        '<tool_result of="echo">\nb\n</tool_result>\n\n<tool_result of="echo">\nc\n</tool_result>'
    )
    # A model with function calling gets the calls that were made in text as function calls.
    messages = bodies[4]["messages"]
    names = [call["function"]["name"] for m in messages for call in m.get("tool_calls", ())]
    assert names == ["echo", "switch", "echo", "echo", "switch", "echo"]
    assert "<tool_" not in json.dumps(messages)


def test_encrypted_reasoning_goes_back_within_its_loop_and_not_to_the_other_api():
    script = [
        reason("First.", calls(calling("echo", words="a"), calling("echo", words="b"))),
        reason("Second.", calls(say("So."), calling("switch", to="fake"))),
        calling("switch", to="sealing"),
        say("Done."),
    ]
    with switching(script, sealing={"model": "openai/gpt-5-codex"}) as work:
        work.switch("sealing")
        assert work.run()["finalText"] == "Done."
        _, second, chat, last = (request.body for request in work.llm.requests)
    kinds = [item.get("type", item.get("role")) for item in last["input"]]
    call_types, result_types = ["function_call"], ["function_call_output"]
    assert kinds == [
        *("user", "reasoning", *call_types * 2, *result_types * 2),
        *("reasoning", "message", *call_types, *result_types, *call_types, *result_types),
    ]
    sealed_parts = [i["encrypted_content"] for i in last["input"] if i.get("type") == "reasoning"]
    assert sealed_parts == ["sealed:First.", "sealed:Second."]
    assert last["input"][: len(second["input"])] == second["input"]
    assert "sealed" not in json.dumps(chat)
