"""Frames out: one queue of ready bytes and the only thread that writes to the client.

Answers and our own requests are never dropped. Text deltas are merged while the client is slow and
dropped when it is very slow. Events are dropped only when it stalls; then it is told the gap.
Invariant: within a conversation events keep their order, and no delta follows its item's end.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

from msgspec import Struct, field

from oh_daemon.jsonrpc.framing import Framing, RequestId, encode, unrecorded

log = logging.getLogger(__name__)

MERGE_ABOVE_BYTES = 1 << 20
DROP_ABOVE_BYTES = 4 << 20
STALL_ABOVE_BYTES = 8 << 20
REFUSE_ABOVE_BYTES = 16 << 20
"""Only what is never dropped reaches this; then no more input is read until the client reads."""
_WRITE_BYTES = 256 * 1024
_DELTA_INTERVAL_S = 0.033
_MAX_DELTAS_PER_S = 60
"""For all conversations together: an editor's main loop gets no more, however many stream."""
_DELTA_LIMIT_CHARS = 16 * 1024


class DeltaStream(NamedTuple):
    """Where streamed text belongs; `channel` is text, reasoning or output."""

    conversation_id: str
    turn_id: str
    item_id: str
    channel: str


class Notifications(Struct, frozen=True):
    """What a front calls the notifications that are made here, and what it puts into them."""

    cancel: str
    """Withdraws a request of ours."""
    cancel_params: Callable[[int], object]
    """Gets the id of the request."""
    event: str = ""
    delta: str = ""
    delta_params: Callable[[DeltaStream, int, str], object] = lambda _stream, _offset, _text: None
    """Gets the stream, the offset and the text."""
    gap: str = ""
    gap_params: Callable[[str, int, int], object] = lambda _id, _first, _last: None
    """Gets the conversation and the first and the last event that it was not sent."""
    repeatable: frozenset[str] = frozenset()
    """Those that a client can ask for again or do without: a stalled one is not sent them."""


class _Pending(Struct):
    """Text of one stream that waits to be sent together."""

    offset: int
    texts: list[str] = field(default_factory=list[str])
    n_chars: int = 0


