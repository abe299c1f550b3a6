"""The checker finds what it is there to find, and accepts what is in order."""

from typing import Any

import pytest

from oh_daemon.conformance.ordering import OrderingChecker

Json = dict[str, Any]


def event(seq: int, kind: str, *, turn: Any = "t", epoch: Any = "e", **more: Any) -> Json:
    params = {"conversationId": "c", "seq": seq, "epoch": epoch, "turnId": turn}
    for name in ("itemId", "cause"):
        if name in more:
            params[name] = more.pop(name)
    return {"method": "conversation/event", "params": {**params, "event": {"type": kind, **more}}}


def delta(offset: int, text: str = "ab") -> Json:
    params = {"conversationId": "c", "itemId": "i", "channel": "text"}
    return {"method": "conversation/delta", "params": {**params, "offset": offset, "text": text}}


def request_message(method: str, **params: Any) -> Json:
    return {"sent": {"id": 1, "method": method, "params": {"conversationId": "c", **params}}}


def response_message(**result: Any) -> Json:
    return {"id": 1, "result": result}


ITEM = {"item": {"id": "i"}}
STARTED, COMPLETED = event(1, "item.started", **ITEM), event(2, "item.completed", **ITEM)
APPROVAL = {"approval": {"id": "a", "itemId": "i"}}
SEND = request_message("conversation/sendMessage", clientRequestId="r")
OPEN = request_message("conversation/open")
SENT = response_message(disposition="started", turnId="t")
WAIT = request_message("conversation/sendMessage", wait="completed")


def check(traffic: list[Json]) -> set[str]:
    checker = OrderingChecker()
    for message in traffic:
        if "sent" in message:
            checker.on_sent(message["sent"])
        else:
            checker.on_received(message)
    return {text.split(":")[0] for text in checker.violations}


@pytest.mark.parametrize(
    ("rule", "traffic"),
    [
        ("O1", [event(1, "notice"), event(3, "notice")]),
        ("O1", [event(2, "notice"), event(2, "notice")]),
        ("O1", [OPEN, response_message(lastSeq=5), event(7, "notice")]),
        ("epoch", [event(1, "notice"), event(2, "notice", epoch="f")]),
        ("O3", [SEND, event(1, "turn.started"), SENT]),
        ("O3", [SEND, event(1, "message.queued", cause={"clientRequestId": "r"})]),
        ("O3", [OPEN, event(6, "notice"), response_message(lastSeq=5)]),
        ("O3", [WAIT, event(1, "turn.started"), response_message(turnId="t")]),
        ("O4", [STARTED, COMPLETED, delta(0)]),
        ("O4", [delta(0), STARTED]),
        ("O4", [STARTED, COMPLETED, event(3, "item.updated", itemId="i")]),
        ("delta", [STARTED, delta(0), delta(1)]),
        ("O5", [event(1, "notice"), {"id": 9, "method": "approval/request",
                                     "params": {"id": "a", "conversationId": "c"}}]),
        ("O5", [event(1, "approval.requested", **APPROVAL), COMPLETED]),
        ("O5", [event(1, "input.requested", input=APPROVAL["approval"]), COMPLETED]),
        ("O6", [event(1, "turn.completed"), event(2, "usage.updated")]),
        ("O7", [event(1, "status.changed", **{"from": "idle", "to": "running"}),
                event(2, "status.changed", **{"from": "idle", "to": "running"})]),
        ("S1", [event(1, "status.changed", **{"from": "idle", "to": "finished"})]),
    ],
)  # fmt: skip
def test_what_is_out_of_order_is_found(rule: str, traffic: list[Json]) -> None:
    assert check(traffic) == {rule}


def test_what_is_in_order_passes() -> None:
    traffic = [
        SEND,
        response_message(disposition="started", turnId="t"),
        event(1, "turn.started"),
        event(2, "item.started", **ITEM),
        delta(0),
        delta(2),
        delta(9),
        event(3, "approval.requested", **APPROVAL),
        {"id": 9, "method": "approval/request", "params": {"id": "a", "conversationId": "c"}},
        event(4, "approval.resolved", approvalId="a"),
        event(5, "item.completed", **ITEM),
        {"method": "conversation/gap", "params": {"conversationId": "c", "fromSeq": 6, "toSeq": 8}},
        event(9, "turn.completed"),
        event(10, "status.changed", **{"from": "running", "to": "idle"}),
        request_message("conversation/open"),
        response_message(lastSeq=12, conversation={"epoch": "f"}),
        event(13, "notice", turn=None, epoch="f"),
        WAIT,
        event(14, "turn.started", turn="u", epoch="f"),
        event(15, "input.requested", turn="u", epoch="f", input={"id": "b", "itemId": "j"}),
        event(16, "turn.paused", turn="u", epoch="f"),
        response_message(turnId="u", turn={"status": "paused"}),
        request_message("conversation/open"),
        response_message(lastSeq=18, conversation={"epoch": "f"}),
        event(19, "item.completed", turn="u", epoch="f", item={"id": "j"}),
        event(20, "turn.completed", turn="u", epoch="f"),
    ]
    assert check(traffic) == set()
