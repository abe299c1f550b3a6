"""What git starts when it only reads, in real shells: every program here leaves its name behind.

A clone brings no settings, so nothing may start in one. Settings can come with an unpacked folder,
which the user has to trust first; what they may start then is written down here.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.risk.rating import rate_command
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.path_classes import Disk
from oh_daemon.workspace.paths import Folders, in_bare_repository


def _commands(text: str) -> list[str]:
    return [command.strip() for command in text.split("¦")]


LISTS = _commands(
    """git log¦git log --oneline -5¦git log --stat¦git log --name-only --format=%h
    ¦git log --graph --all¦git shortlog -sn HEAD¦git rev-list --count HEAD¦git reflog
    ¦git stash list¦git branch -a¦git branch -vv¦git branch --show-current¦git tag -l
    ¦git describe --tags --always¦git rev-parse --show-toplevel¦git rev-parse --abbrev-ref HEAD
    ¦git ls-files¦git ls-files -o --exclude-standard¦git ls-tree -r HEAD¦git grep -n one
    ¦git cat-file -p HEAD¦git show HEAD:a.txt¦git show --stat HEAD¦git merge-base HEAD HEAD
    ¦git for-each-ref refs/heads¦git worktree list¦git remote -v¦git config user.name
    ¦git check-ignore -v a.txt¦git check-attr -a a.txt¦git count-objects -vH¦git name-rev HEAD
    ¦git cherry main¦git show-ref¦git show-branch¦git var GIT_AUTHOR_IDENT¦git help -a
    ¦git version¦git --version"""
)
COMPARES = _commands(
    """git status¦git status --short¦git status -sb --porcelain=v2¦git -C . status -uall --ignored
    ¦git diff¦git diff HEAD¦git diff --stat¦git diff --cached¦git diff --name-only HEAD~1
    ¦git diff HEAD~1 -- a.txt¦git diff main...HEAD¦git --no-pager diff¦git show¦git show HEAD
    ¦git log -p¦git log -p -2 -- a.txt¦git log -S one¦git log --follow -p c.py¦git blame c.py
    ¦git blame -L 1,1 b.md¦git annotate a.txt¦git stash show -p¦git describe --tags --dirty
    ¦git ls-files -m¦git diff-tree -p HEAD¦git diff-index -p HEAD¦git diff-files -p
    ¦git whatchanged¦git range-diff HEAD~1..HEAD HEAD~1..HEAD¦git reflog -p"""
)
HIGH = _commands(
    """git diff --ext-diff¦git show --textconv¦git log -p --output=x¦git grep -Oless x
    ¦git grep --op=less x¦git -c core.fsmonitor=./x status¦git --exec-path=x status
    ¦git --git-dir=x status¦GIT_PAGER=x git log¦git st¦git status2¦git diff --outp=x¦'git log'
    ¦git stash drop¦git reflog delete x¦git "$@"¦git branch -D x¦git tag -d x
    ¦git symbolic-ref HEAD x¦git -C / commit¦unset GIT_CONFIG_COUNT; git log
    ¦alias git=x; git status¦git() { x; }; git status"""
)
MEDIUM = _commands(
    """git log --show-signature¦git log --format=%G?¦git show --remerge-diff
    ¦git log --diff-merges=remerge¦git for-each-ref --format='%(signature)'
    ¦git log --alternate-refs¦git diff ../x¦git -C .. log¦git stash¦git branch x¦git tag x
    ¦git remote show origin¦git fsck¦git add -A¦git commit -m x¦git fetch¦git config --list
    ¦git cat-file --batch"""
)
_SETTINGS = {
    "fsmonitor": "core.fsmonitor",
    "pager": "core.pager",
    "ssh": "core.sshCommand",
    "editor": "core.editor",
    "gpg": "gpg.program",
    "askpass": "core.askPass",
    "clean": "filter.clean.clean",
    "smudge": "filter.clean.smudge",
    "process": "filter.process.process",
    "external": "diff.external",
    "command": "diff.command.command",
    "textconv": "diff.textconv.textconv",
    "driver": "merge.driver.driver",
    "gui": "guitool.x.cmd",
    "status": "pager.status",
    "trailer": "trailer.x.command",
}
_CONFIGURED = {"clean", "smudge", "process", "external", "command", "textconv"}
"""What nothing in the environment turns off: a filter or a driver can have any name."""
_ATTRIBUTES = """*.txt filter=clean diff=command merge=driver
*.md diff=textconv
*.bin filter=process
"""


class World:
    """A folder with programs, and what of them has been started."""

    def __init__(self, folder: Path, shells: Shells) -> None:
        self._folder = folder
        self._shells = shells
        (folder / "started").mkdir()

    def program(self, name: str) -> str:
        path = self._folder / name
        path.write_text(f'#!/bin/sh\n: > {self._folder}/started/{name}\ncat "$1" 2>&1\n')
        path.chmod(0o755)
        return str(path)

    def take_started(self) -> set[str]:
        names = {path.name for path in (self._folder / "started").iterdir()}
        for name in names:
            (self._folder / "started" / name).unlink()
        return names

    def run(self, folder: Path, commands: Iterable[str]) -> set[str]:
        """Run the commands in a shell of the agent; return what they started."""
        shell = self._shells.open()
        lines = "\n".join([f"cd {shlex.quote(str(folder))}", *commands])
        shell.run(lines, timeout_s=120, cancel=CancelToken())
        return self.take_started()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    spawner = Spawner()
    (tmp_path / "world").mkdir()
    shells = Shells(spawner, tmp_path, lambda: os.environ | {"HOME": str(tmp_path)})
    yield World(tmp_path / "world", shells)
    shells.close()
    spawner.close()


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True)


def hostile_settings(world: World, config: Path) -> None:
    for name, setting in _SETTINGS.items():
        git(config.parent, "config", "--file", str(config), setting, world.program(name))
    for setting in ("log.showSignature", "submodule.recurse", "status.submoduleSummary"):
        git(config.parent, "config", "--file", str(config), setting, "true")


@pytest.fixture
def clone(world: World, tmp_path: Path) -> Path:
    """A clone of a repository that brings all that it can, with files that changed since."""
    source = tmp_path / "source"
    (source / "fixture.git").mkdir(parents=True)
    git(source, "init", "-q", "-b", "main")
    for name in ("a.txt", "b.md", "c.py", "d.bin"):
        (source / name).write_text("one\n")
    (source / ".gitattributes").write_text(_ATTRIBUTES)
    for name in (".gitconfig", ".lfsconfig", "config"):
        hostile_settings(world, source / name)
    git(source, "config", "--file", ".gitmodules", "submodule.x.path", "x")
    git(source, "config", "--file", ".gitmodules", "submodule.x.url", f"ext::{world.program('x')}")
    git(source, "config", "--file", ".gitmodules", "submodule.x.update", f"!{world.program('y')}")
    _bare(source / "fixture.git", world)
    git(source, "add", "-A")
    git(source, "commit", "-qm", "one")
    (source / "b.md").write_text("two\n")
    git(source, "commit", "-qam", "two")
    git(tmp_path, "clone", "-q", str(source), "clone")
    clone = tmp_path / "clone"
    git(clone, "tag", "v1")
    (clone / "c.py").write_text("three\n")
    git(clone, "stash")
    for name in ("a.txt", "b.md", "c.py", "d.bin"):
        (clone / name).write_text("four\n")
    world.take_started()
    return clone


def _bare(folder: Path, world: World) -> None:
    """Make a repository without `.git`, which a clone can contain, in want of an object."""
    git(folder, "init", "-q", "--bare", "-b", "main")
    hostile_settings(world, folder / "config")
    for setting, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(folder)),
        ("remote.origin.uploadpack", world.program("uploadpack")),
    ):
        git(folder, "config", "--file", "config", setting, value)
    (folder / "refs/heads/main").write_text("1" * 40 + "\n")
    # Without a file in them a clone would leave these folders out.
    (folder / "objects/info/keep").touch()


def rate(command: str, folder: Path, cwd: Path | None = None) -> str:
    disk = Disk(in_bare_repository, Folders((folder,)).leads_away, os.path.isdir)
    rating = rate_command(command, [folder], cwd, disk)
    return "low" if rating.only_reads else rating.risk


def test_reading_a_clone_asks_nobody_and_starts_nothing(world: World, clone: Path) -> None:
    reads = [*LISTS, *COMPARES]
    assert [command for command in reads if rate(command, clone) != "low"] == []
    assert world.run(clone, reads) == set()


def test_a_repository_among_the_files_of_a_clone_asks_before_git_reads_it(
    world: World, clone: Path
) -> None:
    bare = clone / "fixture.git"
    for where in (bare, bare / "refs"):
        assert {rate(command, clone, where) for command in COMPARES} == {"medium"}
        assert rate(f"cd {where} && git log", clone) == "medium"
        assert rate(f"git -C {where} log", clone) == "medium"
    (clone / "link").symlink_to(bare / "refs")
    assert rate("cd link && git log", clone) == "medium"
    assert rate("cd $X && git log", clone) == "medium"
    # It is not for nothing: git would start what the repository names.
    assert "uploadpack" in world.run(bare, ["git log"])


def test_settings_of_a_folder_can_start_filters_and_drivers_but_nothing_else(
    world: World, clone: Path
) -> None:
    hostile_settings(world, clone / ".git/config")
    world.take_started()
    assert world.run(clone, LISTS) == set()
    comparison = world.run(clone, COMPARES)
    assert comparison <= _CONFIGURED
    # Known, and the reason why a folder has to be trusted before anything runs in it.
    assert {"clean", "textconv"} <= comparison


def test_what_makes_git_start_or_destroy_something_is_high(tmp_path: Path) -> None:
    assert [command for command in HIGH if rate(command, tmp_path) != "high"] == []


def test_what_makes_git_do_more_than_read_asks(tmp_path: Path) -> None:
    assert [command for command in MEDIUM if rate(command, tmp_path) != "medium"] == []
