"""Checkpoints keep the content of every kind of folder to the byte, and leave git's files alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.checkpoints.checkpoints import Checkpoints
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.files import MAX_TEXT_BYTES
from oh_daemon.workspace.paths import Folders


@pytest.fixture
def spawner() -> Iterator[Spawner]:
    spawner = Spawner()
    yield spawner
    spawner.close()


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, *words: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *words)
    (folder / "old").write_text("old\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "start")
    return folder


class Watched:
    """Folders whose changed files can be listed by name, with the content from before."""

    def __init__(self, tmp_path: Path, spawner: Spawner, *folders: Path) -> None:
        self.store = tmp_path / "store"
        self.checkpoints = Checkpoints(self.store, Folders(folders), spawner)
        self.before = self.checkpoints.take(CancelToken())

    def changed_files(self) -> dict[str, bytes | None]:
        after = self.checkpoints.take(CancelToken())
        assert self.before is not None, self.checkpoints.problem
        assert after is not None, self.checkpoints.problem
        differences = self.checkpoints.differences(self.before, after)
        oids = [each.before.oid for each in differences if each.before]
        contents = self.checkpoints.contents(oids)
        return {
            each.path.name: contents[each.before.oid] if each.before else None
            for each in differences
        }


@pytest.mark.parametrize("kind", ["plain", "repository", "sha256", "worktree", "below", "bare"])
def test_in_every_kind_of_folder(kind: str, tmp_path: Path, spawner: Spawner):
    folder = tmp_path / "folder"
    match kind:
        case "plain":
            folder.mkdir()
        case "sha256":
            commit(folder, "--object-format=sha256")
        case "worktree":
            git(commit(tmp_path / "main"), "worktree", "add", "-q", str(folder))
        case "below":
            folder = commit(tmp_path / "main") / "deep/er"
            folder.mkdir(parents=True)
        case "bare":
            folder.mkdir()
            git(folder, "init", "-q", "--bare", "inside.git")
        case _:
            commit(folder)
    (folder / "old").write_bytes(b"one\r\ntwo")
    watch = Watched(tmp_path, spawner, folder)
    (folder / "old").write_bytes(b"changed")
    (folder / "new").write_bytes(b"")
    assert watch.changed_files() == {"old": b"one\r\ntwo", "new": None}


def test_a_repository_inside_counts_and_what_is_ignored_does_not(tmp_path: Path, spawner: Spawner):
    outer = commit(tmp_path / "outer")
    inner = commit(outer / "lib/inner")
    (outer / ".gitignore").write_text("*.log\n")
    (outer / ".git/info/exclude").write_text("private\n")
    (tmp_path / "elsewhere").mkdir()
    watch = Watched(tmp_path, spawner, outer / "lib", tmp_path / "elsewhere")
    for folder in (outer, outer / "lib", inner, tmp_path / "elsewhere"):
        (folder / "made").write_text("x")
    for name in ("a.log", "private"):
        (outer / "lib" / name).write_text("x")
    (inner / "old").unlink()
    after = watch.changed_files()
    assert after == {"old": b"old\n", "made": None}


def test_the_users_repository_is_not_written(tmp_path: Path, spawner: Spawner):
    folder = commit(tmp_path / "folder")
    (folder / "staged").write_text("staged\n")
    git(folder, "add", "staged")
    (folder / ".git/hooks/post-index-change").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (folder / ".git/hooks/post-index-change").chmod(0o755)
    (folder / ".git/index.lock").write_text("")
    git_files = {path: path.read_bytes() for path in (folder / ".git").rglob("*") if path.is_file()}
    watch = Watched(tmp_path, spawner, folder)
    (folder / "staged").unlink()
    assert watch.changed_files() == {"staged": b"staged\n"}
    assert git_files == {
        path: path.read_bytes() for path in (folder / ".git").rglob("*") if path.is_file()
    }
    assert not (tmp_path / "ran").exists()


def test_filters_and_line_ends_of_the_project_do_not_change_what_is_kept(
    tmp_path: Path, spawner: Spawner
):
    folder = commit(tmp_path / "folder")
    (folder / ".gitattributes").write_text("* text=auto eol=lf filter=upper\n")
    git(folder, "config", "filter.upper.clean", "tr a-z A-Z")
    (folder / "old").write_bytes(b"a\r\nb\r\n")
    watch = Watched(tmp_path, spawner, folder)
    (folder / "old").unlink()
    assert watch.changed_files() == {"old": b"a\r\nb\r\n"}


def test_ignore_files_that_are_none_hold_nothing_up(tmp_path: Path, spawner: Spawner):
    folder = commit(tmp_path / "folder")
    (folder / ".git/info/exclude").unlink(missing_ok=True)
    for name in (folder / ".git/info/exclude", tmp_path / "ignores"):
        os.mkfifo(name)
    git(folder, "config", "core.excludesFile", str(tmp_path / "ignores"))
    watch = Watched(tmp_path, spawner, folder)
    (folder / "old").write_bytes(b"new")
    assert watch.changed_files() == {"old": b"old\n"}


def test_a_huge_file_is_left_out_and_said(tmp_path: Path, spawner: Spawner):
    (tmp_path / "folder").mkdir()
    with (tmp_path / "folder/huge").open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    watch = Watched(tmp_path, spawner, tmp_path / "folder")
    assert "above 16 MiB" in (watch.checkpoints.problem or "")
    (tmp_path / "folder/small").write_text("x")
    assert watch.changed_files() == {"small": None}


def test_a_look_that_was_killed_is_no_hindrance_to_the_next(tmp_path: Path, spawner: Spawner):
    folder = commit(tmp_path / "folder")
    watch = Watched(tmp_path, spawner, folder)
    [index] = watch.store.glob("index-*")
    Path(f"{index}.lock").write_text("left behind")
    (folder / "old").write_text("new\n")
    assert watch.changed_files() == {"old": b"old\n"}
    assert (watch.store / "HEAD").stat().st_uid == os.geteuid()


def test_after_a_failure_nothing_holds_up_the_next_command(tmp_path: Path, spawner: Spawner):
    folder = commit(tmp_path / "folder")
    (tmp_path / "store").write_text("in the way")
    watch = Watched(tmp_path, spawner, folder)
    assert watch.before is None
    assert "cannot be taken back" in (watch.checkpoints.problem or "")
    (tmp_path / "store").unlink()
    assert watch.checkpoints.take(CancelToken()) is None


def test_why_git_refuses_a_repository_is_told(tmp_path: Path, spawner: Spawner):
    folder = commit(tmp_path / "folder")
    (folder / ".git/config").write_text("[broken")
    watch = Watched(tmp_path, spawner, folder)
    assert watch.before is None
    assert "git ended with 128: fatal: bad config line" in (watch.checkpoints.problem or "")


def test_looking_at_checkpoints_does_not_disturb_one_that_is_being_taken(
    tmp_path: Path, spawner: Spawner
):
    folder = commit(tmp_path / "folder")
    watch = Watched(tmp_path, spawner, folder)
    (folder / "old").write_text("new\n")
    assert list(watch.changed_files()) == ["old"]
    # Git's own lock while it writes the index, which another thread may be doing.
    [index] = watch.store.glob("index-*")
    lock = Path(f"{index}.lock")
    lock.touch()
    after = watch.checkpoints.take(CancelToken())
    assert after is not None, "a lock that a killed git has left is removed"
    lock.touch()
    assert watch.before is not None
    watch.checkpoints.differences(watch.before, after)
    assert lock.exists()
