"""A model for servers under test: an endpoint of the chat-completions format that follows a script.

It streams if it is asked to, and lists no models. Nothing is sent anywhere else.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

Json = dict[str, Any]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass(frozen=True)
class Reply:
    """One answer of the model: its text in pieces, then a call; `is_held` stops after the text."""

    pieces: tuple[str, ...] = ()
    tool: str = ""
    arguments: Json = field(default_factory=dict[str, Any])
    is_held: bool = False

    def deltas(self, number: int) -> list[Json]:
        texts: list[Json] = [{"content": piece} for piece in self.pieces]
        function = {"name": self.tool, "arguments": json.dumps(self.arguments)}
        call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
        return [*texts, {"tool_calls": [call]}] if self.tool else texts

    def message(self, number: int) -> Json:
        calls = [each["tool_calls"][0] for each in self.deltas(number) if "tool_calls" in each]
        text = "".join(self.pieces)
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


Script = Callable[[Json], Reply | None]
"""Makes a reply to a request; None leaves the request to others, and waits for another."""


def script_reply(*pieces: str) -> Reply:
    return Reply(pieces)


def call(tool: str, **arguments: Any) -> Reply:
    return Reply(tool=tool, arguments=arguments)


HOLD = Reply(("Wait. ",), is_held=True)
"""Begins to speak, and says no more until the client hangs up."""


class ScriptedModel:
    """Listens on a free port of loopback until it is closed; once its script ends, it says Done."""

    def __init__(self) -> None:
        self.hung_up = threading.Semaphore(0)
        """Released each time that a client ends a reply that is held."""
        self._script: list[Reply | Script] = []
        self._number = 0
        self._lock = threading.Lock()
        self._server = _Endpoint(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="scripted-model", daemon=True
        ).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.socket.close()

    def play(self, *replies: Reply | Script) -> None:
        """Answer from now on with these, one for each request."""
        with self._lock:
            self._script = [*replies]

    def next_reply(self, request: Json) -> tuple[int, Reply]:
        with self._lock:
            self._number += 1
            first = self._script[0] if self._script else None
            reply = first(request) if callable(first) else first
            if reply is not None:
                self._script.pop(0)
            return self._number, reply or script_reply("Done.")


class _Endpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._answer(b'{"object":"list","data":[]}', "application/json")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) < length or self._has_left():
            self.close_connection = True
            return
        if not self.path.endswith("/completions"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        request = json.loads(body)
        number, reply = self._model.next_reply(request)
        if reply.is_held:
            self._hold_back(_events(number, reply)[: len(reply.pieces)])
        elif request.get("stream"):
            body = b"".join(_events(number, reply)) + b"data: [DONE]\n\n"
            self._answer(body, "text/event-stream")
        else:
            finish = "tool_calls" if reply.tool else "stop"
            choice = {"index": 0, "message": reply.message(number), "finish_reason": finish}
            completion = _object(number, "chat.completion", [choice], usage=USAGE)
            self._answer(json.dumps(completion).encode(), "application/json")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name.
        pass

    @property
    def _model(self) -> ScriptedModel:
        return cast("_Endpoint", self.server).model

    def _has_left(self) -> bool:
        """Whether nobody waits any more, so that the next one to ask gets this reply."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        is_readable = bool(poll.poll(0))
        with suppress(OSError):
            return is_readable and not self.connection.recv(1, socket.MSG_PEEK)
        return True

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _hold_back(self, parts: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"".join(parts))
        # One whose client is gone may be reset as well.
        with suppress(OSError):
            while self.connection.recv(4096):
                pass
        self.close_connection = True
        self._model.hung_up.release()


def _events(number: int, reply: Reply) -> list[bytes]:
    finish = "tool_calls" if reply.tool else "stop"
    choices: list[Json] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in reply.deltas(number)
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [_object(number, "chat.completion.chunk", [each]) for each in choices]
    chunks.append(_object(number, "chat.completion.chunk", [], usage=USAGE))
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


def _object(number: int, kind: str, choices: list[Json], **more: Any) -> Json:
    chunk = {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": "scripted"}
    return {**chunk, "choices": choices, **more}
