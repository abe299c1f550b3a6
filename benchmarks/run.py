"""Measures the daemon beside floors: prints a Markdown table, then the same as JSON.

`make bench` runs all; words on the command line select measurements by name. Asserts nothing.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import applied_files
import fleet
import idle_overlays
import light
import list_search
import mcp_server
import orjson
import prompt_tokens
import psutil
import replay
from fake_llm import FakeLLM, Step, call, chunks, hang, hold_step, raw, say, stream_parts
from in_neovim import neovim
from in_view import view_buffers, view_landing, view_start
from measure import (
    FORK,
    PATIENCE_S,
    Bench,
    Figure,
    Json,
    append_s,
    bash_true_s,
    bench,
    burst_floor_s,
    daemon,
    endless,
    httpx_step_s,
    ms,
    p50,
    p99,
    pygls_round_trips_s,
    pygls_start_s,
    read_lines_s,
    render_json,
    render_table,
    time_of,
)

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.pending_changes.upper_layer import collect
from oh_daemon.features.replay.replay import replay as replay_log
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.kernel.folding import fold
from oh_daemon.storage.log_scan import read_log
from oh_daemon.system.spawner import Spawner

N_REPLAYED = 50


def main() -> None:
    words = sys.argv[1:]
    apart_from_these = {
        "applied_files": applied_files.main,
        "fleet": fleet.main,
        "light": light.main,
        "replay": replay.main,
        "prompt_tokens": prompt_tokens.main,
        "list": list_search.main,
        "idle_overlays": idle_overlays.main,
    }
    if words and (apart := apart_from_these.get(words[0])):
        apart(words[1:])
        return
    # The client reads on a thread of its own. Switch threads often, so that this interpreter delays
    # it as little as an editor would.
    sys.setswitchinterval(0.0005)
    # The MCP server of the tests, when imported, makes httpx log every request to the terminal.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    figures: list[Figure] = []
    for measure in MEASURES:
        if not words or any(word in measure.__name__ for word in words):
            sys.stderr.write(f"measuring {measure.__name__.replace('_', ' ')} …\n")
            figures.extend(measure())
    print(render_table(figures))
    print()
    print(render_json(figures))


def start() -> Iterator[Figure]:
    times: list[float] = []
    memory: list[float] = []
    with tempfile.TemporaryDirectory() as folder, FakeLLM() as llm:
        for _ in range(7):
            start_s = time.perf_counter()
            with daemon(Path(folder), Path(folder), llm.url) as client:
                times.append(time.perf_counter() - start_s)
                client.request("daemon/status", {})
                memory.append(psutil.Process(client.process.pid).memory_info().rss / 1e6)
    floor = f"bare pygls {pygls_start_s():.2f} s"
    yield Figure("spawn to `initialize` answer", f"{p50(times):.2f} s", "< 0.25 s", floor)
    yield Figure("memory before a conversation", f"{p50(memory):.0f} MB", "< 60 MB", "")


def round_trip() -> Iterator[Figure]:
    with bench(endless(), isolated=True) as at:
        turns = [at.start(f"{n}") for n in range(8)]
        at.client.wait_for_event("turn.started", nth=8)
        times = [time_of(lambda: at.client.request("approval/list", {})) for _ in range(1000)]
        floor_times = pygls_round_trips_s()
        for conversation_id in turns:
            at.client.request("conversation/interrupt", {"conversationId": conversation_id})
    latency = f"{ms(p50(times))} / {ms(p99(times))}"
    idle = ms(p50(pygls_round_trips_s()))
    floor = f"bare pygls beside them {ms(p50(floor_times))} / {ms(p99(floor_times))}, alone {idle}"
    yield Figure(
        "round trip of `approval/list` while 8 conversations run, p50 / p99",
        latency,
        "< 1 / < 50 ms",
        floor,
    )


def steps() -> Iterator[Figure]:
    n_steps = 1010
    memory: list[float] = []
    with bench() as at:

        def script(_request: Json) -> Step:
            n = len(at.llm.requests)
            if n in {10, 1000}:
                memory.append(at.rss_mb)
            return call("terminal", command=f"true {n}") if n < n_steps else say("Done.")

        at.llm.play(script)
        at.start()
        at.wait_for_turns(1)
        requests = at.llm.requests
        gaps = [after.arrived_s - (before.ended_s or 0) for before, after in pairwise(requests)]
        yield from _reopen_figures(at)
    for n, goal in ((10, 10), (100, 15), (1000, 30)):
        floor = f"raw httpx request with {2 * n} messages {ms(httpx_step_s(2 * n))}"
        latency = ms(p50(gaps[n - 6 : n + 5]))
        yield Figure(f"own time per step at step {n:,}, p50", latency, f"< {goal} ms", floor)
    growth = f"{memory[1] - memory[0]:.0f} MB"
    yield Figure("memory grown from step 10 to 1,000", growth, "< 40 MB", "")


def _reopen_figures(at: Bench) -> Iterator[Figure]:
    """Close the conversation of 1,000 steps and open it again in a warm daemon."""
    [info] = at.client.request("conversation/list", {})["conversations"]
    at.client.request("conversation/close", {"conversationId": info["id"]})
    at.llm.play(lambda _request: say("Again."))
    n_before = len(at.llm.requests)
    start_s = time.monotonic()
    at.client.request("conversation/open", {"conversationId": info["id"], "replay": "none"})
    at.send(info["id"])
    arrival_s = at.llm.wait_for_requests(n_before + 1)[-1].arrived_s
    [log] = at.project.glob(".openhands/conversations/*/events.jsonl")
    floor = f"read and parse its lines {ms(read_lines_s(log))}"
    name = "reopen 1,000 steps and send the next request"
    yield Figure(name, ms(arrival_s - start_s), "< 100 ms", floor)


def interrupt() -> Iterator[Figure]:
    times: list[float] = []
    close_times: list[float] = []
    with bench([hang()] * 10) as at:
        for n in range(10):
            conversation_id = at.start()
            request = at.llm.wait_for_requests(n + 1)[-1]
            params = {"conversationId": conversation_id}
            start_s = time.perf_counter()
            request_id = at.client.send_request("conversation/interrupt", params)
            at.wait_for_turns(n + 1)
            times.append(time.perf_counter() - start_s)
            request.close_event.wait(PATIENCE_S)
            close_times.append(time.perf_counter() - start_s)
            at.client.result_of(request_id)
    latency = f"{ms(p50(times))} (socket closed {ms(p50(close_times))})"
    yield Figure("interrupt to `turn.completed`, model hangs", latency, "< 50 ms", "")
    yield from _interrupt_sleep()


def _interrupt_sleep() -> Iterator[Figure]:
    times: list[float] = []
    with bench(endless("sleep 100")) as at:
        for n in range(10):
            conversation_id = at.start()
            at.client.wait_for_event(lambda p: p["event"].get("status") == "running", nth=n + 1)
            sleep = _wait_for_sleep(at)
            start_s = time.perf_counter()
            at.client.send_request("conversation/interrupt", {"conversationId": conversation_id})
            at.wait_for_turns(n + 1)
            times.append(time.perf_counter() - start_s)
            if sleep.is_running() and sleep.status() != psutil.STATUS_ZOMBIE:
                sys.stderr.write("the command outlived its turn\n")
    yield Figure("interrupt to `turn.completed`, in `sleep 100`", ms(p50(times)), "< 200 ms", "")


def _wait_for_sleep(at: Bench) -> psutil.Process:
    parent = psutil.Process(at.client.process.pid)
    while True:
        children = [c for c in parent.children(recursive=True) if c.name() == "sleep"]
        if children:
            return children[0]


def burst() -> Iterator[Figure]:
    n_chunks = 20_000
    was_asked, gate = FORK.Event(), FORK.Event()
    # Built before the clock starts.
    body = b"".join(stream_parts(chunks(n_chunks, "word ")))

    def script(request: Json) -> Step:
        if len(request["messages"]) == len(("system", "user")):
            return say("Warm.")
        was_asked.set()
        return hold_step(raw(body), gate, after=-1)

    with bench(script, isolated=True) as at:
        conversation_id = at.start()
        at.wait_for_turns(1)
        before = len(at.client.notifications("conversation/delta"))
        at.send(conversation_id)
        was_asked.wait(PATIENCE_S)
        # As with a real model, the daemon is at rest when the answer begins.
        time.sleep(0.2)
        start_s = time.perf_counter()
        gate.set()
        at.client.wait_for(_is_delta, PATIENCE_S, nth=before + 1)
        first_s = time.perf_counter() - start_s
        at.wait_for_turns(2)
        all_s = time.perf_counter() - start_s
        deltas = at.client.notifications("conversation/delta")
        n_received = sum(d["text"].count("word") for d in deltas)
    floor = f"decode and encode them {burst_floor_s(n_chunks):.2f} s"
    yield Figure("first chunk of a burst to the client", ms(first_s), "< 5 ms", "")
    measurement = f"{all_s:.1f} s, {n_chunks - n_received:,} lost, in {len(deltas):,} deltas"
    yield Figure(f"{n_chunks:,} chunks", measurement, "< 5 s, none lost", floor)


def _is_delta(message: Json) -> bool:
    return message.get("method") == "conversation/delta"


def logs() -> Iterator[Figure]:
    with bench([call("terminal", command="true"), say("Done.")]) as at:
        conversation_id = at.start()
        at.wait_for_turns(1)
        at.client.request("conversation/close", {"conversationId": conversation_id})
        folder = at.project / ".openhands/conversations"
        log = folder / conversation_id / "events.jsonl"
        line = log.read_bytes().splitlines()[1] + b"\n"
        for n in range(999):
            shutil.copytree(folder / conversation_id, folder / f"{conversation_id[:-4]}{n:04d}")
        at.client.request("conversation/list", {"limit": 100})
        times = [
            time_of(lambda: at.client.request("conversation/list", {"limit": 100}))
            for _ in range(9)
        ]
        floor = f"stat each folder {ms(time_of(lambda: [f.stat() for f in folder.iterdir()]))}"
        yield Figure("list 1,000 conversations", ms(p50(times)), "< 50 ms", floor)
        _lengthen(log, 100_000)
        times = [_open_s(at, conversation_id) for _ in range(5)]
        floor = f"read and parse its lines {ms(read_lines_s(log))}"
        yield Figure("open 100,000 events", ms(p50(times)), "< 300 ms", floor)
    appends = append_s(100_000, line)
    yield Figure("100,000 plain appends", f"{appends:.2f} s", "", "a floor itself")


def _lengthen(log: Path, n_events: int) -> None:
    """Repeat the log's only turn, with new ids and numbers each time."""
    lines = [line for line in log.read_text().splitlines() if '"event":' in line]
    types = [json.loads(line)["event"]["type"] for line in lines]
    turn = lines[types.index("turn.started") : types.index("turn.completed") + 1]
    ids = {v for line in turn for k, v in json.loads(line).items() if k.endswith("Id")}
    with log.open("ab") as file:
        for n in range(len(lines), n_events):
            n_turn, position = divmod(n - len(lines), len(turn))
            line = turn[position]
            for old in ids:
                line = line.replace(old, f"{old}-{n_turn}")
            file.write(orjson.dumps({**json.loads(line), "seq": n + 1}) + b"\n")


