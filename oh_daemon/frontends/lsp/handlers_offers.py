"""The methods about what there is to choose and to mention: MCP servers, agents, skills, commands.

`context/search` also finds files, symbols and conversations, and does not wait for a slow server.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.conversations.sub_agents import agents_in
from oh_daemon.features.models.capabilities import served_models
from oh_daemon.features.models.models import LOCAL, Models, greet
from oh_daemon.features.skills.prompts import COMMANDS, Skill, commands_with
from oh_daemon.features.skills.skills import SkillFolders
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.jsonrpc.dispatch import RequestContext
from oh_daemon.kernel.context import GIT_DIFF, LOG_SCHEME
from oh_daemon.protocol import composing as m
from oh_daemon.protocol.composing import (
    AgentListParams,
    AgentListResult,
    AgentSummary,
    SkillInfo,
    SkillListParams,
    SkillListResult,
)
from oh_daemon.protocol.content import CommandPart, ResourceLinkPart, SkillPart
from oh_daemon.protocol.daemon_messages import (
    ModelCheckParams,
    ModelCheckResult,
    ModelDiscoverParams,
    ModelDiscoverResult,
)
from oh_daemon.protocol.errors import ModelUnavailableError, RequestCancelledError, ToolError
from oh_daemon.protocol.language_servers import CodeSymbol, parse_answer
from oh_daemon.protocol.mcp import (
    McpAuthenticateParams,
    McpAuthenticateResult,
    McpRestartParams,
    McpServers,
    McpSetEnabledParams,
)
from oh_daemon.workspace.file_names import Query, Rank
from oh_daemon.workspace.paths import parse_folder, path_from_uri, uri_from_path

_SYMBOLS_WITHIN_S = 1.0
_WORST: Rank = (5, 0, 0)
_PAGE = re.compile(r"https?://[^\s/]{3,}(/\S*)?")


def model_check(
    daemon: Daemon, params: ModelCheckParams, context: RequestContext
) -> ModelCheckResult:
    name, models = params.model or daemon.models.require_default(), daemon.models
    if params.base_url:
        models = _own_models(daemon).at_address(name, params.base_url)
    elif isinstance(models, Models):
        models = models.for_trial()
    try:
        greet(models.model_for(name), context.cancel)
    except Cancelled:
        raise RequestCancelledError("cancelled by the client") from None
    return ModelCheckResult(model=name)


def model_discover(daemon: Daemon, params: ModelDiscoverParams) -> ModelDiscoverResult:
    url = params.base_url.rstrip("/")
    name = f"{LOCAL}/any"
    for each in (url, f"{url}/v1"):
        if names := served_models(_own_models(daemon).at_address(name, each).llm_of(name)):
            return ModelDiscoverResult(base_url=each, models=tuple(names))
    raise ModelUnavailableError(
        f"{url} lists no models",
        hint="is the server running, and is this its address? A key that it asks for is read "
        "from HOSTED_VLLM_API_KEY",
    )


def _own_models(daemon: Daemon) -> Models:
    if isinstance(daemon.models, Models):
        return daemon.models
    raise ModelUnavailableError("the client reaches all models itself, so servers are added there")


def mcp_list(daemon: Daemon) -> McpServers:
    daemon.shared.mcp.begin()
    return McpServers(servers=daemon.shared.mcp.infos())


def mcp_set_enabled(daemon: Daemon, params: McpSetEnabledParams) -> McpServers:
    daemon.shared.mcp.set_enabled(params.server, enabled=params.enabled)
    return McpServers(servers=daemon.shared.mcp.infos())


def mcp_restart(daemon: Daemon, params: McpRestartParams) -> McpServers:
    daemon.shared.mcp.restart(params.server)
    return McpServers(servers=daemon.shared.mcp.infos())


def mcp_authenticate(daemon: Daemon, params: McpAuthenticateParams) -> McpAuthenticateResult:
    mcp = daemon.shared.mcp
    url = mcp.authenticate(params.server)
    opened = bool(url and mcp.open_page(url))
    return McpAuthenticateResult(url=url, opened=opened, servers=mcp.infos())


def skills_for(
    daemon: Daemon, conversation_id: str | None, folders: Sequence[Path]
) -> tuple[Skill, ...]:
    """Return the current skills of an open conversation, or else those of the folders."""
    live = daemon.conversations.find_live(conversation_id or "")
    if live is None:
        return SkillFolders(folders, daemon.shared.home, daemon.shared.trust).find()
    live.workbench.skills.refresh()
    return live.workbench.skills.all


def skill_list(daemon: Daemon, params: SkillListParams, folders: list[Path]) -> SkillListResult:
    wanted = folders if params.folder is None else [parse_folder(params.folder, "folder")]
    skills = skills_for(daemon, params.conversation_id, wanted)
    return SkillListResult(
        skills=tuple(
            SkillInfo(
                name=skill.name,
                description=skill.description,
                kind=skill.kind,
                source=skill.source,
                path=str(skill.path),
                argument_hint=skill.argument_hint,
                problem=skill.problem,
            )
            for skill in skills
        )
    )


def command_list(
    daemon: Daemon, params: m.CommandListParams, folders: list[Path]
) -> m.CommandListResult:
    found = commands_with(skills_for(daemon, params.conversation_id, folders))
    return m.CommandListResult(
        commands=tuple(m.CommandInfo.model_validate(c, from_attributes=True) for c in found)
    )


def agent_list(daemon: Daemon, params: AgentListParams, folders: list[Path]) -> AgentListResult:
    if params.conversation_id is not None:
        folders = [*daemon.conversations.live(params.conversation_id).workbench.folders.folders]
    elif params.folder is not None:
        folders = [parse_folder(params.folder, "folder")]
    agents = agents_in(daemon.shared, folders).values()
    return AgentListResult(
        agents=tuple(AgentSummary.model_validate(a, from_attributes=True) for a in agents)
    )


Key = tuple[int, int, int, int]
Found = tuple[Key, m.ContextItem]
"""A sort key (the lower, the better) and its item."""


@dataclass(frozen=True, slots=True)
class _Search:
    daemon: Daemon
    params: m.ContextSearchParams
    query: Query
    folders: Sequence[Path]
    cancel: CancelToken


def context_search(
    daemon: Daemon, params: m.ContextSearchParams, folders: list[Path], context: RequestContext
) -> m.ContextSearchResult:
    live = daemon.conversations.find_live(params.conversation_id or "")
    own = live.workbench.folders.folders if live else ()
    return _find(_Search(daemon, params, Query(params.query), own or folders, context.cancel))


def _find(search: _Search) -> m.ContextSearchResult:
    found: list[Found] = []
    for kind in dict.fromkeys(search.params.kinds):
        found += heapq.nsmallest(search.params.limit, _SOURCES[kind](search), key=_key)
    best = heapq.nsmallest(search.params.limit, found, key=_key)
    return m.ContextSearchResult(items=tuple(item for _, item in best))


def _key(found: Found) -> tuple[Key, str, str]:
    return found[0], found[1].label, found[1].detail or ""


def _files(search: _Search) -> Iterator[Found]:
    editor = search.daemon.shared.editor
    open_files = {document.path for document in editor.documents()} if editor else set[Path]()
    for folder in search.folders:
        names = search.daemon.file_names.of(folder, search.cancel)
        opened = {str(p.relative_to(folder)) for p in open_files if p.is_relative_to(folder)}
        ranked = (
            ((rank[0], int(name not in opened), *rank[1:]), name)
            for name in names
            if (rank := search.query.rank(name)) is not None
        )
        # Take more than are shown, since git also lists deleted files.
        for key, name in heapq.nsmallest(2 * search.params.limit, ranked):
            if (folder / name).is_file():
                yield key, _file_item(folder, name, is_one_of_many=len(search.folders) > 1)


def _file_item(folder: Path, name: str, *, is_one_of_many: bool) -> m.ContextItem:
    above, _, label = name.rpartition("/")
    detail = "/".join(filter(None, (folder.name if is_one_of_many else "", above)))
    part = ResourceLinkPart(uri=uri_from_path(folder / name), name=name)
    return m.ContextItem(kind="file", label=label, detail=detail or None, part=part)


def _folders(search: _Search) -> Iterator[Found]:
    for folder in search.folders:
        names = search.daemon.file_names.of(folder, search.cancel)
        below = {str(above) for name in names for above in PurePath(name).parents} - {"."}
        for name in below:
            if (rank := search.query.rank(name)) is not None:
                uri = f"{uri_from_path(folder / name)}/"
                part = ResourceLinkPart(uri=uri, name=f"{name}/")
                detail = folder.name if len(search.folders) > 1 else None
                found = m.ContextItem(kind="folder", label=f"{name}/", detail=detail, part=part)
                yield _ranked(rank, found)


def _changes(search: _Search) -> Iterator[Found]:
    rank = search.query.rank("git-diff")
    if rank is not None and any((folder / ".git").exists() for folder in search.folders):
        part, detail = ResourceLinkPart(uri=GIT_DIFF, name="git-diff"), "since the last commit"
        yield _ranked(
            rank, m.ContextItem(kind="changes", label="git-diff", detail=detail, part=part)
        )


def _pages(search: _Search) -> Iterator[Found]:
    url = search.params.query
    if _PAGE.fullmatch(url):
        part, detail = ResourceLinkPart(uri=url, name=url, fetch=True), "fetched when you send"
        yield _ranked((0, 0, 0), m.ContextItem(kind="page", label=url, detail=detail, part=part))


def _symbols(search: _Search) -> Iterator[Found]:
    servers = search.daemon.shared.servers
    if servers is None or not servers.can_look_up or not search.params.query.strip():
        return
    try:
        answer = servers.look_up(
            "workspace/symbol",
            {"query": search.params.query},
            timeout_s=_SYMBOLS_WITHIN_S,
            cancel=search.cancel,
        )
        symbols: Iterable[CodeSymbol] = parse_answer(tuple[CodeSymbol, ...] | None, answer) or ()
    except ToolError:
        return  # The other kinds of items are still of use.
    for symbol in symbols:
        if symbol.location is not None:
            # Keep a name that the query does not match: the server may match in another way.
            yield _ranked(search.query.rank(symbol.name) or _WORST, _symbol_item(symbol))


def _symbol_item(symbol: CodeSymbol) -> m.ContextItem:
    uri = symbol.location.uri if symbol.location else ""
    span = symbol.location.range if symbol.location else None
    path = path_from_uri(uri)
    detail = ", ".join(filter(None, (symbol.container_name, path.name if path else uri)))
    part = ResourceLinkPart(uri=uri, name=symbol.name, range=span)
    return m.ContextItem(kind="symbol", label=symbol.name, detail=detail, part=part)


def _conversations(search: _Search) -> Iterator[Found]:
    for summary in search.daemon.conversations.listed(search.folders):
        conversation_id, title = summary["id"], summary["title"]
        rank = search.query.rank(title)
        if rank is None or summary["archived"] or conversation_id == search.params.conversation_id:
            continue
        part = ResourceLinkPart(uri=LOG_SCHEME + conversation_id, name=title)
        detail = summary["updatedAt"][:10]
        yield _ranked(
            rank, m.ContextItem(kind="conversation", label=title, detail=detail, part=part)
        )


def _commands(search: _Search) -> Iterator[Found]:
    for command in COMMANDS:
        rank = search.query.rank(command.name)
        if rank is not None:
            part = CommandPart(name=command.name)
            label, detail = f"/{command.name}", command.description
            item = m.ContextItem(kind="command", label=label, detail=detail, part=part)
            yield _ranked(rank, item)


def _skills(search: _Search) -> Iterator[Found]:
    for skill in skills_for(search.daemon, search.params.conversation_id, search.folders):
        rank = search.query.rank(skill.name)
        if rank is not None and skill.problem is None and skill.kind != "always":
            part, detail = SkillPart(name=skill.name), skill.description
            item = m.ContextItem(kind="skill", label=skill.name, detail=detail, part=part)
            yield _ranked(rank, item)


def _ranked(rank: Rank, item: m.ContextItem) -> Found:
    return (rank[0], 1, *rank[1:]), item


_SOURCES: dict[m.ContextKind, Callable[[_Search], Iterable[Found]]] = {
    "file": _files,
    "folder": _folders,
    "changes": _changes,
    "page": _pages,
    "symbol": _symbols,
    "conversation": _conversations,
    "command": _commands,
    "skill": _skills,
}
