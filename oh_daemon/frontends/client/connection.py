"""A synchronous client: a thread reads what the daemon sends, and answers what it asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from oh_daemon.common.cancel import CancelToken
from oh_daemon.frontends.client.line import Line
from oh_daemon.frontends.client.methods import Methods
from oh_daemon.frontends.client.peer import END_S, EventGap, Peer, hello, missing_in
from oh_daemon.jsonrpc.dispatch import Method
from oh_daemon.jsonrpc.framing import ContentLength, FramingLost, read_frames
from oh_daemon.jsonrpc.reading import Json
from oh_daemon.protocol.errors import DaemonError


class DaemonClient(Methods):
    """One daemon. Any thread may ask, but those of `methods`; a context manager that closes it."""

    def __init__(
        self, line: Line, methods: Mapping[str, Method] | None = None, *, unread: bytes = b""
    ) -> None:
        """Begin to read. `unread` was read from the line before.

        `methods` answer the daemon's requests by name, on the thread that reads: one that takes
        longer returns a `Future`.
        """
        self._line = line
        self._inbox: SimpleQueue[tuple[str, Json] | None] = SimpleQueue()
        self._peer = Peer(line, methods or {}, self._inbox.put)
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
        return self._peer.result_of(
            self._peer.requests.request(
                method,
                params or {},
                deadline_s=within_s or threading.TIMEOUT_MAX,
                cancel=CancelToken(),
            )
        )

    def notify(self, method: str, params: object) -> None:
        self._peer.notify(method, params)

    def notifications(self) -> Iterator[tuple[str, Json]]:
        """Yield method and params of all that come, in order; for one thread.

        Events that were left out on a slow connection are asked for. At the end, raises as
        `request`, unless this client closed the connection.
        """
        while (each := self._inbox.get()) is not None:
            if each[0] == "conversation/gap":
                for params in self._read_log(missing_in(each[1])):
                    yield "conversation/event", params
            else:
                yield each
        if not self._is_closing:
            raise self._line.failure()

    def events(self) -> Iterator[Any]:
        """Yield each `conversation/event`, `EventParams`; see `notifications`."""
        return (params for name, params in self.notifications() if name == "conversation/event")

    def read(self, conversation_id: str, first_seq: int, last_seq: int) -> Iterator[Any]:
        """Yield these events as they are in the log, in the form of `events`."""
        return self._read_log(EventGap(conversation_id, first_seq, last_seq))

    def _read_log(self, gap: EventGap) -> Iterator[Any]:
        while gap.params is not None:
            yield from gap.take(self.request("conversation/events", gap.params))

    def deliver(
        self, on_notification: Callable[[str, Any], object], at_end: Callable[[DaemonError], object]
    ) -> threading.Thread:
        """Pass all notifications on, on a thread of its own; `at_end` gets why they ended.

        When `take` raises, the connection ends too, since nobody hears of what comes.
        """

        def pass_on() -> None:
            try:
                for name, params in self.notifications():
                    on_notification(name, params)
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
        self._peer.hang_up()

    def close(self) -> bool:
        """End the daemon, within seconds; return whether it ended by itself, in order."""
        self._is_closing = True
        was_told = False
        with suppress(DaemonError, TimeoutError):
            self.request("shutdown", within_s=END_S)
            self.notify("exit", {})
            was_told = True
        self.hang_up()
        self._reader.join(END_S)
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
                self._peer.take(frame)
        os.close(inbound)
        self._peer.on_gone()
        self._inbox.put(None)
