"""How many input tokens three real tasks cost, replayed with the tool calls of a model.

`make bench BENCH_ARGS="replay"` prints a Markdown table; `--before=FOLDER` adds a column for the
code of an older clone, which gets the same calls. The projects are clones of public repositories
at fixed commits; git's `url.*.insteadOf` makes it clone from elsewhere. Asserts nothing.

The tasks were done by hand once, on commit 187d460, by reading nothing but the requests. What is
left of that are the bugs, the number of answers and calls, which edits were refused, and the sums,
which `by hand` repeats; the calls are rebuilt from it as closely as that allows. An answer that
only repeats calls of the one before was due to a refused edit, and is left out when none was. An
`undo` beside an edit that failed, which is skipped now, is left out.
Tokens are those of cl100k, of everything in a request's messages and tools, summed over all
requests of a task; the last columns say what now has them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

import tiktoken
from fake_llm import FakeLLM, Script, Step, call, calls
from measure import Json
from peers import Driver, Peer, peers
from replay_tasks import TASKS, Task

PARTS = {"system": "prompt", "user": "user", "assistant": "calls", "tool": "results"}


def main(arguments: Sequence[str]) -> None:
    before = next((a.partition("=")[2] for a in arguments if a.startswith("--before=")), None)
    words = [a for a in arguments if not a.startswith("--")]
    tasks = [task for task in TASKS if not words or any(word in task.name for word in words)]
    # The commands are to find a Python that has pytest.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    peer_list = [p for p in peers(Path(before) if before else None) if not p.is_floor]
    names = [peer.name for peer in peer_list]
    parts = ["tools", *PARTS.values()]
    print(
        "| task | requests | by hand |",
        " | ".join(names),
        "| fewer than by hand |",
        " | ".join(parts),
        "|",
    )
    print("|---" * (4 + len(names) + len(parts)) + "|")
    for task in tasks:
        runs = [replay(task, peer) for peer in peer_list]
        sums = [tokens(requests) for requests in runs]
        now = sums[-1].total()
        totals = [f"{n.total():,}" for n in sums]
        cells = [task.name, f"{len(runs[-1])}", f"{task.tokens_by_hand:,}", *totals]
        cells += [f"{1 - now / task.tokens_by_hand:.0%}", *(f"{sums[-1][p]:,}" for p in parts)]
        print("|", " | ".join(cells), "|", flush=True)


def replay(task: Task, peer: Peer) -> list[Json]:
    """Do the task in a new clone; return the bodies of all requests."""
    with tempfile.TemporaryDirectory(prefix="oh-replay-") as folder:
        project, home = Path(folder, task.url.rpartition("/")[2]), Path(folder, "home")
        home.mkdir()
        subprocess.run(["git", "clone", "-q", task.url, project], check=True)
        checkout = ("git", "-C", project, "checkout", "-q", "-B", "main", task.commit)
        subprocess.run(checkout, check=True)
        with FakeLLM(_model(task)) as llm:
            driver = Driver(peer, project, home, llm.url)
            try:
                driver.initialize(project)
                driver.start(task.words)
                driver.wait_for_turns(1)
            finally:
                driver.close()
            return [request.body for request in llm.requests]


def _model(task: Task) -> Script:
    """Return what plays the task's answers, and leaves one out whose reason is gone."""
    answers = iter(pairwise([(), *task.answers]))

    def next_step(request: Json) -> Step:
        before, answer = next(answers)
        is_repeat = all(expected in before for expected in answer)
        if is_repeat and not any("was not edited" in text for text in _last_results(request)):
            _, answer = next(answers)
        return calls(*(call(tool, **args) for tool, args in answer))

    return next_step


def _last_results(request: Json) -> list[str]:
    messages = reversed(request["messages"])
    return [m["content"] for m in takewhile(lambda m: m["role"] != "assistant", messages)]


def tokens(requests: Sequence[Json]) -> Counter[str]:
    """Return the sums of all requests by part: the tools, and the messages by role."""
    count = _cl100k()
    sums: Counter[str] = Counter()
    for request in requests:
        sums["tools"] += count(json.dumps(request["tools"], ensure_ascii=False))
        for message in request["messages"]:
            text = message.get("content") or ""
            for c in message.get("tool_calls", ()):
                text += json.dumps(c["function"], ensure_ascii=False)
            sums[PARTS[message["role"]]] += count(text)
    return sums


def _cl100k() -> Callable[[str], int]:
    """Return a counter of tokens that needs no network: its table comes with litellm."""
    litellm = importlib.util.find_spec("litellm")
    assert litellm is not None
    assert litellm.origin is not None
    tables = Path(litellm.origin).parent / "litellm_core_utils/tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(tables)
    encoding = tiktoken.get_encoding("cl100k_base")
    return lambda text: len(encoding.encode(text, disallowed_special=()))
