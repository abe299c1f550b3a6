"""The methods that open and show conversations: the list, items, events and outputs.

None of them waits for the disk on the main loop.
"""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_left, bisect_right
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from oh_daemon.app.description import describe, describe_state
from oh_daemon.app.following import Followed
from oh_daemon.app.listing import describe_closed, page_of
from oh_daemon.app.live import Live
from oh_daemon.app.sub_agents import sub_agents_of
from oh_daemon.contract import daemon_messages as d
from oh_daemon.contract import messages as m
from oh_daemon.contract.errors import CursorInvalidError
from oh_daemon.contract.summaries import ConversationInfo, ListParams, ListResult
from oh_daemon.core.journal import History
from oh_daemon.core.ports import Json
from oh_daemon.core.state import State
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_journal, on_worker
from oh_daemon.fronts.lsp.folder_names import parse_folder
from oh_daemon.fronts.wire.dispatch import RequestContext
from oh_daemon.fronts.wire.framing import encode

_PAGE_BYTES = 1 << 20
_LINES_AT_ONCE = 100


def open_(daemon: Daemon, params: m.OpenParams, context: RequestContext) -> Any:
    conversation_id, folders = params.conversation_id, daemon.folders()
    conversations, publisher = daemon.conversations, daemon.publisher
    daemon.client_tools.take(conversation_id, params.client_tools)

    def opened(found: Live | Followed) -> Future[bytes]:
        history = found.conversation.journal if isinstance(found, Live) else found
        asking = [history, *sub_agents_of(conversations, conversation_id)]
        with history.changed:
            result = {
                "conversation": describe(history),
                "options": conversations.options_of(history),
                **_replay(history, params),
                "pending": [each for own in asking for each in own.state.pending.values()],
                "queue": history.state.queue,
                "repaired": found.repaired,
            }
            # Encode now, under the lock: the state's own dicts change later.
            answer = context.in_order(conversation_id, encode(result))
            publisher.subscribe(history)
            return answer

    def over(followed: Followed) -> None:
        daemon.serial.run(conversation_id, lambda: closed_elsewhere(followed))

    def closed_elsewhere(followed: Followed) -> None:
        # This daemon may have opened it meanwhile.
        if conversations.find_live(conversation_id) is None:
            publisher.on_over(followed)

    return daemon.serial.run(
        conversation_id,
        lambda: conversations.open_or_follow(conversation_id, folders, over),
        opened,
    )


def _replay(history: History, params: m.OpenParams) -> Json:
    """Return the history in the form that the client asked for. The caller holds the lock."""
    state = history.state
    edges: Json = {"firstSeq": 1, "lastSeq": state.seq, "hasMore": False}
    if params.replay == "items":
        shown = state.items[-params.limit :]
        return {**edges, "items": shown, "hasMore": len(shown) < len(state.items)}
    if params.replay == "events":
        page = _page(history.log.read_range, params, state.seq)
        return {**edges, "events": page.events, "firstSeq": page.first, "hasMore": page.is_cut}
    return edges


def list_(daemon: Daemon, params: ListParams, folders: list[Path]) -> ListResult:
    only = None if params.folder is None else parse_folder(params.folder, "folder")
    conversations = daemon.conversations
    homes = folders if only is None else [only]
    catalogs = conversations.catalogs(homes)

    def describe_listed(summary: Json) -> ConversationInfo:
        if (live := conversations.find_live(summary["id"])) is not None:
            return describe(live.conversation.journal)
        return describe_closed(summary, catalogs)

    return page_of(conversations.listed(homes, params.parent_id), params, only, describe_listed)


def read(daemon: Daemon, params: m.ReadParams, folders: list[Path]) -> bytes:
    history = daemon.conversations.find_history(params.conversation_id)
    if history is None:
        state, _, epoch = daemon.conversations.read(params.conversation_id, folders)
        info = describe_state(state, lock={"mine": False}, epoch=epoch)
        return _items_before(params, state, info)
    # Folding the log again for each page would take as long as all of the pages together.
    with history.changed:
        return _items_before(params, history.state, describe(history))


