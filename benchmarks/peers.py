"""What `light.py` compares: the daemon, an older daemon, and the floor, all driven alike.

The driver is a process of its own, the model another one, and neither checks what it reads.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
from fake_llm import FakeLLM, Step, call, say, slow
from measure import FORK, PATIENCE_S, PYTHON, Json, p50

TELL = "tell a story"
"""What makes the model stream 2,000 characters in two seconds."""
_ORDER = re.compile(r"do (\d+): ([^\"\\]*)")


@dataclass(frozen=True)
class Peer:
    """A program to measure, and the folder that its code is in."""

    name: str
    argv: tuple[str, ...]
    code: Path

    @property
    def is_floor(self) -> bool:
        return self.name == "floor"


def peers(before: Path | None) -> list[Peer]:
    folder = Path(__file__).parent
    daemon = (PYTHON, "-m", "oh_daemon", "--stdio")
    peer_list = [Peer("floor", (PYTHON, str(folder / "least.py")), folder)]
    if before is not None:
        peer_list.append(Peer("before", daemon, before.resolve()))
    return [*peer_list, Peer("now", daemon, folder.parent)]


class Model:
    """The scripted model in its own process: `do 5: true` makes it call `true` five times."""

    def __init__(self) -> None:
        self._own_end, far_end = FORK.Pipe()
        self._process = FORK.Process(
            target=_serve_model, args=(far_end, self._own_end), daemon=True
        )
        self._process.start()
        self.url: str = self._own_end.recv()

    def times(self, n: int = 0) -> list[tuple[float, float]]:
        """Wait for `n` requests; return when each arrived and when its answer ended."""
        self._own_end.send(n)
        return self._own_end.recv()

    def forget(self) -> None:
        self.times(-1)

    def close(self) -> None:
        self._own_end.send(None)
        self._process.join()


def _serve_model(pipe: Any, far_end: Any) -> None:
    # Or this process would not see that the other one has ended.
    far_end.close()
    with FakeLLM(_next_step) as llm:
        pipe.send(llm.url)
        while (n := pipe.recv()) is not None:
            if n < 0:
                llm.forget()
                llm.play(_next_step)
            requests = llm.wait_for_requests(max(n, 0), PATIENCE_S)
            pipe.send([(request.arrived_s, request.ended_s or 0.0) for request in requests])


def _next_step(request: Json) -> Step:
    messages = request.get("messages", [])
    if TELL in json.dumps(messages[-1]["content"]):
        return slow(say("Once upon a time, " * 111 + "ok", n_chunks=100), 0.02)
    for n_calls, message in enumerate(reversed(messages)):
        if message["role"] == "user" and (order := _ORDER.search(json.dumps(message["content"]))):
            n_done = sum(m["role"] == "tool" for m in messages[len(messages) - n_calls :])
            if n_done >= int(order[1]):
                break
            command = f"{order[2]} # {n_done}"
            return call("terminal", command=command, timeout_s=PATIENCE_S)
    return say("Done.")


class Driver:
    """One running peer, and its frames as they come."""

    def __init__(self, peer: Peer, project: Path, home: Path, url: str) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": str(peer.code),
            "OH_DAEMON_HOME": str(home),
            "OH_DAEMON_MODEL": "openai/fake",
            "OH_DAEMON_TITLES": "false",
            "OH_DAEMON_SANDBOX": os.environ.get("OH_DAEMON_SANDBOX", "off"),
            "OH_DAEMON_BASE_URL": url,
            "OH_DAEMON_API_KEY": "sk-bench",
        }
        pipe = subprocess.PIPE
        self.start_s = time.monotonic()
        self._process = subprocess.Popen(
            peer.argv, stdin=pipe, stdout=pipe, env=env, cwd=project, bufsize=0
        )
        self.usage = psutil.Process(self._process.pid)
        self.answers: dict[int, tuple[float, Json]] = {}
        self.turns: list[float] = []
        self.n_running = 0
        self._n_requests = 0
        self._condition, self._writing = threading.Condition(), threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with os.fdopen(os.dup(stdout.fileno()), "rb") as stream:
            while header := stream.readline():
                stream.readline()
                body = stream.read(int(header.split(b":")[1]))
                at = time.monotonic()
                # Events are looked into only as far as needed, so that the driver keeps up.
                with self._condition:
                    if b'"id"' in body[:25] and b'"method"' not in body[:60]:
                        message = json.loads(body)
                        self.answers[message["id"]] = (at, message)
                    elif b'"turn.completed"' in body:
                        self.turns.append(at)
                    elif b'"running"' in body and b'"item.updated"' in body:
                        self.n_running += 1
                    self._condition.notify_all()

    def send(self, method: str, params: Json, *, is_request: bool = True) -> tuple[int, float]:
        """Return the id, and when it was sent."""
        with self._writing:
            self._n_requests += 1
            message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
            if is_request:
                message["id"] = self._n_requests
            data = json.dumps(message).encode()
            at = time.monotonic()
            stdin = self._process.stdin
            assert stdin is not None
            stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
            return self._n_requests, at

    def answer_time_s(self, request_id: int) -> float:
        """Wait for the answer; return when it came."""
        self._wait(lambda: request_id in self.answers)
        at, message = self.answers[request_id]
        assert "result" in message, message
        return at

    def ask(self, method: str, params: Json) -> Json:
        request_id, _ = self.send(method, params)
        self.answer_time_s(request_id)
        return cast("Json", self.answers[request_id][1]["result"])

    def ask_s(self, method: str, params: Json) -> float:
        request_id, at = self.send(method, params)
        return self.answer_time_s(request_id) - at

    def initialize(self, project: Path) -> None:
        trust = [{"folder": project.as_uri(), "trusted": True}]
        llm = {"contextWindow": 10_000_000}
        client_block = {
            "features": {"approvalRequests": True},
            "trust": trust,
            "settings": {"llm": llm},
        }
        params = {
            "processId": None,
            "capabilities": {},
            "workspaceFolders": [{"uri": project.as_uri(), "name": project.name}],
            "initializationOptions": {"ohDaemon": client_block},
        }
        self.ask("initialize", params)
        self.send("initialized", {}, is_request=False)

    def start(self, words: str) -> tuple[int, float]:
        options = {"approval": "askNever"}
        content = [{"type": "text", "text": words}]
        params = {"options": options, "content": content, "maxSteps": 10_000}
        return self.send("conversation/start", params)

    def started_id(self, request_id: int) -> str:
        self.answer_time_s(request_id)
        return self.answers[request_id][1]["result"]["conversation"]["id"]

    def say(self, conversation_id: str, words: str) -> float:
        content = [{"type": "text", "text": words}]
        params = {"conversationId": conversation_id, "content": content}
        return self.send("conversation/sendMessage", params)[1]

    def wait_for_turns(self, n: int) -> None:
        self._wait(lambda: len(self.turns) >= n)

    def wait_until_running(self, n: int) -> None:
        self._wait(lambda: self.n_running >= n)

    def _wait(self, is_there: Callable[[], bool]) -> None:
        with self._condition:
            assert self._condition.wait_for(is_there, PATIENCE_S), "it did not come"

    @property
    def cpu_s(self) -> float:
        """Its own CPU time, without that of its children."""
        times = self.usage.cpu_times()
        return times.user + times.system

    @property
    def rss_mb(self) -> float:
        return self.usage.memory_info().rss / 1e6

    def close(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def run_driver(peer: Peer, place: Path, model: Model) -> Generator[Driver]:
    """Yield an initialized peer; `place` keeps its project and its home for the next start."""
    project, home = place / "project", place / "home"
    project.mkdir(parents=True, exist_ok=True)
    home.mkdir(exist_ok=True)
    driver = Driver(peer, project, home, model.url)
    try:
        driver.initialize(project)
        yield driver
    finally:
        driver.close()


def median(values: list[float]) -> float:
    return p50(values) if values else float("nan")
