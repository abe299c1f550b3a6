"""What git does in a sandbox comes back: checked, and only where nothing has moved since."""

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from applying import ASKS, VIEW, allowed_after_a_kill, answer, wait_for_approval
from fake_llm import call, say
from git_projects import git, repository
from raw_client import RawClient
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon
Json = dict[str, Any]
COMMIT = "echo two >> a.txt && git commit -qam 'Fix the parser'"


def is_sound(place: Path) -> bool:
    """Whether nothing is missing, and the index agrees with the commit and with the files."""
    git(place, "fsck", "--strict", "--no-dangling")
    return git(place, "status", "--porcelain") == ""


def run(world: World, options: Json, *commands: str) -> tuple[RawClient, list[Json]]:
    """Let the agent run commands in a conversation of its own; return their items."""
    world.script(*(call("terminal", command=command) for command in commands), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=options)
    world.turn(client)
    return client, items(client, "command")


def run_unasked(world: World, *commands: str) -> list[str]:
    return [content_of(item) for item in run(world, {"approval": "askNever"}, *commands)[1]]


def choose(client: RawClient, conversation: str, option: str, value: str) -> None:
    params = {"conversationId": conversation, "optionId": option, "value": value}
    client.request("conversation/setOption", params)


def titles(rows: Sequence[Json] | None) -> list[str]:
    return [row["title"] for row in rows or ()]


def test_a_commit_lands_with_its_files_after_one_question(world: World) -> None:
    repository(world.project)
    world.script(
        call("terminal", command="git status; git diff; git log -1"),
        call("terminal", command=COMMIT),
        call("terminal", command="echo new > n.txt && git add n.txt"),
        call("terminal", command="git status --short && git log --format=%s"),
        say("Done."),
    )
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    approval = wait_for_approval(client)
    assert approval["title"] == "Keep commit on main: Fix the parser, and a.txt"
    [row] = approval["subject"]["git"]
    assert (row["ref"], row["before"]) == (
        "refs/heads/main",
        git(world.project, "rev-parse", "HEAD"),
    )
    assert row["repository"] == world.project.as_uri()
    answer(client, approval, "allow-once")
    second = wait_for_approval(client, 2)
    assert git(world.project, "log", "--format=%s") == "Fix the parser\nFirst"
    assert is_sound(world.project)
    assert second["title"] == "Keep what is staged: n.txt, and n.txt"
    answer(client, second, "allow-once")
    world.turn(client)
    assert git(world.project, "status", "--porcelain") == "A  n.txt"
    _, commit, _, last_command = items(client, "command")
    assert titles(commit["git"]) == ["commit on main: Fix the parser"]
    assert "[git]\nKept: commit on main: Fix the parser." in content_of(commit)
    assert content_of(last_command).startswith("A  n.txt\nFix the parser\nFirst\n")


def test_stash_branches_tags_and_resets_come_back(world: World) -> None:
    repository(world.project)
    outputs = run_unasked(
        world,
        "echo two >> a.txt && git stash push -qm One; echo three > b.txt && git stash -q",
        "git switch -qc topic && echo t > t.txt && git add . && git commit -qm Topic && git tag v1",
        "git stash pop -q && git stash list && cat b.txt",
        "git commit -qam Popped && git switch -q main",
        "git merge -q --no-edit topic && git branch -d topic && git reset -q --hard HEAD~1",
    )
    assert outputs[2].startswith("stash@{0}: On main: One\nthree\n")
    assert "Kept: drop stash: WIP on main" in outputs[2]
    assert git(world.project, "stash", "list") == "stash@{0}: On main: One"
    assert git(world.project, "tag", "--list") == "v1"
    assert git(world.project, "branch", "--format=%(refname:short)") == "main"
    assert git(world.project, "log", "--format=%s") == "Topic\nFirst"
    assert is_sound(world.project)


