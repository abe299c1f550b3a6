"""The agent's loop in one conversation: its model is behind HTTP, its tools are functions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, NoReturn

import orjson
import pytest
from core_world import (
    ATTENDED,
    DEADLINE_S,
    Heard,
    at_work,
    new_conversation,
    runtime_of,
    text,
    tool,
)
from fake_llm import (
    Json,
    Step,
    call,
    calls,
    cut_step,
    error,
    hang,
    hold_step,
    raw_call,
    reason,
    say,
    with_finish,
    with_usage,
)
from msgspec.structs import replace

from oh_daemon.features.approval.judgement import NO_POLICY
from oh_daemon.kernel.actions import MAX_PARALLEL
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.extension_points import Gate
from oh_daemon.kernel.function_tool import FunctionTool
from oh_daemon.kernel.ports import Footprint, Intent, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.turns import turn_end
from oh_daemon.protocol import events as e
from oh_daemon.protocol.approvals import Decision
from oh_daemon.protocol.errors import StorageError, ToolError
from oh_daemon.protocol.items import FileChange
from oh_daemon.storage.memory_log import MemoryLog

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]

ECHO = tool("echo", lambda words: words, words={"type": "string"})
ASKING = {"mode": "ask", "approval": "askAlways", "model": "fake"}


def result_of(item: Json) -> str:
    return "\n".join(part["text"] for part in item["content"])


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Make threads switch as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_threads")
def test_an_agent_that_many_start_at_once_works_once():
    for _ in range(100):
        conversation = new_conversation()
        agent = AgentLoop(conversation, runtime_of(conversation, _no_model))
        together = threading.Barrier(4)

        def start(agent: AgentLoop = agent, together: threading.Barrier = together) -> None:
            together.wait(DEADLINE_S)
            agent.start()

        before = set(threading.enumerate())
        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(threading.enumerate()) - before) == 1
        agent.close(DEADLINE_S)


def _no_model(name: str) -> NoReturn:
    raise AssertionError(name)


# Ends of a turn


@pytest.mark.parametrize(
    ("steps", "stop_reason", "status", "final_text"),
    [
        ([say("Done.")], "endTurn", "idle", "Done."),
        ([reason("Hm.", say("Done."))], "endTurn", "idle", "Done."),
        ([call("finish", message="All good")], "finished", "finished", "All good"),
        ([with_finish(say("Half"), "length")], "maxTokens", "idle", "Half"),
        ([with_finish(say("No."), "content_filter")], "refusal", "idle", "No."),
        ([reason("Hm.")] * 4, "noAnswer", "idle", None),
        # 16 requests in 20 s, when each was also tried again as it was.
        ([say("")] * 4, "noAnswer", "idle", None),
        ([call("fly")] * 4, "toolErrors", "idle", None),
        ([raw_call("echo", "{")] * 4, "toolErrors", "idle", None),
        ([calls(say("I try."), call("fly"))] * 4, "toolErrors", "idle", None),
        ([call("fly"), raw_call("echo", "{")] * 2, "toolErrors", "idle", None),
        ([call("echo", words="a")] * 3, "maxSteps", "paused", None),
    ],
)
def test_how_a_turn_ends(steps: list[Step], stop_reason: str, status: str, final_text: str | None):
    with at_work(steps, ECHO, max_steps=3 if stop_reason == "maxSteps" else 20) as work:
        turn = work.run()
        state = work.conversation.state
        assert (turn["status"], turn["stopReason"]) == ("completed", stop_reason)
        assert (turn.get("finalText"), state.status) == (final_text, status)
        assert turn["nSteps"] == len(steps)
        assert (state.usage or {}).get("requests") == len(steps)


def test_a_finish_in_the_last_step_that_is_allowed_is_no_limit():
    with at_work([call("finish", message="Done.")], max_steps=1) as work:
        turn = work.run()
    assert (turn["stopReason"], turn["finalText"]) == ("finished", "Done.")


def test_a_cost_limit_holds_the_turn_and_a_message_goes_on():
    priced_step = with_usage(call("echo", words="a"), {"prompt_tokens": 1, "completion_tokens": 1})
    priced_step = with_usage(priced_step, {**(priced_step.usage or {}), "cost": 0.6})
    with at_work([priced_step, priced_step, say("Done.")], ECHO, max_cost_usd=1.0) as work:
        turn = work.run()
        assert (turn["stopReason"], work.conversation.state.status_reason) == (
            "maxCostUsd",
            "budget",
        )
        assert turn["usage"]["cost"]["amount"] == pytest.approx(1.2)
        assert work.run("more")["finalText"] == "Done."


def test_a_call_without_a_known_price_leaves_the_cost_limit_in_force():
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    unpriced_step = with_usage(call("echo", words="a"), usage)
    priced_step = with_usage(call("echo", words="a"), {**usage, "cost": 1.2})
    script, others = [unpriced_step, priced_step, say("Done.")], {"fake": {"model": "groq/fake"}}
    with at_work(script, ECHO, max_cost_usd=1.0, other_steps=others) as work:
        turn = work.run()
        assert turn["stopReason"] == "maxCostUsd"
        assert "cost" not in turn["usage"]


def test_an_empty_answer_is_nudged_and_the_model_may_go_on():
    with at_work([reason("Hm."), say("Done.")]) as work:
        assert work.run()["finalText"] == "Done."
        nudge = work.llm.requests[1].body["messages"][-1]
        assert nudge["role"] == "user"
        assert "neither text nor a tool call" in nudge["content"]


def test_a_tool_may_be_required_for_the_first_request_only():
    with at_work([call("echo", words="a"), say("Done.")], ECHO, tool_choice="required") as work:
        work.run()
        choices = [request.body.get("tool_choice") for request in work.llm.requests]
    assert choices == ["required", None]


# Tool calls


def test_a_call_becomes_an_action_and_its_observation_goes_back_to_the_model():
    with at_work([call("echo", words="hello"), say("Done.")], ECHO) as work:
        work.run()
        [item] = work.items("toolCall")
        assert (item["status"], result_of(item), item["args"]) == (
            "completed",
            "hello",
            {"words": "hello"},
        )
        last = work.llm.requests[1].body["messages"][-1]
        assert (last["role"], last["content"]) == ("tool", "hello")


def test_calls_that_only_read_run_side_by_side_and_are_told_in_order():
    both, counts = threading.Barrier(2), list[int]()

    def meet(n: int) -> str:
        both.wait(DEADLINE_S)
        if n == 1:
            work.heard.wait_for(lambda heard: len(end_order(heard)) == 1)
        counts.append(n)
        return f"result {n}"

    def end_order(heard: Heard) -> list[Json]:
        events_completed = [event for event in heard.events if event["type"] == "item.completed"]
        return [event for event in events_completed if event["item"]["kind"] == "toolCall"]

    reader = tool("meet", meet, read_only=True, n={"type": "integer"})
    script = [calls(call("meet", n=1), call("meet", n=2)), say("Done.")]
    with at_work(script, reader) as work:
        work.run()
        results = [
            m["content"] for m in work.llm.requests[1].body["messages"] if m["role"] == "tool"
        ]
    assert counts == [2, 1]
    assert results == ["result 1", "result 2"]


def test_calls_that_may_get_into_each_others_way_run_one_after_the_other():
    order: list[str] = []
    write = tool("write", lambda word: order.append(word) or word, word={"type": "string"})
    script = [calls(*(call("write", word=word) for word in "abc")), say("Done.")]
    with at_work(script, write) as work:
        work.run()
        assert order == ["a", "b", "c"]


ODD_RESULTS: dict[str, tuple[Callable[[], object], str]] = {
    "text instead of parts": (lambda: {"content": "words"}, "words"),
    "parts that are text": (lambda: {"content": ["some", "words"]}, "some\nwords"),
    "a text without text": (lambda: {"content": [{"type": "text"}]}, '{"type": "text"}'),
    "a text that is a number": (lambda: {"content": [{"type": "text", "text": 5}]}, '"text": 5'),
    "a resource that is none": (lambda: {"content": [{"type": "resource", "resource": 1}]}, "1"),
    "no JSON": (lambda: {"content": [{"type": "image", "data": b"\xff"}]}, "xff"),
    "nested deeply": (lambda: {"content": [{"type": "text", "text": nested_list(300)}]}, "[[[["),
    "notes nested deeply": (
        lambda: replace(ToolResult.of("words"), meta={"a": nested_list(300)}),
        "words",
    ),
    "half a surrogate pair": (lambda: "a\ud800b", "a\ufffdb"),
    "50 MB": (lambda: "x" * 50_000_000, "[49,934,464 characters cut]"),
    "50 MB in MCP's form": (lambda: ToolResult.of("x" * 50_000_000), "characters cut]"),
    "50 MB of error": (lambda: raise_it(ToolError("x" * 50_000_000)), "characters cut]"),
    "the end of the program": (lambda: raise_it(SystemExit(3)), "probe broke: SystemExit(3)"),
}


def nested_list(depth: int) -> list[Any]:
    return [nested_list(depth - 1)] if depth else []


def raise_it(error: BaseException) -> NoReturn:
    raise error


@pytest.mark.parametrize(("give", "expected_text"), ODD_RESULTS.values(), ids=ODD_RESULTS)
def test_whatever_a_tool_gives_the_model_hears_it_and_the_turn_goes_on(
    give: Callable[[], object], expected_text: str
):
    with at_work([call("probe"), say("Done.")], tool("probe", give)) as work:
        assert work.run()["finalText"] == "Done."
        heard = work.llm.requests[1].body["messages"][-1]["content"]
        assert expected_text in heard
        assert len(heard) < 100_000


def test_a_secret_that_a_cut_would_split_is_hidden_from_the_model():
    token = "ghp_" + "Ab3dEf6hIj9k" * 3
    cut_in_it = ("x" * 32_750 + f" {token}" + " y" * 40_000, "x " * 40_000 + token + " y" * 16_374)
    for part in cut_in_it:
        with at_work([call("probe"), say("Done.")], tool("probe", part.__str__)) as work:
            work.run()
            heard = work.llm.requests[1].body["messages"][-1]["content"]
        assert "characters cut]" in heard
        assert not any(piece in heard for piece in ("Ab3d", "Ij9k"))


def test_fifty_calls_of_one_id_run_a_few_at_a_time_and_each_gets_its_result():
    lock, n_now, most = threading.Lock(), 0, 0

    def read(n: int) -> str:
        nonlocal n_now, most
        with lock:
            n_now += 1
            most = max(most, n_now)
        with lock:
            n_now -= 1
        return f"result {n}"

    reader = tool("read", read, read_only=True, n={"type": "integer"})
    same = [raw_call("read", f'{{"n": {n}}}', call_id="same") for n in range(50)]
    with at_work([calls(*same), say("Done.")], reader) as work:
        assert work.run()["finalText"] == "Done."
        _, _, answer, *results = work.llm.requests[1].body["messages"]
    assert [result["content"] for result in results] == [f"result {n}" for n in range(50)]
    ids = [result["tool_call_id"] for result in results]
    assert ids == [one["id"] for one in answer["tool_calls"]]
    assert len(set(ids)) == 50
    assert most <= MAX_PARALLEL


def test_ids_that_a_provider_uses_again_are_made_unique():
    same = raw_call("echo", '{"words": "x"}', call_id="call_0")
    with at_work([same, same, say("Done.")], ECHO) as work:
        work.run()
        ids = [item["call"]["id"] for item in work.items("toolCall")]
    assert ids == ["call_0", "call_0_2"]


@pytest.mark.parametrize(
    ("actual_error", "words"),
    [(ToolError("no such file"), "no such file"), (ZeroDivisionError("oops"), "echo broke: ")],
)
def test_what_a_tool_raises_is_an_observation(actual_error: Exception, words: str):
    def fail(**_args: object) -> None:
        raise actual_error

    with at_work([call("echo"), say("Done.")], tool("echo", fail)) as work:
        assert work.run()["finalText"] == "Done."
        [item] = work.items("toolCall")
    assert item["status"] == "failed"
    assert words in result_of(item)


class Rewrite(FunctionTool, frozen=True):
    """A tool whose calls each report a change to the same file."""

    def plan(self, args: Json) -> Intent:
        return replace(super().plan(args), item_fields={"kind": "fileChange"})

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        change = FileChange.model_validate({"uri": "file:///a", "patch": "+", **args})
        return ToolResult.of("changed", changes=(change,))


def test_the_files_of_a_turn_are_summed_from_their_first_state_to_their_last():
    first: Json = {"op": "add", "added": 3, "removed": 0, "sha256After": "one"}
    second: Json = {"op": "modify", "added": 2, "removed": 1, "sha256Before": "one"}
    rewrite = Rewrite(ToolSpec("rewrite", "Changes.", {"type": "object"}), lambda: None)
    script = [call("rewrite", **first), call("rewrite", **second, sha256After="two"), say("Done.")]
    with at_work(script, rewrite) as work:
        work.run()
        assert work.conversation.state.changes == {
            "file:///a": {
                "uri": "file:///a",
                "op": "add",
                "added": 5,
                "removed": 1,
                "sha256After": "two",
            }
        }
        assert [item["changes"][0]["patch"] for item in work.items("fileChange")] == ["+", "+"]


class Patient(FunctionTool, frozen=True):
    """A tool that works until it is cancelled."""

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        context.on_output("working")
        context.cancel.wait(DEADLINE_S)
        context.cancel.raise_if_cancelled()
        return ToolResult.of("was not cancelled")


def test_a_tool_that_ends_with_the_cancel_says_that_it_may_have_had_effects():
    patient_tool = Patient(ToolSpec("patient", "Waits.", {"type": "object"}), lambda: None)
    with at_work([call("patient")], patient_tool) as work:
        work.conversation.send(text("go"))
        work.heard.wait_for(lambda heard: ("output", 0, "working") in heard.deltas)
        work.conversation.interrupt().result(DEADLINE_S)
        [item] = work.items("toolCall")
    assert (item["status"], "may have had effects" in result_of(item)) == ("cancelled", True)


def test_an_interrupt_ends_all_calls_that_run_side_by_side():
    patient_tool = Patient(ToolSpec("patient", "Waits.", {"type": "object"}, read_only=True), str)
    with at_work([calls(call("patient"), call("patient"))], patient_tool) as work:
        work.conversation.send(text("go"))
        work.heard.wait_for(lambda heard: len(heard.deltas) == 2)
        assert work.conversation.interrupt().result(DEADLINE_S)["status"] == "interrupted"
        assert [item["status"] for item in work.items("toolCall")] == ["cancelled"] * 2


def test_an_action_whose_tool_is_gone_after_reopening_is_told_so():
    script = [call("echo", words="x"), say("Done.")]
    asking = ATTENDED
    with at_work(script, ECHO, policy=asking, options=ASKING) as work:
        conversation = work.conversation
        receipt = conversation.send(text("go"))
        work.heard.wait_for(lambda _heard: conversation.state.status == "waiting")
        conversation.pause("step")
        work.agent.close(DEADLINE_S)
        conversation.journal.is_closing = False
        model = work.agent._runtime.model_for
        again = AgentLoop(conversation, runtime_of(conversation, model))
        again.start()
        with conversation.journal.condition:
            resume_result = conversation.resume()
            turn_future = turn_end(
                conversation.journal, receipt["messageId"], resume_result["turnId"]
            )
        assert turn_future.result(DEADLINE_S).get("finalText") == "Done."
        again.close(DEADLINE_S)
        [item] = work.items("toolCall")
    assert "no longer offered" in result_of(item)
    assert [answer["by"] for answer in conversation.state.resolutions.values()] == ["changed"]


class Unready(FunctionTool, frozen=True):
    """A tool whose plan always raises an error."""

    def plan(self, args: Json) -> Intent:
        raise ZeroDivisionError(args["path"])


def test_a_plan_that_breaks_is_an_observation_too_and_its_title_names_the_file():
    unready = Unready(ToolSpec("unready", "Broken.", {"type": "object"}), lambda path: path)
    with at_work([call("unready", path="src/a\u202eb.py"), say("Done.")], unready) as work:
        work.run()
        [item] = work.items("toolCall")
    assert "broke before it ran" in result_of(item)
    assert item["title"] == r"unready src/a\u{202e}b.py"


def test_calls_after_finish_are_skipped_and_cut_calls_never_run():
    names: list[str] = []
    write = tool("write", lambda word: names.append(word) or word, word={"type": "string"})
    cut_off = with_finish(call("write", word="cut"), "length")
    last = calls(call("finish", message="Bye"), call("write", word="late"))
    with at_work([cut_off, last], write) as work:
        assert work.run()["stopReason"] == "finished"
        reasons = [item.get("reason") for item in work.items("toolCall")]
    assert reasons == ["cutOff", None, "skipped"]
    assert names == []


class Narrow(FunctionTool, frozen=True):
    """A tool that touches one file only."""

    def plan(self, args: Json) -> Intent:
        footprint = Footprint(paths=frozenset({"/a"}))
        return replace(super().plan(args), risk="medium", footprint=footprint)


def test_finish_waits_for_the_calls_before_it_also_over_a_pause():
    narrow = Narrow(ToolSpec("narrow", "Writes.", {"type": "object"}), lambda: "written")
    script = [calls(call("narrow"), call("finish", message="Bye"))]
    options, policy = {**ASKING, "approval": "askRisky"}, ATTENDED
    with at_work(script, narrow, policy=policy, options=options) as work:
        work.conversation.send(text("go"))
        work.heard.wait_for(lambda _heard: work.conversation.state.status == "waiting")
        assert [item["status"] for item in work.items("toolCall")] == [
            "awaitingApproval",
            "pending",
        ]
        work.conversation.pause("step")
        work.heard.event("turn.paused")
        answer(work, "allow")
        work.conversation.resume()
        turn = work.heard.event("turn.completed")["turn"]
        assert (turn["stopReason"], turn["finalText"]) == ("finished", "Bye")
        assert [result_of(item) for item in work.items("toolCall")] == ["written", "Bye"]
        assert len(work.llm.requests) == 1


# Approvals


def answer(work: Any, effect: Any, **more: Any) -> None:
    approval = work.heard.event("approval.requested")["approval"]
    decision = Decision(effect=effect)
    work.conversation.decisions.respond(approval["id"], approval["digest"], decision, **more)


@pytest.mark.parametrize(
    ("effect", "status", "words"),
    [("allow", "completed", "hello"), ("reject", "rejected", "The user rejected this: not now")],
)
def test_an_action_waits_for_its_approval(effect: str, status: str, words: str):
    script = [call("echo", words="hello"), say("Done.")]
    with at_work(script, ECHO, policy=ATTENDED, options=ASKING) as work:
        end_future: Future[Json] = Future()
        threading.Thread(target=lambda: end_future.set_result(work.run())).start()
        work.heard.wait_for(lambda _heard: work.conversation.state.status == "waiting")
        answer(work, effect, feedback="not now")
        assert end_future.result(DEADLINE_S).get("finalText") == "Done."
        [item] = work.items("toolCall")
    assert (item["status"], result_of(item)) == (status, words)


def test_an_action_runs_though_its_answer_came_before_the_next_one_was_asked_about():
    def gates(_spec: ToolSpec, intent: Intent) -> list[Gate]:
        if getattr(intent.subject, "args", None) == {"words": "b"} and not answers:
            answers.append(True)
            answer(work, "allow")
        return []

    answers: list[bool] = []
    echo = tool("echo", lambda words: words, read_only=True, words={"type": "string"})
    script = [calls(call("echo", words="a"), call("echo", words="b"))]
    policy = replace(ATTENDED, gates=gates)
    with at_work(script, echo, policy=policy, options=ASKING) as work:
        work.conversation.send(text("go"))
        work.heard.event("item.completed", nth=2)
        [first, second] = work.items("toolCall")
    assert (result_of(first), second["status"]) == ("a", "awaitingApproval")


def test_with_nobody_to_ask_the_action_is_rejected_at_once():
    with at_work([call("echo", words="x"), say("Done.")], ECHO, options=ASKING) as work:
        work.run()
        [item] = work.items("toolCall")
    assert item["status"] == "rejected"
    assert "the user cannot be asked" in result_of(item)


def test_a_pause_while_waiting_keeps_the_approval_and_resume_runs_what_was_allowed():
    script = [call("echo", words="hello"), say("Done.")]
    with at_work(script, ECHO, policy=ATTENDED, options=ASKING) as work:
        conversation = work.conversation
        receipt = conversation.send(text("go"))
        work.heard.wait_for(lambda _heard: conversation.state.status == "waiting")
        conversation.pause("step")
        answer(work, "allow")
        turn_future = turn_end(conversation.journal, receipt["messageId"], receipt["turnId"])
        conversation.resume()
        assert turn_future.result(DEADLINE_S).get("finalText") == "Done."


# Control


def gated_tool(work_on: threading.Event) -> FunctionTool:
    return tool("wait", lambda: "went on" if work_on.wait(DEADLINE_S) else "too late")


def is_running(event: Json) -> bool:
    return event.get("status") == "running"


def begin(work: Any) -> Json:
    """Send a message, and return once its tool runs."""
    receipt = work.conversation.send(text("go"))
    work.heard.wait_for(lambda heard: any(is_running(event) for event in heard.events))
    return receipt


def test_pause_during_a_tool_call_keeps_the_observation():
    gate = threading.Event()
    with at_work([call("wait"), say("Done.")], gated_tool(gate)) as work:
        begin(work)
        work.conversation.pause("step")
        gate.set()
        assert work.heard.event("turn.paused")["reason"] == "user"
        assert result_of(work.items("toolCall")[0]) == "went on"
        assert len(work.llm.requests) == 1
        work.conversation.resume()
        assert work.heard.event("turn.completed")["turn"]["finalText"] == "Done."


def test_an_interrupt_during_a_tool_call_records_it_and_ends_the_turn():
    gate = threading.Event()
    with at_work([call("wait"), say("Never.")], gated_tool(gate)) as work:
        begin(work)
        interrupt_future = work.conversation.interrupt()
        gate.set()
        assert interrupt_future.result(DEADLINE_S)["status"] == "interrupted"
        [item] = work.items("toolCall")
        assert (item["status"], item["reason"]) == ("cancelled", "interrupted")
        assert len(work.llm.requests) == 1


@pytest.mark.parametrize("how", ["interrupt", "pause", "close"])
def test_the_partial_text_of_a_stopped_answer_stays(how: str):
    with at_work([hang(say("Once upon a time", n_chunks=4))]) as work:
        work.conversation.send(text("go"))
        work.heard.wait_for(lambda heard: len(heard.deltas) >= 4)
        if how == "interrupt":
            work.conversation.interrupt().result(DEADLINE_S)
        elif how == "pause":
            work.conversation.pause("now")
            work.heard.event("turn.paused")
        else:
            work.agent.close(DEADLINE_S)
        [item] = work.items("agentMessage")
        status = work.conversation.journal.status
        assert (item["status"], item["reason"]) == ("cancelled", "interrupted")
        assert item["text"] == "Once upon a time"
        assert status == ("idle" if how == "interrupt" else "paused")


def test_a_message_steers_a_running_turn_at_its_next_step():
    gate = threading.Event()
    with at_work([call("wait"), say("Done.")], gated_tool(gate)) as work:
        receipt = begin(work)
        turn_future = turn_end(work.conversation.journal, receipt["messageId"], receipt["turnId"])
        assert work.conversation.send(text("be quick"))["disposition"] == "steered"
        gate.set()
        assert turn_future.result(DEADLINE_S).get("finalText") == "Done."
        assert work.llm.requests[1].body["messages"][-1] == {"role": "user", "content": "be quick"}


def test_a_message_that_comes_with_the_last_answer_is_still_answered():
    gate = threading.Event()
    with at_work([hold_step(say("First."), gate, after=1), say("Second.")]) as work:
        receipt = work.conversation.send(text("go"))
        turn_future = turn_end(work.conversation.journal, receipt["messageId"], receipt["turnId"])
        work.llm.wait_for_requests(1)
        work.conversation.send(text("one more"))
        gate.set()
        assert turn_future.result(DEADLINE_S).get("finalText") == "Second."


def test_a_queued_message_gets_a_turn_of_its_own():
    gate = threading.Event()
    with at_work([call("wait"), say("First."), say("Second.")], gated_tool(gate)) as work:
        begin(work)
        receipt = work.conversation.send(text("then this"), delivery="queue")
        turn_future = turn_end(work.conversation.journal, receipt["messageId"], None)
        gate.set()
        assert turn_future.result(DEADLINE_S).get("finalText") == "Second."
        assert work.heard.event("message.dequeued")["outcome"] == "started"


def test_an_interrupting_message_ends_the_turn_and_starts_the_next():
    with at_work([hang(), say("Second.")]) as work:
        work.conversation.send(text("go"))
        work.llm.wait_for_requests(1)
        with work.conversation.journal.condition:
            receipt = work.conversation.send(text("no, this"), delivery="interrupt")
            turn_future = turn_end(work.conversation.journal, receipt["messageId"], None)
        assert turn_future.result(DEADLINE_S).get("finalText") == "Second."
        assert work.heard.event("turn.completed")["turn"]["status"] == "interrupted"


# Failures


def test_a_retry_is_told_and_what_it_dropped_is_not_sent_again():
    with at_work([cut_step(say("Lost."), 500), say("Kept.")]) as work:
        assert work.run()["finalText"] == "Kept."
        retry = work.heard.event("retry.scheduled")
        [lost_item, kept_item] = work.items("agentMessage")
        assert retry["dropItemIds"] == [lost_item["id"]]
        assert (lost_item["reason"], kept_item["status"]) == ("retried", "completed")


@pytest.mark.parametrize(("status", "reason"), [(503, "network"), (429, "rateLimit")])
def test_a_failure_that_time_may_heal_holds_the_turn(status: int, reason: str):
    with at_work([error(status), error(status), say("Done.")]) as work:
        assert work.run()["status"] == "paused"
        assert work.conversation.state.status_reason == reason
        turn_future = turn_end(work.conversation.journal, "none", work.conversation.state.turn_id)
        work.conversation.resume()
        assert turn_future.result(DEADLINE_S).get("finalText") == "Done."


def test_a_lasting_failure_ends_the_turn_and_says_why():
    with at_work([error(401), say("Done.")]) as work:
        turn = work.run()
        assert (turn["status"], turn["error"]["kind"]) == ("failed", "authRequired")
        assert work.conversation.state.status == "error"
        with work.conversation.journal.condition:
            resume_result = work.conversation.resume()
            turn_future = turn_end(work.conversation.journal, "none", resume_result["turnId"])
        assert turn_future.result(DEADLINE_S).get("finalText") == "Done."


def test_a_bug_fails_the_turn_and_the_agent_lives_on():
    with at_work([say("Done.")]) as work:
        work.conversation.journal.append(e.OptionsChanged(values={"model": "unheard of"}))
        turn = work.run()
        assert (turn["status"], turn["error"]["kind"]) == ("failed", "internalError")
        work.conversation.journal.append(e.OptionsChanged(values={"model": "fake"}))
        assert work.run()["finalText"] == "Done."


class Filling(MemoryLog):
    """A log whose disk is full while `is_full` is set."""

    is_full = False

    def append(self, lines: bytes) -> None:
        if self.is_full:
            raise StorageError("no space left")
        super().append(lines)


def test_a_full_disk_stops_the_agent_and_resume_goes_on():
    log, gate = Filling(), threading.Event()
    with at_work([call("wait"), say("Done.")], gated_tool(gate), log=log) as work:
        receipt = begin(work)
        log.is_full = True
        gate.set()
        assert work.heard.wait_for(lambda heard: heard.errors) == ["no space left"]
        log.is_full = False
        with work.conversation.journal.condition:
            work.conversation.resume()
            turn_future = turn_end(
                work.conversation.journal, receipt["messageId"], receipt["turnId"]
            )
        assert turn_future.result(DEADLINE_S).get("finalText") == "Done."
        [item] = work.items("toolCall")
        assert item["reason"] == "outcomeUnknown"


class NotedLog(MemoryLog):
    """Notes which events were appended, and when they were made durable."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.pieces: list[list[str]] = []
        """The events of each append."""

    def append(self, lines: bytes) -> None:
        super().append(lines)
        self.pieces.append([orjson.loads(line)["event"]["type"] for line in lines.splitlines()])
        self.notes += self.pieces[-1]

    def sync(self) -> None:
        self.notes.append("sync")

    def note_events(self, *expected_reason: str) -> list[str]:
        return [note for note in self.notes if note in {"sync", *expected_reason}]


