"""A whole folder of a sandbox goes to the disk in one step, whatever was put into it."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from pathlib import Path

import pytest
from sandbox_workspace import Workspace, workspace_at

from oh_daemon.features.pending_changes.apply_folders import apply_folder


@pytest.fixture
def workspace(tmp_path: Path) -> Generator[Workspace]:
    with workspace_at(tmp_path) as workspace_made:
        yield workspace_made


def keep_file(workspace: Workspace, name: str) -> Path:
    outside_folder = workspace.home / "aside"
    apply_folder(workspace.upper, workspace.project, name, outside_folder)
    assert not [*workspace.project.glob(".oh-*")]
    return outside_folder


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_a_new_folder_is_there_with_its_links_modes_and_times(workspace: Workspace) -> None:
    command = "mkdir -p m/bin m/empty; echo 1 > m/a.js; ln -s ../a.js m/bin/a; chmod 755 m/a.js"
    workspace.run(f"{command}; touch -d @1000 m/a.js")
    outside_path = keep_file(workspace, "m")
    folder = workspace.project / "m"
    assert tree(folder) == {"a.js": "1\n"}
    assert os.readlink(folder / "bin/a") == "../a.js"  # noqa: PTH115 - as text.
    assert (folder / "empty").is_dir()
    assert (folder / "a.js").stat().st_mode & 0o7777 == 0o755
    assert (folder / "a.js").stat().st_mtime == 1000
    assert not outside_path.exists()


def test_what_hostile_commands_put_there_does_not_come_along(workspace: Workspace) -> None:
    victim = workspace.home / "victim"
    victim.write_text("safe")
    workspace.run(
        "mkdir -p m/.git/hooks; echo x > m/.git/hooks/pre-commit; mkfifo m/pipe"
        f"; ln -s {victim} m/l; echo s > m/suid; chmod 4755 m/suid; ln -s / m/root"
    )
    keep_file(workspace, "m")
    folder = workspace.project / "m"
    assert sorted(path.name for path in folder.iterdir()) == ["l", "root", "suid"]
    assert (folder / "l").is_symlink()
    assert stat.S_IMODE((folder / "suid").stat().st_mode) == 0o755
    assert victim.read_text() == "safe"


def test_a_process_that_holds_a_file_open_cannot_write_to_the_disk_through_it(
    workspace: Workspace,
) -> None:
    workspace.run("mkdir m; exec 5> m/log; echo one >&5")
    keep_file(workspace, "m")
    workspace.run("echo two >&5")
    assert tree(workspace.project / "m") == {"log": "one\n"}


def test_an_existing_folder_becomes_what_the_view_has_and_nothing_of_the_disk_is_lost(
    workspace: Workspace,
) -> None:
    folder = workspace.project / "m"
    (folder / "sub").mkdir(parents=True)
    for name in ("kept", "changed", "gone", "sub/kept", "sub/gone"):
        (folder / name).write_text("disk\n")
    before = (folder / "kept").stat().st_ino
    workspace.run("echo view > m/changed; echo view > m/new; rm m/gone m/sub/gone")
    outside_path = keep_file(workspace, "m")
    assert tree(folder) == {
        "kept": "disk\n",
        "changed": "view\n",
        "new": "view\n",
        "sub/kept": "disk\n",
    }
    assert (folder / "kept").stat().st_ino == before
    assert (folder / "kept").stat().st_nlink == 1
    [old] = outside_path.iterdir()
    assert tree(old) == {"changed": "disk\n", "gone": "disk\n", "sub/gone": "disk\n"}


def test_a_folder_that_was_made_anew_replaces_the_old_one_whole(workspace: Workspace) -> None:
    folder = workspace.project / "m"
    folder.mkdir()
    (folder / "old").write_text("disk\n")
    workspace.run("rm -r m; mkdir m; echo view > m/new")
    outside_path = keep_file(workspace, "m")
    assert tree(folder) == {"new": "view\n"}
    [old] = outside_path.iterdir()
    assert tree(old) == {"old": "disk\n"}


def test_a_link_on_the_way_leads_nowhere(workspace: Workspace) -> None:
    outside = workspace.home / "outside"
    outside.mkdir()
    workspace.run("mkdir -p sub/m; echo x > sub/m/a")
    (workspace.project / "sub").symlink_to(outside)
    with pytest.raises(OSError, match="directory"):
        apply_folder(workspace.upper, workspace.project, "sub/m", workspace.home / "aside")
    assert not [*outside.iterdir()]
