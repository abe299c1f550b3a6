"""Frames out: one queue of ready bytes and the only thread that writes to the client.

Answers and our own requests are never dropped. Text deltas are merged while the client is slow and
dropped when it is very slow; events are dropped only when it stalls, and then it is told the gap.
Invariant: within a conversation events keep their order, and no delta follows its item's end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from oh_daemon.fronts.lsp.stdio import RequestId, encode

log = logging.getLogger(__name__)

MERGE_ABOVE_BYTES = 1024 * 1024
DROP_ABOVE_BYTES = 4 * 1024 * 1024
STALL_ABOVE_BYTES = 8 * 1024 * 1024
_WRITE_BYTES = 256 * 1024
_DELTA_INTERVAL_S = 0.033
_DELTA_CHARS = 4 * 1024
"""This much waiting text is sent without waiting longer, in code points."""
_DELTA_LIMIT_CHARS = 16 * 1024
"""Longest text of one delta frame, in code points."""


class DeltaStream(NamedTuple):
    """Where streamed text belongs; `channel` is text, reasoning, args or output."""

    conversation_id: str
    turn_id: str
    item_id: str
    channel: str


@dataclass(slots=True)
class _Pending:
    """Text of one stream that waits to be sent together; `due_at` is when it has waited enough."""

    offset: int
    due_at: float
    gap: bool
    texts: list[str] = field(default_factory=list[str])
    n_chars: int = 0


@dataclass(slots=True)
class _Held:
    """What waits, in order, for the answer to a request about this conversation."""

    n_holders: int = 0
    waiting: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Outbox:
    """All methods may be called from any thread and none waits for the client, but `close`."""

    def __init__(self, descriptor: int, on_gone: Callable[[], None] = lambda: None) -> None:
        """`on_gone` is called once, from the writer thread, when the client stopped listening."""
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._changed = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._pending: dict[DeltaStream, _Pending] = {}
        self._pending_chars = 0
        self._sent_at: dict[DeltaStream, float] = {}
        self._dropped: set[DeltaStream] = set()
        self._gaps: dict[str, tuple[int, int]] = {}
        self._held: dict[str, _Held] = {}
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
        self._put(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(request_id), result))

    def error(self, request_id: RequestId | None, error: bytes) -> None:
        self._put(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (encode(request_id), error))

    def request(self, request_id: int, method: str, params: bytes) -> None:
        self._put(
            b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}'
            % (request_id, encode(method), params)
        )

    def withdraw(self, request_id: int) -> None:
        """Tell the client that we no longer wait for its answer."""
        self._put(_notification(b"$/cancelRequest", b'{"id":%d}' % request_id))

    def notify(self, method: str, params: bytes) -> None:
        """Something the client can ask for again: not sent while the client is stalled."""
        with self._changed:
            if not self._is_stalled:
                self._enqueue(_notification(method.encode(), params))

    def event(self, conversation_id: str, seq: int, params: bytes) -> None:
        """A durable event, after all deltas of its conversation so far."""
        with self._changed:
            self._unless_held(conversation_id, lambda: self._event(conversation_id, seq, params))

    def delta(self, stream: DeltaStream, offset: int, text: str) -> None:
        """Streamed text; `offset` counts the code points sent on this stream before."""
        with self._changed:
            self._unless_held(stream.conversation_id, lambda: self._delta(stream, offset, text))

    def hold(self, conversation_id: str) -> Callable[[], None]:
        """Keep this conversation's events and deltas back until the result is called (once).

        Whoever handles a request holds before the first event it causes, and releases when the
        answer is queued. Holds are counted.
        """
        with self._changed:
            self._held.setdefault(conversation_id, _Held()).n_holders += 1
        return lambda: self._release(conversation_id)

    def close(self, deadline_s: float) -> bool:
        """Send what is queued, then stop; false when the client did not take it in time."""
        with self._changed:
            for held in self._held.values():
                _run(held.waiting)
            self._held.clear()
            self._flush_deltas()
            self._is_closing = True
            self._changed.notify_all()
        self._writer.join(deadline_s)
        return not self._writer.is_alive() and not self._is_gone

    def _release(self, conversation_id: str) -> None:
        with self._changed:
            held = self._held.get(conversation_id)
            if held is None:
                return
            held.n_holders -= 1
            if held.n_holders == 0:
                del self._held[conversation_id]
                _run(held.waiting)

    def _unless_held(self, conversation_id: str, send: Callable[[], None]) -> None:
        held = self._held.get(conversation_id)
        if held is None:
            send()
        else:
            held.waiting.append(send)

    def _put(self, body: bytes) -> None:
        with self._changed:
            self._enqueue(body)

    def _enqueue(self, body: bytes) -> None:
        if self._is_gone:
            return
        frame = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        self._queue.append(frame)
        self._queued_bytes += len(frame)
        if self._queued_bytes >= STALL_ABOVE_BYTES and not self._is_stalled:
            self._is_stalled = True
            log.warning("the client is %d bytes behind; events wait", self._queued_bytes)
        self._changed.notify_all()

    def _event(self, conversation_id: str, seq: int, params: bytes) -> None:
        self._flush_deltas(conversation_id)
        for stream in [key for key in self._sent_at if key.conversation_id == conversation_id]:
            del self._sent_at[stream]
        if self._is_stalled:
            first, _ = self._gaps.get(conversation_id, (seq, seq))
            self._gaps[conversation_id] = (first, seq)
            return
        self._enqueue(_notification(b"conversation/event", params))

    def _delta(self, stream: DeltaStream, offset: int, text: str) -> None:
        if self._is_gone:
            return
        if self._is_stalled or self._queued_bytes + self._pending_chars > DROP_ABOVE_BYTES:
            self._dropped.add(stream)
            return
        pending = self._pending.get(stream)
        if pending is not None and pending.offset + pending.n_chars != offset:
            self._flush_delta(stream)
            pending = None
        if pending is None:
            pending = self._pending[stream] = self._new_pending(stream, offset)
        pending.texts.append(text)
        pending.n_chars += len(text)
        self._pending_chars += len(text)
        if pending.n_chars >= _DELTA_CHARS and pending.due_at > 0.0:
            pending.due_at = 0.0
            self._changed.notify_all()

    def _new_pending(self, stream: DeltaStream, offset: int) -> _Pending:
        # The first piece of a burst is due at once: a person waits for it.
        due_at = self._sent_at.get(stream, 0.0) + _DELTA_INTERVAL_S
        pending = _Pending(offset, due_at, stream in self._dropped)
        self._dropped.discard(stream)
        self._changed.notify_all()
        return pending

    def _flush_deltas(self, conversation_id: str | None = None) -> None:
        """Queue the waiting text of one conversation, or of all."""
        for stream in list(self._pending):
            if conversation_id in (None, stream.conversation_id):
                self._flush_delta(stream)

    def _flush_delta(self, stream: DeltaStream) -> None:
        pending = self._pending.pop(stream)
        self._pending_chars -= pending.n_chars
        if self._is_stalled:
            self._dropped.add(stream)
            return
        self._sent_at[stream] = time.monotonic()
        text = "".join(pending.texts)
        for start in range(0, len(text), _DELTA_LIMIT_CHARS):
            params = {
                "conversationId": stream.conversation_id,
                "turnId": stream.turn_id,
                "itemId": stream.item_id,
                "channel": stream.channel,
                "offset": pending.offset + start,
                "text": text[start : start + _DELTA_LIMIT_CHARS],
            }
            if pending.gap and start == 0:
                params["gap"] = True
            self._enqueue(_notification(b"conversation/delta", encode(params)))

    def _write_frames(self) -> None:
        while (chunk := self._next_chunk()) is not None:
            try:
                _write_all(self._descriptor, chunk)
            except OSError as error:
                log.info("the client is gone: %s", error)
                self._forget_everything()
                self._on_gone()
                return
            with self._changed:
                self._queued_bytes -= len(chunk)

    def _next_chunk(self) -> bytes | None:
        """Wait for frames, as many as one write should take; None when there will be no more."""
        with self._changed:
            while True:
                wait_s = self._flush_due_deltas()
                if self._queue:
                    return self._take_chunk()
                if self._is_stalled:
                    self._tell_gaps()
                elif self._is_closing:
                    return None
                else:
                    self._changed.wait(wait_s)

    def _take_chunk(self) -> bytes:
        frames = [self._queue.popleft()]
        size = len(frames[0])
        while self._queue and size + len(self._queue[0]) <= _WRITE_BYTES:
            frames.append(self._queue.popleft())
            size += len(frames[-1])
        return b"".join(frames)

    def _flush_due_deltas(self) -> float | None:
        """Queue the text that has waited enough; returns the seconds until the next is due."""
        if self._queued_bytes > MERGE_ABOVE_BYTES:
            return None
        now = time.monotonic()
        for stream in [key for key, pending in self._pending.items() if pending.due_at <= now]:
            self._flush_delta(stream)
        if not self._pending:
            return None
        return min(pending.due_at for pending in self._pending.values()) - now

    def _tell_gaps(self) -> None:
        """The client has caught up: say which events it must ask for."""
        self._is_stalled = False
        for conversation_id, (first, last) in self._gaps.items():
            params = {"conversationId": conversation_id, "fromSeq": first, "toSeq": last}
            self._enqueue(_notification(b"conversation/gap", encode(params)))
        self._gaps.clear()

    def _forget_everything(self) -> None:
        with self._changed:
            self._is_gone = True
            self._queue.clear()
            self._queued_bytes = 0
            self._pending.clear()
            self._held.clear()


def _run(waiting: list[Callable[[], None]]) -> None:
    for send in waiting:
        send()


def _notification(method: bytes, params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method, params)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
