"""All MCP servers of a process, and their tools as the agent's core takes them. Thread-safe."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.contract.mcp import McpServerInfo, McpServerSettings
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.mcp_servers.pipes import piped
from oh_daemon.mcp_servers.server import Server
from oh_daemon.workspace.spawner import Process, Spawner, clean_env

T = TypeVar("T")
_WAIT_S = 10.0
"""How long a conversation's step waits for servers that are starting."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class RunOnLoop(Protocol):
    """Runs a coroutine on the io loop and blocks for its result."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], cancel: CancelToken) -> T: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What servers are started with."""

    spawner: Spawner
    variables: Mapping[str, str]
    """For `${NAME}`: the environment and what the editor has lent."""
    on_secret: Callable[[str], None]
    """Hears each value that was put in for a name, so that it is masked."""
    cwd: Path


class McpServers:
    """Started with the first conversation, and brought in step with the settings then."""

    def __init__(
        self,
        run: RunOnLoop,
        settings: Callable[[], Mapping[str, McpServerSettings]],
        surroundings: Surroundings,
    ) -> None:
        self._run = run
        self._settings = settings
        self._surroundings = surroundings
        self._changed = threading.Condition()
        self._servers: dict[str, Server] = {}
        self._switched: dict[str, bool] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called from the io loop whenever a server's status or tools are others."""

    def begin(self) -> None:
        """Start what the settings name, end what they no longer name; does not wait for them."""
        wanted = dict(self._settings())
        with self._changed:
            known = {name: server.settings for name, server in self._servers.items()}
        if wanted != known:
            self._run(self._keep_step(wanted), CancelToken())

    async def _keep_step(self, wanted: Mapping[str, McpServerSettings]) -> None:
        for name in [n for n, s in self._servers.items() if wanted.get(n) != s.settings]:
            await self._servers.pop(name).stop()
        for name in wanted.keys() - self._servers.keys():
            server = Server(name, wanted[name], self._connector(wanted[name]), self._tell)
            self._servers[name] = server
            if self._switched.get(name, server.settings.enabled):
                await server.start()

    def infos(self) -> tuple[McpServerInfo, ...]:
        """How each stands, by name."""
        return tuple(self._servers[name].info for name in sorted(self._servers))

    def tools(self, cancel: CancelToken) -> tuple[McpTool, ...]:
        """Those of the servers that run, once none is starting any more, sorted by name."""
        with cancel.notifying(self._changed), self._changed:
            self._changed.wait_for(lambda: cancel.is_cancelled or not self._is_starting(), _WAIT_S)
        cancel.raise_if_cancelled()
        found = [
            McpTool(tool.spec, server, tool.own_name, self._run)
            for server in list(self._servers.values())
            for tool in server.offered
        ]
        return tuple(sorted(found, key=lambda tool: tool.spec.name))

    def _is_starting(self) -> bool:
        return any(server.info.status == "starting" for server in list(self._servers.values()))

    def set_enabled(self, name: str, *, enabled: bool) -> None:
        """Until the daemon ends; the settings stay as they are."""
        self._switched[name] = enabled
        server = self._named(name)
        self._run(server.start() if enabled else server.stop(), CancelToken())

    def restart(self, name: str) -> None:
        self._run(self._named(name).start(), CancelToken())

    def _named(self, name: str) -> Server:
        self.begin()
        if name not in self._servers:
            known = ", ".join(sorted(self._servers)) or "none is set"
            what = f"no MCP server {name!r}; known: {known}"
            raise InvalidParamsError.at("server", what, "unknown")
        return self._servers[name]

    def close(self) -> None:
        """Ask each to end. What is left ends with the spawner."""
        servers, self._servers = self._servers, {}

        async def stop() -> None:
            for server in servers.values():
                await server.stop()

        if servers:
            self._run(stop(), CancelToken())

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
        self.on_change()

    def _connector(self, settings: McpServerSettings) -> Any:
        def connect(
            said: deque[str], on_end: Callable[[], None]
        ) -> AbstractAsyncContextManager[Any]:
            if settings.command is None:
                return self._dialled(settings)
            return piped(lambda fds: self._spawned(settings, fds), said, on_end)

        return connect

    def _spawned(self, settings: McpServerSettings, fds: Sequence[int]) -> Process:
        around = self._surroundings
        own = {name: self._filled(value) for name, value in settings.env.items()}
        argv = [settings.command or "", *map(self._filled, settings.args)]
        return around.spawner.spawn(
            argv, cwd=around.cwd, env=clean_env(os.environ) | own, fds=list(fds)
        )

    @asynccontextmanager
    async def _dialled(self, settings: McpServerSettings) -> AsyncGenerator[Any]:
        """Redirects lead nowhere but to the same origin, which the mcp package sees to."""
        import httpx2  # noqa: PLC0415 - comes with mcp, which takes a second.
        from mcp.client.sse import sse_client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        url = settings.url or ""
        headers = {name: self._filled(value) for name, value in settings.headers.items()}
        if settings.transport == "sse":
            async with sse_client(url, headers=headers) as streams:
                yield streams
            return
        patience = httpx2.Timeout(30.0, read=settings.timeout_s)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=patience) as http,
            streamable_http_client(url, http_client=http) as streams,
        ):
            yield streams

    def _filled(self, text: str) -> str:
        """With the values of `${NAME}`; one that is not known stays as it is written."""

        def value(found: re.Match[str]) -> str:
            known = self._surroundings.variables.get(found[1])
            if known is None:
                return found[0]
            self._surroundings.on_secret(known)
            return known

        return _VARIABLE.sub(value, text)


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server; two from the same listing are equal."""

    spec: ToolSpec
    server: Server
    own_name: str
    run_on_loop: RunOnLoop

    def plan(self, args: Json) -> Intent:
        """What the server says of itself may lower the risk of reading only."""
        return Intent(
            f"{self.server.name}: {self.own_name}",
            ToolSubject(tool=self.spec.name, args=args),
            "low" if self.spec.read_only else "medium",
            footprint=Footprint(writes=not self.spec.read_only),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        answer = self.run_on_loop(self.server.call(self.own_name, args), context.cancel)
        content: tuple[Json, ...] = tuple(answer.get("content", ()))
        if not content and "structuredContent" in answer:
            content = ({"type": "text", "text": json.dumps(answer["structuredContent"])},)
        return ToolResult(content, bool(answer.get("isError")), answer.get("_meta") or {})
