"""From start to exit: `initialize`, which methods are allowed when, the main loop, the stop.

Invariant: `initialize` is answered before anything slow is imported. Whatever causes the end
(exit, end of input, signal, editor gone), the same stop runs once and takes at most two seconds.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from queue import SimpleQueue
from typing import TYPE_CHECKING

from oh_daemon.contract import protocol
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
from oh_daemon.fronts.lsp.stdio import Frame, FrameReader, FramingLost, TooLarge, unrecorded

if TYPE_CHECKING:
    from oh_daemon.fronts.lsp.recording import Recording

log = logging.getLogger(__name__)

PROTOCOL_VERSION = {"major": protocol.PROTOCOL_MAJOR, "minor": protocol.PROTOCOL_MINOR}
EXIT_CLEAN = 0
EXIT_WITHOUT_SHUTDOWN = 1
EXIT_FRAMING_LOST = 3
EXIT_CANNOT_START = 4
_STOP_DEADLINE_S = 2.0
_HANG_DEADLINE_S = 5.0
_MAX_WAITING_FRAMES = 256
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Service:
    """Serves the client after `initialize`. All but `mask` is called on the main thread only."""

    methods: Mapping[str, Method]
    notifications: Mapping[str, Notification]
    on_lost_frame: Callable[[bytes], None]
    """A message was too large to read; this is its beginning."""
    stop: Callable[[float], None]
    """End everything within this many seconds."""
    cancel: Callable[[], object] = lambda: None
    """Cancel all running work, without waiting for its end."""
    mask: Callable[[str], str] = str
    """Hides secrets in error answers and in the recording."""


class Server:
    """One client on one pair of descriptors. Create and run it on the main thread."""

    def __init__(
        self,
        stdio: tuple[int, int],
        make_service: Callable[[Server, ClientFacts], Service],
        recording: Recording | None = None,
        report_sandbox: Callable[[Json], Json | None] = lambda _settings: None,
    ) -> None:
        """`stdio` comes from `claim_stdio`; the service is made after `initialize` is answered.

        `report_sandbox` is given the client's settings.
        """
        inbound, outbound = stdio
        self._inbox: SimpleQueue[Frame | _Stop] = SimpleQueue()
        # Messages that come faster than we handle them wait in the pipe, not in our memory.
        self._room = threading.Semaphore(_MAX_WAITING_FRAMES)
        self._reader = FrameReader(inbound, recording.received if recording else unrecorded)
        self._make_service = make_service
        self._report_sandbox = report_sandbox
        self._recording = recording
        self._service: Service | None = None
        self._is_initialized = False
        self._is_shut_down = False
        self._has_stopped = threading.Event()
        self.outbox = Outbox(
            outbound,
            on_gone=lambda: self.stop("the client stopped reading"),
            on_frame=recording.sent if recording else unrecorded,
        )
        self.client = Client(self.outbox)
        self._dispatcher = Dispatcher(self.outbox, self.client, self._why_not_now)
        self._dispatcher.methods |= {"initialize": self._initialize, "shutdown": self._shutdown}
        self._dispatcher.notifications["exit"] = self._exit

    def run(self) -> int:
        """Serve until the end; return the exit code, with which the caller exits at once."""
        # With Python's default of 5 ms, eight busy threads delay an answer by 0.25 s.
        sys.setswitchinterval(0.0005)
        args = (_signals(),)
        threading.Thread(target=self._await_signal, args=args, name="signals", daemon=True).start()
        threading.Thread(target=self._read_frames, name="reader", daemon=True).start()
        while not isinstance(entry := self._inbox.get(), _Stop):
            if isinstance(entry, TooLarge) and self._service is not None:
                self._service.on_lost_frame(entry.head)
            self._dispatcher.dispatch(entry)
            self._room.release()
        self._run_stop(entry)
        return entry.exit_code

    def stop(self, reason: str, exit_code: int = EXIT_CLEAN) -> None:
        """End the main loop once what was received so far is handled. Any thread may call this."""
        self._inbox.put(_Stop(reason, exit_code))

    def _await_signal(self, descriptor: int) -> None:
        self.stop(signal.Signals(os.read(descriptor, 1)[0]).name)

    def _read_frames(self) -> None:
        exit_code, reason = EXIT_CLEAN, "end of input"
        try:
            for frame in self._reader:
                self._room.acquire()
                self.outbox.wait_for_room()
                self._inbox.put(frame)
        except FramingLost as lost:
            sys.stderr.write(f"oh-daemon: the input is not a message stream: {lost}\n")
            exit_code, reason = EXIT_FRAMING_LOST, f"framing lost: {lost}"
        except OSError as error:
            reason = f"input: {error}"
        self.stop(reason, exit_code)
        # Even if something hangs on the main loop, a daemon without its editor must not live on.
        if not self._has_stopped.wait(_HANG_DEADLINE_S):
            os._exit(exit_code)

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
        context.after_answer(lambda: self._begin(facts))
        version = metadata.version("oh-daemon")
        sandbox = self._report_sandbox(facts.settings)
        return {
            "capabilities": _server_capabilities(version, facts.position_encoding, sandbox),
            "serverInfo": {"name": "oh-daemon", "version": version},
        }

    def _begin(self, facts: ClientFacts) -> None:
        """Start what the answer to `initialize` does not wait for."""
        if facts.process_id is not None:
            _watch_parent(facts.process_id, lambda: self.stop("the editor is gone"))
        try:
            self._service = self._make_service(self, facts)
        except Exception:
            # Without its methods the daemon would refuse everything and never say why.
            log.exception("the daemon cannot start")
            self.stop("cannot start", EXIT_CANNOT_START)
            return
        self._dispatcher.mask = self._service.mask
        if self._recording is not None:
            self._recording.mask = self._service.mask
        self._dispatcher.methods |= self._service.methods
        self._dispatcher.notifications |= self._service.notifications

    def _shutdown(self, _params: Json, _context: RequestContext) -> None:
        self._is_shut_down = True

    def _exit(self, _params: Json) -> None:
        self.stop("exit", EXIT_CLEAN if self._is_shut_down else EXIT_WITHOUT_SHUTDOWN)

    def _run_stop(self, stop: _Stop) -> None:
        log.info("stopping: %s", stop.reason)
        self._has_stopped.set()
        deadline = time.monotonic() + _STOP_DEADLINE_S
        last_resort = threading.Timer(_STOP_DEADLINE_S, os._exit, (stop.exit_code,))
        last_resort.name, last_resort.daemon = "last-resort", True
        last_resort.start()
        try:
            if self._service is not None:
                self._service.cancel()
            # Only after all work is cancelled, or an agent would tell its model of the failure.
            self.client.on_gone()
            if self._service is not None:
                self._service.stop(deadline - time.monotonic())
        except Exception:
            log.exception("while stopping")
        self._dispatcher.abandon()
        if not self.outbox.close(max(0.0, deadline - time.monotonic() - 0.1)):
            log.warning("the client did not take the last %d bytes", self.outbox.queued_bytes)


def _signals() -> int:
    """Return a descriptor that gets the number of each signal that asks us to stop.

    A Python handler would not do: if the signal comes right before the main thread waits, the
    handler runs only when something else wakes that thread.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in _SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    return readable


