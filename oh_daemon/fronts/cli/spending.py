"""`oh-daemon usage`: what model calls in a folder took, by model and by day."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import orjson
from rich.console import Console
from rich.table import Table

from oh_daemon.core.bill import Bill
from oh_daemon.core.ports import Json
from oh_daemon.fronts.cli.render import render_cached
from oh_daemon.store.catalog import Catalog


def print_usage(catalogs: Iterable[Catalog], since: str, *, as_json: bool) -> None:
    """Print a table, or the result of `usage/read` as JSON."""
    bill = Bill(since)
    for catalog in catalogs:
        for record in catalog.usage_records():
            bill.add(record)
    found = bill.rendered()
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(found) + b"\n")
        sys.stdout.buffer.flush()
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "requests", "tokens in", "cached", "tokens out", "cost"):
        table.add_column(name, no_wrap=True, justify="right" if name else "left")
    rows = [(row["model"], row["usage"]) for row in found["byModel"]]
    rows += [(row["day"], row["usage"]) for row in found["byDay"]]
    for name, usage in (*rows, ("all", found["usage"])):
        table.add_row(name, *_cells(usage))
    Console(highlight=False, markup=False).print(table)


def _cells(usage: Json) -> tuple[str, ...]:
    counts = (f"{usage.get(key, 0):,}" for key in ("requests", "inputTokens"))
    cost = f"${usage['cost']['amount']:.2f}" if usage.get("cost") else "unknown"
    return (*counts, render_cached(usage), f"{usage.get('outputTokens', 0):,}", cost)
