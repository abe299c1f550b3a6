"""A file that is read again only when it has changed, and each way in which it may change."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from oh_daemon.features.settings.sources import SETTINGS_FILE, SettingsSources
from oh_daemon.system.private_files import CachedFile


def in_place(path: Path) -> None:
    path.write_text("new")


def in_place_with_its_old_times(path: Path) -> None:
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text("new")
    os.utime(path, ns=times)


def by_another_file(path: Path) -> None:
    other_path = path.with_name("other")
    other_path.write_text("new")
    other_path.replace(path)


def by_a_link_to_another(path: Path) -> None:
    path.with_name("target").write_text("new")
    path.unlink()
    path.symlink_to("target")


def through_a_folder_that_is_another_link(path: Path) -> None:
    folder = path.parent
    folder.rename(folder.with_name("before"))
    other_folder = folder.with_name("after")
    other_folder.mkdir()
    (other_folder / path.name).write_text("new")
    folder.symlink_to(other_folder)


@pytest.mark.parametrize(
    "change",
    [
        *(in_place, in_place_with_its_old_times, by_another_file, by_a_link_to_another),
        through_a_folder_that_is_another_link,
    ],
)
def test_each_change_of_a_file_is_seen_at_the_next_use(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder/file"
    path.parent.mkdir()
    path.write_text("old")
    file = CachedFile(path, Path.read_text)
    # Again and again, since what was written within one tick of the clock may look the same.
    for _ in range(50):
        assert file.value() == path.read_text()
    change(path)
    assert file.value() == "new"


def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    reads: list[str] = []

    def read(path: Path) -> list[str]:
        reads.append(path.name)
        return [path.read_text()]

    path = Path(__file__)
    file = CachedFile(path, read)
    values = [file.value() for _ in range(5)]
    assert reads == [path.name]
    assert all(value is values[0] for value in values)
    missing_file = CachedFile(tmp_path / "none", lambda _path: reads.append("none"))
    assert (missing_file.value(), missing_file.value()) == (None, None)
    assert reads == [path.name, "none"]
    (tmp_path / "none").touch()
    missing_file.value()
    assert reads == [path.name, "none", "none"]


def test_settings_are_one_object_until_a_source_changes(tmp_path: Path) -> None:
    user, project = tmp_path / "settings.json", tmp_path / "project"
    user.write_text('{"maxSteps": 5}')
    sources = SettingsSources({}, user)
    first = sources.merged(project)
    user.touch()
    assert sources.merged(project) is first
    (project / SETTINGS_FILE).parent.mkdir(parents=True)
    (project / SETTINGS_FILE).write_text('{"approval": "askAlways"}')
    assert sources.merged(project).settings.approval == "askAlways"
    assert sources.merged(project, lambda _folder: False).settings.approval == "askRisky"
    sources.client = {"maxSteps": 7}
    assert sources.merged(project).settings.max_steps == 7
