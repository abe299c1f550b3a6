"""Model calls beside the turns, for titles and side questions: no turn waits or fails for one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from core_world import SECRET, Work, at_work, records, text, tool
from fake_llm import Json, Step, call, error, hang, hold_step, say, with_usage

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.kernel.side_calls import clean_title
from oh_daemon.protocol import events as e
from oh_daemon.protocol.errors import ContextWindowExceededError, ModelError

TASK = "Make the tests pass, please.\nAll of them."
FIRST_LINE = "Make the tests pass, please."


def with_title(title: Step, *steps: Step) -> Callable[[Json], Step]:
    """Return a script that answers requests without tools with `title`, and turns with `steps`."""
    steps_left = iter(steps)
    return lambda request: next(steps_left) if "tools" in request else title


def titles(work: Work) -> list[str]:
    events = (record["event"] for record in records(work.conversation))
    return [event["title"] for event in events if event["type"] == "conversation.updated"]


def test_the_model_names_a_conversation_and_its_cost_is_billed_but_counts_as_no_step() -> None:
    actual_usage = {"prompt_tokens": 7, "completion_tokens": 3, "cost": 0.5}
    script = with_title(
        with_usage(say('"Fixing the tests."'), actual_usage), say("Done."), say("More.")
    )
    with at_work(script, titles=True) as work:
        turn = work.run(TASK)
        work.heard.event("conversation.updated", nth=2)
        work.run("And now?")
        state = work.conversation.state
        assert (titles(work), state.title) == ([FIRST_LINE, "Fixing the tests"], "Fixing the tests")
        usage = state.usage or {}
        assert (turn["nSteps"], usage.get("requests"), usage.get("inputTokens")) == (1, 3, 207)
        [request] = [r for r in work.llm.requests if "tools" not in r.body]
        assert TASK in request.body["messages"][1]["content"]
        [usage_event] = [u for u in usages(work) if u.get("purpose")]
        assert (usage_event["purpose"], usage_event["usage"]["cost"]["amount"]) == ("title", 0.5)
        assert state.context.get("used") == 100


def usages(work: Work) -> list[Json]:
    events = (record["event"] for record in records(work.conversation))
    return [event for event in events if event["type"] == "usage.updated"]


def test_a_turn_and_a_close_do_not_wait_for_a_title_that_never_comes() -> None:
    with at_work(with_title(hang(), say("Done.")), titles=True) as work:
        assert work.run(TASK)["status"] == "completed"
        [request] = [r for r in work.llm.wait_for_requests(2) if "tools" not in r.body]
        work.agent.close()
        assert request.close_event.wait(120)
        assert (titles(work), (work.conversation.state.usage or {}).get("requests")) == (
            [FIRST_LINE],
            1,
        )


def test_a_title_that_is_refused_leaves_the_first_line_and_the_turn_alone() -> None:
    with at_work(with_title(error(401), say("Done.")), titles=True) as work:
        assert work.run(TASK)["finalText"] == "Done."
        [request] = [r for r in work.llm.wait_for_requests(2) if "tools" not in r.body]
        assert request.answer_event.wait(120)
        assert work.conversation.state.title == FIRST_LINE
        assert "error.raised" not in [r["event"]["type"] for r in records(work.conversation)]


def test_the_users_own_title_wins_whether_it_comes_before_or_while_the_model_thinks() -> None:
    gate = threading.Event()
    late = hold_step(say("The model's title", n_chunks=2), gate)
    with at_work(with_title(late, say("Done.")), titles=True) as work:
        work.run(TASK)
        work.llm.wait_for_requests(2)
        work.conversation.journal.append(e.ConversationUpdated(title="Mine"))
        gate.set()
        work.heard.event("usage.updated", nth=2)
        assert work.conversation.state.title == "Mine"
    with at_work([say("Done.")], titles=True, title="Mine") as work:
        work.run(TASK)
        assert (len(work.llm.requests), work.conversation.state.title) == (1, "Mine")


def test_a_side_question_is_answered_from_the_view_and_leaves_nothing_but_its_cost() -> None:
    look_tool = tool("look", lambda: "a cat", read_only=True)
    with at_work(
        [call("look"), say("Done."), say(f"A cat, {SECRET}."), say("Go on.")], look_tool
    ) as work:
        work.run()
        n_before, items = work.conversation.state.seq, list(work.conversation.state.items)
        answer = work.agent.ask("What was there?", CancelToken())
        full_text = "A cat, <secret hidden>."
        assert (answer.text, work.conversation.state.items) == (full_text, items)
        [usage_event] = [r["event"] for r in records(work.conversation)[n_before:]]
        assert (usage_event["type"], usage_event["purpose"]) == ("usage.updated", "ask")
        work.run("Again")
        steps, side_request, again = (
            work.llm.requests[1],
            work.llm.requests[2],
            work.llm.requests[3],
        )
        *before, question = side_request.body["messages"]
        assert before[: len(steps.body["messages"])] == steps.body["messages"]
        assert "What was there?" in question["content"]
        assert (side_request.body["tools"], side_request.body["tool_choice"]) == (
            steps.body["tools"],
            "none",
        )
        assert "What was there?" not in str(again.body["messages"])


def test_a_side_question_is_answered_while_a_turn_runs_and_ends_with_the_conversation() -> None:
    gate = threading.Event()
    with at_work([hold_step(say("Slow.", n_chunks=2), gate), say("Soon."), hang()]) as work:
        work.conversation.send(text("go"))
        work.llm.wait_for_requests(1)
        assert work.agent.ask("How long?", CancelToken()).text == "Soon."
        assert work.conversation.state.status == "running"
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(_ask_until_cancelled, work)
            work.llm.wait_for_requests(3)
            gate.set()
            work.agent.close()
            assert asking.result(120)


def _ask_until_cancelled(work: Work) -> bool:
    try:
        work.agent.ask("And now?", CancelToken())
    except Cancelled:
        return True
    return False


def test_a_side_question_without_an_answer_in_words_is_an_error() -> None:
    with at_work([say("Done."), call("finish", message="x")]) as work:
        work.run()
        with pytest.raises(ModelError, match="no answer in words"):
            work.agent.ask("Why?", CancelToken())
        assert (work.conversation.state.usage or {}).get("requests") == 2


def test_a_side_question_that_does_not_fit_is_not_sent() -> None:
    with at_work([say("Done.")], window=2_000) as work:
        work.run(TASK)
        with pytest.raises(ContextWindowExceededError, match="about 2,6"):
            work.agent.ask("x" * 10_000, CancelToken())
        assert len(work.llm.requests) == 1


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Fix the tests", "Fix the tests"),
        ('"Fix the tests."', "Fix the tests"),
        ("Title: **Fix the tests**\n\nI chose this because", "Fix the tests"),
        ("<think>Hm.</think>\n\nFix the tests", "Fix the tests"),
        ("  \n", ""),
        ("x" * 80, "x" * 59 + "…"),
    ],
)
def test_a_title_is_one_short_line_without_its_frame(answer: str, title: str) -> None:
    assert clean_title(answer) == title