def test_an_action_is_on_the_disk_before_somebody_is_waited_for_and_before_it_runs():
    log = NotedLog()
    write = tool("write", lambda: log.notes.append("written"))
    asking = replace(NO_POLICY, can_ask=lambda: log.notes.append("asked") is None)
    script = [call("write"), say("Done.")]
    with at_work(script, write, policy=asking, log=log, options=ASKING) as work:
        work.conversation.send(text("go"))
        approval = work.heard.event("approval.requested")["approval"]
        allow = Decision(effect="allow", scope="once")
        work.conversation.decisions.respond(approval["id"], approval["digest"], allow)
        work.heard.event("turn.completed")
    log_entries = log.note_events(
        "approval.requested", "asked", "item.updated", "written", "turn.completed"
    )
    assert log_entries == [
        *("item.updated", "approval.requested", "sync", "asked"),
        *("item.updated", "sync", "written"),
        *("turn.completed", "sync"),
    ]


def test_no_kill_leaves_a_checkpoint_without_the_files_of_its_turn():
    change = FileChange(uri="file:///a", op="add", added=1, removed=0, sha256_after="one")
    checkpoint = e.CheckpointCreated(before={}, after={}, n_files=1, changes=(change,))
    log, write = NotedLog(), tool("write", lambda: "done")
    script = [call("write"), say("Done.")]
    with at_work(script, write, log=log, watch=lambda _cancel: lambda: checkpoint) as work:
        work.run()
    assert ["checkpoint.created", "changes.updated"] in log.pieces


@pytest.mark.parametrize("end", ["refused", "interrupted"])
def test_a_turn_that_ends_early_is_on_the_disk_too(end: str):
    log = NotedLog()
    with at_work([error(401) if end == "refused" else hang()], log=log) as work:
        work.conversation.send(text("go"))
        if end == "interrupted":
            work.llm.wait_for_requests(1)
            work.conversation.interrupt()
        work.heard.event("turn.completed")
    assert log.note_events("turn.completed") == ["turn.completed", "sync"]