def test_a_rebase_that_stops_stays_in_the_view_until_it_is_finished(world: World) -> None:
    place = repository(world.project)
    for branch, text in (("topic", "topic"), ("main", "main")):
        git(place, "switch", "-qC", branch, "main")
        (place / "a.txt").write_text(f"{text}\n")
        git(place, "commit", "-qam", f"On {branch}")
    git(place, "switch", "-q", "topic")
    before = git(place, "rev-parse", "HEAD")
    commit_name = git(place, "rev-parse", "--short", "topic")
    conflict = f"<<<<<<< HEAD\nmain\n=======\ntopic\n>>>>>>> {commit_name} (On topic)"
    world.script(
        call("terminal", command="git rebase main"),
        call("edit", command="view", path="a.txt"),
        call("edit", command="str_replace", path="a.txt", old_str=conflict, new_str="both"),
        call("terminal", command="git status; cat a.txt"),
        say("Look."),
    )
    world.script(
        call("terminal", command="git add a.txt && git rebase --continue"), say("Finished.")
    )
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"mode": "autoEdit"})
    world.turn(client)
    stopped_text, status = (content_of(item) for item in items(client, "command"))
    assert "[git] A rebase is under way in the repository." in stopped_text
    assert "[git]" not in status
    assert "rebase in progress" in status
    assert "\nboth\n" in status
    assert git(place, "rev-parse", "HEAD") == before
    assert not (place / ".git/rebase-merge").exists()
    world.send(client, conversation, "go on")
    world.turn(client, nth=2)
    assert git(place, "log", "--format=%s") == "On topic\nOn main\nFirst"
    assert git(place, "show", "HEAD:a.txt") == "both"
    assert titles(items(client, "command")[-1]["git"]) == [
        "rewrite topic, 1 commit to 2 commits: On topic"
    ]
    assert is_sound(place)


def test_what_the_user_commits_meanwhile_wins_and_the_agents_commit_can_be_picked(
    world: World,
) -> None:
    place = repository(world.project)
    world.script(call("terminal", command=COMMIT), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS)
    approval = wait_for_approval(client)
    (place / "b.txt").write_text("theirs\n")
    git(place, "commit", "-qam", "Theirs")
    answer(client, approval, "allow-once")
    world.turn(client)
    [item] = items(client, "command")
    assert "git" not in item
    content = content_of(item)
    assert (
        "[git] Not kept: commit on main: Fix the parser: main was moved by somebody else" in content
    )
    assert git(place, "log", "--format=%s") == "Theirs\nFirst"
    commit = approval["subject"]["git"][0]["after"]
    assert f"{commit} can be cherry-picked" in content
    world.script(
        call("terminal", command=f"git checkout -q a.txt && git cherry-pick {commit}"), say("Done.")
    )
    choose(client, conversation, "mode", "autoEdit")
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    assert git(place, "log", "--format=%s") == "Fix the parser\nTheirs\nFirst"
    assert is_sound(place)


def test_with_less_than_all_files_no_commit_lands(world: World) -> None:
    place = repository(world.project)
    long = "".join(f"{n}\n" for n in range(40))
    (place / "a.txt").write_text(long)
    git(place, "commit", "-qam", "Long")
    two_hunks = "sed -i 's/^1$/one/;s/^38$/last/' a.txt && git commit -qam Both"
    command = "mkdir .vscode && echo '{}' > .vscode/settings.json && git add . && git commit -qm S"
    world.script(
        call("terminal", command=two_hunks), call("terminal", command=COMMIT), say("Done.")
    )
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS)
    first = wait_for_approval(client)
    edited_subject = {**first["subject"], "hunks": first["subject"]["hunks"][:1]}
    answer(client, first, "allow-once", editedSubject=edited_subject)
    answer(client, wait_for_approval(client, 2), "reject", feedback="not now")
    world.turn(client)
    hidden_command = (
        "x=$(echo {} | git hash-object -w --stdin); git update-index --add"
        " --cacheinfo 100644,$x,.vscode/tasks.json; git commit -qm Hidden"
    )
    world.script(
        call("terminal", command=command), call("terminal", command=hidden_command), say("Done.")
    )
    choose(client, conversation, "approval", "askNever")
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    chosen_text, rejected_text, left_out, hid = (
        content_of(item) for item in items(client, "command")
    )
    assert "Not kept: commit on main: Both: the user left out some of the changes" in chosen_text
    assert "[not kept: commit on main: Fix the parser, a.txt] The user rejected" in rejected_text
    assert "Not kept: commit on main: S: .vscode/settings.json is not applied" in left_out
    assert "Not kept: commit on main: Hidden: .vscode" in hid
    assert git(place, "log", "--format=%s") == "Long\nFirst"
    assert git(place, "status", "--porcelain") == "M a.txt"


