"""Connects to a server: as a process of ours, over streamable HTTP or over server-sent events.

Values replace `${NAME}` only here, at the last moment, and are masked from then on.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from oh_daemon.contract.mcp import McpServerSettings
from oh_daemon.core.ports import Json
from oh_daemon.core.secrets import Masker
from oh_daemon.mcp_servers.pipes import piped
from oh_daemon.mcp_servers.sign_in import Keep, SignIn
from oh_daemon.mcp_servers.targets import only_where_public
from oh_daemon.workspace.spawner import SECRET_NAME, Process, Spawner, clean_env

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_IDLE_S = 86_400.0
"""How long a stream of server-sent events may be silent, as it is while nobody calls a tool."""


SpawnerOf = Callable[[McpServerSettings], Spawner]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What servers need to start and connect."""

    spawner: Spawner
    variables: Mapping[str, str]
    """Values for `${NAME}`: the environment and what the editor has lent."""
    masker: Masker
    """Masks each value that replaced a `${NAME}`, or whose own name suggests a secret."""
    cwd: Path
    keep: Keep = field(default_factory=dict[str, Json])
    """Where the tokens are kept that a server issues after signing in."""
    spawner_of: SpawnerOf | None = None
    """Returns what starts a server, if that is not `spawner` for each. Raises `ToolError`."""

    def sign_in(self, settings: McpServerSettings) -> SignIn:
        return SignIn(settings.url or "", self.keep, self.masker.add)

    def connect(
        self,
        settings: McpServerSettings,
        sign_in: SignIn,
        said: deque[str],
        on_end: Callable[[], None],
    ) -> AbstractAsyncContextManager[Any]:
        """Return a transport of the mcp package.

        For a process, `said` gets its lines of stderr, and `on_end` is called when it ends.
        """
        if settings.command is None:
            return self._dialled(settings, sign_in)
        return piped(lambda fds: self._spawned(settings, fds), said, on_end)

    def _spawned(self, settings: McpServerSettings, fds: Sequence[int]) -> Process:
        own = self._all_filled(settings.env)
        argv = [settings.command or "", *map(self._filled, settings.args)]
        spawner = self.spawner_of(settings) if self.spawner_of else self.spawner
        return spawner.spawn(argv, cwd=self.cwd, env=clean_env(os.environ) | own, fds=list(fds))

    @asynccontextmanager
    async def _dialled(self, settings: McpServerSettings, sign_in: SignIn) -> AsyncGenerator[Any]:
        """Connect over HTTP. The mcp package follows redirects only within the same origin."""
        import httpx2  # noqa: PLC0415 - comes with mcp, which takes a second.
        from mcp.client.sse import sse_client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        url = settings.url or ""
        headers = self._all_filled(settings.headers)

        async def look(response: httpx2.Response) -> None:
            if response.status_code == HTTPStatus.UNAUTHORIZED:
                sign_in.on_refused()

        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            # With `auth`, a refusal is part of the OAuth flow, which itself reports when it needs
            # the user.
            hooks = {"request": [only_where_public(url)]} if auth else {"response": [look]}
            return httpx2.AsyncClient(
                headers=headers, timeout=timeout, auth=auth, event_hooks=hooks
            )

        async with AsyncExitStack() as stack:
            auth = await stack.enter_async_context(sign_in.auth())
            if settings.transport == "sse":
                streams = sse_client(
                    url,
                    headers,
                    sse_read_timeout=_IDLE_S,
                    httpx_client_factory=client,
                    auth=auth,
                )
            else:
                patience = httpx2.Timeout(30.0, read=settings.timeout_s)
                http = await stack.enter_async_context(client(headers, patience, auth))
                streams = streamable_http_client(url, http_client=http)
            yield await stack.enter_async_context(streams)

    def _all_filled(self, values: Mapping[str, str]) -> dict[str, str]:
        for name, value in values.items():
            if SECRET_NAME.search(name) and not _VARIABLE.search(value):
                self.masker.add(value)
        return {name: self._filled(value) for name, value in values.items()}

    def _filled(self, text: str) -> str:
        """Replace each `${NAME}` with its value; an unknown name stays as it is written."""

        def value(found: re.Match[str]) -> str:
            known = self.variables.get(found[1])
            if known is None:
                return found[0]
            # A path such as `${HOME}` is no secret; masking it would make output unreadable.
            if not (known.startswith("/") and Path(known).exists()):
                self.masker.add(known)
            return known

        return _VARIABLE.sub(value, text)
