"""Lists of conversations from the summaries beside their logs; none is opened for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from oh_daemon.contract.errors import CursorInvalidError
from oh_daemon.contract.summaries import ConversationInfo, ListParams, ListResult
from oh_daemon.store.catalog import Catalog
from oh_daemon.workspace.paths import uri_from_path

Json = dict[str, Any]


def catalogs_of(folders: Sequence[Path], user_folder: Path) -> list[Catalog]:
    """Return the catalogs where logs may be; a new log goes into the first."""
    homes = dict.fromkeys([*(folder / ".openhands" for folder in folders), user_folder])
    return [Catalog(home) for home in homes]


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
) -> ListResult:
    """Return the page that is asked for, of the conversations in folder `only`, if one is named."""
    query = (params.query or "").casefold()
    fitting = [
        summary
        for summary in summaries
        if (only is None or uri_from_path(only) in summary["folders"])
        and query in summary["title"].casefold()
        and summary["archived"] == params.archived
    ]
    first = 0
    if params.cursor is not None:
        ids = [summary["id"] for summary in fitting]
        if params.cursor not in ids:
            raise CursorInvalidError("the cursor is not of this list; list from the start")
        first = ids.index(params.cursor) + 1
    page = fitting[first : first + params.limit]
    more = first + len(page) < len(fitting)
    return ListResult(
        conversations=tuple(describe(summary) for summary in page),
        next_cursor=page[-1]["id"] if more else None,
    )


def describe_closed(summary: Json, homes: Iterable[Catalog]) -> ConversationInfo:
    """Describe a conversation that is not open here, from its summary in one of `homes`."""
    own = (home for home in homes if home.find(summary["id"]))
    owner = next((home.owner_of(summary["id"]) for home in own), dict[str, Any]())
    lock = {"mine": False, "pid": owner.get("pid")}
    return ConversationInfo.model_validate({**summary, "lock": lock})
