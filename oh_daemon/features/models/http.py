"""HTTP requests on the caller's own thread, over connections that are used again.

No redirect is followed, so a key goes nowhere but to the address that it is for.
"""

from __future__ import annotations

import atexit
import io
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse, IncompleteRead, InvalidURL
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from oh_daemon.features.models.sockets import (
    CannotConnectError,
    Permit,
    Waiter,
    addresses_of,
    connect,
    encrypt,
)
from oh_daemon.system import reaper

_IDLE_S = 90.0
"""Connections that rested longer are closed: providers and routers forget them soon after."""
_MAX_IDLE = 16
_PORTS = {"http": 80, "https": 443}
_PIECE_BYTES = 1 << 16


class _Route(Struct, frozen=True):
    """Where a connection leads; equal routes can share it."""

    scheme: str
    host: str
    port: int
    proxy: str | None

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy reads the request and sends it on."""
        return self.proxy is not None and self.scheme == "http"


class _Sent(Struct, frozen=True):
    method: str
    target: str
    fields: Mapping[str, str]
    body: bytes | None


class Pool:
    """The idle connections of a process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[_Route, socket.socket, float]] = []

    def take(self, route: _Route) -> socket.socket | None:
        """Return the connection that rested shortest, if one is still open."""
        with self._lock:
            fitting = [entry for entry in self._idle if entry[0] == route]
            self._idle = [entry for entry in self._idle if entry[0] != route]
        now, usable = time.monotonic(), list[tuple[_Route, socket.socket, float]]()
        for entry in fitting:
            if now - entry[2] < _IDLE_S and not _is_readable(entry[1]):
                usable.append(entry)
            else:
                entry[1].close()
        connection = usable.pop()[1] if usable else None
        with self._lock:
            self._idle += usable
        return connection

    def give(self, route: _Route, sock: socket.socket) -> None:
        with self._lock:
            self._idle.append((route, sock, time.monotonic()))
            spare = self._idle.pop(0)[1] if len(self._idle) > _MAX_IDLE else None
        if spare is not None:
            spare.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, sock, _ in idle:
            sock.close()


@cache
def _pool() -> Pool:
    pool = Pool()
    # A program that runs with Python's warnings on is told of what is still open at its end.
    atexit.register(pool.close)
    return pool


