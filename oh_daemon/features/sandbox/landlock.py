"""Confines a process for good: with Landlock, a filter of system calls, and fewer rights.

By file path it becomes a program that only reads: no writes, no network.

What it may still write to is what it was given: open descriptors, its terminal, and /dev/null.
Rights hold for all that the program starts, and cannot be taken back. Numbers are from landlock(7),
linux/landlock.h and asm-generic/unistd.h, prctl(2), and capget(2).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

MIN_ABI = 4
_REFER_ABI, _TRUNCATE_ABI, _SCOPES_ABI, _SOCKETS_ABI = 2, 3, 6, 9
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WHICH_ABI, _PATH_BENEATH = 1, 1
_WRITE_FILE, _REFER, _TRUNCATE, _IOCTL_DEV = 1 << 1, 1 << 13, 1 << 14, 1 << 15
_RESOLVE_UNIX = 1 << 16
"""Connecting to a pathname socket that was made outside the domain."""
_ALL_WRITES = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))
"""Write, remove, make, refer, truncate; what is read or executed is not among them."""
_BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _BY_FILTER = 38, 22, 2
_SET_DEATH_SIGNAL, _SET_DUMPABLE, _DROP_BOUND = 1, 4, 24
_SIGKILL = 9
_CAP_VERSION, _CAP_DAC_READ_SEARCH = 0x20080522, 1 << 2
_WRITABLE = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
_libc = ctypes.CDLL(None, use_errno=True)


def words() -> list[str]:
    """Return the words before a program's own that hold it."""
    return [sys.executable, "-I", "-S", __file__, "--"]


def abi() -> int:
    """Return the version of Landlock that the kernel offers. Raises `OSError` without any."""
    return _call(_CREATE_RULESET, None, 0, _WHICH_ABI)


def restrict_process() -> None:
    """Give up, for good, all that a program needs only to change something. Raises `OSError`."""
    version = abi()
    if version < MIN_ABI:
        raise OSError(errno.ENOTSUP, f"Landlock {version} is too old; {MIN_ABI} is needed")
    _check_result(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _drop_capabilities()
    _restrict(version)
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - pathlib takes longer than all this.
    filter_calls(import_module("seccomp").for_landlock(keeps_signals=version >= _SCOPES_ABI))


def is_enough_for_overlay() -> bool:
    """Whether `confine` has an effect: before Linux 5.19, no file could be moved any more."""
    try:
        return abi() >= _REFER_ABI
    except OSError:
        return False


def confine(terminals: int, places: Sequence[str]) -> None:
    """Let files, pipes and devices be written to below these folders only. Raises `OSError`.

    From Linux 7.1 on, this also holds for sockets with a path. `terminals` is an open folder to be
    written to, too. A folder that has a link in its path is left out.
    """
    if not is_enough_for_overlay():
        return
    version = abi()
    rights = _WRITE_FILE | _REFER
    rights |= _TRUNCATE if version >= _TRUNCATE_ABI else 0
    rights |= _RESOLVE_UNIX if version >= _SOCKETS_ABI else 0
    ruleset_attributes = struct.pack("Q", rights)
    ruleset = _call(_CREATE_RULESET, ruleset_attributes, len(ruleset_attributes), 0)
    _allow(ruleset, terminals, rights)
    # Moving between folders is refused unless it is allowed for both; the rest does not change.
    for path, access in (("/", _REFER), *((path, rights) for path in places)):
        if os.path.realpath(path) == path and os.path.isdir(path):  # noqa: PTH112 - imports little.
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            _allow(ruleset, descriptor, access)
            os.close(descriptor)
    _check_result(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, descriptor: int, rights: int) -> None:
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    rule = struct.pack("=Qi", rights if is_folder else rights & ~_REFER, descriptor)
    _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)


def refuse_tracing() -> None:
    """Keep others of the same user from this process and its descriptors, until it is replaced.

    See PR_SET_DUMPABLE in prctl(2): a fork keeps it, an execve resets it.
    """
    _check_result(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0))


def end_with_parent() -> None:
    """Have this process killed when its parent ends; a change of its rights resets that."""
    _check_result(_libc.prctl(_SET_DEATH_SIGNAL, _SIGKILL, 0, 0, 0))


def drop_all_rights() -> None:
    """Give up all capabilities, also those that a program would get. Raises `OSError`."""
    refuse_tracing()
    _check_result(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    number = 0
    while _libc.prctl(_DROP_BOUND, number, 0, 0, 0) == 0:
        number += 1
    header = struct.pack("=Ii", _CAP_VERSION, 0)
    _check_result(_libc.capset(header, bytes(24)))


def filter_calls(program: bytes) -> None:
    """Refuse system calls by a program of `seccomp` from here on. Raises `OSError`."""
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_struct = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    )
    _check_result(_libc.prctl(_SET_SECCOMP, _BY_FILTER, filter_struct))


def _restrict(version: int) -> None:
    """Let nothing be written from here on but what is in `_WRITABLE`, and the terminal."""
    device = _IOCTL_DEV if version > MIN_ABI else 0
    scopes = (_ABSTRACT_SOCKETS_AND_SIGNALS,) if version >= _SCOPES_ABI else ()
    attributes = (_ALL_WRITES | device, _BIND_AND_CONNECT, *scopes)
    attributes_struct = struct.pack(f"{len(attributes)}Q", *attributes)
    ruleset = _call(_CREATE_RULESET, attributes_struct, len(attributes_struct), 0)
    for path in (*_WRITABLE, *_given_paths()):
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", _WRITE_FILE | _TRUNCATE | device, descriptor)
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
        except OSError:
            continue  # A stream without a name, such as a pipe, needs no rule.
    _call(_RESTRICT_SELF, ruleset, 0)


def _given_paths() -> Iterator[str]:
    """Yield the standard streams that can be written to, so that they can be opened by name."""
    for descriptor in range(3):
        try:
            access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        except OSError:
            continue
        if access != os.O_RDONLY:
            yield f"/proc/self/fd/{descriptor}"


def _drop_capabilities() -> None:
    """Keep, of root's rights, only that to read all files."""
    header = struct.pack("=Ii", _CAP_VERSION, 0)
    data = ctypes.create_string_buffer(24)
    _check_result(_libc.capget(header, data))
    capabilities = struct.unpack("=6I", data.raw)[1] & _CAP_DAC_READ_SEARCH
    _check_result(_libc.capset(header, struct.pack("=6I", capabilities, capabilities, 0, 0, 0, 0)))


def _call(number: int, *arguments: object) -> int:
    return _check_result(_libc.syscall(number, *arguments))


def _check_result(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _main(argv: list[str]) -> None:
    try:
        restrict_process()
    except OSError as exc:
        os.write(2, b"the program cannot be held: %b\n" % str(exc.strerror).encode())
        os._exit(126)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - its job.
    except OSError as exc:
        os.write(2, b"%b: %b\n" % (os.fsencode(argv[0]), str(exc.strerror).encode()))
        os._exit(127)


if __name__ == "__main__":
    _main(sys.argv[2:] if sys.argv[1] == "--" else sys.argv[1:])
