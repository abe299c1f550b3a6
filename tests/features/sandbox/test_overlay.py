"""A real view: what commands see in it, what reaches the disk, and what is left when it ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from places import TESTS
from sandbox_workspace import Workspace, bubblewrap, workspace_at

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.sandbox import monitor as keeper
from oh_daemon.features.sandbox.storage import MAX_PROCESSES, n_numbers, sweep


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with workspace_at(tmp_path) as workspace:
        yield workspace


def test_what_commands_write_reaches_neither_the_project_nor_the_home(workspace: Workspace) -> None:
    output = workspace.run(
        "echo new >> a.txt; rm -rf ../other; echo x > ../mine; cat a.txt ../mine"
    )
    assert output == "below\nnew\nx\n"
    assert (workspace.project / "a.txt").read_text() == "below\n"
    assert sorted(path.name for path in workspace.home.iterdir()) == ["project", "state"]
    assert (workspace.view.upper(workspace.project) / "a.txt").read_text() == "below\nnew\n"


def test_what_changes_below_is_seen_after_a_refresh(workspace: Workspace) -> None:
    assert "No such file" in workspace.run("cat later.txt")
    (workspace.project / "later.txt").write_text("it came\n")
    workspace.view.refresh()
    assert workspace.run("cat later.txt") == "it came\n"


def test_an_unsaved_text_is_put_into_the_view_and_not_on_the_disk(workspace: Workspace) -> None:
    workspace.run("true")
    workspace.view.inside(workspace.project).write(Path("a.txt"), b"unsaved\n")
    workspace.view.inside(workspace.project).write(Path("deep/down/b.txt"), b"new\n")
    assert workspace.run("cat a.txt deep/down/b.txt") == "unsaved\nnew\n"
    assert (workspace.project / "a.txt").read_text() == "below\n"


@pytest.mark.parametrize("trap", ["ln -s {victim} a.txt", "ln -s {folder} deep", "mkfifo a.txt"])
def test_what_is_put_into_the_view_follows_no_link_out_of_it(
    workspace: Workspace, trap: str
) -> None:
    victim = workspace.home / "victim"
    victim.write_text("untouched")
    workspace.run(f"rm a.txt; {trap.format(victim=victim, folder=workspace.home)}")
    for name in ("a.txt", "deep/victim"):
        try:
            workspace.view.inside(workspace.project).write(Path(name), b"caught")
        except OSError:
            continue
    assert victim.read_text() == "untouched"
    assert "caught" not in workspace.run(f"cat {victim}")


def test_nothing_outside_can_be_reached_or_ended(workspace: Workspace) -> None:
    output = workspace.run(
        f"kill -9 {os.getpid()}; ls /run; touch /etc/x; unshare -U true;"
        f" ls {workspace.home}/state/views"
        "; cat /proc/net/dev | grep -c :"
    )
    assert "No such process" in output
    assert "Read-only file system" in output
    assert "unshare failed" in output
    assert output.endswith("1\n")  # There is the loopback device only.


def test_a_view_whose_first_process_was_killed_starts_again(workspace: Workspace) -> None:
    workspace.run("echo kept > b.txt")
    workspace.view.refresh()
    root = workspace.view.spawner.root
    assert root is not None
    workspace.shells.open().begin("sleep 100")
    os.kill(root, 9)
    outcome = workspace.shells.open().wait(timeout_s=60, cancel=CancelToken())
    assert outcome.note.startswith("The shell itself ended")
    assert workspace.run("cat b.txt") == "kept\n"
    (workspace.project / "c.txt").write_text("c\n")
    workspace.view.refresh()
    assert workspace.run("cat c.txt") == "c\n"


@pytest.mark.full
def test_a_view_that_is_about_to_start_is_not_swept_away(tmp_path: Path) -> None:
    """Each daemon sweeps as it makes its first view, and another's may not run yet."""
    is_over = threading.Event()

    def keep_sweeping() -> None:
        while not is_over.is_set():
            sweep(tmp_path / "home/state/views")

    sweeper = threading.Thread(target=keep_sweeping)
    sweeper.start()
    try:
        for number in range(10):
            with workspace_at(tmp_path, str(number)) as workspace:
                assert workspace.run("echo here") == "here\n"
    finally:
        is_over.set()
        sweeper.join()