class Outbox:
    """Any thread may call any method; only `close` and `wait_for_room` wait for the client."""

    def __init__(
        self,
        descriptor: int,
        framing: Framing,
        notifications: Notifications,
        on_gone: Callable[[], None] = lambda: None,
        on_frame: Callable[[bytes], object] = unrecorded,
    ) -> None:
        """Start the writer thread, which makes both callbacks.

        It calls `on_gone` once, when the client has stopped listening, and `on_frame` with each
        frame right before writing it.
        """
        self._descriptor = descriptor
        self._framing = framing
        self._notifications = notifications
        self._on_client_gone = on_gone
        self._on_frame = on_frame
        self.is_terse = False
        """Whether the client is sent no events, and none of what is repeatable."""
        self._condition = threading.Condition()
        # A thread that holds a lock may lose the interpreter, and with a hundred at work gets it
        # back only after all of them. So answers need no more than this lock, for a moment.
        self._counting = threading.Lock()
        """Guards the queue and its size."""
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._pending: dict[DeltaStream, _Pending] = {}
        self._pending_chars = 0
        self._next_flush_at = 0.0
        self._gaps: dict[str, tuple[int, int]] = {}
        self._holders: Counter[str] = Counter()
        self._backlog: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        self._is_stalled = False
        self._is_closing = False
        self._is_gone = False
        self._writer = threading.Thread(target=self._write_frames, name="writer", daemon=True)
        self._writer.start()

    @property
    def queued_bytes(self) -> int:
        """How far the client is behind."""
        return self._queued_bytes

    def response(self, request_id: RequestId | None, result: bytes) -> None:
        self._enqueue(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(request_id), result))

    def error(self, request_id: RequestId | None, error: bytes) -> None:
        self._enqueue(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(request_id), error))

    def request(self, request_id: int, method: str, params: bytes) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}'
        self._enqueue(body % (request_id, encode(method), params))

    def forward(self, body: bytes) -> None:
        """Send a message of somebody else as it is."""
        self._enqueue(body)

    def withdraw(self, request_id: int) -> None:
        """Tell the client that we no longer wait for its answer."""
        params = encode(self._notifications.cancel_params(request_id))
        self._notify(self._notifications.cancel, params)

    def notify(self, method: str, params: bytes) -> None:
        """Send it, unless it is repeatable and the client stalled or terse."""
        is_repeatable = method in self._notifications.repeatable
        with self._condition:
            if not is_repeatable or not (self._is_stalled or self.is_terse):
                self._notify(method, params)

    def event(self, conversation_id: str, seq: int, params: bytes) -> None:
        """Send a durable event, after all deltas of its conversation so far."""
        if not self.is_terse:
            self.in_order(conversation_id, lambda: self._event(conversation_id, seq, params))

    def delta(self, stream: DeltaStream, offset: int, text: str) -> None:
        """Send streamed text; `offset` counts the code points sent on this stream before."""
        if not self.is_terse:
            self.in_order(stream.conversation_id, lambda: self._delta(stream, offset, text))

    def flush(self, conversation_id: str) -> None:
        """Send the text of this conversation that still waits to be sent together with more."""
        self.in_order(
            conversation_id, lambda: self._flush_deltas(self._pending_of(conversation_id))
        )

    def report_gap(self, conversation_id: str) -> None:
        """Tell at once which events the client was not sent, not only when it has caught up."""
        with self._condition:
            if (gap := self._gaps.pop(conversation_id, None)) is not None:
                self._report_gap(conversation_id, gap)

    def in_order(self, conversation_id: str, send: Callable[[], None]) -> None:
        """Call `send` after the events so far: now, or once this conversation is released."""
        with self._condition:
            if self._holders[conversation_id] > 0:
                self._backlog[conversation_id].append(send)
            else:
                send()

    def hold(self, conversation_id: str) -> Callable[[], None]:
        """Hold this conversation's events and deltas back until the returned function is called.

        A request's handler holds before the first event it causes and releases, once, when the
        answer is queued. Holds are counted.
        """
        with self._condition:
            self._holders[conversation_id] += 1
        return lambda: self._release(conversation_id)

    def hold_in_order(self, conversation_id: str, begin: Callable[[], None]) -> Callable[[], None]:
        """Like `hold`, but after the events so far, those that are held as well; `begin` then."""

        def hold() -> None:
            self._holders[conversation_id] += 1
            begin()

        self.in_order(conversation_id, hold)
        return lambda: self._release(conversation_id)

    def wait_for_room(self, limit_bytes: int = REFUSE_ABOVE_BYTES) -> None:
        """Wait while the client is `limit_bytes` behind, at least `MERGE_ABOVE_BYTES`, or more."""
        with self._condition:
            self._condition.wait_for(lambda: self._queued_bytes < limit_bytes or self._is_closing)

    def close(self, deadline_s: float) -> bool:
        """Send what is queued, then stop; return false when the client did not take it in time."""
        with self._condition:
            while self._backlog:
                self._holders.clear()
                for conversation_id in list(self._backlog):
                    self._send_backlog(conversation_id)
            self._flush_deltas(list(self._pending))
            self._is_closing = True
            self._condition.notify_all()
        self._wakes.put(None)
        self._writer.join(deadline_s)
        return not self._writer.is_alive() and not self._is_gone

    def join(self) -> None:
        """Wait until nothing is written any more."""
        self._writer.join()

    def _release(self, conversation_id: str) -> None:
        with self._condition:
            self._holders[conversation_id] -= 1
            if self._holders[conversation_id] == 0:
                self._send_backlog(conversation_id)

    def _send_backlog(self, conversation_id: str) -> None:
        backlog = self._backlog[conversation_id]
        while backlog and not self._holders[conversation_id]:
            backlog.popleft()()
        if not backlog:
            self._backlog.pop(conversation_id, None)
        if not self._holders[conversation_id]:
            del self._holders[conversation_id]

    def _notify(self, method: str, params: bytes) -> None:
        self._enqueue(b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), params))

    def _enqueue(self, body: bytes) -> None:
        if self._is_gone:
            return
        frame = self._framing.frame(body)
        with self._counting:
            is_first = not self._queue
            self._queue.append(frame)
            self._queued_bytes += len(frame)
        if self._queued_bytes >= STALL_ABOVE_BYTES and not self._is_stalled:
            self._is_stalled = True
            log.warning("the client is %d bytes behind; events wait", self._queued_bytes)
        if is_first:
            self._wakes.put(None)

    def _event(self, conversation_id: str, seq: int, params: bytes) -> None:
        self._flush_deltas(self._pending_of(conversation_id))
        if self._is_stalled:
            first, _ = self._gaps.get(conversation_id, (seq, seq))
            self._gaps[conversation_id] = (first, seq)
        else:
            self._notify(self._notifications.event, params)

    def _pending_of(self, conversation_id: str) -> list[DeltaStream]:
        return [stream for stream in self._pending if stream.conversation_id == conversation_id]

    def _delta(self, stream: DeltaStream, offset: int, text: str) -> None:
        if self._is_stalled or self._queued_bytes + self._pending_chars > DROP_ABOVE_BYTES:
            return
        pending = self._pending.get(stream)
        if pending is not None and pending.offset + pending.n_chars != offset:
            self._flush_deltas([stream])
            pending = None
        if pending is None:
            pending = self._pending[stream] = _Pending(offset)
            self._wakes.put(None)
        pending.texts.append(text)
        pending.n_chars += len(text)
        self._pending_chars += len(text)

    def _flush_deltas(self, streams: list[DeltaStream]) -> None:
        """Queue the waiting text of these streams; a stalled client loses it."""
        for stream in streams:
            pending = self._pending.pop(stream)
            self._pending_chars -= pending.n_chars
            text = "" if self._is_stalled else "".join(pending.texts)
            for start in range(0, len(text), _DELTA_LIMIT_CHARS):
                part = text[start : start + _DELTA_LIMIT_CHARS]
                params = self._notifications.delta_params(stream, pending.offset + start, part)
                self._notify(self._notifications.delta, encode(params))

    def _write_frames(self) -> None:
        try:
            while frames := self._next_frames():
                for frame in frames:
                    self._on_frame(frame)
                chunk = b"".join(frames)
                for start in range(0, len(chunk), _WRITE_BYTES):
                    self._write(chunk[start : start + _WRITE_BYTES])
        except OSError as error:
            log.info("the client is gone: %s", error)
            with self._condition:
                self._is_gone = True
                self._take_batch()
                self._queued_bytes = 0
                self._condition.notify_all()
            self._on_client_gone()

    def _write(self, data: bytes) -> None:
        n_written = 0
        while n_written < len(data):
            try:
                n_written += os.write(self._descriptor, data[n_written:])
            except BlockingIOError:  # A socket that another part of this program reads from.
                room = select.poll()
                room.register(self._descriptor, select.POLLOUT)
                room.poll()
        with self._counting:
            before_bytes = self._queued_bytes
            self._queued_bytes -= len(data)
        if before_bytes >= MERGE_ABOVE_BYTES:
            with self._condition:
                self._condition.notify_all()

    def _next_frames(self) -> list[bytes]:
        """Wait for frames and return them all; an empty list when there will be no more."""
        while True:
            wait_s = self._flush_due_deltas()
            if frames := self._take_batch():
                return frames
            if self._is_stalled:
                with self._condition:
                    self._report_gaps()
            elif self._is_closing:
                return self._take_batch()
            else:
                with suppress(Empty):
                    self._wakes.get(timeout=wait_s)

    def _take_batch(self) -> list[bytes]:
        with self._counting:
            frames = list(self._queue)
            self._queue.clear()
            return frames

    def _flush_due_deltas(self) -> float | None:
        """Queue the text that has waited long enough; return the seconds until more is due."""
        if not self._pending or self._queued_bytes > MERGE_ABOVE_BYTES:
            return None
        now = time.monotonic()
        # The first piece of a burst is due at once: a person waits for it.
        if now < self._next_flush_at:
            return self._next_flush_at - now
        with self._condition:
            pause_s = max(_DELTA_INTERVAL_S, len(self._pending) / _MAX_DELTAS_PER_S)
            self._next_flush_at = now + pause_s
            self._flush_deltas(list(self._pending))
        return None

    def _report_gaps(self) -> None:
        """Tell a client that has caught up which events it must ask for."""
        self._is_stalled = False
        for conversation_id, gap in self._gaps.items():
            self._report_gap(conversation_id, gap)
        self._gaps.clear()

    def _report_gap(self, conversation_id: str, gap: tuple[int, int]) -> None:
        params = self._notifications.gap_params(conversation_id, *gap)
        self._notify(self._notifications.gap, encode(params))
