"""Many conversations of one daemon at once, each with a sandbox of its own."""

from __future__ import annotations

import psutil
import pytest
from fake_llm import call, say
from leftovers import wait_for_idle_sandboxes
from world import World, content_of, items

MAX_DESCRIPTORS, MAX_PROCESSES, MAX_PSS_MB = 8, 2, 5.0
"""For each conversation that has run a command and is idle."""


@pytest.mark.parametrize("n", [3, pytest.param(100, marks=pytest.mark.full)])
def test_each_of_many_conversations_runs_a_command(world: World, n: int) -> None:
    # A sandbox's process 1 cannot write its byte code, and takes 0.9 MB more where it is missing.
    world.variables["PYTHONDONTWRITEBYTECODE"] = ""
    for number in range(n):
        world.script(call("terminal", command=f"echo ran {number}"), say("Done."))
    client = world.daemon(settings={"sandbox": "overlay"})
    daemon = psutil.Process(client.process.pid)
    usages: list[tuple[int, int, float]] = []
    for number in range(n):
        world.start(client, options={"approval": "askNever"})
        world.turn(client, nth=number + 1)
        if number in (0, n - 1):
            below = wait_for_idle_sandboxes(daemon)
            pss_mb = sum(process.memory_full_info().pss for process in below) / 1e6
            usages.append((daemon.num_fds(), len(below), pss_mb))
    contents = [content_of(item).partition("\n")[0] for item in items(client, "command")]
    assert contents == [f"ran {number}" for number in range(n)]
    each = [(last - first) / (n - 1) for first, last in zip(*usages, strict=True)]
    limits = (MAX_DESCRIPTORS, MAX_PROCESSES, MAX_PSS_MB)
    assert all(usage <= limit for usage, limit in zip(each, limits, strict=True)), each
