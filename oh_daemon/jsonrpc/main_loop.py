"""The main loop of a front, from the first frame to the end of the connection, or of the process.

Invariant: whatever causes the end (end of input, signal, a client that is gone), the same stop runs
once, within its deadline. What the methods are, and which frames have to wait, the front knows.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue

from msgspec import Struct, field

from oh_daemon.jsonrpc.dispatch import Dispatcher, Method, Notification
from oh_daemon.jsonrpc.framing import Frame, FramingLost, TooLarge
from oh_daemon.jsonrpc.stdio import signal_numbers

log = logging.getLogger(__name__)

EXIT_CLEAN = 0
EXIT_FRAMING_LOST = 3
_HANG_S = 5.0
_IMPORT_S = 60.0
"""On a busy machine imports take longer, and what was asked before the end of input waits."""
_MAX_WAITING_FRAMES = 256


class Stop(Struct, frozen=True):
    """The end of the main loop."""

    reason: str
    exit_code: int = EXIT_CLEAN
    awaits_answers: bool = False
    """Whether requests that wait are served first."""


class Service(Struct, frozen=True):
    """Serves the client after `initialize`. All but `mask` is called on the main thread only."""

    methods: Mapping[str, Method]
    notifications: Mapping[str, Notification] = field(default_factory=dict[str, Notification])
    on_lost_frame: Callable[[bytes], None] = lambda _head: None
    """A message was too large to read; this is its beginning."""
    stop: Callable[[float], None] = lambda _left_s: None
    """End everything within this many seconds."""
    cancel: Callable[[], object] = lambda: None
    """Cancel all running work, without waiting for its end."""
    mask: Callable[[str], str] = str
    """Hides secrets in error answers."""
    is_complete: bool = True
    """Whether no other service comes that has more methods."""


class MainLoop:
    """Create and use it on one thread; any thread may call `stop` and `put`."""

    def __init__(self, dispatcher: Dispatcher, stop_s: float) -> None:
        """The stop takes at most `stop_s`."""
        self._dispatcher = dispatcher
        self._stop_s = stop_s
        self._inbox: SimpleQueue[Frame | Service | Stop] = SimpleQueue()
        # Messages that come faster than we handle them wait in the pipe, not in our memory.
        self._room = threading.Semaphore(_MAX_WAITING_FRAMES)
        self._service: Service | None = None
        self._has_stopped = threading.Event()
        self._owns_process = False
        self.is_composing = False
        """Whether the service is being made, which takes imports."""

    @property
    def has_stopped(self) -> bool:
        return self._has_stopped.is_set()

    def start(self, frames: Iterator[Frame]) -> None:
        """Begin to read."""
        # With Python's default of 5 ms, eight busy threads delay an answer by 0.25 s.
        sys.setswitchinterval(0.0005)
        self._reader = threading.Thread(
            target=self._read, args=(frames,), name="reader", daemon=True
        )
        self._reader.start()

    def own_process(self) -> None:
        """Let signals run the stop from here on, and what hangs meanwhile end with the process."""
        self._owns_process = True
        args = (signal_numbers(),)
        threading.Thread(target=self._await_signal, args=args, name="signals", daemon=True).start()

    def next(self) -> Frame | Service | Stop:
        """Wait for what comes next."""
        return self._inbox.get()

    def put(self, service: Service) -> None:
        """Let the main loop have it after what was received so far."""
        self._inbox.put(service)

    def stop(
        self, reason: str, exit_code: int = EXIT_CLEAN, *, awaits_answers: bool = False
    ) -> None:
        """End the main loop once what was received so far is handled."""
        self._inbox.put(Stop(reason, exit_code, awaits_answers))

    def handle(self, entry: Frame | Service) -> None:
        """Answer a frame, or serve what a service has from here on."""
        if isinstance(entry, Service):
            self._use(entry)
            return
        if isinstance(entry, TooLarge) and self._service is not None:
            self._service.on_lost_frame(entry.head)
        self._dispatcher.dispatch(entry)
        self.make_room()

    def make_room(self) -> None:
        """Let one more frame be read: one that was received is done with."""
        self._room.release()

    def _use(self, service: Service) -> None:
        self._dispatcher.methods |= service.methods
        self._dispatcher.notifications |= service.notifications
        if service.is_complete:
            self._service = service
            self._dispatcher.mask = service.mask
            self.is_composing = False

    def _await_signal(self, descriptor: int) -> None:
        self.stop(signal.Signals(os.read(descriptor, 1)[0]).name)

    def _read(self, frames: Iterator[Frame]) -> None:
        exit_code, reason = EXIT_CLEAN, "end of input"
        try:
            for frame in frames:
                self._room.acquire()
                self._dispatcher.outbox.wait_for_room()
                self._inbox.put(frame)
        except FramingLost as framing_error:
            sys.stderr.write(f"oh-daemon: the input is not a message stream: {framing_error}\n")
            exit_code, reason = EXIT_FRAMING_LOST, f"framing lost: {framing_error}"
        except OSError as error:
            reason = f"input: {error}"
        self.stop(reason, exit_code, awaits_answers=True)
        # Even if something hangs on the main loop, a daemon without its editor must not live on.
        if not self._owns_process or self._has_stopped.wait(_HANG_S):
            return
        if not self.is_composing or not self._has_stopped.wait(_IMPORT_S):
            os._exit(exit_code)

    def end(self, stop: Stop, frames: Iterable[Frame] = ()) -> int:
        """Run the stop; frames that wait are refused. Return the exit code for the process."""
        log.info("stopping: %s", stop.reason)
        self._has_stopped.set()
        for frame in frames:
            self._dispatcher.dispatch(frame)
        deadline = time.monotonic() + self._stop_s
        if self._owns_process:
            last_resort = threading.Timer(self._stop_s, os._exit, (stop.exit_code,))
            last_resort.name, last_resort.daemon = "last-resort", True
            last_resort.start()
        try:
            self._end_work(deadline)
        except Exception:
            log.exception("while stopping")
        self._dispatcher.abandon()
        outbox = self._dispatcher.outbox
        if not outbox.close(max(0.0, deadline - time.monotonic() - 0.1)):
            log.warning("the client did not take the last %d bytes", outbox.queued_bytes)
        return stop.exit_code

    def join(self) -> None:
        """Wait until nothing uses the descriptors any more; both must have been shut before."""
        self._reader.join()
        self._dispatcher.outbox.join()

    def _end_work(self, deadline: float) -> None:
        if self._service is not None:
            self._service.cancel()
        # Only after all work is cancelled, or an agent would tell its model of the failure.
        self._dispatcher.client.on_gone()
        if self._service is not None:
            self._service.stop(deadline - time.monotonic())
