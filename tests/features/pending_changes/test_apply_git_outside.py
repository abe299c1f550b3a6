"""Repositories that reach beyond the open folder: subfolders, linked work trees, submodules."""

from collections.abc import Callable
from pathlib import Path

import pytest
from applying import VIEW
from fake_llm import call, say
from git_projects import git, repository
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon
_HOOK = "#!/bin/sh\necho {} ran >&2\n"


def run(world: World, folder: Path, *commands: str) -> list[str]:
    """Let the agent run commands with one folder open, and return what the model saw."""
    world.script(*(call("terminal", command=command) for command in commands), say("Done."))
    client = world.daemon(settings=VIEW, folders=[folder])
    client.request("workspace/setTrust", {"folder": folder.as_uri(), "trusted": "full"})
    world.start(client, options={"approval": "askNever"})
    world.turn(client)
    return [content_of(item) for item in items(client, "command")]


def with_library(place: Path) -> Path:
    """Make a repository with a subfolder and hooks, one of them by `core.hooksPath`."""
    repository(place)
    (place / "lib").mkdir()
    (place / "lib/c.txt").write_text("one\n")
    (place / ".husky").mkdir()
    for name in ("pre-commit", "commit-msg"):
        (place / ".husky" / name).write_text(_HOOK.format(name))
        (place / ".husky" / name).chmod(0o755)
    git(place, "add", ".")
    git(place, "commit", "-qm", "Library")
    git(place, "config", "core.hooksPath", str(place / ".husky"))
    return place


def subfolder(home: Path) -> Path:
    return with_library(home / "main") / "lib"


def ordinary(home: Path) -> Path:
    return with_library(home / "main")


def linked_tree(home: Path) -> Path:
    git(with_library(home / "main"), "worktree", "add", "-q", "-b", "side", str(home / "tree"))
    return home / "tree"


def subfolder_of_linked_tree(home: Path) -> Path:
    return linked_tree(home) / "lib"


def tree_of_bare(home: Path) -> Path:
    with_library(home / "main")
    git(home, "clone", "-q", "--bare", "main", "bare.git")
    for name in ("user.name", "user.email", "core.hooksPath"):
        git(home / "bare.git", "config", name, git(home / "main", "config", name))
    git(home / "bare.git", "worktree", "add", "-q", "-b", "side", str(home / "tree"))
    return home / "tree"


def submodule(home: Path) -> Path:
    main, other = with_library(home / "main"), repository(home / "other")
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    for name in ("user.name", "user.email", "core.hooksPath"):
        git(main / "sub", "config", name, git(main, "config", name))
    return main / "sub"


@pytest.mark.parametrize(
    "make",
    [
        ordinary,
        subfolder,
        linked_tree,
        submodule,
        pytest.param(subfolder_of_linked_tree, marks=pytest.mark.full),
        pytest.param(tree_of_bare, marks=pytest.mark.full),
    ],
)
def test_git_works_in_a_folder_whose_repository_lies_elsewhere(
    world: World, make: Callable[[Path], Path]
) -> None:
    folder = make(world.home)
    name = "lib/c.txt" if (folder / "lib").is_dir() else "c.txt"
    name = name if (folder / name).exists() else "a.txt"
    reads = f"git status --short && git log -1 --format=%s && git diff && git blame -s {name}"
    looks, commit, stash, branch = run(
        world,
        folder,
        reads,
        f"echo two >> {name} && git add {name} && git commit -qm 'Fix it'",
        f"echo three >> {name} && git stash -q && git stash list",
        "git tag v1 && git branch topic && git log -1 --format=%s topic",
    )
    assert "[exit code 0" in looks
    assert "one\n" in looks
    assert "pre-commit ran\ncommit-msg ran\n" in commit
    head = git(folder, "symbolic-ref", "--short", "HEAD")
    assert f"[git]\nKept: commit on {head}: Fix it." in commit
    assert f"Kept: stash: WIP on {head}" in stash
    assert "Kept: new branch topic at" in branch
    assert git(folder, "log", "--format=%s", "-1", "topic") == "Fix it"
    assert git(folder, "show", f"HEAD:./{name}") == "one\ntwo"
    assert git(folder, "stash", "list").startswith("stash@{0}: WIP on")
    assert git(folder, "status", "--porcelain", ".") == ""
    git(folder, "fsck", "--strict", "--no-dangling")


def test_git_changes_no_file_outside_the_open_folder(world: World) -> None:
    folder = subfolder(world.home)
    main = folder.parent
    git(main, "switch", "-qc", "other")
    for place in (main, folder):
        (place / "new.txt").write_text("other\n")
    (main / "a.txt").write_text("other\n")
    git(main, "add", ".")
    git(main, "commit", "-qm", "Other")
    git(main, "switch", "-q", "main")
    (main / "b.txt").write_text("by the user\n")
    before = (git(main, "status", "--porcelain"), git(main, "rev-parse", "HEAD"))
    commands = (
        "git switch -q other",
        "git merge -q --no-edit other",
        "git cherry-pick other",
        "git reset -q --hard",
        "git stash -q",
        "git checkout -q other -- ..",
        "git rm -qr ../a.txt",
        "echo x > ../a.txt; git add ..",
        "git restore ../b.txt",
    )
    outputs = run(world, folder, *commands, "git status --porcelain; git log --format=%s", "ls")
    for command, output in zip(commands, outputs, strict=False):
        assert f"open the repository's root, {main}, for that." in output, (command, output)
    assert outputs[-2].startswith(" M b.txt\nLibrary\nFirst\n")
    assert outputs[-1].startswith("c.txt\n[exit code 0")
    assert (git(main, "status", "--porcelain"), git(main, "rev-parse", "HEAD")) == before
    assert git(main, "stash", "list") == ""
    assert (main / "b.txt").read_text() == "by the user\n"


def test_folder_that_only_names_a_repository_cannot_change_it(world: World) -> None:
    victim = repository(world.home / "victim")
    folder = world.home / "download"
    folder.mkdir()
    (folder / ".git").write_text(f"gitdir: {victim}/.git\n")
    looks, commit = run(world, folder, "git log --format=%s", "git commit -q --allow-empty -m X")
    assert looks.startswith("First\n")
    assert "Read-only file system" in commit
    assert git(victim, "log", "--format=%s") == "First"
