"""One ACP client from start to exit: answers `initialize` at once, and makes the rest then.

Invariant: until `initialize` is answered, nothing is imported that knows a conversation. Whatever
causes the end, all work is cancelled and the process is gone within a second.
"""

from __future__ import annotations

from collections.abc import Callable

from oh_daemon.frontends.acp.chunks import UPDATE, SentText, gap_params
from oh_daemon.frontends.acp.client_facts import AcpClientFacts, client_facts
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.dispatch import Dispatcher, Json, RequestContext
from oh_daemon.jsonrpc.framing import Lines, read_frames
from oh_daemon.jsonrpc.main_loop import MainLoop, Service, Stop
from oh_daemon.jsonrpc.outbox import Notifications, Outbox
from oh_daemon.protocol.errors import (
    InvalidRequestError,
    NotInitializedError,
    ShuttingDownError,
    UserError,
)
from oh_daemon.protocol.version import VERSION

PROTOCOL_VERSION = 1
KEY_IN_ENVIRONMENT, LOGIN = "environment", "login"
"""The ids of the ways to sign in: keys that are there already, and `oh-daemon acp login`."""
_CANCEL = ("$/cancel_request", "requestId")
_CODES = {-31008: -32000, -31002: -32002, -31021: -32002}
"""What ACP has own codes for: sign in first; there is no such session."""
_STOP_S = 0.9


class AcpServer:
    """One client on one pair of descriptors. Create and run it on the main thread."""

    def __init__(
        self, stdio: tuple[int, int], compose: Callable[[AcpServer, AcpClientFacts], Service]
    ) -> None:
        inbound, outbound = stdio
        self._frames = read_frames(inbound, Lines())
        self._compose = compose
        self._facts: AcpClientFacts | None = None
        self.streams = SentText()
        notifications = Notifications(
            cancel=_CANCEL[0],
            cancel_params=lambda request_id: {_CANCEL[1]: request_id},
            event=UPDATE,
            delta=UPDATE,
            delta_params=self.streams.params,
            gap=UPDATE,
            gap_params=gap_params,
            repeatable=frozenset(),
        )
        self.outbox = Outbox(
            outbound, Lines(), notifications, on_gone=lambda: self._loop.stop("the client is gone")
        )
        self.client = Client(self.outbox)
        dispatcher = Dispatcher(
            self.outbox,
            self.client,
            self._why_not_now,
            _CANCEL,
            urgent_methods=("session/close",),
            methods={"initialize": self._initialize},
            own_codes=_CODES,
        )
        self._loop = MainLoop(dispatcher, _STOP_S)

    def run(self) -> int:
        """Serve until the end; return the exit code, with which the caller exits at once."""
        self._loop.start(self._frames)
        while not isinstance(entry := self._loop.next(), Stop):
            self._loop.handle(entry)
            if self._loop.is_composing and self._facts is not None:
                # The answer to `initialize` does not wait for this; until now signals end us.
                self._loop.handle(self._compose(self, self._facts))
                self._loop.own_process()
        return self._loop.end(entry)

    def _why_not_now(self, method: str) -> UserError | None:
        if self._loop.has_stopped:
            return ShuttingDownError("the agent is stopping")
        if self._facts is None and method != "initialize":
            return NotInitializedError(method)
        if self._facts is not None and method == "initialize":
            return InvalidRequestError("`initialize` was answered already")
        return None

    def _initialize(self, params: Json, _context: RequestContext) -> Json:
        self._facts = client_facts(params)
        self._loop.is_composing = True
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "_meta": {"steering": {"supported": True}},
            "agentInfo": {"name": "oh-daemon", "title": "oh-daemon", "version": VERSION},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {
                    name: {}
                    for name in ("list", "delete", "additionalDirectories", "resume", "close")
                }
                # Not stable in ACP, which has no other way for a client to learn of it.
                | {"fork": {}},
                "auth": {"logout": {}},
            },
            "authMethods": _auth_methods(self._facts),
        }


def _auth_methods(facts: AcpClientFacts) -> list[Json]:
    in_environment = {
        "type": "agent",
        "id": KEY_IN_ENVIRONMENT,
        "name": "Key in the environment",
        "description": "Set the key of your provider, such as ANTHROPIC_API_KEY, where the agent "
        "is started, or run `oh-daemon login` in a terminal.",
    }
    # The client starts the agent once more, with these arguments after its own.
    login = {
        "type": "terminal",
        "id": LOGIN,
        "name": "Log in",
        "description": "Enter a provider and its key, or the URL of a local server.",
        "args": ["login"],
    }
    return [in_environment, login] if facts.offers("auth", "terminal") else [in_environment]
