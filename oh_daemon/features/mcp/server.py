"""One MCP server from start to end: its process or address, its tools, its calls.

Everything runs on the io loop, but any thread may read `info` and `offered`. Servers are not
trusted: their start has a deadline, and whatever they request of the client is declined.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import Any, Protocol, TypeVar

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.features.mcp.offer import SelectedTool, choose_tools
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.mcp import McpServerInfo, McpServerSettings, McpStatus
from oh_daemon.workspace.paths import printable

logger = logging.getLogger(__name__)

MAX_RESTARTS = 2
MAX_REDIALS = 6
"""For a server behind a URL; all of these attempts take about a minute."""
_BACKOFF_S = 1.0
_MAX_PAGES = 50
_MAX_WORDS = 500
"""How much of its last line on stderr is shown, in characters."""
_LIST_CHANGED = "notifications/tools/list_changed"
_CONNECTION_CLOSED = -32_000
"""The code with which the mcp package reports a dead server whose client object looks alive."""

_SIGN_IN = (
    "it wants you to sign in: in your editor's list of MCP servers, or with `oh-daemon mcp login`"
)

T = TypeVar("T")


class RunOnLoop(Protocol):
    """Runs a coroutine on the io loop and waits for its result."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], cancel: CancelToken) -> T: ...


