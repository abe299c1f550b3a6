"""The `conversation/*` methods that show: open, list, read and page through what happened.

None of them waits for the disk on the main loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from oh_daemon.contract import messages as m
from oh_daemon.contract.errors import CursorInvalidError
from oh_daemon.contract.items import Contract
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.ports import Json
from oh_daemon.fronts.conversations import describe, describe_state
from oh_daemon.fronts.lsp.daemon import Daemon, parse_folder, then
from oh_daemon.fronts.lsp.rpc import RequestContext
from oh_daemon.fronts.wiring import Live
from oh_daemon.workspace.paths import uri_from_path

_PAGE_BYTES = 1 << 20


def open_(daemon: Daemon, params: m.OpenParams, context: RequestContext) -> Any:
    conversation_id, folders = params.conversation_id, daemon.folders()
    opening = daemon.open_later(
        conversation_id, lambda: daemon.conversations.open(conversation_id, folders)
    )

    def opened(live: Live) -> bytes:
        conversation = live.conversation
        with conversation.changed:
            context.hold(conversation_id)
            daemon.publisher.subscribed.add(conversation_id)
            result = {
                "conversation": describe(conversation),
                "options": daemon.conversations.options_of(live),
                **_replay(conversation, params),
                "pending": list(conversation.state.approvals.values()),
                "queue": list(conversation.state.queue),
                "repaired": live.repaired,
            }
            for approval in conversation.state.approvals.values():
                daemon.publisher.asker.ask(conversation, approval)
            return _frozen(result)

    return then(opening, opened)


def _replay(conversation: Conversation, params: m.OpenParams) -> Json:
    """What happened so far, as the client asked for it. Called under the lock."""
    state = conversation.state
    edges: Json = {"firstSeq": 1, "lastSeq": state.seq, "hasMore": False}
    if params.replay == "items":
        shown = state.items[-params.limit :]
        return {**edges, "items": shown, "hasMore": len(shown) < len(state.items)}
    if params.replay == "events":
        after, backwards = params.after_seq, params.after_seq is None
        first = (max(state.seq - params.limit, 0) if after is None else after) + 1
        lines = conversation.log.read_range(first, first + params.limit - 1)
        page = _page(lines, backwards=backwards)
        begin, last = (page[0]["seq"], page[-1]["seq"]) if page else (first, first - 1)
        has_more = begin > 1 if backwards else last < state.seq
        return {**edges, "events": page, "firstSeq": begin, "hasMore": has_more}
    return edges


def list_(daemon: Daemon, params: m.ListParams, _context: RequestContext) -> Any:
    only = None if params.folder is None else parse_folder(params.folder, "folder")
    folders = daemon.folders() if only is None else [only]

    def work() -> m.ListResult:
        found = daemon.conversations.listed(folders)
        found = [i for i in found if only is None or uri_from_path(only) in i.folders]
        query = (params.query or "").casefold()
        found = [info for info in found if query in info.title.casefold()]
        first = 0
        if params.cursor is not None:
            ids = [info.id for info in found]
            if params.cursor not in ids:
                raise CursorInvalidError("the cursor is not of this list; list from the start")
            first = ids.index(params.cursor) + 1
        page = found[first : first + params.limit]
        more = first + len(page) < len(found)
        return m.ListResult(conversations=tuple(page), next_cursor=page[-1].id if more else None)

    return daemon.workers.submit(work)


def read(daemon: Daemon, params: m.ReadParams, _context: RequestContext) -> Any:
    folders = daemon.folders()

    def work() -> bytes:
        live = daemon.conversations.find_live(params.conversation_id)
        state, _, epoch = daemon.conversations.read(params.conversation_id, folders)
        end = len(state.items)
        if params.before is not None:
            if params.before not in state.positions:
                raise CursorInvalidError(f"no item {params.before!r} in this conversation")
            end = state.positions[params.before]
        items = state.items[max(end - params.limit, 0) : end]
        more = {"nextBefore": items[0]["id"]} if items and end > len(items) else {}
        info = describe_state(state, m.LockInfo(mine=live is not None), epoch)
        return _frozen({"conversation": info, "items": items, **more})

    return daemon.workers.submit(work)


def events(daemon: Daemon, params: m.EventsParams, _context: RequestContext) -> Any:
    folders = daemon.folders()

    def work() -> Json:
        live = daemon.conversations.find_live(params.conversation_id)
        if live is not None:
            with live.conversation.changed:
                last, epoch = live.conversation.state.seq, live.conversation.epoch
            first, end = _span(params, last)
            lines = live.conversation.log.read_range(first, end)
        else:
            state, records, epoch = daemon.conversations.read(params.conversation_id, folders)
            last = state.seq
            first, end = _span(params, last)
            lines = [orjson.dumps(record) for record in records if first <= record["seq"] <= end]
        page = _page(lines, backwards=params.after_seq is None)
        shown = [r for r in page if not params.types or r["event"]["type"] in params.types]
        reached = page[-1]["seq"] if page else end
        begin = page[0]["seq"] if page else first
        truncated = begin > 1 if params.after_seq is None else reached < last
        edges = {"firstSeq": begin, "lastSeq": reached}
        return {"events": shown, **edges, "epoch": epoch, "truncated": truncated}

    return daemon.workers.submit(work)


def _span(params: m.EventsParams, last: int) -> tuple[int, int]:
    """First and last seq of the page; without a place to start, the newest page."""
    if params.after_seq is not None:
        return params.after_seq + 1, min(params.after_seq + params.limit, last)
    end = min((params.before_seq or last + 1) - 1, last)
    return max(end - params.limit + 1, 1), end


def _frozen(result: Json) -> bytes:
    """JSON right now: the state's own dicts must not change under the writer."""
    return orjson.dumps(result, default=_dump)


def _dump(value: object) -> object:
    if isinstance(value, Contract):
        return value.model_dump(mode="json", exclude_none=True)
    raise TypeError(type(value).__name__)


def _page(lines: list[bytes], *, backwards: bool = False) -> list[Json]:
    """Parse lines up to 1 MiB, but at least one; the last ones when reading backwards."""
    page: list[Json] = []
    size = 0
    for line in reversed(lines) if backwards else lines:
        size += len(line)
        if page and size > _PAGE_BYTES:
            break
        page.append(orjson.loads(line))
    return page[::-1] if backwards else page


HANDLERS: dict[str, Callable[[Daemon, Any, RequestContext], Any]] = {
    "conversation/open": open_,
    "conversation/list": list_,
    "conversation/read": read,
    "conversation/events": events,
}
