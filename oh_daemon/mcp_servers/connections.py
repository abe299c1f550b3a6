"""How a server is reached: as a process of ours, over streamable HTTP, or over server-sent events.

What `${NAME}` stands for is put in here, at the last moment, and masked from then on.
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
from oh_daemon.workspace.spawner import SECRET_NAME, Process, Spawner, clean_env

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_IDLE_S = 86_400.0
"""A stream of server-sent events may be silent for as long as nobody calls."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What servers are started with."""

    spawner: Spawner
    variables: Mapping[str, str]
    """For `${NAME}`: the environment and what the editor has lent."""
    masker: Masker
    """Hides each value that was put in for a name, or has the name of a secret."""
    cwd: Path
    keep: Keep = field(default_factory=dict[str, Json])
    """For what a server gives who has signed in."""

    def sign_in(self, settings: McpServerSettings) -> SignIn:
        return SignIn(settings.url or "", self.keep, self.masker.add)

    def connect(
        self,
        settings: McpServerSettings,
        sign_in: SignIn,
        said: deque[str],
        on_end: Callable[[], None],
    ) -> AbstractAsyncContextManager[Any]:
        """A transport of the mcp package; `said` gets a process's stderr, `on_end` its end."""
        if settings.command is None:
            return self._dialled(settings, sign_in)
        return piped(lambda fds: self._spawned(settings, fds), said, on_end)

    def _spawned(self, settings: McpServerSettings, fds: Sequence[int]) -> Process:
        own = self._all_filled(settings.env)
        argv = [settings.command or "", *map(self._filled, settings.args)]
        return self.spawner.spawn(
            argv, cwd=self.cwd, env=clean_env(os.environ) | own, fds=list(fds)
        )

    @asynccontextmanager
    async def _dialled(self, settings: McpServerSettings, sign_in: SignIn) -> AsyncGenerator[Any]:
        """Redirects lead nowhere but to the same origin, which the mcp package sees to."""
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
            # With `auth` a refusal is part of the talk, and it says itself when it needs the user.
            hooks = {} if auth else {"response": [look]}
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
        """With the values of `${NAME}`; one that is not known stays as it is written."""

        def value(found: re.Match[str]) -> str:
            known = self.variables.get(found[1])
            if known is None:
                return found[0]
            # A place such as `${HOME}` is no secret, and masked it would be missed everywhere.
            if not (known.startswith("/") and Path(known).exists()):
                self.masker.add(known)
            return known

        return _VARIABLE.sub(value, text)
