"""The HTTP proxy through which programs in a sandbox reach hosts, and relayed connections.

It looks names up itself and connects to the very address that was decided about, so that no second
look-up can say otherwise. It serves CONNECT, and requests for `http` URLs, one per connection. It
reads a request strictly and writes it from its parts, so that a server behind it reads the same.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from oh_daemon.common.hosts import Host, Reach, parse_host, reach_of

_PATIENCE_S = 30.0
_BAD, _FORBIDDEN, _GATEWAY = 400, 403, 502
_REQUEST_LINE = re.compile(rb"([A-Z][A-Z-]*) ([!-~]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
"""See RFC 9112, section 5: neither a folded line nor a blank before the colon."""
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t -~\x80-\xff]*)?\r\n")
_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "upgrade"})
"""Headers for one hop only."""
_OWN = frozenset({"host", "content-length", "transfer-encoding"})
"""Headers that we write ourselves."""

Decide = Callable[[Host, Reach], Awaitable[str | None]]
"""Returns None if programs may connect to the host, or why not."""


class _Refusal(Exception):  # noqa: N818 - it is an answer.
    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why


class _Request(Struct, frozen=True):
    host: Host
    scheme: str
    method: str = ""
    place: str = ""
    """The host as an URL names it: `one.test:8080`."""
    path: str = ""
    version: str = ""
    headers: bytes = b""
    """All of them, with the empty line at their end."""
    body_bytes: int | None = 0
    """The length of the body; None: it is chunked."""

    def head(self, *, for_proxy: bool = False, more: bytes = b"") -> bytes:
        target = f"http://{self.place}{self.path}" if for_proxy else self.path
        line = f"{self.method} {target} HTTP/1.{self.version}\r\nHost: {self.place}\r\n"
        return line.encode() + more + self.headers


class NetworkProxy:
    """Serves one sandbox."""

    def __init__(self, decide: Decide, variables: Callable[[], Mapping[str, str]]) -> None:
        """`variables` returns the environment, which may name a proxy of the user's."""
        self._decide = decide
        self._variables = variables

    async def serve(self, streams: Streams) -> None:
        """Serve one connection of a program."""
        try:
            request = await _request_of(streams[0])
            upstream_streams = await self._open_upstream(request)
        except _Refusal as refusal:
            streams[1].write(_answer(refusal))
            return
        if request.scheme == "https":
            streams[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await relay(streams, upstream_streams)
            return
        await relay(streams, upstream_streams, partial(_pass_body, request.body_bytes))

    async def _open_upstream(self, request: _Request) -> Streams:
        """Return a connection to what a program asked for, with its request sent."""
        host, upstream = request.host, self._upstream(request)
        addresses = await _addresses_of(host, upstream)
        is_ours = any(is_own(each, host.port) for each in addresses)
        if why := await self._decide(host, "local" if is_ours else reach_of(addresses)):
            raise _Refusal(_FORBIDDEN, f"no connection to {host}: {why}")
        try:
            if upstream is not None:
                return await _through(upstream, request)
            return await _direct(addresses, request)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as exc:
            why = str(exc) or "it takes too long"
            raise _Refusal(_GATEWAY, f"{host} cannot be reached: {why}") from exc

    def _upstream(self, request: _Request) -> Upstream | None:
        try:
            return upstream_for(request.host, request.scheme, self._variables())
        except ValueError as exc:
            raise _Refusal(_GATEWAY, str(exc)) from exc


async def _request_of(reader: asyncio.StreamReader) -> _Request:
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE_S)
        return _parse(head)
    except (ValueError, asyncio.LimitOverrunError) as exc:
        raise _Refusal(_BAD, f"no request for a proxy: {exc}") from exc


def _parse(head: bytes) -> _Request:
    """Read a request. Raises `ValueError`."""
    line, *header_lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    request_line = _REQUEST_LINE.fullmatch(line)
    if request_line is None:
        raise ValueError("its first line is not METHOD TARGET HTTP/1.x")
    method, target, version = (each.decode() for each in request_line.groups())
    headers = [_parse_header(each) for each in header_lines]
    if method == "CONNECT":
        return _Request(parse_host(target), "https")
    url = urlsplit(target)
    if url.scheme != "http" or not url.hostname:
        raise ValueError("only http URLs and CONNECT are served")
    host = _parse_authority(url.netloc.rpartition("@")[2])
    _require_same_host(host, _values(headers, "host"))
    body_bytes = _body_bytes(headers, version)
    return _Request(
        host=host,
        scheme="http",
        method=method,
        place=_authority(host),
        path=(url.path or "/") + (f"?{url.query}" if url.query else ""),
        version=version,
        headers=_render_headers(headers, body_bytes),
        body_bytes=body_bytes,
    )


_Headers = Sequence[tuple[str, str]]
"""Name and value of each; Latin-1 keeps every byte of a value."""


