"""The methods as data: the module of each handler, its thread, and the order of its answer.

`method_calls` does what is said here, and `handler_arguments` finds what a handler takes. This
module imports next to nothing, since the main loop needs it first.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.jsonrpc.outbox import DeltaStream, Notifications
from oh_daemon.protocol.methods import NOTIFICATIONS


class Needs(Struct, frozen=True):
    """The needs of one handler, a function of the method's name such as `terminal_list`.

    It takes its arguments by the names in `handler_arguments`, and may return a future.
    """

    conversation: Literal[
        "none", "new", "open", "open if named", "open if there", "asking", "history"
    ] = "none"
    """Awaited if it is being opened. A history is only read, so one that is followed will do;
    "asking" is the one that waits for this answer of the user."""
    thread: Literal[
        "main", "worker", "in order", "in order if it refers", "own", "own if it searches"
    ] = "main"
    """On "main" it must not block. "in order" is a worker too, and what comes later for this
    conversation waits; "if it refers" only if the message refers to what is on the disk. "own" is
    a thread of its own, for what may take minutes; "if it searches" a worker otherwise."""
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
_ON_MAIN = Needs()

AT_ONCE: dict[str, dict[str, Needs]] = {
    "frontends.lsp.handlers_conversation": {
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
        "conversation/unsubscribe": _ON_MAIN,
    },
    "frontends.lsp.handlers_daemon": {"daemon/status": _ON_MAIN},
    "conversations.handlers": {
        # The first search of all texts may take minutes, and the workers have other things to do.
        "conversation/list": Needs(thread="own if it searches"),
        "conversation/read": _LISTS,
        "conversation/events": _LISTS,
        "output/read": Needs("history", "worker"),
        "usage/read": _LISTS,
        "tool/list": Needs("open if named", "worker"),
        "agent/list": _LISTS,
    },
    "features.approval.handlers": {
        "approval/list": Needs("open if named"),
        "approval/respond": _ANSWERS,
        "input/respond": _ANSWERS,
    },
    # On the main loop, since pieces are taken in the order in which they arrive.
    "features.attachments.images": {"attachment/put": _ON_MAIN},
    "features.models.handlers": {
        "model/list": _ON_MAIN,
        "model/check": Needs(thread="own"),
        "model/discover": _LISTS,
    },
    "features.settings.handlers": {
        "config/read": _ON_MAIN,
        "config/validate": _ON_MAIN,
        "secret/set": _ON_MAIN,
        "secret/remove": _ON_MAIN,
        "secret/list": _ON_MAIN,
    },
    "features.trust.handlers": {"workspace/setTrust": _ON_MAIN},
}
"""Handlers by module, imported with the services: a client asks for them first, or a message that
follows must not overtake them (an interrupt, an approval, a start)."""
LATER: dict[str, dict[str, Needs]] = {
    "conversations.context_search": {"context/search": _LISTS},
    "conversations.export": {"conversation/export": _LISTS},
    "conversations.history": {
        "conversation/fork": _LISTS,
        "conversation/rollback": _CHANGES_FILES,
        "checkpoint/list": _LOOKS,
        "checkpoint/restore": _CHANGES_FILES,
    },
    "features.mcp.handlers": {
        "mcp/list": _LISTS,
        "mcp/setEnabled": _LISTS,
        "mcp/restart": _LISTS,
        "mcp/authenticate": _LISTS,
    },
    "features.network.handlers": {"port/list": Needs("open"), "port/open": _LOOKS},
    "features.review.handlers": {
        "changes/list": _LOOKS,
        "changes/diff": _LOOKS,
        "changes/keep": _CHANGES_FILES,
        "changes/undo": _CHANGES_FILES,
        "changes/apply": _CHANGES_FILES,
        "changes/discard": _CHANGES_FILES,
    },
    "features.skills.handlers": {"command/list": _LISTS, "skill/list": _LISTS},
    "features.terminal.handlers": {
        "terminal/list": Needs("open if there"),
        "terminal/read": _LOOKS,
        "terminal/write": Needs("open"),
        "terminal/kill": _LOOKS,
    },
}
"""Handlers by module, imported at the first request for one of their methods."""
METHODS = AT_ONCE | LATER
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