def test_sockets_of_the_machine_are_hidden_also_where_no_overlay_lies(tmp_path: Path) -> None:
    other_folder = tmp_path / "agent"
    other_folder.mkdir()
    (other_folder / "more").write_text("")
    connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    with ExitStack() as stack:
        for name in (other_folder / "socket", tmp_path / "socket"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(name))
            listener.listen()
        workspace = stack.enter_context(workspace_at(tmp_path))
        outputs = [
            workspace.run(f"python3 -c '{connect}' {name} 2>&1 | tail -1")
            for name in (other_folder / "socket", tmp_path / "socket")
        ]
        assert [each.partition(":")[0] for each in outputs] == [
            *("FileNotFoundError", "PermissionError")
        ]
        assert workspace.run(f"ls -A {other_folder}") == ""
        own = 'import socket; one = socket.socket(socket.AF_UNIX); one.bind("s"); one.listen()'
        assert workspace.run(f"python3 -c '{own}' && echo made") == "made\n"


def test_a_socket_that_vanishes_while_a_view_starts_does_not_keep_it_from_starting(
    tmp_path: Path,
) -> None:
    other_folder = tmp_path / "agent"
    other_folder.mkdir()
    late = tmp_path / "late"
    late.write_text(f'#!/bin/sh\nrm -rf {other_folder}\nexec {bubblewrap()} "$@"\n')
    late.chmod(0o755)
    with (
        socket.socket(socket.AF_UNIX) as listener,
        workspace_at(tmp_path, program=late) as workspace,
    ):
        listener.bind(str(other_folder / "socket"))
        assert workspace.run("echo started") == "started\n"
        assert not other_folder.exists()


FORKS = "ulimit -u 40; for ((n = 0; n < $1; n++)); do sleep 1 & done; wait"


def test_a_view_has_a_limit_of_processes_that_are_counted_for_it_alone(
    workspace: Workspace,
) -> None:
    workspace.run("true")
    workspace.view.refresh()
    assert workspace.run("ulimit -u") == f"{MAX_PROCESSES}\n"
    if Path("/proc/self/uid_map").read_text().split()[1] == "0":
        return  # The kernel limits nothing of root's, in whatever namespace.
    outside = [subprocess.Popen(["sleep", "100"]) for _ in range(40)]
    few, many = (f"bash -c '{FORKS}' bash {n} 2>&1" for n in (20, 80))
    assert workspace.run(few) == ""
    assert "Resource temporarily unavailable" in workspace.run(f"{many} | head -1")
    for process in outside:
        process.kill()
        process.wait()


LIMIT = f"""
import os, runpy, sys
keeper = runpy.run_path({keeper.__file__!r})
keeper["enter"](int(sys.argv[1]), 400)
"""


def test_the_numbers_of_processes_in_a_view_end_also_for_root(workspace: Workspace) -> None:
    """A fork bomb takes all that there are, and nobody else loses one."""
    outside = Path("/proc/sys/kernel/pid_max")
    before = outside.read_text()
    workspace.run("true")
    workspace.view.refresh()
    if not n_numbers():
        assert workspace.run(f"cat {outside}") == before  # Before Linux 6.14 there is one for all.
        return
    assert workspace.run(f"cat {outside}") == f"{n_numbers()}\n"
    subprocess.run([sys.executable, "-c", LIMIT, str(workspace.root)], check=True)
    bomb = "bash -c 'for ((n = 0; n < 500; n++)); do sleep 100 & done' 2>&1 | head -1; pkill sleep"
    assert "Resource temporarily unavailable" in workspace.run(bomb)
    assert workspace.run("echo on") == "on\n"
    assert outside.read_text() == before


MOUNT = """
import subprocess, sys
from pathlib import Path
from sandbox_workspace import workspace_at
below = Path(sys.argv[1], "home/project/a mount")
below.mkdir(parents=True)
subprocess.run(["mount", "-t", "tmpfs", "none", str(below)], check=True)
with workspace_at(Path(sys.argv[1])) as workspace:
    try:
        workspace.run("true")
    except Exception as exc:
        print(exc)
    subprocess.run(["umount", str(below)], check=True)
    print(workspace.run("echo on"))
"""
APART = ("unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c")


