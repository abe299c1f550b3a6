"""Thinking in tags at the start of a text is thinking, for every model and however it is cut."""

from __future__ import annotations

import pytest
from fake_llm import FakeLLM, say
from hypothesis import given
from hypothesis import strategies as st
from model_calls import ask

from oh_daemon.features.models.assembly import Assembly
from oh_daemon.kernel.ports import ModelDelta
from oh_daemon.protocol.status import Usage

TAGS = (
    ("<think>", "</think>"),
    ("<mm:think>", "</mm:think>"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)
THOUGHT, TEXT = "Let me see: a < b,\n[x] <p>.", "If a < b, then\n<think> is a tag."


def read(text: str, size: int) -> tuple[str, str, list[ModelDelta]]:
    shown: list[ModelDelta] = []
    assembly = Assembly(shown.append)
    for start in range(0, len(text), size):
        assembly.feed({"choices": [{"delta": {"content": text[start : start + size]}}]})
    assembly.feed({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    answer = assembly.answer(Usage())
    return answer.reasoning, answer.text, shown


@given(st.sampled_from(TAGS), st.sampled_from(["", "\n", " \n"]), st.integers(1, 60))
def test_thinking_in_tags_is_reasoning_and_is_shown_as_such(
    tags: tuple[str, str], space: str, size: int
) -> None:
    reasoning, text, shown = read(f"{space}{tags[0]}{THOUGHT}{tags[1]}\n\n{TEXT}", size)
    assert (reasoning, text) == (THOUGHT, TEXT)
    for channel, expected in (("reasoning", THOUGHT), ("text", TEXT)):
        assert "".join(delta.text for delta in shown if delta.channel == channel) == expected


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("tag", ["</think>", "</mm:think>", "</thinking>"])
def test_thinking_that_only_ends_in_a_tag_is_reasoning(tag: str, size: int) -> None:
    assert read(f"{THOUGHT}\n{tag}\n\n{TEXT}", size)[:2] == (THOUGHT, TEXT)


@pytest.mark.parametrize(
    "text",
    [
        "The tag `</think>` ends it.",
        "See:\n```\n</think>\n```\nThat is all.",
        "Write <think> and then </think>\nto think.",
        "<thin",
        "< 5",
        "[THI",
        "\n\n  indented",
    ],
)
@pytest.mark.parametrize("size", [1, 100])
def test_text_that_names_a_tag_stays_text(text: str, size: int) -> None:
    assert read(text, size)[:2] == ("", text)


def test_thinking_that_does_not_end_is_all_reasoning() -> None:
    assert read("<think>Hm, <b", 3)[:2] == ("Hm, <b", "")


@pytest.mark.parametrize("native", [True, False])
def test_thinking_is_no_text_of_any_model(native: bool) -> None:
    with FakeLLM([say("<think>Hm.</think>Done.", n_chunks=5)]) as fake:
        answer = ask(fake, native_tool_calling=native)
    assert (answer.reasoning, answer.text) == ("Hm.", "Done.")
