"""Measures idle conversations that have each run one command in an overlay sandbox.

`make bench BENCH_ARGS="idle_overlays 20"` starts 20 conversations (default 100) in one daemon and
prints a Markdown table: descriptors of the daemon, processes and memory (PSS) below it, and the
memory by program, each per conversation after the first. Asserts nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psutil
from fake_llm import Step, call, say
from leftovers import wait_for_idle_sandboxes
from measure import bench

N_CONVERSATIONS = 100


def answer(request: dict[str, Any]) -> Step:
    """Run one command, then end the turn."""
    has_run = any(message["role"] == "tool" for message in request["messages"])
    return say("Done.") if has_run else call("terminal", command="true")


@dataclass
class Usage:
    """Resources of the daemon and its descendants."""

    n_descriptors: int
    n_processes: int
    pss_bytes: Counter[str] = field(default_factory=Counter[str])
    """By the name of the program, without the daemon."""


def usage_of(daemon: psutil.Process) -> Usage:
    below = wait_for_idle_sandboxes(daemon)
    usage = Usage(daemon.num_fds(), len(below))
    for process in below:
        usage.pss_bytes[process.name()] += process.memory_full_info().pss
    return usage


def main(words: list[str]) -> None:
    n_more = (int(words[0]) if words else N_CONVERSATIONS) - 1
    with bench(answer, sandbox="overlay") as one:
        daemon = psutil.Process(one.client.process.pid)
        one.start()
        one.wait_for_turns(1)
        first = usage_of(daemon)
        for number in range(n_more):
            one.start()
            one.wait_for_turns(number + 2)
        last = usage_of(daemon)
    programs = last.pss_bytes - first.pss_bytes
    rows = {
        "descriptors": (last.n_descriptors - first.n_descriptors) / n_more,
        "processes": (last.n_processes - first.n_processes) / n_more,
        "PSS, MB": programs.total() / 1e6 / n_more,
        **{f"PSS of {name}, MB": size / 1e6 / n_more for name, size in programs.items()},
    }
    sys.stdout.write(f"| an idle conversation of {n_more + 1} | |\n|---|---|\n")
    sys.stdout.writelines(f"| {name} | {number:.1f} |\n" for name, number in rows.items())


if __name__ == "__main__":
    main(sys.argv[1:])
