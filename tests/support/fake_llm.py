"""The tests' only fake: an HTTP server that speaks OpenAI's chat completions from a script.

At a path that ends in /responses it speaks the Responses API.

A script is a list of steps, taken in the order in which requests arrive, or a function from a
request's JSON to a step. Every request for an answer is recorded. Nothing here knows the daemon,
so benchmarks use this server too.

    with FakeLLM([call("terminal", command="ls"), say("Done.")]) as fake:
        settings = LLMSettings(model="openai/fake", base_url=fake.url, api_key="sk-test")
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing.synchronize
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from fake_responses import malformed_input, response_parts

Json = dict[str, Any]
Gate = threading.Event | multiprocessing.synchronize.Event
USAGE: Json = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


@dataclass(frozen=True)
class Step:
    """One reply: the `deltas` of an assistant's message, or a `body` that is sent verbatim."""

    deltas: tuple[Json, ...] = ()
    finish: str | None = "stop"
    usage: Json | None = field(default_factory=lambda: dict(USAGE))
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut_after: int | None = None
    is_cut_clean: bool = False
    hang_after: int | None = None
    """Chunks to send before waiting for the client to close."""
    gate: Gate | None = None
    """The event to wait for after `gate_after` chunks."""
    gate_after: int = 0
    pause_s: float = 0


Script = Sequence[Step] | Callable[[Json], Step]


# Steps


def say(text: str, *, n_chunks: int = 1) -> Step:
    return Step(tuple({"content": piece} for piece in _pieces(text, n_chunks)))


def chunks(n: int, text: str = "x") -> Step:
    """Return a reply that sends the same piece of text n times."""
    return Step(tuple({"content": text} for _ in range(n)))


def call(tool: str, /, **args: Any) -> Step:
    return raw_call(tool, json.dumps(args))


def raw_call(tool: str, arguments: str, *, call_id: str | None = None, n_chunks: int = 3) -> Step:
    """Return a call whose arguments need not be JSON; without a `call_id`, each reply makes one."""
    head: Json = {"index": 0, "id": call_id, "type": "function"}
    head["function"] = {"name": tool, "arguments": ""}
    pieces = [{"index": 0, "function": {"arguments": p}} for p in _pieces(arguments, n_chunks)]
    return Step(tuple({"tool_calls": [piece]} for piece in [head, *pieces]), finish="tool_calls")


def calls(*steps: Step) -> Step:
    """Merge replies into one: all texts and calls in order, with the last reply's finish reason."""
    deltas: list[Json] = []
    n_calls = 0
    for step in steps:
        for delta in step.deltas:
            shifted_calls = [
                {**c, "index": c["index"] + n_calls} for c in delta.get("tool_calls", ())
            ]
            deltas.append({**delta, "tool_calls": shifted_calls} if shifted_calls else delta)
        n_calls += len({c["index"] for d in step.deltas for c in d.get("tool_calls", ())})
    return replace(steps[-1], deltas=tuple(deltas))


def reason(text: str, next_step: Step | None = None) -> Step:
    thinking_step = Step(({"reasoning_content": text},))
    return calls(thinking_step, next_step) if next_step else thinking_step


def reply(status: int, body: bytes | Json = b"", headers: Mapping[str, str] | None = None) -> Step:
    """Return an answer whose body is sent verbatim; a dict becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/plain" if isinstance(body, bytes) else "application/json"
    return Step(status=status, body=data, headers={"content-type": kind, **(headers or {})})


def error(
    status: int,
    message: str = "scripted error",
    headers: Mapping[str, str] | None = None,
    *,
    code: str | None = None,
) -> Step:
    body = {"error": {"message": message, "type": "scripted", "param": None, "code": code}}
    return reply(status, body, headers)


def raw(body: bytes) -> Step:
    """Return a stream of the given bytes, for instance another provider's events."""
    return reply(200, body, {"content-type": "text/event-stream"})


def hang(after: Step | None = None) -> Step:
    """Send `after` without its end, or not even headers, then wait for the client to close."""
    return replace(after, hang_after=len(after.deltas)) if after else Step(hang_after=0)


