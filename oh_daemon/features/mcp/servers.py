"""All MCP servers of a process, and their tools in the form for the agent's core. Thread-safe."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.decoded import as_object
from oh_daemon.features.mcp.connections import Prepare, ServerEnvironment
from oh_daemon.features.mcp.decoding import is_error, parts_of, resource_parts
from oh_daemon.features.mcp.offer import SelectedTool
from oh_daemon.features.mcp.server import McpServer, RunOnLoop
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.notices import warn
from oh_daemon.kernel.ports import (
    Caveat,
    Footprint,
    Intent,
    Json,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.errors import InvalidParamsError, ToolError, UserError
from oh_daemon.protocol.mcp import McpServerInfo, McpServerSettings
from oh_daemon.workspace.paths import printable

_MAX_LISTED = 500
_MAX_PAUSE_S = 300.0
_NAME = "mcp_resource"
_ONLY_MARKED = "only its own server says that it just reads"


class ResourceTool(Struct, frozen=True):
    """Lists or reads resources of these servers; tools for the same servers compare equal."""

    servers: Mapping[str, McpServer]
    run_on_loop: RunOnLoop

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            _NAME,
            "Read a resource of an MCP server by its URI; without `uri` list what it has. "
            "Also reads what a `<resource uri=…/>` in the result of its tools points at.",
            {
                "type": "object",
                "properties": {
                    # A list of the servers would change the request when one of them fails.
                    "server": {"type": "string", "description": "Name of the server."},
                    "uri": {"type": "string", "description": "As listed, or made from a template."},
                },
                "required": ["server"],
                "additionalProperties": False,
            },
            read_only=True,
        )

    def plan(self, args: Json) -> Intent:
        if args["server"] not in self.servers:
            names = ", ".join(sorted(self.servers)) or "none"
            raise ToolError(f"{args['server']!r} has no resources; servers that have: {names}")
        title = f"{args['server']}: {args.get('uri', 'list resources')}"
        subject = ToolSubject(tool=_NAME, args=args)
        return Intent(title, subject, "low", footprint=Footprint(writes=False))

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        server = self.servers[args["server"]]
        if "uri" not in args:
            resources = self.run_on_loop(server.resources(), context.cancel)
            return ToolResult.of(_render_list(resources))
        read = self.run_on_loop(server.read_resource(args["uri"]), context.cancel)
        parts = resource_parts(read)
        if not parts:
            raise ToolError(f"{args['server']!r} has nothing at {args['uri']!r}")
        return ToolResult(parts)


def _render_list(resources: Sequence[Json]) -> str:
    lines = [
        f"{printable(str(each.get('uri') or each.get('uriTemplate')))}"
        f"  {printable(str(each.get('name')))}"
        f"  {printable(str(each.get('description') or ''))[:200]}".rstrip()
        for each in resources[:_MAX_LISTED]
    ]
    if len(resources) > _MAX_LISTED:
        lines.append(f"({len(resources) - _MAX_LISTED} more are not listed)")
    return "\n".join(lines) or "(no resources)"


class Confinement(Struct, frozen=True):
    """What keeps servers from harm, whatever they are told to do."""

    why: str
    """See `Intent.confinement`."""
    settle: Callable[[CancelToken], str | None]
    """Waits after a call for what the user is asked; returns a line for the model about it."""


class ServerPool:
    """The servers that the settings name, brought up to date whenever an agent starts."""

    def __init__(
        self,
        run: RunOnLoop,
        settings: Callable[[], Mapping[str, McpServerSettings]],
        surroundings: ServerEnvironment,
    ) -> None:
        self.run_on_loop = run
        self._settings = settings
        self._surroundings = surroundings
        self._condition = threading.Condition()
        self._servers: dict[str, McpServer] = {}
        self._enabled_by_name: dict[str, bool] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called on the io loop whenever the status or tools of a server change."""
        self.open_page: Callable[[str], bool] = lambda _url: False
        """Shows the user an address in a browser; returns whether it could."""
        self.wait_s = 10.0
        """How long a step waits for starting servers; their own time limit may be shorter."""
        self.first_pause_s = 10.0
        """How long a server that failed is left alone; after each further try twice as long."""
        self.confinement: Confinement | None = None
        """Set if something keeps all of them from harm."""
        self.caveat: Caveat | None = None
        """What the user should know of them while they run."""
        self.open_folders: Callable[[], Sequence[Path]] = tuple
        """Returns the open folders, the roots of all servers; if there are none, it is `cwd`."""
        self._reported_roots: Sequence[Path] = ()
        self._pools_beside = weakref.WeakSet[ServerPool]()
        """The pools of conversations, which have the servers of skills and the browser's."""
        self._tries: dict[str, tuple[int, float]] = {}
        """By server, how often it was tried again, and since when it is left alone."""

    def beside(
        self,
        settings: Callable[[], Mapping[str, McpServerSettings]],
        cwd: Path,
        prepare: Prepare | None = None,
    ) -> ServerPool:
        """Return servers that the caller names and closes, such as those of skills.

        This pool's `infos` contain them, and its methods control them.
        """
        around = replace(self._surroundings, cwd=cwd, prepare=prepare)
        pool = ServerPool(self.run_on_loop, settings, around)
        pool.on_change = self._notify
        pool._enabled_by_name = self._enabled_by_name
        with self._condition:
            self._pools_beside.add(pool)
        return pool

    def all_pools(self) -> list[ServerPool]:
        """Return this pool, then those of conversations."""
        with self._condition:
            beside = list(self._pools_beside)
        return [self, *(each for pool in beside for each in pool.all_pools())]

    def begin(self) -> None:
        """Start servers that the settings name, end the others; do not wait for the starts."""
        settings_by_name = dict(self._settings())
        running_settings = {name: server.settings for name, server in self._servers.copy().items()}
        if settings_by_name != running_settings:
            self.run_on_loop(self._keep_step(settings_by_name), CancelToken())

    def _roots(self) -> Sequence[Path]:
        return self.open_folders() or (self._surroundings.cwd,)

    async def _report_roots(self) -> None:
        for server in list(self._servers.values()):
            await server.report_roots()

    async def _keep_step(self, settings_by_name: Mapping[str, McpServerSettings]) -> None:
        # Look again after each one, because another caller may be doing the same.
        while old := [n for n, s in self._servers.items() if settings_by_name.get(n) != s.settings]:
            await self._servers.pop(old[0]).stop()
        for name in settings_by_name.keys() - self._servers.keys():
            server = McpServer(
                name, settings_by_name[name], self._surroundings, self._notify, self._roots
            )
            self._servers[name] = server
            if self._enabled_by_name.get(name, server.settings.enabled):
                await server.start()

    def infos(self) -> tuple[McpServerInfo, ...]:
        """Return the status of each server in `all_pools`, sorted by name.

        Of servers with one name, one of this pool counts, then one that runs.
        """
        own, *others = [pool.own_infos() for pool in self.all_pools()]
        beside = sorted(
            (info for infos in others for info in infos), key=lambda info: info.status == "running"
        )
        by_name = {info.name: info for info in (*beside, *own)}
        return tuple(by_name[name] for name in sorted(by_name))

    def find(self, name: str) -> McpServer | None:
        """Return the server of this pool with this name."""
        return self._servers.get(name)

    def own_infos(self) -> tuple[McpServerInfo, ...]:
        """Return the status of each server of this pool, sorted by name."""
        servers = self._servers.copy()
        return tuple(servers[name].info for name in sorted(servers))

    def tools(self, cancel: CancelToken) -> list[McpTool]:
        """Wait until no server is starting, at most `wait_s`; return all tools sorted by name.

        Those that failed are tried again from time to time, and nobody waits for them.
        """
        with cancel.notifying(self._condition), self._condition:
            self._condition.wait_for(
                lambda: cancel.is_cancelled or not self._is_starting(), self.wait_s
            )
        cancel.raise_if_cancelled()
        servers = list(self._servers.values())
        if (roots := self._roots()) != self._reported_roots:
            is_news, self._reported_roots = bool(self._reported_roots), roots
            if is_news and servers:
                self.run_on_loop(self._report_roots(), cancel)
        for server in servers:
            if server.info.status == "failed" and self._is_due(server.name):
                self.run_on_loop(server.try_again(), cancel)
        tools = (
            McpTool(_spec_now(tool, server), tool, server, self.run_on_loop, self.confinement)
            for server in servers
            for tool in server.selected_tools
        )
        return sorted(tools, key=lambda tool: tool.spec.name)

    def readable(self) -> dict[str, McpServer]:
        """Return the servers that have resources, by name."""
        servers = list(self._servers.values())
        return {server.name: server for server in servers if server.has_resources}

    def _is_starting(self) -> bool:
        servers = list(self._servers.values())
        return any(s.info.status == "starting" and not s.is_another_try for s in servers)

    def _is_due(self, name: str) -> bool:
        """Return whether a server that has failed was left alone for long enough."""
        now = time.monotonic()
        n_tries, since = self._tries.setdefault(name, (0, now))
        if now - since < min(self.first_pause_s * 2**n_tries, _MAX_PAUSE_S):
            return False
        self._tries[name] = n_tries + 1, now
        return True

    def set_enabled(self, name: str, *, is_enabled: bool) -> None:
        """Switch a server on or off until the daemon ends; the settings do not change."""
        servers = self._require_servers(name)
        self._enabled_by_name[name] = is_enabled
        for server in servers:
            self.run_on_loop(server.start() if is_enabled else server.stop(), CancelToken())

    def restart(self, name: str) -> None:
        for server in self._require_servers(name):
            self.run_on_loop(server.start(), CancelToken())

    def authenticate(self, name: str) -> str | None:
        """Let the user sign in again; return the page for it, None if the server asks for none."""
        [server, *_] = self._require_servers(name)
        if server.settings.url is None:
            raise InvalidParamsError.at("server", "only a server with a `url` can be signed in to")
        url = self.run_on_loop(server.authenticate(), CancelToken())
        # The server chose this address: it is opened only if it is a web page.
        return url if url and url.startswith(("https://", "http://")) else None

    def sign_in(self, name: str, show: Callable[[str], object]) -> McpServerInfo:
        """Let the user sign in on the page that `show` gets, and wait until that is over.

        Raises `UserError` if the server does not run then.
        """
        if url := self.authenticate(name):
            show(url)
        [server, *_] = self._require_servers(name)
        with self._condition:
            self._condition.wait_for(lambda: server.is_settled)
        if server.info.status != "running":
            raise UserError(f"the MCP server {name!r} is left out: {server.info.error}")
        return server.info

    def _require_servers(self, name: str) -> list[McpServer]:
        """Return the servers with this name, one of this pool first."""
        self.begin()
        servers = [server for pool in self.all_pools() if (server := pool.find(name))]
        if not servers:
            names = ", ".join(info.name for info in self.infos()) or "none is set"
            what = f"no MCP server {name!r}; known: {names}"
            raise InvalidParamsError.at("server", what, "unknown")
        return servers

    def close(self) -> None:
        """Stop each server; processes that are left end with the spawner."""
        servers, self._servers = self._servers, {}

        async def stop() -> None:
            for server in servers.values():
                await server.stop()

        if servers:
            self.run_on_loop(stop(), CancelToken())

    def _notify(self) -> None:
        with self._condition:
            self._condition.notify_all()
        self.on_change()


