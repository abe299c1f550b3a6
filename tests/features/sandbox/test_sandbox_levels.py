"""Each level of the sandbox against the ways out in `escapes`; docs/safety.md has the table."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest
from places import REPO, TESTS

SAFETY = REPO / "docs/safety.md"
DAEMON = Path(sys.executable).parent / "oh-daemon"
LEVELS = ("off", "landlock", "overlay")
ORDINARY = ("unshare", "-U", "--map-user=1000", "--map-group=1000", "--")
DEPENDS_ON_THE_MACHINE = {
    *("io_uring", "userfaultfd", "vsock", "keyring", "perf", "bpf", "user_namespace", "mount"),
    *("udp", "type_into_terminal", "attribute", "write_etc", "socket_in_run"),
}
"""What the kernel or its settings may refuse, too."""
BESIDE = """
( trap "" USR1; exec sleep 1000 ) &
export PROBE_PID=$!
state() { cat "/proc/$PROBE_PID/limits"; cut -d" " -f19 "/proc/$PROBE_PID/stat"; }
before=$(state)
"$@"
code=$?
[ "$(state)" = "$before" ] || echo "another process: changed"
kill "$PROBE_PID"
exit $code
"""
"""Runs a command while a process of the same user runs that is none of its business."""


@dataclass(frozen=True)
class Host:
    """A home with a project in it, and what else lies outside of the sandbox."""

    home: Path
    variables: dict[str, str]
    fd: int
    terminal: int
    listeners: tuple[socket.socket, ...]

    def run(self, level: str, *, as_root: bool) -> dict[str, str]:
        words = [str(DAEMON), "sandbox", "--level", level, "--folder", str(self.home / "project")]
        before = ["sh", "-c", BESIDE, "sh", *words, "--"]
        outcome = subprocess.run(
            [
                *(() if as_root else ORDINARY),
                *before,
                sys.executable,
                str(TESTS / "support/escapes.py"),
            ],
            env=os.environ | self.variables,
            stdin=self.terminal,
            pass_fds=[self.fd],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stderr
        return dict(line.split(": ") for line in outcome.stdout.splitlines())

    def files(self) -> dict[str, tuple[object, ...]]:
        """Return what is known of each file; the folder of the daemon's own state is left out."""
        facts_by_path: dict[str, tuple[object, ...]] = {}
        for path in sorted(self.home.rglob("*")):
            if not path.is_relative_to(self.home / "daemon/state"):
                status = path.lstat()
                text = path.read_bytes() if path.is_file() else b""
                marks = (status.st_mode, status.st_mtime_ns, status.st_nlink, *os.listxattr(path))
                facts_by_path[str(path)] = (*marks, text)
        return facts_by_path

    def n_reached(self) -> int:
        """Return at how many of its sockets somebody connected."""
        return sum(_is_connected(listener) for listener in self.listeners)


