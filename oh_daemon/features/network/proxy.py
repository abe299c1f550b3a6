"""The HTTP proxy through which programs in a sandbox reach hosts, and relayed connections.

It looks names up itself and connects to the very address that was decided about, so that no second
look-up can say otherwise. It serves CONNECT, and requests for `http` URLs, one per connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from oh_daemon.common.hosts import Host, Reach, parse_host, reach_of

_PATIENCE_S = 30.0
_BAD, _FORBIDDEN, _GATEWAY = 400, 403, 502
_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"})
"""Headers that are for one hop only, or that we write ourselves."""

Decide = Callable[[Host, Reach], Awaitable[str | None]]
"""Returns None if programs may connect to the host, or why not."""


class _Refusal(Exception):  # noqa: N818 - it is an answer.
    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class _Request:
    host: Host
    scheme: str
    line: str = ""
    line_for_proxy: str = ""
    headers: bytes = b""


class NetworkProxy:
    """Serves one sandbox."""

    def __init__(self, decide: Decide, environment: Mapping[str, str]) -> None:
        self._decide = decide
        self._environment = environment

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
            return upstream_for(request.host, request.scheme, self._environment)
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
    line, _, rest = head.partition(b"\r\n")
    method, target, version = line.decode("ascii").split(" ")
    if method == "CONNECT":
        return _Request(parse_host(target), "https")
    url = urlsplit(target)
    if url.scheme != "http" or not url.hostname:
        raise ValueError("only http URLs and CONNECT are served")
    name = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    host = parse_host(f"{name}:{url.port or 80}")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    header = b"\r\n".join(each for each in rest.split(b"\r\n") if not _is_for_one_hop(each))
    headers = f"Host: {url.netloc.rpartition('@')[2]}\r\nConnection: close\r\n".encode() + header
    return _Request(
        host, "http", f"{method} {path} {version}", f"{method} {target} {version}", headers
    )


def _is_for_one_hop(header: bytes) -> bool:
    name = header.partition(b":")[0].strip().lower()
    return name in _HOP or name.startswith(b"proxy-")


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
            streams[1].write(request.line.encode() + b"\r\n" + request.headers)
        return streams
    raise failure


async def _through(upstream: Upstream, request: _Request) -> Streams:
    """Return a connection through the user's own proxy."""
    tls = True if upstream.is_encrypted else None
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_connection(upstream.host, upstream.port, ssl=tls)
        if request.scheme == "http":
            line = request.line_for_proxy.encode()
            writer.write(line + b"\r\n" + upstream.headers + request.headers)
            return reader, writer
        place = f"{request.host.name}:{request.host.port}"
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


_PORTS = {"http": 3128, "https": 443}


@dataclass(frozen=True, slots=True)
class Upstream:
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


async def relay(one: Streams, other_side: Streams) -> None:
    """Return when both sides have said all, or nothing for `IDLE_S`; closes the other."""
    now = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(IDLE_S) as idle:

            def on_data() -> None:
                idle.reschedule(now() + IDLE_S)

            backward = _pass(one[0], other_side[1], on_data)
            await asyncio.gather(backward, _pass(other_side[0], one[1], on_data))
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
