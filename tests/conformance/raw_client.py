"""A client without any LSP library, so that it can send what no library would.

It frames by itself, counts the answers per id, checks the order rules on all conversation traffic,
and fails on anything that is not a message. `close` says what went wrong; use it as a context.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Predicate = Callable[[Json], bool]
WITHIN_S = 20.0


def frame(body: bytes | Json | list[Any]) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(data), data)


class OrderChecker:
    """The order rules O1, O3, O4 and O6 of protocol.md over everything a client received."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._last_seq: dict[str, int] = {}
        self._completed_items: set[tuple[str, str]] = set()
        self._started_items: set[tuple[str, str]] = set()
        self._completed_turns: set[tuple[str, str]] = set()
        self._sent_chars: dict[tuple[str, str, str], int] = {}

    def on_message(self, message: Json) -> None:
        params = message.get("params") or {}
        match message.get("method"):
            case "conversation/event":
                self._on_event(params["conversationId"], params)
            case "conversation/delta":
                self._on_delta(params["conversationId"], params)
            case "conversation/gap":
                last = self._last_seq.get(params["conversationId"], 0)
                if params["fromSeq"] != last + 1:
                    self._violation("O1", f"gap from {params['fromSeq']} after seq {last}")
                self._last_seq[params["conversationId"]] = params["toSeq"]
            case _:
                pass

    def on_opened(self, conversation_id: str, last_seq: int) -> None:
        """An answer said that it holds everything up to `last_seq`."""
        known = self._last_seq.get(conversation_id)
        if known is not None and known > last_seq:
            self._violation("O3", f"{conversation_id}: event {known} before the answer")
        self._last_seq[conversation_id] = last_seq

    def _on_event(self, conversation_id: str, params: Json) -> None:
        last = self._last_seq.get(conversation_id)
        if last is not None and params["seq"] != last + 1:
            self._violation("O1", f"{conversation_id}: seq {params['seq']} after {last}")
        self._last_seq[conversation_id] = params["seq"]
        event = params["event"]
        turn = (conversation_id, params.get("turnId", "none"))
        if turn in self._completed_turns and event["type"] != "status.changed":
            self._violation("O6", f"{event['type']} of {turn} after turn.completed")
        match event["type"]:
            case "item.started":
                self._started_items.add((conversation_id, event["item"]["id"]))
            case "item.completed":
                self._completed_items.add((conversation_id, event["item"]["id"]))
            case "turn.completed":
                self._completed_turns.add(turn)
            case _:
                pass

    def _on_delta(self, conversation_id: str, params: Json) -> None:
        item = (conversation_id, params["itemId"])
        if item in self._completed_items:
            self._violation("O4", f"delta of {item} after item.completed")
        if item not in self._started_items and conversation_id in self._last_seq:
            self._violation("O4", f"delta of {item} before item.started")
        stream = (*item, params["channel"])
        expected = self._sent_chars.get(stream, 0)
        if params["offset"] != expected and not params.get("gap"):
            self._violation("delta", f"{stream}: offset {params['offset']}, expected {expected}")
        self._sent_chars[stream] = params["offset"] + len(params["text"])

    def _violation(self, rule: str, text: str) -> None:
        self.violations.append(f"{rule}: {text}")


