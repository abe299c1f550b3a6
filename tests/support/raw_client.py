"""A client without any LSP library, so that it can send what no library would.

Beside what a `ServerConnection` checks, it counts the answers per id. `close` (or leaving the
context) says what went wrong, also that a process outlived the daemon.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self, cast

from oh_daemon.conformance.connection import ServerConnection
from oh_daemon.conformance.rpc_process import WITHIN_S, Json

Popen = Callable[..., subprocess.Popen[bytes]]
SURVIVORS_WITHIN_S = 60.0
"""The promise is two seconds, but a process that was really left behind outlives any deadline."""


class RawClient(ServerConnection):
    """One daemon process and the client's end of its pipes. Any thread may send and wait."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path | None,
        env: Mapping[str, str],
        *,
        reading: bool,
        popen: Popen,
    ) -> None:
        self.tag = f"OH_TEST_RUN={uuid.uuid4().hex}"
        """An environment variable of the daemon and of all that it starts."""
        self.event_bodies: list[bytes] = []
        """The frames of all conversation/event so far, as they came."""
        self._expected: Counter[str] = Counter()
        self.was_shut_down = False
        """Whether it was asked to end, which may take it a moment."""
        pipe = subprocess.PIPE
        tagged_variables = {**env, **dict([self.tag.split("=")])}
        process = popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=tagged_variables, bufsize=0
        )
        super().__init__(process, reading=reading)

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        *,
        reading: bool = True,
        popen: Popen = subprocess.Popen,
    ) -> Self:
        """Start with `env` laid over ours. With `reading=False`, read nothing until `read_on`."""
        return cls(argv, cwd, {**os.environ, **(env or {})}, reading=reading, popen=popen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

    # Sending

    def send_request(self, method: str, params: Any = None, request_id: Any = None) -> Any:
        self.was_shut_down |= method == "shutdown"
        return super().send_request(method, params, request_id)

    def send(self, message: bytes | Json | list[Any]) -> None:
        """Send one well-formed frame; its body decides which answer must come."""
        content = message if isinstance(message, dict) else _parse(message)
        answer, is_due = _due_answer(content)
        if is_due:
            self.expect(answer)
        if isinstance(content, dict) and content is not message:
            with self._condition:
                self.ordering.on_sent(content)
        super().send(message)

    def expect(self, request_id: Any) -> None:
        """Expect one more answer with this id, for a message that is sent with `send_raw`."""
        with self._condition:
            self._expected[json.dumps(request_id)] += 1

    def forget(self) -> None:
        """Forget the messages and handlers, for the next test on this connection.

        Answered ids may be used again; `close` still checks the requests that wait for an answer.
        """
        with self._condition:
            self.messages.clear()
            self.event_bodies.clear()
            self.answer_nothing()
            for key, n_expected in list(self._expected.items()):
                if len(self._answers[key]) == n_expected:
                    del self._expected[key], self._answers[key]

    def settle(self) -> None:
        """Check everything as `close` does, and forget it: the next test finds a new connection."""
        # Its answer follows all others, but for requests that the test itself has kept open.
        self.error("no/suchMethod")
        self._check(is_complete=True)
        self.forget()
        self._ids = count(1)

    # Waiting

    def wait_for_stderr(self, text: str, within_s: float = WITHIN_S) -> None:
        self._wait(lambda: text in self.stderr, within_s)

    # Ending

    def close_stdout(self) -> None:
        """Close our end of the output, which is not being read, so that no one can write to it."""
        self._pipe("stdout").close()

    def close(self) -> int:
        """End the daemon like an editor that vanishes, check everything, return the exit code."""
        was_running = self.process.poll() is None
        self.close_stdin()
        try:
            code = self.exit_code()
        finally:
            self.kill()
        # A daemon that was ended from outside, or that gave up, need not answer everything.
        self._check(is_complete=was_running and code == 0)
        assert self.survivors() == [], "processes outlived the daemon"
        return code

    def _check(self, *, is_complete: bool) -> None:
        problems = [*self.problems, *self.ordering.violations]
        for key in self._expected.keys() | self._answers.keys():
            n_answers, n_expected = len(self._answers[key]), self._expected[key]
            if n_answers > n_expected or (n_answers < n_expected and is_complete):
                problems.append(f"id {key}: {n_answers} answers instead of {n_expected}")
        assert problems == [], problems

    def survivors(self, within_s: float = SURVIVORS_WITHIN_S) -> list[int]:
        """Return all processes of the daemon and its children that still live at the deadline."""
        deadline = time.monotonic() + within_s
        while (start_s := self._tagged_processes()) and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        return start_s

    def _tagged_processes(self) -> list[int]:
        pids: list[int] = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.tag.encode() in environ.read_bytes():
                    pids.append(int(environ.parent.name))
            except OSError:
                continue
        return [pid for pid in pids if pid != self.process.pid or self.process.poll() is None]

    def _parse(self, body: bytes) -> Json:
        message = super()._parse(body)
        if message.get("method") == "conversation/event":
            self.event_bodies.append(body)
        return message


def _parse(body: bytes | list[Any]) -> Any:
    try:
        strict = _no_constant
        return json.loads(body.decode(), parse_constant=strict) if isinstance(body, bytes) else body
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _due_answer(message: Any) -> tuple[Any, bool]:
    """Return the id of the answer that this message must get, and whether it must get one."""
    if not isinstance(message, dict):
        return None, True
    message_found = cast("Json", message)
    is_well_formed = message_found.get("jsonrpc") == "2.0"
    request_id = message_found.get("id")
    has_id = isinstance(request_id, str | int | float) and not isinstance(request_id, bool)
    if message_found.get("method") is None and (
        "result" in message_found or "error" in message_found
    ):
        return None, not is_well_formed
    is_notification = (
        is_well_formed
        and isinstance(message_found.get("method"), str)
        and "id" not in message_found
    )
    return (request_id if has_id else None), not is_notification