class ServerTools(Feature):
    """The tools of all MCP servers that one conversation uses."""

    def __init__(self, sources: Sequence[ServerPool]) -> None:
        """Of two tools with one name, that of the later source counts."""
        self._sources = sources
        self.latest: Sequence[Tool] = ()
        """The tools of the last step, in the order of the sources."""
        self._reads_resources = False
        """Whether a server has had resources: their tool stays, since requests begin with tools."""

    def before_step(self, _conversation: Conversation, cancel: CancelToken) -> None:
        tools: list[Tool] = [tool for source in self._sources for tool in source.tools(cancel)]
        readable = {
            name: each for source in self._sources for name, each in source.readable().items()
        }
        self._reads_resources = self._reads_resources or bool(readable)
        if self._reads_resources:
            tools.append(ResourceTool(readable, self._sources[0].run_on_loop))
        self.latest = tools

    def report(self, conversation: Conversation, _offered: Container[str]) -> None:
        """Warn of each server that failed or needs the user to sign in, and what they have."""
        for source, server in ((each, info) for each in self._sources for info in each.own_infos()):
            for caveat in _caveats_of(source, server):
                warn(conversation.journal, caveat)


def _caveats_of(source: ServerPool, server: McpServerInfo) -> Iterator[Caveat]:
    name = f"The MCP server {server.name!r}"
    if server.status == "running" and source.caveat is not None:
        yield source.caveat
    if server.status == "failed":
        yield Caveat("mcpServerFailed", f"{name} failed", server.error, server.name)
    if server.status == "authRequired":
        yield Caveat("mcpServerLeftOut", f"{name} is left out", server.error, server.name)


