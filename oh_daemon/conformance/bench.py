"""What a check works with: servers started as the command, a scripted model, and conversations.

A check raises `Violation`, or what a `ServerConnection` raises, if the server breaks its rule.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from oh_daemon.conformance.connection import ServerConnection
from oh_daemon.conformance.rpc_process import AnswerTimeout, Json, RpcError, part
from oh_daemon.conformance.scripted_model import HOLD, Reply, Script, ScriptedModel

S = TypeVar("S", bound="TestServer")
T = TypeVar("T")
Popen = Callable[..., subprocess.Popen[bytes]]
N_TRACED = 400
N_SHOWN = 8
MAX_SHOWN_CHARS = 2000
TOOL: Json = {
    "name": "probe",
    "description": "A tool of the client, which changes something.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
READING: Json = {**TOOL, "name": "look", "annotations": {"readOnlyHint": True}}
FEATURES = {"approvalRequests": True}
MODEL = "openai/scripted"


class Violation(Exception):  # noqa: N818 - a rule is broken, the check is not.
    """A rule is broken; `frames` are those that show it."""

    def __init__(self, text: str, *frames: Any) -> None:
        super().__init__(text)
        self.frames = frames


class Skipped(Exception):  # noqa: N818 - as above.
    """The server does not offer what the check is about."""


WRONG = (
    *(Violation, AnswerTimeout, AssertionError, RpcError, subprocess.SubprocessError, OSError),
    *(LookupError, TypeError, ValueError, AttributeError),
)
"""What a check raises when it fails; the last row is for messages of another form."""


def expect(condition: object, text: str, *frames: Any) -> None:
    if not condition:
        raise Violation(text, *frames)


@dataclass(frozen=True)
class ConformanceCheck:
    """One rule, and what shows that a server breaks it."""

    id: str
    run: Callable[[Bench], None]
    profile: str = "core"


def checks(profile: str, rules: dict[str, Callable[[Bench], None]]) -> list[ConformanceCheck]:
    return [ConformanceCheck(name, run, profile) for name, run in rules.items()]


class TestServer(ServerConnection):
    """A server under test; `trace` is what last went over the wire."""

    def __init__(self, process: subprocess.Popen[bytes], within_s: float) -> None:
        self.trace: deque[str] = deque(maxlen=N_TRACED)
        super().__init__(process, within_s=within_s)

    def send_raw(self, data: bytes) -> None:
        self.trace.append(f"→ {data[:MAX_SHOWN_CHARS].decode('utf-8', 'replace')!r}")
        super().send_raw(data)

    def _accept(self, message: Json) -> None:
        self.trace.append(f"← {json.dumps(message)[:MAX_SHOWN_CHARS]}")
        super()._accept(message)

    def expect_refusal(
        self, code: int, method: str, params: Any = None, request_id: Any = None
    ) -> RpcError:
        """Send a request that must be answered with this error; return the error."""
        answer = self.answer_to(self.send_request(method, params, request_id))
        return self.is_refusal(code, answer, method)

    def is_refusal(self, code: int, answer: Json, what: str) -> RpcError:
        is_right = part(answer, "error").get("code") == code
        expect(is_right, f"{what} must be answered with {code}", answer)
        return RpcError(answer["error"])

    def null_refusal(self, code: int, data: bytes, what: str) -> None:
        """Send bytes that must be answered once with this error and id null, and read on."""
        n_before = self.n_answers(None)
        self.send_raw(data)
        self.is_refusal(code, self.answer_to(None, nth=n_before + 1), what)
        self.is_alive()
        expect(self.n_answers(None) == n_before + 1, f"{what} must be answered once")

    def is_alive(self) -> None:
        """The next request is answered, so whatever came before it has been read."""
        self.expect_refusal(-32601, "no/suchMethod")

    def end(self) -> int:
        """Close the input as a client that ends; return the exit code."""
        self.close_stdin()
        return self.exit_code()


class TestSession:
    """One conversation on a server."""

    def __init__(self, server: TestServer, params: Json) -> None:
        self.server = server
        self.start_result = params
        self.id: str = params["conversation"]["id"]

    def request(self, method: str, **params: Any) -> Any:
        return self.server.request(method, {"conversationId": self.id, **params})

    def expect_refusal(self, code: int, method: str, **params: Any) -> RpcError:
        return self.server.expect_refusal(code, method, {"conversationId": self.id, **params})

    def send(self, words: str, **params: Any) -> Json:
        return self.request("conversation/sendMessage", content=text(words), **params)

    def post(self, words: str, **params: Any) -> Any:
        """Send a message without waiting for the answer; return the request's id."""
        more = {"conversationId": self.id, "content": text(words), **params}
        return self.server.send_request("conversation/sendMessage", more)

    def events(self, *kinds: str) -> list[Json]:
        events = [each for each in self.server.events if each["conversationId"] == self.id]
        return [each for each in events if not kinds or each["event"]["type"] in kinds]

    def wait(self, kind: str, nth: int = 1) -> Json:
        """Wait for its `nth` event of this type; return the record."""

        def is_wanted(params: Json) -> bool:
            return params["conversationId"] == self.id and params["event"]["type"] == kind

        return self.server.wait_for_event(is_wanted, nth=nth)

    def expect_request(self, method: str = "approval/request") -> Json:
        """Wait for the server's request of this method about the conversation."""

        def is_wanted(message: Json) -> bool:
            its = part(message, "params")
            return message.get("method") == method and its.get("conversationId") == self.id

        return self.server.wait_for(is_wanted)

    def wait_until_idle(self, nth: int = 1) -> Json:
        """Wait until its `nth` turn has ended and the status has settled; return the turn."""
        turn = self.wait("turn.completed", nth)["event"]["turn"]
        self.server.wait_for_event(
            lambda each: (
                each["conversationId"] == self.id
                and each["event"]["type"] == "status.changed"
                and each["event"]["from"] in {"running", "interrupting", "pausing"}
                and each["event"]["to"] in {"idle", "finished", "error"}
            ),
            nth=nth,
        )
        return turn


