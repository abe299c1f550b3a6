"""Messages in a byte stream: two ways to tell them apart, and their JSON.

Invariant: bytes that are not a message lead to an error answer or end the daemon; they are never
taken for a message. `dispatch` knows what messages mean; `outbox` writes them.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import orjson
from msgspec import Struct

from oh_daemon.common.plain_text import well_formed
from oh_daemon.jsonrpc.reading import object_in

MAX_MESSAGE_BYTES = 16 << 20
MAX_SKIPPED_BYTES = 1 << 30
MAX_HEADER_BYTES = 64 * 1024
_HEAD_BYTES = 4096
_CUT_OFF = "the input ended within it"
_BOM = b"\xef\xbb\xbf"
_HEADER = re.compile(rb"[A-Za-z][\w-]*\s*:")
_LENGTH = re.compile(rb"content-length\s*:\s*(\d+)\s*$", re.IGNORECASE)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ID_VALUE = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)\s*[,}]', re.DOTALL)

RequestId = str | int | float


class FramingLost(Exception):  # noqa: N818 - a fact about the stream; it ends the daemon (code 3).
    """It is no longer possible to tell where the next message starts."""


class Message(Struct, frozen=True):
    """A body that is JSON, of whatever shape."""

    value: Any


class Malformed(Struct, frozen=True):
    """A frame whose header or body cannot be read; answered with -32700."""

    reason: str


class TooLarge(Struct, frozen=True):
    """A body that was skipped. `head` is its beginning, `id` its id if that stands in `head`."""

    size_bytes: int
    id: RequestId | None
    head: bytes


Frame = Message | Malformed | TooLarge


def message_of(entry: object) -> dict[str, Any]:
    """Return the object in a frame, empty if there is none."""
    return object_in(entry.value) if isinstance(entry, Message) else {}


def unrecorded(*_traffic: object) -> None:
    """Keep nothing of what goes over the wire."""


class _Input(io.RawIOBase):
    """A descriptor, ahead of it what was read from it before."""

    def __init__(self, unread: bytes, descriptor: int) -> None:
        self._unread = unread
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - all that readers of ours pass.
        if not self._unread:
            return os.readv(self._descriptor, [buffer])
        n_bytes = min(len(buffer), len(self._unread))
        buffer[:n_bytes], self._unread = self._unread[:n_bytes], self._unread[n_bytes:]
        return n_bytes


OnBody = Callable[[bytes, str], object]
"""Gets each body as it came, and why it is unreadable, ahead of its frame."""


class Framing(Protocol):
    """How messages are told apart in a stream; one object reads one stream, from one thread."""

    def frames(self, stream: io.BufferedReader, on_body: OnBody) -> Iterator[Frame]:
        """Yield frames until the stream ends. Raises `FramingLost` if the next cannot be found."""
        ...

    def frame(self, body: bytes) -> bytes: ...


def read_frames(
    descriptor: int, framing: Framing, on_body: OnBody = unrecorded, *, unread: bytes = b""
) -> Iterator[Frame]:
    """Return the frames of one stream. `unread` was read from the descriptor before."""
    stream: io.BufferedReader = io.BufferedReader(_Input(unread, descriptor), 64 * 1024)
    return framing.frames(stream, on_body)


class Lines:
    """Each line is a message, which has no line end in it: as in MCP and ACP over stdio."""

    def frames(self, stream: io.BufferedReader, on_body: OnBody) -> Iterator[Frame]:
        while line := stream.readline(MAX_MESSAGE_BYTES + 1):
            if not line.endswith(b"\n"):
                if len(line) <= MAX_MESSAGE_BYTES:
                    on_body(line, _CUT_OFF)
                    return
                yield self._skip_rest(stream, line, on_body)
            elif body := line.strip():
                yield _frame_of(body, on_body)

    def frame(self, body: bytes) -> bytes:
        return body + b"\n"

    def _skip_rest(self, stream: io.BufferedReader, line: bytes, on_body: OnBody) -> TooLarge:
        head, size_bytes = line[:_HEAD_BYTES], len(line)
        on_body(head, _too_long(f"over {MAX_MESSAGE_BYTES}"))
        while (rest := stream.readline(1 << 20)) and not rest.endswith(b"\n"):
            size_bytes += len(rest)
        return TooLarge(size_bytes + len(rest), _peek_id(head), head)


class ContentLength:
    """A header with the length is ahead of each message: as in LSP."""

    def __init__(self) -> None:
        self._header = b""
        self._in_sync = True

    def frames(self, stream: io.BufferedReader, on_body: OnBody) -> Iterator[Frame]:
        try:
            while (header := self._read_header(stream, on_body)) is not None:
                is_length = isinstance(header, int)
                frame = _read_body(stream, header, on_body) if is_length else header
                if frame is None:
                    return
                # A body that is not JSON often means a wrong length: search for the next header.
                self._in_sync = not isinstance(frame, Malformed)
                yield frame
        except FramingLost as error:
            on_body(self._header, str(error))
            raise

    def frame(self, body: bytes) -> bytes:
        return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def _read_header(self, stream: io.BufferedReader, on_body: OnBody) -> int | Malformed | None:
        """Return the length of the next body, or None at the end of the stream."""
        length: int | None = None
        self._header = b""
        has_header = False
        while line := stream.readline(MAX_HEADER_BYTES + 1 - len(self._header)):
            self._header += line
            if len(self._header) > MAX_HEADER_BYTES:
                raise FramingLost(f"no message header within {MAX_HEADER_BYTES} bytes")
            text = line.removeprefix(_BOM).strip()
            if not text and length is not None:
                return length
            if not text and has_header and self._in_sync:
                problem = "header without a valid Content-Length"
                on_body(self._header, problem)
                return Malformed(problem)
            if text:
                has_header = True
                length = self._parse_header_line(text, length)
        return None

    def _parse_header_line(self, text: bytes, length: int | None) -> int | None:
        """Return the content length known after this line."""
        is_header = _HEADER.match(text) is not None
        if self._in_sync and not is_header:
            raise FramingLost(f"expected a Content-Length header, got {text[:40]!r}")
        # Out of sync, the header may follow the rest of a body on the same line.
        match = _LENGTH.match(text) if self._in_sync else _LENGTH.search(text)
        if match is not None:
            digits = match[1].lstrip(b"0") or b"0"
            if len(digits) > 10 or int(digits) > MAX_SKIPPED_BYTES:  # noqa: PLR2004 - below 10^10
                raise FramingLost(f"a message of {digits[:20].decode()} bytes")
            return int(digits)
        return length if is_header else None


def _read_body(stream: io.BufferedReader, length: int, on_body: OnBody) -> Frame | None:
    if length > MAX_MESSAGE_BYTES:
        return _skip_body(stream, length, on_body)
    body = stream.read(length)
    if len(body) < length:
        on_body(body, _CUT_OFF)
        return None
    return _frame_of(body, on_body)


def _skip_body(stream: io.BufferedReader, length: int, on_body: OnBody) -> TooLarge | None:
    head = stream.read(_HEAD_BYTES)
    on_body(head, _too_long(str(length)))
    n_left = length - len(head)
    while n_left > 0:
        n_read = len(stream.read(min(n_left, 1024 * 1024)))
        if n_read == 0:
            return None
        n_left -= n_read
    return TooLarge(length, _peek_id(head), head)


def _frame_of(body: bytes, on_body: OnBody) -> Message | Malformed:
    frame = parse(body)
    on_body(body, frame.reason if isinstance(frame, Malformed) else "")
    return frame


def _too_long(size: str) -> str:
    return f"{size} bytes; a message may have {MAX_MESSAGE_BYTES}"


def parse(body: bytes) -> Message | Malformed:
    """Parse strict JSON, but turn lone surrogates, which JavaScript sends, into U+FFFD."""
    body = body.removeprefix(_BOM)
    try:
        return Message(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        clean_body = _ESCAPE.sub(_without_lone_surrogate, body)
        # The parser's message quotes nothing of the body.
        return Malformed(str(error)) if clean_body == body else parse(clean_body)


def _without_lone_surrogate(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape["lone"] else escape[0]


def _peek_id(head: bytes) -> RequestId | None:
    """Return the message's own id, if it stands in `head`; ids of nested objects do not count."""
    depth = 0
    for token in _TOKEN.finditer(head):
        if token[0] in b"[{":
            depth += 1
        elif token[0] in b"]}":
            depth -= 1
        elif depth == 1 and token[0] == b'"id"':
            value = _ID_VALUE.match(head, token.end())
            message = parse(value[1]) if value else None
            return cast("RequestId", message.value) if isinstance(message, Message) else None
    return None


def encode(value: Any) -> bytes:
    """Encode plain data and pydantic models as JSON; NaN becomes null.

    Fields of a model that are None are left out. Raises `TypeError` for anything else: nothing
    but this checks what handlers return, hence `Any`.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        # File names and program output may hold lone surrogates, which are not JSON.
        return orjson.dumps(_valid_text(value), default=lambda model: _valid_text(_plain(model)))


def _plain(value: object) -> object:
    # pydantic costs 160 ms to import; if `value` is a model, it is loaded already.
    from pydantic import BaseModel  # noqa: PLC0415

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _valid_text(value: Any) -> Any:
    match value:
        case str():
            return well_formed(value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {_valid_text(key): _valid_text(item) for key, item in items}
        case list() | tuple():
            return [_valid_text(item) for item in cast("list[Any]", value)]
        case _:
            return value
