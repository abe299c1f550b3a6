"""Fleets: many tasks, each in a clone of its own, from the command line."""

import fcntl
import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from command_line import end
from fake_llm import USAGE, call, hang, say, with_usage
from fleet_world import UNHELD, FleetWorld, git, make_repository
from world import KEY, World

NEW = {"command": "create", "path": "new.txt", "text": "new\n"}


@pytest.fixture
def fleet(world: World, tmp_path: Path) -> FleetWorld:
    return FleetWorld(world, make_repository(tmp_path / "repo"), tmp_path / "out")


def test_each_task_has_its_clone_its_check_and_its_result(fleet: FleetWorld) -> None:
    write = call("edit", **NEW)
    fleet.script(good=[write, say("Done.")], bad=[say("Nothing to do.")], other=[])
    file = fleet.tasks("good", "bad", setup="echo ready > ../ready", check="cat new.txt")
    with Path(file).open("a") as rows:
        broken_task = {"id": "other", "folder": str(fleet.repo), "prompt": "Do other."}
        rows.write(json.dumps({**broken_task, "setup": "echo no such tool; exit 3"}) + "\n")
    outcome = fleet.run(file, "-j", "2")
    assert (outcome.code, outcome.out) == (1, "")
    for actual_line in (
        "✓ good: endTurn, check 0, 2 steps, $0\n",
        "✗ bad: endTurn, check 1, 1 steps, $0\n",
        "3 of 3 tasks: 1 error, 1 failed, 1 passed, $0, ",
        f"results are in {fleet.out}/results.jsonl\n",
    ):
        assert actual_line in outcome.err
    results = fleet.results()
    good, bad, other_result = (results[name] for name in ("good", "bad", "other"))
    assert (good["status"], good["check"], good["steps"]) == ("passed", 0, 2)
    assert (bad["status"], bad["check"], bad["patch"]) == ("failed", 1, "")
    assert "the setup ended with exit code 3" in other_result["reason"]
    assert (good["sandbox"], good["boundary"]) == ("overlay", None)
    assert good["base"] == git(fleet.repo, "rev-parse", "HEAD")
    assert fleet.results("predictions")["good"] == {
        "instance_id": "good",
        "model_name_or_path": "oh-daemon openai/fake",
        "model_patch": good["patch"],
    }
    folder = fleet.out / "tasks" / "good"
    git(fleet.repo, "apply", str(folder / "patch.diff"))
    assert (fleet.repo / "new.txt").read_text() == "new\n"
    assert (folder / "ready").read_text() == "ready\n"
    assert (folder / "check.log").read_text() == "new\n"
    status_result = end(fleet.begin("status", str(fleet.out)))
    assert (status_result.code, [line.split()[:2] for line in status_result.out.splitlines()]) == (
        1,
        [["task", "status"], ["bad", "failed"], ["good", "passed"], ["other", "error"]],
    )
    shutil.rmtree(fleet.repo)
    again = fleet.run(file, *UNHELD)
    assert (again.code, "goes on in" in again.err) == (1, True), "nothing is done twice"


def test_fleet_exits_with_3_when_a_change_was_not_applied(fleet: FleetWorld) -> None:
    command = "echo two > a.txt; mkdir .openhands/x; echo y > .openhands/x/y"
    fleet.script(task=[call("terminal", command=command), say("Done.")])
    outcome = fleet.run(fleet.tasks("task", check="grep two a.txt"))
    assert (outcome.code, "not applied: " in outcome.err) == (3, True), outcome.err
    assert fleet.results()["task"]["status"] == "passed"
    assert end(fleet.begin("status", str(fleet.out))).code == 3