def _open_s(at: Bench, conversation_id: str) -> float:
    params = {"conversationId": conversation_id, "replay": "none"}
    opened_s = time_of(lambda: at.client.request("conversation/open", params, within_s=PATIENCE_S))
    at.client.request("conversation/close", {"conversationId": conversation_id})
    return opened_s


def replays() -> Iterator[Figure]:
    """Replay 50 steps of which each has one call; no tool runs."""
    with bench(lambda request: _look_step(len(request["messages"])), isolated=True) as at:
        conversation_id = at.start(maxSteps=N_REPLAYED)
        at.wait_for_turns(1)
        at.client.request("conversation/close", {"conversationId": conversation_id})
        place = at.project / ".openhands" / "conversations" / conversation_id
        assert replay_log(place).n_steps == N_REPLAYED
        times = [time_of(lambda: replay_log(place)) for _ in range(7)]
        floors = [time_of(lambda: fold(conversation_id, read_log(place))) for _ in range(7)]
        command = [Path(sys.executable).parent / "oh-daemon", "replay", place]
        total_s = time_of(lambda: subprocess.run(command, check=True, capture_output=True))
    usage_text = f"{ms(p50(times))}, {total_s:.2f} s with the command's start"
    yield Figure(
        f"replay of {N_REPLAYED} steps", usage_text, "< 300 ms", f"read and fold {ms(p50(floors))}"
    )


