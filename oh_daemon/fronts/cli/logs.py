"""`oh-daemon log` and `oh-daemon list`: what lies in a folder's logs, for people and programs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import orjson
import typer
from rich.console import Console
from rich.table import Table

from oh_daemon.contract.errors import ConversationNotFoundError
from oh_daemon.core.ports import Json
from oh_daemon.fronts.cli.render import render_record
from oh_daemon.fronts.places import Places
from oh_daemon.store.catalog import Catalog
from oh_daemon.store.log_scan import read_log

_LOOK_AGAIN_S = 0.2


def print_log(folder: Path, start_of_id: str, *, as_json: bool, follow: bool) -> None:
    """Print a log; with `follow`, go on as it grows until Ctrl-C."""
    place = _place(folder, start_of_id)
    shown = 0
    console = Console(highlight=False, soft_wrap=True)
    try:
        while True:
            for record in read_log(place):
                if record["seq"] > shown:
                    shown = record["seq"]
                    _print(record, console, as_json=as_json)
            if not follow:
                return
            time.sleep(_LOOK_AGAIN_S)
    except KeyboardInterrupt:
        return


def print_list(folder: Path, *, as_json: bool) -> None:
    """One conversation per line, newest first."""
    found = [summary for catalog in _catalogs(folder) for summary in catalog.summaries()]
    if as_json:
        for summary in found:
            sys.stdout.buffer.write(orjson.dumps(summary) + b"\n")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "updated", "status", "title"):
        table.add_column(name, no_wrap=name != "title")
    for summary in found:
        when = str(summary["updatedAt"])[:16].replace("T", " ")
        table.add_row(summary["id"][:12], when, summary["status"], str(summary["title"]))
    Console(highlight=False).print(table if found else "No conversations in this folder yet.")


def _print(record: Json, console: Console, *, as_json: bool) -> None:
    if as_json:
        typer.echo(orjson.dumps(record).decode())
        return
    for text in render_record(record):
        console.print(text)


def _catalogs(folder: Path) -> list[Catalog]:
    places = Places.of_user(dict(os.environ))
    return [Catalog(folder / ".openhands"), Catalog(places.state_folder)]


def _place(folder: Path, start_of_id: str) -> Path:
    """The log's folder, by an id or the start of one. Raises `ConversationNotFoundError`."""
    for catalog in _catalogs(folder):
        ids = [str(summary["id"]) for summary in catalog.summaries()]
        matching = [name for name in ids if name.startswith(start_of_id)]
        place = catalog.find(matching[0]) if len(matching) == 1 else catalog.find(start_of_id)
        if place is not None:
            return place
    raise ConversationNotFoundError(start_of_id)
