"""Connections every wait for which a cancel ends, from the name of a host to TLS.

The thread that makes a call waits for its socket with the time that is left; a cancel shuts down
the sockets that somebody waits for, and nothing else touches them.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from http.client import IncompleteRead
from typing import Any, Self

from oh_daemon.common.cancel import CancelToken

_STAGGER_S = 0.25
"""After this time the next address is tried too (RFC 8305, section 5)."""


class CannotConnectError(ConnectionError):
    """No connection came about; nothing was sent."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"Cannot connect to host {host}:{port} ({reason})")


class Waiter:
    """What ends the waits of one attempt of one call. Use it in a `with`, on one thread."""

    def __init__(self, cancel: CancelToken, left_s: Callable[[], float]) -> None:
        """`left_s` returns the seconds to the next deadline, or raises if it is past."""
        self.cancel = cancel
        self._left_s = left_s
        self._lock = threading.Lock()
        self._sockets: Sequence[socket.socket] = ()

    def __enter__(self) -> Self:
        self._forget = self.cancel.on_cancel(self._shut_down)
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    def check(self) -> float:
        """Return the seconds that are left. Raises `Cancelled`, or what the deadline says."""
        self.cancel.raise_if_cancelled()
        return self._left_s()

    @contextmanager
    def wait_for(self, *sockets: socket.socket) -> Generator[float]:
        """Let a cancel end a wait for these sockets, which may take the yielded seconds."""
        with self._lock:
            self._sockets = sockets
        try:
            yield self.check()
        except OSError:
            self.check()
            raise
        finally:
            with self._lock:
                self._sockets = ()
        self.cancel.raise_if_cancelled()

    def _shut_down(self) -> None:
        with self._lock:
            for one in self._sockets:
                with suppress(OSError):
                    # That of a socket with TLS would take the TLS away from whoever reads.
                    socket.socket.shutdown(one, socket.SHUT_RDWR)


Permit = Callable[[Sequence[str]], None]
"""Gets all addresses of a host before one is connected to, and raises if that may not be."""


def connect(host: str, port: int, waiter: Waiter, permit: Permit | None = None) -> socket.socket:
    """Return a connection to the first address that answers. Raises `CannotConnectError`."""
    try:
        addresses = addresses_of(host, port, waiter)
        if permit is not None:
            permit([str(address[0]) for *_, address in addresses])
        return _first_of(addresses, waiter)
    except (OSError, UnicodeError) as exc:
        raise CannotConnectError(host, port, reason_of(exc)) from None


def addresses_of(host: str, port: int, waiter: Waiter) -> list[tuple[Any, ...]]:
    """Return the host's addresses. Nothing can interrupt the system's resolver itself."""
    numeric = socket.AI_NUMERICHOST
    with suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    end, outcome = threading.Event(), list[list[tuple[Any, ...]] | Exception]()

    def look_up() -> None:
        try:
            outcome.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as exc:
            outcome.append(exc)
        end.set()

    threading.Thread(target=look_up, name="resolver", daemon=True).start()
    forget = waiter.cancel.on_cancel(end.set)
    try:
        end.wait(waiter.check())
    finally:
        forget()
    waiter.check()
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _first_of(addresses: list[tuple[Any, ...]], waiter: Waiter) -> socket.socket:
    remaining, trying = list(addresses), dict[int, socket.socket]()
    code = errno.EADDRNOTAVAIL
    try:
        while remaining or trying:
            if remaining:
                family, kind, protocol, _, address = remaining.pop(0)
                one = socket.socket(family, kind, protocol)
                trying[one.fileno()] = one
                one.setblocking(False)
                code = one.connect_ex(address)
                if code not in (0, errno.EINPROGRESS):
                    trying.popitem()[1].close()
                    continue
            for ready in _connect_address(trying, waiter, _STAGGER_S if remaining else None):
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


def _connect_address(
    trying: Mapping[int, socket.socket], waiter: Waiter, at_most_s: float | None
) -> list[int]:
    """Return the descriptors of the sockets that connected or failed; none after `at_most_s`."""
    poll = select.poll()
    for one in trying:
        poll.register(one, select.POLLOUT)
    with waiter.wait_for(*trying.values()) as left_s:
        ready = poll.poll(1000 * (left_s if at_most_s is None else min(left_s, at_most_s)))
    return [descriptor for descriptor, _ in ready]


def encrypt(sock: socket.socket, host: str, port: int, waiter: Waiter) -> ssl.SSLSocket:
    """Return the connection with TLS. Raises `CannotConnectError`; the socket is closed then."""
    secure = tls_context().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        with waiter.wait_for(secure) as left_s:
            secure.settimeout(left_s)
            secure.do_handshake()
    except ssl.SSLCertVerificationError as exc:
        secure.close()
        reason = f"certificate verify failed: {exc.verify_message}"
        raise CannotConnectError(host, port, reason) from None
    except OSError as exc:
        secure.close()
        raise CannotConnectError(host, port, f"no TLS: {reason_of(exc)}") from None
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


def reason_of(exc: Exception) -> str:
    """Return what an error of a connection says, without names and numbers of libraries."""
    if isinstance(exc, ssl.SSLError) and exc.reason:
        return exc.reason.replace("_", " ").lower()
    if isinstance(exc, IncompleteRead):
        return "the answer broke off"
    return (isinstance(exc, OSError) and exc.strerror) or str(exc) or type(exc).__name__
