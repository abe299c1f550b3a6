"""One ACP client from start to exit: answers `initialize` at once, and makes the rest then.

Invariant: until `initialize` is answered, nothing is imported that knows a conversation. Whatever
causes the end, all work is cancelled and the process is gone within a second.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue

from oh_daemon.contract.errors import (
    InvalidRequestError,
    NotInitializedError,
    ShuttingDownError,
    UserError,
)
from oh_daemon.contract.version import VERSION
from oh_daemon.fronts.acp.chunks import UPDATE, SentText, gap_params
from oh_daemon.fronts.acp.client_facts import ClientFacts, client_facts
from oh_daemon.fronts.wire.client import Client
from oh_daemon.fronts.wire.dispatch import Dispatcher, Json, Method, Notification, RequestContext
from oh_daemon.fronts.wire.framing import Frame, Lines, read_frames
from oh_daemon.fronts.wire.outbox import Notifications, Outbox
from oh_daemon.fronts.wire.stdio import signal_numbers

log = logging.getLogger(__name__)

PROTOCOL_VERSION = 1
KEY_IN_ENVIRONMENT, LOGIN = "environment", "login"
"""The ids of the ways to sign in: keys that are there already, and `oh-daemon acp login`."""
_CANCEL = ("$/cancel_request", "requestId")
_CODES = {-31008: -32000, -31002: -32002, -31021: -32002}
"""What ACP has own codes for: sign in first; there is no such session."""
_STOP_S = 0.9
_HANG_S = 5.0
_MAX_WAITING_FRAMES = 256


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the main loop."""

    reason: str


@dataclass(frozen=True, slots=True)
class Service:
    """What answers the methods after `initialize`. Called on the main thread, `mask` on any."""

    methods: Mapping[str, Method]
    notifications: Mapping[str, Notification]
    cancel: Callable[[], object]
    """Cancels all work, without waiting for its end."""
    stop: Callable[[float], object]
    """Ends everything within this many seconds."""
    mask: Callable[[str], str]


class Server:
    """One client on one pair of descriptors. Create and run it on the main thread."""

    def __init__(
        self, stdio: tuple[int, int], compose: Callable[[Server, ClientFacts], Service]
    ) -> None:
        inbound, outbound = stdio
        self._inbound = inbound
        self._inbox: SimpleQueue[Frame | Stop] = SimpleQueue()
        # Messages that come faster than we handle them wait in the pipe, not in our memory.
        self._room = threading.Semaphore(_MAX_WAITING_FRAMES)
        self._compose = compose
        self._service: Service | None = None
        self._facts: ClientFacts | None = None
        self._has_stopped = threading.Event()
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
            outbound, Lines(), notifications, on_gone=lambda: self.stop("the client is gone")
        )
        self.client = Client(self.outbox)
        self._dispatcher = Dispatcher(
            self.outbox,
            self.client,
            self._why_not_now,
            _CANCEL,
            urgent=("session/close",),
            methods={"initialize": self._initialize},
            own_codes=_CODES,
        )

    def run(self) -> int:
        """Serve until the end; return the exit code, with which the caller exits at once."""
        # With Python's default of 5 ms, eight busy threads delay an answer by 0.25 s.
        sys.setswitchinterval(0.0005)
        threading.Thread(target=self._read_frames, name="reader", daemon=True).start()
        while True:
            entry = self._inbox.get()
            if isinstance(entry, Stop):
                self._run_stop(entry)
                return 0
            self._dispatcher.dispatch(entry)
            self._room.release()
            if self._facts is not None and self._service is None:
                self._begin(self._facts)

    def stop(self, reason: str) -> None:
        """End the main loop once what was received so far is handled. Any thread may call this."""
        self._inbox.put(Stop(reason))

    def _begin(self, facts: ClientFacts) -> None:
        """Make what the answer to `initialize` does not wait for; until then signals end us."""
        self._service = service = self._compose(self, facts)
        self._dispatcher.methods |= service.methods
        self._dispatcher.notifications |= service.notifications
        self._dispatcher.mask = service.mask
        args = (signal_numbers(),)
        threading.Thread(target=self._await_signal, args=args, name="signals", daemon=True).start()

    def _await_signal(self, descriptor: int) -> None:
        self.stop(f"signal {os.read(descriptor, 1)[0]}")

    def _read_frames(self) -> None:
        reason = "end of input"
        try:
            for frame in read_frames(self._inbound, Lines()):
                self._room.acquire()
                self.outbox.wait_for_room()
                self._inbox.put(frame)
        except OSError as error:
            reason = f"input: {error}"
        self.stop(reason)
        # Even if something hangs on the main loop, a daemon without its editor must not live on.
        if not self._has_stopped.wait(_HANG_S):
            os._exit(0)

    def _why_not_now(self, method: str) -> UserError | None:
        if self._has_stopped.is_set():
            return ShuttingDownError("the agent is stopping")
        if self._facts is None and method != "initialize":
            return NotInitializedError(method)
        if self._facts is not None and method == "initialize":
            return InvalidRequestError("`initialize` was answered already")
        return None

    def _initialize(self, params: Json, _context: RequestContext) -> Json:
        self._facts = client_facts(params)
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

    def _run_stop(self, stop: Stop) -> None:
        log.info("stopping: %s", stop.reason)
        self._has_stopped.set()
        deadline = time.monotonic() + _STOP_S
        last_resort = threading.Timer(_STOP_S, os._exit, (0,))
        last_resort.name, last_resort.daemon = "last-resort", True
        last_resort.start()
        try:
            if self._service is not None:
                self._service.cancel()
            # Only after all work is cancelled, or an agent would tell its model of the failure.
            self.client.on_gone()
            if self._service is not None:
                self._service.stop(deadline - time.monotonic() - 0.2)
        except Exception:
            log.exception("while stopping")
        self._dispatcher.abandon()
        self.outbox.close(max(0.0, deadline - time.monotonic() - 0.1))


def _auth_methods(facts: ClientFacts) -> list[Json]:
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
