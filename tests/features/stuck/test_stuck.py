"""When an agent counts as going in circles: patterns over plain items."""

from __future__ import annotations

from typing import Any

import pytest

from oh_daemon.features.stuck.stuck import STOPPED, find_stuck

USER: Any = {"kind": "userMessage", "content": []}
TALK: Any = {"kind": "agentMessage", "text": "I think."}
THOUGHT: Any = {"kind": "reasoning", "text": "Hm."}
CUT: Any = {"kind": "condensation", "summary": "What was."}


def call_answer(
    words: str = "a", output: str = "ok", status: str = "completed", **fields: Any
) -> Any:
    return {
        "kind": "toolCall",
        "tool": "echo",
        "args": {"words": words},
        "call": {"id": "1"},
        "status": status,
        "content": [{"type": "text", "text": output}],
        **fields,
    }


def failed_answer(words: str = "a", output: str = "no such file") -> Any:
    return call_answer(words, output, "failed")


def ran_answer(took: str) -> Any:
    return call_answer("ls", f"x\n[exit code 0, {took}, in /w]", kind="command")


def in_answer(item: Any, n: int) -> Any:
    return {**item, "call": {"id": "1", "batch": str(n)}} if "call" in item else item


def in_answers(items: list[Any]) -> list[Any]:
    """Return the items, each as part of an answer of its own."""
    return [in_answer(item, n) for n, item in enumerate(items)]


POLL = call_answer(kind="command", args={"command": "", "is_input": True})
WRONG = call_answer(status="failed", reason="invalidArguments")
LOST = [failed_answer("a"), failed_answer("b"), failed_answer("c")]
BACK_AND_FORTH = [call_answer("a"), call_answer("b")] * 3


@pytest.mark.parametrize(
    ("items", "pattern"),
    [
        ([call_answer()] * 3, "identicalCalls"),
        ([call_answer()] * 2, None),
        ([call_answer(), call_answer(), call_answer(output="new"), call_answer()], None),
        ([call_answer(), THOUGHT, call_answer(), TALK, CUT, call_answer()], "identicalCalls"),
        ([call_answer(), call_answer(), USER, call_answer(), call_answer()], None),
        ([ran_answer("0.1 s"), ran_answer("0.2 s"), ran_answer("12.5 s")], "identicalCalls"),
        ([POLL] * 9, None),
        (
            [call_answer(), POLL, call_answer(), POLL, call_answer(), POLL, call_answer()],
            "identicalCalls",
        ),
        (LOST, "sameError"),
        ([failed_answer("a"), failed_answer("b"), failed_answer("c", "denied")], None),
        ([failed_answer(), call_answer("look"), failed_answer(), failed_answer()], None),
        (BACK_AND_FORTH, "alternatingCalls"),
        (BACK_AND_FORTH[1:], None),
        ([call_answer("a", "1"), *BACK_AND_FORTH[1:]], None),
        ([TALK, TALK, TALK], "monologue"),
        ([TALK, TALK, call_answer(), TALK], None),
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
        ([[WRONG, WRONG], [WRONG], [WRONG, call_answer()]], None),
        ([[WRONG, WRONG], [WRONG], [WRONG, WRONG]], "wrongCalls"),
        ([[call_answer()] * 5], None),
        ([[failed_answer("a"), failed_answer("b"), failed_answer("c")]], None),
        (
            [[call_answer("a"), call_answer("b"), call_answer("c"), failed_answer("d")]] * 3,
            "identicalCalls",
        ),
        (
            [
                [call_answer("a"), call_answer("b")],
                [call_answer("b"), call_answer("a")],
                [call_answer("a")],
            ],
            None,
        ),
        (
            [[call_answer("a"), call_answer("b")], [call_answer("c"), call_answer("d")]] * 3,
            "alternatingCalls",
        ),
        ([[call_answer("a"), call_answer("b")], [call_answer("a"), call_answer("d")]] * 2, None),
        ([[failed_answer(x, "no"), failed_answer(x, "never")] for x in "abc"], "sameError"),
        ([[failed_answer(x, "no"), call_answer(x)] for x in "abc"], None),
        ([[call_answer(str(n)) for n in range(20)]] * 3, "identicalCalls"),
    ],
)
def test_what_is_called_several_times_in_one_answer_counts_once(
    answers: list[list[Any]], pattern: str | None
):
    items = [in_answer(item, n) for n, answer in enumerate(answers) for item in answer]
    notice = find_stuck([USER, *items])
    assert (notice.pattern if notice else None) == pattern


def test_a_stop_is_a_new_beginning():
    notice = find_stuck(in_answers([call_answer()] * 3))
    assert notice is not None
    stop = notice.notice.model_copy(update={"reason": STOPPED}).model_dump(by_alias=True)
    items = [*[call_answer()] * 3, stop]
    assert find_stuck(in_answers(items)) is None
    assert find_stuck(in_answers([*items, *[call_answer()] * 2])) is None
    assert find_stuck(in_answers([*items, *[call_answer()] * 3])) is not None


def test_a_nudge_counts_once_the_model_has_answered_it():
    notice = find_stuck(in_answers(LOST))
    assert notice is not None
    assert notice.stop_reason is None
    nudge = notice.notice.model_dump(by_alias=True)
    items_with_nudge = [*LOST, nudge]
    assert find_stuck(in_answers(items_with_nudge)) is None
    # Logs of earlier versions have no code, and other words.
    words = nudge["note"].replace("another way.", "another way, or ask the user.")
    earlier_nudge = {**nudge, "code": None, "note": words}
    assert find_stuck(in_answers([*LOST, earlier_nudge])) is None
    assert find_stuck(in_answers([*items_with_nudge, THOUGHT])) is None
    again = find_stuck(in_answers([*items_with_nudge, failed_answer("d")]))
    assert again is not None
    assert again.stop_reason == "stuck"
    assert find_stuck(in_answers([*items_with_nudge, call_answer("b"), failed_answer("d")])) is None
