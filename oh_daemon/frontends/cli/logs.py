"""`oh-daemon log`, `list`, `usage`, `export` and `fork`: they work on the logs of a folder."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from oh_daemon.common.amounts import render_cost
from oh_daemon.common.masking import Masker
from oh_daemon.common.plain_text import display_escaped
from oh_daemon.features.export.event_lines import EventPrinter, render_cached
from oh_daemon.features.export.export import Format, render_export
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import secret_values
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.records import fork_records
from oh_daemon.kernel.usage import Bill
from oh_daemon.protocol import plain
from oh_daemon.protocol.branches import ForkParams
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.storage.blobs import Blobs
from oh_daemon.storage.catalog import Catalog
from oh_daemon.storage.commit import CommitThread
from oh_daemon.storage.log_ownership import write_fork
from oh_daemon.storage.log_scan import LOG_NAME, parse_line, read_log
from oh_daemon.system.spawner import Spawner

_AT_WORK = frozenset({"running", "pausing", "interrupting"})


def print_log(folder: Path, start_of_id: str, *, as_json: bool, follow: bool) -> None:
    """Print a log; with `follow`, go on as it grows until Ctrl-C."""
    place = find_log(folder, start_of_id)
    print_records(_follow(place) if follow else read_log(place), as_json=as_json)


def print_records(records: Iterable[plain.Record], *, as_json: bool) -> None:
    printer = EventPrinter(Console(highlight=False))
    for record in records:
        if as_json:
            _print_json(record)
        else:
            printer.print(record)


def print_export(folder: Path, start_of_id: str, form: Format) -> None:
    """Print a conversation as one text, also while another process works on it."""
    place = find_log(folder, start_of_id)
    masker = Masker(secret_values(os.environ))
    read_blob = Blobs(place / "blobs").read
    text = render_export(place.name, read_log(place), form, masker=masker, read_blob=read_blob)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def print_fork(
    folder: Path, start_of_id: str, at_item: str | None, title: str | None, model: str | None
) -> None:
    """Begin a conversation with the first part of another, and print its id."""
    from oh_daemon.conversations.services import SystemClock  # noqa: PLC0415 - slow, and only for this.

    place, commit = find_log(folder, start_of_id), CommitThread()
    params = ForkParams(conversation_id=place.name, at_item_id=at_item, title=title)
    with InvalidParamsError.naming(atItemId="--at"):
        options = {"model": model} if model else {}
        fork_start = fork_records(read_log(place), params, SystemClock().now(), options)
    forked_id = write_fork(place, fork_start, commit, Places(os.environ).own_logs)
    commit.close()
    sys.stdout.write(f"{forked_id}\n")
    if model:
        print_line(f"to go on with {model}: oh-daemon run --resume {forked_id[:12]}")


def top_summaries(folder: Path) -> list[Json]:
    """Return the conversations of a folder without sub-agents, newest first."""
    rows = [
        {**summary, "status": _status(summary, catalog)}
        for catalog in catalogs_of(folder)
        for summary in catalog.summaries()
    ]
    return [each for each in rows if each.get("parentId") is None]


def print_list(folder: Path, *, as_json: bool, is_archived: bool) -> None:
    """Print one conversation per line, newest first; only those that are archived, or are not."""
    rows = top_summaries(folder)
    summaries = [each for each in rows if bool(each.get("archived")) == is_archived]
    if as_json:
        for summary in summaries:
            _print_json(summary)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("id", "updated", "status", "cost", "cached"):
        table.add_column(name, no_wrap=True)
    table.add_column("title", no_wrap=True, overflow="ellipsis")
    for summary in summaries:
        when = str(summary["updatedAt"])[:16].replace("T", " ")
        usage: Json = summary["usage"] or {}
        cost = render_cost(usage) if usage else ""
        columns = (summary["status"], cost, render_cached(usage), str(summary["title"]))
        table.add_row(*map(display_escaped, (summary["id"][:12], when, *columns)))
    Console(highlight=False, markup=False).print(
        table if summaries else "No conversations in this folder yet."
    )


def _status(summary: Json, catalog: Catalog) -> str:
    """Return the status of the log; `stopped` if its process is gone without having said so."""
    is_over = summary["status"] in _AT_WORK and not catalog.owner_of(summary["id"])
    return "stopped" if is_over else summary["status"]


def print_usage(folder: Path, since: str, *, as_json: bool) -> None:
    """Print what model calls used, by model and day; as JSON, in the form of `usage/read`."""
    bill = Bill(since)
    for record in (r for catalog in catalogs_of(folder) for r in catalog.usage_records()):
        bill.add(record)
    usage_by = bill.render()
    if as_json:
        _print_json(usage_by)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "requests", "tokens in", "cached", "tokens out", "cost"):
        table.add_column(name, no_wrap=True, justify="right" if name else "left")
    rows = [(row["model"], row["usage"]) for row in usage_by["byModel"]]
    rows += [(row["day"], row["usage"]) for row in usage_by["byDay"]]
    for name, usage in (*rows, ("all", usage_by["usage"])):
        table.add_row(display_escaped(name), *_cells(usage))
    Console(highlight=False, markup=False).print(table)


def _cells(usage: Json) -> tuple[str, ...]:
    counts = (f"{usage.get(key, 0):,}" for key in ("requests", "inputTokens"))
    cost = render_cost(usage)
    return (*counts, render_cached(usage), f"{usage.get('outputTokens', 0):,}", cost)


def _print_json(value: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
    sys.stdout.buffer.flush()


def _follow(place: Path) -> Iterator[plain.Record]:
    # Ctrl-C must end this even if a shell started it as a job that ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # `tail` waits until the system tells it that the file has grown; nothing here polls.
    output, write_end = os.pipe()
    spawner = Spawner()
    argv = ["tail", "-n", "+1", "-f", str(place / LOG_NAME)]
    last_seq = 0
    try:
        spawner.spawn(argv, cwd=place, env=os.environ, fds=[None, write_end, sys.stderr.fileno()])
        os.close(write_end)
        with open(output, "rb") as lines:  # noqa: PTH123 - a descriptor has no path.
            for line in lines:
                # A line that a crash cut off, or other damage, is no record.
                record = parse_line(line)
                if record is not None and "seq" in record and record["seq"] > last_seq:
                    last_seq = record["seq"]
                    yield record
    finally:
        spawner.close()


def catalogs_of(folder: Path) -> list[Catalog]:
    return [Catalog(folder / ".openhands"), Catalog(Places(os.environ).state_folder)]


def find_log(folder: Path, start_of_id: str) -> Path:
    """Return the folder of the log with this id, or the only one that begins like this."""
    catalogs = catalogs_of(folder)
    ids = [summary["id"] for catalog in catalogs for summary in catalog.summaries()]
    name = find_id(ids, start_of_id, folder)
    return next(place for catalog in catalogs if (place := catalog.find_folder(name)))


def find_id(ids: list[str], start: str, folder: Path) -> str:
    """Return this id, or the only one that begins like this. Raises `InvalidParamsError`."""
    matches = {name for name in ids if start and name.startswith(start)}
    if start in matches:
        return start
    if len(matches) == 1:
        return matches.pop()
    if not ids:
        raise InvalidParamsError(
            f"there are no conversations in {folder}; `-w` names the folder to look in"
        )
    message = "several conversations begin" if matches else "no conversation begins"
    raise InvalidParamsError(
        f"{message} with {start!r} in {folder}; `oh-daemon list -w {folder}` shows them"
    )
