"""An asynchronous client: asyncio reads what the daemon sends, on the loop of the program."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from oh_daemon.frontends.client.child import DAEMON, Child
from oh_daemon.frontends.client.line import Line
from oh_daemon.frontends.client.methods import AsyncMethods
from oh_daemon.frontends.client.peer import END_S, Peer, hello, missing_in
from oh_daemon.jsonrpc.client import ClientAnswer
from oh_daemon.jsonrpc.dispatch import Method, RequestContext
from oh_daemon.jsonrpc.framing import parse
from oh_daemon.jsonrpc.reading import Json
from oh_daemon.protocol.errors import DaemonError

AsyncMethod = Callable[[Json], Awaitable[Any]]
"""Gets the params of a request of the daemon; is cancelled when that is withdrawn."""
_LENGTH = re.compile(rb"^content-length\s*:\s*(\d+)\s*$", re.IGNORECASE | re.MULTILINE)


class AsyncDaemonClient(AsyncMethods):
    """One daemon; `async with` connects to it and closes it."""

    def __init__(self, line: Line, methods: Mapping[str, AsyncMethod] | None = None) -> None:
        """`methods` answer the daemon's requests by name."""
        self._line = line
        self._methods = methods or {}
        self._inbox: asyncio.Queue[tuple[str, Json] | None] = asyncio.Queue()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        answering = {name: self._on_loop(method) for name, method in self._methods.items()}
        self._peer = Peer(self._line, answering, self._inbox.put_nowait)
        reader = asyncio.StreamReader()
        self._transport, _ = await self._loop.connect_read_pipe(
            partial(asyncio.StreamReaderProtocol, reader), os.fdopen(self._line.inbound, "rb", 0)
        )
        self._reading = asyncio.create_task(self._read(reader))
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def initialize(self, folders: Sequence[Path] = (), **block: Any) -> Json:
        """Say hello; `block` is what `initialize` has for us, by its names on the wire."""
        answer: Json = await self.request("initialize", hello(folders, block))
        self.notify("initialized", {})
        return answer

    async def request(
        self, method: str, params: object = None, *, within_s: float | None = None
    ) -> Any:
        """Ask, and wait for the result; raises as `DaemonClient.request`."""
        reply: asyncio.Future[ClientAnswer] = self._loop.create_future()

        def on_answer(answer: ClientAnswer) -> None:
            if not reply.cancelled():
                reply.set_result(answer)

        withdraw = self._peer.requests.request_async(method, params or {}, on_answer)
        try:
            answer = await asyncio.wait_for(reply, within_s)
        except TimeoutError:
            raise TimeoutError(f"no answer to {method} in {within_s:g} s") from None
        finally:
            withdraw()
        if answer.outcome == "gone":
            raise await asyncio.to_thread(self._line.failure)
        return self._peer.result_of(answer)

    def notify(self, method: str, params: object) -> None:
        self._peer.notify(method, params)

    async def notifications(self) -> AsyncGenerator[tuple[str, Json]]:
        """Yield method and params of all that come, as `DaemonClient.notifications`."""
        while (each := await self._inbox.get()) is not None:
            if each[0] != "conversation/gap":
                yield each
                continue
            reason = missing_in(each[1])
            while reason.params is not None:
                page = await self.request("conversation/events", reason.params)
                for params in reason.take(page):
                    yield "conversation/event", params
        if not self._is_closing:
            raise await asyncio.to_thread(self._line.failure)

    async def events(self) -> AsyncGenerator[Any]:
        """Yield each `conversation/event`, `EventParams`; see `notifications`."""
        async for method, params in self.notifications():
            if method == "conversation/event":
                yield params

    async def close(self) -> bool:
        """End the daemon, within seconds; return whether it ended by itself, in order."""
        self._is_closing = True
        was_told = False
        with suppress(DaemonError, TimeoutError):
            await self.request("shutdown", within_s=END_S)
            self.notify("exit", {})
            was_told = True
        await asyncio.to_thread(self._peer.hang_up)
        _, unfinished = await asyncio.wait({self._reading}, timeout=END_S)
        await asyncio.to_thread(self._line.kill)
        await self._reading
        return was_told and not unfinished

    def _on_loop(self, method: AsyncMethod) -> Method:
        async def answer(params: Json) -> Any:
            return await method(params)

        def begin(params: Json, context: RequestContext) -> Future[Any]:
            future = asyncio.run_coroutine_threadsafe(answer(params), self._loop)
            context.cancel.on_cancel(future.cancel)
            return future

        return begin

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, EOFError, asyncio.LimitOverrunError):
            while length := _LENGTH.search(await reader.readuntil(b"\r\n\r\n")):
                self._peer.take(parse(await reader.readexactly(int(length[1]))))
        self._transport.close()
        self._peer.on_gone()
        self._inbox.put_nowait(None)


def start_daemon_async(
    argv: Sequence[str] = DAEMON,
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    methods: Mapping[str, AsyncMethod] | None = None,
) -> AsyncDaemonClient:
    """Start a daemon, by default this installation's own; `async with` connects to it."""
    variables = os.environ if environment is None else environment
    return AsyncDaemonClient(Child(argv, cwd or Path.cwd(), variables), methods)
