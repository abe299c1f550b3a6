"""How light the daemon is: start, steps, memory, many conversations, floods, beside a floor.

`make bench BENCH_ARGS="light"` prints a Markdown table; `--before=FOLDER` adds a column for the
code of an older clone, measured in turn with ours; more words select measurements by name.
`docs/performance.md` keeps the table. Asserts nothing.
"""

from __future__ import annotations

import math
import os
import pty
import random
import re
import statistics
import sys
import tempfile
import threading
import time
import tty
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
from long_log import repeat_turn
from peers import TELL, Driver, Model, Peer, median, peers, run_driver

Found = Iterator[tuple[str, float]]
_WRITE = re.compile(r"(write|fsync|fdatasync)\(\d+<([^>]*)>(?:, .*, (\d+))?(?:\)| <unf)")
EVENTS_PER_STEP = 5
FLOOD_BYTES = 20_000_000
N_MANY = 100
FLOODS = {
    "short lines": b"x" * 98 + b"\n",
    "one line": b"x",
    "NUL bytes": b"\0",
    "NUL after each letter": b"a\0",
    "colored words": b"\x1b[31mred\x1b[0m\n",
    "a progress bar": b"\r 50 %",
    "overstrikes": b"a\x08a",
    "UTF-8 of 4 bytes": "\N{PARTY POPPER}".encode() * 24 + b"\n",
    "invalid UTF-8": b"\xff",
}
ROWS: dict[str, tuple[str, str]] = {
    "spawn to `initialize` answered": ("ms", "< 45"),
    "spawn to first `conversation/list` answered": ("ms", "< 150"),
    "spawn to first request at the model": ("ms", "< 150"),
    "first message to its request, 1 s after `initialize`": ("ms", "< 40"),
    "reopen 1,000 steps": ("ms", "< 60"),
    "first message to its request, after reopening": ("ms", ""),
    "open 100,000 events": ("ms", "< 300"),
    "own time of a step near 10": ("ms", "< 6"),
    "own time of a step near 1,000": ("ms", ""),
    "own time of a step near 3,000": ("ms", "< 1.5 x near 10"),
    "CPU of a step near 10": ("ms", ""),
    "CPU of a step near 1,000": ("ms", ""),
    "CPU of a step near 3,000": ("ms", ""),
    "interrupt to command dead": ("ms", "< 12"),
    f"{N_MANY} conversations x 5 steps": ("s", ""),
    f"{N_MANY} conversations x 5 steps, CPU": ("s", ""),
    f"`daemon/status` while {N_MANY} conversations work, p50": ("ms", ""),
    f"`daemon/status` while {N_MANY} conversations work, p99": ("ms", "< 100"),
    "memory after `initialize`": ("MB", "< 47"),
    "memory after the first turn": ("MB", ""),
    "memory after 1,000 steps": ("MB", "< 79"),
    "memory of each further idle conversation": ("MB", ""),
    "memory of its processes, shared pages divided": ("MB", ""),
    "processes of each idle conversation": ("", ""),
    "threads of each idle conversation": ("", ""),
    "log of a step": ("B", ""),
    "syncs of a step": ("", ""),
    "log of an answer of 2,000 characters in 2 s": ("B", ""),
    "beside the log while it streams": ("B", ""),
    "writes beside the log while it streams": ("", ""),
    "syncs of that answer": ("", ""),
    **{f"CPU of 100 MB of output: {name}": ("s", "") for name in FLOODS},
}


def main(arguments: list[str]) -> None:
    before = next((a.partition("=")[2] for a in arguments if a.startswith("--before=")), None)
    words = [a for a in arguments if not a.startswith("--")]
    measures = [m for m in MEASURES if not words or any(word in m.__name__ for word in words)]
    peer_list = peers(Path(before) if before else None)
    times_by_peer: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for measure in measures:
        for _ in range(N_ROUNDS.get(measure.__name__, 1)):
            for peer in peer_list:
                sys.stderr.write(f"measuring {measure.__name__} of {peer.name} …\n")
                _measure(measure, peer, times_by_peer)
    print(render(times_by_peer, [peer.name for peer in peer_list]))


