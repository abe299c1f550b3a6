"""What the machine says of itself: which branch, how many changes, which Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from oh_daemon.features.instructions.machine import Machine
from oh_daemon.system.environment import CommandVariables
from oh_daemon.system.spawner import Spawner

WITHIN_S = 90


def git(place: Path, *words: str) -> None:
    identity = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b.example",
        "-c",
        "init.defaultBranch=trunk",
    )
    subprocess.run(["git", *identity, *words], cwd=place, check=True, capture_output=True)


def facts(folder: Path, *, is_trusted: bool = True, **variables: str) -> dict[str, str]:
    spawner = Spawner()
    environment = CommandVariables({**os.environ, **variables})
    machine = Machine(folder, lambda: environment, spawner, lambda: is_trusted)
    machine.look()
    machine.wait(WITHIN_S)
    spawner.close()
    return machine.facts()


def test_git_is_asked_for_the_changes_where_the_folder_is_trusted(tmp_path: Path) -> None:
    """Finding D19: neither branch nor changes were told."""
    assert "git" not in facts(tmp_path)
    git(tmp_path, "init", "-q")
    assert facts(tmp_path)["git"] == "branch trunk, no commits yet"
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "config", "core.repositoryFormatVersion", "99")
    refusal = f"branch trunk, git refuses the repository of '{tmp_path}': fatal: "
    assert facts(tmp_path)["git"].startswith(refusal)
    git(tmp_path, "config", "--file", ".git/config", "core.repositoryFormatVersion", "0")
    assert facts(tmp_path)["git"] == "branch trunk, no changed files"
    (tmp_path / "a.py").write_text("x = 2\n")
    (tmp_path / "new.py").touch()
    assert facts(tmp_path)["git"] == "branch trunk, 2 changed files"
    (tmp_path / "new.py").unlink()
    below = tmp_path / "below"
    below.mkdir()
    assert facts(below)["git"] == "branch trunk, 1 changed file"
    assert "git" not in facts(tmp_path, is_trusted=False)
    linked_folder = tmp_path.parent / "linked"
    git(tmp_path, "worktree", "add", "-q", "-b", "other", str(linked_folder))
    assert facts(linked_folder)["git"] == "branch other, no changed files"
    git(linked_folder, "checkout", "-q", "--detach")
    assert facts(linked_folder)["git"] == "no branch, no changed files"


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ((), "none"),
        (("bin/python3",), "{}/bin/python3, as `python3` only"),
        (("bin/python", "bin/python3"), "{}/bin/python"),
        (
            ("bin/python3", "project/.venv/bin/python"),
            "{}/bin/python3, as `python3` only; the project has .venv/bin/python (3.12.1)",
        ),
    ],
)
def test_the_python_is_that_which_a_command_gets(
    tmp_path: Path, programs: tuple[str, ...], expected: str
) -> None:
    """Finding D19: a call was lost to `python: command not found`."""
    project = tmp_path / "project"
    for name in programs:
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("")
        program.chmod(0o755)
    project.mkdir(exist_ok=True)
    if (project / ".venv").exists():
        (project / ".venv/pyvenv.cfg").write_text("home = /usr\nversion = 3.12.1\n")
    assert facts(project, PATH=f"{tmp_path}/bin")["python"] == expected.format(tmp_path)
