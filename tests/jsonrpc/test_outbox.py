import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from oh_daemon.frontends.lsp.methods import OUTGOING
from oh_daemon.jsonrpc.framing import ContentLength
from oh_daemon.jsonrpc.outbox import (
    DROP_ABOVE_BYTES,
    MERGE_ABOVE_BYTES,
    REFUSE_ABOVE_BYTES,
    STALL_ABOVE_BYTES,
    DeltaStream,
    Outbox,
)

WITHIN_S = 90.0
TEXT = DeltaStream("c", "t", "i", "text")


class Wire:
    """An outbox and the client's end of its pipe, unread until `start_reading` or `rest`."""

    def __init__(self) -> None:
        self._readable, writable = os.pipe()
        self.is_gone = threading.Event()
        self.outbox = Outbox(writable, ContentLength(), OUTGOING, self.is_gone.set)
        self._writable = writable
        self._n_events = 0

    def event(self, name: str, conversation_id: str = "c") -> None:
        self._n_events += 1
        params = {"conversationId": conversation_id, "seq": self._n_events, "name": name}
        self.outbox.event(conversation_id, self._n_events, json.dumps(params).encode())

    def flood(self, n_bytes: int) -> None:
        for _ in range(n_bytes // 100_000 + 1):
            self.outbox.response(0, b'"%b"' % (b"x" * 100_000))

    def take_all(self) -> list[Any]:
        """Close the outbox, and return everything that it sent, in a short form."""
        self.start_reading()
        assert self.outbox.close(WITHIN_S)
        os.close(self._writable)
        self._reader.join(WITHIN_S)
        return [self._short(message) for message in _messages(b"".join(self._frames))]

    def start_reading(self) -> None:
        self._frames: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def leave(self) -> None:
        os.close(self._readable)

    def _read(self) -> None:
        while data := os.read(self._readable, 1 << 20):
            self._frames.append(data)
        os.close(self._readable)

    @staticmethod
    def _short(message: dict[str, Any]) -> Any:
        params = message.get("params") or {}
        match message.get("method"):
            case "conversation/event":
                return params["name"]
            case "conversation/delta":
                return params["offset"], params["text"]
            case "conversation/gap":
                return "gap", params["conversationId"], params["fromSeq"], params["toSeq"]
            case None:
                return message["id"]
            case other_frame:
                return other_frame


def _messages(data: bytes) -> Iterator[Any]:
    while data:
        header, _, data = data.partition(b"\r\n\r\n")
        length = int(header.removeprefix(b"Content-Length: "))
        yield json.loads(data[:length])
        data = data[length:]


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_events_and_answers_keep_their_order(wire: Wire) -> None:
    wire.event("one")
    wire.outbox.response(1, b"{}")
    wire.event("two")
    wire.outbox.request(7, "x/y", b"{}")
    wire.outbox.withdraw(7)
    assert wire.take_all() == ["one", 1, "two", "x/y", "$/cancelRequest"]


def test_a_held_conversation_waits_for_its_last_holder_and_the_others_do_not(wire: Wire) -> None:
    first, second = wire.outbox.hold("c"), wire.outbox.hold("c")
    wire.event("mine")
    wire.outbox.delta(TEXT, 0, "ab")
    wire.outbox.in_order("c", lambda: wire.outbox.request(7, "approval/request", b"{}"))
    wire.event("of another", "d")
    first()
    wire.outbox.response(1, b"{}")
    second()
    wire.event("later")
    assert wire.take_all() == ["of another", 1, "mine", "approval/request", (0, "ab"), "later"]


def test_closing_sends_what_is_held_and_waiting(wire: Wire) -> None:
    wire.outbox.hold("c")
    wire.event("held")
    wire.outbox.delta(TEXT, 0, "ab")
    assert wire.take_all() == ["held", (0, "ab")]


def test_pieces_of_a_text_are_merged_and_precede_the_next_event(wire: Wire) -> None:
    wire.flood(2 * 1024 * 1024)
    for number in range(1000):
        wire.outbox.delta(TEXT, number * 2, "ab")
    wire.event("end")
    assert [frame for frame in wire.take_all() if frame != 0] == [(0, "ab" * 1000), "end"]


def test_a_long_text_is_sent_in_pieces_and_a_hole_is_not_closed(wire: Wire) -> None:
    wire.flood(2 * 1024 * 1024)
    wire.outbox.delta(TEXT, 0, "x" * 40_000)
    wire.outbox.delta(TEXT, 50_000, "y")
    sizes = [(sizes[0], len(sizes[1])) for sizes in wire.take_all() if sizes != 0]
    assert sizes == [(0, 16384), (16384, 16384), (32768, 7232), (50_000, 1)]


def test_text_is_dropped_for_a_slow_client_and_events_are_not(wire: Wire) -> None:
    wire.flood(DROP_ABOVE_BYTES)
    wire.outbox.delta(TEXT, 0, "ab")
    wire.event("kept")
    assert [frame for frame in wire.take_all() if frame != 0] == ["kept"]


def test_a_stalled_client_gets_every_answer_and_is_told_the_gap_of_each_conversation(
    wire: Wire,
) -> None:
    wire.event("one")
    wire.flood(STALL_ABOVE_BYTES)
    for conversation_id in ("c", "d", "c", "c"):
        wire.event("lost", conversation_id)
    wire.outbox.notify("conversation/changed", b"{}")
    wire.outbox.notify("$/progress", b"{}")
    wire.outbox.response(1, b"{}")
    expected = ["one", "$/progress", 1, ("gap", "c", 2, 5), ("gap", "d", 3, 3)]
    assert [frame for frame in wire.take_all() if frame != 0] == expected


@pytest.mark.parametrize("limit_bytes", [MERGE_ABOVE_BYTES, REFUSE_ABOVE_BYTES])
@pytest.mark.parametrize("is_read", [True, False])
def test_wait_for_room_ends_when_the_client_reads_or_the_outbox_closes(
    wire: Wire, limit_bytes: int, *, is_read: bool
) -> None:
    has_room = threading.Event()

    def wait() -> None:
        wire.outbox.wait_for_room(limit_bytes)
        has_room.set()

    wire.flood(limit_bytes)
    threading.Thread(target=wait, daemon=True).start()
    assert not has_room.wait(0.05)
    if is_read:
        wire.start_reading()
    else:
        wire.outbox.close(0)
    assert has_room.wait(WITHIN_S)


def test_a_client_that_left_is_reported_once_and_costs_nothing(wire: Wire) -> None:
    wire.leave()
    wire.event("one")
    assert wire.is_gone.wait(WITHIN_S)
    wire.flood(STALL_ABOVE_BYTES)
    assert wire.outbox.queued_bytes == 0
    wire.outbox.wait_for_room()
    assert not wire.outbox.close(WITHIN_S)


def test_an_answer_waits_for_nobody_who_is_about_to_send_an_event(wire: Wire) -> None:
    sending, gate = threading.Event(), threading.Event()

    def send() -> None:
        sending.set()
        assert gate.wait(WITHIN_S)

    thread = threading.Thread(target=wire.outbox.in_order, args=("c", send))
    thread.start()
    assert sending.wait(WITHIN_S)
    answer_thread = threading.Thread(target=wire.outbox.response, args=(7, b"null"), daemon=True)
    answer_thread.start()
    answer_thread.join(WITHIN_S)
    assert not answer_thread.is_alive()
    gate.set()
    thread.join(WITHIN_S)
    assert wire.take_all() == [7]
