"""A scripted server that drives a client, and what it finds about the rules for clients.

The program `oh-daemon` that the client starts is a relay to it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from oh_daemon.conformance.bench import WRONG, Bench, ConformanceCheck, Skipped, Violation, expect
from oh_daemon.conformance.connection import ServerConnection
from oh_daemon.conformance.initialize_checks import CORE_METHODS, CORE_NOTIFICATIONS
from oh_daemon.conformance.order_checks import leave_open
from oh_daemon.conformance.rpc_process import AnswerTimeout, Json, part

UNKNOWN = "conformance/unknown"
NO_METHOD = -32601
RELAY = """#!{python} -IS
import os, socket, threading
line = socket.socket(socket.AF_UNIX)
line.connect({path!r})
def pump(read, write, end):
    while data := read():
        write(data)
    end()
arguments = (lambda: os.read(0, 65536), line.sendall, lambda: line.shutdown(socket.SHUT_WR))
threading.Thread(target=pump, args=arguments, daemon=True).start()
try:
    pump(lambda: line.recv(65536), lambda data: os.write(1, data), lambda: None)
except OSError:
    pass
"""
CONVERSATION: Json = {
    "id": "c1", "title": "Conformance", "folders": [], "status": "running", "model": "scripted",
    "createdAt": "2026-11-21T08:13:38.782Z", "updatedAt": "2026-11-21T08:13:38.782Z",
    "lastSeq": 3, "epoch": "e1", "messageCount": 1, "context": {"used": 0}, "options": {},
    "usage": dict.fromkeys(
        ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens",
         "reasoningTokens", "requests"), 0),
    "archived": False, "tags": [], "metadata": {}, "queueLength": 0, "pendingCount": 0,
    "lock": {"mine": True},
}  # fmt: skip
OPTIONS = [
    {"id": "let-it", "label": "Allow once", "effect": "allow", "scope": "once"},
    {"id": "no-way", "label": "Reject", "effect": "reject", "scope": "once"},
]


class ClientScenario:
    """One client at work, and what was seen of it, by rule."""

    def __init__(self, client: ServerConnection) -> None:
        self.client = client
        for method in ("initialize", "conversation/start", "approval/respond", "shutdown"):
            client.answer(method, leave_open)  # Answered in their turn; others are refused.
        client.answer("conversation/list", lambda _params: {"conversations": []})
        client.read_on()
        self.features: Json = {}
        self.findings: dict[str, tuple[bool, str, tuple[Any, ...]]] = {}
        self._seq = 0

    def note(self, rule: str, condition: object, problem: str, *frames: Any) -> None:
        """Note what was seen; of several of a rule, the first that breaks it counts."""
        if self.findings.get(rule, (True,))[0]:
            self.findings[rule] = (bool(condition), problem, frames)

    def run(self) -> None:
        """Drive it as far as it comes."""
        for step in (self._greet, self._converse, self._edit, self._end):
            try:
                step()
            except AnswerTimeout:
                continue  # The client does not come to that.
            except WRONG as exc:
                self.note("B18", condition=False, problem=f"a message of another form: {exc!r}")
        self.note("B18", condition=True, problem="")
        if not self.findings:
            self.note("I1", condition=False, problem="it sends nothing")
        self.note("B1", not self.client.problems, "not framed", *self.client.problems)
        requests = [m for m in self.client.messages if "method" in m and "id" in m]
        ids = [repr(m["id"]) for m in requests]
        self.note("B11", len({*ids}) == len(ids), f"ids come twice: {ids}", *requests[-3:])

    def _greet(self) -> None:
        first = self.client.wait_for(lambda _message: True)
        is_right = first.get("method") == "initialize" and first.get("jsonrpc") == "2.0"
        self.note("I1", is_right, "the first message is `initialize`", first)
        options = part(first["params"], "initializationOptions")
        experimental = part(part(first["params"], "capabilities"), "experimental")
        block = options.get("ohDaemon", experimental.get("ohDaemon"))
        self.note("I1", isinstance(block, dict | None), "its block is an object", first)
        self.features = part(block or {}, "features")
        self._answer(first, {"capabilities": _capabilities(), "serverInfo": {"name": "scripted"}})
        after = self.client.wait_for(lambda m: m.get("method") != "initialize")
        self.note("I10", after.get("method") == "initialized", "it follows the answer", after)
        self._is_alive("B14", "a request that it does not know")
        self.client.send_request(UNKNOWN, {}, first["id"])
        answer = self.client.answer_to(first["id"], nth=self.client.n_answers(first["id"]) or 1)
        self.note("B12", "error" in answer, "a request under an id of the client's own", answer)
        self.client.notify(UNKNOWN, {"x": 1})
        self._is_alive("B13", "a request after an unknown notification")

    def _converse(self) -> None:
        start = self._request_from("conversation/start")
        self.note("C7", start["params"].get("content", True), "a message says something", start)
        result: Json = {"conversation": CONVERSATION, "options": [], "turnId": "t1"}
        self._answer(start, {**result, "noSuchField": 1})
        self._event({"type": "turn.started", "cause": "message", "noSuchField": {}})
        self._event({"type": "hologram.shown", "title": "of a later version"})
        item: Json = {"id": "i0", "kind": "hologram", "status": "completed", "title": "Unknown"}
        self._event({"type": "item.completed", "item": item})
        self._is_alive("X8", "a request after events and items of a later version")
        if not self.features.get("approvalRequests"):
            return
        withdrawn_id = self._approve("a1")
        self.client.notify("$/cancelRequest", {"id": withdrawn_id})
        resolution: Json = {"decision": {"effect": "reject", "scope": "once"}, "by": "superseded"}
        self._event({"type": "approval.resolved", "approvalId": "a1", **resolution})
        self._is_alive("A5", "a request after one that was withdrawn")
        approval_id = self._approve("a2")
        answer = self.client.wait_for(
            lambda m: (
                ("method" not in m and m["id"] == approval_id)
                or (m.get("method") == "approval/respond" and m["params"]["approvalId"] == "a2")
            )
        )
        choice = part(answer, "result") or part(answer, "params")
        options = [each["id"] for each in OPTIONS]
        is_right = choice.get("optionId") in options or "decision" in choice or "error" in answer
        self.note("A7", is_right, f"its options are {options}", answer)
        if "method" in answer:
            self.note("A3", choice.get("digest") == "d-a2", "the digest is d-a2", answer)
            self._answer(answer, {"resolved": True})

    def _approve(self, name: str) -> Any:
        """Ask for an approval; return the request's id."""
        approval = {
            "id": name, "digest": f"d-{name}", "conversationId": "c1", "turnId": "t1",
            "itemId": f"i-{name}", "title": "Run make", "risk": "medium", "options": OPTIONS,
            "subject": {"kind": "command", "command": "make", "cwd": "/"},
            "createdAt": "2026-11-21T08:13:38.782Z",
        }  # fmt: skip
        self._event({"type": "approval.requested", "approval": approval})
        return self.client.send_request("approval/request", approval)

    def _edit(self) -> None:
        """Edit the first document that is open, for its version and for an older one."""
        documents = [m["params"]["textDocument"] for m in self._all("textDocument/didOpen")]
        for document in documents:
            is_right = isinstance(document["version"], int) and isinstance(document["text"], str)
            self.note("D1", is_right, "a document has its version and text", document)
        if not documents or not self.features.get("applyEdit2"):
            return
        version = documents[0]["version"]
        result = self._apply(documents[0]["uri"], version)
        self.note("W2", result.get("applied") is True, "this is its version", result)
        change = self.client.wait_for(lambda m: m.get("method") == "textDocument/didChange")
        newer = change["params"]["textDocument"]["version"]
        self.note("W3", newer > version, "didChange has a higher version", change)
        result = self._apply(documents[0]["uri"], version)
        is_right = result.get("applied") is False and result.get("failureReason") == "stale"
        self.note("W2", is_right, "this is an older version", result)
        self._is_alive("W7", "a request after two edits")
        saves = self._all("textDocument/didSave")
        self.note("W7", not saves, "it was told not to save", *saves)

    def _apply(self, uri: str, version: int) -> Json:
        zero = {"line": 0, "character": 0}
        edits = [{"range": {"start": zero, "end": zero}, "newText": "# conformance\n"}]
        change = {"textDocument": {"uri": uri, "version": version}, "edits": edits}
        edit = {"documentChanges": [change]}
        params = {"label": "conformance", "edit": edit, "save": "never"}
        return self.client.request("editor/applyEdit", params)

    def _end(self) -> None:
        turn = {"id": "t1", "status": "completed", "stopReason": "endTurn", "nSteps": 1}
        full_turn = {**turn, "usage": CONVERSATION["usage"], "startedAt": CONVERSATION["createdAt"]}
        self._event({"type": "turn.completed", "turn": full_turn})
        self._event({"type": "status.changed", "from": "running", "to": "idle"})
        shutdown = self._request_from("shutdown")
        n_messages = len(self.client.messages)
        self._answer(shutdown, None)
        self.client.wait_for(lambda m: m.get("method") == "exit")
        late = self.client.messages[n_messages:]
        names = [m.get("method") for m in late if "method" in m]
        self.note("B22", names == ["exit"], f"after shutdown comes {names}", *late)

    def _is_alive(self, rule: str, what: str) -> None:
        answer = self.client.answer_to(self.client.send_request(UNKNOWN, {}))
        code = part(answer, "error").get("code")
        self.note(rule, code == NO_METHOD, f"{what} is answered with -32601", answer)

    def _request_from(self, method: str) -> Json:
        return self.client.wait_for(lambda m: m.get("method") == method)

    def _all(self, method: str) -> list[Json]:
        return [m for m in self.client.messages if m.get("method") == method]

    def _answer(self, request: Json, result: Any) -> None:
        self.client.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def _event(self, event: Json) -> None:
        self._seq += 1
        record = {"seq": self._seq, "ts": CONVERSATION["createdAt"], "turnId": "t1", "event": event}
        head = {"conversationId": "c1", "epoch": "e1", "v": 2}
        self.client.notify("conversation/event", {**head, **record})


