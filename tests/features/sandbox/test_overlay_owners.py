"""An open folder as a sandbox shows it: its mode, and what belongs to other users and groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_llm import call, say
from sandbox_workspace import workspace_at
from world import World, content_of, items

from oh_daemon.features.sandbox.layer import is_made, open_folder
from oh_daemon.features.sandbox.levels import Trial, with_mounts

OWNERS = {"another user": (4321, -1), "another group": (-1, 4321)}
BY_OWNER = pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS.keys())
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


def make_volume(project: Path, owner: tuple[int, int]) -> Path:
    """Make a folder of another user or group, deep in the project, and such a file next to it."""
    volume = project / "deep/volume"
    volume.mkdir(parents=True)
    files = [volume.parent / "beside.txt", volume / "a.txt", volume / "gone.txt"]
    for file in files:
        file.write_text("one\n")
    for path in (volume, *files):
        os.chown(path, *owner)
        path.chmod(0o775)
    return volume


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o700])
def test_open_folder_has_its_mode(tmp_path: Path, mode: int) -> None:
    with workspace_at(tmp_path) as one:
        one.project.chmod(mode)
        assert one.run("touch new; stat -c %a .") == f"{mode:o}\n"


@AS_ROOT
@BY_OWNER
def test_commands_change_folder_of_others_as_outside(
    tmp_path: Path, owner: tuple[int, int]
) -> None:
    with workspace_at(tmp_path) as one:
        volume = make_volume(one.project, owner)
        command = "echo new > new.txt && sed -i s/one/two/ a.txt && mkdir more && rm gone.txt"
        assert one.run(f"cd {volume} && {command} 2>&1; echo $?; stat -c %a .") == "0\n775\n"
        names = {str(change.name) for change in one.collect().changes}
        assert names == {f"deep/volume/{name}" for name in ("new.txt", "a.txt", "more", "gone.txt")}
        in_place = one.run(
            "echo more >> ../beside.txt 2>&1; echo more >> ../../a.txt; cat ../../a.txt"
        )
        assert in_place.splitlines()[1:] == ["below", "more"]


@pytest.mark.parametrize("mark", [b"", b"\0\xfb"], ids=["without handles", "with handles"])
def test_folder_that_the_kernel_copied_is_not_made_by_commands(tmp_path: Path, mark: bytes) -> None:
    """The layer of a container's image, which is an overlay itself, has no handles for files."""
    os.setxattr(tmp_path, "user.overlay.origin", mark)
    with open_folder(tmp_path) as folder:
        assert not is_made(folder)


@AS_ROOT
@BY_OWNER
def test_isolated_edit_changes_file_of_others_and_leaves_its_owner(
    world: World, owner: tuple[int, int]
) -> None:
    volume = make_volume(world.project, owner)
    changed_files = {volume.parent / "beside.txt": "two\n", volume / "a.txt": "two\n"}
    replace = {"command": "replace", "old_text": "one", "new_text": "two"}
    world.script(
        *(call("edit", path=str(path), **replace) for path in changed_files),
        call("edit", command="create", path=str(volume / "new.txt"), text="new\n"),
        call("terminal", command="echo more >> deep/beside.txt; echo x >> deep/volume/gone.txt"),
        say("Done."),
    )
    client = world.daemon(settings={"sandbox": "overlay"})
    conversation = world.start(client, options={"approval": "askNever"}, isolated=True)
    world.turn(client)
    (output,) = (content_of(item) for item in items(client, "command"))
    assert "use the edit tool" in output or "Permission denied" in output
    assert {path: path.read_text() for path in changed_files} == dict.fromkeys(
        changed_files, "one\n"
    )
    client.request("changes/apply", {"conversationId": conversation})
    changed_files[volume.parent / "beside.txt"] = "two\nmore\n"
    assert {path: path.read_text() for path in changed_files} == changed_files
    assert (volume / "new.txt").read_text() == "new\n"
    for path in changed_files:
        assert owner in {(path.stat().st_uid, -1), (-1, path.stat().st_gid)}


@AS_ROOT
@BY_OWNER
def test_level_with_files_of_others_names_them(tmp_path: Path, owner: tuple[int, int]) -> None:
    rows = [Trial("overlay", is_enforced=True)]
    (tmp_path / "a.txt").write_text("one\n")
    assert with_mounts(rows, [tmp_path])[0].cause == ""
    (tmp_path / "b.txt").write_text("one\n")
    os.chown(tmp_path / "b.txt", *owner)
    (trial,) = with_mounts(rows, [tmp_path])
    assert trial.is_enforced
    assert trial.cause.startswith(f"{tmp_path} has files of another user or group: commands in")
