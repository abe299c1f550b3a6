"""Measures the CPU of applying a command's new files to the project.

`make bench BENCH_ARGS="applied_files 300 3000 25000 nested"` (default: all of these) runs one
command for each word, in an overlay sandbox in mode `autoEdit`. A number makes that many files in
one folder, `nested` makes 1,500 folders, each inside the one before, with one file. Prints a
Markdown table: the CPU of the daemon and of the processes below it, the command's own shell among
them, from the message to the end of the turn. A turn before it, with one file, is not measured: the
first turn of a daemon takes about 1 s by itself.
On ext4, run it minutes after files were deleted, or with TMPDIR on tmpfs. Asserts nothing.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from fake_llm import Step, call, say
from measure import Bench, bench

WORDS = ("300", "3000", "25000", "nested")
N_NESTED = 1_500
WARM_UP = "echo x > warm_up.txt"
FILES = 'mkdir made; for ((n = 0; n < {n}; n++)); do echo "x = $n" > made/f$n.py; done'
NESTED = f"p=$(printf 'd/%.0s' {{1..{N_NESTED}}}); mkdir -p $p; echo x > ${{p}}a.py"


def answer(commands: Sequence[str], request: dict[str, Any]) -> Step:
    """Run the next command in each turn, then end the turn."""
    roles = [message["role"] for message in request["messages"]]
    has_run = roles[-1] == "tool"
    return say("Done.") if has_run else call("terminal", command=commands[roles.count("tool")])


def cpu_s(daemon: psutil.Process) -> tuple[float, float]:
    """Return the CPU of the daemon and of everything below it, which includes ended processes."""
    own = daemon.cpu_times()
    below = own.children_user + own.children_system
    for process in daemon.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            below += sum(process.cpu_times()[:4])
    return own.user + own.system, below


def run(one: Bench) -> tuple[float, float, float]:
    """Return the CPU of the daemon and below it, and the wall time, of the second turn."""
    daemon = psutil.Process(one.client.process.pid)
    conversation = one.start(options={"mode": "autoEdit"})
    one.wait_for_turns(1)
    own, below = cpu_s(daemon)
    start_s = time.monotonic()
    one.send(conversation)
    one.wait_for_turns(2)
    own_after, below_after = cpu_s(daemon)
    return own_after - own, below_after - below, time.monotonic() - start_s


def count_and_remove(project: Path) -> int:
    """Return the number of files; both programs bear a depth at which Python's own fail."""
    listing = subprocess.run(("find", project, "-name", "*.py"), check=True, stdout=subprocess.PIPE)
    subprocess.run(("rm", "-rf", *project.iterdir()), check=True)
    return len(listing.stdout.splitlines())


def main(words: list[str]) -> None:
    sys.stdout.write("| made | applied | daemon, s | below, s | wall, s | ms a file |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for word in words or WORDS:
        command = NESTED if word == "nested" else FILES.format(n=word)
        script: Callable[[dict[str, Any]], Step] = partial(answer, (WARM_UP, command))
        with bench(script, sandbox="overlay") as one:
            own, below, wall = run(one)
            n_files = count_and_remove(one.project)
        n_entries = N_NESTED if word == "nested" else int(word)
        each = f"{(own + below) * 1000 / n_entries:.2f}"
        row = (word, n_files, f"{own:.2f}", f"{below:.2f}", f"{wall:.1f}", each)
        sys.stdout.write("| " + " | ".join(map(str, row)) + " |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
