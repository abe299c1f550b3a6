"""Connections whose every wait, from the name of a host to the last byte, a cancel ends.

Sockets are non-blocking. The thread that makes a call waits for its socket and for the alarm that a
cancel rings, so nothing else closes a socket that somebody reads.
"""

from __future__ import annotations

import errno
import io
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from http.client import IncompleteRead
from typing import Any, Self, TypeVar

from oh_daemon.core.cancel import CancelToken

T = TypeVar("T")
_STAGGER_S = 0.25
"""After this time the next address is tried too (RFC 8305, section 5)."""
_SEND_BYTES = 1 << 16


class CannotConnectError(ConnectionError):
    """No connection came about; nothing was sent."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"Cannot connect to host {host}:{port} ({reason})")


_SPARE: list[tuple[socket.socket, socket.socket]] = []
"""Kept from earlier calls, so that one more call is possible when no descriptors are left."""
_MAX_SPARE = 4
os.register_at_fork(after_in_child=_SPARE.clear)


class Waiter:
    """Waits on the caller's thread. Use it in a `with`, for one attempt of one call."""

    def __init__(self, cancel: CancelToken, left_s: Callable[[], float]) -> None:
        """`left_s` returns the seconds to the next deadline, or raises if it is past."""
        self._cancel = cancel
        self._left_s = left_s
        self._lock = threading.Lock()
        self._is_over = False
        self._has_rung = False
        try:
            self._bell, self._button = _SPARE.pop()
        except IndexError:
            self._bell, self._button = socket.socketpair()
        self._forget = cancel.on_cancel(self._ring)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        # A cancel may have taken the callback just before, and calls it now.
        with self._lock:
            self._is_over = True
        if len(_SPARE) < _MAX_SPARE and not self._has_rung:
            _SPARE.append((self._bell, self._button))
            return
        self._button.close()
        self._bell.close()

    def check(self) -> float:
        """Return the seconds that are left. Raises `Cancelled`, or what the deadline says."""
        self._cancel.raise_if_cancelled()
        return self._left_s()

    def wait(
        self, waiting: Collection[socket.socket], events: int, at_most_s: float | None = None
    ) -> list[int]:
        """Return the descriptors of the sockets that are ready; empty after `at_most_s`."""
        left_s = self.check()
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        for one in waiting:
            poll.register(one, events)
        ready = poll.poll(1000 * (left_s if at_most_s is None else min(left_s, at_most_s)))
        self.check()
        return [descriptor for descriptor, _ in ready]

    def resolve(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """Return the host's addresses. Nothing can interrupt the system's resolver itself."""
        numeric = socket.AI_NUMERICHOST
        with suppress(socket.gaierror):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
        done, found = threading.Event(), list[list[tuple[Any, ...]] | Exception]()

        def look_up() -> None:
            try:
                found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError) as exc:
                found.append(exc)
            done.set()

        threading.Thread(target=look_up, name="resolver", daemon=True).start()
        forget = self._cancel.on_cancel(done.set)
        try:
            done.wait(self.check())
        finally:
            forget()
        self.check()
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    def _ring(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._has_rung = True
            with suppress(OSError):
                self._button.send(b"\0")


def connect(host: str, port: int, waiter: Waiter) -> socket.socket:
    """Return a connection to the first address that answers. Raises `CannotConnectError`."""
    try:
        addresses = waiter.resolve(host, port)
        return _first_of(addresses, waiter)
    except (OSError, UnicodeError) as exc:
        raise CannotConnectError(host, port, said_of(exc)) from None


def _first_of(addresses: list[tuple[Any, ...]], waiter: Waiter) -> socket.socket:
    left, trying = list(addresses), dict[int, socket.socket]()
    code = errno.EADDRNOTAVAIL
    try:
        while left or trying:
            if left:
                family, kind, protocol, _, address = left.pop(0)
                one = socket.socket(family, kind, protocol)
                trying[one.fileno()] = one
                one.setblocking(False)
                code = one.connect_ex(address)
                if code not in (0, errno.EINPROGRESS):
                    trying.popitem()[1].close()
                    continue
            for ready in waiter.wait(trying.values(), select.POLLOUT, _STAGGER_S if left else None):
                one = trying.pop(ready)
                code = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    return one
                one.close()
    finally:
        for one in trying.values():
            one.close()
    raise OSError(code, os.strerror(code))


def encrypt(sock: socket.socket, host: str, port: int, waiter: Waiter) -> ssl.SSLSocket:
    """Return the connection with TLS. Raises `CannotConnectError`; the socket is closed then."""
    secure = tls_context().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        _retried(secure.do_handshake, secure, waiter, select.POLLIN)
    except ssl.SSLCertVerificationError as exc:
        secure.close()
        reason = f"certificate verify failed: {exc.verify_message}"
        raise CannotConnectError(host, port, reason) from None
    except OSError as exc:
        secure.close()
        raise CannotConnectError(host, port, f"no TLS: {said_of(exc)}") from None
    except BaseException:
        secure.close()
        raise
    return secure


def tls_context() -> ssl.SSLContext:
    """Return the context with the system's certificates, or those in SSL_CERT_FILE."""
    return _context_for(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _context_for(*_variables: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not any(os.access(path, os.R_OK) for path in ssl.get_default_verify_paths()[:2] if path):
        import certifi  # noqa: PLC0415 - needed only where the system has no certificates.

        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


class Wire(io.RawIOBase):
    """A connection during one call, as `http.client` wants a socket; it does not own it."""

    def __init__(self, sock: socket.socket, waiter: Waiter) -> None:
        super().__init__()
        self._sock = sock
        self._waiter = waiter

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            part = view[:_SEND_BYTES]
            n_sent = _retried(
                lambda part=part: self._sock.send(part), self._sock, self._waiter, select.POLLOUT
            )
            view = view[n_sent:]

    def makefile(self, mode: str) -> io.BufferedReader:
        del mode  # `http.client` only reads.
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._waiter.check()
        return _retried(
            lambda: self._sock.recv_into(buffer), self._sock, self._waiter, select.POLLIN
        )

    def close(self) -> None:
        """Leave the connection open: a response that is over closes what it read from."""


def _retried(act: Callable[[], T], sock: socket.socket, waiter: Waiter, events: int) -> T:
    while True:
        try:
            return act()
        except ssl.SSLWantReadError:
            waiter.wait([sock], select.POLLIN)
        except ssl.SSLWantWriteError:
            waiter.wait([sock], select.POLLOUT)
        except BlockingIOError:
            waiter.wait([sock], events)


def said_of(exc: Exception) -> str:
    """Return what an error of a connection says, without names and numbers of libraries."""
    if isinstance(exc, ssl.SSLError) and exc.reason:
        return exc.reason.replace("_", " ").lower()
    if isinstance(exc, IncompleteRead):
        return "the answer broke off"
    return (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__