def _look_step(n: int) -> Step:
    return call("grep", pattern=f"word {n}", path=".")


def terminal() -> Iterator[Figure]:
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        spawner = Spawner()
        shells = Shells(spawner, Path(folder), lambda: os.environ)

        def run(command: str) -> object:
            return shells.open().run(command, timeout_s=PATIENCE_S, cancel=CancelToken())

        run("true")
        times = [time_of(lambda: run("true")) for _ in range(200)]
        before = process.memory_info().rss
        output_s = time_of(lambda: run("head -c 100000000 /dev/zero | tr '\\0' x | fold -w 99"))
        growth_mb = (process.memory_info().rss - before) / 1e6
        shells.close()
        spawner.close()
    floor = f"`bash -c true` {ms(bash_true_s())}"
    yield Figure("terminal overhead per command, p50", ms(p50(times)), "< 2 ms", floor)
    yield Figure("100 MB of output", f"{output_s:.1f} s, {growth_mb:.0f} MB", "< 3 s, < 20 MB", "")


def search() -> Iterator[Figure]:
    n_files, pattern = 10_000, "def find_[a-z]+"
    text = "    total = sum(item.price for item in items)\n" * 200
    with bench([call("grep", pattern=pattern), say("Done.")]) as at:
        for n in range(n_files):
            folder = at.project / f"part{n % 100}"
            folder.mkdir(exist_ok=True)
            (folder / f"module{n}.py").write_text(text if n % 1000 else f"{text}def find_it():\n")
        at.start()
        at.wait_for_turns(1)
        items = (event["event"].get("item", {}) for event in at.client.events)
        item = next(item for item in items if item.get("tool") == "grep" and item.get("durationMs"))
        argv = ("rg", "--count", pattern, at.project)
        rg_s = time_of(lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL))
    latency = ms(item["durationMs"] / 1000)
    yield Figure(f"grep over {n_files:,} files", latency, "", f"`rg` {ms(rg_s)}")