def test_a_commit_that_waits_outlives_a_killed_daemon(world: World) -> None:
    place = repository(world.project)
    world.script(call("terminal", command=COMMIT), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS)
    wait_for_approval(client)
    allowed_after_a_kill(world, client, conversation)
    assert git(place, "log", "--format=%s") == "Fix the parser\nFirst"
    assert is_sound(place)


@pytest.mark.full
@pytest.mark.parametrize(("n_kills", "at_lock"), [(100, True), (200, False)])
def test_no_kill_while_a_commit_is_applied_leaves_a_lock_or_loses_it(
    world: World, n_kills: int, at_lock: bool
) -> None:
    place = repository(world.project)
    git_dir, chance = place / ".git", random.Random(n_kills)
    for n in range(n_kills):
        commit = call("terminal", command=f"echo {n} >> a.txt; git commit -qam {n}")
        world.llm.play([commit, say("Done."), say("Done.")])
        client = world.daemon(settings=VIEW)
        conversation = world.start(client, options={"mode": "autoEdit"})
        client.wait_for_event("changes.planned")
        deadline = time.monotonic() + (10 if at_lock else chance.uniform(0, 0.15))
        while time.monotonic() < deadline and not (at_lock and (git_dir / "index.lock").exists()):
            pass
        os.kill(client.process.pid, signal.SIGKILL)
        client.process.wait()
        client = world.daemon(settings=VIEW)
        info = client.request("conversation/open", {"conversationId": conversation})["conversation"]
        if info["status"] == "paused":
            client.request("conversation/resume", {"conversationId": conversation})
            world.turn(client)
        client.request("conversation/close", {"conversationId": conversation})
        client.close()
        assert not [*git_dir.glob("*.lock")], n
        assert git(place, "log", "-1", "--format=%s") == str(n)
        assert is_sound(place)


def test_settings_hooks_and_deleted_objects_do_not_come_back(world: World) -> None:
    place = repository(world.project)
    hook, settings = place / ".git/hooks/pre-commit", (place / ".git/config").read_text()
    outputs = run_unasked(
        world,
        "echo 'touch /tmp/x' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit;"
        " git config core.fsmonitor 'touch pwned'; git config core.sshCommand evil;"
        " echo /tmp > .git/objects/info/alternates; git update-ref refs/remotes/origin/main HEAD;"
        f" {COMMIT}",
        "rm -rf .git/objects/?? .git/refs .git/packed-refs; git status",
        "git log --format=%s",
    )
    assert git(place, "log", "--format=%s") == "Fix the parser\nFirst"
    assert "Left as it was: .git/config, .git/hooks/pre-commit" in outputs[0]
    assert not hook.exists()
    assert (place / ".git/config").read_text() == settings
    assert not (place / ".git/objects/info/alternates").exists()
    assert git(place, "for-each-ref", "refs/remotes") == ""
    assert not (place / "pwned").exists()
    assert outputs[2].startswith("Fix the parser\nFirst\n")
    assert is_sound(place)


def test_a_rollback_says_that_it_takes_no_commit_back(world: World) -> None:
    repository(world.project)
    client, [item] = run(world, {"approval": "askNever"}, COMMIT)
    [message] = items(client, "userMessage")
    conversation = client.events[0]["conversationId"]
    params = {"conversationId": conversation, "toItemId": message["id"], "files": "restore"}
    result = client.request("conversation/rollback", params)
    [conflict] = result["conflicts"]
    assert conflict["uri"] == world.project.as_uri()
    assert conflict["reason"].startswith("commit on main: Fix the parser")
    assert (world.project / "a.txt").read_text() == "one\n"
    assert item["git"][0]["after"] == git(world.project, "rev-parse", "main")
