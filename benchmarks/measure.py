"""Shared by all benchmarks: surroundings for the real daemon, floors to compare with, the table."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
from fake_llm import FakeLLM, Script, Step, call, chunks, stream_parts
from raw_client import RawClient

from oh_daemon.conformance.connection import frame

Json = dict[str, Any]
PYTHON = sys.executable
PATIENCE_S = 600
FORK = multiprocessing.get_context("fork")
"""A forked process inherits the model's script, which therefore need not be pickled."""


@dataclass(frozen=True)
class Figure:
    """One row: what was measured, the goal, and a floor measured in the same run."""

    name: str
    measurement: str
    goal: str
    floor: str


@dataclass
class Bench:
    """A project folder, a scripted model, and a daemon that uses both."""

    project: Path
    llm: FakeLLM
    client: RawClient

    @property
    def rss_mb(self) -> float:
        return psutil.Process(self.client.process.pid).memory_info().rss / 1e6

    def start(self, words: str = "go", **params: Any) -> str:
        """Start a conversation that never asks for approval, and return its id."""
        options = {"approval": "askNever"}
        content = [{"type": "text", "text": words}]
        params = {"options": options, "content": content, "maxSteps": 10_000, **params}
        return self.client.request("conversation/start", params)["conversation"]["id"]

    def send(self, conversation_id: str, words: str = "go on") -> None:
        content = [{"type": "text", "text": words}]
        params = {"conversationId": conversation_id, "content": content}
        self.client.request("conversation/sendMessage", params)

    def wait_for_turns(self, n: int) -> None:
        self.client.wait_for_event("turn.completed", PATIENCE_S, nth=n)


@contextmanager
def bench(
    script: Script = (), *, isolated: bool = False, features: Json | None = None, **settings: Any
) -> Generator[Bench]:
    """Yield a bench; with `isolated`, the model runs in its own process and `llm` sees no request.

    Without `isolated`, client and model share this process, and their work is part of the
    measurement.
    """
    with (
        tempfile.TemporaryDirectory(prefix="oh-bench-") as folder,
        FakeLLM(() if isolated else script) as llm,
        model_apart(script) if isolated else nullcontext(llm.url) as url,
    ):
        project, home = Path(folder, "project"), Path(folder, "home")
        project.mkdir()
        home.mkdir()
        with daemon(project, home, url, features, **settings) as client:
            yield Bench(project, llm, client)


@contextmanager
def model_apart(script: Script) -> Generator[str]:
    """Run a scripted model in a process of its own, and yield its URL."""
    own_end, far_end = FORK.Pipe()

    def serve() -> None:
        with FakeLLM(script) as llm:
            far_end.send(llm.url)
            far_end.recv()

    process = FORK.Process(target=serve)
    process.start()
    yield own_end.recv()
    own_end.send(None)
    process.join()


@contextmanager
def daemon(
    project: Path, home: Path, url: str, features: Json | None = None, **settings: Any
) -> Generator[RawClient]:
    """Yield the client of an initialized daemon that trusts the project."""
    env = {
        "OH_DAEMON_HOME": str(home),
        "OH_DAEMON_MODEL": "openai/fake",
        "OH_DAEMON_TITLES": "false",
        "OH_DAEMON_BASE_URL": url,
        "OH_DAEMON_API_KEY": "sk-bench",
    }
    argv = (PYTHON, "-m", "oh_daemon", "--stdio")
    with RawClient.start(argv, project, env) as client:
        trust = [{"folder": project.as_uri(), "trusted": True}]
        features = {"approvalRequests": True, **(features or {})}
        client.initialize([project], features=features, trust=trust, settings=settings)
        yield client


def endless(command: str = "true") -> Callable[[Json], Step]:
    """A model that always calls one more command, each different, or the agent would stop it."""
    numbers = count(1)
    return lambda _request: call("terminal", command=f"{command} # {next(numbers)}")


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def p50(seconds: Sequence[float]) -> float:
    return statistics.median(seconds)


def p99(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


def time_of(act: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    act()
    return time.perf_counter() - start_s


# Floors


def pygls_start_s() -> float:
    """Return the time from spawn to `initialize` answer of a server without any features."""
    return p50([time_of(lambda: _pygls(0)) for _ in range(5)])


def pygls_round_trips_s() -> list[float]:
    return _pygls(500)


def _pygls(n_pings: int) -> list[float]:
    source = (
        "from pygls.lsp.server import LanguageServer\n"
        "server = LanguageServer('bare', '1')\n"
        "server.feature('bench/ping')(lambda params: None)\n"
        "server.start_io()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen((PYTHON, "-c", source), stdin=pipe, stdout=pipe) as server:
        _ask(server, "initialize", {"processId": None, "capabilities": {}, "rootUri": None})
        times = [time_of(lambda: _ask(server, "bench/ping", {})) for _ in range(n_pings)]
        server.kill()
    return times


def _ask(server: subprocess.Popen[bytes], method: str, params: Json) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(frame({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    server.stdin.flush()
    length = 0
    while (line := server.stdout.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        length = int(value) if name == b"Content-Length" else length
    server.stdout.read(length)


def bash_true_s() -> float:
    return p50(
        [time_of(lambda: subprocess.run(["bash", "-c", "true"], check=True)) for _ in range(50)]
    )


def httpx_step_s(n_messages: int) -> float:
    """Time one streamed request with `n_messages`, its answer parsed, without any agent."""
    body = {"model": "fake", "stream": True, "messages": history(n_messages)}
    with FakeLLM(endless()) as llm, httpx.Client() as http:

        def step() -> None:
            with http.stream("POST", f"{llm.url}/chat/completions", json=body) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: {"):
                        json.loads(line[6:])

        return p50([time_of(step) for _ in range(20)])


def history(n_messages: int) -> list[Json]:
    return [{"role": "user", "content": f"message {n} with a few words"} for n in range(n_messages)]


def burst_floor_s(n_chunks: int) -> float:
    """Time parsing the same chunks as JSON and encoding each again, in one loop."""
    parts = stream_parts(chunks(n_chunks))
    return time_of(
        lambda: [json.dumps(json.loads(p[6:])) for p in parts if p.startswith(b"data: {")]
    )


def append_s(n_lines: int, line: bytes) -> float:
    """Time plain appends to one file, one write per line."""
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("ab", 0) as log:
        return time_of(lambda: [log.write(line) for _ in range(n_lines)])


def read_lines_s(path: Path) -> float:
    return time_of(lambda: [orjson.loads(line) for line in path.read_bytes().splitlines()])


# The table


def render_table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "measured", "goal", "floor, same run"), ("---",) * 4]
    rows += [(f.name, f.measurement, f.goal, f.floor) for f in figures]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def render_json(figures: Sequence[Figure]) -> str:
    machine = {"cpus": psutil.cpu_count(), "python": sys.version.split()[0]}
    return json.dumps({"machine": machine, "figures": [asdict(f) for f in figures]}, indent=1)