def _measure(
    measure: Callable[[Peer, Path, Model], Found],
    peer: Peer,
    times_by_peer: dict[str, dict[str, list[float]]],
) -> None:
    model = Model()
    try:
        with tempfile.TemporaryDirectory(prefix="oh-light-", ignore_cleanup_errors=True) as place:
            for name, value in measure(peer, Path(place), model):
                times_by_peer[name][peer.name].append(value)
    finally:
        model.close()


def render(times_by_peer: dict[str, dict[str, list[float]]], names: list[str]) -> str:
    titles = {"floor": "floor, same run"}
    lines = [f"| figure | goal | {' | '.join(titles.get(name, name) for name in names)} |"]
    lines.append("|---|---|" + "---|" * len(names))
    for row, (unit, goal) in ROWS.items():
        if row in times_by_peer:
            values = " | ".join(_cell(times_by_peer[row][name], unit) for name in names)
            lines.append(f"| {row} | {goal and f'{goal} {unit}'.strip()} | {values} |")
    return "\n".join(lines)


def _cell(values: list[float], unit: str) -> str:
    value = median(values)
    if math.isnan(value):
        return ""
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 1
    return f"{value:,.{min(digits, 2)}f} {unit}".strip()


def start(peer: Peer, place: Path, model: Model) -> Found:
    # The first start of a home also makes its files and tests the sandbox.
    with run_driver(peer, place, model) as at:
        at.ask("daemon/status", {})
    with run_driver(peer, place, model) as at:
        yield "spawn to `initialize` answered", _since_ms(at.start_s, at.answers[1][0])
        at.ask("conversation/list", {})
        yield "spawn to first `conversation/list` answered", _since_ms(at.start_s)
    with run_driver(peer, place, model) as at:
        at.start("do 0: true")
        [(arrival_s, _)] = model.times(1)
        yield "spawn to first request at the model", _since_ms(at.start_s, arrival_s)
        at.wait_for_turns(1)
    model.forget()
    with run_driver(peer, place, model) as at:
        time.sleep(1)
        yield "memory after `initialize`", at.rss_mb
        _, sent_s = at.start("do 1: true")
        arrival_s = model.times(1)[0][0]
        name = "first message to its request, 1 s after `initialize`"
        yield name, _since_ms(sent_s, arrival_s)
        at.wait_for_turns(1)
        time.sleep(0.5)
        yield "memory after the first turn", at.rss_mb


def steps(peer: Peer, place: Path, model: Model) -> Found:
    """A long conversation is a log with its only turn repeated, then continued."""
    with run_driver(peer, place, model) as at:
        request_id, _ = at.start("do 40: true")
        conversation_id = at.started_id(request_id)
        at.wait_for_turns(1)
        yield from _steps_near("10", at, model, at.cpu_s, first=5)
    for n in (1000, 3000):
        if peer.is_floor:
            [log] = (place / "home/least").glob("*.jsonl")
            _repeat_lines(log, 2 * n)
        else:
            [log] = (place / "project").glob(".openhands/conversations/*/events.jsonl")
            repeat_turn(log, n * EVENTS_PER_STEP)
        model.forget()
        with run_driver(peer, place, model) as at:
            params = {"conversationId": conversation_id, "replay": "none"}
            opened_ms = at.ask_s("conversation/open", params) * 1000
            sent_s = at.say(conversation_id, "do 40: true")
            arrival_s = model.times(1)[0][0]
            model.times(8)
            cpu_s = at.cpu_s
            at.wait_for_turns(1)
            if n == 1000:
                yield "reopen 1,000 steps", opened_ms
                name = "first message to its request, after reopening"
                yield name, _since_ms(sent_s, arrival_s)
                yield "memory after 1,000 steps", at.rss_mb
            yield from _steps_near(f"{n:,}", at, model, cpu_s, first=8)


def _steps_near(near: str, at: Driver, model: Model, cpu_s: float, *, first: int) -> Found:
    times = model.times()
    own = [(after[0] - before[1]) * 1000 for before, after in pairwise(times[first:])]
    yield f"own time of a step near {near}", median(own)
    if near != "10":
        yield f"CPU of a step near {near}", (at.cpu_s - cpu_s) * 1000 / (len(times) - first)
        return
    at.say(next(iter(_ids(at))), "do 40: true")
    at.wait_for_turns(2)
    yield "CPU of a step near 10", (at.cpu_s - cpu_s) * 1000 / 41