def in_own_mounts(script: str, *arguments: str | Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(TESTS / "support")}
    outcome = subprocess.run(
        [*APART, script, *arguments], check=False, env=env, capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def test_a_mount_that_keeps_a_view_from_starting_is_named(tmp_path: Path) -> None:
    output = in_own_mounts(MOUNT, tmp_path)
    project = tmp_path / "home/project"
    assert f"cannot cover {project}, since {project}/a mount has been mounted" in output
    assert output.endswith("on\n\n")


HOME = """
import socket, subprocess, sys
from pathlib import Path
from sandbox_workspace import workspace_at
home = Path(sys.argv[1], "home")
mounts = [home / name for name in ("volume", ".cache/pip", ".ssh", ".local/deep/er")]
for folder in (*mounts, home / ".cache/uv", home / ".config", home / ".local/bin"):
    folder.mkdir(parents=True)
for folder, kind in zip(mounts, ("tmpfs", "tmpfs", "ramfs", "ramfs")):
    subprocess.run(["mount", "-t", kind, "none", str(folder)], check=True)
    (folder / "inner").write_text("mounted\\n")
for name in (".gitconfig", ".netrc", ".config/tool", ".cache/uv/wheel"):
    (home / name).write_text("the user's\\n")
(home / "linked").symlink_to(".config")
listener = socket.socket(socket.AF_UNIX)
listener.bind(str(home / "volume/agent"))
listener.listen()
with workspace_at(Path(sys.argv[1])) as workspace:
    workspace.view.start()
    workspace.view.refresh()
    print(workspace.run(sys.argv[2]))
    (home / ".config/tool").write_text("newer\\n")
    workspace.view.refresh()
    print(workspace.run("cat .config/tool; ls -A .ssh; cat .netrc".replace(" .", f" {home}/.")))
for folder in (home, home / ".npm", *mounts, home / ".config"):
    assert not (folder / "own").exists()
"""
IN_HOME = """
cd ..; cat linked/tool .gitconfig volume/inner .cache/uv/wheel .local/deep/er/inner
for place in . project volume .config .cache .cache/uv .cache/pip .local .local/bin .npm; do
  mkdir -p $place && echo x > $place/own && cat $place/own > /dev/null || echo "not $place"
done
for place in .local/deep/er/own .gitconfig; do
  { echo x > $place; } 2>&- && echo "changed $place"
done
ls -1A .ssh .cache/pip; cat .netrc
python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("volume/agent")' 2>&1 | tail -1
"""


def test_a_mount_below_the_home_folder_leaves_the_rest_of_it_in_the_view(tmp_path: Path) -> None:
    lines = in_own_mounts(HOME, tmp_path, IN_HOME).split("\n")
    read = ["the user's", "the user's", "mounted", "the user's", "mounted"]
    lines_expected = [".cache/pip:", "inner", "own", "", ".ssh:"]
    refusal_lines = ["ConnectionRefusedError: [Errno 111] Connection refused", ""]
    assert lines == [*read, *lines_expected, *refusal_lines, "newer", "", ""]


TEMPORARY = """
import subprocess, sys
from msgspec.structs import replace
from pathlib import Path
from sandbox_workspace import workspace_at
scratch = Path(sys.argv[1], "scratch")
(scratch / "mounted").mkdir(parents=True)
(scratch / "a.txt").write_text("outside")
subprocess.run(["mount", "-t", "tmpfs", "none", str(scratch / "mounted")], check=True)
with workspace_at(scratch / "deep", scratch=[scratch]) as workspace:
    command = "ls -A; echo mine > a.txt && cat a.txt deep/home/project/a.txt"
    print(workspace.run(f"cd {scratch}; {command}"))
print((scratch / "a.txt").read_text())
"""


def test_a_temporary_folder_with_a_mount_below_is_an_empty_one_in_the_view(tmp_path: Path) -> None:
    words = in_own_mounts(TEMPORARY, tmp_path).split()
    assert words == ["deep", "mine", "below", "outside"]
