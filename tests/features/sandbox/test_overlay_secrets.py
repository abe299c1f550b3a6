"""What may hold secrets is empty in a real view, and git sees nothing changed there."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from leftovers import wait_until_gone
from sandbox_workspace import Workspace, workspace_at

from oh_daemon.features.sandbox.secret_files import FolderSecrets, SecretCovers
from oh_daemon.system import reaper

VALUE = "S3CR3T-VALUE"


def plant(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"TOKEN={VALUE}\n")


def git(workspace: Workspace, *words: str) -> str:
    argv = [
        "git",
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@b.c",
        "-C",
        str(workspace.project),
        *words,
    ]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def found_names(workspace: Workspace) -> str:
    """Return where commands find the value."""
    return workspace.run(f"grep -rlas --exclude-dir=state {VALUE} {workspace.home} | sort")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with workspace_at(tmp_path) as workspace:
        git(workspace, "init", "-q")
        yield workspace


def test_secrets_of_the_project_and_of_the_home_folder_are_empty(workspace: Workspace) -> None:
    in_project = (".env", "deep/down/server.pem", ".aws/credentials", "conf/real.txt", "x/.netrc")
    at_home = (".ssh/id_ed25519", ".config/gcloud/a/b.db", ".netrc", ".mozilla/f/logins.json")
    plant(
        *(workspace.project / name for name in in_project),
        *(workspace.home / name for name in at_home),
    )
    plant(workspace.home / "elsewhere/aws", workspace.project / "node_modules/p/test.pem")
    (workspace.project / "conf/.env").symlink_to("real.txt")
    (workspace.project / "innocent.md").symlink_to("../.netrc")
    (workspace.home / ".kube").symlink_to("elsewhere")
    ways = "cat .env conf/.env conf/real.txt innocent.md ~/.netrc; printenv -0; ps eaux"
    output = workspace.run(
        f"HOME={workspace.home}; {ways}; cat {workspace.home}/.kube/aws; find {workspace.home}/.ssh"
    )
    assert VALUE not in output
    assert output.endswith(f"{workspace.home}/.ssh\n")
    assert found_names(workspace) == f"{workspace.project}/node_modules/p/test.pem\n"


def test_what_git_tracks_is_not_covered_and_its_status_is_clean(workspace: Workspace) -> None:
    plant(
        workspace.project / ".env",
        workspace.project / ".docker/tracked",
        workspace.project / "sub/a.pem",
    )
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "one")
    plant(workspace.project / ".docker/mine", workspace.project / "sub/.env")
    status = git(workspace, "status", "--porcelain")
    assert workspace.run("git status --porcelain") == status
    tracked_names = (".docker/tracked", ".env", "sub/a.pem")
    assert found_names(workspace).split() == [
        f"{workspace.project}/{name}" for name in tracked_names
    ]
    git(workspace, "rm", "-q", "--cached", ".env")
    workspace.view.refresh()
    assert found_names(workspace).split() == [
        f"{workspace.project}/{name}" for name in (tracked_names[0], tracked_names[2])
    ]


def test_what_was_covered_is_not_shown_because_a_command_has_git_track_it(
    workspace: Workspace,
) -> None:
    plant(workspace.project / ".env")
    assert found_names(workspace) == ""
    git(workspace, "add", ".env")
    workspace.view.refresh()
    assert found_names(workspace) == ""


def test_secrets_that_appear_later_are_covered_before_the_next_command(
    workspace: Workspace,
) -> None:
    assert found_names(workspace) == ""
    plant(
        workspace.project / "new/.env",
        workspace.project / "key.pem",
        workspace.home / ".aws/config",
    )
    workspace.view.refresh()
    assert found_names(workspace) == ""
    # Their folder is another one now, or not there any more for a while.
    for _ in range(2):
        shutil.rmtree(workspace.project / "new")
        workspace.view.refresh()
        assert workspace.run("ls -1") == "a.txt\nkey.pem\n"
        plant(workspace.project / "new/.env")
        (workspace.project / "new/b.txt").write_text("b\n")
        workspace.view.refresh()
        assert found_names(workspace) == ""
        assert workspace.run("cat new/b.txt") == "b\n"
    (workspace.project / "new").rename(workspace.project / "old")
    plant(workspace.project / "new/.env")
    workspace.view.refresh()
    assert found_names(workspace) == ""
    assert workspace.run("ls -A1 new old") == "new:\n.env\n\nold:\n.env\nb.txt\n"


EFFECTS = {
    "write": "echo x > .env; echo x > .aws/y; truncate -s 0 sub/.env",
    "delete": "rm -rf .env .aws sub",
    "move": "mv .env env; mv .aws aws; mv sub subs; rm -rf env aws subs",
    "replace": "echo > x; mv x .env; ln -sf a.txt sub/.env; rm -f x",
    "copy over": "cp -r sub new; cp -r new/. sub; rm -rf new",
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_commands_try_with_a_covered_secret_changes_nothing(
    workspace: Workspace, effect: str
) -> None:
    names = (".env", ".aws/credentials", "sub/.env")
    plant(*(workspace.project / name for name in names))
    (workspace.project / "sub/x.txt").write_text("x")
    workspace.run(EFFECTS[effect])
    collection = workspace.collect()
    assert {str(change.name) for change in collection.changes} <= {"sub/x.txt"}
    workspace.take_out(*collection.same, *(change.name for change in collection.changes))
    assert workspace.collect().changes == []
    assert workspace.run("cat sub/x.txt") == "x"
    assert found_names(workspace) == ""
    for name in names:
        assert VALUE in (workspace.project / name).read_text()


def covered_names(masks: SecretCovers, workspace: Workspace) -> list[str]:
    """Return what is covered in the home folder."""
    below = (path for path in masks.find() if path.is_relative_to(workspace.home))
    return [str(path.relative_to(workspace.home)) for path in below]


def test_covers_of_monitor_that_has_ended_are_known_to_the_next(tmp_path: Path) -> None:
    with workspace_at(tmp_path, idle_s=0) as one:
        late = one.project / "late.pem"
        one.run("true")
        for content in ("S3CR3T", "ANOTHER", None):
            late.unlink() if content is None else late.write_text(content)
            one.view.refresh()
            helpers = {*reaper.children(one.host.root or -1)} - {one.root}
            wait_until_gone(helpers)
            assert one.run("cat late.pem 2>&1") == (
                "" if content else "cat: late.pem: No such file or directory\n"
            )
            mounts = one.run("grep -c late.pem /proc/self/mountinfo")
            assert mounts == ("1\n" if content else "0\n")


def test_what_the_user_allows_is_not_covered(workspace: Workspace) -> None:
    plant(
        workspace.project / ".env",
        workspace.project / "sub/.env",
        workspace.home / ".aws/credentials",
    )
    hosts: list[str] = []
    masks = SecretCovers(
        workspace.host, [workspace.project], workspace.home, {}, patterns=lambda: hosts
    )
    all_three = [".aws", "project/.env", "project/sub/.env"]
    assert covered_names(masks, workspace) == all_three
    hosts.append("sub/.env")
    assert covered_names(masks, workspace) == all_three[:2]
    hosts[:] = [".env", str(workspace.home / ".aws")]
    assert covered_names(masks, workspace) == []


def test_looking_again_lists_no_folder_that_has_not_changed(workspace: Workspace) -> None:
    for number in range(300):
        folder = workspace.project / f"src/{number // 30}/{number}"
        folder.mkdir(parents=True)
        for name in range(10):
            (folder / f"module_{number}_{name}.py").touch()
    names = FolderSecrets(workspace.project)
    # As long as the clock of files may lag behind, a folder counts as changed.
    while time.time_ns() - (workspace.project / "src/9/299").stat().st_ctime_ns < 50_000_000:
        pass
    times_s: list[float] = []
    for _ in range(4):
        start_s = time.thread_time()
        assert names.find() == {}
        times_s.append(time.thread_time() - start_s)
    assert min(times_s[1:]) < times_s[0] / 3
    plant(workspace.project / "src/1/31/.env")
    assert [*names.find()] == [f"{workspace.project}/src/1/31/.env"]
