"""Handler of `context/search`: finds what a message can mention, as a person types.

It looks for files, symbols, conversations and more, and does not wait for a slow language server.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.features.skills.handlers import FindSkills
from oh_daemon.features.skills.prompts import COMMANDS
from oh_daemon.kernel.context import GIT_DIFF, LOG_SCHEME
from oh_daemon.kernel.editor_ports import Editor, LanguageServers
from oh_daemon.protocol import composing as m
from oh_daemon.protocol.content import CommandPart, ResourceLinkPart, SkillPart
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.language_servers import CodeSymbol, parse_answer
from oh_daemon.workspace.file_names import FileNames, Query, Rank
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

_SYMBOLS_WITHIN_S = 1.0
_WORST: Rank = (5, 0, 0)
_PAGE = re.compile(r"https?://[^\s/]{3,}(/\S*)?")


Key = tuple[int, int, int, int]
Found = tuple[Key, m.ContextItem]
"""A sort key (the lower, the better) and its item."""


class _Search(Struct, frozen=True):
    params: m.ContextSearchParams
    query: Query
    folders: Sequence[Path]
    cancel: CancelToken
    conversations: Conversations
    find_skills: FindSkills
    file_names: FileNames
    editor: Editor | None
    language_servers: LanguageServers | None


def context_search(  # noqa: PLR0913 - a handler names each part that it takes.
    *,
    conversations: Conversations,
    find_skills: FindSkills,
    file_names: FileNames,
    editor: Editor | None,
    language_servers: LanguageServers | None,
    params: m.ContextSearchParams,
    folders: Sequence[Path],
    cancel: CancelToken,
) -> m.ContextSearchResult:
    open_conversation = conversations.find_open(params.conversation_id or "")
    search = _Search(
        params,
        Query(params.query),
        (open_conversation.runtime.folders.folders if open_conversation else ()) or folders,
        cancel,
        conversations,
        find_skills,
        file_names,
        editor,
        language_servers,
    )
    matches: list[Found] = []
    for kind in dict.fromkeys(search.params.kinds):
        matches += heapq.nsmallest(search.params.limit, _SOURCES[kind](search), key=_key)
    best = heapq.nsmallest(search.params.limit, matches, key=_key)
    return m.ContextSearchResult(items=tuple(item for _, item in best))


def _key(candidate: Found) -> tuple[Key, str, str]:
    return candidate[0], candidate[1].label, candidate[1].detail or ""


def _files(search: _Search) -> Iterator[Found]:
    documents = search.editor.documents() if search.editor else ()
    open_files = {document.path for document in documents}
    for folder in search.folders:
        names = search.file_names.of(folder, search.cancel)
        open_names = {str(p.relative_to(folder)) for p in open_files if p.is_relative_to(folder)}
        ranked_names = (
            ((rank[0], int(name not in open_names), *rank[1:]), name)
            for name in names
            if (rank := search.query.rank(name)) is not None
        )
        # Take more than are shown, since git also lists deleted files.
        for key, name in heapq.nsmallest(2 * search.params.limit, ranked_names):
            if (folder / name).is_file():
                yield key, _file_item(folder, name, is_one_of_many=len(search.folders) > 1)


def _file_item(folder: Path, name: str, *, is_one_of_many: bool) -> m.ContextItem:
    above, _, label = name.rpartition("/")
    detail = "/".join(filter(None, (folder.name if is_one_of_many else "", above)))
    part = ResourceLinkPart(uri=uri_from_path(folder / name), name=name)
    return m.ContextItem(kind="file", label=label, detail=detail or None, part=part)


def _folders(search: _Search) -> Iterator[Found]:
    for folder in search.folders:
        names = search.file_names.of(folder, search.cancel)
        below = {str(above) for name in names for above in PurePath(name).parents} - {"."}
        for name in below:
            if (rank := search.query.rank(name)) is not None:
                uri = f"{uri_from_path(folder / name)}/"
                part = ResourceLinkPart(uri=uri, name=f"{name}/")
                detail = folder.name if len(search.folders) > 1 else None
                item = m.ContextItem(kind="folder", label=f"{name}/", detail=detail, part=part)
                yield _rank_item(rank, item)


def _changes(search: _Search) -> Iterator[Found]:
    rank = search.query.rank("git-diff")
    if rank is not None and any((folder / ".git").exists() for folder in search.folders):
        part, detail = ResourceLinkPart(uri=GIT_DIFF, name="git-diff"), "since the last commit"
        yield _rank_item(
            rank, m.ContextItem(kind="changes", label="git-diff", detail=detail, part=part)
        )


def _pages(search: _Search) -> Iterator[Found]:
    url = search.params.query
    if _PAGE.fullmatch(url):
        part, detail = ResourceLinkPart(uri=url, name=url, fetch=True), "fetched when you send"
        yield _rank_item((0, 0, 0), m.ContextItem(kind="page", label=url, detail=detail, part=part))


def _symbols(search: _Search) -> Iterator[Found]:
    servers = search.language_servers
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
            yield _rank_item(search.query.rank(symbol.name) or _WORST, _symbol_item(symbol))


def _symbol_item(symbol: CodeSymbol) -> m.ContextItem:
    uri = symbol.location.uri if symbol.location else ""
    span = symbol.location.range if symbol.location else None
    path = path_from_uri(uri)
    detail = ", ".join(filter(None, (symbol.container_name, path.name if path else uri)))
    part = ResourceLinkPart(uri=uri, name=symbol.name, range=span)
    return m.ContextItem(kind="symbol", label=symbol.name, detail=detail, part=part)


def _conversations(search: _Search) -> Iterator[Found]:
    for summary in search.conversations.summaries(search.folders):
        conversation_id, title = summary["id"], summary["title"]
        rank = search.query.rank(title)
        if rank is None or summary["archived"] or conversation_id == search.params.conversation_id:
            continue
        part = ResourceLinkPart(uri=LOG_SCHEME + conversation_id, name=title)
        detail = summary["updatedAt"][:10]
        yield _rank_item(
            rank, m.ContextItem(kind="conversation", label=title, detail=detail, part=part)
        )


def _commands(search: _Search) -> Iterator[Found]:
    for command in COMMANDS:
        rank = search.query.rank(command.name)
        if rank is not None:
            part = CommandPart(name=command.name)
            label, detail = f"/{command.name}", command.description
            item = m.ContextItem(kind="command", label=label, detail=detail, part=part)
            yield _rank_item(rank, item)


def _skills(search: _Search) -> Iterator[Found]:
    for skill in search.find_skills(search.params.conversation_id, search.folders):
        rank = search.query.rank(skill.name)
        if rank is not None and skill.problem is None and skill.kind != "always":
            part, detail = SkillPart(name=skill.name), skill.description
            item = m.ContextItem(kind="skill", label=skill.name, detail=detail, part=part)
            yield _rank_item(rank, item)


def _rank_item(rank: Rank, item: m.ContextItem) -> Found:
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