def _capabilities() -> Json:
    methods = [f"conversation/{name}" for name in sorted(CORE_METHODS)]
    block = {
        "protocolVersion": {"major": 1, "minor": 0},
        "methods": [*methods, "approval/list", "approval/respond", "input/respond"],
        "notifications": sorted(CORE_NOTIFICATIONS),
        "limits": {"maxMessageBytes": 16777216, "requestsInFlight": 64},
    }
    sync = {"openClose": True, "change": 2, "save": True}
    experimental = {"ohDaemon": block}
    plain = {"positionEncoding": "utf-16", "textDocumentSync": sync}
    return {**plain, "experimental": experimental}


def drive(runtime: Bench) -> ClientScenario:
    """Run the client once, for all checks."""
    with _client_of(runtime) as client:
        scenario = ClientScenario(client)
        scenario.run()
        return scenario


@contextmanager
def _client_of(runtime: Bench) -> Generator[ServerConnection]:
    """Start the client, with a relay as `oh-daemon` first in its PATH; give our end of the line."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        relay, path = Path(folder) / "oh-daemon", str(Path(folder) / "line")
        relay.write_text(RELAY.format(python=sys.executable, path=path))
        relay.chmod(0o700)
        listener.bind(path)
        listener.listen()
        listener.settimeout(runtime.within_s)
        words = {"PATH": f"{folder}:{os.environ.get('PATH', '')}", "OH_DAEMON_COMMAND": str(relay)}
        process = runtime.run_beside(words)
        try:
            line, _ = listener.accept()
            with line, line.makefile("rwb", 0) as both, Path(os.devnull).open("rb") as nothing:
                pipes = SimpleNamespace(stdin=both, stdout=both, stderr=nothing)
                yield runtime.connection(cast("subprocess.Popen[bytes]", pipes))
                with suppress(OSError, subprocess.TimeoutExpired):
                    line.shutdown(socket.SHUT_RDWR)
                    # The relay ends with the line, and most clients with the relay.
                    process.wait(runtime.within_s)
        except TimeoutError:
            raise Violation("the client has started no `oh-daemon` that is in its PATH") from None
        finally:
            process.terminate()
            process.wait()


def _parse_check(rule: str) -> ConformanceCheck:
    def run(runtime: Bench) -> None:
        finding = runtime.once(drive).findings.get(rule)
        if finding is None:
            raise Skipped("the client has come to nothing that shows it")
        is_met, problem, frames = finding
        expect(is_met, problem, *frames)

    return ConformanceCheck(rule, run, "client")


RULES = ("B1", "B11", "B12", "B13", "B14", "B18", "B22", "I1", "I10", "C7", "X8")
OF_USERS = ("A3", "A5", "A7", "D1", "W2", "W3", "W7")
"""Rules of what a user does with the client; each is skipped where the client cannot do it."""
CLIENT = [_parse_check(rule) for rule in (*RULES, *OF_USERS)]