def _items_before(params: m.ReadParams, state: State, info: ConversationInfo) -> bytes:
    end = len(state.items)
    if params.before is not None:
        if params.before not in state.positions:
            raise CursorInvalidError(f"no item {params.before!r} in this conversation")
        end = state.positions[params.before]
    items = state.items[max(end - params.limit, 0) : end]
    more = {"nextBefore": items[0]["id"]} if items and end > len(items) else {}
    return encode({"conversation": info, "items": items, **more})


def events(daemon: Daemon, params: m.EventsParams, folders: list[Path]) -> Json:
    history = daemon.conversations.find_history(params.conversation_id)
    if history is not None:
        with history.changed:
            last, epoch = history.state.seq, history.epoch
        read_range = history.log.read_range
    else:
        state, records, epoch = daemon.conversations.read(params.conversation_id, folders)
        last, seqs = state.seq, [record["seq"] for record in records]

        def read_range(first_seq: int, last_seq: int) -> list[bytes]:
            found = slice(bisect_left(seqs, first_seq), bisect_right(seqs, last_seq))
            return [orjson.dumps(record) for record in records[found]]

    end = min((params.before_seq or last + 1) - 1, last)
    page = _page(read_range, params, end, params.types)
    edges = {"firstSeq": page.first, "lastSeq": page.last, "truncated": page.is_cut}
    return {"events": page.events, "epoch": epoch, **edges}


@on_journal
def output_read(
    daemon: Daemon, history: History, params: d.OutputReadParams, _context: RequestContext
) -> Future[d.OutputReadResult]:
    def work() -> d.OutputReadResult:
        log = history.log
        total, offset = log.blob_size(params.output_ref), params.offset
        # No character is longer than four bytes, so a piece is never empty before the end.
        data = log.read_blob(params.output_ref, offset, max(params.limit, 4))
        end = min(offset + len(data), total)
        if params.encoding == "base64":
            text = b64encode(data).decode()
            return d.OutputReadResult(text=text, next_offset=end, total=total)
        decoder = getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final=end == total)
        # A character that the limit cuts in two comes with the next piece.
        end -= len(decoder.getstate()[0])
        return d.OutputReadResult(text=text, next_offset=end, total=total)

    return daemon.workers.submit(work)


ReadRange = Callable[[int, int], list[bytes]]


@dataclass(frozen=True, slots=True)
class _Page:
    events: list[Json]
    first: int
    last: int
    is_cut: bool
    """Whether there are more events in the direction of reading."""


def _page(
    read_range: ReadRange,
    wanted: m.OpenParams | m.EventsParams,
    last: int,
    types: Sequence[str] | None = None,
) -> _Page:
    """Return the events after `wanted.after_seq`, or else the last ones.

    At most `wanted.limit` and 1 MiB, but one event even if it is larger.
    """
    backwards, first = wanted.after_seq is None, (wanted.after_seq or 0) + 1
    page: list[Json] = []
    size, is_cut = 0, False
    for line in _lines(read_range, first, last, backwards=backwards):
        record: Json = orjson.loads(line)
        if types and record["event"]["type"] not in types:
            continue
        size += len(line)
        if page and (len(page) == wanted.limit or size > _PAGE_BYTES):
            is_cut = True
            break
        page.append(record)
    # The next page goes on from the last event of a page that was cut.
    reached = page[-1]["seq"] if is_cut else None
    if backwards:
        return _Page(page[::-1], reached or first, last, is_cut)
    return _Page(page, first, reached or last, is_cut)


def _lines(read_range: ReadRange, first: int, last: int, *, backwards: bool) -> Iterator[bytes]:
    """Yield the lines of these events, reading them from the disk in batches."""
    starts = range(first, last + 1, _LINES_AT_ONCE)
    for start in reversed(starts) if backwards else starts:
        lines = read_range(start, min(start + _LINES_AT_ONCE - 1, last))
        yield from reversed(lines) if backwards else lines


HANDLERS: dict[str, Handler] = {
    "conversation/open": open_,
    "conversation/list": on_worker(list_),
    "conversation/read": on_worker(read),
    "conversation/events": on_worker(events),
    "output/read": output_read,
}