class RawClient:
    """One daemon process and the client's end of its pipes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        reading: bool = True,
    ) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            bufsize=0,
        )
        self.messages: list[Json] = []
        self.order = OrderChecker()
        self.bad_bytes = b""
        self.n_answers: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.handlers: dict[str, Callable[[Json], Any]] = {}
        """Answers to the daemon's requests by method; a handler may raise `NoAnswer`."""
        self._next_id = 0
        self._changed = threading.Condition()
        self._is_at_end = False
        self._write_lock = threading.Lock()
        self._may_read = threading.Event()
        if reading:
            self._may_read.set()
        self._stderr: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read_messages, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.kill()
        if kind is None:
            self.check()

    def check(self) -> None:
        """Nobody broke the rules: framing, order, one answer per request."""
        assert self.bad_bytes == b"", self.bad_bytes[:200]
        assert self.order.violations == []
        too_many = {key: n for key, n in self.n_answers.items() if n > max(self.asked[key], 0)}
        assert too_many == {}, "more answers than requests"

    @property
    def stderr(self) -> str:
        return b"".join(self._stderr).decode("utf-8", "replace")

    def read_on(self) -> None:
        """Begin to read, for a client that was made with `reading=False`."""
        self._may_read.set()

    def send_bytes(self, data: bytes) -> None:
        with self._write_lock:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._stdin, rest) :]

    def send(self, body: bytes | Json | list[Any]) -> None:
        self.send_bytes(frame(body))

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def start_request(self, method: str, params: Any = None, request_id: Any = None) -> Any:
        """Send a request; returns its id for `answer`."""
        if request_id is None:
            self._next_id += 1
            request_id = self._next_id
        self.asked[json.dumps(request_id)] += 1
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return request_id

    def answer(self, request_id: Any, *, within_s: float = WITHIN_S, nth: int = 1) -> Json:
        """The whole answer with this id (the `nth` with that id)."""

        def is_answer(message: Json) -> bool:
            return "method" not in message and message.get("id") == request_id

        return self.wait_message(is_answer, within_s=within_s, nth=nth)

    def request(self, method: str, params: Any = None, *, within_s: float = WITHIN_S) -> Any:
        """The result; an error answer fails the test."""
        answer = self.answer(self.start_request(method, params), within_s=within_s)
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, params: Any = None, *, within_s: float = WITHIN_S) -> Json:
        """The error that this request is answered with."""
        answer = self.answer(self.start_request(method, params), within_s=within_s)
        assert "error" in answer, answer
        return answer["error"]

    def initialize(self, **params: Any) -> Json:
        result = self.request("initialize", {"processId": None, "capabilities": {}, **params})
        self.notify("initialized")
        return result

    def wait_message(
        self, predicate: Predicate, *, within_s: float = WITHIN_S, nth: int = 1
    ) -> Json:
        """The `nth` message of the whole connection for which `predicate` holds."""

        deadline = time.monotonic() + within_s
        index = n_found = 0
        with self._changed:
            while True:
                while index < len(self.messages):
                    n_found += bool(predicate(self.messages[index]))
                    index += 1
                    if n_found == nth:
                        return self.messages[index - 1]
                left_s = deadline - time.monotonic()
                if self._is_at_end or left_s <= 0:
                    raise AssertionError(self._description(within_s))
                self._changed.wait(left_s)

    def _description(self, within_s: float) -> str:
        return (
            f"no such message within {within_s} s; at end: {self._is_at_end};"
            f" last messages: {self.messages[-5:]}; stderr: {self.stderr[-2000:]}"
        )

    def wait_event(
        self,
        wanted: str | Predicate,
        *,
        within_s: float = WITHIN_S,
        nth: int = 1,
    ) -> Json:
        """Params of the `nth` conversation/event of a type, or whose params fit a predicate."""

        def is_event(message: Json) -> bool:
            if message.get("method") != "conversation/event":
                return False
            params = message["params"]
            return params["event"]["type"] == wanted if isinstance(wanted, str) else wanted(params)

        return self.wait_message(is_event, within_s=within_s, nth=nth)["params"]

    def notifications(self, method: str) -> list[Json]:
        return [m["params"] for m in list(self.messages) if m.get("method") == method]

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def exit_code(self, *, within_s: float = WITHIN_S) -> int:
        """Wait for the end of the process and of its output."""
        code = self.process.wait(within_s)
        self._may_read.set()
        for thread in self._threads:
            thread.join(within_s)
        return code

    def close(self) -> int:
        """Leave as an editor does; returns the exit code."""
        self.request("shutdown")
        self.notify("exit")
        code = self.exit_code()
        self.check()
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.exit_code()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()

    @property
    def _stdin(self) -> int:
        assert self.process.stdin is not None
        return self.process.stdin.fileno()

    def _read_messages(self) -> None:
        assert self.process.stdout is not None
        self._may_read.wait()
        with open(self.process.stdout.fileno(), "rb", closefd=False) as stream:
            while (message := self._read_message(stream)) is not None:
                self._on_message(message)
        with self._changed:
            self._is_at_end = True
            self._changed.notify_all()

    def _read_message(self, stream: Any) -> Json | None:
        header = stream.readline()
        if not header:
            return None
        if not header.startswith(b"Content-Length: ") or stream.readline() != b"\r\n":
            self.bad_bytes += header
            return None
        body = stream.read(int(header.split(b":")[1]))
        # Half a frame at the end is what a killed process leaves.
        return json.loads(body, parse_constant=self._on_constant) if body else None

    def _on_constant(self, name: str) -> None:
        self.bad_bytes += name.encode()

    def _on_message(self, message: Json) -> None:
        with self._changed:
            self.messages.append(message)
            self.order.on_message(message)
            if "method" not in message and message.get("id") is not None:
                self.n_answers[json.dumps(message["id"])] += 1
            self._changed.notify_all()
        if "method" in message and "id" in message:
            self._answer_daemon(message)

    def _answer_daemon(self, message: Json) -> None:
        handler = self.handlers.get(message["method"])
        if handler is None:
            error = {"code": -32601, "message": "this client cannot do that"}
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            return
        # A handler may wait for the test, and the test for other messages.
        threading.Thread(target=self._run_handler, args=(handler, message), daemon=True).start()

    def _run_handler(self, handler: Callable[[Json], Any], message: Json) -> None:
        result = handler(message.get("params") or {})
        if isinstance(result, Future):
            result = result.result(WITHIN_S)
        if result is not NO_ANSWER:
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 65536):
            self._stderr.append(data)


NO_ANSWER = object()
"""What a handler returns to leave the daemon waiting."""
