"""Servers for tests of connections: TLS with an authority of its own, and proxies that record."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_authority(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1 and its key; return both paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "authority.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


class Listener:
    """Accepts connections on a free port and serves each on a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.n_accepted = 0
        self._handles: list[socket.socket] = []
        """A second handle of each connection, since TLS takes the first one away."""
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join()
        for handle in self._handles:
            handle.close()

    def hang_up(self) -> None:
        """Close all connections."""
        for handle in self._handles:
            with suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.n_accepted += 1
            handle = connection.dup()
            self._handles.append(handle)
            self._threads.append(
                threading.Thread(target=self._run, args=(connection, handle), daemon=True)
            )
            self._threads[-1].start()

    def _run(self, connection: socket.socket, handle: socket.socket) -> None:
        with connection, suppress(OSError):
            self._serve(connection)
        with suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)


def passing_to(port: int, certificate: tuple[Path, Path] | None = None) -> Listener:
    """Return a server that passes everything on to a port of this machine, taking off TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate is not None:
        context.load_cert_chain(*certificate)

    def serve(connection: socket.socket) -> None:
        if certificate is None:
            join(connection, port)
            return
        with context.wrap_socket(connection, server_side=True) as secure:
            join(secure, port)

    return Listener(serve)


class Proxy(Listener):
    """An HTTP proxy that records what it was asked for."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        super().__init__(self._pass_on)

    def _pass_on(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := connection.recv(65536)):
                return
            head += data
        self.heads.append(head.partition(b"\r\n\r\n")[0].decode())
        method, target, _ = head.split(b" ", 2)
        if method == b"CONNECT":
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            join(connection, int(target.rpartition(b":")[2]))
            return
        port = int(target.split(b"/")[2].rpartition(b":")[2])
        join(connection, port, head.replace(b"http://127.0.0.1:%d" % port, b"", 1))


def join(connection: socket.socket, port: int, first: bytes = b"") -> None:
    """Pass bytes between a connection and a port of this machine until both have ended."""
    with socket.create_connection(("127.0.0.1", port)) as actual_connection:
        actual_connection.sendall(first)
        back = threading.Thread(target=_copy, args=(actual_connection, connection), daemon=True)
        back.start()
        _copy(connection, actual_connection)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
