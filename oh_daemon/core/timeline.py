"""Reads what still counts in a log: its records without those that a rollback undid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oh_daemon.contract import plain


def standing(records: Iterable[plain.Record]) -> list[plain.Record]:
    """Return the records that no later `conversation.rolledBack` has undone."""
    kept: list[plain.Record] = []
    for record in records:
        if record["event"]["type"] == "conversation.rolledBack":
            while kept and kept[-1]["seq"] > record["event"]["toSeq"]:
                kept.pop()
        kept.append(record)
    return kept


def told(records: Iterable[plain.Record]) -> Iterator[plain.Item | plain.Turn]:
    """Yield the ended items and turns in order, without items of attempts that were retried."""
    for record in standing(records):
        event = record["event"]
        if event["type"] == "turn.completed":
            yield event["turn"]
        elif event["type"] == "item.completed" and event["item"].get("reason") != "retried":
            yield event["item"]


def begin_of_message(records: Iterable[plain.Record], item_id: str) -> int:
    """Return the seq of the last event before a message, or before the turn that it started.

    Raises `LookupError` for an unknown message.
    """
    begin = 0
    for record in records:
        kind = record["event"]["type"]
        if kind == "turn.started":
            begin = record["seq"] - 1
        elif kind.startswith("item.") and record.get("itemId") == item_id:
            return begin or record["seq"] - 1
        elif kind.startswith("item."):
            begin = 0
    raise LookupError(item_id)


def begin_of_item(records: Iterable[plain.Record], item_id: str) -> int:
    """Return the seq of the last event before an item."""
    return next(r["seq"] - 1 for r in records if r.get("itemId") == item_id)
