"""git on the disk: refusals."""

import os
from contextlib import closing
from pathlib import Path

import pytest
from git_projects import git, repository

from oh_daemon.system.git import refusal_of
from oh_daemon.system.spawner import Spawner


def test_refusal_of_git_is_named_with_its_cure(tmp_path: Path) -> None:
    project = repository(tmp_path / "it's mine")
    with closing(Spawner()) as spawner:
        assert refusal_of(spawner, project) is None
        assert refusal_of(spawner, tmp_path) is None
        git(project, "config", "core.repositoryFormatVersion", "99")
        assert "fatal: " in (refusal_of(spawner, project) or "")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a repository to another user")
def test_repository_of_another_user_is_named_with_its_cure(tmp_path: Path) -> None:
    project = repository(tmp_path / "theirs")
    for place in (project, project / ".git"):
        os.chown(place, 4321, 4321)
    with closing(Spawner()) as spawner:
        assert refusal_of(spawner, project) == (
            f"git refuses the repository '{project}', since it belongs to another user; if you"
            f" trust it: git config --global --add safe.directory {project}"
        )
