"""From start to exit: `initialize`, which methods are allowed when, the main loop, the stop.

Invariant: `initialize` is answered before anything slow is imported, and however the end comes
(exit, end of input, signal, editor gone) the same stop runs once and takes at most two seconds.
"""

from __future__ import annotations

import importlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from oh_daemon.contract.errors import (
    InvalidRequestError,
    NotInitializedError,
    UnsupportedVersionError,
    UserError,
)
from oh_daemon.fronts.lsp.client import Client
from oh_daemon.fronts.lsp.client_facts import ClientFacts, parse_client_facts
from oh_daemon.fronts.lsp.outbox import Outbox
from oh_daemon.fronts.lsp.rpc import Dispatcher, Json, Method, Notification, RequestContext
from oh_daemon.fronts.lsp.stdio import Frame, FrameReader, FramingLost, TooLarge

log = logging.getLogger(__name__)

PROTOCOL_VERSION = {"major": 1, "minor": 0}
EXIT_CLEAN = 0
EXIT_WITHOUT_SHUTDOWN = 1
EXIT_FRAMING_LOST = 3
EXIT_CANNOT_START = 4
_STOP_DEADLINE_S = 2.0
_HANG_DEADLINE_S = 10.0
_MAX_WAITING_FRAMES = 256
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What `initialize` tells the client, beyond what this module knows itself."""

    version: str
    ours: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """methods, notifications, eventTypes, optionCategories, limits, approvalScopes."""
    standard: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of LSP's ServerCapabilities, laid over ours."""
    commands: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the wiring adds. All are called on the main thread."""

    on_initialize: Callable[[ClientFacts], None] = lambda _facts: None
    """Once `initialize` is answered, before the next message; methods may be added here."""
    on_stop: Sequence[Callable[[float], None]] = ()
    """In this order, each with the seconds left; the last one should take none."""
    on_lost_frame: Callable[[bytes], None] = lambda _head: None
    """A message was too large to read; this is its beginning."""
    warm_up: Sequence[str] = ()
    """Modules to import in the background once `initialize` is answered."""


class Server:
    """One client on one pair of descriptors. Create and run it on the main thread."""

    def __init__(
        self,
        stdio: tuple[int, int],
        methods: dict[str, Method],
        notifications: dict[str, Notification],
        capabilities: Capabilities,
        hooks: Hooks = Hooks(),
        *,
        urgent: frozenset[str] = frozenset(),
    ) -> None:
        """`stdio` comes from `claim_stdio`. Both mappings may grow later."""
        inbound, outbound = stdio
        self._inbox: SimpleQueue[Frame | _Stop] = SimpleQueue()
        # A client that writes faster than we handle waits in its pipe, not in our memory.
        self._room = threading.Semaphore(_MAX_WAITING_FRAMES)
        self._reader = FrameReader(inbound)
        self._capabilities = capabilities
        self._hooks = hooks
        self._is_initialized = False
        self._is_shut_down = False
        self._has_stopped = threading.Event()
        self.outbox = Outbox(outbound, on_gone=lambda: self.stop("the client stopped reading"))
        self.client = Client(self.outbox)
        self._dispatcher = Dispatcher(
            ChainMap({"initialize": self._initialize, "shutdown": self._shutdown}, methods),
            ChainMap({"exit": self._exit}, notifications),
            self.outbox,
            self.client,
            self._why_not_now,
            urgent | {"shutdown"},
        )

    def run(self) -> int:
        """Serve until the end; returns the exit code. The caller exits at once with it."""
        # With the default of 5 ms, eight busy threads delay an answer by a quarter of a second.
        sys.setswitchinterval(0.0005)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        threading.Thread(target=self._read_frames, name="reader", daemon=True).start()
        while not isinstance(entry := self._inbox.get(), _Stop):
            if isinstance(entry, TooLarge):
                self._hooks.on_lost_frame(entry.head)
            self._dispatcher.dispatch(entry)
            self._room.release()
        self._run_stop(entry)
        return entry.exit_code

    def stop(self, reason: str, exit_code: int = EXIT_CLEAN) -> None:
        """End the main loop after what was received so far; from any thread or signal handler."""
        self._inbox.put(_Stop(reason, exit_code))

    def _on_signal(self, number: int, _frame: object) -> None:
        self.stop(signal.Signals(number).name)

    def _read_frames(self) -> None:
        try:
            for frame in self._reader:
                self._room.acquire()
                self.outbox.wait_for_room()
                self._inbox.put(frame)
        except FramingLost as lost:
            sys.stderr.write(f"oh-daemon: the input is no message stream: {lost}\n")
            self.stop(f"framing lost: {lost}", EXIT_FRAMING_LOST)
        except OSError as error:
            self.stop(f"input: {error}")
        else:
            self.stop("end of input")
        # Whatever hangs on the main loop, a daemon without its editor must not stay.
        if not self._has_stopped.wait(_HANG_DEADLINE_S):
            os._exit(EXIT_CLEAN)

    def _why_not_now(self, method: str) -> UserError | None:
        if method == "exit":
            return None
        if self._is_shut_down:
            return InvalidRequestError(f"{method!r} came after `shutdown`; only `exit` may follow")
        if not self._is_initialized and method != "initialize":
            return NotInitializedError(method)
        if self._is_initialized and method == "initialize":
            return InvalidRequestError("`initialize` was answered already")
        return None

    def _initialize(self, params: Json, context: RequestContext) -> Json:
        facts = parse_client_facts(params)
        if facts.protocol_major not in (None, PROTOCOL_VERSION["major"]):
            raise UnsupportedVersionError(
                f"this daemon speaks version 1 of the protocol, not {facts.protocol_major}",
                hint="use a plugin and a daemon of the same major version",
                data={"retry": False, "supported": [PROTOCOL_VERSION]},
            )
        self._is_initialized = True
        context.after_answer(lambda: self._go_on(facts))
        return {
            "capabilities": _server_capabilities(self._capabilities, facts.position_encoding),
            "serverInfo": {"name": "oh-daemon", "version": self._capabilities.version},
        }

    def _go_on(self, facts: ClientFacts) -> None:
        """What `initialize` starts but does not wait for."""
        if self._hooks.warm_up:
            threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        if facts.process_id is not None:
            _watch_parent(facts.process_id, lambda: self.stop("the editor is gone"))
        try:
            self._hooks.on_initialize(facts)
        except Exception:
            # Without its methods the daemon would refuse everything and never say why.
            log.exception("the daemon cannot start")
            self.stop("cannot start", EXIT_CANNOT_START)

    def _warm_up(self) -> None:
        for name in self._hooks.warm_up:
            importlib.import_module(name)

    def _shutdown(self, _params: Json, _context: RequestContext) -> None:
        self._is_shut_down = True

    def _exit(self, _params: Json) -> None:
        self.stop("exit", EXIT_CLEAN if self._is_shut_down else EXIT_WITHOUT_SHUTDOWN)

    def _run_stop(self, stop: _Stop) -> None:
        log.info("stopping: %s", stop.reason)
        self._has_stopped.set()
        deadline = time.monotonic() + _STOP_DEADLINE_S
        last_resort = threading.Timer(_STOP_DEADLINE_S, os._exit, (stop.exit_code,))
        last_resort.daemon = True
        last_resort.start()
        self.client.on_gone()
        for callback in self._hooks.on_stop:
            try:
                callback(max(0.0, deadline - time.monotonic()))
            except Exception:
                log.exception("while stopping")
        self._dispatcher.abandon()
        if not self.outbox.close(max(0.0, deadline - time.monotonic() - 0.1)):
            log.warning("the client did not take the last %d bytes", self.outbox.queued_bytes)


def _server_capabilities(capabilities: Capabilities, position_encoding: str) -> Json:
    daemon = {"name": "oh-daemon", "version": capabilities.version, "pid": os.getpid()}
    ours = {"protocolVersion": PROTOCOL_VERSION, "daemon": daemon, **capabilities.ours}
    sync = {"openClose": True, "change": 2, "willSave": True, "save": {"includeText": False}}
    return {
        "positionEncoding": position_encoding,
        "textDocumentSync": sync,
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
        "executeCommandProvider": {"commands": list(capabilities.commands)},
        **capabilities.standard,
        "experimental": {"ohDaemon": ours},
    }


def _watch_parent(process_id: int, on_end: Callable[[], None]) -> None:
    """Call back when that process ends. Where this cannot be known, the end of input must do."""
    try:
        descriptor = os.pidfd_open(process_id)
    except (AttributeError, OSError) as error:
        # An editor in another container has a number that means nothing here.
        log.info("process %d cannot be watched: %s", process_id, error)
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        on_end()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
