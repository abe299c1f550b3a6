"""User actions that come between two looks of the agent's worker at the conversation."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future

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
from fake_llm import Json, call, calls, say
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.hooks.hooks import NO_HOOKS, HookRun
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.extension_points import Gate
from oh_daemon.kernel.function_tool import FunctionTool
from oh_daemon.kernel.ports import Intent, ModelAnswer, ModelRequest, Progress, ToolSpec, Traits
from oh_daemon.kernel.turns import turn_end
from oh_daemon.protocol import events as e
from oh_daemon.protocol.approvals import TrustSubject
from oh_daemon.protocol.errors import NetworkError
from oh_daemon.protocol.rules_and_hooks import HookCommand, HookGroup

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]

ASKING = {"mode": "ask", "approval": "askAlways", "model": "fake"}


def echo(name: str) -> FunctionTool:
    return tool(name, lambda: name, read_only=True)


def end_names(heard: Heard) -> list[str]:
    """Return the tools whose calls have ended, one entry for each end."""
    items = [event["item"] for event in heard.events if event["type"] == "item.completed"]
    return [item["tool"] for item in items if item["kind"] == "toolCall"]


def test_whoever_waits_for_the_end_of_a_turn_finds_the_conversation_at_rest():
    conversation = new_conversation()
    receipt, names = conversation.send(text("go")), list[str]()
    turn_future = turn_end(conversation.journal, receipt["messageId"], receipt["turnId"])
    turn_future.add_done_callback(lambda _: names.append(conversation.state.status))
    conversation.turns.pause("user")
    assert (turn_future.result()["status"], names) == ("paused", ["paused"])


def test_a_call_that_ends_while_others_are_planned_does_not_run_again():
    class Watchful(FunctionTool, frozen=True):
        """When it is planned again while `slow` runs, it first waits for that call to end."""

        def plan(self, args: Json) -> Intent:
            if go_on.is_set() or "quick" not in end_names(work.heard):
                return super().plan(args)
            go_on.set()
            for thread in threading.enumerate():
                if thread.name.startswith("tool-"):
                    thread.join(DEADLINE_S)
            return super().plan(args)

    go_on = threading.Event()
    first = Watchful(echo("first").spec, lambda: "first")
    slow = tool("slow", lambda: go_on.wait(DEADLINE_S), read_only=True)
    subject = TrustSubject(folder="/p")

    def gates(spec: ToolSpec, _intent: Intent) -> list[Gate]:
        return [Gate(subject, "Trust?", True, lambda _: None)] if spec.name == "first" else []

    policy = replace(ATTENDED, gates=gates)
    script = [calls(call("first"), call("slow"), call("quick")), say("Done.")]
    with at_work(script, first, slow, echo("quick"), policy=policy) as work:
        work.conversation.send(text("go"))
        work.heard.wait_for(lambda _: work.conversation.state.status == "waiting")
        assert sorted(end_names(work.heard)) == ["quick", "slow"]


@pytest.mark.parametrize(
    ("approval", "refusal"), [("askAlways", None), ("askRisky", None), ("askRisky", "never")]
)
def test_a_message_takes_the_place_of_a_call_that_is_just_looked_at(
    approval: str, refusal: str | None
):
    """The second call needs an approval, may run at once, or must not run at all."""
    subject = TrustSubject(folder="/p")

    def gates(spec: ToolSpec, _intent: Intent) -> list[Gate]:
        if spec.name == "first":
            return [Gate(subject, "Trust?", True, lambda _: None)]
        if not texts:
            texts.append(work.conversation.send(text("no, wait"))["disposition"])
        refusing_gate = Gate(subject, "Trust?", True, lambda _: None, refusal=refusal)
        return [refusing_gate] if refusal else []

    texts: list[str] = []
    policy = replace(ATTENDED, gates=gates)
    script = [calls(call("first"), call("second")), say("Done.")]
    tools, options = [echo("first"), echo("second")], {**ASKING, "approval": approval}
    with at_work(script, *tools, policy=policy, options=options) as work:
        assert work.run()["finalText"] == "Done."
        assert (texts, end_names(work.heard)) == (["steered"], ["first", "second"])
        assert [item["reason"] for item in work.items("toolCall")] == ["superseded"] * 2
        assert work.conversation.state.pending == {}


def test_a_stop_is_a_stop_though_a_pause_was_asked_for_and_somebody_must_answer():
    def gates(_spec: ToolSpec, _intent: Intent) -> list[Gate]:
        if not futures:
            work.conversation.pause("step")
            futures.append(work.conversation.interrupt())
        return []

    futures: list[Future[Json]] = []
    policy = replace(ATTENDED, gates=gates)
    with at_work([call("echo")], echo("echo"), policy=policy, options=ASKING) as work:
        assert work.run()["status"] == "interrupted"
        assert futures[0].result(DEADLINE_S)["status"] == "interrupted"
        assert work.conversation.state.status == "idle"


class Unreachable:
    """A model whose network fails at the very moment at which the user stops it."""

    name = label = "fake"
    traits = Traits()
    edits_by_patch = False

    def __init__(self, stop: Callable[[], object]) -> None:
        self.stop = stop

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:  # noqa: ARG002 - the port's shape.
        self.stop()
        raise NetworkError("no way to the model")


def test_a_stop_is_a_stop_though_the_network_fails_in_that_moment():
    conversation, futures = new_conversation(), list[Future[Json]]()
    model = Unreachable(lambda: futures.append(conversation.interrupt()))
    agent = AgentLoop(conversation, runtime_of(conversation, lambda _: model))
    receipt = conversation.send(text("go"))
    turn_future = turn_end(conversation.journal, receipt["messageId"], receipt["turnId"])
    agent.start()
    try:
        assert turn_future.result(DEADLINE_S)["status"] == "interrupted"
        assert futures[0].result(DEADLINE_S)["status"] == "interrupted"
    finally:
        agent.close(DEADLINE_S)


def test_hooks_see_a_message_also_after_a_rollback():
    def run(_hooks: object, expected_text: str, _cancel: CancelToken) -> list[HookRun]:
        prompts.append(json.loads(expected_text)["prompt"])
        return [HookRun("h", 0, "", "")]

    prompts: list[str] = []
    table = {"UserPromptSubmit": (HookGroup(hooks=(HookCommand(type="command", command="h"),)),)}
    hooks = replace(NO_HOOKS, table=lambda: table, run=run, may_run=lambda _command: True)
    with at_work([call("echo"), say("Done."), say("Done.")], echo("echo"), hooks=hooks) as work:
        work.run("first")
        rolled_back = e.ConversationRolledBack(
            to_seq=1, to_item_id=work.conversation.state.items[0]["id"], files="keep"
        )
        work.conversation.journal.append(rolled_back)
        work.run("second")
    assert prompts == ["first", "second"]
