"""What may hold secrets is empty in a real view, and git sees nothing changed there."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from view_desk import Desk, desk_at

from oh_daemon.features.sandbox.secret_files import FolderSecrets, SecretCovers

VALUE = "S3CR3T-VALUE"


def plant(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"TOKEN={VALUE}\n")


def git(desk: Desk, *words: str) -> str:
    argv = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(desk.project), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def found_names(desk: Desk) -> str:
    """Return where commands find the value."""
    return desk.run(f"grep -rlas --exclude-dir=state {VALUE} {desk.home} | sort")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(tmp_path) as desk:
        git(desk, "init", "-q")
        yield desk


def test_secrets_of_the_project_and_of_the_home_folder_are_empty(desk: Desk) -> None:
    in_project = (".env", "deep/down/server.pem", ".aws/credentials", "conf/real.txt", "x/.netrc")
    at_home = (".ssh/id_ed25519", ".config/gcloud/a/b.db", ".netrc", ".mozilla/f/logins.json")
    plant(*(desk.project / name for name in in_project), *(desk.home / name for name in at_home))
    plant(desk.home / "elsewhere/aws", desk.project / "node_modules/p/test.pem")
    (desk.project / "conf/.env").symlink_to("real.txt")
    (desk.project / "innocent.md").symlink_to("../.netrc")
    (desk.home / ".kube").symlink_to("elsewhere")
    ways = "cat .env conf/.env conf/real.txt innocent.md ~/.netrc; printenv -0; ps eaux"
    output = desk.run(f"HOME={desk.home}; {ways}; cat {desk.home}/.kube/aws; find {desk.home}/.ssh")
    assert VALUE not in output
    assert output.endswith(f"{desk.home}/.ssh\n")
    assert found_names(desk) == f"{desk.project}/node_modules/p/test.pem\n"


def test_what_git_tracks_is_not_covered_and_its_status_is_clean(desk: Desk) -> None:
    plant(desk.project / ".env", desk.project / ".docker/tracked", desk.project / "sub/a.pem")
    git(desk, "add", ".")
    git(desk, "commit", "-qm", "one")
    plant(desk.project / ".docker/mine", desk.project / "sub/.env")
    status = git(desk, "status", "--porcelain")
    assert desk.run("git status --porcelain") == status
    tracked_names = (".docker/tracked", ".env", "sub/a.pem")
    assert found_names(desk).split() == [f"{desk.project}/{name}" for name in tracked_names]
    git(desk, "rm", "-q", "--cached", ".env")
    desk.view.refresh()
    assert found_names(desk).split() == [
        f"{desk.project}/{name}" for name in (tracked_names[0], tracked_names[2])
    ]


def test_what_was_covered_is_not_shown_because_a_command_has_git_track_it(desk: Desk) -> None:
    plant(desk.project / ".env")
    assert found_names(desk) == ""
    git(desk, "add", ".env")
    desk.view.refresh()
    assert found_names(desk) == ""


def test_secrets_that_appear_later_are_covered_before_the_next_command(desk: Desk) -> None:
    assert found_names(desk) == ""
    plant(desk.project / "new/.env", desk.project / "key.pem", desk.home / ".aws/config")
    desk.view.refresh()
    assert found_names(desk) == ""
    # Their folder is another one now, or not there any more for a while.
    for _ in range(2):
        shutil.rmtree(desk.project / "new")
        desk.view.refresh()
        assert desk.run("ls -1") == "a.txt\nkey.pem\n"
        plant(desk.project / "new/.env")
        (desk.project / "new/b.txt").write_text("b\n")
        desk.view.refresh()
        assert found_names(desk) == ""
        assert desk.run("cat new/b.txt") == "b\n"
    (desk.project / "new").rename(desk.project / "old")
    plant(desk.project / "new/.env")
    desk.view.refresh()
    assert found_names(desk) == ""
    assert desk.run("ls -A1 new old") == "new:\n.env\n\nold:\n.env\nb.txt\n"


EFFECTS = {
    "write": "echo x > .env; echo x > .aws/y; truncate -s 0 sub/.env",
    "delete": "rm -rf .env .aws sub",
    "move": "mv .env env; mv .aws aws; mv sub subs; rm -rf env aws subs",
    "replace": "echo > x; mv x .env; ln -sf a.txt sub/.env; rm -f x",
    "copy over": "cp -r sub new; cp -r new/. sub; rm -rf new",
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_commands_try_with_a_covered_secret_changes_nothing(desk: Desk, effect: str) -> None:
    names = (".env", ".aws/credentials", "sub/.env")
    plant(*(desk.project / name for name in names))
    (desk.project / "sub/x.txt").write_text("x")
    desk.run(EFFECTS[effect])
    collection = desk.collect()
    assert {str(change.name) for change in collection.changes} <= {"sub/x.txt"}
    desk.take_out(*collection.same, *(change.name for change in collection.changes))
    assert desk.collect().changes == []
    assert desk.run("cat sub/x.txt") == "x"
    assert found_names(desk) == ""
    for name in names:
        assert VALUE in (desk.project / name).read_text()


def covered_names(masks: SecretCovers, desk: Desk) -> list[str]:
    """Return what is covered in the home folder."""
    below = (path for path in masks.find() if path.is_relative_to(desk.home))
    return [str(path.relative_to(desk.home)) for path in below]


def test_what_the_user_allows_is_not_covered(desk: Desk) -> None:
    plant(desk.project / ".env", desk.project / "sub/.env", desk.home / ".aws/credentials")
    hosts: list[str] = []
    masks = SecretCovers(desk.host, [desk.project], desk.home, {}, patterns=lambda: hosts)
    all_three = [".aws", "project/.env", "project/sub/.env"]
    assert covered_names(masks, desk) == all_three
    hosts.append("sub/.env")
    assert covered_names(masks, desk) == all_three[:2]
    hosts[:] = [".env", str(desk.home / ".aws")]
    assert covered_names(masks, desk) == []


def test_looking_again_lists_no_folder_that_has_not_changed(desk: Desk) -> None:
    for number in range(300):
        folder = desk.project / f"src/{number // 30}/{number}"
        folder.mkdir(parents=True)
        for name in range(10):
            (folder / f"module_{number}_{name}.py").touch()
    names = FolderSecrets(desk.project)
    # As long as the clock of files may lag behind, a folder counts as changed.
    while time.time_ns() - (desk.project / "src/9/299").stat().st_ctime_ns < 50_000_000:
        pass
    times_s: list[float] = []
    for _ in range(4):
        start_s = time.thread_time()
        assert names.find() == {}
        times_s.append(time.thread_time() - start_s)
    assert min(times_s[1:]) < times_s[0] / 3
    plant(desk.project / "src/1/31/.env")
    assert [*names.find()] == [f"{desk.project}/src/1/31/.env"]