def _is_connected(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    home, project = tmp_path / "home", tmp_path / "home/project"
    for folder in (project / ".openhands", home / "tmp", home / "daemon/state", home / ".ssh"):
        folder.mkdir(parents=True)
    for secret in (home / ".ssh/id_rsa", project / ".env"):
        secret.write_text("secret\n")
    for name in ("a", "gone", "short", "mode", "time"):
        (project / f"{name}.txt").write_text("below\n")
    for name in ("victim.txt", ".bashrc"):
        (home / name).write_text("mine\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        sockets_by_name = _sockets(home, stack)
        listeners = [tcp, *(_listening(name, stack) for name in sockets_by_name.values())]
        for listener in listeners:
            listener.setblocking(False)
        fds = (os.open(home / "victim.txt", os.O_WRONLY | os.O_APPEND), *os.openpty())
        for fd in fds:
            stack.callback(os.close, fd)
        variables = {
            "HOME": str(home),
            "OH_DAEMON_HOME": str(home / "daemon"),
            "PROBE_SECRET": "probe-secret-value",
            "PROBE_FD": str(fds[0]),
            "PROBE_TMP": str(home / "tmp"),
            "PROBE_TCP": str(tcp.getsockname()[1]),
            "PROBE_BUS": "/run/nobody",
            **{name: path.removeprefix("\0") for name, path in sockets_by_name.items()},
        }
        yield Host(home, variables, fds[0], fds[2], tuple(listeners))


def _sockets(home: Path, stack: ExitStack) -> dict[str, str]:
    """Return by variable where programs of the user would listen, as far as that can be made."""
    ssh, gpg = Path(mkdtemp(prefix="ssh-")), home / ".gnupg"
    gpg.mkdir()
    stack.callback(shutil.rmtree, ssh)
    probes = {
        "PROBE_SOCKET": str(home / "socket"),
        "PROBE_NAME": f"\0oh-probe-{os.getpid()}",
        "PROBE_SSH_AGENT": str(ssh / "agent.1"),
        "PROBE_GPG_AGENT": str(gpg / "S.gpg-agent"),
        "PROBE_DISPLAY": f"\0{ssh}/X0",
    }
    if os.access("/run", os.W_OK):
        bus = Path(mkdtemp(prefix="oh-probe-", dir="/run"))
        stack.callback(shutil.rmtree, bus)
        probes["PROBE_BUS"] = str(bus / "bus")
    return probes


def _listening(name: str, stack: ExitStack) -> socket.socket:
    one = stack.enter_context(socket.socket(socket.AF_UNIX))
    one.bind(name)
    one.listen()
    return one


def _documented_causes(level: str) -> dict[str, str]:
    """Return a column of the table, without what is said in it for people only."""
    table = SAFETY.read_text("utf-8").partition("| Tried")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    return {row[0]: row[1 + LEVELS.index(level)].removesuffix(" in its layer") for row in rows}


@pytest.mark.parametrize("as_root", [False, True], ids=["as a user", "as root"])
@pytest.mark.parametrize("level", LEVELS[1:])
def test_a_level_refuses_what_the_documents_say(host: Host, level: str, as_root: bool) -> None:
    if as_root and os.getuid() != 0:
        pytest.skip("only root can be root")
    before = host.files()
    assert host.run(level, as_root=as_root) == _documented_causes(level)
    assert host.files() == before
    assert host.n_reached() == 0


def test_the_ways_out_lead_out_where_nothing_holds_them(host: Host) -> None:
    """Else the tests above would say nothing."""
    before = host.files()
    outcomes, documented_causes = host.run("off", as_root=False), _documented_causes("off")
    assert outcomes.pop("another process") == "changed"
    assert outcomes.keys() == documented_causes.keys()
    for name in outcomes.keys() - DEPENDS_ON_THE_MACHINE:
        assert (name, outcomes[name]) == (name, documented_causes[name])
    assert len(before.items() ^ host.files().items()) > 10
    assert host.n_reached() == len(host.listeners)


def test_what_a_view_discards_is_listed(host: Host) -> None:
    words = [str(DAEMON), "sandbox", "--level", "overlay", "--folder", str(host.home / "project")]
    script = "rm gone.txt; echo x >> a.txt; echo x > new.txt; exit 7"
    outcome = subprocess.run(
        [*words, "--", "sh", "-c", script],
        env=os.environ | host.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    discarded = [
        line.removeprefix("oh-daemon: discarded: ") for line in outcome.stderr.splitlines()
    ]
    folder = host.home / "project"
    assert outcome.returncode == 7
    assert discarded == [
        f"{folder}/a.txt (changed)",
        f"{folder}/gone.txt (deleted)",
        f"{folder}/new.txt (new)",
    ]


def test_a_level_that_does_not_hold_runs_nothing(host: Host) -> None:
    words = [str(DAEMON), "sandbox", "--level", "overlay", "--folder", str(host.home / "project")]
    no_namespaces = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    outcome = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", no_namespaces, "sh", *words, "--", "touch", "ran"],
        env=os.environ | host.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert "user.max_user_namespaces is 0" in outcome.stderr
    assert "sudo sysctl -w user.max_user_namespaces=15000" in outcome.stderr
    assert not (host.home / "project/ran").exists()
