"""The methods that show conversations: the list, items, events and outputs. They read the disk."""

from __future__ import annotations

from base64 import b64encode
from bisect import bisect_left, bisect_right
from codecs import getincrementaldecoder
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import orjson

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.description import describe, describe_state
from oh_daemon.conversations.history_pages import page_of_events
from oh_daemon.conversations.listing import describe_closed, line_in, page_of
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.jsonrpc.dispatch import RequestContext
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.serial import on_own_thread
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.state import State
from oh_daemon.protocol import daemon_messages as d
from oh_daemon.protocol import messages as m
from oh_daemon.protocol.errors import CursorInvalidError
from oh_daemon.protocol.summaries import ConversationInfo, ListParams, ListResult
from oh_daemon.workspace.paths import parse_folder


def conversation_list(
    daemon: Daemon, params: ListParams, context: RequestContext, folders: list[Path]
) -> Future[ListResult]:
    list_ = partial(_list, daemon, params, folders, context.cancel)
    # The first search of all texts may take minutes, and the workers have other things to do.
    return on_own_thread("search", list_) if params.texts else daemon.workers.submit(list_)


def _list(
    daemon: Daemon, params: ListParams, folders: list[Path], cancel: CancelToken
) -> ListResult:
    only = None if params.folder is None else parse_folder(params.folder, "folder")
    conversations = daemon.conversations
    homes = folders if only is None else [only]
    catalogs = conversations.catalogs(homes)

    def describe_listed(summary: Json) -> ConversationInfo:
        if (live := conversations.find_live(summary["id"])) is not None:
            return describe(live.conversation.journal)
        return describe_closed(summary, catalogs)

    def line_of(conversation_id: str, words: tuple[str, ...]) -> str | None:
        cancel.raise_if_cancelled()
        return line_in(catalogs, conversation_id, words)

    listed = conversations.listed(homes, params.parent_id)
    return page_of(listed, params, only, describe_listed, line_of)


def conversation_read(daemon: Daemon, params: m.ReadParams, folders: list[Path]) -> bytes:
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


def conversation_events(daemon: Daemon, params: m.EventsParams, folders: list[Path]) -> Json:
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
    page = page_of_events(read_range, params, end, params.types)
    edges = {"firstSeq": page.first, "lastSeq": page.last, "truncated": page.is_cut}
    return {"events": page.events, "epoch": epoch, **edges}


def output_read(history: History, params: d.OutputReadParams) -> d.OutputReadResult:
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
