"""Finds the secrets that a sandbox hides: by kind of name, and in further mounts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from usual_names import HOME_ORDINARY, HOME_SECRETS, PROJECT_ORDINARY, PROJECT_SECRETS

from oh_daemon.features.sandbox.secret_files import SecretCovers
from oh_daemon.system.spawner import Spawner


@pytest.fixture(scope="module")
def host() -> Iterator[Spawner]:
    host = Spawner()
    yield host
    host.close()


def plant(folder: Path, *lists: str) -> list[str]:
    names = [name for text in lists for name in text.split()]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return names


def visible_names(covers: SecretCovers, folder: Path, names: list[str]) -> list[str]:
    covered = covers.find()
    return [name for name in names if covered.keys().isdisjoint((path := folder / name).parents)
            and path not in covered]  # fmt: skip


@pytest.mark.parametrize("kind", HOME_SECRETS)
def test_usual_secret_of_home_folder_is_hidden(host: Spawner, tmp_path: Path, kind: str) -> None:
    names = plant(tmp_path, HOME_SECRETS[kind])
    assert visible_names(SecretCovers(host, [], tmp_path, {}), tmp_path, names) == []


def test_ordinary_file_of_home_folder_is_visible(host: Spawner, tmp_path: Path) -> None:
    plant(tmp_path, *HOME_SECRETS.values())
    names = plant(tmp_path, HOME_ORDINARY)
    assert visible_names(SecretCovers(host, [], tmp_path, {}), tmp_path, names) == names


def test_only_secrets_of_project_are_hidden(host: Spawner, tmp_path: Path) -> None:
    project = tmp_path / "project"
    secrets = plant(project, *PROJECT_SECRETS.values())
    names = plant(project, PROJECT_ORDINARY)
    covers = SecretCovers(host, [project], tmp_path, {})
    assert visible_names(covers, project, secrets) == []
    assert visible_names(covers, project, names) == names


def test_folders_moved_by_variables_are_looked_at(host: Spawner, tmp_path: Path) -> None:
    names = plant(tmp_path, "moved/newtool/token moved/gh/hosts.yml")
    variables = {"XDG_CONFIG_HOME": str(tmp_path / "moved")}
    assert visible_names(SecretCovers(host, [], tmp_path, variables), tmp_path, names) == []


IN_NAMESPACE = """
import sys
from pathlib import Path
from oh_daemon.features.sandbox.secret_files import SecretCovers
from oh_daemon.system.spawner import Spawner
home, *roots = map(Path, sys.argv[1:])
host = Spawner()
print(*SecretCovers(host, roots, home, {}).find(), sep="\\n")
host.close()
"""


@pytest.mark.parametrize(
    ("mount", "root", "hidden"),
    [
        ("home", "home/project", "alias"),
        (".", "home/project", "alias/home"),
        ("home/.ssh", "home/project", "alias"),
        ("home/project", "home/project", "alias/.env"),
        # The open folder lies in the other mount, which must stay usable.
        ("home", "alias/project", "alias/.ssh"),
    ],
)
def test_second_mount_shows_no_secret(tmp_path: Path, mount: str, root: str, hidden: str) -> None:
    plant(tmp_path, "home/.ssh/id_rsa home/project/.env alias/x")
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    words += [str(tmp_path / mount), str(tmp_path / "alias"), sys.executable, "-c", IN_NAMESPACE]
    words += [str(tmp_path / "home"), str(tmp_path / root)]
    result = subprocess.run(words, check=True, capture_output=True, text=True)
    places = set(map(Path, result.stdout.splitlines()))
    assert tmp_path / hidden in places
    assert {tmp_path / "alias/project", tmp_path / "home"}.isdisjoint(places)
