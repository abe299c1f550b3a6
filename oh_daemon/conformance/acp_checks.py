"""Checks for agents that speak the Agent Client Protocol, version 1, as its document demands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from oh_daemon.conformance.bench import Bench, Skipped, TestServer, checks, expect, text
from oh_daemon.conformance.order_checks import leave_open
from oh_daemon.conformance.rpc_process import Json, part
from oh_daemon.conformance.scripted_model import HOLD, Reply, call, script_reply

AUTH_REQUIRED = -32000
STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
STATUSES = {"pending", "in_progress", "completed", "failed"}
OPTION_KINDS = {"allow_once", "allow_always", "reject_once", "reject_always"}
OF_A_TURN = {
    *("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"),
    *("tool_call", "tool_call_update", "plan"),
}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class AcpAgent(TestServer):
    """An agent: each message is a line."""

    def send(self, message: bytes | Json | list[Any]) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.send_raw(data + b"\n")

    def _read_message(self, stream: IO[bytes]) -> Json | None:
        while (line := stream.readline()).endswith(b"\n"):
            try:
                message = self._parse(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            self.problems.append(f"not a message: {line[:200]!r}")
        return None

    def greet(self, version: int = 1) -> Json:
        params = {"protocolVersion": version, "clientCapabilities": CAPABILITIES}
        return self.request("initialize", params)

    def new(self, folder: Path) -> str:
        """Begin a session there; return its id."""
        answer = self.answer_to(
            self.send_request("session/new", {"cwd": str(folder), "mcpServers": []})
        )
        if part(answer, "error").get("code") == AUTH_REQUIRED:
            raise Skipped("the agent wants the user to sign in first")
        session = answer["result"]["sessionId"]
        expect(isinstance(session, str), "sessionId must be a text", answer)
        return session

    def ask(self, session: str, blocks: list[Json]) -> int:
        return self.send_request("session/prompt", {"sessionId": session, "prompt": blocks})

    def updates(self, session: str) -> list[Json]:
        all_updates = self.notifications("session/update")
        return [each["update"] for each in all_updates if each["sessionId"] == session]

    def text_of(self, session: str, kind: str = "agent_message_chunk") -> str:
        chunks = [each for each in self.updates(session) if each["sessionUpdate"] == kind]
        return "".join(each["content"].get("text", "") for each in chunks)


def agent_of(runtime: Bench) -> AcpAgent:
    agent = runtime.start(AcpAgent)
    agent.greet()
    return agent


@dataclass(frozen=True)
class PromptTurn:
    """A prompt of its own session, and how it was answered."""

    agent: AcpAgent
    session: str
    id: int
    answer: Json


def prompt(runtime: Bench, *script: Any, blocks: list[Json] | None = None) -> PromptTurn:
    agent = agent_of(runtime)
    session = agent.new(runtime.project)
    runtime.model.play(*script)
    request_id = agent.ask(session, blocks or text("Begin."))
    return PromptTurn(agent, session, request_id, agent.answer_to(request_id))


def shell_call(request: Json) -> Reply | None:
    """Call whichever of the agent's tools runs a command, else the first that needs arguments."""
    tools = [each["function"] for each in request.get("tools", ())]
    commands = [each for each in tools if "command" in _properties(each)]
    for tool in (*commands, *tools):
        needs = {*part(tool, "parameters").get("required", ()), "command"}
        fields = {k: v for k, v in _properties(tool).items() if k in needs}
        return call(tool["name"], **{name: _value(name, kind) for name, kind in fields.items()})
    return None  # It may ask for a title beside.


def _properties(tool: Json) -> Json:
    return part(part(tool, "parameters"), "properties")


def _value(name: str, kind: Json) -> Any:
    plain: Json = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    words = "touch conformance-was-here" if name == "command" else "medium"
    return (kind.get("enum") or [plain.get(str(kind.get("type")), words)])[0]


