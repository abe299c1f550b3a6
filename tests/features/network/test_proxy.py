"""The proxy of a sandbox sends exactly one request, to a host that was allowed."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import h11
import pytest

from oh_daemon.common.hosts import Host, Reach
from oh_daemon.features.network.proxy import ListenerConnections, NetworkProxy, Streams

WITHIN_S = 30
SECRET = "127.0.0.2:9"
"""A host that is not allowed."""


@dataclass(slots=True)
class Sandbox:
    """The proxy between a program and a host that keeps all bytes of each connection."""

    is_through_proxy: bool
    received: list[bytes] = field(default_factory=list[bytes])
    allowed_port: int = 0
    proxy_port: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sandbox]:
        async def serve(streams: Streams) -> None:
            self.writers.append(streams[1])
            await proxy.serve(streams)

        async def keep(streams: Streams) -> None:
            self.writers.append(streams[1])
            self.received.append(await streams[0].read())
            streams[1].write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        async def decide(host: Host, _reach: Reach) -> str | None:
            return None if host == Host("127.0.0.1", self.allowed_port) else "it is not allowed"

        upstream_socket, own_socket = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.allowed_port, self.proxy_port = (
            each.getsockname()[1] for each in (upstream_socket, own_socket)
        )
        variables = {"http_proxy": f"http://127.0.0.1:{self.allowed_port}"}
        proxy = NetworkProxy(decide, lambda: variables if self.is_through_proxy else {})
        listeners = ListenerConnections(keep), ListenerConnections(serve)
        await listeners[0].start(upstream_socket)
        await listeners[1].start(own_socket)
        yield self
        for each in listeners:
            each.close()
        for writer in self.writers:
            await _close(writer)

    async def send(self, data: bytes) -> bytes:
        """Send all of it, and return the answer."""
        async with asyncio.timeout(WITHIN_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy_port)
            writer.write(data)
            writer.write_eof()
            try:
                return await reader.read()
            except ConnectionResetError:  # It closed before it had read all.
                return b""
            finally:
                await _close(writer)

    def request(self, text: str) -> bytes:
        text = text.replace("ALLOWED", f"127.0.0.1:{self.allowed_port}").replace("SECRET", SECRET)
        return text.encode("latin-1")


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def check_one_request(data: bytes, sandbox: Sandbox) -> None:
    """Fail unless a strict reader and one that splits at any blank see one allowed request."""
    host = f"127.0.0.1:{sandbox.allowed_port}"
    judge = h11.Connection(h11.SERVER)
    judge.receive_data(data)
    judge.receive_data(b"")
    request, *events = _events_of(judge)
    assert isinstance(request, h11.Request)
    assert dict(request.headers)[b"host"] == host.encode()
    assert dict(request.headers)[b"connection"] == b"close"
    target = request.target.decode()
    assert target.startswith(f"http://{host}/" if sandbox.is_through_proxy else "/")
    assert isinstance(events[-1], h11.EndOfMessage)
    assert judge.trailing_data[0] == b""
    head = data.partition(b"\r\n\r\n")[0]
    assert not {*head.replace(b"\r\n", b"")} & {*range(9), *range(10, 32), 127}
    assert len(head.splitlines()[0].split()) == 3


def _events_of(judge: h11.Connection) -> list[object]:
    events: list[object] = []
    while not events or not isinstance(events[-1], h11.EndOfMessage):
        event = judge.next_event()
        assert event is not h11.NEED_DATA
        assert event is not h11.PAUSED
        events.append(event)
    return events


GET = "GET http://ALLOWED/a HTTP/1.1\r\n"
SMUGGLED = "GET http://SECRET/ HTTP/1.1\r\n\r\n"
POST = "POST http://ALLOWED/a HTTP/1.1\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("is_through_proxy", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "GET\thttp://SECRET/1\tHTTP/1.0\n\nGET http://ALLOWED/ HTTP/1.1\r\n\r\n",
        "GET  http://ALLOWED/ HTTP/1.1\r\n\r\n",
        "GET http://ALLOWED/ HTTP/1.1 \r\n\r\n",
        "GET http://ALLOWED/ HTTP/2.0\r\n\r\n",
        "get http://ALLOWED/ HTTP/1.1\r\n\r\n",
        "GET http://ALLOWED/\x00 HTTP/1.1\r\n\r\n",
        f"{GET}A: b\r\n folded\r\n\r\n",
        f"{GET}A: b\nHost: SECRET\r\n\r\n",
        f"{GET}A: b\rHost: SECRET\r\n\r\n",
        f"{GET}A: \x00\r\n\r\n",
        f"{GET}A : b\r\n\r\n",
        f"{GET}no header\r\n\r\n",
        f"{GET}Host: ALLOWED\r\nHost: ALLOWED\r\n\r\n",
        f"{GET}Host: SECRET\r\n\r\n",
        f"{POST}Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        f"{POST}Content-Length: 1, 1\r\n\r\na",
        f"{POST}Content-Length: +1\r\n\r\na",
        f"{POST}Content-Length: 1\r\n{CHUNKED}\r\n0\r\n\r\n",
        f"{POST}{CHUNKED}{CHUNKED}\r\n0\r\n\r\n",
        f"{POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        f"{POST}Transfer-Encoding: x\x0bchunked\r\n\r\n0\r\n\r\n",
        f"POST http://ALLOWED/a HTTP/1.0\r\n{CHUNKED}\r\n0\r\n\r\n",
        "GET https://ALLOWED/ HTTP/1.1\r\n\r\n",
        "GET http://SECRET/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n",
        "GET http://ALLOWED@SECRET/ HTTP/1.1\r\n\r\n",
    ],
)
def test_ambiguous_request_is_refused(text: str, is_through_proxy: bool) -> None:
    async def check() -> None:
        async with Sandbox(is_through_proxy).running() as sandbox:
            answer = await sandbox.send(sandbox.request(text))
            assert answer.split(b" ")[1:2] in ([b"400"], [b"403"])
            assert sandbox.received == []

    asyncio.run(check())


@pytest.mark.parametrize(
    ("text", "expected_end"),
    [
        (f"{GET}\r\n{SMUGGLED}", "\r\n\r\n"),
        (f"{POST}Content-Length: 3\r\n\r\nabc{SMUGGLED}", "\r\n\r\nabc"),
        (
            f"{POST}{CHUNKED}\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n{SMUGGLED}",
            "\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        (f"{POST}Connection: content-length\r\nContent-Length: 1\r\n\r\na", "\r\n\r\na"),
        (
            f"{GET}Connection: x-hop\r\nX-Hop: 1\r\nProxy-Connection: a\r\nB: c\r\n\r\n",
            "B: c\r\n\r\n",
        ),
        ("GET http://u:p@ALLOWED?x HTTP/1.0\r\nHost: ALLOWED\r\n\r\n", "\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("is_through_proxy", [True, False])
def test_one_request_is_sent_and_nothing_after_it(
    text: str, expected_end: str, is_through_proxy: bool
) -> None:
    async def check() -> None:
        async with Sandbox(is_through_proxy).running() as sandbox:
            answer = await sandbox.send(sandbox.request(text))
            assert answer.endswith(b"\r\n\r\nok")
            [data] = sandbox.received
            check_one_request(data, sandbox)
            assert data.endswith(expected_end.encode())
            assert b"op: 1" not in data

    asyncio.run(check())


PIECES = (
    *("GET ", "POST ", "CONNECT ", "http://ALLOWED/", "http://SECRET/", "ALLOWED", " HTTP/1.1"),
    *(" HTTP/1.0", "\r\n", "\r\n\r\n", "\n", "\r", "\t", " ", ":", "\x00", "Host: ALLOWED\r\n"),
    *("Host: SECRET\r\n", "Content-Length: 3\r\n", "Content-Length: 0\r\n", "Content-Length:"),
    *(CHUNKED, "Transfer-Encoding:\tchunked\r\n", "Connection: close, host\r\n", "A: b\r\n"),
    *(
        "abc",
        "0\r\n\r\n",
        "3\r\nabc\r\n",
        "3\r\nab",
        "ffffffff\r\n",
        SMUGGLED,
        "\n\n",
        "\x0b",
        "@",
        "#",
    ),
)


@pytest.mark.parametrize("n_requests", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_generated_bytes_become_one_allowed_request_or_none(n_requests: int) -> None:
    dice = random.Random(n_requests)

    async def check() -> None:
        for is_through_proxy in (True, False):
            async with Sandbox(is_through_proxy).running() as sandbox:
                for _ in range(n_requests // 2):
                    start = dice.choice(["", GET, POST, POST + CHUNKED])
                    text = start + "".join(dice.choices(PIECES, k=dice.randrange(1, 12)))
                    sandbox.received.clear()
                    answer = await sandbox.send(sandbox.request(text))
                    if answer.endswith(b"\r\n\r\nok") and not text.startswith("CONNECT"):
                        [data] = sandbox.received
                        check_one_request(data, sandbox)

    asyncio.run(check())