def _parse_header(line: bytes) -> tuple[str, str]:
    match = _HEADER.fullmatch(line)
    if match is None:
        raise ValueError(f"{line[:80]!r} is not a header")
    return match[1].decode(), match[2].decode("latin-1").strip(" \t")


def _values(headers: _Headers, wanted_name: str) -> list[str]:
    return [value for name, value in headers if name.lower() == wanted_name]


def _parse_authority(authority: str) -> Host:
    has_port = re.search(r":[0-9]+$", authority) and not authority.endswith("]")
    return parse_host(authority if has_port else f"{authority.removesuffix(':')}:80")


def _authority(host: Host) -> str:
    return host.url_name if host.port == _HTTP_PORT else f"{host.url_name}:{host.port}"


def _require_same_host(host: Host, values: Sequence[str]) -> None:
    if len(values) > 1 or any(_parse_authority(value) != host for value in values):
        raise ValueError(f"its Host is not {host}")


def _body_bytes(headers: _Headers, version: str) -> int | None:
    """Return the length of the body, None for a chunked one. Raises `ValueError`.

    Readers differ about a request with two answers to that (RFC 9112, section 6.3).
    """
    lengths, codings = _values(headers, "content-length"), _values(headers, "transfer-encoding")
    if not codings and not lengths:
        return 0
    if len(lengths) + len(codings) > 1:
        raise ValueError("it names the length of its body twice")
    if not codings:
        if re.fullmatch("[0-9]{1,15}", lengths[0]) is None:
            raise ValueError("its Content-Length is not a number")
        return int(lengths[0])
    if codings[0].lower() != "chunked" or version == "0":
        raise ValueError("only HTTP/1.1 may have a Transfer-Encoding, which must be chunked")
    return None


def _render_headers(headers: _Headers, body_bytes: int | None) -> bytes:
    connection = ",".join(_values(headers, "connection")).lower()
    dropped_names = _HOP | _OWN | {each.strip(" \t") for each in connection.split(",")}
    end_to_end = [
        f"{name}: {value}\r\n"
        for name, value in headers
        if name.lower() not in dropped_names and not name.lower().startswith("proxy-")
    ]
    framing = ""
    if body_bytes is None:
        framing = "Transfer-Encoding: chunked\r\n"
    elif body_bytes or _values(headers, "content-length"):
        framing = f"Content-Length: {body_bytes}\r\n"
    return f"Connection: close\r\n{framing}{''.join(end_to_end)}\r\n".encode("latin-1")


async def _addresses_of(host: Host, upstream: Upstream | None) -> list[str]:
    """Look the name up; with a further proxy, which looks it up too, there may be none."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            addresses = await loop.getaddrinfo(host.name, host.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as exc:
        if upstream is not None:
            return []
        raise _Refusal(_GATEWAY, f"there is no host {host.name}") from exc
    return list(dict.fromkeys(str(address[0]) for *_, address in addresses))


def is_own(address: str, port: int) -> bool:
    """Return whether this machine has the address: packets to it would come from there, too."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one, suppress(OSError):
        one.connect((address, port))  # Of UDP: nothing is sent.
        return bool(one.getsockname()[0] == address)
    return False


async def _direct(addresses: Sequence[str], request: _Request) -> Streams:
    failure = OSError(errno.EHOSTUNREACH, "it has no address")
    for address in addresses:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                streams = await asyncio.open_connection(address, request.host.port)
        except (OSError, TimeoutError) as exc:
            failure = OSError(errno.EHOSTUNREACH, str(exc) or "it takes too long")
            continue
        if request.scheme == "http":
            streams[1].write(request.head())
        return streams
    raise failure


async def _through(upstream: Upstream, request: _Request) -> Streams:
    """Return a connection through the user's own proxy."""
    tls = True if upstream.is_encrypted else None
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_connection(upstream.host, upstream.port, ssl=tls)
        if request.scheme == "http":
            writer.write(request.head(for_proxy=True, more=upstream.headers))
            return reader, writer
        place = f"{request.host.url_name}:{request.host.port}"
        head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n".encode()
        writer.write(head + upstream.headers + b"\r\n")
        answer = await reader.readuntil(b"\r\n\r\n")
    line = answer.split(b"\r\n", 1)[0].decode("ascii", "replace")
    if line.split(" ")[1:2] != ["200"]:
        writer.close()
        raise OSError(errno.ECONNREFUSED, f"the user's proxy answers {line!r}")
    return reader, writer


def _answer(refusal: _Refusal) -> bytes:
    """Say why also in the first line: many programs print no more of an answer to CONNECT."""
    why = refusal.why.encode("ascii", "replace").replace(b"\r", b" ").replace(b"\n", b" ")
    head = b"HTTP/1.1 %d oh-daemon: %b\r\n" % (refusal.status, why)
    body = b"oh-daemon: " + why + b"\n"
    more = b"Content-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head + more % len(body) + body


