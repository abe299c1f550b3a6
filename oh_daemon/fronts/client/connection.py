"""The client's end of a connection to a daemon: requests out, notifications and requests in.

It knows frames and messages, and nothing of what a daemon is made of. What the daemon asks is
answered by the client's `methods`; what has none, such as `editor/*` without an editor, is refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, Self

from oh_daemon.contract.errors import DaemonError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.fronts.wire.client import Client, error_of
from oh_daemon.fronts.wire.dispatch import Dispatcher, Method
from oh_daemon.fronts.wire.framing import (
    ContentLength,
    FramingLost,
    encode,
    message_of,
    read_frames,
)
from oh_daemon.fronts.wire.outbox import Notifications, Outbox
from oh_daemon.fronts.wire.reading import Json, object_in

_OUTGOING = Notifications(cancel="$/cancelRequest", cancel_params=lambda number: {"id": number})
_END_S = 5.0


class Line(Protocol):
    """What connects to one daemon: a child process, or whatever else has two descriptors."""

    @property
    def inbound(self) -> int:
        """Reads what the daemon writes. The client closes it at the end."""
        ...

    @property
    def outbound(self) -> int:
        """Is the daemon's input."""
        ...

    def close_input(self) -> None:
        """Let the daemon end. Called once."""

    def failure(self) -> DaemonError:
        """Return why there is no connection any more, and what to do; may wait for the reason."""
        ...

    def kill(self) -> None:
        """End what is left of the connection, and what it started."""


class DaemonClient:
    """One daemon. Any thread may ask, but those of `methods`; a context manager that closes it."""

    def __init__(
        self, line: Line, methods: Mapping[str, Method] | None = None, *, unread: bytes = b""
    ) -> None:
        """Begin to read. `unread` was read from the line before.

        `methods` answer the daemon's requests by name, on the thread that reads: one that takes
        longer returns a `Future`.
        """
        self._line = line
        self._outbox = Outbox(line.outbound, ContentLength(), _OUTGOING)
        self._requests = Client(self._outbox)
        of_ours = dict(methods or {})
        self._dispatcher = Dispatcher(
            self._outbox,
            self._requests,
            lambda _method: None,
            (_OUTGOING.cancel, "id"),
            frozenset(of_ours),
            of_ours,
        )
        self._inbox: SimpleQueue[tuple[str, Json] | None] = SimpleQueue()
        self._hang_up_once = threading.Lock()
        self._is_closing = False
        self._reader = threading.Thread(
            target=self._read, args=(unread,), name="reader", daemon=True
        )
        self._reader.start()

    def initialize(self, folders: Sequence[Path] = (), **block: Any) -> Json:
        """Say hello; `block` is what `initialize` has for us, by its names on the wire."""
        return self.greet(hello(folders, block))

    def greet(self, params: Json) -> Json:
        """Say hello with these params; return the answer. Raises as `request`."""
        answer: Json = self.request("initialize", params)
        self.notify("initialized", {})
        return answer

    def request(self, method: str, params: object = None, *, within_s: float | None = None) -> Any:
        """Ask, and wait for the result.

        Raises the daemon's own error, `TimeoutError`, or a `DaemonError` that says why the
        connection has ended.
        """
        answer = self._requests.request(
            method, params or {}, deadline_s=within_s or threading.TIMEOUT_MAX, cancel=CancelToken()
        )
        match answer.outcome:
            case "answered":
                return answer.result
            case "refused":
                raise error_of(answer.error, DaemonError)
            case "deadline":
                raise TimeoutError(answer.message)
            case "gone":
                raise self._line.failure()

    def notify(self, method: str, params: object) -> None:
        self._outbox.notify(method, encode(params))

    def notifications(self) -> Iterator[tuple[str, Json]]:
        """Yield method and params of all that come, in order; for one thread.

        Events that were left out on a slow connection are asked for. At the end, raises as
        `request`, unless this client closed the connection.
        """
        while (each := self._inbox.get()) is not None:
            if each[0] == "conversation/gap":
                gap = each[1]
                for params in self.read(gap["conversationId"], gap["fromSeq"], gap["toSeq"]):
                    yield "conversation/event", params
            else:
                yield each
        if not self._is_closing:
            raise self._line.failure()

    def events(self) -> Iterator[Any]:
        """Yield each `conversation/event`, a `plain.Record` with more; see `notifications`."""
        return (params for name, params in self.notifications() if name == "conversation/event")

    def read(self, conversation_id: str, first_seq: int, last_seq: int) -> Iterator[Any]:
        """Yield these events as they are in the log, in the form of `events`."""
        named, after = {"conversationId": conversation_id}, first_seq - 1
        while after < last_seq:
            page = self.request("conversation/events", {**named, "afterSeq": after})
            for record in page["events"]:
                if record["seq"] <= last_seq:
                    yield {**named, "epoch": page["epoch"], **record}
            after = page["lastSeq"] if page["events"] else last_seq

    def deliver(
        self, take: Callable[[str, Any], object], at_end: Callable[[DaemonError], object]
    ) -> threading.Thread:
        """Pass all notifications on, on a thread of its own; `at_end` gets why they ended.

        When `take` raises, the connection ends too, since nobody hears of what comes.
        """

        def pass_on() -> None:
            try:
                for name, params in self.notifications():
                    take(name, params)
            except DaemonError as exc:
                self.hang_up()
                at_end(exc)
            except Exception as exc:  # noqa: BLE001 - raised where somebody waits.
                self.hang_up()
                error = DaemonError(f"what the daemon told could not be taken: {exc!r}")
                error.__cause__ = exc
                at_end(error)

        thread = threading.Thread(target=pass_on, name="notifications", daemon=True)
        thread.start()
        return thread

    def hang_up(self) -> None:
        """End the daemon's input, and so the daemon. Any thread may call, also more than once."""
        if self._hang_up_once.acquire(blocking=False):
            self._outbox.close(_END_S)
            self._line.close_input()

    def close(self) -> bool:
        """End the daemon, within seconds; return whether it ended by itself, in order."""
        self._is_closing = True
        was_told = False
        with suppress(DaemonError, TimeoutError):
            self.request("shutdown", within_s=_END_S)
            self.notify("exit", {})
            was_told = True
        self.hang_up()
        self._reader.join(_END_S)
        has_ended = not self._reader.is_alive()
        self._line.kill()
        return was_told and has_ended

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _read(self, unread: bytes) -> None:
        inbound = self._line.inbound
        with suppress(OSError, FramingLost):
            for frame in read_frames(inbound, ContentLength(), unread=unread):
                message = message_of(frame)
                method = message.get("method")
                if isinstance(method, str) and "id" not in message and method != _OUTGOING.cancel:
                    self._inbox.put((method, object_in(message, "params")))
                else:
                    self._dispatcher.dispatch(frame)
        os.close(inbound)
        self._dispatcher.abandon()
        self._requests.on_gone()
        self._inbox.put(None)


def hello(folders: Sequence[Path], block: Json) -> Json:
    """Return the params of `initialize` for a client with these folders, and no editor."""
    return {
        "processId": os.getpid(),
        "workspaceFolders": [{"uri": each.as_uri(), "name": each.name} for each in folders],
        "capabilities": {"general": {"positionEncodings": ["utf-32"]}},
        "initializationOptions": {"ohDaemon": {"client": {"kind": "script"}, **block}},
    }