class Bench:
    """Starts servers in a home of their own, and keeps one that checks use one after the other."""

    def __init__(
        self,
        argv: Sequence[str],
        home: Path,
        model: ScriptedModel,
        *,
        within_s: float,
        popen: Popen = subprocess.Popen,
    ) -> None:
        self.argv = argv
        self.model = model
        self.within_s = within_s
        self.project = home / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.has_heard = False
        """Whether anything has come from a server."""
        self._popen = popen
        self._env = _environment(home, model.url)
        self._server: TestServer | None = None
        self._servers: list[TestServer] = []
        self._talks: list[TestSession] = []
        self._outcomes: dict[object, Any] = {}

    @property
    def server(self) -> TestServer:
        """One that is initialized and that other checks use, too."""
        if self._server is None or self._server.process.poll() is not None:
            self._server = self.open_server()
        return self._server

    def open_server(self, params: Json | None = None, **block: Any) -> TestServer:
        """Start and initialize one, with the project open and trusted."""
        server = self.start()
        block_fields: Json = {"features": FEATURES, "settings": {"titles": False}, **block}
        trust = [{"folder": self.project.as_uri(), "trusted": True}]
        server.initialize([self.project], params=params, trust=trust, **block_fields)
        return server

    def start(self, kind: Callable[[subprocess.Popen[bytes], float], S] = TestServer) -> S:
        """Start one that is not initialized."""
        server = kind(self.process(), self.within_s)
        self._servers.append(server)
        return server

    def process(self) -> subprocess.Popen[bytes]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return self._popen(self.argv, env=self._env, bufsize=0, **pipes)

    def run_beside(self, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start the command as a client, which its user may see and answer."""
        return self._popen(self.argv, env={**self._env, **variables}, stdout=2)

    def connection(self, process: subprocess.Popen[bytes]) -> ServerConnection:
        """Return our end of the line to a client, which reads from `read_on` on."""
        return ServerConnection(process, reading=False, within_s=self.within_s)

    def talk(
        self, *script: Reply | Script, server: TestServer | None = None, **params: Any
    ) -> TestSession:
        """Start a conversation whose first turn the model answers by the script."""
        self.model.play(*script)
        tools = {"clientTools": [TOOL, READING], "content": text("Begin.")}
        talk_server = server or self.server
        talk = TestSession(
            talk_server, talk_server.request("conversation/start", {**tools, **params})
        )
        self._talks.append(talk)
        return talk

    def start_held_turn(self, **params: Any) -> TestSession:
        """Start a conversation whose model has begun to answer and holds still."""
        talk = self.talk(HOLD, **params)
        self.server.wait_for(lambda m: is_delta(m) and m["params"]["conversationId"] == talk.id)
        return talk

    def once(self, play: Callable[[Bench], T]) -> T:
        """Return what several checks look at; it is played, or fails, for all of them alike."""
        if play not in self._outcomes:
            try:
                self._outcomes[play] = play(self)
            except WRONG as exc:
                self._outcomes[play] = exc
        outcome = self._outcomes[play]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def trace(self) -> list[str]:
        """Return what went over the wire last, and what the server said on stderr."""
        if not self._servers:
            return []
        server = self._servers[-1]
        # What one that has just ended has said may still be under way.
        with suppress(subprocess.TimeoutExpired):
            server.exit_code(within_s=0.5)
        words = server.stderr.strip()[-MAX_SHOWN_CHARS:]
        return [*server.trace][-N_SHOWN:] + ([f"stderr: {words}"] if words else [])

    def tidy(self, *, has_failed: bool) -> None:
        """End what the check has begun; after a failure, the next one finds a new server."""
        is_whole = not has_failed and self._server is not None and self._is_at_rest(self._server)
        self._talks.clear()
        keeps = [self._server] if is_whole and self._server else []
        for server in self._servers:
            self.has_heard |= bool(server.messages)
            server.answer_nothing()
            if server not in keeps:
                server.kill()
        self._servers = keeps
        self._server = keeps[0] if keeps else None

    def _is_at_rest(self, server: TestServer) -> bool:
        """Close the conversations of the check; return whether that was possible."""
        try:
            for talk in self._talks:
                if talk.server is server:
                    params = {"conversationId": talk.id, "ifRunning": "interrupt"}
                    server.answer_to(server.send_request("conversation/close", params))
        except WRONG:
            return False
        return server.process.poll() is None


def text(words: str) -> list[Json]:
    """Return the content of a message."""
    return [{"type": "text", "text": words}]


def is_delta(message: Json) -> bool:
    return message.get("method") == "conversation/delta"


def _environment(home: Path, url: str) -> dict[str, str]:
    """Return ours, but with a home and a model of the suite's."""
    folders = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("STATE", "CONFIG", "CACHE")}
    key = "sk-scripted-0123456789abcdef"
    model = {"OH_DAEMON_MODEL": MODEL, "OH_DAEMON_BASE_URL": url, "OH_DAEMON_API_KEY": key}
    variables = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": key, "OH_DAEMON_HOME": str(home)}
    return {**os.environ, "HOME": str(home), **folders, **model, **variables}


def block_of(server: ServerConnection) -> Json:
    """Return what the server says of itself in its answer to `initialize`."""
    return server.capabilities["experimental"]["ohDaemon"]


def limits_of(server: ServerConnection) -> Json:
    return block_of(server)["limits"]