def test_a_patch_is_all_that_changed_since_the_base_whatever_the_agent_did_with_git(
    fleet: FleetWorld,
) -> None:
    log = fleet.repo / ".openhands" / "conversations" / "shipped"
    log.mkdir(parents=True)
    (log / "events.jsonl").write_text("{}\n")
    git(fleet.repo, "add", "-f", ".")
    git(fleet.repo, "commit", "-qm", "ships a log")
    script = r"""printf 'caf\351\n' > latin.txt; printf 'a\r\nb\r\n' > crlf.txt
        printf '\0\1\2' > bin; touch .openhands/more; echo two >> a.txt; git add a.txt
        git -c user.name=a -c user.email=a commit -qm 'mine'; git rm -q --cached a.txt"""
    fleet.script(task=[call("terminal", command=script), say("Done.")])
    assert fleet.run(fleet.tasks("task"), *UNHELD).code == 0
    row = fleet.results()["task"]
    assert (row["sandbox"], row["boundary"]) == ("off", "vm")
    assert ".openhands" not in row["patch"]
    assert row["conversation"] != "shipped"
    patch = fleet.out / "p.diff"
    patch.write_text(row["patch"])
    git(fleet.repo, "apply", str(patch))
    tree = fleet.out / "tasks" / "task" / "tree"
    for name in ("latin.txt", "crlf.txt", "bin", "a.txt"):
        assert (fleet.repo / name).read_bytes() == (tree / name).read_bytes()


