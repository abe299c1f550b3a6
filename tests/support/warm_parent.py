"""A process that has all modules of the product and forks it: `starts` starts it and asks it.

It has one thread and never litellm. Its children are those of whoever started it, who can wait for
them and signal them as after a real start. A request is one JSON line, with descriptors 0 to 2.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import itertools
import json
import logging
import os
import pkgutil
import re
import runpy
import signal
import socket
import sys
import sysconfig
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

import oh_daemon
import oh_daemon.__main__

SERVERS = [
    str(Path(__file__).with_name(f"{name}.py")) for name in ("mcp_server", "mcp_auth_server")
]
"""Programs that it can be besides the product."""
_LEFT_OUT = re.compile(
    r"litellm\b|oh_daemon\.model\..*litellm|oh_daemon\.fronts\.cli\.demo_project"
)
_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import|import ([\w.]+))", re.MULTILINE)
# clone(2) and prctl(2); glibc's fork() makes the same call, but for the parent.
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_PR_GET_TID_ADDRESS = 40
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_OF_TERMINALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""The signals that a parent may want ignored: see nohup(1)."""

_libc = ctypes.PyDLL(None, use_errno=True)
"""Its calls keep Python's lock, which the child must have, too."""


def main() -> None:
    oh_daemon.__main__._use_no_plugins()
    # It looks where the user's own packages would be, and would be seen to read HOME for that.
    sysconfig.get_config_vars()
    names = sorted(_variables_read_by(_import_everything))
    _build_models()
    # It is run anew in each child.
    del sys.modules["oh_daemon.__main__"]
    assert threading.active_count() == len([*Path("/proc/self/task").iterdir()]) == 1
    assert tempfile.tempdir is None, "an import asked for the folder of temporary files"
    assert not logging.root.handlers, "an import decided where log records go"
    gc.freeze()
    # Whoever asks decides about an interrupt from the terminal, and ends us by closing its end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listener_socket = socket.socket(fileno=int(sys.argv[1]))
    listener_socket.sendall(json.dumps(names).encode() + b"\n")
    while line := _request(listener_socket):
        text, descriptors = line
        if (child := _fork()) == 0:
            listener_socket.detach()
            _run(json.loads(text), descriptors)
            return
        for each in descriptors:
            os.close(each)
        listener_socket.sendall(b"%d\n" % child)


def _import_everything() -> None:
    root = Path(oh_daemon.__file__).parent
    for module in pkgutil.walk_packages([str(root)], "oh_daemon."):
        _import(module.name)
    own_modules = [module for name, module in sys.modules.items() if name.startswith("oh_daemon")]
    _import("uvicorn")
    for path in [*SERVERS, *(module.__file__ for module in own_modules if module.__file__)]:
        for match in _IMPORT.finditer(Path(path).read_text()):
            _import(match[1] or match[2])


def _import(name: str) -> None:
    if not _LEFT_OUT.match(name):
        # What is there only for the type checker, or on another system, is not there.
        with suppress(ImportError):
            importlib.import_module(name)


def _build_models() -> None:
    """Build what pydantic leaves until the first use."""
    own_variables = [
        vars(module) for name, module in sys.modules.items() if name.startswith("oh_daemon.")
    ]
    for each in itertools.chain(*map(dict.values, own_variables)):
        if isinstance(each, type) and issubclass(each, BaseModel) and each is not BaseModel:
            each.model_rebuild()
        elif isinstance(each, TypeAdapter):
            each.rebuild()


def _variables_read_by(work: Any) -> set[str]:
    """Return the variables whose values count at import, and not when they are used."""
    names = set[str]()

    class Watched(type(os.environ)):
        def __getitem__(self, name: Any) -> Any:
            names.add(name)
            return super().__getitem__(name)

    plain = type(os.environ)
    os.environ.__class__ = Watched
    work()
    os.environ.__class__ = plain
    return names


def _request(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    line, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while line and not line.endswith(b"\n"):
        line += connection.recv(1 << 20)
    return (line, descriptors) if line else None


def _fork() -> int:
    """Fork, as `os.fork` does, a sibling instead of a child."""
    address = ctypes.c_void_p()
    _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address))
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | signal.SIGCHLD
    # The kernel's order of the last two differs between machines.
    last = (address, 0) if os.uname().machine == "x86_64" else (0, address)
    ctypes.pythonapi.PyOS_BeforeFork()
    child = _libc.syscall(_SYS_CLONE[os.uname().machine], flags, 0, 0, *last)
    if child == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    assert child >= 0, os.strerror(ctypes.get_errno())
    return child


def _run(request: dict[str, Any], descriptors: list[int]) -> None:
    """Be what Python is after this command line, and run its program."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for number in _OF_TERMINALS:
        is_ignored = number in request["ignored"]
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if is_ignored else usual)
    if request["newSession"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, _stream(number))
        setattr(sys, f"__{name}__", getattr(sys, name))
    program, *sys.argv[1:] = request["argv"]
    if program == "-m":
        sys.path[0] = request["cwd"]
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program).parent)
        sys.argv[0] = program
        runpy.run_path(program, run_name="__main__")


def _stream(number: int) -> Any:
    old = (sys.__stdin__, sys.__stdout__, sys.__stderr__)[number]
    assert old
    return open(
        number,
        "w" if number else "r",
        encoding=old.encoding,
        errors=old.errors,
        buffering=1 if number == 2 or os.isatty(number) else -1,
        closefd=False,
    )


if __name__ == "__main__":
    main()
