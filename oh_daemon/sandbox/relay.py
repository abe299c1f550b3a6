"""Serves connections on an asyncio loop, and passes bytes between two of them.

What is served ends with its server; a connection over which nothing goes for long ends, too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
MAX_CONNECTIONS = 128
MAX_HEAD_BYTES = 1 << 16
IDLE_S = 900.0
_PIECE_BYTES = 1 << 16


class Server:
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


async def relay(one: Streams, other: Streams) -> None:
    """Return when both sides have said all, or nothing for `IDLE_S`; closes the other."""
    now = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(IDLE_S) as idle:

            def moved() -> None:
                idle.reschedule(now() + IDLE_S)

            there = _pass(one[0], other[1], moved)
            await asyncio.gather(there, _pass(other[0], one[1], moved))
    finally:
        other[1].close()


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[], None]
) -> None:
    while data := await reader.read(_PIECE_BYTES):
        moved()
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
