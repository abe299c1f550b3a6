"""A fleet on a real Ray cluster of two nodes, which are on one machine and share its disk."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import end
from fake_llm import call, hang, hold_step, say
from fleet_world import UNHELD, FleetWorld, make_repository
from world import KEY, World

pytestmark = pytest.mark.full


@pytest.fixture
def fleet(world: World, tmp_path: Path) -> FleetWorld:
    return FleetWorld(world, make_repository(tmp_path / "repo"), tmp_path / "out")


@pytest.fixture
def cluster(fleet: FleetWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a head and a second node, with room for one task each, in the fleet's environment."""
    for name, value in fleet.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster_utils: Any = import_module("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield cluster
    cluster.shutdown()


def test_worker_driver_and_node_are_killed_and_each_conversation_goes_on(
    fleet: FleetWorld, cluster: Any
) -> None:
    llm, names = fleet.world.llm, ("one", "two")
    second_node = cluster.add_node(num_cpus=1)
    ray = ("--executor", "ray", "--address", cluster.address, "-j", "2", *UNHELD)
    command = (fleet.tasks(*names), "--out", str(fleet.out), *ray)
    more = {"RAY_AUTH_MODE": "disabled"}

    fleet.script(**{name: [call("terminal", command="ls"), hang()] for name in names})
    driver = fleet.begin(*command, **more)
    llm.wait_for_requests(4, timeout_s=240)
    fleet.script(**{name: [hang()] for name in names})
    os.kill(min(workers()), signal.SIGKILL)
    llm.wait_for_requests(5, timeout_s=240)

    before = workers()
    driver.kill()
    driver.communicate(timeout=60)
    for pid in before:
        wait_until_gone(pid)
    gate = threading.Event()
    fleet.script(**{name: [hold_step(say("Done."), gate), say("Done.")] for name in names})
    driver = fleet.begin(*command, **more)
    llm.wait_for_requests(7, timeout_s=240)

    cluster.remove_node(second_node, allow_graceful=False)
    gate.set()
    result = end(driver, within_s=300)
    assert (result.code, "2 passed" in result.err) == (0, True), result.err
    for name in names:
        row, events = fleet.results()[name], fleet.events(name)
        assert row["steps"] == 2
        assert [e["type"] for e in events].count("conversation.created") == 1
    for file in Path(cluster.head_node.get_session_dir_path()).rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("dead", [("head",), ("head", "second")])
def test_dead_node_ends_no_task_and_the_same_command_goes_on(
    fleet: FleetWorld, cluster: Any, dead: tuple[str, ...]
) -> None:
    """The driver is connected to one of the two nodes, and its own may be the dead one."""
    llm, names = fleet.world.llm, ("one", "two", "three")
    nodes = {"head": cluster.head_node, "second": cluster.add_node(num_cpus=1)}
    ray = ("--executor", "ray", "--address", cluster.address, "-j", "3", *UNHELD)
    command = (fleet.tasks(*names), "--out", str(fleet.out), *ray)
    more = {"RAY_AUTH_MODE": "disabled"}
    fleet.script(**{name: [call("terminal", command="ls"), hang()] for name in names})
    driver = fleet.begin(*command, **more)
    llm.wait_for_requests(4, timeout_s=240)
    fleet.script(**{name: [say("Done.")] * 2 for name in names})
    for node in dead:
        nodes[node].kill_raylet()
    first = end(driver, within_s=300)
    assert "error" not in {row["status"] for row in fleet.results().values()}, first.err
    if first.code != 0:
        assert "the same command goes on" in first.err
        cluster.add_node(num_cpus=1)
        second = end(fleet.begin(*command, **more), within_s=300)
        assert second.code == 0, second.err
    assert {row["status"] for row in fleet.results().values()} == {"passed"}
    for name in names:
        assert [e["type"] for e in fleet.events(name)].count("conversation.created") == 1


def workers() -> set[int]:
    """Return the processes of Ray that work on tasks."""
    indexes = set[int]()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline()[:1] == ["ray::work"]:
                indexes.add(process.pid)
    return indexes


def wait_until_gone(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=60)
