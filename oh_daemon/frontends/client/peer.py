"""A client's end of a connection, but for reading: requests, answers, and what both mean.

`DaemonClient` and `AsyncDaemonClient` read frames, each in its way, and give them to it. It knows
nothing of what a daemon is made of; what the client has no method for is refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from oh_daemon.frontends.client.line import Line
from oh_daemon.jsonrpc.client import Client, ClientAnswer, error_of
from oh_daemon.jsonrpc.dispatch import Dispatcher, Method
from oh_daemon.jsonrpc.framing import ContentLength, Frame, encode, message_of
from oh_daemon.jsonrpc.outbox import Notifications, Outbox
from oh_daemon.jsonrpc.reading import Json, object_in
from oh_daemon.protocol.errors import DaemonError

END_S = 5.0
_OUTGOING = Notifications(cancel="$/cancelRequest", cancel_params=lambda number: {"id": number})


class Peer:
    """One client of one daemon. Any thread may ask."""

    def __init__(
        self, line: Line, methods: Mapping[str, Method], report: Callable[[tuple[str, Json]], None]
    ) -> None:
        """`tell` gets method and params of each notification, where the frames are taken."""
        self._line = line
        self._outbox = Outbox(line.outbound, ContentLength(), _OUTGOING)
        self.requests = Client(self._outbox)
        own_methods = dict(methods)
        self._dispatcher = Dispatcher(
            self._outbox,
            self.requests,
            lambda _method: None,
            (_OUTGOING.cancel, "id"),
            frozenset(own_methods),
            own_methods,
        )
        self._report = report
        self._hang_up_once = threading.Lock()

    def take(self, frame: Frame) -> None:
        """Take in what the daemon sent."""
        message = message_of(frame)
        method = message.get("method")
        if isinstance(method, str) and "id" not in message and method != _OUTGOING.cancel:
            self._report((method, object_in(message, "params")))
        else:
            self._dispatcher.dispatch(frame)

    def on_gone(self) -> None:
        """End all that is open: nothing more will come."""
        self._dispatcher.abandon()
        self.requests.on_gone()

    def notify(self, method: str, params: object) -> None:
        self._outbox.notify(method, encode(params))

    def result_of(self, answer: ClientAnswer) -> Any:
        """Raise the daemon's own error, `TimeoutError`, or why the connection has ended."""
        match answer.outcome:
            case "answered":
                return answer.result
            case "refused":
                raise error_of(answer.error, DaemonError)
            case "deadline":
                raise TimeoutError(answer.message)
            case "gone":
                raise self._line.failure()

    def hang_up(self) -> None:
        """End the daemon's input, and so the daemon. Any thread may call, also more than once."""
        if self._hang_up_once.acquire(blocking=False):
            self._outbox.close(END_S)
            self._line.close_input()


class EventGap:
    """Events that are to be read from the log, page by page, in the form of those that come."""

    def __init__(self, conversation_id: str, first_seq: int, last_seq: int) -> None:
        self._conversation, self._last_seq = {"conversationId": conversation_id}, last_seq
        self._after_seq = first_seq - 1

    @property
    def params(self) -> Json | None:
        """Of the next `conversation/events`; None when all are there."""
        is_over = self._after_seq >= self._last_seq
        return None if is_over else {**self._conversation, "afterSeq": self._after_seq}

    def take(self, page: Json) -> list[Any]:
        """Return the events of this answer."""
        self._after_seq = page["lastSeq"] if page["events"] else self._last_seq
        head = {**self._conversation, "epoch": page["epoch"]}
        return [{**head, **each} for each in page["events"] if each["seq"] <= self._last_seq]


def missing_in(gap: Json) -> EventGap:
    return EventGap(gap["conversationId"], gap["fromSeq"], gap["toSeq"])


def hello(folders: Sequence[Path], block: Json) -> Json:
    """Return the params of `initialize` for a client with these folders, and no editor."""
    return {
        "processId": os.getpid(),
        "workspaceFolders": [{"uri": each.as_uri(), "name": each.name} for each in folders],
        "capabilities": {"general": {"positionEncodings": ["utf-32"]}},
        "initializationOptions": {"ohDaemon": {"client": {"kind": "script"}, **block}},
    }
