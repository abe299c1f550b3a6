"""The methods as data: where each is handled, and what its handler needs.

`calls` does all that is said here. It imports next to nothing, since the main loop needs it first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from oh_daemon.jsonrpc.outbox import DeltaStream, Notifications
from oh_daemon.protocol.methods import NOTIFICATIONS


@dataclass(frozen=True, slots=True)
class Needs:
    """What a handler needs. It is a function of the method's name, as `terminal_list`.

    It takes what it names of `daemon`, `params`, `context`, `folders` (those that were open when
    the request came), `request` (for `clientRequestId`), `conversation_id`, `live` and `history`.
    It may return a future.
    """

    conversation: Literal[
        "none", "new", "open", "open if named", "open if there", "asking", "history"
    ] = "none"
    """Awaited if it is being opened. A history is only read, so one that is followed will do;
    "asking" is the one that waits for this answer of the user."""
    thread: Literal["main", "worker", "in order", "in order if it refers", "own"] = "main"
    """On "main" it must not block. "in order" is a worker too, and what comes later for this
    conversation waits; "if it refers" only if the message refers to what is on the disk."""
    is_once: bool = False
    """A request that comes again with the same id is answered as before, without the handler."""
    is_durable: bool = False
    """It is answered once everything appended so far is on the disk."""
    events: Literal["free", "after", "around"] = "free"
    """"after": those that it causes come after the answer. "around": the answer has its place
    among them."""
    is_urgent: bool = False
    """Served even when too many other requests are open, since it makes room; it does not wait
    for the import of other handlers."""


_LISTS = Needs(thread="worker")
_LOOKS = Needs("open", "worker", events="after")
_CHANGES_FILES = Needs("open", "in order", events="after")
_WORKS_ONCE = Needs("open", is_once=True, is_durable=True, events="after")
_ANSWERS = Needs("asking", is_durable=True, events="after", is_urgent=True)
_AT_ONCE = Needs()

METHODS: dict[str, dict[str, Needs]] = {
    "handlers_conversation": {
        "conversation/start": Needs("new", "in order", is_durable=True, events="after"),
        "conversation/open": Needs(thread="in order"),
        "conversation/close": Needs("history", events="around", is_urgent=True),
        "conversation/update": Needs(thread="in order", events="after"),
        "conversation/delete": Needs(thread="in order"),
        "conversation/sendMessage": Needs(
            "open", "in order if it refers", is_once=True, is_durable=True
        ),
        "conversation/pause": replace(_WORKS_ONCE, is_urgent=True),
        "conversation/resume": replace(_WORKS_ONCE, thread="in order if it refers"),
        "conversation/condense": _WORKS_ONCE,
        "conversation/interrupt": Needs("open", events="around", is_urgent=True),
        "conversation/queue": Needs(
            "open", "in order if it refers", is_durable=True, events="after"
        ),
        "conversation/setOption": Needs("open", is_durable=True, events="after"),
        "conversation/ask": Needs("open", "own"),
        "conversation/subscribe": Needs("history"),
        "conversation/unsubscribe": _AT_ONCE,
    },
    "handlers_history": {
        "conversation/list": _AT_ONCE,
        "conversation/read": _LISTS,
        "conversation/events": _LISTS,
        "output/read": Needs("history", "worker"),
    },
    "handlers_daemon": {
        "approval/list": Needs("open if named"),
        "approval/respond": _ANSWERS,
        "input/respond": _ANSWERS,
        "tool/list": Needs("open if named"),
        # On the main loop, since pieces are taken in the order in which they arrive.
        "attachment/put": _AT_ONCE,
        "config/read": _AT_ONCE,
        "config/validate": _AT_ONCE,
        "secret/set": _AT_ONCE,
        "secret/remove": _AT_ONCE,
        "secret/list": _AT_ONCE,
        "daemon/status": _AT_ONCE,
        "model/list": _AT_ONCE,
        "workspace/setTrust": _AT_ONCE,
    },
    "handlers_changes": {
        "changes/list": _LOOKS,
        "changes/diff": _LOOKS,
        "changes/accept": _CHANGES_FILES,
        "changes/revert": _CHANGES_FILES,
    },
    "handlers_branches": {
        "conversation/export": _LISTS,
        "conversation/fork": _LISTS,
        "conversation/rollback": _CHANGES_FILES,
        "checkpoint/list": _LOOKS,
        "checkpoint/restore": _CHANGES_FILES,
        "usage/read": _LISTS,
    },
    "handlers_offers": {
        "mcp/list": _LISTS,
        "mcp/setEnabled": _LISTS,
        "mcp/restart": _LISTS,
        "mcp/authenticate": _LISTS,
        "agent/list": _LISTS,
        "command/list": _LISTS,
        "skill/list": _LISTS,
        "context/search": _LISTS,
        "model/check": Needs(thread="own"),
        "model/discover": _LISTS,
    },
    "handlers_terminal": {
        "port/list": Needs("open"),
        "port/open": _LOOKS,
        "terminal/list": Needs("open if there"),
        "terminal/read": _LOOKS,
        "terminal/write": Needs("open"),
        "terminal/kill": _LOOKS,
    },
}
"""By module. Most are imported at the first request for one of their methods."""
AT_ONCE = frozenset({"handlers_conversation", "handlers_history", "handlers_daemon"})
"""These are imported with the services: what a client asks first, and what may not be overtaken by
a message that follows it (an interrupt, an approval, a start)."""
NEEDS = {name: needs for rows in METHODS.values() for name, needs in rows.items()}
URGENT = frozenset({"shutdown", *(name for name, needs in NEEDS.items() if needs.is_urgent)})


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
    cancel_params=lambda request_id: {"id": request_id},
    event="conversation/event",
    delta="conversation/delta",
    delta_params=_delta,
    gap="conversation/gap",
    gap_params=_gap,
    repeatable=frozenset(method.name for method in NOTIFICATIONS),
)
