"""Attacks on the walls of a real overlay sandbox: whatever commands plant, nothing opens."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sandbox_workspace import Workspace, workspace_at

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.sandbox import entry
from oh_daemon.features.sandbox.storage import holder
from oh_daemon.system import reaper
from oh_daemon.system.environment import clean_env
from oh_daemon.system.pty import Pty
from oh_daemon.system.spawner import Enclosure, Spawner, output_file, written_to

TARGETS = ("/run", "/proc", "/dev/shm")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with workspace_at(tmp_path) as workspace:
        yield workspace


def mounts(workspace: Workspace) -> list[str]:
    """Return the mounts outside the project and the home folder, as commands see them."""
    places = workspace.run("cut -d' ' -f5 /proc/self/mountinfo").split()
    return sorted(place for place in places if not place.startswith(str(workspace.home)))


def wait_in_background(workspace: Workspace, script: str) -> None:
    (workspace.project / "job.py").write_text(script)
    workspace.run("python3 job.py & until [ -e begun ]; do sleep 0.01; done")


SECRETS = {
    "table": ".netrc",
    "table, in a folder": ".docker/config.json",
    "pattern": "project/late.pem",
    "pattern, at home": "late.pem",
    "pattern, in a folder": "project/gen/late.pem",
    "pattern, in a folder that is a link": "project/gen/deep/late.pem",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("secret", SECRETS)
def test_secret_that_comes_and_goes_mounts_and_unmounts_nothing_behind_a_link(
    workspace: Workspace, secret: str, target: str
) -> None:
    place = workspace.home / SECRETS[secret]
    link = place.parents[1] if "link" in secret else place
    away = f"{target}/x" if "link" in secret else target
    workspace.run(f"mkdir -p {link.parent} /run/x/deep /dev/shm/x/deep; ln -s /dev/shm {link}")
    before = mounts(workspace)
    for step in (f"ln -sfn {away} {link}", f"rm -f {link}; ln -s {away} {link}", "true"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("TOKEN=S3CR3T\n")
        workspace.view.refresh()
        assert mounts(workspace) == before
        workspace.run(step)
        place.unlink()
        workspace.view.refresh()
        assert mounts(workspace) == before


@pytest.mark.parametrize("name", [".netrc", ".ssh/id_rsa", ".config/gh/hosts.yml", ".docker/a"])
@pytest.mark.parametrize("before", ["true", "mkdir -p {0}; rm -rf {0}", "touch {0}; rm -rf {1}"])
def test_secret_of_the_table_that_comes_later_is_never_seen(
    workspace: Workspace, name: str, before: str
) -> None:
    secret = workspace.home / name
    workspace.run(
        f"mkdir -p {secret.parent}; {before.format(secret, workspace.home / Path(name).parts[0])}"
    )
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.write_text("TOKEN=S3CR3T\n")
    for _ in range(2):
        assert workspace.run(f"grep -rs S3CR3T --exclude-dir=state {workspace.home}") == ""
        workspace.view.refresh()


RACE = """
import os, sys
name, away, target = {name!r}, {name!r} + ".away", {target!r}
os.symlink(target, name)
open("begun", "w").close()
while not os.path.exists("stop"):
    for old, new in ((name, away), (away, name)):
        try:
            os.rename(old, new)
        except OSError:  # The sandbox has just covered the name, or uncovered it.
            pass
"""
APPEAR: dict[str, Callable[[Path], object]] = {
    "once": lambda place: place.write_text("TOKEN=S3CR3T\n"),
    "again and again": lambda place: place.unlink() if place.exists() else place.write_text("K"),
}


@pytest.mark.parametrize("n_looks", [20, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("how", APPEAR)
def test_name_that_a_job_exchanges_mounts_and_unmounts_nothing_behind_it(
    workspace: Workspace, how: str, n_looks: int
) -> None:
    place = workspace.project / "late.pem"
    wait_in_background(workspace, RACE.format(name="late.pem", target="/run"))
    before = mounts(workspace)
    for number in range(n_looks):
        if number == 0 or how != "once":
            APPEAR[how](place)
        workspace.view.refresh()
        assert mounts(workspace) == before
        assert workspace.run("ls -A /run") == ""
    workspace.run("touch stop; wait")


@pytest.mark.parametrize("moved", ["the folder of all sandboxes", "a folder above a layer"])
def test_what_was_mounted_at_the_start_cannot_be_moved_away(
    workspace: Workspace, moved: str
) -> None:
    place = workspace.home / ("state/views/one" if "views" in moved else "project")
    told = workspace.run(f"mv {place} {place}-moved 2>&1; mkdir -p {place}; ls -A {place}")
    assert "cannot move" in told
    (workspace.project / "late.pem").write_text("TOKEN=S3CR3T\n")
    workspace.view.refresh()
    assert workspace.run("cat late.pem") == ""


SEIZE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for pid in sys.argv[1:]:
    print(pid, "seized" if libc.ptrace(0x4206, int(pid), 0, 0) == 0 else "refused")
    for name in ("mem", "environ", "fd/0", "fd/3", "fd/4", "fd/5"):
        try:
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
            print(pid, name, "opened")
        except OSError:
            pass
"""