def initializes(runtime: Bench) -> None:
    result = runtime.start(AcpAgent).greet()
    is_right = result["protocolVersion"] == 1 and isinstance(result["agentCapabilities"], dict)
    expect(is_right, "asked for version 1", result)


def negotiates(runtime: Bench) -> None:
    version = runtime.start(AcpAgent).greet(65535)["protocolVersion"]
    is_right = isinstance(version, int) and 0 < version < 65535  # noqa: PLR2004
    expect(is_right, f"asked for version 65535, it answered {version!r}")


def session_ids(runtime: Bench) -> None:
    agent = agent_of(runtime)
    ids = [agent.new(runtime.project) for _ in range(2)]
    expect(ids[0] != ids[1], f"the ids are {ids}")


def stop_reasons(runtime: Bench) -> None:
    answer = prompt(runtime, script_reply("Hello.")).answer
    reason = part(answer, "result").get("stopReason")
    expect(reason in STOP_REASONS - {"cancelled"}, f"not a reason: {reason!r}", answer)


def links(runtime: Bench) -> None:
    link = {"type": "resource_link", "uri": runtime.project.as_uri(), "name": "project"}
    answer = prompt(runtime, script_reply("Hello."), blocks=[*text("Look."), link]).answer
    expect("result" in answer, "a link is refused", answer)


def updates_first(runtime: Bench) -> None:
    answer = prompt(runtime, script_reply("Hello ", "there."))
    answer.agent.error("no/suchMethod")
    at = answer.agent.messages.index(answer.answer)
    late = [m for m in answer.agent.messages[at:] if m.get("method") == "session/update"]
    of_turn = [m for m in late if m["params"]["update"]["sessionUpdate"] in OF_A_TURN]
    expect(not of_turn, "this came after the answer", *of_turn)
    expect(
        answer.agent.text_of(answer.session), "no text has come before the answer", answer.answer
    )


def cancels(runtime: Bench) -> None:
    agent = agent_of(runtime)
    session = agent.new(runtime.project)
    runtime.model.play(HOLD)
    request_id = agent.ask(session, text("Begin."))
    agent.wait_for(lambda m: bool(agent.text_of(session)) or m.get("id") == request_id)
    agent.notify("session/cancel", {"sessionId": session})
    answer = agent.answer_to(request_id)
    reason = part(answer, "result").get("stopReason")
    expect(reason == "cancelled", "the answer must be cancelled", answer)
    runtime.model.play(script_reply("Hello."))
    answer = agent.answer_to(agent.ask(session, text("Again.")))
    expect("result" in answer, "the session goes on", answer)


def permissions(runtime: Bench) -> None:
    agent = agent_of(runtime)
    session = agent.new(runtime.project)

    def choose(params: Json) -> Json:
        option = next(each for each in params["options"] if each["kind"].startswith("allow"))
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    agent.answer("session/request_permission", choose)
    runtime.model.play(shell_call, script_reply("It is done."))
    answer = agent.answer_to(agent.ask(session, text("Run it.")))
    if not (requests := agent.notifications("session/request_permission")):
        raise Skipped("the agent asked for no permission")
    for request in requests:
        ids = [each["optionId"] for each in request["options"]]
        kinds = {each["kind"] for each in request["options"]}
        expect(len({*ids}) == len(ids) and kinds <= OPTION_KINDS, "of its options", request)
        expect(request["sessionId"] == session, "of this session", request)
        expect(request["toolCall"]["toolCallId"], "it names the call", request)
    expect(answer["result"]["stopReason"] == "end_turn", "the turn goes on", answer)


def withdrawn_permissions(runtime: Bench) -> None:
    agent = agent_of(runtime)
    session = agent.new(runtime.project)
    agent.answer("session/request_permission", leave_open)
    runtime.model.play(shell_call)
    request_id = agent.ask(session, text("Run it."))
    request = agent.wait_for(
        lambda m: m.get("method") == "session/request_permission" or m.get("id") == request_id
    )
    if request.get("method") is None:
        raise Skipped("the agent asked for no permission")
    agent.notify("session/cancel", {"sessionId": session})
    agent.send({"jsonrpc": "2.0", "id": request["id"], "result": CANCELLED})
    answer = agent.answer_to(request_id)
    expect(part(answer, "result").get("stopReason") == "cancelled", "cancelled", answer)


