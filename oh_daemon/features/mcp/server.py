"""One MCP server from start to end: its process or address, its tools, its calls.

Everything runs on the io loop, but any thread may read `info` and `offered`. Servers are not
trusted: their start has a deadline, and they may request only the open folders of the client.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.features.mcp.decoding import cursor_in, list_in, received
from oh_daemon.features.mcp.offer import SelectedTool, choose_tools
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.mcp import McpServerInfo, McpServerSettings, McpStatus
from oh_daemon.workspace.paths import printable, uri_from_path

logger = logging.getLogger(__name__)

MAX_RESTARTS = 2
MAX_REDIALS = 6
"""For a server behind a URL; all of these attempts take about a minute."""
_BACKOFF_S = 1.0
MAX_EXTENSION = 6
"""How many times its limit a call may take in all, however often it reports progress."""
_MAX_PAGES = 200
_MAX_WORDS = 500
"""How much of its last line on stderr is shown, in characters."""
_LIST_CHANGED = "notifications/tools/list_changed"
_METHOD_NOT_FOUND = -32_601
_CONNECTION_CLOSED = -32_000
_CLOSED_WORDS = ("Connection closed", "SSE stream")
"""How the texts begin with which the mcp package reports a dead server whose client object looks
alive. Servers use the code for errors of their own, too."""

_SIGN_IN = (
    "it wants you to sign in: in your editor's list of MCP servers, or with `oh-daemon mcp login`"
)

_ERROR_LINE = re.compile(r"\b\w*Error\b.*: ?\S")

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
        roots: Callable[[], Sequence[Path]],
    ) -> None:
        """`roots` returns the open folders, which a server may ask for."""
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
        self._roots = roots
        self._client: Any = None
        self._lost_client: Any = None
        """The client of the last session that the server lost."""
        self._has_answered = False
        """Whether it has answered a request in this session."""
        self._status_event = asyncio.Event()
        """Set, and replaced, whenever the status changes."""
        self._task: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        """Held while it starts or stops, so that each caller ends what an earlier one began."""
        self._has_ended = asyncio.Event()
        self._has_run = False
        self._digests: dict[str, str] = {}
        self._stderr_lines: deque[str] = deque(maxlen=50)

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

    async def call(self, tool: str, args: Json, report: Callable[[str], object] = str) -> Json:
        """Call a tool and return its result in MCP's form. Raises `ToolError`.

        `report` gets a line whenever the server reports progress.
        """

        async def ask(client: Any, on_progress: Any) -> Any:
            return await client.call_tool(tool, args, progress_callback=on_progress)

        return await self._ask(ask, report)

    async def read_resource(self, uri: str) -> Json:
        """Read the resource at `uri` and return it in MCP's form. Raises `ToolError`."""
        return await self._ask(lambda client, _: client.read_resource(uri))

    async def resources(self) -> list[Json]:
        """List its resources, then its templates (the first page of each). Raises `ToolError`."""
        resources: list[Json] = []
        for key, method in (
            ("resources", "list_resources"),
            ("resourceTemplates", "list_resource_templates"),
        ):
            answer = await self._ask(partial(_list_if_known, method))
            resources += [each for each in list_in(answer, key) or () if isinstance(each, dict)]
        return resources

    async def report_roots(self) -> None:
        """Tell a running server that other folders are open."""
        from mcp_types import RootsListChangedNotification  # noqa: PLC0415 - see `_session`.

        if self._client is not None:
            await self._client.session.send_notification(RootsListChangedNotification())

    async def _ask(
        self,
        ask: Callable[[Any, Any], Awaitable[Any]],
        report: Callable[[str], object] = str,
    ) -> Json:
        """Return the result as the server sent it.

        The limit counts from the last progress. A request to a session that the server has lost did
        not run, so it is sent once more in the next session.
        """
        limit_s, loop = self.settings.timeout_s, asyncio.get_running_loop()
        latest = loop.time() + limit_s * MAX_EXTENSION
        has_progress = False

        async def on_progress(progress: float, total: float | None, words: str | None) -> None:
            nonlocal has_progress
            has_progress = True
            if not limit.expired():
                limit.reschedule(min(loop.time() + limit_s, latest))
            report(_render_progress(progress, total, words))

        try:
            async with asyncio.timeout(limit_s) as limit:
                client = self._require_client()
                try:
                    answer = await ask(client, on_progress)
                except Exception:
                    if client is not self._lost_client:
                        raise
                    client = await self._next_client(client)
                    answer = await ask(client, on_progress)
                self._has_answered = True
                return received(answer)
        except TimeoutError:
            after = f"{limit_s:g} s after its last progress" if has_progress else f"{limit_s:g} s"
            if loop.time() >= latest:
                after = f"{limit_s * MAX_EXTENSION:g} s, though it reported progress"
            raise ToolError(f"{self.name!r} gave no answer within {after}") from None
        except Exception as exc:
            raise self._failure(exc) from exc

    def _require_client(self) -> Any:
        if self._client is None:
            why = f": {self.info.error}" if self.info.error else ""
            raise ToolError(f"the MCP server {self.name!r} is {self.info.status}{why}")
        return self._client

    async def _next_client(self, lost_client: Any) -> Any:
        """Wait for the session after this one. Raises `ToolError` if there will be none."""
        while self._client is None or self._client is lost_client:
            if self.info.status not in {"starting", "running"}:
                break
            await self._status_event.wait()
        return self._require_client()

    def _failure(self, exc: Exception) -> Exception:
        """Return the error for the model, with all that the server says."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see `_session`.

        if not isinstance(exc, MCPError):
            return exc
        text = self._around.masker.mask(_render_error(exc))
        if exc.code == _CONNECTION_CLOSED and exc.message.startswith(_CLOSED_WORDS):
            self._has_ended.set()
            what = _SIGN_IN if self._sign_in.is_needed else "it is started again"
            return ToolError(f"{self.name!r} is gone; {what}")
        return ToolError(f"{self.name!r} refused the call: {text}")

    def _on_end(self) -> None:
        """Begin another session: the process has ended, or the server has lost this session."""
        if self.settings.url is not None:
            self._lost_client = self._client
        self._has_ended.set()

    def _on_refused(self) -> None:
        if self._sign_in.is_needed:
            self._notify("authRequired", _SIGN_IN)
        if self._client is not None:
            # With server-sent events, the refused call would wait in vain for its answer.
            self._has_ended.set()

    async def _live(self) -> None:
        """Connect, and reconnect a few times when the connection breaks."""
        error = await self._sessions()
        is_far = self.settings.url is not None
        has_ever_run = self._has_run
        for n_restart in range(MAX_REDIALS if is_far else MAX_RESTARTS):
            # A process that could not start will not start a second later; a network may return.
            is_hopeless = not (has_ever_run if is_far else self._has_run)
            if (is_hopeless and not self._sign_in.has_news) or self._sign_in.is_needed:
                break
            self._notify("starting", error)
            await asyncio.sleep(2**n_restart * _BACKOFF_S)
            error = await self._sessions()
        logger.warning("MCP server %s: %s", self.name, error)
        self._sign_in.end()
        if self._sign_in.is_needed:
            self._notify("authRequired", f"{error}; {_SIGN_IN}")
        else:
            self._notify("failed", error)

    async def _sessions(self) -> str:
        """Hold sessions while each answered before the server lost it; return the last error."""
        while True:
            earlier_lost_client = self._lost_client
            error = await self._session()
            if self._lost_client is earlier_lost_client or not self._has_answered:
                return error

    async def _session(self) -> str:
        """Hold one connection from start to end, and return why it ended."""
        # The import takes a second, and would delay model calls on this loop.
        await asyncio.to_thread(import_module, "mcp.client")
        from mcp.client import Client  # noqa: PLC0415

        self._has_ended.clear()
        self._has_run = self._has_answered = False
        limit_s = self.settings.start_timeout_s + self._sign_in.patience_s
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(limit_s):
                    transport = self._around.connect(
                        self.settings, self._sign_in, self._stderr_lines, self._on_end
                    )
                    client = Client(
                        transport,
                        message_handler=self._on_message,
                        list_roots_callback=self._list_roots,
                        cache=None,
                    )
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
        listing, flaw = await _listed_tools(client)
        offer = choose_tools(self.name, self.settings, listing, self._digests)
        self.selected_tools, self._digests = offer.tools, dict(offer.digests)
        names = tuple(tool.spec.name for tool in offer.tools)
        omitted = (*offer.left_out, *((flaw,) if flaw else ()))
        self.info = self.info.model_copy(update={"tools": names, "omitted": omitted})

    async def _list_roots(self, context: object) -> Any:  # noqa: ARG002 - the package's shape.
        from mcp_types import ListRootsResult  # noqa: PLC0415 - see `_session`.

        roots = [{"uri": uri_from_path(path), "name": path.name} for path in self._roots()]
        return ListRootsResult.model_validate({"roots": roots})

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
        self._status_event.set()
        self._status_event = asyncio.Event()
        self._on_change()

    def _last_words(self) -> str:
        """Return the last error on stderr, or the last line; Node ends with its version."""
        if not self._stderr_lines:
            return ""
        errors = [line for line in self._stderr_lines if _ERROR_LINE.search(line)]
        line = (errors or self._stderr_lines)[-1]
        excerpt = self._around.masker.mask_start(line[:_MAX_WORDS])
        return f": {excerpt if len(line) > _MAX_WORDS else line}"


async def _listed_tools(client: Any) -> tuple[list[Any], str | None]:
    """Return all tools that a server lists, and what is wrong with the list itself, if anything."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see `McpServer._session`.

    tools: list[Any] = []
    cursor: str | None = None
    cursors = set[str]()
    while len(cursors) < _MAX_PAGES:
        try:
            page = received(await client.list_tools(cursor=cursor))
        except MCPError as exc:
            # It has only resources or prompts.
            if exc.code != _METHOD_NOT_FOUND:
                raise
            return tools, None
        entries = list_in(page, "tools")
        if entries is None:
            return tools, "the server sent no list of tools"
        tools += entries
        cursor = cursor_in(page)
        if cursor is None:
            return tools, None
        if cursor in cursors:
            return tools, f"the list of tools repeats the cursor {printable(cursor)[:50]!r}"
        cursors.add(cursor)
    return tools, f"the list of tools has more than {_MAX_PAGES} pages"


async def _list_if_known(method: str, client: Any, _on_progress: object) -> Any:
    """Return the first page of a list; an empty one if the server does not know the method."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see `McpServer._session`.

    try:
        return await getattr(client, method)()
    except MCPError as exc:
        if exc.code != _METHOD_NOT_FOUND:
            raise
        return None


def _render_progress(progress: float, total: float | None, words: str | None) -> str:
    """Render a report of progress as one line, such as `3/10 reading`."""
    amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    return f"{amount} {printable(words or '')[:_MAX_WORDS]}".rstrip() + "\n"


def _render_error(exc: Any) -> str:
    """Return an error's message and data, which may say more."""
    data = exc.error.data
    if data in (None, "", {}, []):
        return str(exc.message)
    return f"{exc.message} ({data if isinstance(data, str) else json.dumps(data)})"


def _reason(exc: BaseException) -> str:
    """Return the text of the first cause in a group of exceptions, which says what happened."""
    if isinstance(exc, BaseExceptionGroup):
        causes: tuple[BaseException, ...] = exc.exceptions  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of any kind.
        return _reason(causes[0])
    return str(exc) or type(exc).__name__