def many() -> Iterator[Figure]:
    n_conversations, n_steps = 20, 20

    def script(request: Json) -> Step:
        n_done = sum(m["role"] == "tool" for m in request["messages"])
        return call("terminal", command=f"true {n_done}") if n_done < n_steps - 1 else say("Done.")

    with bench(script) as at:
        at.start()
        at.wait_for_turns(1)
        start_s = time.perf_counter()
        for n in range(n_conversations):
            at.start(f"{n}")
        at.wait_for_turns(1 + n_conversations)
        wall_s = time.perf_counter() - start_s
    floor_s = n_conversations * n_steps * (httpx_step_s(n_steps) + bash_true_s())
    name = f"{n_conversations} conversations x {n_steps} steps at once, wall"
    floor = f"as many httpx requests and `bash -c true`, in a row {floor_s:.1f} s"
    yield Figure(name, f"{wall_s:.1f} s", "< 6 s", floor)


def skills() -> Iterator[Figure]:
    """Alternate between both daemons, because the machine's other load changes by the second."""
    n_turns = 25
    servers = {f"shop{n}": mcp_server.settings() for n in range(3)}
    steps = [call("think", thought="Hm."), say("Done.")] * (n_turns + 1)
    with bench(steps) as plain, bench(steps, mcpServers=servers) as rich:
        for n in range(30):
            folder = rich.project / f".agents/skills/s{n}"
            folder.mkdir(parents=True)
            frontend = f"description: What to do about {n}\ntriggers: [word{n}, go{n}]"
            (folder / "SKILL.md").write_text(f"---\n{frontend}\n---\n{'Some advice. ' * 200}\n")
        ids = {id(at): at.start() for at in (plain, rich)}
        times: dict[int, list[float]] = {id(plain): [], id(rich): []}
        for n in range(1, n_turns):
            for at in (plain, rich):
                at.wait_for_turns(n)
                start_s = time.monotonic()
                at.send(ids[id(at)])
                first, second = at.llm.wait_for_requests(2 * n + 2)[-2:]
                own_s = first.arrived_s - start_s + second.arrived_s - (first.ended_s or 0)
                times[id(at)].append(own_s / 2)
        plain.wait_for_turns(n_turns)
        rich.wait_for_turns(n_turns)
    without_s, with_s = p50(times[id(plain)][5:]), p50(times[id(rich)][5:])
    name = "own time per step that 30 skills and 3 MCP servers add, p50"
    floor = f"a step without them {ms(without_s)}"
    yield Figure(name, ms(with_s - without_s), "< 5 ms", floor)


def changes() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, name) for name in ("upper", "disk")]
        for folder in folders:
            for n in range(1000):
                (folder / f"{n % 20}").mkdir(parents=True, exist_ok=True)
                (folder / f"{n % 20}/{n}").write_text(f"{n} {folder.name:>5}\n" * 100)
        none = frozenset[str]().intersection
        collect_changes = partial(
            collect, *folders, handed_in={}, since_ns=0, list_open=tuple, are_ignored=none
        )
        times = [time_of(collect_changes) for _ in range(9)]
        files = [file for folder in folders for file in folder.glob("*/*")]
        floor = f"read them {ms(time_of(lambda: [file.read_bytes() for file in files]))}"
    yield Figure("finding 1,000 files that commands changed", ms(p50(times)), "< 150 ms", floor)


MEASURES: tuple[Callable[[], Iterator[Figure]], ...] = (
    start,
    round_trip,
    steps,
    interrupt,
    burst,
    logs,
    replays,
    terminal,
    search,
    many,
    skills,
    changes,
    view_start,
    view_buffers,
    view_landing,
    neovim,
)


if __name__ == "__main__":
    main()
