"""Pages of a conversation's history, as events or items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import orjson
from msgspec import Struct

from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain

_PAGE_BYTES = 1 << 20
_LINES_AT_ONCE = 100


def replay(history: History, params: m.OpenParams) -> Json:
    """Return the history in the form that the client asked for. The caller holds the lock."""
    state = history.state
    edges: Json = {"firstSeq": 1, "lastSeq": state.seq, "hasMore": False}
    if params.replay == "items":
        items = state.items[-params.limit :]
        plan = _last_plan(state.items[: -params.limit])
        page = {**edges, "items": items, "hasMore": len(items) < len(state.items)}
        return page if plan is None else {**page, "plan": plan}
    if params.replay == "events":
        page = page_of_events(history.log.read_range, params, state.seq)
        return {**edges, "events": page.events, "firstSeq": page.first, "hasMore": page.is_cut}
    return edges


def _last_plan(items: Sequence[plain.Item]) -> plain.PlanItem | None:
    for item in reversed(items):
        if item["kind"] == "userMessage":
            return None
        if item["kind"] == "plan" and item["status"] == "completed" and item["entries"]:
            return item
    return None


ReadRange = Callable[[int, int], list[bytes]]


class EventPage(Struct, frozen=True):
    """Events that follow each other, but for those of other types than were asked for."""

    events: list[Json]
    first: int
    last: int
    is_cut: bool
    """Whether there are more events in the direction of reading."""


def page_of_events(
    read_range: ReadRange,
    params: m.OpenParams | m.EventsParams,
    last: int,
    types: Sequence[str] | None = None,
) -> EventPage:
    """Return the events after `params.after_seq`, or else the last ones.

    At most `params.limit` and 1 MiB, but one event even if it is larger.
    """
    backwards, first = params.after_seq is None, (params.after_seq or 0) + 1
    page: list[Json] = []
    size, is_cut = 0, False
    for line in _lines(read_range, first, last, backwards=backwards):
        record: Json = orjson.loads(line)
        if types and record["event"]["type"] not in types:
            continue
        size += len(line)
        if page and (len(page) == params.limit or size > _PAGE_BYTES):
            is_cut = True
            break
        page.append(record)
    # The next page goes on from the last event of a page that was cut.
    last_seq = page[-1]["seq"] if is_cut else None
    if backwards:
        return EventPage(page[::-1], last_seq or first, last, is_cut)
    return EventPage(page, first, last_seq or last, is_cut)


def _lines(read_range: ReadRange, first: int, last: int, *, backwards: bool) -> Iterator[bytes]:
    """Yield the lines of these events, reading them from the disk in batches."""
    starts = range(first, last + 1, _LINES_AT_ONCE)
    for start in reversed(starts) if backwards else starts:
        lines = read_range(start, min(start + _LINES_AT_ONCE - 1, last))
        yield from reversed(lines) if backwards else lines
