"""Errors of programs whose reason is the sandbox: one line for the model, with the way out.

A table over what programs print. A path or a port counts only if it is there outside the sandbox:
a server that does not run anywhere gets no hint.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

Kind = Literal["socket", "device", ""]
_WITH_APPROVAL = "give the reason in outside, which needs approval"
_REASON = "the sandbox is the reason: "


class HostFacts(Struct, frozen=True):
    """Facts about the machine around a sandbox, each looked up when a line of output needs it."""

    kind_of: Callable[[str], Kind]
    """Returns the kind of the file at a path that programs in a sandbox miss."""
    listening_ports: Callable[[], Collection[int]]
    sandbox_ports: Callable[[], Collection[int]]
    """The ports on which a command listens that goes on."""


_ROWS = {
    # Errors of git without the network, or a repository that is not in the sandbox.
    r"Could not read from remote repository|\.git/.*: Read-only file system": (
        f"the sandbox keeps git from that: {_WITH_APPROVAL}"
    ),
    # SIGXFSZ and EFBIG
    r"File size limit exceeded|File too large": (
        "files in the sandbox may not grow further, so that the disk does not get full: delete with"
        " rm what is not needed, or let the user make room"
    ),
    # EOVERFLOW of an overlay
    r"Value too large for defined data type": (
        "the file or folder belongs to another user or group, for whom the sandbox has no number:"
        f" use the edit tool, write a new file and rename it, or {_WITH_APPROVAL}"
    ),
    r"No usable sandbox!|SUID sandbox helper binary was found|Failed to move to new namespace: ": (
        f"{_REASON}a browser cannot make its own in it; start it with --no-sandbox, since this one"
        " is around it"
    ),
    r"\bunshare failed: Operation not permitted|\bbwrap: (?:No permissions to create|Creating) "
    r".*namespace|^cannot clone: Operation not permitted": (
        f"{_REASON}programs in it make no namespaces; use an option without them, or"
        f" {_WITH_APPROVAL}"
    ),
    r"\bptrace(?:\(\w+, \d+\))?: (?:Operation not permitted|No such process)"
    r"|^Could not attach to process|\battach failed: ": (
        f"{_REASON}a debugger sees only what runs in it; start the program under the debugger, or"
        f" {_WITH_APPROVAL}"
    ),
    r"^No permission to enable .* event|\bperf_event_open\(.*Operation not p": (
        f"{_REASON}it refuses perf_event_open; measure with another profiler, or {_WITH_APPROVAL}"
    ),
    r"\[Errno 98\] Address already in use|\b98: Address already in use"
    r"|\b(?:EADDRINUSE|bind): address already in use": (
        "the sandbox has a network of its own: a job of yours in it, or a service that it offers,"
        " uses this port; stop the job with C-c, or take another port"
    ),
    r"\b(?:bind|listen|EACCES)\b.*:[1-9]\d{0,2}\b.*[Pp]ermission denied|\bEACCES: permission denied"
    r" \S*:[1-9]\d{0,2}\b": f"{_REASON}ports below 1024 are refused in it; take a higher one",
}
_TABLE = [(re.compile(pattern, re.MULTILINE), hint) for pattern, hint in _ROWS.items()]
"""Patterns of programs' errors, each with its hint; the test names the source of each error."""

_STANDS_FOR = {
    "Error while fetching server API version": "/var/run/docker.sock",
    "Could not find a valid Docker environment": "/var/run/docker.sock",
    "Could not access KVM kernel module": "/dev/kvm",
    "fuse: device not found": "/dev/fuse",
    "cannot find card '0'": "/dev/snd",
    "Failed to initialize NVML": "/dev/nvidiactl",
    "couldn't communicate with the NVIDIA driver": "/dev/nvidiactl",
    "no CUDA-capable device is detected": "/dev/nvidiactl",
}
"""Errors without a path, and the path that they stand for."""
_NAMED = re.compile("|".join(map(re.escape, _STANDS_FOR)))
_ERROR = re.compile(
    "no such file|cannot|can't|could not|couldn't|failed|denied|refused|read-only|unable",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?<![\w.])/(?:dev|run|tmp|var|home|root)/[\w./+@-]*\w")
"""A path where sockets and devices lie; a look at another one might mount what it names."""
_MAX_LINES = 200
_KINDS = {
    "socket": _REASON + "{} is a socket of a program outside; " + _WITH_APPROVAL,
    "device": _REASON + "it has no {}; " + _WITH_APPROVAL,
}
_BASIC_DEVICES = frozenset(
    {*("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "console")}
    | {"stdin", "stdout", "stderr", "core"}
)
"""Names below /dev in a sandbox: those of bwrap(1), `--dev`."""
_REFUSED = re.compile(r"[Cc]onnection refused|ECONNREFUSED|Couldn't connect to server")
_LOCAL_PORT = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1?\])(?:[^\d\n/]{1,20}|/)(\d{2,5})\b(?!\.)"
)


def find_hints(output: str, command: str, host: HostFacts) -> list[str]:
    """Return a line for each reason in the output of a command in a sandbox, without brackets.

    The command may name the port that its error does not.
    """
    hints = [hint for pattern, hint in _TABLE if pattern.search(output)]
    hints += _of_files(output, host)
    ports = _local_ports(output)
    hints += [
        f"port {port} is open in the sandbox only: your commands reach it at 127.0.0.1:{port}, the"
        " user by Open in the list of ports in the editor"
        for port in sorted(ports and ports & {*host.sandbox_ports()})
    ]
    if _REFUSED.search(output):
        ports |= _local_ports(command)
        hints += [
            f"{_REASON}127.0.0.1:{port} listens outside it; name it in services, which needs"
            " approval"
            for port in sorted(ports & {*host.listening_ports()})
        ]
    return hints


def find_hints_outside(output: str, command: str, host: HostFacts) -> list[str]:
    """Return a line for each server in the sandbox that a command outside does not reach."""
    if not _REFUSED.search(output):
        return []
    ports = _local_ports(f"{command}\n{output}") & {*host.sandbox_ports()}
    return [
        f"port {port} is open in the sandbox only: run this there, without outside"
        for port in sorted(ports)
    ]


def _local_ports(text: str) -> set[int]:
    return {int(match[1]) for match in _LOCAL_PORT.finditer(text)}


def kind_of(path: str) -> Kind:
    """Return the kind of a file of this machine that programs in a sandbox miss."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return ""
    if stat.S_ISSOCK(mode):
        return "socket"
    is_device = path.startswith("/dev/") and path.split("/")[2] not in _BASIC_DEVICES
    return "device" if is_device else ""


def _of_files(output: str, host: HostFacts) -> Iterator[str]:
    lines = islice(filter(_ERROR.search, output.splitlines()), _MAX_LINES)
    in_lines = [match[0] for line in lines for match in _PATH.finditer(line)]
    paths = [*in_lines, *(_STANDS_FOR[match[0]] for match in _NAMED.finditer(output))]
    for path in dict.fromkeys(paths):
        if kind := host.kind_of(path):
            yield _KINDS[kind].format(path)
