"""Plans what a condensation leaves out, and renders what a summary is made of. Pure.

Cuts are only between whole model answers, so each call keeps its result and thinking stays with its
answer. The user's first and latest messages are always kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.plain_text import shorten
from oh_daemon.kernel.context import (
    HistoryCut,
    find_batches,
    find_cut,
    is_message,
    render_batch,
    render_cut,
    size_of,
)
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import plain

_ENOUGH = 0.6
"""Pruning must bring the conversation down to this share of its present size."""
_SHARE_OF_LAST_STEPS = 0.25
"""Share of the present size for the last steps, which stay word for word."""
_WORTH_PRUNING = 2_000
_WORTH_A_SUMMARY = 0.2
"""Share of the present size, in what a summary stands for, that makes it worth a model call."""
_LEAST_SHOWN = 600
"""Characters of a result that are shown however little room there is."""
_CAPS = (8_000, 2_000, 500, 120)
"""Limits of one result in the text to summarize, in characters; tried until all of it fits."""


class CondensationPlan(Struct, frozen=True):
    """A cut to make, and the items before it that a summary must cover."""

    history_cut: HistoryCut
    dropped_items: Sequence[plain.Item] = ()
    earlier: str | None = None
    """The previous summary, which the new one must include."""


def plan_pruning(items: Sequence[plain.Item], view_chars: float) -> CondensationPlan | None:
    """Plan to leave out long results of older steps, failures only if successes are not enough.

    None when that makes too little room.
    """
    history_cut = find_cut(items)
    batches = _batches(items, history_cut)
    old = [item for batch in batches[: _n_old(batches, view_chars)] for item in batch.items]
    long = [item for item in old if _result_size(item) > _WORTH_PRUNING]
    for candidates in ([item for item in long if not _has_failed(item)], long):
        new_cut = replace(
            history_cut, pruned_ids=history_cut.pruned_ids.union(item["id"] for item in candidates)
        )
        if new_cut != history_cut and _size_after(new_cut, items) <= _ENOUGH * view_chars:
            return CondensationPlan(new_cut)
    return None


def plan_cut(
    items: Sequence[plain.Item],
    view_chars: float,
    *,
    share: float = _SHARE_OF_LAST_STEPS,
    worth: float = _WORTH_A_SUMMARY,
) -> CondensationPlan | None:
    """Plan to keep the last steps only, which have at most this share of the present size.

    None when there is nothing before them, or not enough that it is worth a summary.
    """
    history_cut = find_cut(items)
    batches = _batches(items, history_cut)
    n_old = _n_old(batches, view_chars, share)
    if n_old == 0:
        return None
    later = replace(history_cut, start=batches[n_old].start)
    if view_chars - _size_after(later, items) < worth * view_chars:
        return None
    stays = {item["id"] for item in items[later.start :]}
    limits = {name: limit for name, limit in history_cut.limits.items() if name in stays}
    longer_cut = HistoryCut(
        later.start, history_cut.pruned_ids & stays, None, limits, history_cut.window
    )
    return CondensationPlan(longer_cut, items[history_cut.start : later.start], history_cut.summary)


def plan_excerpts(items: Sequence[plain.Item], excess: int, window: int) -> CondensationPlan | None:
    """Plan to show so many characters less of the last answer's results, which share what is left.

    None when they are as short as they can be.
    """
    history_cut = find_cut(items)
    answers = (
        b.items for b in reversed(_batches(items, history_cut)) if any(map(is_tool_item, b.items))
    )
    results = {item["id"]: _result_size(history_cut.excerpt(item)) for item in next(answers, ())}
    if not results:
        return None
    limit = max(_LEAST_SHOWN, _fair_share([*results.values()], sum(results.values()) - excess))
    limits = {name: limit for name, size in results.items() if size > limit}
    limits = {**history_cut.limits, **limits}
    return (
        CondensationPlan(replace(history_cut, limits=limits, window=window))
        if limits != history_cut.limits
        else None
    )


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """Return the most that each may have so that all fit; what a small one leaves, others get."""
    sorted_sizes = sorted(sizes)
    while sorted_sizes and sorted_sizes[0] * len(sorted_sizes) <= room:
        room -= sorted_sizes.pop(0)
    return room // len(sorted_sizes) if sorted_sizes else max(sizes)


class _Batch(Struct, frozen=True):
    """A model answer with its results, or one message."""

    start: int
    items: Sequence[plain.Item]
    size: int


def _batches(items: Sequence[plain.Item], history_cut: HistoryCut) -> list[_Batch]:
    """Return the batches that the cut keeps, without those that add nothing to a request."""
    batches: list[_Batch] = []
    for first, end in find_batches(items, history_cut.start):
        text = render_batch([history_cut.excerpt(item) for item in items[first:end]])
        batches.append(_Batch(first, items[first:end], sum(map(size_of, text))))
    return [batch for batch in batches if batch.size]


def _n_old(
    batches: Sequence[_Batch], view_chars: float, share: float = _SHARE_OF_LAST_STEPS
) -> int:
    """Return how many batches precede the tail to keep: what fits that share.

    At least the last answer is kept, with what was said after it: its results were not sent yet.
    """
    totals = accumulate(batch.size for batch in reversed(batches))
    n_fitting = sum(total <= share * view_chars for total in totals)
    words = {"userMessage", "notice"}
    answers = [n for n, batch in enumerate(batches) if batch.items[0]["kind"] not in words]
    return min(len(batches) - n_fitting, *answers[-1:], max(0, len(batches) - 1))


def _size_after(history_cut: HistoryCut, items: Sequence[plain.Item]) -> int:
    return sum(map(size_of, render_cut(history_cut, items)))


def _result_size(item: plain.Item) -> int:
    if not is_tool_item(item):
        return 0
    return sum(len(str(part.get("text", ""))) for part in item.get("content", ()))


def _has_failed(item: plain.Item) -> bool:
    return item["status"] != "completed" or item.get("exitCode") not in {None, 0}


def render_transcript(
    items: Sequence[plain.Item], limit_chars: int, *, earlier: str | None = None
) -> str:
    """Render items as text for a model, with results shortened until all of it fits."""
    text = ""
    for cap in _CAPS:
        rows = [f"[summary of what came before]\n{earlier}"] if earlier else []
        rows += [line for item in items if (line := _summary_row(item, cap))]
        text = "\n\n".join(rows)
        if len(text) <= limit_chars:
            break
    return shorten(text, limit_chars)


def _summary_row(item: plain.Item, cap: int) -> str:
    if is_message(item):
        return f"[user]\n{shorten(str(render_batch([item])[0]['content']), cap)}"
    if item["kind"] == "agentMessage":
        return f"[agent]\n{shorten(item.get('text', ''), cap)}"
    if is_tool_item(item):
        result = "\n".join(str(part.get("text", "")) for part in item.get("content", ()))
        call_text = f"{item['tool']} {shorten(item['call']['arguments'], cap)}"
        return f"[{call_text}]\n{item['status']}: {shorten(result, cap)}"
    return ""
