"""`oh-daemon fleet`: works on many tasks, shows how far they are, and a table of how they ended."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import orjson
from msgspec.structs import replace
from pydantic_core import to_json
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from oh_daemon.common.amounts import render_usd
from oh_daemon.common.plain_text import display_escaped
from oh_daemon.frontends.cli.process import print_line
from oh_daemon.frontends.fleet.fleet import (
    FleetProgress,
    FleetRequest,
    folders_below,
    results_of,
    run_fleet,
    write_reports,
)
from oh_daemon.frontends.fleet.task_folder import TaskResult
from oh_daemon.protocol.errors import InvalidParamsError

_FAILED, _NEEDS_A_PERSON, _INTERRUPTED = 1, 3, 130
_MAX_SHOWN, _WIDE = 60, 250


def run(request: FleetRequest, start_engine: Callable[[], Executor]) -> int:
    """Run the fleet; return the exit code."""
    console = Console(stderr=True, highlight=False)
    n_done = len(results_of(folders_below(request.out)))
    if n_done:
        print_line(f"goes on in {request.out}, where {n_done} tasks have ended")
    try:
        progress = _watch_progress(request, start_engine, console)
    except KeyboardInterrupt:
        print_line("interrupted; the same command goes on")
        # Python would wait for the threads, which may be at work for hours. What they started ends
        # with this process, and what they have done is in the folder.
        os._exit(_INTERRUPTED)
    print_line(line_of_all(progress))
    if progress.n_waiting:
        print_line(
            f"{progress.n_waiting} tasks did not begin: --max-total leaves too little for them"
        )
    print_line(f"results are in {request.out / 'results.jsonl'}")
    all_passed = progress.n_by_status["passed"] == progress.total
    return _exit_code(all_passed=all_passed, needs_person=progress.needs_person)


def _exit_code(*, all_passed: bool, needs_person: bool) -> int:
    if not all_passed:
        return _FAILED
    return _NEEDS_A_PERSON if needs_person else 0


def _watch_progress(
    request: FleetRequest, start_engine: Callable[[], Executor], console: Console
) -> FleetProgress:
    with Live(console=console, auto_refresh=False, transient=True) as open_conversation:

        def show(progress: FleetProgress, result: TaskResult | None) -> None:
            if result is not None:
                console.print(Text(display_escaped(line_of(result))))
            if console.is_terminal:
                open_conversation.update(Text(line_of_all(progress)), refresh=True)

        return run_fleet(request, start_engine, show)


def line_of(result: TaskResult) -> str:
    """Return what is said of a task that has just ended, and a line for all that was not done."""
    mark = "✓" if result.status == "passed" else "✗"
    check = "" if result.check is None else f", check {result.check}"
    facts = f"{check}, {result.steps} steps, {_cost(result.cost_usd)}"
    return "\n  ".join((f"{mark} {result.id}: {result.reason}{facts}", *result.not_done))


def line_of_all(progress: FleetProgress) -> str:
    """Return how far the fleet is, in one line."""
    counts = ", ".join(f"{n} {status}" for status, n in sorted(progress.n_by_status.items()))
    now = (
        f", {progress.n_running} running, {progress.n_waiting} waiting"
        if progress.n_running
        else ""
    )
    seconds = time.monotonic() - progress.begin_s
    return (
        f"{progress.n_by_status.total()} of {progress.total} tasks: {counts or 'none yet'}{now}, "
        f"{_cost(progress.cost_usd, is_whole=progress.is_cost_known)}, {seconds:.0f} s"
    )


def report(what: str, out: Path | None, *, as_json: bool) -> int:
    """Print the table (`status`) or write the reports of all shards (`merge`)."""
    if out is None or not out.is_dir():
        raise InvalidParamsError(f"say which folder: oh-daemon fleet {what} DIR")
    return _merge(out) if what == "merge" else _print_status(out, as_json=as_json)


def _print_status(out: Path, *, as_json: bool) -> int:
    """Print a table of all tasks, also while they run; return the exit code."""
    table = Table(box=None)
    for name in ("task", "status", "check", "steps", "cost", "cut off", "why"):
        table.add_column(name, no_wrap=True)
    all_passed, needs_person = True, False
    for folder in folders_below(out):
        result, ledger = folder.result, folder.ledger
        row = result or TaskResult(
            id=folder.path.name, status="failed", reason="", steps=ledger.steps, n_cut=ledger.n_cut
        )
        status = result.status if result else "unfinished"
        all_passed &= status == "passed"
        needs_person |= row.needs_person
        if as_json:
            fields = {**orjson.loads(to_json(row)), "status": status}
            sys.stdout.buffer.write(orjson.dumps(fields) + b"\n")
            continue
        check = "" if row.check is None else str(row.check)
        cost = _cost(ledger.cost_usd, is_whole=ledger.is_cost_known)
        why = row.reason.replace("\n", " ")[:_MAX_SHOWN]
        words = (row.id, status, check, str(row.steps), cost, str(row.n_cut), why)
        table.add_row(*(Text(display_escaped(word)) for word in words))
    if not as_json:
        width = None if sys.stdout.isatty() else _WIDE
        Console(highlight=False, width=width).print(table)
    return _exit_code(all_passed=all_passed, needs_person=needs_person)


def _merge(out: Path) -> int:
    """Write the reports of all shards below the folder."""
    results = results_of(folders_below(out))
    write_reports(out, results)
    print_line(f"{len(results)} results are in {out / 'results.jsonl'}")
    return _exit_code(
        all_passed=all(result.status == "passed" for result in results),
        needs_person=any(result.needs_person for result in results),
    )


def shard_of(request: FleetRequest, shard: str) -> FleetRequest:
    """Return the part of the request that a shard such as `0/16` has, in a folder of its own."""
    index, _, count = shard.partition("/")
    out = request.out / f"shard-{index}-of-{count}"
    return replace(request, tasks=request.tasks[int(index) :: int(count)], out=out)


def _cost(amount: float | None, *, is_whole: bool = True) -> str:
    cost = render_usd(amount, is_whole=is_whole)
    return f"cost {cost}" if cost == "unknown" else cost
