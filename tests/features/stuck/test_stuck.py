"""When an agent counts as going in circles: patterns over plain items."""

from __future__ import annotations

from typing import Any

import pytest

from oh_daemon.features.stuck.stuck import STOPPED, find_stuck

USER: Any = {"kind": "userMessage", "content": []}
TALK: Any = {"kind": "agentMessage", "text": "I think."}
THOUGHT: Any = {"kind": "reasoning", "text": "Hm."}
CUT: Any = {"kind": "condensation", "summary": "What was."}


def called(words: str = "a", output: str = "ok", status: str = "completed", **fields: Any) -> Any:
    return {
        "kind": "toolCall",
        "tool": "echo",
        "args": {"words": words},
        "call": {"id": "1"},
        "status": status,
        "content": [{"type": "text", "text": output}],
        **fields,
    }


def failed(words: str = "a", output: str = "no such file") -> Any:
    return called(words, output, "failed")


def ran(took: str) -> Any:
    return called("ls", f"x\n[exit code 0, {took}, in /w]", kind="command")


def in_answer(item: Any, n: int) -> Any:
    return {**item, "call": {"id": "1", "batch": str(n)}} if "call" in item else item


def in_answers(items: list[Any]) -> list[Any]:
    """Return the items, each as part of an answer of its own."""
    return [in_answer(item, n) for n, item in enumerate(items)]


POLL = called(kind="command", args={"command": "", "is_input": True})
WRONG = called(status="failed", reason="invalidArguments")
LOST = [failed("a"), failed("b"), failed("c")]
BACK_AND_FORTH = [called("a"), called("b")] * 3


@pytest.mark.parametrize(
    ("items", "pattern"),
    [
        ([called()] * 3, "identicalCalls"),
        ([called()] * 2, None),
        ([called(), called(), called(output="new"), called()], None),
        ([called(), THOUGHT, called(), TALK, CUT, called()], "identicalCalls"),
        ([called(), called(), USER, called(), called()], None),
        ([ran("0.1 s"), ran("0.2 s"), ran("12.5 s")], "identicalCalls"),
        ([POLL] * 9, None),
        ([called(), POLL, called(), POLL, called(), POLL, called()], "identicalCalls"),
        (LOST, "sameError"),
        ([failed("a"), failed("b"), failed("c", "denied")], None),
        ([failed(), called("look"), failed(), failed()], None),
        (BACK_AND_FORTH, "alternatingCalls"),
        (BACK_AND_FORTH[1:], None),
        ([called("a", "1"), *BACK_AND_FORTH[1:]], None),
        ([TALK, TALK, TALK], "monologue"),
        ([TALK, TALK, called(), TALK], None),
        ([WRONG, WRONG, WRONG], "wrongCalls"),
    ],
)
def test_what_counts_as_going_in_circles(items: list[Any], pattern: str | None):
    notice = find_stuck([USER, *in_answers(items)])
    assert (notice.pattern if notice else None) == pattern


@pytest.mark.parametrize(
    ("answers", "pattern"),
    [
        ([[WRONG, WRONG, WRONG, WRONG]], None),
        ([[WRONG, WRONG], [WRONG, WRONG]], None),
        ([[WRONG, WRONG], [WRONG], [WRONG, called()]], None),
        ([[WRONG, WRONG], [WRONG], [WRONG, WRONG]], "wrongCalls"),
        ([[called()] * 5], None),
        ([[failed("a"), failed("b"), failed("c")]], None),
        ([[called("a"), called("b"), called("c"), failed("d")]] * 3, "identicalCalls"),
        ([[called("a"), called("b")], [called("b"), called("a")], [called("a")]], None),
        ([[called("a"), called("b")], [called("c"), called("d")]] * 3, "alternatingCalls"),
        ([[called("a"), called("b")], [called("a"), called("d")]] * 2, None),
        ([[failed(x, "no"), failed(x, "never")] for x in "abc"], "sameError"),
        ([[failed(x, "no"), called(x)] for x in "abc"], None),
        ([[called(str(n)) for n in range(20)]] * 3, "identicalCalls"),
    ],
)
def test_what_is_called_several_times_in_one_answer_counts_once(
    answers: list[list[Any]], pattern: str | None
):
    items = [in_answer(item, n) for n, answer in enumerate(answers) for item in answer]
    notice = find_stuck([USER, *items])
    assert (notice.pattern if notice else None) == pattern


def test_a_stop_is_a_new_beginning():
    notice = find_stuck(in_answers([called()] * 3))
    assert notice is not None
    stop = notice.notice.model_copy(update={"reason": STOPPED}).model_dump(by_alias=True)
    items = [*[called()] * 3, stop]
    assert find_stuck(in_answers(items)) is None
    assert find_stuck(in_answers([*items, *[called()] * 2])) is None
    assert find_stuck(in_answers([*items, *[called()] * 3])) is not None


def test_a_nudge_counts_once_the_model_has_answered_it():
    notice = find_stuck(in_answers(LOST))
    assert notice is not None
    assert notice.stop_reason is None
    nudge = notice.notice.model_dump(by_alias=True)
    items_with_nudge = [*LOST, nudge]
    assert find_stuck(in_answers(items_with_nudge)) is None
    # Logs of earlier versions have no code.
    assert find_stuck(in_answers([*items_with_nudge[:-1], {**nudge, "code": None}])) is None
    assert find_stuck(in_answers([*items_with_nudge, THOUGHT])) is None
    again = find_stuck(in_answers([*items_with_nudge, failed("d")]))
    assert again is not None
    assert again.stop_reason == "stuck"
    assert find_stuck(in_answers([*items_with_nudge, called("b"), failed("d")])) is None