def _ids(at: Driver) -> Iterator[str]:
    for _, message in list(at.answers.values()):
        if "conversation" in message["result"]:
            yield message["result"]["conversation"]["id"]


def _repeat_lines(log: Path, n_lines: int) -> None:
    # Whole turns only: no provider takes a conversation that ends with an unanswered call.
    turns = log.read_bytes()
    log.write_bytes(turns * max(1, n_lines // turns.count(b"\n")))


def long(peer: Peer, place: Path, model: Model) -> Found:
    with run_driver(peer, place, model) as at:
        conversation_id = at.started_id(at.start("do 20: true")[0])
        at.wait_for_turns(1)
    if peer.is_floor:
        [log] = (place / "home/least").glob("*.jsonl")
        _repeat_lines(log, 2 * 100_000 // EVENTS_PER_STEP)
    else:
        [log] = (place / "project").glob(".openhands/conversations/*/events.jsonl")
        repeat_turn(log, 100_000)
    with run_driver(peer, place, model) as at:
        at.ask("daemon/status", {})
        params = {"conversationId": conversation_id, "replay": "none"}
        yield "open 100,000 events", at.ask_s("conversation/open", params) * 1000


def interrupt(peer: Peer, place: Path, model: Model) -> Found:
    with run_driver(peer, place, model) as at:
        for n in range(10):
            conversation_id = at.started_id(at.start("do 1: sleep 1000")[0])
            sleep = _sleep_of(at)
            params = {"conversationId": conversation_id}
            _, sent_s = at.send("conversation/interrupt", params)
            while sleep.is_running() and sleep.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.0002)
            if n:
                yield "interrupt to command dead", _since_ms(sent_s)


def _sleep_of(at: Driver) -> psutil.Process:
    while True:
        for child in at.usage.children(recursive=True):
            try:
                if child.name() == "sleep" and child.status() == psutil.STATUS_SLEEPING:
                    return child
            except psutil.NoSuchProcess:
                continue


def many(peer: Peer, place: Path, model: Model) -> Found:
    with run_driver(peer, place, model) as at:
        at.start("do 1: true")
        at.wait_for_turns(1)
        at.ask("daemon/status", {})
        idle = _parts(at)
        start_s, cpu_s = time.monotonic(), at.cpu_s
        pings: list[tuple[int, float]] = []
        over = threading.Event()
        pinging = threading.Thread(target=_ping, args=(at, pings, over))
        pinging.start()
        process_ids: list[int] = []
        for n in range(N_MANY):
            if n >= 16:
                at.answer_time_s(process_ids[n - 16])
            process_ids.append(at.start("do 4: true")[0])
        at.wait_for_turns(1 + N_MANY)
        yield f"{N_MANY} conversations x 5 steps", time.monotonic() - start_s
        yield f"{N_MANY} conversations x 5 steps, CPU", at.cpu_s - cpu_s
        over.set()
        pinging.join()
        times = sorted(
            (at.answer_time_s(request_id) - sent_s) * 1000 for request_id, sent_s in pings
        )
        name = f"`daemon/status` while {N_MANY} conversations work"
        yield f"{name}, p50", statistics.median(times)
        yield f"{name}, p99", times[math.ceil(0.99 * len(times)) - 1]
        time.sleep(1)
        growth = [
            (now - size_before) / N_MANY for now, size_before in zip(_parts(at), idle, strict=True)
        ]
        yield "memory of each further idle conversation", growth[0]
        yield "memory of its processes, shared pages divided", growth[1]
        yield "processes of each idle conversation", growth[2]
        yield "threads of each idle conversation", growth[3]


def _ping(at: Driver, pings: list[tuple[int, float]], over: threading.Event) -> None:
    """Ask on, whether or not the last ones were answered, but keep half of the 64 places free."""
    while not over.wait(random.uniform(0.02, 0.06)):
        n_open = sum(request_id not in at.answers for request_id, _ in pings[-32:])
        if n_open < 30:
            pings.append(at.send("daemon/status", {}))


def _parts(at: Driver) -> tuple[float, float, float, float]:
    children = at.usage.children(recursive=True)
    pss = sum(child.memory_full_info().pss for child in children) / 1e6
    return at.rss_mb, pss, len(children), at.usage.num_threads()


def floods(peer: Peer, place: Path, model: Model) -> Found:
    file = place / "flood"
    with run_driver(peer, place, model) as at:
        conversation_id = at.started_id(at.start("do 1: true")[0])
        for n, (name, unit) in enumerate(FLOODS.items(), 1):
            at.wait_for_turns(n)
            file.write_bytes((unit * (FLOOD_BYTES // len(unit) + 1))[:FLOOD_BYTES])
            before_s = at.cpu_s
            at.say(conversation_id, f"do 1: cat {file}")
            at.wait_for_turns(n + 1)
            cpu_s = _read_s(file) if peer.is_floor else at.cpu_s - before_s
            yield f"CPU of 100 MB of output: {name}", cpu_s * 100e6 / FLOOD_BYTES


def writes(peer: Peer, place: Path, model: Model) -> Found:
    """Bytes and syncs in a conversation's folder, as strace counts them."""
    if peer.is_floor:
        return
    trace, n_steps = place / "trace", 21
    strace = ("strace", "-f", "-qq", "-y", "-e", "trace=write,fdatasync,fsync", "-o", str(trace))
    with run_driver(replace(peer, argv=(*strace, *peer.argv)), place, model) as at:
        conversation_id = at.started_id(at.start("do 1: true")[0])
        at.wait_for_turns(1)
        before = _written_bytes(trace)
        at.say(conversation_id, f"do {n_steps - 1}: true")
        at.wait_for_turns(2)
        steps = _written_bytes(trace)
        yield "log of a step", (sum(steps["log"]) - sum(before["log"])) / n_steps
        yield "syncs of a step", (len(steps["sync"]) - len(before["sync"])) / n_steps
        at.say(conversation_id, TELL)
        at.wait_for_turns(3)
        after = _written_bytes(trace)
        log_bytes = sum(after["log"]) - sum(steps["log"])
        yield "log of an answer of 2,000 characters in 2 s", log_bytes
        yield "beside the log while it streams", sum(after["beside"]) - sum(steps["beside"])
        n_writes = len(after["beside"]) - len(steps["beside"])
        yield "writes beside the log while it streams", n_writes
        yield "syncs of that answer", len(after["sync"]) - len(steps["sync"])


def _written_bytes(trace: Path) -> dict[str, list[int]]:
    """Return the sizes of all writes so far, by where they went, and an entry for each sync."""
    sizes: dict[str, list[int]] = {"log": [], "beside": [], "sync": []}
    for line in trace.read_text("utf-8", "replace").splitlines():
        if (call := _WRITE.search(line)) is None or "/conversations/" not in call[2]:
            continue
        kind = "log" if call[2].endswith("events.jsonl") else "beside"
        sizes[kind if call[1] == "write" else "sync"].append(int(call[3] or 0))
    return sizes


def _read_s(file: Path) -> float:
    """Return the CPU time of reading the same bytes from a terminal and decoding them."""
    own_end, far_end = pty.openpty()
    tty.setraw(far_end)

    def write() -> None:
        with file.open("rb") as source:
            while data := source.read(1 << 16):
                os.write(far_end, data)
        os.close(far_end)

    pid = os.fork()
    if pid == 0:
        write()
        os._exit(0)
    os.close(far_end)
    start_s = time.thread_time()
    try:
        while data := os.read(own_end, 1 << 16):
            data.decode("utf-8", "replace")
    except OSError:
        pass  # This is how the master of a terminal says that its other end is closed.
    os.close(own_end)
    os.waitpid(pid, 0)
    return time.thread_time() - start_s


def _since_ms(start_s: float, end_s: float | None = None) -> float:
    return ((time.monotonic() if end_s is None else end_s) - start_s) * 1000


MEASURES: tuple[Callable[[Peer, Path, Model], Found], ...] = (
    start,
    steps,
    long,
    interrupt,
    many,
    floods,
    writes,
)
N_ROUNDS = {"start": 3}