def _spec_now(tool: SelectedTool, server: McpServer) -> ToolSpec:
    return replace(tool.spec, read_only=tool.is_marked and server.has_trusted_marks)


class McpTool(Struct, frozen=True):
    """A tool of a server; tools from the same listing compare equal."""

    spec: ToolSpec
    selection: SelectedTool
    server: McpServer
    run_on_loop: RunOnLoop
    confinement: Confinement | None = None

    def plan(self, args: Json) -> Intent:
        """Rate a tool as low risk if a mark that the user trusts says that it only reads."""
        is_marked = self.selection.is_marked
        only_reads = is_marked and self.server.has_trusted_marks
        has_untrusted_mark = is_marked and not only_reads
        return Intent(
            f"{self.server.name}: {self.selection.own_name}",
            ToolSubject(tool=self.spec.name, args=args, definition=self.selection.digest),
            "low" if only_reads else "medium",
            (_ONLY_MARKED,) if has_untrusted_mark else (),
            Footprint(writes=not only_reads),
            confinement=self.confinement and self.confinement.why,
            trust_marks=self.server.trust_marks if has_untrusted_mark else None,
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        calling = self.server.call(self.selection.own_name, args, context.on_output)
        answer = self.run_on_loop(calling, context.cancel)
        content = parts_of(answer)
        if notice := self.confinement and self.confinement.settle(context.cancel):
            content = (*content, {"type": "text", "text": notice})
        return ToolResult(content, is_error(answer), as_object(answer.get("_meta")))
