"""Clients do not wait: whatever they ask of conversations in any order, the rules of order hold."""

import os
import random
from collections import Counter
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, calls, chunks, error, hang, say
from raw_client import RawClient
from world import World, text

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
STEPS = (
    *(hang(), hang(chunks(3)), error(500), say("Hello there.", n_chunks=4)),
    *(call("terminal", command=command) for command in ("sleep 0.05", "echo hi", "sleep 30")),
    calls(call("think", thought="a"), call("todo", entries=[]), call("terminal", command="true")),
    *(call("ask", question="What?"), call("finish", message="Done.")),
)
APPROVALS = ("askNever", "askAlways", "askRisky")
OFFERED: dict[str, tuple[Json, ...]] = {
    "sendMessage": tuple(
        {"content": text("More."), "delivery": delivery, **more}
        for delivery in ("auto", "queue", "steer", "interrupt")
        for more in ({}, {"run": False}, {"wait": "completed"}, {"clientMessageId": "m"})
    ),
    "pause": ({"when": "now"}, {"when": "step"}),
    "queue": ({"op": "list"},),
    "setOption": tuple({"optionId": "approval", "value": value} for value in APPROVALS),
    "open": ({"replay": "items"}, {"replay": "events"}, {}),
    "close": tuple({"ifRunning": how} for how in ("error", "interrupt", "pause")),
    "events": ({"limit": 5},),
    "update": ({"title": "New"},),
    "rollback": ({"files": "keep"}, {"files": "restore"}),
    **{name: ({},) for name in ("resume", "interrupt", "condense", "subscribe", "read", "fork")},
}


def of(client: RawClient, conversation: str, kind: str) -> list[Json]:
    """Return all events of this kind in the conversation so far."""
    own_events = (
        params["event"] for params in client.events if params["conversationId"] == conversation
    )
    return [event for event in own_events if event["type"] == kind]


def answer_all(client: RawClient, conversation: str, chance: random.Random) -> None:
    """Answer each approval and question that was ever asked, also those that are decided."""
    for event in of(client, conversation, "approval.requested"):
        params = {"approvalId": event["approval"]["id"], "digest": event["approval"]["digest"]}
        option = chance.choice(["allow-once", "reject"])
        client.send_request("approval/respond", {**params, "optionId": option})
    for event in of(client, conversation, "input.requested"):
        params = {"inputId": event["input"]["id"], "content": "That."}
        client.send_request("input/respond", {**params, "action": "accept"})


def ask_something(client: RawClient, conversation: str, chance: random.Random) -> int | None:
    """Send a request; return its id if nothing that ends a conversation waits for its answer."""
    method = chance.choice(list(OFFERED))
    params = {"conversationId": conversation, **chance.choice(OFFERED[method])}
    if method == "rollback":
        items_ended = [event["item"] for event in of(client, conversation, "item.completed")]
        message_ids = [item["id"] for item in items_ended if item["kind"] == "userMessage"]
        params["toItemId"] = chance.choice(message_ids or ["none yet"])
    request = client.send_request(f"conversation/{method}", params)
    if chance.random() < 1 / 3 and "wait" not in params:
        client.answer_to(request)
    if chance.random() < 1 / 16:
        client.notify("$/cancelRequest", {"id": request})
    return request if method == "fork" else None


def end(world: World, client: RawClient, conversation: str) -> None:
    """Interrupt and close it; check that its log is whole and nothing in it is left open."""
    params = {"conversationId": conversation}
    client.send_request("conversation/open", params)
    client.request("conversation/interrupt", {**params, "clearQueue": True})
    client.request("conversation/close", {**params, "ifRunning": "interrupt"})
    records = world.records_of(conversation)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    n_of = Counter(record["event"]["type"] for record in records)
    assert n_of["turn.started"] == n_of["turn.completed"]
    ended_ids = {r["itemId"] for r in records if r["event"]["type"] == "item.completed"}
    begun_ids = {r["itemId"] for r in records if r["event"]["type"] == "item.started"}
    assert begun_ids <= ended_ids


@pytest.mark.parametrize("n_rounds", [5, pytest.param(300, marks=pytest.mark.full)])
def test_requests_in_any_order_break_no_rule_and_leave_nothing_open(
    world: World, n_rounds: int
) -> None:
    chance = random.Random(int(os.environ["OH_TEST_SEED"]))
    steps = random.Random(chance.random())

    def step(_request: Json) -> Step:
        return steps.choice(STEPS)

    world.llm = world.stack.enter_context(FakeLLM(step))
    world.common = None
    client = world.daemon(client={"name": "test", "kind": "panel"}, features={})
    for _ in range(n_rounds):
        both = [world.start(client, options={"approval": chance.choice(APPROVALS)}) for _ in "ab"]
        forks: list[int | None] = []
        for _ in range(chance.randrange(5, 40)):
            conversation = chance.choice(both)
            if chance.random() < 1 / 8:
                answer_all(client, conversation, chance)
            forks.append(ask_something(client, conversation, chance))
        for request in filter(None, forks):
            client.answer_to(request)
        branches = [load["id"] for load in client.request("daemon/status")["conversations"]]
        for conversation in {*both, *branches}:
            end(world, client, conversation)
        errors = [m for m in client.messages if m.get("error", {}).get("code") == -32603]
        assert errors == []
        # This checks that everything is answered, and in order.
        client.settle()
