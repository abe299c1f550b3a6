"""From start to exit: `initialize`, which methods are allowed when, and what waits for its method.

Invariant: `initialize` is answered before anything slow is imported, and the main loop makes no
services. The stop takes at most two seconds.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from oh_daemon.frontends.lsp.boot import Opening, answer
from oh_daemon.frontends.lsp.client_facts import ClientFacts, parse_client_facts
from oh_daemon.frontends.lsp.methods import OUTGOING, URGENT
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.dispatch import Dispatcher, Json, RequestContext
from oh_daemon.jsonrpc.framing import (
    ContentLength,
    Frame,
    RequestId,
    message_of,
    read_frames,
    unrecorded,
)
from oh_daemon.jsonrpc.main_loop import EXIT_CLEAN, MainLoop, Service, Stop
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.errors import (
    InvalidRequestError,
    NotInitializedError,
    RequestCancelledError,
    ShuttingDownError,
    UnsupportedVersionError,
    UserError,
)

if TYPE_CHECKING:
    from oh_daemon.frontends.lsp.recording import WireRecording

log = logging.getLogger(__name__)

PROTOCOL_VERSION = {"major": protocol.PROTOCOL_MAJOR, "minor": protocol.PROTOCOL_MINOR}
EXIT_WITHOUT_SHUTDOWN = 1
EXIT_CANNOT_START = 4
_STOP_S = 2.0


class FrameQueue:
    """Frames in order of arrival, perhaps with a stop behind them."""

    def __init__(self) -> None:
        self._entries: list[Frame | Stop] = []

    @property
    def has_request(self) -> bool:
        """Whether the client waits for an answer."""
        return any({"id", "method"} <= message_of(entry).keys() for entry in self._entries)

    @property
    def changes_folders(self) -> bool:
        name = "workspace/didChangeWorkspaceFolders"
        return any(message_of(entry).get("method") == name for entry in self._entries)

    def add(self, entry: Frame | Stop) -> None:
        self._entries.append(entry)

    def take(self) -> list[Frame | Stop]:
        """Return all; nothing waits any more."""
        entries, self._entries = self._entries, []
        return entries

    def cancel(self, params: object) -> RequestId | None:
        """Forget the request that `$/cancelRequest` names; return its id if it waited."""
        for entry in self._entries:
            message = message_of(entry)
            if "method" in message and "id" in message and {"id": message["id"]} == params:
                self._entries.remove(entry)
                return message["id"]
        return None


class LspServer:
    """One client on one pair of descriptors. Create and run it on one thread."""

    def __init__(
        self,
        stdio: tuple[int, int],
        make_services: Callable[[LspServer, ClientFacts], Iterable[Service]],
        recording: WireRecording | None = None,
        report_sandbox: Callable[[Json], dict[str, str] | None] = lambda _settings: None,
        opening: Opening | None = None,
    ) -> None:
        """`stdio` comes from `claim_stdio`; the services are made after `initialize` is answered.

        `report_sandbox` is given the client's settings. `make_services` runs on a thread of its
        own.
        """
        inbound, outbound = stdio
        opening = opening or Opening()
        on_message = recording.record_received if recording else unrecorded
        self._frames = read_frames(inbound, ContentLength(), on_message, unread=opening.unread)
        self._is_answered = opening.is_answered
        """Whether the next frame is an `initialize` that `boot` has answered."""
        self._make_services = make_services
        self._report_sandbox = report_sandbox
        self._recording = recording
        self._waiting_frames = FrameQueue()
        self._is_initialized = False
        self._is_shut_down = False
        self.outbox = Outbox(
            outbound,
            ContentLength(),
            OUTGOING,
            on_gone=lambda: self._loop.stop("the client stopped reading"),
            on_frame=recording.record_sent if recording else unrecorded,
        )
        self.client = Client(self.outbox)
        self._dispatcher = Dispatcher(
            self.outbox, self.client, self._why_not_now, (OUTGOING.cancel, "id"), URGENT
        )
        self._dispatcher.methods |= {"initialize": self._initialize, "shutdown": self._shutdown}
        self._dispatcher.notifications["exit"] = self._exit
        self._loop = MainLoop(self._dispatcher, _STOP_S)

    def run(self) -> int:
        """Serve until the end; return the exit code, with which the caller exits at once."""
        self._loop.own_process()
        return self.serve()

    def serve(self) -> int:
        """Serve until the end of the connection, on any thread; signals are the caller's."""
        self._loop.start(self._frames)
        for entry in self._entries():
            if isinstance(entry, Stop):
                entries = self._waiting_frames.take()
                return self._loop.end(entry, [e for e in entries if not isinstance(e, Stop)])
            self._loop.handle(entry)
        raise AssertionError("the entries never end")

    def stop(self, reason: str) -> None:
        """End the connection. Any thread may call."""
        self._loop.stop(reason)

    def join(self) -> None:
        """Wait until nothing uses the descriptors any more; both must have been shut before."""
        self._loop.join()

    def _entries(self) -> Iterator[Frame | Stop]:
        """Yield what came, in order; while the service is being made, what needs it waits."""
        while True:
            entry = self._loop.next()
            if isinstance(entry, Service):
                self._loop.handle(entry)
                if self._recording is not None and entry.is_complete:
                    self._recording.mask = entry.mask
                entries = self._waiting_frames.take()
                yield from (each for each in entries if not self._waits(each))
            elif self._is_answered and not isinstance(entry, Stop):
                self._is_answered = False
                self._loop.make_room()
                self._begin(parse_client_facts(message_of(entry)["params"]))
            elif not self._waits(entry):
                yield entry

    def _waits(self, entry: Frame | Stop) -> bool:
        """Let it wait, if it must: for its method, or for what came before it."""
        must_wait = self._loop.is_composing and self._has_to_wait(entry)
        if must_wait:
            self._waiting_frames.add(entry)
        return must_wait

    def _has_to_wait(self, entry: Frame | Stop) -> bool:
        if isinstance(entry, Stop):
            return entry.awaits_answers and self._waiting_frames.has_request
        message = message_of(entry)
        if message.get("method") == OUTGOING.cancel:
            was_cancelled = self._waiting_frames.cancel(message.get("params"))
            if was_cancelled is not None:
                self._loop.make_room()
                self._dispatcher.refuse(
                    was_cancelled, RequestCancelledError("cancelled by the client")
                )
            return False
        if message.get("method") in {"shutdown", "exit"}:
            return self._waiting_frames.has_request
        # A list shows what the folders have, so it comes after a change of the folders.
        is_there = message.get("method") in self._dispatcher.methods
        return (
            not is_there or self._waiting_frames.has_request or self._waiting_frames.changes_folders
        )

    def _why_not_now(self, method: str) -> UserError | None:
        if method == "exit":
            return None
        if self._loop.has_stopped:
            return ShuttingDownError("the daemon is stopping")
        if self._is_shut_down:
            return InvalidRequestError(f"{method!r} came after `shutdown`; only `exit` may follow")
        if not self._is_initialized and method != "initialize":
            return NotInitializedError(method)
        if self._is_initialized and method == "initialize":
            return InvalidRequestError("`initialize` was answered already")
        return None

    def _initialize(self, params: Json, context: RequestContext) -> bytes:
        facts = parse_client_facts(params)
        if facts.protocol_major not in (None, PROTOCOL_VERSION["major"]):
            raise UnsupportedVersionError(
                f"this daemon speaks version 1 of the protocol, not {facts.protocol_major}",
                hint="use a plugin and a daemon of the same major version",
                data={"retry": False, "supported": [PROTOCOL_VERSION]},
            )
        context.after_answer(lambda: self._begin(facts))
        sandbox = self._report_sandbox(facts.settings)
        return answer(facts.position_encoding, sandbox, facts.block).encode()

    def _begin(self, facts: ClientFacts) -> None:
        """Start what the answer to `initialize` does not wait for."""
        self._is_initialized = self._loop.is_composing = True
        if facts.process_id is not None:
            _watch_parent(facts.process_id, lambda: self._loop.stop("the editor is gone"))

        def make() -> None:
            try:
                for service in self._make_services(self, facts):
                    self._loop.put(service)
            except Exception:
                # Without its methods the daemon would refuse everything and never say why.
                log.exception("the daemon cannot start")
                self._loop.stop("cannot start", EXIT_CANNOT_START)

        threading.Thread(target=make, name="composition", daemon=True).start()

    def _shutdown(self, _params: Json, _context: RequestContext) -> None:
        self._is_shut_down = True

    def _exit(self, _params: Json) -> None:
        self._loop.stop("exit", EXIT_CLEAN if self._is_shut_down else EXIT_WITHOUT_SHUTDOWN)


def _watch_parent(process_id: int, on_end: Callable[[], None]) -> None:
    """Call back when the process ends. If it cannot be watched, the end of input must do."""
    try:
        descriptor = os.pidfd_open(process_id)
        if not _is_ancestor(process_id):
            os.close(descriptor)
            raise ProcessLookupError("it did not start this one")
    except (AttributeError, OSError) as error:
        # The process id of an editor in another container means nothing here, or a stranger.
        log.info("process %d is not watched: %s", process_id, error)
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        on_end()

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()


def _is_ancestor(process_id: int) -> bool:
    from pathlib import Path  # noqa: PLC0415 - 15 ms, and the answer does not wait.

    ancestor = os.getppid()
    while ancestor not in {0, process_id}:
        # The name, in parentheses, may have any characters (proc_pid_stat(5)).
        _, _, fields = Path(f"/proc/{ancestor}/stat").read_bytes().rpartition(b")")
        ancestor = int(fields.split()[1])
    return ancestor == process_id
