"""Lists of conversations from the summaries beside their logs; none is opened for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from oh_daemon.protocol.errors import CursorInvalidError
from oh_daemon.protocol.summaries import ConversationInfo, ListParams, ListResult
from oh_daemon.storage.catalog import Catalog
from oh_daemon.storage.search_index import IndexEntry
from oh_daemon.workspace.paths import uri_from_path

Json = dict[str, Any]


def catalogs_of(
    folders: Sequence[Path], user_folder: Path, entries: dict[str, IndexEntry]
) -> list[Catalog]:
    """Return the catalogs where logs may be; a new log goes into the first.

    `entries` is what the process remembers of logs from one list to the next.
    """
    homes = dict.fromkeys([*(folder / ".openhands" for folder in folders), user_folder])
    return [Catalog(home, entries) for home in homes]


def list_summaries(
    catalogs: Iterable[Catalog], parent_id: str | None, open_here: Iterable[Json] = ()
) -> list[Json]:
    """Return summaries of top-level (or a parent's) conversations, newest first.

    `open_here` are newer than what the catalogs have.
    """
    by_id = {summary["id"]: summary for summary in open_here}
    for catalog in catalogs:
        by_id |= {summary["id"]: summary for summary in catalog.summaries(by_id)}
    children = (summary for summary in by_id.values() if summary["parentId"] == parent_id)
    return sorted(children, key=lambda summary: str(summary["updatedAt"]), reverse=True)


def page_of(
    summaries: Iterable[Json],
    params: ListParams,
    only: Path | None,
    describe: Callable[[Json], ConversationInfo],
    line_of: Callable[[str, tuple[str, ...]], str | None],
) -> ListResult:
    """Return the page that is asked for, of the conversations in folder `only`, if one is named.

    `line_of` finds the line of a conversation with words that are not in its title.
    """
    rows = [
        summary
        for summary in summaries
        if (only is None or uri_from_path(only) in summary["folders"])
        and summary["archived"] == params.archived
    ]
    first = 0
    if params.cursor is not None:
        ids = [summary["id"] for summary in rows]
        if params.cursor not in ids:
            raise CursorInvalidError("the cursor is not of this list; list from the start")
        first = ids.index(params.cursor) + 1
    query = (params.query or "").casefold()
    words = tuple(dict.fromkeys(query.split()))
    matches: dict[str, str] = {}

    def fits(summary: Json) -> bool:
        title = summary["title"].casefold()
        if not params.texts:
            return query in title
        other_words = tuple(word for word in words if word not in title)
        line = line_of(summary["id"], other_words) if other_words else None
        if line is not None:
            matches[summary["id"]] = line
        return line is not None or not other_words

    # The rest is not looked at, since a text takes longer than a title.
    fitting = list(islice(filter(fits, rows[first:]), params.limit + 1))
    page = fitting[: params.limit]
    return ListResult(
        conversations=tuple(describe(summary) for summary in page),
        matches=matches if params.texts else None,
        next_cursor=page[-1]["id"] if len(fitting) > len(page) else None,
    )


def line_in(
    catalogs: Sequence[Catalog], conversation_id: str, words: tuple[str, ...]
) -> str | None:
    """Return the line of a listed conversation that has most of the words, if it has all."""
    lines = (catalog.line_with(conversation_id, words) for catalog in catalogs)
    return next((line for line in lines if line is not None), None)


def describe_closed(summary: Json, homes: Iterable[Catalog]) -> ConversationInfo:
    """Describe a conversation that is not open here, from its summary in one of `homes`."""
    own = (home for home in homes if home.find_folder(summary["id"]))
    owner = next((home.owner_of(summary["id"]) for home in own), dict[str, Any]())
    lock = {"mine": False, "pid": owner.get("pid")}
    return ConversationInfo.model_validate({**summary, "lock": lock})