def tool_calls(runtime: Bench) -> None:
    agent = agent_of(runtime)
    session = agent.new(runtime.project)
    first = {"outcome": "selected"}
    agent.answer(
        "session/request_permission",
        lambda params: {"outcome": {**first, "optionId": params["options"][0]["optionId"]}},
    )
    runtime.model.play(shell_call, script_reply("It is done."))
    agent.answer_to(agent.ask(session, text("Run it.")))
    announced_ids: set[str] = set()
    for update in agent.updates(session):
        if update["sessionUpdate"] == "tool_call":
            announced_ids.add(update["toolCallId"])
        if update["sessionUpdate"] in {"tool_call", "tool_call_update"}:
            expect(update["toolCallId"] in announced_ids, "this call was not reported", update)
            expect(update.get("status", "pending") in STATUSES, "not a status", update)
            paths = [each["path"] for each in update.get("locations") or ()]
            expect(all(Path(each).is_absolute() for each in paths), "paths are absolute", update)
    if not announced_ids:
        raise Skipped("the agent called no tool")


def loads(runtime: Bench) -> None:
    first = prompt(runtime, script_reply("Hello there."), blocks=text("Say hello."))
    first.agent.end()
    agent = runtime.start(AcpAgent)
    if not agent.greet()["agentCapabilities"].get("loadSession"):
        raise Skipped("the agent loads no sessions")
    params: Json = {"sessionId": first.session, "cwd": str(runtime.project), "mcpServers": []}
    agent.request("session/load", params)
    words = [agent.text_of(first.session, f"{who}_message_chunk") for who in ("user", "agent")]
    before = first.agent.text_of(first.session)
    is_whole = "Say hello." in words[0] and before == words[1]
    expect(is_whole, f"it replays {words}, and the agent had said {before!r}")


def unknown_methods(runtime: Bench) -> None:
    agent = agent_of(runtime)
    agent.notify("_conformance/unknown", {})
    for method in ("no/suchMethod", "_conformance/unknown"):
        agent.expect_refusal(-32601, method, {})
    stray = [m for m in agent.messages if "error" in m and m.get("id") is None]
    expect(not stray, "a notification is not answered", *stray)


def malformed_input(runtime: Bench) -> None:
    agent = agent_of(runtime)
    agent.null_refusal(-32700, b'{"jsonrpc": "2.0", "id": 1,\n', "a line that is not JSON")


def unknown_sessions(runtime: Bench) -> None:
    agent = agent_of(runtime)
    wrong: dict[str, Json] = {
        "session/prompt": {"sessionId": "no-such-session", "prompt": text("Hi")},
        "session/new": {"cwd": 3},
    }
    for method, params in wrong.items():
        answer = agent.answer_to(agent.send_request(method, params))
        expect("error" in answer, f"{method} with {params}", answer)


def only_messages(runtime: Bench) -> None:
    answer = prompt(runtime, script_reply("Hello."))
    answer.agent.error("no/suchMethod")
    answer.agent.end()
    expect(not answer.agent.problems, "on stdout", *answer.agent.problems)
    expect(answer.agent.n_answers(answer.id) == 1, "one answer", answer.answer)


ACP = checks(
    "acp",
    {
        "initialize": initializes,
        "version": negotiates,
        "session-id": session_ids,
        "stop-reason": stop_reasons,
        "resource-link": links,
        "update-order": updates_first,
        "cancel": cancels,
        "permission": permissions,
        "permission-cancelled": withdrawn_permissions,
        "tool-call": tool_calls,
        "load": loads,
        "unknown-method": unknown_methods,
        "malformed-json": malformed_input,
        "unknown-session": unknown_sessions,
        "stdout": only_messages,
    },
)
