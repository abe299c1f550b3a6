"""`oh-daemon replay`: the same agent on the log of an earlier run, and what it finds different."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command_line import Ran, end, environment, start
from fake_llm import first_user_text, script_by_key
from record import WORK
from starts import SCRIPT
from world import World

N_STEPS = 8


def oh(world: World, *args: str | Path) -> Ran:
    env = environment(world.home, **world.environment)
    return end(start([SCRIPT, *args], world.project, env))


def logs(world: World) -> list[Path]:
    return sorted(world.project.glob(".openhands/conversations/*/events.jsonl"))


def record_conversation(world: World) -> Path:
    """Let the agent work with tools, a retry, thinking and a sub-agent; return the log."""
    (world.home / "settings.json").write_text(json.dumps({"logCompletions": True}))
    world.llm.play(script_by_key(lambda request: first_user_text(request).split()[0], WORK))
    outcome = oh(world, "run", "Do it", "--ask", "never")
    assert outcome.code == 0, outcome
    [own] = [log for log in logs(world) if b'"parentId"' not in log.read_bytes()]
    return own


def test_a_replay_touches_nothing_and_finds_the_first_difference(world: World) -> None:
    log = record_conversation(world)
    (world.project / "new.txt").unlink()
    before, n_requests = logs(world), len(world.llm.requests)
    for args in ((log.parent.name[:6],), (log.parent, "--strict")):
        outcome = oh(world, "replay", *args)
        same = f"replayed {N_STEPS} steps, no difference ({N_STEPS} requests)\n"
        assert (outcome.code, outcome.out) == (0, same), outcome
    assert not (world.project / "new.txt").exists()
    assert (logs(world), len(world.llm.requests)) == (before, n_requests)

    text = log.read_text("utf-8")
    log.write_text(text.replace('"finalText":"It is', '"finalText":"It was'), "utf-8")
    outcome = oh(world, "replay", log.parent)
    assert outcome.code == 6
    assert "step 6: the end of the turn differs\n" in outcome.out
    assert "-finalText: It was done.\n+finalText: It is done.\n" in outcome.out

    log.write_text(text.replace(f"in {world.project}]", "in /elsewhere]"), "utf-8")
    outcome = oh(world, "replay", log.parent)
    assert outcome.code == 6
    assert "step 3: the request differs\n" in outcome.out
    assert re.search(r"^\+messages.*in /elsewhere\]$", outcome.out, re.MULTILINE)

    log.write_text(re.sub(r"date: \d{4}-", "date: 1999-", text), "utf-8")
    assert [oh(world, "replay", log.parent, *more).code for more in ((), ("--strict",))] == [0, 6]


@pytest.mark.full
def test_a_recording_is_a_model_for_other_folders(world: World) -> None:
    log, n_requests = record_conversation(world), len(world.llm.requests)
    env = environment(world.home, **world.environment)
    args = ("run", "Do it", "--ask", "never", "--model", f"replay:{log.parent}")
    for name, code in (("same", 0), ("other", 1)):
        folder = world.project.parent / name
        shutil.copytree(world.project / ".git", folder / ".git")
        if name == "other":
            (folder / "more.txt").write_text("")
        outcome = end(start([SCRIPT, *args], folder, env))
        assert outcome.code == code, outcome
        assert "costs money" not in outcome.err
    assert re.search(r"^\+messages.*more.txt$", outcome.out, re.MULTILINE)

    lines = map(json.loads, log.read_text("utf-8").splitlines())
    message = next(line["itemId"] for line in lines if "itemId" in line)
    fork_result = oh(world, "fork", log.parent.name, "--at", message, "--model", "demo")
    outcome = oh(world, "run", "--resume", fork_result.out.strip())
    assert (outcome.code, "I am a script" in outcome.out) == (0, True)
    assert f"oh-daemon run --resume {fork_result.out[:12]}\n" in fork_result.err
    assert len(world.llm.requests) == n_requests


def test_tools_run_again_only_in_a_clone(world: World) -> None:
    (world.project / "a.txt").write_text("a\n")
    git = ("git", "-C", world.project, "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "add", "a.txt"], check=True)
    subprocess.run([*git, "commit", "-qm", "One"], check=True)
    log = record_conversation(world)
    (world.project / "new.txt").unlink()
    outcome = oh(world, "replay", log.parent.name, "--execute", "--ask", "never")
    same = "replayed 6 steps, no difference (6 requests)"
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, same), outcome
    assert not (world.project / "new.txt").exists()
    assert len(logs(world)) == 2