class McpServer:
    """A configured server; `start` connects it, `stop` ends it."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        around: ServerEnvironment,
        on_change: Callable[[], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.selected_tools: tuple[SelectedTool, ...] = ()
        self.has_resources = False
        self.is_another_try = False
        """Whether it had failed before it began to connect."""
        self.info = McpServerInfo(name=name, status="disabled")
        self._around = around
        self._identity = around.identity(name, settings)
        self._sign_in = around.sign_in(settings)
        self._sign_in.on_needed = self._on_refused
        self._on_change = on_change
        self._client: Any = None
        self._task: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        """Held while it starts or stops, so that each caller ends what an earlier one began."""
        self._has_ended = asyncio.Event()
        self._has_run = False
        self._digests: dict[str, str] = {}
        self._stderr_lines: deque[str] = deque(maxlen=20)

    @property
    def has_trusted_marks(self) -> bool:
        """Whether the user trusts its read-only marks."""
        return bool(self._around.trusted_marks.get(self._identity, {}))

    def trust_marks(self) -> None:
        """Store that the user trusts them. Raises `ReadOnlyError` or `StorageError`."""
        self._around.trusted_marks[self._identity] = {
            "name": self.name,
            "identity": self._identity,
        }

    async def start(self) -> None:
        """Begin to connect; `info` shows the progress."""
        async with self._changing:
            self.is_another_try = False
            await self._stop()
            self._begin()

    async def authenticate(self) -> str | None:
        """Restart and let the user sign in; return the page for that, or None without one."""
        async with self._changing:
            await self._stop()
            page = self._sign_in.begin()
            self._begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.start_timeout_s):
                return await asyncio.shield(page)
        return None

    async def try_again(self) -> None:
        """Begin to connect once more, while nobody waits for it, if it has failed."""
        async with self._changing:
            if self.info.status == "failed":
                self.is_another_try = True
                await self._stop()
                self._begin()

    @property
    def is_settled(self) -> bool:
        """Whether it neither connects nor waits for the user to sign in."""
        return self.info.status != "starting" and not self._sign_in.is_under_way

    def _begin(self) -> None:
        self._digests = {}
        self._notify("starting")
        self._task = asyncio.create_task(self._live(), name=f"mcp-{self.name}")

    async def stop(self) -> None:
        """End the server and whatever it started."""
        async with self._changing:
            await self._stop()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._sign_in.end()
        self._notify("disabled")

    async def call(self, tool: str, args: Json) -> Json:
        """Call a tool and return its result in MCP's form. Raises `ToolError`."""
        return await self._ask(lambda client: client.call_tool(tool, args))

    async def read_resource(self, uri: str) -> Json:
        """Read the resource at `uri` and return it in MCP's form. Raises `ToolError`."""
        return await self._ask(lambda client: client.read_resource(uri))

    async def resources(self) -> list[Json]:
        """List its resources, then its templates (the first page of each). Raises `ToolError`."""
        answer = await self._ask(lambda client: client.list_resources())
        templates = await self._ask(lambda client: client.list_resource_templates())
        return [*answer["resources"], *templates["resourceTemplates"]]

    async def _ask(self, ask: Callable[[Any], Awaitable[Any]]) -> Json:
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see `_session`.

        if self._client is None:
            why = f": {self.info.error}" if self.info.error else ""
            raise ToolError(f"the MCP server {self.name!r} is {self.info.status}{why}")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                result = await ask(self._client)
        except TimeoutError:
            raise ToolError(
                f"{self.name!r} gave no answer within {self.settings.timeout_s:g} s"
            ) from None
        except MCPError as exc:
            if exc.code == _CONNECTION_CLOSED:
                self._has_ended.set()
                what = _SIGN_IN if self._sign_in.is_needed else "it is started again"
                raise ToolError(f"{self.name!r} is gone; {what}") from exc
            raise ToolError(f"{self.name!r} refused the call: {exc}") from exc
        answer: Json = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return answer

    def _on_refused(self) -> None:
        if self._sign_in.is_needed:
            self._notify("authRequired", _SIGN_IN)
        if self._client is not None:
            # With server-sent events, the refused call would wait in vain for its answer.
            self._has_ended.set()

    async def _live(self) -> None:
        """Connect, and reconnect a few times when the connection breaks."""
        error = await self._session()
        is_far = self.settings.url is not None
        has_ever_run = self._has_run
        for n_restart in range(MAX_REDIALS if is_far else MAX_RESTARTS):
            # A process that could not start will not start a second later; a network may return.
            is_hopeless = not (has_ever_run if is_far else self._has_run)
            if (is_hopeless and not self._sign_in.has_news) or self._sign_in.is_needed:
                break
            self._notify("starting", error)
            await asyncio.sleep(2**n_restart * _BACKOFF_S)
            error = await self._session()
        logger.warning("MCP server %s: %s", self.name, error)
        self._sign_in.end()
        if self._sign_in.is_needed:
            self._notify("authRequired", f"{error}; {_SIGN_IN}")
        else:
            self._notify("failed", error)

    async def _session(self) -> str:
        """Hold one connection from start to end, and return why it ended."""
        # The import takes a second, and would delay model calls on this loop.
        await asyncio.to_thread(import_module, "mcp.client")
        from mcp.client import Client  # noqa: PLC0415

        self._has_ended.clear()
        self._has_run = False
        limit_s = self.settings.start_timeout_s + self._sign_in.patience_s
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(limit_s):
                    transport = self._around.connect(
                        self.settings, self._sign_in, self._stderr_lines, self._has_ended.set
                    )
                    client = Client(transport, message_handler=self._on_message, cache=None)
                    await stack.enter_async_context(client)
                    await self._list_tools(client)
                logger.info("MCP server %s runs with %d tools", self.name, len(self.selected_tools))
                self._client, self._has_run = client, True
                self.has_resources = client.server_capabilities.resources is not None
                self._sign_in.end()
                self._notify("running")
                listening = asyncio.create_task(self._listen(client))
                try:
                    await self._has_ended.wait()
                finally:
                    # From here on, neither calls nor steps regard the server as running.
                    self._client = None
                    if not self._sign_in.is_needed:
                        self._notify("starting")
                    listening.cancel()
        except TimeoutError:
            return f"it did not start within {limit_s:g} s{self._last_words()}"
        except Exception as exc:  # noqa: BLE001 - whatever it sends ends this server only.
            return f"{_reason(exc)}{self._last_words()}"
        finally:
            self._client = None
        return f"it ended{self._last_words()}"

    async def _list_tools(self, client: Any) -> None:
        listing: list[Json] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            listing += [tool.model_dump(by_alias=True, exclude_none=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        offer = choose_tools(self.name, self.settings, listing, self._digests)
        self.selected_tools, self._digests = offer.tools, dict(offer.digests)
        names = tuple(tool.spec.name for tool in offer.tools)
        self.info = self.info.model_copy(update={"tools": names, "omitted": offer.left_out})

    async def _on_message(self, message: Any) -> None:
        """Older servers announce changed tools by this notification."""
        if getattr(message, "method", None) == _LIST_CHANGED and self._client is not None:
            # Not awaited: the answer comes through the stream that waits for this handler.
            self._listing = asyncio.create_task(self._list_again(self._client))

    async def _listen(self, client: Any) -> None:
        """Newer servers announce changed tools only to subscribers."""
        from mcp.client.subscriptions import (  # noqa: PLC0415 - see `_session`.
            ListenNotSupportedError,
            SubscriptionLost,
        )

        with suppress(ListenNotSupportedError, SubscriptionLost):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    await self._list_again(client)

    async def _list_again(self, client: Any) -> None:
        await self._list_tools(client)
        self._on_change()

    def _notify(
        self,
        status: McpStatus,
        error: str | None = None,
    ) -> None:
        if status in {"disabled", "authRequired", "failed"}:
            self.selected_tools, self.has_resources = (), False
        tools = tuple(tool.spec.name for tool in self.selected_tools)
        error = error and printable(self._around.masker.mask(error), allowed="\n")
        self.info = self.info.model_copy(update={"status": status, "error": error, "tools": tools})
        self._on_change()

    def _last_words(self) -> str:
        if not self._stderr_lines:
            return ""
        line = self._stderr_lines[-1]
        excerpt = self._around.masker.mask_start(line[:_MAX_WORDS])
        return f": {excerpt if len(line) > _MAX_WORDS else line}"


def _reason(exc: BaseException) -> str:
    """Return the text of the first cause in a group of exceptions, which says what happened."""
    if isinstance(exc, BaseExceptionGroup):
        causes: tuple[BaseException, ...] = exc.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of any kind.
        return _reason(causes[0])
    return str(exc) or type(exc).__name__
