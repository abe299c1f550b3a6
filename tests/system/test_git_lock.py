"""A lock on the index that an earlier version left, which bears no mark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oh_daemon.system import git_lock


@pytest.mark.parametrize(
    ("age_s", "program", "is_removed", "words"),
    [
        (700, "bash", True, "12 minutes old"),
        (700, "git", False, "if no git works there, remove it"),
        (60, "bash", False, ""),
    ],
)
def test_lock_without_a_mark_is_removed_when_it_is_old_and_no_git_runs(
    tmp_path: Path, age_s: int, program: str, is_removed: bool, words: str
) -> None:
    lock = tmp_path / git_lock.LOCK
    lock.touch()
    os.utime(lock, (1_000_000, 1_000_000))
    report = git_lock.remove_old(tmp_path, 1_000_000 + age_s, {program, "init"})
    assert words in (report or "")
    assert lock.exists() != is_removed
    assert not git_lock.drop_leftover(tmp_path)
