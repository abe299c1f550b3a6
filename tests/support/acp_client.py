"""A client of `oh-daemon acp` without any SDK: it checks all that it is sent, and plays others.

Each frame is checked against the official schema and against the rules that real clients rely on:
no update of a session before the answer that begins it, none after the answer to its prompt but a
few kinds, no update of a call that was not announced, no question outside a prompt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Self, cast

import starts
from jsonschema import Draft202012Validator
from places import TESTS

from oh_daemon.conformance.rpc_process import WITHIN_S, Json, NoAnswer, RpcError, RpcProcess

SCHEMA: Json = json.loads(TESTS.joinpath("data/acp/schema.json").read_text("utf-8"))
AT_ANY_TIME = {
    *("session_info_update", "available_commands_update", "usage_update"),
    *("config_option_update", "current_mode_update"),
}
"""The updates that clients take outside a prompt, too."""
BEGINNINGS = {"session/new", "session/load", "session/resume", "session/fork"}
FS: Json = {"fs": {"readTextFile": True, "writeTextFile": True}}


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


@cache
def _method_name(method: str, suffix: str) -> str | None:
    """Return the definition of a method's params or result in the schema."""
    names_used = (
        name
        for name, each in SCHEMA["$defs"].items()
        if each.get("x-method") == method and name.endswith(suffix)
    )
    return next(names_used, None)


