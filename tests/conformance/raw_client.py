"""A client without any LSP library, so that it can send what no library would.

It frames by itself, counts the answers per id, checks the order rules on all traffic, and fails on
anything that is not a message. `close` (or leaving the context) says what went wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import IO, Any, Self, cast

from ordering import OrderingChecker
from rpc_process import WITHIN_S, Json, Predicate, RpcError, RpcProcess

Popen = Callable[..., subprocess.Popen[bytes]]
SURVIVORS_WITHIN_S = 60.0
"""The promise is two seconds, but a process that was really left behind outlives any deadline."""


def frame(body: bytes | Json | list[Any]) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class RawClient(RpcProcess):
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
        self.capabilities: Json = {}
        """The capabilities in the daemon's answer to `initialize`."""
        self.event_bodies: list[bytes] = []
        """The frames of all conversation/event so far, as they came."""
        self.ordering = OrderingChecker()
        self._problems: list[str] = []
        self._expected: Counter[str] = Counter()
        self._answers: defaultdict[str, list[Json]] = defaultdict(list)
        self.was_shut_down = False
        """Whether it was asked to end, which may take it a moment."""
        pipe = subprocess.PIPE
        tagged = {**env, **dict([self.tag.split("=")])}
        process = popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=tagged, bufsize=0)
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

    def initialize(
        self, folders: Sequence[Path] = (), *, params: Json | None = None, **ours: Any
    ) -> Json:
        """Initialize; `ours` is our block (client, features, trust …), `params` override LSP's."""
        named = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        result = self.request(
            "initialize",
            {
                "processId": None,
                "capabilities": {},
                "workspaceFolders": named,
                **({"initializationOptions": {"ohDaemon": ours}} if ours else {}),
                **(params or {}),
            },
        )
        self.notify("initialized")
        self.capabilities = result["capabilities"]
        return result

    def request(self, method: str, params: Any = None, *, within_s: float = WITHIN_S) -> Any:
        """Send a request and return its result. Raises `RpcError`."""
        return self.result_of(self.send_request(method, params), within_s=within_s)

    def error(self, method: str, params: Any = None, *, within_s: float = WITHIN_S) -> RpcError:
        """Send a request and return the error that it is answered with."""
        return self.error_of(self.send_request(method, params), within_s=within_s)

    def send_request(self, method: str, params: Any = None, request_id: Any = None) -> Any:
        """Send without waiting; return the id for `result_of` or `answer_to`."""
        if request_id is None:
            request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.was_shut_down |= method == "shutdown"
        self.send(message if params is None else {**message, "params": params})
        return request_id

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def send(self, message: bytes | Json | list[Any]) -> None:
        """Send one well-formed frame; its body decides which answer must come."""
        content = message if isinstance(message, dict) else _parsed(message)
        answered, is_due = _due_answer(content)
        if is_due:
            self.expect(answered)
        with self._changed:
            if isinstance(content, dict):
                self.ordering.on_sent(content)
        self.send_raw(frame(message))

    def expect(self, request_id: Any) -> None:
        """Expect one more answer with this id, for a message that is sent with `send_raw`."""
        with self._changed:
            self._expected[json.dumps(request_id)] += 1

    def forget(self) -> None:
        """Forget the messages and handlers, for the next test on this connection.

        Answered ids may be used again; `close` still checks the requests that wait for an answer.
        """
        with self._changed:
            self.messages.clear()
            self.event_bodies.clear()
            self._handlers.clear()
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

    @property
    def events(self) -> list[Json]:
        """The params of every conversation/event so far."""
        return self.notifications("conversation/event")

    def notifications(self, method: str) -> list[Json]:
        return [m["params"] for m in list(self.messages) if m.get("method") == method]

    def wait_for_event(
        self, wanted: str | Predicate, within_s: float = WITHIN_S, *, nth: int = 1
    ) -> Json:
        """Wait for the `nth` conversation/event of this type or predicate; return its params."""

        def is_event(message: Json) -> bool:
            if message.get("method") != "conversation/event":
                return False
            params = message["params"]
            return params["event"]["type"] == wanted if isinstance(wanted, str) else wanted(params)

        return self.wait_for(is_event, within_s, nth=nth)["params"]

    def wait_for_stderr(self, text: str, within_s: float = WITHIN_S) -> None:
        self._wait(lambda: text in self.stderr, within_s)

    def answer_to(self, request_id: Any, *, within_s: float = WITHIN_S, nth: int = 1) -> Json:
        """Wait for the `nth` answer with this id, and return the whole message."""
        with self._changed:
            answers = self._answers[json.dumps(request_id)]
        self._wait(lambda: len(answers) >= nth, within_s)
        return answers[nth - 1]

    def result_of(self, request_id: Any, *, within_s: float = WITHIN_S, nth: int = 1) -> Any:
        answer = self.answer_to(request_id, within_s=within_s, nth=nth)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def error_of(self, request_id: Any, *, within_s: float = WITHIN_S, nth: int = 1) -> RpcError:
        answer = self.answer_to(request_id, within_s=within_s, nth=nth)
        assert "error" in answer, answer
        return RpcError(answer["error"])

    def n_answers(self, request_id: Any) -> int:
        return len(self._answers[json.dumps(request_id)])

    # Ending

    def close_stdin(self) -> None:
        self._pipe("stdin").close()

    def close_stdout(self) -> None:
        """Close our end of the output, which is not being read, so that no one can write to it."""
        self._pipe("stdout").close()

    def exit_code(self, *, within_s: float = WITHIN_S) -> int:
        """Wait until the process and its output have ended; return the exit code."""
        code = self.process.wait(within_s)
        self._may_read.set()
        for thread in self._threads:
            thread.join(within_s)
        return code

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
        problems = [*self._problems, *self.ordering.violations]
        for key in self._expected.keys() | self._answers.keys():
            n_answers, n_expected = len(self._answers[key]), self._expected[key]
            if n_answers > n_expected or (n_answers < n_expected and is_complete):
                problems.append(f"id {key}: {n_answers} answers instead of {n_expected}")
        assert problems == [], problems

    def kill(self) -> None:
        """Send SIGKILL if the daemon still runs; check nothing."""
        if self.process.poll() is None:
            self.process.kill()
        self.exit_code()
        for name in ("stdin", "stdout", "stderr"):
            self._pipe(name).close()

    def survivors(self, within_s: float = SURVIVORS_WITHIN_S) -> list[int]:
        """Return all processes of the daemon and its children that still live at the deadline."""
        deadline = time.monotonic() + within_s
        while (found := self._tagged_processes()) and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        return found

    def _tagged_processes(self) -> list[int]:
        found: list[int] = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if self.tag.encode() in environ.read_bytes():
                    found.append(int(environ.parent.name))
            except OSError:
                continue
        return [pid for pid in found if pid != self.process.pid or self.process.poll() is None]

    def _read_message(self, stream: IO[bytes]) -> Json | None:
        header = stream.readline()
        if not header:
            return None
        if not header.startswith(b"Content-Length: ") or stream.readline() != b"\r\n":
            self._problems.append(f"not a header: {header[:200]!r}")
            return None
        length = int(header.split(b":")[1])
        body = stream.read(length)
        if len(body) < length:
            return None  # A killed process may leave half a frame at the end.
        message = json.loads(body, parse_constant=self._on_constant)
        if message.get("method") == "conversation/event":
            self.event_bodies.append(body)
        return message

    def _on_constant(self, name: str) -> None:
        self._problems.append(f"{name} is not JSON")

    def _take(self, message: Json) -> None:
        self.ordering.on_received(message)
        if "method" not in message:
            self._answers[json.dumps(message["id"])].append(message)


def _parsed(body: bytes | list[Any]) -> Any:
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
    found = cast("Json", message)
    is_well_formed = found.get("jsonrpc") == "2.0"
    request_id = found.get("id")
    has_id = isinstance(request_id, str | int | float) and not isinstance(request_id, bool)
    if found.get("method") is None and ("result" in found or "error" in found):
        return None, not is_well_formed
    is_notification = is_well_formed and isinstance(found.get("method"), str) and "id" not in found
    return (request_id if has_id else None), not is_notification