@pytest.mark.parametrize(
    "by", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_after_a_kill_the_same_command_goes_on_inside_each_conversation(
    fleet: FleetWorld, by: signal.Signals
) -> None:
    names = ("one", "two")
    list_call = call("terminal", command="ls")
    fleet.script(**{name: [list_call, list_call, hang()] for name in names})
    command = (fleet.tasks(*names), "--out", str(fleet.out), "-j", "2", *UNHELD)
    driver = fleet.begin(*command)
    fleet.world.llm.wait_for_requests(6)
    second = end(fleet.begin(*command))
    assert (second.code, "another fleet is at work in" in second.err) == (2, True)
    first = end(driver, by, within_s=60)
    assert first.code == (130 if by is signal.SIGINT else -by)
    (fleet.out / "results.jsonl").write_bytes(b'{"id": "torn')
    status_result = end(fleet.begin("status", str(fleet.out)))
    assert [line.split()[:4] for line in status_result.out.splitlines()[1:]] == [
        ["one", "unfinished", "2", "$0"],
        ["two", "unfinished", "2", "$0"],
    ]
    fleet.script(**{name: [list_call, say("Done.")] for name in names})
    assert fleet.run(*command[:1], "-j", "2", *UNHELD).code == 0
    assert len(fleet.world.llm.requests) == 6 + 4
    for name in names:
        row = fleet.results()[name]
        assert (row["status"], row["steps"], row["nCut"]) == ("passed", 4, 1)
        assert [e["type"] for e in fleet.events(name)].count("conversation.created") == 1


def test_a_limit_of_cost_holds_over_all_kills_and_an_unknown_price_is_refused(
    fleet: FleetWorld,
) -> None:
    step = with_usage(call("terminal", command="ls"), {**USAGE, "cost": 0.25})
    file, limit = fleet.tasks("task"), ("--max-cost", "1", *UNHELD)
    fleet.world.variables["OH_DAEMON_MODEL"] = "groq/fake"
    refused_result = fleet.run(file, *limit)
    assert (
        refused_result.code,
        "the price of 'groq/fake' is not known" in refused_result.err,
    ) == (2, True)
    assert not (fleet.out / "tasks").exists()
    fleet.set({"llm": {"inputCostPerToken": 1e-6, "outputCostPerToken": 1e-6}})
    fleet.script(task=[step, hang()])
    for n_requests in (2, 3):
        driver = fleet.begin(file, "--out", str(fleet.out), *limit)
        fleet.world.llm.wait_for_requests(n_requests)
        driver.send_signal(signal.SIGKILL)
        driver.communicate(timeout=60)
        fleet.script(task=[hang()])
    fleet.script(task=[step] * 9)
    outcome = fleet.run(file, *limit)
    assert (outcome.code, "✗ task: maxCostUsdPerConversation" in outcome.err) == (1, True)
    costs = [e["usage"]["cost"]["amount"] for e in fleet.events("task") if "usage" in e]
    assert sum(costs) == 0.5, "each call that a kill cut off counts as another one"


def test_the_limit_of_all_tasks_leaves_those_waiting_that_may_not_fit(fleet: FleetWorld) -> None:
    paid_step = with_usage(say("Done."), {**USAGE, "cost": 0.9})
    fleet.set({"llm": {"inputCostPerToken": 1e-6, "outputCostPerToken": 1e-6}})
    names = ("a", "b", "c", "d", "e")
    fleet.script(**{name: [paid_step] for name in names})
    outcome = fleet.run(
        fleet.tasks(*names), "-j", "8", "--max-cost", "1", "--max-total", "3.5", *UNHELD
    )
    assert (outcome.code, len(fleet.world.llm.requests)) == (1, 3)
    assert "2 tasks did not begin: --max-total leaves too little for them" in outcome.err


@pytest.mark.full
def test_shards_have_folders_of_their_own_and_are_merged(fleet: FleetWorld) -> None:
    names = ("a", "b", "c")
    fleet.script(**{name: [say("Done.")] for name in names})
    file = fleet.tasks(*names)
    for shard, n_passed in (("0/2", 2), ("1/2", 1)):
        outcome = fleet.run(file, "--shard", shard, *UNHELD)
        assert (outcome.code, f"{n_passed} passed" in outcome.err) == (0, True)
    merge_result = end(fleet.begin("merge", str(fleet.out)))
    assert (merge_result.code, fleet.results().keys()) == (0, {*names})
    status_result = end(fleet.begin("status", str(fleet.out), "--json"))
    assert [json.loads(line)["id"] for line in status_result.out.splitlines()] == ["a", "c", "b"]
    assert fleet.run(file, "--shard", "2/2").code == 2


def test_a_half_made_clone_is_made_again_and_no_file_has_the_key(fleet: FleetWorld) -> None:
    junk = fleet.out / "tasks" / "task" / "tree.new" / "junk"
    junk.mkdir(parents=True)
    fleet.script(task=[call("terminal", command="cat a.txt"), say("Done.")])
    assert fleet.run(fleet.tasks("task", setup="test ! -e junk"), *UNHELD).code == 0
    for file in fleet.out.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


def test_a_task_waits_for_a_worker_that_is_just_being_killed(fleet: FleetWorld) -> None:
    fleet.script(task=[say("Done.")])
    lock = fleet.out / "tasks" / "task" / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        driver = fleet.begin(fleet.tasks("task"), "--out", str(fleet.out), *UNHELD)
        inode = f":{lock.stat().st_ino} "
        while not any("->" in row and inode in row for row in locks()):
            assert driver.poll() is None
    assert end(driver).code == 0


def locks() -> list[str]:
    """Return the locks that processes have, and after an arrow those that they wait for."""
    return Path("/proc/locks").read_text().splitlines()


@pytest.mark.full
def test_the_task_of_a_worker_that_is_killed_goes_on_in_another_and_all_end_with_the_driver(
    fleet: FleetWorld,
) -> None:
    names, list_call = ("one", "two"), call("terminal", command="ls")
    fleet.script(**{name: [list_call, hang()] for name in names})
    command = ("--out", str(fleet.out), "--executor", "processes", "-j", "2", *UNHELD)
    driver = fleet.begin(fleet.tasks(*names), *command)
    fleet.world.llm.wait_for_requests(4)
    fleet.script(**{name: [hang()] for name in names})
    first = workers(driver.pid)
    os.kill(min(first), signal.SIGKILL)
    fleet.world.llm.wait_for_requests(6)
    second = workers(driver.pid)
    assert first.isdisjoint(second)
    driver.kill()
    driver.communicate(timeout=60)
    for pid in second:
        wait_until_gone(pid)
    fleet.script(**{name: [say("Done.")] for name in names})
    assert fleet.run(fleet.tasks(*names), *command[2:]).code == 0
    assert [row["nCut"] for row in fleet.results().values()] == [2, 2]


def workers(driver: int) -> set[int]:
    """Return the processes that work on tasks."""
    rows = [psutil.Process(driver), *psutil.Process(driver).children()]
    return {row.pid for row in rows if "spawn_main" in " ".join(row.cmdline())}


def wait_until_gone(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=60)