class AcpClient(RpcProcess):
    """One agent process and the client's end of its pipes. Any thread may send and wait."""

    def __init__(self, cwd: Path, env: Mapping[str, str], *, without: Sequence[str] = ()) -> None:
        """Start with `env` laid over our environment, but for the variables that are left out."""
        self.problems: list[str] = []
        self._open_requests: dict[int, tuple[str, Json]] = {}
        """The method and params of each request, by its id."""
        self._answers: dict[int, Json] = {}
        self._announced_ids: set[str] = set()
        self._ended_ids: set[str] = set()
        """The calls that were told to have ended, which some clients forget then."""
        self._begun_ids: set[str] = set()
        self._in_prompt: set[str] = set()
        argv = (sys.executable, "-m", "oh_daemon", "acp")
        pipe = subprocess.PIPE
        process = starts.start(
            argv,
            env={key: value for key, value in {**os.environ, **env}.items() if key not in without},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            bufsize=0,
        )
        super().__init__(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.process.kill()

    # Sending

    def initialize(self, name: str = "replica", **capabilities: Any) -> Json:
        """Initialize as the client of this name; without one, as one that does not say it."""
        info = {"clientInfo": {"name": name, "version": "1"}} if name else {}
        params = {"protocolVersion": 1, "clientCapabilities": capabilities, **info}
        return self.request("initialize", params)

    def new(self, cwd: Path, **params: Any) -> str:
        """Begin a session there; return its id."""
        result = self.request("session/new", {"cwd": str(cwd), "mcpServers": [], **params})
        return result["sessionId"]

    def prompt(self, session_id: str, text: str) -> Json:
        """Send a prompt and return its answer."""
        return self.result_of(self.send_prompt(session_id, text))

    def send_prompt(self, session_id: str, text: str, *more: Json) -> int:
        blocks = [{"type": "text", "text": text}, *more]
        return self.send_request("session/prompt", {"sessionId": session_id, "prompt": blocks})

    def cancel(self, session_id: str) -> None:
        self.notify("session/cancel", {"sessionId": session_id})

    def request(self, method: str, params: Json | None = None) -> Any:
        return self.result_of(self.send_request(method, params))

    def error(self, method: str, params: Json | None = None) -> RpcError:
        return self.error_of(self.send_request(method, params))

    def send_request(self, method: str, params: Json | None = None) -> int:
        request_id = next(self._ids)
        with self._condition:
            self._open_requests[request_id] = (method, params or {})
            if method == "session/prompt":
                self._in_prompt.add((params or {}).get("sessionId", ""))
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
        self.send(message)
        return request_id

    def notify(self, method: str, params: Json) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Json) -> None:
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        self.send_raw(line + b"\n")

    def allow(self, kind: str = "allow_once") -> None:
        """Answer all permissions with the option of this kind."""
        self.answer("session/request_permission", lambda params: choose(params, kind))

    # Waiting

    def updates(self, *kinds: str) -> list[Json]:
        """Return all updates so far, or those of these kinds."""
        updates = [m["params"]["update"] for m in list(self.messages) if is_update(m)]
        return [update for update in updates if not kinds or update["sessionUpdate"] in kinds]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """Return all text so far, of the agent or of another kind, in one piece."""
        return "".join(each["content"]["text"] for each in self.updates(kind))

    def requests_of(self, method: str) -> list[Json]:
        """Return the params of the agent's requests of this method so far."""
        return [m["params"] for m in list(self.messages) if m.get("method") == method]

    def wait_for_update(self, kind: str) -> Json:
        is_expected = lambda m: is_update(m) and m["params"]["update"]["sessionUpdate"] == kind  # noqa: E731 - one use.
        return self.wait_for(is_expected)["params"]["update"]

    def wait_for_request(self, method: str) -> Json:
        return self.wait_for(lambda message: message.get("method") == method)["params"]

    def result_of(self, request_id: int) -> Any:
        answer = self._answer_to(request_id)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def error_of(self, request_id: int) -> RpcError:
        answer = self._answer_to(request_id)
        assert "error" in answer, answer
        return RpcError(answer["error"])

    def has_answer(self, request_id: int) -> bool:
        return request_id in self._answers

    def _answer_to(self, request_id: int) -> Json:
        self._wait(lambda: request_id in self._answers, WITHIN_S)
        return self._answers[request_id]

    # Ending

    def kill(self) -> None:
        """Kill the agent; what it was asked then needs no answer."""
        self.process.kill()
        self.process.wait(WITHIN_S)
        self._open_requests.clear()

    def close(self, *, is_busy: bool = False) -> int:
        """Close the input as a client that ends, check everything, return the exit code.

        A second later an agent ends in any case, so one that is busy may not get to all answers.
        """
        self._pipe("stdin").close()
        code = self.process.wait(WITHIN_S)
        with self._condition:
            self._condition.wait_for(lambda: self._is_at_end, WITHIN_S)
        for name in ("stdout", "stderr"):
            self._pipe(name).close()
        if is_busy:
            self._open_requests.clear()
        missing_requests = [
            request for each, request in self._open_requests.items() if each not in self._answers
        ]
        assert not self.problems, self.problems
        assert not missing_requests, missing_requests
        return code

    # Reading and checking

    def _read_message(self, stream: IO[bytes]) -> Json | None:
        # An agent that is killed, or that gives up, may leave half a frame.
        while (line := stream.readline()).endswith(b"\n"):
            try:
                return json.loads(line)
            except ValueError:
                self.problems.append(f"not JSON: {line[:200]!r}")
        return None

    def _accept(self, message: Json) -> None:
        method, params = message.get("method"), message.get("params")
        if method is None:
            self._take_answer(message)
        elif method == "session/update":
            self._check(message, "SessionNotification", params)
            self._check_update(cast("Json", params))
        elif "id" in message:
            self._check(message, _method_name(method, "Request"), params)
            self._check_question(method, cast("Json", params))
        elif method == "$/cancel_request":
            self._check(message, "CancelRequestNotification", params)
        else:
            self.problems.append(f"an unknown notification: {message}")

    def _take_answer(self, message: Json) -> None:
        request_id = message["id"]
        if not isinstance(request_id, int):
            return  # What could not be read has no id, or one that only the test knows.
        if request_id in self._answers or request_id not in self._open_requests:
            self.problems.append(f"an answer to no open request: {message}")
            return
        self._answers[request_id] = message
        method, params = self._open_requests[request_id]
        if "error" in message:
            self._check(message, "Error", message["error"])
        else:
            self._check(message, _method_name(method, "Response"), message["result"])
        other_ids = [
            each
            for each, (name, its) in self._open_requests.items()
            if name == "session/prompt"
            and its["sessionId"] == params.get("sessionId")
            and each not in self._answers
        ]
        if method == "session/prompt" and not other_ids:
            self._in_prompt.discard(params["sessionId"])
        if method in BEGINNINGS and "result" in message:
            self._begun_ids.add(message["result"].get("sessionId") or params["sessionId"])

    def _check(self, message: Json, name: str | None, value: Any) -> None:
        if name is None:
            return
        for error in _validator(name).iter_errors(value):
            self.problems.append(f"{error.message[:300]} in {json.dumps(message)[:500]}")

    def _check_update(self, params: Json) -> None:
        session, update = params["sessionId"], params["update"]
        kind = update["sessionUpdate"]
        is_loading = any(
            method == "session/load"
            and request["sessionId"] == session
            and each not in self._answers
            for each, (method, request) in self._open_requests.items()
        )
        if session not in self._begun_ids and not is_loading:
            self.problems.append(f"an update before the session began: {update}")
        if kind not in AT_ANY_TIME and session not in self._in_prompt and not is_loading:
            self.problems.append(f"an update outside a prompt: {update}")
        if kind == "tool_call":
            if update["toolCallId"] in self._announced_ids and not is_loading:
                self.problems.append(f"announced twice: {update}")
            self._announced_ids.add(update["toolCallId"])
        if kind == "tool_call_update" and update["toolCallId"] not in self._announced_ids:
            self.problems.append(f"an update of a call that was not announced: {update}")
        if kind == "tool_call_update" and update["toolCallId"] in self._ended_ids:
            self.problems.append(f"an update of a call that has ended: {update}")
        if update.get("status") in {"completed", "failed"}:
            self._ended_ids.add(update["toolCallId"])

    def _check_question(self, method: str, params: Json) -> None:
        if params["sessionId"] not in self._begun_ids:
            self.problems.append(f"{method} of a session that has not begun")
        if method == "session/request_permission":
            kinds = [option["kind"] for option in params["options"]]
            if params["sessionId"] not in self._in_prompt:
                self.problems.append(f"a question outside a prompt: {params}")
            if params["toolCall"]["toolCallId"] not in self._announced_ids:
                self.problems.append(f"a question about a call that was not announced: {params}")
            if len(set(kinds)) < len(kinds) or not {"allow_once", "reject_once"} <= set(kinds):
                self.problems.append(f"options of the kinds {kinds}")


def is_update(message: Json) -> bool:
    return message.get("method") == "session/update"


def choose(params: Json, kind: str) -> Json:
    """Return the answer to a permission that chooses the option of this kind."""
    [option] = [each for each in params["options"] if each["kind"] == kind]
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


def wait_for_answer(_params: Json) -> Any:
    raise NoAnswer


def texts_of(update: Json) -> Sequence[str]:
    """Return the texts in the content of a call."""
    texts_found = (each for each in update.get("content") or () if each["type"] == "content")
    return [each["content"]["text"] for each in texts_found if each["content"]["type"] == "text"]