def slow(step: Step, pause_s: float) -> Step:
    return replace(step, pause_s=pause_s)


def hold_step(step: Step, gate: Gate, *, after: int = 1) -> Step:
    """Send `after` pieces, wait for `gate`, send the rest."""
    return replace(step, gate=gate, gate_after=after)


def cut_step(step: Step, after_bytes: int, *, clean: bool = False) -> Step:
    """Send only the first bytes of the body; `clean` ends the response as if that were all."""
    return replace(step, cut_after=after_bytes, is_cut_clean=clean)


def with_usage(step: Step, usage: Json | None) -> Step:
    return replace(step, usage=usage)


def with_finish(step: Step, finish: str | None) -> Step:
    return replace(step, finish=finish)


def script_by_key(key: Callable[[Json], str], scripts: Mapping[str, Sequence[Step]]) -> Script:
    """Play one script per conversation; `key` tells which script a request belongs to."""
    steps_left = {name: iter(steps) for name, steps in scripts.items()}
    lock = threading.Lock()

    def next_step(request: Json) -> Step:
        with lock:
            return next(steps_left[key(request)])

    return next_step


def first_user_text(request: Json) -> str:
    """Return the usual key of a conversation: what the user said first."""
    content = next(m["content"] for m in request["messages"] if m["role"] == "user")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def tool_results(request: Json) -> list[str]:
    """Return the outputs of all tool calls that a request quotes."""
    return [m["content"] for m in request["messages"] if m["role"] == "tool"]


# Requests


def malformed_reason(messages: Sequence[Json]) -> str | None:
    """Return why OpenAI would refuse these messages with status 400: calls without their results,
    results without a call, or calls that share an id."""
    waiting_ids: list[str] = []
    for n, message in enumerate(messages):
        if message["role"] == "tool" and "tool_call_id" in message:
            if message["tool_call_id"] not in waiting_ids:
                return f"messages[{n}] is the result of no call before it"
            waiting_ids.remove(message["tool_call_id"])
            continue
        if waiting_ids:
            return f"messages[{n}] stands where the results of {waiting_ids} are missing"
        message_calls = message.get("tool_calls") or ()
        for call_made in message_calls:
            json.loads(call_made["function"]["arguments"])
        waiting_ids = [call_made["id"] for call_made in message_calls]
        if len(set(waiting_ids)) < len(waiting_ids):
            return f"messages[{n}] has calls with the same id"
    return f"the results of {waiting_ids} are missing" if waiting_ids else None


# Bodies


def stream_parts(step: Step, *, n: int = 0, include_usage: bool = True) -> list[bytes]:
    """Return the server-sent events of a reply, one per element."""
    base: Json = {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "fake",
    }

    def event(choices: list[Json], **more: Any) -> bytes:
        payload = json.dumps({**base, "choices": choices, **more}, separators=(",", ":"))
        return b"data: " + payload.encode() + b"\n\n"

    role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    parts = [event([role])]
    parts += [
        event([{"index": 0, "delta": delta, "finish_reason": None}])
        for delta in _with_ids(step.deltas, n)
    ]
    if step.finish is not None:
        parts.append(event([{"index": 0, "delta": {}, "finish_reason": step.finish}]))
    if include_usage and step.usage is not None:
        parts.append(event([], usage=step.usage))
    return [*parts, b"data: [DONE]\n\n"]


def whole_body(step: Step, n: int = 0) -> bytes:
    """Return the body of a reply to a request that did not ask for a stream."""
    message: Json = {"role": "assistant", "content": None}
    tool_calls: dict[int, Json] = {}
    for delta in _with_ids(step.deltas, n):
        for key in ("content", "reasoning_content"):
            if delta.get(key):
                message[key] = (message.get(key) or "") + delta[key]
        for piece in delta.get("tool_calls", ()):
            call_entry = tool_calls.setdefault(piece["index"], {"type": "function", "function": {}})
            call_entry["id"] = piece.get("id") or call_entry.get("id")
            function = piece["function"]
            call_entry["function"]["name"] = function.get("name") or call_entry["function"]["name"]
            before = call_entry["function"].get("arguments", "")
            call_entry["function"]["arguments"] = before + function["arguments"]
    if tool_calls:
        message["tool_calls"] = list(tool_calls.values())
    choice = {"index": 0, "message": message, "finish_reason": step.finish}
    body: Json = {"id": f"chatcmpl-{n}", "object": "chat.completion", "created": 1_700_000_000}
    body |= {"model": "fake", "choices": [choice], "usage": step.usage}
    return json.dumps(body).encode()