class Response:
    """One response. Whoever has it closes it; read to its end, its connection is used again."""

    def __init__(self, route: _Route, sock: socket.socket, response: HTTPResponse) -> None:
        self._route = route
        self._sock = sock
        self._response = response
        self.status = response.status
        self.reason = response.reason
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.getheaders()}

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it comes. Raises `OSError` or `HTTPException` when it breaks off."""
        while piece := self._response.read1(_PIECE_BYTES):
            yield piece
        if self._response.length:
            raise IncompleteRead(b"", self._response.length)

    def close(self) -> None:
        is_over = self._response.isclosed() or self._response.length == 0
        if is_over and not self._response.will_close:
            _pool().give(self._route, self._sock)
        else:
            self._response.close()
            self._sock.close()


def request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    waiter: Waiter,
    permit: Permit | None = None,
) -> Response:
    """Send a request and return the response when its headers are there.

    Raises `OSError`, `HTTPException` or what `permit` raises. A connection that rested and turns
    out to be closed is replaced, since nobody has read the request then.
    """
    parts, route = _parse_url(url)
    target = url if route.is_forwarded else _path_of(parts)
    host = parts.netloc.rpartition("@")[2]
    fields = {"host": host, "accept-encoding": "identity", **headers}
    if route.is_forwarded:
        fields |= _login(urlsplit(route.proxy or ""))
    message = _Sent(method, target, fields, body)
    # To a connection that rests, nobody has said where it leads.
    if permit is None and (connection := _pool().take(route)) is not None:
        with suppress(ConnectionError, ssl.SSLEOFError):
            return _exchange(route, connection, message, waiter)
    return _exchange(route, _open(route, waiter, permit), message, waiter)


def bearer_headers(key: str | None) -> dict[str, str]:
    """Return the header that sends a key or token (RFC 6750, section 2.1)."""
    return {"authorization": f"Bearer {key}"} if key else {}


def proxy_of(url: str) -> str | None:
    """Return the proxy of the environment for this address, as litellm would take it."""
    proxies = getproxies()
    proxy = proxies.get(url.partition(":")[0]) or proxies.get("all")
    try:
        is_excepted = proxy_bypass(urlsplit(url).hostname or "")
    except ValueError:
        return None  # No address at all, which whoever connects says.
    if not proxy or is_excepted:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _parse_url(url: str) -> tuple[SplitResult, _Route]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        url.encode("ascii")
    except ValueError:
        message = f"{url} is no address of the internet"
        raise InvalidURL(message) from None
    return parts, _Route(parts.scheme, parts.hostname or "", port, proxy_of(url))


def _path_of(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _exchange(route: _Route, sock: socket.socket, request: _Sent, waiter: Waiter) -> Response:
    try:
        return Response(route, sock, _ask(_Wire(sock, waiter), request))
    except BaseException:
        sock.close()
        raise


def _ask(wire: _Wire, request: _Sent) -> HTTPResponse:
    connection = HTTPConnection("unused")
    connection.auto_open = 0
    on_wire: Any = wire
    connection.sock = on_wire
    # A server that refuses a long request may close before it has read all of it.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.request(request.method, request.target, request.body, dict(request.fields))
    return connection.getresponse()


class _Wire(io.RawIOBase):
    """A connection during one call, as `http.client` wants a socket; it does not own it."""

    def __init__(self, sock: socket.socket, waiter: Waiter) -> None:
        super().__init__()
        self._sock = sock
        self._waiter = waiter

    def sendall(self, data: bytes) -> None:
        with self._waiter.wait_for(self._sock) as left_s:
            self._sock.settimeout(left_s)
            self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        del mode  # `http.client` only reads.
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._waiter.wait_for(self._sock) as left_s:
            self._sock.settimeout(left_s)
            return self._sock.recv_into(buffer)

    def close(self) -> None:
        """Leave the connection open: a response that is over closes what it read from."""


def _open(route: _Route, waiter: Waiter, permit: Permit | None) -> socket.socket:
    if route.proxy is None:
        sock = connect(route.host, route.port, waiter, permit)
    else:
        if permit is not None:
            _permit_through_proxy(route, waiter, permit)
        proxy = urlsplit(route.proxy)
        sock = connect(proxy.hostname or "", proxy.port or _PORTS["http"], waiter)
        try:
            if route.scheme == "https":
                _open_tunnel(sock, route, proxy, waiter)
        except BaseException:
            sock.close()
            raise
    return encrypt(sock, route.host, route.port, waiter) if route.scheme == "https" else sock


def _permit_through_proxy(route: _Route, waiter: Waiter, permit: Permit) -> None:
    """Ask with what the name means here; what only the proxy can look up is left to it."""
    try:
        addresses = addresses_of(route.host, route.port, waiter)
    except (OSError, UnicodeError):
        waiter.check()
        return
    permit([str(address[0]) for *_, address in addresses])


def _open_tunnel(sock: socket.socket, route: _Route, proxy: SplitResult, waiter: Waiter) -> None:
    """Ask the proxy to pass everything on (RFC 9110, section 9.3.6)."""
    host = f"[{route.host}]" if ":" in route.host else route.host
    target = f"{host}:{route.port}"
    message = _Sent("CONNECT", target, {"host": target, **_login(proxy)}, None)
    answer = _ask(_Wire(sock, waiter), message)
    if answer.status != HTTPStatus.OK:
        reason = f"{answer.status} {answer.reason}"
        raise CannotConnectError(proxy.hostname or "", proxy.port or _PORTS["http"], reason)


def _login(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {b64encode(login.encode()).decode()}"}


def _is_readable(sock: socket.socket) -> bool:
    """Return whether an idle connection has data: its end, or what nobody asked for."""
    return bool(reaper.wait_readable(sock.fileno(), wait_s=0))
