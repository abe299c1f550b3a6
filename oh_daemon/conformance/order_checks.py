"""The order of events, and of the status: rules O and S, on one session that all look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oh_daemon.conformance.bench import Bench, TestSession, checks, expect, is_delta
from oh_daemon.conformance.ordering import TRANSITIONS
from oh_daemon.conformance.rpc_process import Json, NoAnswer, part
from oh_daemon.conformance.scripted_model import call, script_reply

RESULT: Json = {"content": [{"type": "text", "text": "probed"}]}
PAUSES = {"paused"}


def allow(params: Json) -> Json:
    return {"optionId": option_of(params, "allow")}


def option_of(approval: Json, effect: str) -> str:
    """Return the id of the narrowest option of this effect."""
    options = [each for each in approval["options"] if each["effect"] == effect]
    return next(each["id"] for each in options if each["scope"] == "once")


def leave_open(_params: Json) -> Any:
    raise NoAnswer


def busy(runtime: Bench, **params: Any) -> TestSession:
    """Start a conversation whose turn goes on until `release`: a tool of the client runs."""
    runtime.server.answer("tool/call", leave_open)
    talk = runtime.talk(call("look", n=1), **params)
    talk.expect_request("tool/call")
    return talk


def release(talk: TestSession) -> None:
    talk.server.send(
        {"jsonrpc": "2.0", "id": talk.expect_request("tool/call")["id"], "result": RESULT}
    )


@dataclass(frozen=True)
class TwoTurns:
    """Two turns, of which the second asks for approval, and all that came of them."""

    talk: TestSession
    turns: list[Json]
    messages: list[Json]
    violations: list[tuple[str, Json]]

    @property
    def events(self) -> list[Json]:
        return [m["params"] for m in self.messages if m.get("method") == "conversation/event"]

    @property
    def deltas(self) -> list[Json]:
        return [m["params"] for m in self.messages if is_delta(m)]


def play_session(runtime: Bench) -> TwoTurns:
    server = runtime.server
    server.answer("approval/request", allow)
    server.answer("tool/call", lambda _params: RESULT)
    n_messages, n_before = len(server.messages), len(server.ordering.violations)
    talk = runtime.talk(script_reply("One ", "two ", "three."))
    turns = [talk.wait_until_idle()]
    runtime.model.play(call("look", n=1), call("probe", n=2), script_reply("It is done."))
    talk.send("Go on.", clientRequestId="session-2")
    turns.append(talk.wait_until_idle(2))
    messages = [each for each in server.messages[n_messages:] if _is_about(each, talk.id)]
    return TwoTurns(talk, turns, messages, server.ordering.offences[n_before:])


def _is_about(message: Json, conversation: str) -> bool:
    params = part(message, "params") or part(message, "result")
    of_start = part(params, "conversation").get("id")
    return conversation in {params.get("conversationId"), of_start}


def _in_order(runtime: Bench, rule: str) -> TwoTurns:
    session = runtime.once(play_session)
    for violation, message in session.violations:
        expect(not violation.startswith(f"{rule}:"), violation, message)
    return session


# Order


def seq(runtime: Bench) -> None:
    events = _in_order(runtime, "O1").events
    expect(events[0]["seq"] == 1, "the first is 1", events[0])


def answers_first(runtime: Bench) -> None:
    _in_order(runtime, "O3")


def items(runtime: Bench) -> None:
    session = _in_order(runtime, "O4")
    expect(session.deltas, "text must come in deltas while it is written")


def approvals_in_order(runtime: Bench) -> None:
    session = _in_order(runtime, "O5")
    kinds = [each["event"]["type"] for each in session.events]
    expect("approval.requested" in kinds and "approval.resolved" in kinds, f"{kinds}")


def ends_of_turns(runtime: Bench) -> None:
    session = _in_order(runtime, "O6")
    texts = [turn.get("finalText") for turn in session.turns]
    is_right = texts == ["One two three.", "It is done."]
    expect(is_right, f"the final texts are {texts}", *session.turns)
    expect({turn["status"] for turn in session.turns} == {"completed"}, "both have completed")


def status_follows(runtime: Bench) -> None:
    session = runtime.once(play_session)
    for each in session.events:
        is_right = each["event"]["type"] != "status.changed" or "turnId" not in each
        expect(is_right, "it carries no turnId", each)
    kinds = [each["event"]["type"] for each in session.events]
    is_first = kinds.index("turn.started") < kinds.index("status.changed")
    expect(is_first, f"a turn's start precedes its status: {kinds}")


def arrival_order(runtime: Bench) -> None:
    talk = busy(runtime)
    ids = [talk.post(f"Number {number}", delivery="queue") for number in range(5)]
    positions = [talk.server.result_of(each)["queuePosition"] for each in ids]
    expect(positions == [0, 1, 2, 3, 4], f"the positions are {positions}")


def offsets(runtime: Bench) -> None:
    session = _in_order(runtime, "delta")
    text_by_id = {
        each["event"]["item"]["id"]: each["event"]["item"].get("text", "")
        for each in session.events
        if each["event"]["type"] == "item.completed"
    }
    for delta in session.deltas:
        start = delta["offset"]
        piece = text_by_id[delta["itemId"]][start : start + len(delta["text"])]
        expect(piece == delta["text"], f"the item has {piece!r} there", delta)


def absent_fields(runtime: Bench) -> None:
    for message in runtime.once(play_session).messages:
        expect("null" not in _constants(message), "a field is null", message)


def _constants(value: Any) -> set[str]:
    if isinstance(value, dict | list):
        parts: list[Any] = [*(value.values() if isinstance(value, dict) else value)]
        return {each for part in parts for each in _constants(part)}
    return {"null"} if value is None else set()


def statuses(runtime: Bench) -> None:
    now = "idle"
    for each in runtime.once(play_session).events:
        event = each["event"]
        if event["type"] == "status.changed":
            is_right = event["from"] == now and event["to"] in TRANSITIONS.get(now, ())
            expect(is_right, f"from {now} to one of {TRANSITIONS.get(now)}", each)
            now = event["to"]
    expect(now in {"idle", "finished"}, f"at the end it is {now}")


def reasons(runtime: Bench) -> None:
    talk = busy(runtime)
    talk.request("conversation/pause", when="now")
    talk.server.wait_for_event(
        lambda each: each["conversationId"] == talk.id and each["event"].get("to") == "paused"
    )
    for each in talk.events("status.changed"):
        event = each["event"]
        expect(("reason" in event) == (event["to"] in PAUSES), "not so", each)


ORDER = checks(
    "core",
    {
        "O1": seq,
        "O3": answers_first,
        "O4": items,
        "O5": approvals_in_order,
        "O6": ends_of_turns,
        "O7": status_follows,
        "O9": arrival_order,
        "O11": offsets,
        "B17": absent_fields,
        "S1": statuses,
        "S2": reasons,
    },
)