def _pieces(text: str, n_chunks: int) -> list[str]:
    size = max(1, -(-len(text) // n_chunks))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def _with_ids(deltas: Sequence[Json], n: int) -> Iterator[Json]:
    for delta in deltas:
        calls_with_ids = [
            {**c, "id": c["id"] or f"call_{n}_{c['index']}"} if "id" in c else c
            for c in delta.get("tool_calls", ())
        ]
        yield {**delta, "tool_calls": calls_with_ids} if calls_with_ids else delta


# Server


@dataclass
class Recorded:
    """One request and what became of its answer. Times are those of `time.monotonic()`."""

    index: int
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Json
    raw_body: bytes
    arrived_s: float
    ended_s: float | None = None
    answer_event: threading.Event = field(default_factory=threading.Event)
    """Set when the whole answer was sent or the client is gone."""
    close_event: threading.Event = field(default_factory=threading.Event)
    """Set when the client closed the socket before the answer ended."""


class FakeLLM:
    """Listens on a free port from construction to `close` (or the end of its `with`)."""

    def __init__(self, script: Script = ()) -> None:
        self._script: Script = script
        self.models: list[Json] = []
        """The models that GET /models lists."""
        self.pages: dict[str, Json] = {}
        """Answers to requests at other paths, such as /props."""
        self.lookups: list[Recorded] = []
        """The requests for models and pages; `requests` are the others."""
        self._condition = threading.Condition()
        self._requests: list[Recorded] = []
        self._over: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._sockets: set[socket.socket] = set()
        self._gates: set[Gate] = set()
        self._is_closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._acceptor = threading.Thread(target=self._accept, name="fake-llm", daemon=True)
        self._acceptor.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def requests(self) -> list[Recorded]:
        with self._condition:
            return list(self._requests)

    def wait_for_requests(self, n: int, timeout_s: float = 90) -> list[Recorded]:
        """Block until n requests have come, and return all requests so far."""
        with self._condition:
            has_arrived = self._condition.wait_for(lambda: len(self._requests) >= n, timeout_s)
            assert has_arrived, f"{len(self._requests)} of {n} requests came within {timeout_s} s"
            return list(self._requests)

    def add(self, *steps: Step) -> None:
        """Append steps to the script, which must be a list."""
        with self._condition:
            assert not callable(self._script)
            self._script = [*self._script, *steps]

    def play(self, script: Script) -> None:
        """Answer from now on from another script; if it is a list, from its first step."""
        with self._condition:
            empty_steps = [say("")] * len(self._requests)
            self._script = script if callable(script) else [*empty_steps, *script]

    def forget(self) -> None:
        """Start over, with no script, no model and no recorded request."""
        with self._condition:
            self._script = ()
            self.models = []
            self.pages = {}
            self.lookups.clear()
            self._requests.clear()

    def ignore(self, conversations: Sequence[str]) -> None:
        """Neither record nor answer requests that these ended conversations still send."""
        with self._condition:
            self._over.update(conversations)

    def close(self) -> None:
        self._is_closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        with self._condition:
            for connection in self._sockets:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for gate in self._gates:
                gate.set()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._condition:
                self._sockets.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as reader:
                while (request := self._read(reader)) is not None:
                    if request in self.lookups:
                        connection.sendall(self._page(request.path))
                    elif not self._answer(connection, request):
                        return
        except (OSError, ValueError):
            # The client is gone, or it does not speak HTTP.
            return
        finally:
            with self._condition:
                self._sockets.discard(connection)

    def _page(self, path: str) -> bytes:
        if path.endswith("/models") and path not in self.pages:
            return _http(json.dumps({"data": self.models}).encode())
        if path in self.pages:
            return _http(json.dumps(self.pages[path]).encode())
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"

    def _read(self, reader: Any) -> Recorded | None:
        first = reader.readline()
        if not first:
            return None
        method, path, _ = first.decode().split(" ", 2)
        headers: dict[str, str] = {}
        while (line := reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", 0))
        data = reader.read(length)
        if len(data) < length:  # The client went away in the middle.
            return None
        start_s = time.monotonic()
        with self._condition:
            index = len(self._requests)
            actual_value = json.loads(data) if data else {}
            request = Recorded(index, method, path, headers, actual_value, data, start_s)
            if method == "GET" or path.endswith("/api/show"):
                self.lookups.append(request)
                return request
            if actual_value.get("prompt_cache_key") in self._over:
                return None
            self._requests.append(request)
            self._condition.notify_all()
        return request

    def _answer(self, connection: socket.socket, request: Recorded) -> bool:
        """Send the step's answer; return whether the connection can take another request."""
        try:
            return self._send(connection, request, self._step(request))
        except OSError:
            request.close_event.set()
            return False
        finally:
            request.ended_s = time.monotonic()
            request.answer_event.set()

    def _step(self, request: Recorded) -> Step:
        with self._condition:
            script = self._script
        body = request.body
        if problem := malformed_reason(body.get("messages", ())) or malformed_input(
            body.get("input", ())
        ):
            return error(400, f"fake_llm: {problem}")
        if callable(script):
            return script(request.body)
        if request.index < len(script):
            return script[request.index]
        return error(400, f"fake_llm: the script has no step {request.index + 1}")

    def _send(self, connection: socket.socket, request: Recorded, step: Step) -> bool:
        if step.hang_after == 0:
            return _wait_for_close(connection, request)
        if step.body is not None:
            parts = [step.body]
            headers = dict(step.headers)
        elif request.path.endswith("/responses"):
            deltas = _with_ids(step.deltas, request.index)
            parts = response_parts(deltas, step.finish, step.usage, request.index)
            headers = {"content-type": "text/event-stream", **step.headers}
        elif request.body.get("stream"):
            options = request.body.get("stream_options") or {}
            include_usage = bool(options.get("include_usage"))
            parts = stream_parts(step, n=request.index, include_usage=include_usage)
            headers = {"content-type": "text/event-stream", **step.headers}
        else:
            parts = [whole_body(step, request.index)]
            headers = {"content-type": "application/json", **step.headers}
        if step.cut_after is not None:
            parts = [b"".join(parts)[: step.cut_after]]
        head = f"HTTP/1.1 {step.status} Scripted\r\ntransfer-encoding: chunked\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        self._send_parts(connection, head.encode(), parts, step)
        if step.hang_after is not None:
            return _wait_for_close(connection, request)
        if step.cut_after is not None and not step.is_cut_clean:
            return False
        connection.sendall(b"0\r\n\r\n")
        return True

    def _send_parts(
        self, connection: socket.socket, head: bytes, parts: list[bytes], step: Step
    ) -> None:
        if step.hang_after is not None:
            parts = parts[: step.hang_after + 1]
        actual_chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part]
        if step.gate is not None:
            n_first = step.gate_after + 1
            connection.sendall(head + b"".join(actual_chunks[:n_first]))
            self._wait_for(step.gate)
            connection.sendall(b"".join(actual_chunks[n_first:]))
        elif step.pause_s:
            connection.sendall(head)
            for part in actual_chunks:
                connection.sendall(part)
                self._is_closed.wait(step.pause_s)
        else:
            connection.sendall(head + b"".join(actual_chunks))

    def _wait_for(self, gate: Gate) -> None:
        """Wait until the test opens the gate, or until `close` does if the test failed before."""
        with self._condition:
            self._gates.add(gate)
            if self._is_closed.is_set():
                return
        gate.wait()


def _http(body: bytes) -> bytes:
    head = "HTTP/1.1 200 Scripted\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _wait_for_close(connection: socket.socket, request: Recorded) -> bool:
    while connection.recv(4096):
        pass
    request.close_event.set()
    return False