def test_process_1_cannot_be_traced_and_has_nothing_that_commands_can_open(
    workspace: Workspace,
) -> None:
    (workspace.project / "seize.py").write_text(SEIZE)
    assert workspace.run("python3 seize.py 1") == "1 refused\n"
    for descriptor in Path(f"/proc/{workspace.root}/fdinfo").iterdir():
        place = Path(f"/proc/{workspace.root}/fd/{descriptor.name}")
        if os.access(place.parent, os.R_OK) and stat.S_ISREG(place.stat().st_mode):
            assert int(descriptor.read_text().split()[3], 8) & os.O_ACCMODE == os.O_RDONLY


LIAR = f"""
import socket, sys
sys.path.append({str(Path(reaper.__file__).parent)!r})
import reaper
report, number, daemon, scratch = sys.argv[1:]
sock = socket.socket(fileno=int(daemon))
class Lying:
    def __getattr__(self, name):
        return getattr(sock, name)
    def send(self, data):
        for _ in range(int(number)):
            sock.send(report.encode())
        return sock.send(data)
reaper.main(Lying(), scratch)
"""


@pytest.mark.parametrize("n_times", [3, pytest.param(200_000, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "report",
    [
        *("x", "?", "a b c d", "ready", "ready 0 0", "started x 7", "started x x", "failed x 5"),
        *("exit 1 x", "exit 123456789012345678901234567890 1", "failed x 99999999999999999999"),
    ],
)
def test_forged_report_changes_nothing_for_the_next_command(
    tmp_path: Path, report: str, n_times: int
) -> None:
    words = (sys.executable, "-I", "-S", "-c", LIAR, report, str(n_times))
    host, around = Spawner(), ("sh", "-c", '"$@"; exit $?', "sh")
    spawner = Spawner(lambda: Enclosure(host, around, reaper=words))
    try:
        for number in range(3):
            argv = ["sh", "-c", f"echo {number}; exit {number}"]
            done = spawner.run(argv, cwd=tmp_path, timeout_s=60)
            assert (done.exit_code, done.stdout) == (number, b"%d\n" % number)
    finally:
        spawner.close()
        host.close()


def test_pipe_outside_of_the_layers_cannot_be_written_to(
    workspace: Workspace, tmp_path: Path
) -> None:
    outside, inside = tmp_path / "pipe", workspace.project / "pipe"
    os.mkfifo(outside)
    reading = os.open(outside, os.O_RDWR | os.O_NONBLOCK)
    assert "Permission denied" in workspace.run(f"timeout 5 sh -c 'echo x > {outside}' 2>&1")
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    os.close(reading)
    told = workspace.run(f"mkfifo {inside}; cat {inside} & echo x > {inside}; wait $!; mkdir a b")
    assert told.startswith("x\n")
    assert workspace.run("echo y > a/y; mv a/y b/; ln b/y a/; cat a/y > /dev/stdout") == "y\n"


ABOUT = "grep -E '^(Seccomp|NoNewPrivs|CapBnd|CapEff):' /proc/self/status; exec python3 seize.py"


def test_program_that_joins_is_confined_and_cannot_be_traced(workspace: Workspace) -> None:
    (workspace.project / "seize.py").write_text(SEIZE)
    workspace.run("sleep 1000 & echo $! > pid")
    pid = workspace.run("cat pid").strip()
    workspace.view.start()
    running = holder(workspace.home / "state/views/one")
    assert running is not None
    root, writable = running
    with ExitStack() as stack:
        joined = entry.join_words(root, str(workspace.project), writable)
        out = output_file(stack)
        argv = [*joined, "sh", "-c", f"touch joined; sleep 1000 & echo $!; {ABOUT} {pid} 1"]
        env = clean_env(os.environ)
        process = workspace.host.spawn(argv, cwd=Path("/"), env=env, fds=[None, out, out])
        assert process.wait(60) == 0
        theirs, *status = written_to(out).decode().splitlines()
    zero = f"{0:016x}"
    facts = [f"CapEff:\t{zero}", f"CapBnd:\t{zero}", "NoNewPrivs:\t1", "Seccomp:\t2"]
    assert status == [*facts, f"{pid} refused", "1 refused"]
    assert workspace.run(f"ls joined; python3 seize.py {theirs}; kill {theirs}").startswith(
        f"joined\n{theirs} refused\n"
    )


def test_program_of_the_user_in_a_sandbox_has_a_terminal_of_its_own(tmp_path: Path) -> None:
    pty = Pty()
    argv = (sys.executable, "-m", "oh_daemon", "sandbox", "--level", "overlay", "--folder")
    env = {**os.environ, "HOME": str(tmp_path / "home")}
    (tmp_path / "home/project").mkdir(parents=True)
    see = "test -t 0 && readlink /proc/self/fd/0 > seen; read typed; echo $typed >> seen; cat seen"
    words = [*argv, str(tmp_path / "home/project"), "--", "sh", "-c", see]
    os.write(pty.master, b"typed\n")
    process = subprocess.Popen(words, env=env, stdin=pty.slave, stdout=pty.slave)
    assert process.wait(60) == 0
    terminal, typed = pty.read().decode().split()[-2:]
    assert terminal.startswith("/dev/pts/")
    assert terminal != os.ttyname(pty.slave)
    assert typed == "typed"
    pty.close()


SPY = """
import os
open("begun", "w").close()
while not os.path.exists("stop"):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline", "mem"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if b"S3CR3T" in file.read(1 << 16):
                        open("found", "a").write(name)
            except OSError:
                pass
"""
TOKEN = {"DEPLOY_TOKEN": "S3CR3T"}
ABOUT_APART = """
ls /proc | grep -c '^[0-9]'
sh -c 'echo x > /proc/sys/kernel/domainname' 2>&1
grep -E '^(Seccomp|CapBnd):' /proc/self/status
env | grep -c S3CR3T
"""
USES = {
    "variable": "echo ${#DEPLOY_TOKEN}; sleep 0.5",
    "variable of a child": "sh -c 'echo ${#DEPLOY_TOKEN}; sleep 0.5'; true",
    "a child that stays": "sleep 1000 & echo ${#DEPLOY_TOKEN}; sleep 0.5",
}


@pytest.mark.parametrize("use", USES)
def test_exposed_secret_cannot_be_read_by_programs_of_earlier_commands(
    workspace: Workspace, use: str
) -> None:
    spy = "export PATH=$PWD:$PATH BASH_ENV=$PWD/x; sleep() { env > notes; }; export -f sleep"
    workspace.run(f"{spy}; mkdir deep; cd deep")
    workspace.run("cd ..")
    wait_in_background(workspace, SPY)
    workspace.view.start()
    name, shell = workspace.shells.open_apart("main")
    shell.begin(USES[use], variables=TOKEN)
    outcome = shell.wait(timeout_s=60, cancel=CancelToken())
    assert (outcome.exit_code, outcome.output.head) == (0, "6\n")
    assert workspace.run("touch stop; wait; ls found 2>&1").endswith("No such file or directory\n")
    assert workspace.run("grep -s S3CR3T notes") == ""
    apart = workspace.shells.existing(name).run(ABOUT_APART, timeout_s=60, cancel=CancelToken())
    told = apart.output.head
    assert int(told.split()[0]) < 8
    assert "Read-only file system" in told
    assert f"CapBnd:\t{0:016x}\nSeccomp:\t2\n0\n" in told


@pytest.mark.parametrize("n_times", [1, pytest.param(100, marks=pytest.mark.full)])
def test_shell_apart_is_interrupted_and_ends_with_all_that_it_started(
    workspace: Workspace, n_times: int
) -> None:
    workspace.run("true")
    job = "sleep 1000 & echo begun; sleep 1000; echo not reached"
    for _ in range(n_times):
        _, shell = workspace.shells.open_apart("main")
        start = threading.Event()
        shell.begin(job, lambda _text, start=start: start.set(), variables=TOKEN)
        assert start.wait(60)
        cancel = CancelToken()
        cancel.cancel()
        outcome = shell.wait(timeout_s=60, cancel=cancel)
        # A process that bash has just forked drops SIGINT until its program begins.
        assert outcome.exit_code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        assert "begun\n" in outcome.output.head
        assert "not reached" not in outcome.output.head
