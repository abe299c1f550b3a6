"""What this front calls things: what `wire` has to know of our methods.

It is imported before `initialize` is answered, so it imports next to nothing.
"""

from __future__ import annotations

from oh_daemon.contract.protocol import NOTIFICATIONS
from oh_daemon.fronts.wire.outbox import DeltaStream, Notifications

URGENT = frozenset(
    {
        *("shutdown", "conversation/interrupt", "conversation/pause", "conversation/close"),
        *("approval/respond", "input/respond"),
    }
)
"""Served even when too many other requests are open, since these make room."""


def _delta(stream: DeltaStream, offset: int, text: str) -> object:
    return {
        "conversationId": stream.conversation_id,
        "turnId": stream.turn_id,
        "itemId": stream.item_id,
        "channel": stream.channel,
        "offset": offset,
        "text": text,
    }


def _gap(conversation_id: str, first_seq: int, last_seq: int) -> object:
    return {"conversationId": conversation_id, "fromSeq": first_seq, "toSeq": last_seq}


OUTGOING = Notifications(
    cancel="$/cancelRequest",
    event="conversation/event",
    delta="conversation/delta",
    delta_params=_delta,
    gap="conversation/gap",
    gap_params=_gap,
    repeatable=frozenset(method.name for method in NOTIFICATIONS),
)