def _server_capabilities(version: str, position_encoding: str, sandbox: Json | None) -> Json:
    ours = {
        "protocolVersion": PROTOCOL_VERSION,
        "daemon": {"name": "oh-daemon", "version": version, "pid": os.getpid()},
        "methods": [method.name for method in protocol.REQUESTS],
        "notifications": [method.name for method in protocol.NOTIFICATIONS],
        "limits": protocol.LIMITS,
        **({"sandbox": sandbox} if sandbox else {}),
    }
    return {
        "positionEncoding": position_encoding,
        "textDocumentSync": {"openClose": True, "change": 2, "save": True},
        "codeActionProvider": True,
        "workspace": {
            "workspaceFolders": {"supported": True, "changeNotifications": True},
            "textDocumentContent": {"schemes": protocol.DOCUMENT_SCHEMES},
        },
        "executeCommandProvider": {"commands": [*protocol.COMMANDS, *protocol.OWN_COMMANDS]},
        "experimental": {"ohDaemon": ours},
    }


def _watch_parent(process_id: int, on_end: Callable[[], None]) -> None:
    """Call back when the process ends. If it cannot be watched, the end of input must do."""
    try:
        descriptor = os.pidfd_open(process_id)
    except (AttributeError, OSError) as error:
        # The process id of an editor in another container means nothing here.
        log.info("process %d cannot be watched: %s", process_id, error)
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        on_end()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
