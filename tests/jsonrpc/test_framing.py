"""Both ways to tell messages apart, through the same reader and the same writer."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oh_daemon.frontends.lsp.methods import OUTGOING
from oh_daemon.jsonrpc.framing import (
    MAX_MESSAGE_BYTES,
    ContentLength,
    Frame,
    Framing,
    Lines,
    Malformed,
    Message,
    TooLarge,
    encode,
    read_frames,
)
from oh_daemon.jsonrpc.outbox import Outbox

MakeFraming = Callable[[], Framing]
both = pytest.mark.parametrize("make", [ContentLength, Lines])
MESSAGES: list[Any] = [{"id": 1}, {"text": "a\nb\r\nc é😀"}, {"text": "x" * 200_000}, [], 5]


def read(folder: Path, framing: Framing, data: bytes, unread: bytes = b"") -> list[Frame]:
    (folder / "data").write_bytes(data)
    descriptor = os.open(folder / "data", os.O_RDONLY)
    frames = list(read_frames(descriptor, framing, unread=unread))
    os.close(descriptor)
    return frames


@both
def test_what_is_written_is_read(make: MakeFraming, tmp_path: Path) -> None:
    data = b"".join(make().frame(encode(message)) for message in MESSAGES)
    assert read(tmp_path, make(), data) == [Message(message) for message in MESSAGES]
    assert read(tmp_path, make(), data[7:], unread=data[:7]) == [Message(m) for m in MESSAGES]


@both
def test_the_writer_of_all_fronts_writes_it(make: MakeFraming, tmp_path: Path) -> None:
    with (tmp_path / "sent").open("wb") as file:
        outbox = Outbox(file.fileno(), make(), OUTGOING)
        outbox.response("a", b'{"text":"a\\nb"}')
        outbox.notify("x/y", b"{}")
        assert outbox.close(60)
    answer = {"jsonrpc": "2.0", "id": "a", "result": {"text": "a\nb"}}
    note: dict[str, Any] = {"jsonrpc": "2.0", "method": "x/y", "params": {}}
    data = (tmp_path / "sent").read_bytes()
    assert read(tmp_path, make(), data) == [Message(answer), Message(note)]


@both
def test_a_body_that_is_no_json_costs_one_answer(make: MakeFraming, tmp_path: Path) -> None:
    frame = make().frame
    first, second = read(tmp_path, make(), frame(b'{"id":') + frame(b'{"id":2}'))
    assert isinstance(first, Malformed)
    assert second == Message({"id": 2})


@both
def test_one_that_is_too_large_is_skipped_and_keeps_its_id(
    make: MakeFraming, tmp_path: Path
) -> None:
    body = b'{"id":"big","x":"%b"}' % (b"x" * MAX_MESSAGE_BYTES)
    frame = make().frame
    first, second = read(tmp_path, make(), frame(body) + frame(b"{}"))
    assert isinstance(first, TooLarge)
    assert (first.id, first.head[:11]) == ("big", b'{"id":"big"')
    assert len(body) <= first.size_bytes <= len(frame(body))
    assert second == Message({})


@both
def test_a_message_that_is_cut_off_at_the_end_is_none(make: MakeFraming, tmp_path: Path) -> None:
    frame = make().frame
    assert read(tmp_path, make(), frame(b"{}") + frame(b'{"id":7}')[:-1]) == [Message({})]


def test_empty_lines_and_line_ends_of_windows_are_no_messages(tmp_path: Path) -> None:
    assert read(tmp_path, Lines(), b'\r\n{"id":1}\r\n\n') == [Message({"id": 1})]
