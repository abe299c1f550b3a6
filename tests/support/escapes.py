"""Ways out of a sandbox, one per row; run inside, it prints `name: done` or `name: refused`.

The test tells it in PROBE_* variables what lies outside. What it says it did may have happened in
a layer only: the test looks for effects outside.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_ARM = os.uname().machine == "aarch64"
_HOST_PID = int(os.environ["PROBE_PID"])
_HOME = Path(os.environ["HOME"])
_SECRET = b"probe-secret-value"

FILES = {
    "write_in_workspace": "echo x > new.txt",
    "change_in_workspace": "echo x >> a.txt",
    "delete_in_workspace": "rm gone.txt",
    "truncate": "truncate -s 0 short.txt",
    "write_home": "echo x > ~/new.txt",
    "bashrc": "echo x >> ~/.bashrc",
    "write_tmp": 'echo x > "$PROBE_TMP/new.txt"',
    "git_hook": "echo 'touch /pwned' > .git/hooks/pre-commit",
    "git_config": "echo '[core] fsmonitor = ./evil' >> .git/config",
    "git_commondir": "echo ../evil > .git/commondir",
    "git_rename": "mv .git .git2 && mv .git2 .git",
    "git_objects": "rm -rf .git/objects",
    "settings_of_ours": "echo '{}' > .openhands/settings.json",
    "settings_of_editors": "mkdir .vscode && echo '{}' > .vscode/tasks.json",
    "mode": "chmod 4777 mode.txt",
    "time": "touch -d 2001-01-01 time.txt",
    "attribute": f'{sys.executable} -c \'import os; os.setxattr("mode.txt", "user.x", b"x")\'',
    "hard_link": "ln ~/victim.txt link.txt && echo x >> link.txt",
    "symbolic_link": "ln -s ~/victim.txt soft.txt && echo x >> soft.txt",
    "fifo": "mkfifo fifo",
    "decisions_of_ours": 'echo "{}" > "$OH_DAEMON_HOME/decisions.json"',
}
"""What changes files; at `view` it may be done, in the layer."""
ACTS = {
    "write_etc": "echo x > /etc/oh-probe && rm /etc/oh-probe",
    "device": "mknod dev.tmp c 1 3 && head -c 1 dev.tmp; rm dev.tmp",
    "kill_host": f"kill -USR1 {_HOST_PID}",
    "see_host": f"test -d /proc/{_HOST_PID}",
    "environ_of_host": f"grep -q probe-secret /proc/{_HOST_PID}/environ",
    "root_of_host": f"ls /proc/{_HOST_PID}/root/",
    "nice_of_host": f"renice 19 -p {_HOST_PID}",
    "user_namespace": "unshare -U true",
    "mount": "unshare -Urm true || mount -t tmpfs none /mnt",
    "remount_root": "mount -o remount,rw / && echo x > /oh-probe && rm /oh-probe",
    "secret_in_variable": "env | grep -q SECRET",
}


def _connect(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        one.connect(address)  # type: ignore[arg-type]
        one.send(b"x")


def _connect_by(name: str) -> None:
    _connect(socket.AF_UNIX, socket.SOCK_STREAM, name)


def _open(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def _call(on_intel: int, on_arm: int, *arguments: object) -> int:
    result: int = _libc.syscall(on_arm if _ARM else on_intel, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def _limit_of_host() -> None:
    resource.prlimit(_HOST_PID, resource.RLIMIT_CORE, (0, 0))


def _read(path: Path) -> None:
    if not path.read_bytes():
        raise PermissionError


def _memory_of_host() -> None:
    Path(f"/proc/{_HOST_PID}/mem").open("rb").close()


def _secret_of_parents() -> None:
    environments = [
        path.read_bytes() for path in Path("/proc").glob("[0-9]*/environ") if _may(path)
    ]
    if not any(_SECRET in text for text in environments):
        raise PermissionError


def _may(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def _capabilities() -> None:
    status = Path("/proc/self/status").read_text()
    capabilities = int(status.split("CapEff:")[1].split()[0], 16)
    if not capabilities & ~4:  # To read all files is left to root.
        raise PermissionError


def _check_inherited() -> None:
    os.write(int(os.environ["PROBE_FD"]), b"x")


CALLS: dict[str, Callable[[], object]] = {
    "tcp": lambda: _connect(
        socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(os.environ["PROBE_TCP"]))
    ),
    "udp": lambda: _connect(
        socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", int(os.environ["PROBE_TCP"]))
    ),
    "unix_socket": lambda: _connect(socket.AF_UNIX, socket.SOCK_STREAM, os.environ["PROBE_SOCKET"]),
    "abstract_socket": lambda: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, "\0" + os.environ["PROBE_NAME"]
    ),
    "ssh_agent": lambda: _connect_by(os.environ["PROBE_SSH_AGENT"]),
    "gpg_agent": lambda: _connect_by(os.environ["PROBE_GPG_AGENT"]),
    "display": lambda: _connect_by("\0" + os.environ["PROBE_DISPLAY"]),
    "socket_in_run": lambda: _connect_by(os.environ["PROBE_BUS"]),
    "type_into_terminal": lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"),
    "raw_socket": lambda: _open(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "packet_socket": lambda: _open(socket.AF_PACKET, socket.SOCK_RAW),
    "vsock": lambda: _open(socket.AF_VSOCK, socket.SOCK_STREAM),
    "read_home": lambda: _read(_HOME / "victim.txt"),
    "read_secret": lambda: _read(_HOME / ".ssh/id_rsa"),
    "read_secret_of_project": lambda: _read(Path(".env")),
    "memory_of_host": _memory_of_host,
    "limit_of_host": _limit_of_host,
    "secret_of_parents": _secret_of_parents,
    "inherited_file": _check_inherited,
    "capabilities": _capabilities,
    "io_uring": lambda: _call(425, 425, 1, ctypes.create_string_buffer(120)),
    "bpf": lambda: _call(321, 280, 0, ctypes.create_string_buffer(128), 48),
    "keyring": lambda: _call(250, 219, 0, -4, 1),
    "userfaultfd": lambda: _call(323, 282, 1),
    "perf": lambda: _call(298, 241, ctypes.create_string_buffer(128), 0, -1, -1, 0),
}


def main() -> None:
    """Try each row in a process of its own, so that none hinders the next."""
    signal.alarm(120)
    for name, command in {**FILES, **ACTS}.items():
        outcome = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
        _report(name, is_done=outcome.returncode == 0)
    for name, act in CALLS.items():
        child = os.fork()
        if child == 0:
            _act(act)
        _report(name, is_done=os.waitpid(child, 0)[1] == 0)


def _act(act: Callable[[], object]) -> None:
    try:
        act()
    except (OSError, ValueError):
        os._exit(1)
    os._exit(0)


def _report(name: str, *, is_done: bool) -> None:
    sys.stdout.write(f"{name}: {'done' if is_done else 'refused'}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
