"""A conversation that fills its model's context window goes on, and its log loses nothing."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from core_world import CREATED, DEADLINE_S, PROMPT, Work, at_work, text, tool, types
from fake_llm import Json, Recorded, Step, call, error, hang, hold_step, say

from oh_daemon.kernel.context import ModelContext
from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.ports import ToolResult
from oh_daemon.protocol.settings import Condenser

TASK = "Count the stars."
OVERFLOW = error(400, "This model's maximum context length is 1000 tokens")
WINDOW = 10_000


def look_call(size: int = 1_000) -> Any:
    """Return a tool whose results are about `size` characters long and differ by place."""
    return tool("look", lambda at: ToolResult.of(f"{at}:" + "x" * size), at={"type": "string"})


def with_usage(step: Step, tokens: int) -> Step:
    return replace(step, usage={"prompt_tokens": tokens, "completion_tokens": 5})


def looks(n: int, *, last_tokens: int) -> list[Step]:
    """Return `n` steps with one call each; the last one reports `last_tokens` prompt tokens."""
    steps = [with_usage(call("look", at=f"place {n}"), 100 * n) for n in range(1, n + 1)]
    return [*steps[:-1], with_usage(steps[-1], last_tokens)]


def contents(request: Recorded) -> list[str]:
    return [str(message.get("content")) for message in request.body["messages"]]


def condensations(work: Work) -> list[Json]:
    return work.items("condensation")


def test_a_full_window_is_condensed_to_the_task_a_summary_and_the_last_steps():
    script = [*looks(9, last_tokens=8_000), say("I looked at nine places."), say("Nine.")]
    with at_work(script, look_call(), window=WINDOW) as work:
        turn = work.run(TASK)
        summary, after = work.llm.requests[-2:]
    assert turn["finalText"] == "Nine."
    assert "tools" not in summary.body
    assert "place 1:xxx" in contents(summary)[1]
    texts = contents(after)
    assert texts[:2] == [PROMPT, TASK]
    assert "I looked at nine places." in texts[2]
    assert [t[:9] for t in texts[3:] if t.startswith("place")] == ["place 8:x", "place 9:x"]
    [item] = condensations(work)
    assert (item["summary"], item["reason"]) == ("I looked at nine places.", "windowFull")
    assert item["tokensBefore"] >= 8_000 > item["tokensAfter"]
    assert turn["nSteps"] == 10  # The summary is not a step, but it is billed.
    assert turn["usage"]["requests"] == 11


def test_what_was_condensed_reads_the_same_when_the_conversation_is_opened_again():
    script = [*looks(9, last_tokens=8_000), say("Nine so far."), call("look", at="end"), say("So.")]
    with at_work(script, look_call(), window=WINDOW) as work:
        work.run(TASK)
        last = work.llm.requests[-1]
        state = work.conversation.state
    view = ModelContext(PROMPT)
    again = view.messages(state.items[:-1])  # Without the answer to that request.
    assert [str(message.get("content")) for message in again] == contents(last)


def test_long_results_of_older_steps_go_first_when_that_is_enough():
    script = [*looks(9, last_tokens=9_000), say("Done.")]
    with at_work(script, look_call(4_000), window=WINDOW) as work:
        work.run(TASK)
        after = work.llm.requests[-1]
    assert len(work.llm.requests) == 10
    full_text = "\n".join(contents(after))
    assert "place 9:x" in full_text
    assert "x" * 200 not in full_text.partition("place 8:")[0]
    assert full_text.count("to save room") == 7


@pytest.mark.parametrize(("n_bad", "n_pruned"), [(2, 5), (5, 7)])
def test_failures_are_pruned_only_when_successes_are_not_enough(n_bad: int, n_pruned: int):
    def failed_search(at: str) -> ToolResult:
        is_bad = int(at.split()[1]) <= n_bad
        return ToolResult.of(f"{at}:" + "x" * 4_000, is_error=is_bad)

    script = [*looks(9, last_tokens=9_000), say("Done.")]
    with at_work(script, tool("look", failed_search, at={"type": "string"}), window=WINDOW) as work:
        work.run(TASK)
    [item] = condensations(work)
    failures = {each["id"] for each in work.items("toolCall") if each["status"] == "failed"}
    assert len(item["pruned"]) == n_pruned
    assert bool(failures.intersection(item["pruned"])) == (n_bad > 2)


def test_a_request_that_does_not_fit_is_condensed_and_sent_again():
    script = [*looks(6, last_tokens=600), OVERFLOW, say("Six places."), say("Done.")]
    with at_work(script, look_call()) as work:
        turn = work.run(TASK)
    assert turn["finalText"] == "Done."
    assert "retry.scheduled" not in types(work.conversation)
    assert "Six places." in contents(work.llm.requests[-1])[2]


def test_the_third_and_last_request_has_half_of_the_last_answer_alone():
    overflows = [OVERFLOW, OVERFLOW, say("Three.")]
    with at_work([*looks(3, last_tokens=300), *overflows, say("Done.")], look_call(9_000)) as work:
        turn = work.run(TASK)
    assert turn["finalText"] == "Done."
    _, task, summary, _, result = contents(work.llm.requests[-1])
    assert task == TASK
    assert "Three." in summary
    assert "characters shown; more did not fit; view fewer" in result


def test_a_request_that_does_not_fit_by_our_own_estimate_is_not_sent():
    with at_work([], look_call(), window=100) as work:
        turn = work.run(TASK)
    assert turn["error"]["kind"] == "contextWindowExceeded"
    assert "nothing more can be left out" in turn["error"]["message"]
    assert work.llm.requests == []


def test_four_refused_requests_in_a_row_are_one_too_many():
    with at_work([*looks(3, last_tokens=300), *[OVERFLOW] * 9], look_call(9_000)) as work:
        turn = work.run(TASK)
    assert turn["error"]["kind"] == "contextWindowExceeded"
    assert len(work.llm.requests) == 3 + 3 + 1  # And one for a summary.


def test_what_nothing_makes_fit_ends_the_turn_with_the_reason():
    with at_work([OVERFLOW, OVERFLOW], look_call()) as work:
        turn = work.run(TASK)
    assert turn["status"] == "failed"
    assert turn["error"]["kind"] == "contextWindowExceeded"
    assert len(work.llm.requests) == 1


@pytest.mark.parametrize(
    ("condenser", "n_requests", "is_done"),
    [("none", 7, False), ("window", 8, True), ("summarize", 9, True)],
)
def test_the_setting_says_what_becomes_of_older_steps(
    condenser: Condenser, n_requests: int, *, is_done: bool
):
    replies = [say("Six places."), say("Done.")] if condenser == "summarize" else [say("Done.")]
    script = [*looks(6, last_tokens=600), OVERFLOW, *replies]
    with at_work(script, look_call(), condenser=condenser) as work:
        turn = work.run(TASK)
    assert (turn["status"] == "completed") is is_done
    assert len(work.llm.requests) == n_requests


def test_a_model_that_gives_no_summary_does_not_hold_up_the_work():
    script = [*looks(6, last_tokens=600), OVERFLOW, error(400, "no"), say("Done.")]
    with at_work(script, look_call()) as work:
        turn = work.run(TASK)
    assert turn["finalText"] == "Done."
    assert "without a summary" in work.heard.event("notice")["title"]
    assert "summary" not in condensations(work)[0]


def test_by_hand_it_is_a_turn_of_its_own_that_asks_for_nothing_else():
    with at_work([*looks(6, last_tokens=600), say("Done."), say("Six.")], look_call()) as work:
        work.run(TASK)
        turn_id = work.conversation.condense("Keep the numbers.")["turnId"]
        turn = work.heard.event("turn.completed", nth=2)["turn"]
    assert (turn["id"], turn["nSteps"], turn["stopReason"]) == (turn_id, 0, "endTurn")
    assert "Keep the numbers." in contents(work.llm.requests[-1])[0]
    assert condensations(work)[0]["summary"] == "Six."


def test_by_hand_during_the_last_answer_it_comes_after_the_turn():
    gate = threading.Event()
    script = [*looks(6, last_tokens=600), hold_step(say("Done."), gate, after=1), say("Six.")]
    with at_work(script, look_call()) as work:
        work.conversation.send(text(TASK))
        work.llm.wait_for_requests(7)
        work.conversation.condense("Keep the numbers.")
        gate.set()
        assert work.heard.event("turn.completed")["turn"]["finalText"] == "Done."
        turn = work.heard.event("turn.completed", nth=2)["turn"]
    assert (turn["nSteps"], turn["stopReason"]) == (0, "endTurn")
    assert "Keep the numbers." in contents(work.llm.requests[-1])[0]
    assert condensations(work)[0]["summary"] == "Six."


def test_by_hand_with_nothing_to_condense_says_so():
    with at_work([]) as work:
        work.conversation.condense(None)
        work.heard.event("turn.completed")
    assert condensations(work)[0]["reason"] == "nothingToCondense"


def test_an_interrupt_during_the_summary_leaves_the_history_as_it_was():
    script = [*looks(6, last_tokens=8_000), hang(), say("Here I am.")]
    with at_work(script, look_call(), window=WINDOW) as work:
        work.conversation.send(text(TASK))
        work.heard.wait_for(
            lambda heard: any(
                event["type"] == "item.started" and event["item"]["kind"] == "condensation"
                for event in heard.events
            )
        )
        work.conversation.interrupt().result(DEADLINE_S)
        assert condensations(work)[0]["status"] == "cancelled"
        messages = ModelContext(PROMPT).messages(work.conversation.state.items)
    assert [m["content"] for m in messages[:2]] == [PROMPT, TASK]
    assert sum(m["role"] == "tool" for m in messages) == 6


def test_a_second_condensation_takes_up_the_first_summary():
    script = [
        *looks(6, last_tokens=8_000),
        say("First summary."),
        *looks(6, last_tokens=8_000),
        say("Second summary."),
        say("Done."),
    ]
    with at_work(script, look_call(), window=WINDOW) as work:
        work.run(TASK)
        second, last = work.llm.requests[-2:]
    assert "First summary." in contents(second)[1]
    full_text = "\n".join(contents(last))
    assert "Second summary." in full_text
    assert "First summary." not in full_text


def test_the_users_latest_words_are_kept_when_their_place_is_gone():
    script = [say("Hello."), *looks(9, last_tokens=8_000), say("Looked."), say("Done.")]
    with at_work(script, look_call(), window=WINDOW) as work:
        work.run("Be brief.")
        work.run(TASK)
        full_text = contents(work.llm.requests[-1])
    assert full_text[1] == "Be brief."
    assert full_text[3] == TASK


def test_old_logs_fold_as_before():
    """In a log whose usage names no purpose, every model call counts as a step."""
    usage = {"type": "usage.updated", "usage": {"requests": 1}, "model": "m", "latencyMs": 1}
    start_event = {"type": "turn.started", "cause": "message"}
    records: list[Any] = [
        {"seq": 1, "ts": "t", "event": CREATED.model_dump(mode="json")},
        {"seq": 2, "ts": "t", "turnId": "t1", "event": start_event},
        {"seq": 3, "ts": "t", "turnId": "t1", "event": usage},
    ]
    assert fold("c", records).open_turn.n_steps == 1