_HTTP_PORT = 80
_PORTS = {"http": 3128, "https": 443}


class Upstream(Struct, frozen=True):
    """A proxy of the user."""

    host: str
    port: int
    is_encrypted: bool
    headers: bytes
    """What identifies the user to it."""


def upstream_for(host: Host, scheme: str, environment: Mapping[str, str]) -> Upstream | None:
    """Return the proxy for a host. Raises `ValueError` if it is one that we cannot speak with."""
    names = (f"{scheme}_proxy", "all_proxy")
    values = (environment.get(each) for name in names for each in (name, name.upper()))
    value = next(filter(None, values), "")
    if not value or _is_excepted(host, environment):
        return None
    url = urlsplit(value if "://" in value else f"http://{value}")
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError(f"the user's proxy is of a kind that cannot be used: {url.scheme}")
    port = url.port or _PORTS[url.scheme]
    return Upstream(url.hostname, port, url.scheme == "https", _identity(url))


def _is_excepted(host: Host, environment: Mapping[str, str]) -> bool:
    """Return whether `no_proxy` names the host, a domain that it is in, or all hosts."""
    exceptions = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    for entry in filter(None, (each.strip().lower() for each in exceptions.split(","))):
        name = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or f".{host.name}".endswith(f".{name}") or entry == str(host):
            return True
    return False


def _identity(url: SplitResult) -> bytes:
    if url.username is None:
        return b""
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
    return b"Proxy-Authorization: Basic " + b64encode(pair) + b"\r\n"


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MAX_CONNECTIONS = 128
MAX_HEAD_BYTES = 1 << 16
IDLE_S = 900.0
_PIECE_BYTES = 1 << 16


class ListenerConnections:
    """The connections to one listening socket. Used on the loop only."""

    def __init__(self, serve: Callable[[Streams], Awaitable[None]]) -> None:
        """Each connection is given to `serve`, and closed after it."""
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Begin to accept; takes over the socket."""
        self._server = await asyncio.start_server(
            self._on_connection, sock=listener, limit=MAX_HEAD_BYTES
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._tasks) < MAX_CONNECTIONS:
            task = asyncio.ensure_future(self._serve_one((reader, writer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            # What cancels the task must not appear as an error of this one.
            await asyncio.wait([task])
        writer.close()

    async def _serve_one(self, streams: Streams) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            await self._serve(streams)


_Pass = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Callable[[], None]], Awaitable[None]]
"""Passes everything on, and calls a function for each piece."""


async def relay(one: Streams, other_side: Streams, send: _Pass | None = None) -> None:
    """Return when both sides have said all, or nothing for `IDLE_S`; closes the other.

    `send` passes on what the one side says; by default, every byte.
    """
    now = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(IDLE_S) as idle:

            def on_data() -> None:
                idle.reschedule(now() + IDLE_S)

            forward = (send or _pass)(one[0], other_side[1], on_data)
            await asyncio.gather(forward, _pass(other_side[0], one[1], on_data))
    finally:
        other_side[1].close()


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_data: Callable[[], None]
) -> None:
    while data := await reader.read(_PIECE_BYTES):
        on_data()
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _pass_body(
    body_bytes: int | None,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    on_data: Callable[[], None],
) -> None:
    """Pass on the body of one request; a program's further bytes would be another request."""
    if body_bytes is None:
        await _pass_chunks(reader, writer, on_data)
    else:
        await _pass_bytes(body_bytes, reader, writer, on_data)
    while await reader.read(_PIECE_BYTES):
        on_data()
    if writer.can_write_eof():
        writer.write_eof()


async def _pass_chunks(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_data: Callable[[], None]
) -> None:
    """Pass on a chunked body without extensions and trailers. Raises `ConnectionError`."""
    while True:
        match = _CHUNK_SIZE.fullmatch(await _read_line(reader))
        if match is None:
            raise ConnectionError("a chunk has no valid size")
        size = int(match[1], 16)
        if not size:
            break
        writer.write(b"%x\r\n" % size)
        await _pass_bytes(size, reader, writer, on_data)
        if await reader.readexactly(2) != b"\r\n":
            raise ConnectionError("a chunk is longer than it says")
        writer.write(b"\r\n")
    while (line := await _read_line(reader)) != b"\r\n":
        if _HEADER.fullmatch(line.removesuffix(b"\r\n")) is None:
            raise ConnectionError("a trailer is not a header")
    writer.write(b"0\r\n\r\n")


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError as exc:
        raise ConnectionError("a line of the body is too long") from exc


async def _pass_bytes(
    n_bytes: int,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    on_data: Callable[[], None],
) -> None:
    while n_bytes:
        data = await reader.read(min(n_bytes, _PIECE_BYTES))
        if not data:
            raise ConnectionError("the body ends too early")
        n_bytes -= len(data)
        on_data()
        writer.write(data)
        await writer.drain()
