"""Servers that break one rule each: the real one, with its messages changed on their way.

The tables have a break for each check, by its id: most change messages as they come.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from oh_daemon.conformance.acp_checks import AcpAgent
from oh_daemon.conformance.bench import WRONG, Bench, ConformanceCheck, TestServer
from oh_daemon.conformance.connection import ServerConnection
from oh_daemon.conformance.rpc_process import AnswerTimeout, Json

Change = Callable[[Json], Any]
"""Takes a message, or a part of it, and changes that."""


class Line:
    """What a break may know: the messages that came before, and the method of each request."""

    def __init__(self) -> None:
        self.methods: dict[str, str] = {}
        self.params: dict[str, Any] = {}
        self.n_answers: dict[str, int] = {}
        self.later: list[Json] = []

    def on_sent(self, message: Json) -> None:
        if "method" in message and "id" in message:
            self.methods[json.dumps(message["id"])] = message["method"]
            self.params[json.dumps(message["id"])] = message.get("params")

    def method_of(self, message: Json) -> str:
        """Return what an answer is about, "" for another message."""
        return "" if "method" in message else self.methods.get(json.dumps(message["id"]), "")


Break = Callable[[Line, Json], "list[Json]"]


@dataclass(frozen=True)
class Exits:
    """Ends with this exit code, whatever it should be."""

    code: int


class Prints:
    """Writes a line to the stream of messages."""


def answer(method: str, change: Change) -> Break:
    """Change the result of a method."""
    return lambda line, message: (
        _change_message(message, lambda m: change(m["result"]))
        if line.method_of(message) == method and "result" in message
        else [message]
    )


def recode(old: int, new: int) -> Break:
    def change(_line: Line, message: Json) -> list[Json]:
        if message.get("error", {}).get("code") == old:
            message["error"]["code"] = new
        return [message]

    return change


def refuse(code: int, *methods: str) -> Break:
    """Answer these methods with an error, whatever they would be answered with."""
    return lambda line, message: (
        [{"id": message["id"], "error": {"code": code, "message": "no", "data": {}}}]
        if line.method_of(message) in methods
        else [message]
    )


def accept(code: int, result: Any = None) -> Break:
    """Give a result in place of this error."""
    return lambda _line, message: (
        [{"id": message["id"], "result": result or {}}]
        if message.get("error", {}).get("code") == code
        else [message]
    )


def errors(change: Change) -> Break:
    return lambda _line, message: (
        _change_message(message, lambda m: change(m["error"])) if "error" in message else [message]
    )


def event(kind: str, change: Change) -> Break:
    """Change the params of events of this type; `change` gets the params."""
    return lambda _line, message: (
        _change_message(message, lambda m: change(m["params"]))
        if type_of(message) == kind
        else [message]
    )


def break_method(method: str, change: Change) -> Break:
    """Change the params of what the server sends under this method."""
    return lambda _line, message: (
        _change_message(message, lambda m: change(m["params"]))
        if message.get("method") == method
        else [message]
    )


def twice(is_wanted: Callable[[Line, Json], bool]) -> Break:
    return lambda line, message: [message] * (1 + is_wanted(line, message))


def late(is_wanted: Callable[[Line, Json], bool], until: Callable[[Line, Json], bool]) -> Break:
    """Hold messages back until another one has come, which they follow."""

    def change(line: Line, message: Json) -> list[Json]:
        if is_wanted(line, message):
            line.later.append(message)
            return []
        if until(line, message):
            line.later, frames = [], line.later
            return [message, *frames]
        return [message]

    return change


def type_of(message: Json) -> str:
    """Return the type of an event, "" for another message."""
    is_event = message.get("method") == "conversation/event"
    return message["params"]["event"]["type"] if is_event else ""


def _change_message(message: Json, change: Change) -> list[Json]:
    """Return the message with the change; one that has no such part stays as it is."""
    copy = json.loads(json.dumps(message))
    with suppress(LookupError, TypeError, AttributeError, ValueError):
        change(copy)
    return [copy]


def put_fields(**fields: Any) -> Change:
    return lambda value: value.update(fields)


def drop(*names: str) -> Change:
    def change(value: Json) -> None:
        for name in names:
            value.pop(name, None)

    return change


def within(path: str, change: Change) -> Change:
    """Change what lies deeper, by names and numbers with dots between."""

    def go(value: Any) -> Any:
        for name in path.split("."):
            value = value[int(name) if name.isdigit() else name]
        return change(value)

    return go


def block(change: Change) -> Break:
    return answer("initialize", within("capabilities.experimental.ohDaemon", change))


def of(kind: str) -> Callable[[Line, Json], bool]:
    return lambda _line, message: type_of(message) == kind


def is_request(method: str) -> Callable[[Line, Json], bool]:
    return lambda _line, message: message.get("method") == method


def answers(method: str) -> Callable[[Line, Json], bool]:
    return lambda line, message: line.method_of(message) == method


def by_id(prefix: str, new: Any) -> Break:
    """Answer requests whose id begins so under another id, or with another error code."""

    def change(_line: Line, message: Json) -> list[Json]:
        if "method" in message or not str(message["id"]).startswith(prefix):
            return [message]
        if isinstance(new, int):
            return [{**message, "error": {**message.get("error", {}), "code": new}}]
        return [{**message, "id": new}]

    return change


def break_unrequested(message: Json) -> Break:
    """Send this too, right after the answer to `initialize`."""
    return lambda line, each: [each, message] if line.method_of(each) == "initialize" else [each]


def shift_seq(message: Json) -> list[Json]:
    message["params"]["seq"] += message["params"]["seq"] > 3
    return [message]


def duplicates(_line: Line, message: Json) -> list[Json]:
    """Answer as if nothing were ever repeated."""
    if "result" in message and isinstance(message["result"], dict):
        message["result"].pop("duplicate", None)
    return [message]


def begins_twice(event: Json) -> None:
    if event["to"] == "running":
        event["from"] = "finished"


def only_in_wait(change: Change) -> Break:
    """Change the answers to messages that were sent with `wait`."""

    def go(line: Line, message: Json) -> list[Json]:
        params = line.params.get(json.dumps(message.get("id"))) or {}
        is_wanted = "result" in message and isinstance(params, dict) and "wait" in params
        return _change_message(message, lambda m: change(m["result"])) if is_wanted else [message]

    return go


def once_asked(method: str, change: Change) -> Break:
    """Change the events that come after a request of this method."""
    return lambda line, message: (
        _change_message(message, lambda m: change(m["params"]))
        if type_of(message) and method in line.methods.values()
        else [message]
    )


def of_method(method: str, code: int) -> Break:
    """Answer a method with another error code than it is."""
    return lambda line, message: (
        recode(message["error"]["code"], code)(line, message)
        if line.method_of(message) == method and "error" in message
        else [message]
    )


DELTA = {"conversationId": "x", "itemId": "i", "channel": "text", "offset": 0, "text": "a"}


def calls_early(line: Line, message: Json) -> list[Json]:
    """Run what waits for approval, as if it had been allowed."""
    if message.get("method") != "approval/request":
        return [message]
    params = {"conversationId": message["params"]["conversationId"], "name": "probe"}
    return [{"jsonrpc": "2.0", "method": "tool/call", "params": params}, message]


OF_SERVERS: dict[str, Break | Exits | Prints] = {
    "B1": by_id("é", -32700),
    "B2": by_id("header-", -32700),
    "B3": Prints(),
    "B4": recode(-32700, -32600),
    "B5": recode(-31014, -32700),
    "B6": Exits(1),
    "B7": by_id("last", "first"),
    "B8": twice(answers("conversation/list")),
    "B9": by_id("0", "0"),
    "B10": recode(-32600, -32700),
    "B11": recode(-32600, -32602),
    "B12": refuse(-32600, "conversation/list"),
    "B13": of_method("$/noSuchRequest", -32602),
    "B15": refuse(-32602, "conversation/list"),
    "B16": refuse(-32602, "conversation/list"),
    "B17": event("turn.started", within("event", put_fields(options=None))),
    "B18": accept(-32602),
    "B19": recode(-32800, -32603),
    "B20": recode(-32002, -32600),
    "B21": recode(-32600, -32602),
    "B22": recode(-32600, -32601),
    "B23": Exits(0),
    "B24": Exits(1),
    "I2": block(drop("notifications")),
    "I3": recode(-31022, -32602),
    "I4": block(lambda ours: ours["methods"].remove("conversation/pause")),
    "I5": break_unrequested(
        {"jsonrpc": "2.0", "id": 1, "method": "editor/applyEdit", "params": {}}
    ),
    "I6": block(within("understood", put_fields(features=[]))),
    "I7": errors(within("data.errors.0", put_fields(path="processId"))),
    "I8": answer("initialize", within("capabilities", put_fields(positionEncoding="utf-16"))),
    "I12": break_unrequested({"method": "conversation/delta", "params": DELTA}),
    "L1": block(within("limits", drop("textPartBytes"))),
    "L2": errors(within("data", drop("retryAfterMs"))),
    "L6": recode(-32602, -32603),
    "E1": errors(within("data", put_fields(kind="invalid_params"))),
    "E2": errors(within("data", drop("retryable"))),
    "E3": errors(within("data.errors.0", put_fields(path=""))),
    "E4": errors(put_fields(message="'hunter2-hunter2' is no number")),
    "E5": event("turn.completed", within("event.turn", put_fields(status="failed"))),
    "X1": refuse(-32602, "conversation/list"),
    "X3": block(within("understood", put_fields(unknown=["features._acmeTicket"]))),
    "X9": errors(within("data.errors.0", put_fields(code="invalid"))),
    "T2": recode(-31001, -31002),
    "O1": lambda _line, m: shift_seq(m) if type_of(m) else [m],
    "O2": answer("conversation/open", lambda result: result.get("events", []).clear()),
    "O3": late(answers("conversation/sendMessage"), of("status.changed")),
    "O4": late(is_request("conversation/delta"), of("item.completed")),
    "O5": late(of("approval.requested"), is_request("approval/request")),
    "O6": late(of("usage.updated"), of("turn.completed")),
    "O7": event("status.changed", put_fields(turnId="t")),
    "O9": answer("conversation/sendMessage", put_fields(queuePosition=7)),
    "O11": break_method("conversation/delta", put_fields(offset=1)),
    "S1": event("status.changed", within("event", begins_twice)),
    "S2": event("status.changed", within("event", drop("reason"))),
    "C1": only_in_wait(drop("finalText")),
    "C2": recode(-31002, -31006),
    "C3": late(answers("conversation/start"), of("conversation.created")),
    "C4": answer("conversation/open", put_fields(lastSeq=1)),
    "C5": answer("conversation/subscribe", put_fields(lastSeq=1)),
    "C6": accept(-31003),
    "C7": accept(-32602, {"conversation": {"id": "c"}}),
    "C8": answer("conversation/sendMessage", put_fields(disposition="queued")),
    "C9": accept(-31005),
    "C10": late(of("turn.completed"), of("turn.started")),
    "C11": answer("conversation/interrupt", put_fields(status="interrupted")),
    "C12": answer("conversation/resume", put_fields(turnId="another")),
    "C13": errors(within("data", drop("lock"))),
    "C14": break_method("conversation/changed", put_fields(change="updated")),
    "C15": refuse(-31002, "conversation/delete"),
    "C16": answer("conversation/update", within("conversation", put_fields(title="Another"))),
    "C17": answer("conversation/list", lambda result: result["conversations"].append({"id": "x"})),
    "R1": answer("conversation/open", lambda result: result["events"][0].update(v=3)),
    "R2": once_asked("approval/respond", lambda params: params.update(seq=params["seq"] - 5)),
    "R3": once_asked("approval/respond", put_fields(epoch="another")),
    "R4": answer("conversation/open", within("conversation", put_fields(status="idle"))),
    "R5": break_method("approval/request", put_fields(id="another")),
    "R6": answer("conversation/events", lambda result: result["events"].pop()),
    "K1": duplicates,
    "K1-restart": duplicates,
    "K2": accept(-31016),
    "K3": duplicates,
    "K4": duplicates,
    "K5": only_in_wait(put_fields(turn={})),
    "A1": answer("approval/list", put_fields(pending=[])),
    "A2": answer("conversation/open", put_fields(pending=[])),
    "A3": calls_early,
    "A4": break_method("tool/call", put_fields(arguments={"n": 99})),
    "A5": answer("approval/respond", put_fields(resolved=True)),
    "A7": recode(-31021, -31002),
    "A9": event("approval.resolved", within("event", put_fields(by="user"))),
    "A10": event("approval.resolved", within("event", put_fields(by="policy"))),
    "A11": answer("approval/respond", drop("needsResume")),
    "conversation/ask": answer("conversation/ask", put_fields(text="")),
    "conversation/fork": answer("conversation/open", put_fields(lastSeq=1)),
}  # fmt: skip
OF_CLIENTS: dict[str, Break | Exits | Prints] = {
    "B1": Prints(),
    "A3": break_method("approval/respond", put_fields(digest="another")),
    "A5": recode(-32601, -32603),
    "A7": break_method("approval/respond", put_fields(optionId="maybe")),
    "B11": lambda _line, m: [{**m, "id": 1}] if "id" in m and "method" in m else [m],
    "B12": accept(-32601),
    "B13": recode(-32601, -32603),
    "B14": recode(-32601, -32603),
    "B18": break_method("textDocument/didOpen", within("textDocument", drop("version"))),
    "B22": twice(is_request("exit")),
    "C7": break_method("conversation/start", put_fields(content=[])),
    "D1": break_method("textDocument/didOpen", within("textDocument", put_fields(version="1"))),
    "I1": lambda _line, m: [{**m, "method": "start"}] if m.get("method") == "initialize" else [m],
    "I10": lambda _line, m: [] if m.get("method") == "initialized" else [m],
    "W2": answer("editor/applyEdit", put_fields(applied=True)),
    "W3": break_method("textDocument/didChange", within("textDocument", put_fields(version=0))),
    "W7": lambda _line, m: (
        [{**m, "method": "textDocument/didSave"}, m]
        if m.get("method") == "textDocument/didChange"
        else [m]
    ),
    "X8": recode(-32601, -32603),
}
"""The same for clients: what comes from them, changed."""
OF_AGENTS: dict[str, Break] = {
    "initialize": answer("initialize", drop("agentCapabilities")),
    "version": answer("initialize", put_fields(protocolVersion=65535)),
    "session-id": answer("session/new", put_fields(sessionId="always-the-same")),
    "stop-reason": answer("session/prompt", put_fields(stopReason="bored")),
    "resource-link": refuse(-32602, "session/prompt"),
    "update-order": late(is_request("session/update"), answers("session/prompt")),
    "cancel": refuse(-32603, "session/prompt"),
    "permission": break_method(
        "session/request_permission", within("options.0", put_fields(kind="allow"))
    ),
    "permission-cancelled": answer("session/prompt", put_fields(stopReason="end_turn")),
    "tool-call": break_method("session/update", within("update", put_fields(status="someday"))),
    "load": break_method("session/update", within("update.content", put_fields(text="Hm."))),
    "unknown-method": recode(-32601, -32603),
    "malformed-json": recode(-32700, -32603),
    "unknown-session": accept(-32602),
    "stdout": twice(answers("session/prompt")),
}
"""The same for agents that speak ACP."""
BREAKS: dict[str, Mapping[str, Break | Exits | Prints]] = {
    "server": OF_SERVERS,
    "acp": OF_AGENTS,
    "client": OF_CLIENTS,
}
PATIENT_S, BRIEF_S = 60.0, 2.0
NEEDS_TIME = {"B7", "B9", "C10", "C14"}
"""Breaks that leave a check waiting."""
OF_THE_START = {"I2", "I4", "L1"}
"""What a server breaks in its answer to `initialize`."""


class Broken(ServerConnection):
    """One end of a line that breaks the rule `breaks`."""

    def __init__(self, *args: Any, breaks: Any = None, **options: Any) -> None:
        self.breaks: Break | Exits | Prints | None = breaks
        self.line = Line()
        super().__init__(*args, **options)

    def send(self, message: Any) -> None:
        self.line.on_sent(message)
        super().send(message)

    def exit_code(self, **options: Any) -> int:
        code = super().exit_code(**options)
        return self.breaks.code if isinstance(self.breaks, Exits) else code

    def _read_message(self, stream: IO[bytes]) -> Json | None:
        is_printing = isinstance(self.breaks, Prints)
        return super()._read_message(io.BytesIO(b"hello\n") if is_printing else stream)

    def _on_message(self, message: Json) -> None:
        for each in self.breaks(self.line, message) if callable(self.breaks) else [message]:
            super()._on_message(each)


class BrokenServer(Broken, TestServer):
    pass


class BrokenAgent(Broken, AcpAgent):
    pass


class BrokenBench(Bench):
    """Starts what breaks one rule after another; a server that can be whole again is lent again."""

    breaks: Any = None

    def start(self, kind: Any = TestServer) -> Any:
        broken_kind = BrokenAgent if kind is AcpAgent else BrokenServer
        return super().start(partial(broken_kind, breaks=self.breaks))

    def connection(self, process: subprocess.Popen[bytes]) -> ServerConnection:
        return Broken(process, reading=False, within_s=self.within_s, breaks=self.breaks)

    def has_finding(self, check: ConformanceCheck) -> bool:
        """Return whether a server that breaks its rule fails this check."""
        breaks = BREAKS[suite_of(check)][check.id]
        is_brief = check.id in NEEDS_TIME or suite_of(check) == "client"
        self.within_s = BRIEF_S if is_brief else PATIENT_S
        self._outcomes.clear()
        is_shared = suite_of(check) == "server" and check.id not in OF_THE_START
        shared_server: Any = self.server if is_shared else None
        if shared_server is None:
            self.tidy(has_failed=True)
        self.breaks = breaks
        self._lend(shared_server, breaks, self.within_s)
        try:
            check.run(self)
        except AnswerTimeout:
            # A check that only waits in vain has not seen what is broken.
            return is_brief or isinstance(breaks, Prints)
        except WRONG:
            return True
        finally:
            self.breaks = None
            self._lend(shared_server, None, PATIENT_S)
            self.tidy(has_failed=shared_server is None)
        return False

    def _lend(self, server: Any, breaks: Any, within_s: float) -> None:
        if server is not None:
            server.breaks, server.line, server.within_s = breaks, Line(), within_s


def suite_of(check: ConformanceCheck) -> str:
    return check.profile if check.profile in BREAKS else "server"
