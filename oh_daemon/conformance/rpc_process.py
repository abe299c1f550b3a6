"""A program that speaks JSON-RPC over its standard streams, and the client's end of them.

What all its clients share: they read all the time, answer what they are asked, and wait. How
messages are framed, and what is checked of them, each client says itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import IO, Any, cast

Json = dict[str, Any]
Predicate = Callable[[Json], bool]
Handler = Callable[[Json], Any]
WITHIN_S = 90.0


def part(message: Json, name: str) -> Json:
    """Return an object in another one, empty if it is absent or null."""
    return message.get(name) or {}


class RpcError(Exception):
    """The error that a request was answered with. A handler raises it to answer with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(json.dumps(error))
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Json = error.get("data") or {}


class AnswerTimeout(AssertionError):  # noqa: N818 - what was waited for is.
    """What was waited for did not come in time, or cannot come any more."""


class NoAnswer(Exception):  # noqa: N818 - not an error but a habit of clients.
    """Raised by a handler to leave the program waiting."""


class RpcProcess:
    """One process. Any thread may send and wait."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        reading: bool = True,
        within_s: float = WITHIN_S,
    ) -> None:
        """Begin to read; with `reading=False`, the output only from `read_on` on."""
        self.process = process
        self.within_s = within_s
        """How long it waits if nothing else is said."""
        self.messages: list[Json] = []
        self._handlers: dict[str, Handler] = {}
        self._ids = count(1)
        self._condition = threading.Condition()
        self._is_at_end = False
        self._writing = threading.Lock()
        self._may_read = threading.Event()
        self._stderr: list[bytes] = []
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (
                ("rpc-reader", self._read_messages),
                ("rpc-errors", self._read_stderr),
            )
        ]
        for thread in self._threads:
            thread.start()
        if reading:
            self._may_read.set()

    # What each client says itself

    def send(self, message: Json) -> None:
        raise NotImplementedError

    def _read_message(self, stream: IO[bytes]) -> Json | None:
        """Return the next message, None at the end."""
        raise NotImplementedError

    def _accept(self, message: Json) -> None:
        """Check a message that has just come; nobody has seen it yet."""
        raise NotImplementedError

    # What both have

    def send_raw(self, data: bytes) -> None:
        with self._writing:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._pipe("stdin").fileno(), rest) :]

    def answer(self, method: str, handler: Handler) -> None:
        """Answer the program's requests of this method with what `handler` returns for the params.

        It may return a future, or raise `RpcError` or `NoAnswer`. No handler means error -32601.
        """
        self._handlers[method] = handler

    def answer_nothing(self) -> None:
        """Forget what was to be answered, and refuse everything from now on."""
        self._handlers.clear()

    def wait_for(
        self, predicate: Predicate, within_s: float | None = None, *, nth: int = 1
    ) -> Json:
        """Wait for the `nth` message of the whole connection for which `predicate` holds."""
        index = n_matches = 0

        def has_come() -> bool:
            nonlocal index, n_matches
            while index < len(self.messages) and n_matches < nth:
                n_matches += bool(predicate(self.messages[index]))
                index += 1
            return n_matches == nth

        self._wait(has_come, within_s)
        return self.messages[index - 1]

    @property
    def stderr(self) -> str:
        return b"".join(self._stderr).decode("utf-8", "replace")

    def stop_reading(self) -> None:
        """Read nothing from now on but what is in the buffer already, until `read_on`."""
        self._may_read.clear()

    def read_on(self) -> None:
        self._may_read.set()

    def _wait(self, is_done: Callable[[], bool], within_s: float | None = None) -> None:
        within_s = self.within_s if within_s is None else within_s
        with self._condition:
            self._condition.wait_for(lambda: is_done() or self._is_at_end, within_s)
            if not is_done():
                raise AnswerTimeout(
                    f"it did not come within {within_s} s; at end: {self._is_at_end};"
                    f" last messages: {self.messages[-5:]}; stderr: {self.stderr[-2000:]}"
                )

    def _pipe(self, name: str) -> IO[bytes]:
        return cast("IO[bytes]", getattr(self.process, name))

    def _read_messages(self) -> None:
        self._may_read.wait()
        stream = self._pipe("stdout")
        if not stream.closed:
            with open(stream.fileno(), "rb", closefd=False) as stream_copy:
                while (message := self._read_message(stream_copy)) is not None:
                    self._may_read.wait()
                    self._on_message(message)
        with self._condition:
            self._is_at_end = True
            self._condition.notify_all()

    def _on_message(self, message: Json) -> None:
        with self._condition:
            self.messages.append(message)
            self._accept(message)
            self._condition.notify_all()
        if "method" in message and "id" in message:
            # A handler may wait for the test, and the test for other messages.
            answering = threading.Thread(
                target=self._run_handler, args=(message,), name="rpc-answer", daemon=True
            )
            answering.start()

    def _run_handler(self, message: Json) -> None:
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        handler = self._handlers.get(message["method"], _refuse)
        try:
            result = handler(part(message, "params"))
            reply["result"] = result.result(self.within_s) if isinstance(result, Future) else result
        except RpcError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        except NoAnswer:
            return
        try:
            self.send(reply)
        except (OSError, ValueError):
            return  # The program has ended meanwhile.

    def _read_stderr(self) -> None:
        while data := os.read(self._pipe("stderr").fileno(), 65536):
            with self._condition:
                self._stderr.append(data)
                self._condition.notify_all()


def _refuse(_params: Json) -> None:
    raise RpcError({"code": -32601, "message": "this client cannot do that"})
