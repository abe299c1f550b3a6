"""Terminals: one of our own, who waits for input there, and a program on the one of the user.

A `Pty` owns its two descriptors; what runs on it is left to `bash`. The answers come from Linux's
/proc; where it gives none (another system, missing rights), nobody seems to wait.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import termios
import tty
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from oh_daemon.protocol.errors import ToolError
from oh_daemon.system import reaper
from oh_daemon.system.spawner import Spawner, start_errors

_ROWS, _COLUMNS = 50, 200
_READ_BYTES = 1 << 16
_TYPED_BYTES = 1 << 10
"""Less than a terminal takes at once."""
# Numbers are from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h:
# read; then poll, select, pselect6, ppoll, epoll_wait, epoll_pwait, epoll_pwait2.
_SYSCALLS = {
    "x86_64": (0, {7, 23, 270, 271, 232, 281, 441}),
    "aarch64": (63, {72, 73, 22, 441}),
}
KEYS = {
    **{f"C-{chr(code + 0x60)}": bytes([code]) for code in range(1, 27)},
    "C-\\": b"\x1c",
    "Enter": b"\r",
    "Tab": b"\t",
    "Escape": b"\x1b",
    "Backspace": b"\x7f",
    "Up": b"\x1b[A",
    "Down": b"\x1b[B",
    "Right": b"\x1b[C",
    "Left": b"\x1b[D",
}
LOST = (
    "bash is at its prompt, but did not report the end of this command: something that it ran took"
    " away what the shell needs, such as its builtins. All that ran in it was ended.\n"
)
_TYPED_TO_INTERRUPT = (signal.SIGINT, signal.SIGQUIT)


class Pty:
    """A terminal. Raises `OSError` when there are no more terminals or descriptors."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        self._is_slave_open = True
        self._name = os.ttyname(self.slave)
        os.set_blocking(self.master, False)
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)

    def close(self) -> None:
        os.close(self.master)
        self.close_slave()

    def close_slave(self) -> None:
        """Leave the terminal to the program that runs on it; `master` hangs up when that ends."""
        if self._is_slave_open:
            os.close(self.slave)
        self._is_slave_open = False

    @contextmanager
    def _open_slave(self) -> Generator[int]:
        descriptor = os.open(self._name, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def prepare(self) -> None:
        """Undo what the last program set: no echo, input by lines, output bytes unchanged.

        Raises `OSError` when there are no more descriptors.
        """
        with self._open_slave() as slave:
            termios.tcflush(slave, termios.TCIFLUSH)
            settings = termios.tcgetattr(slave)
            settings[0] = termios.ICRNL
            settings[1] = 0
            settings[3] = termios.ICANON | termios.ISIG
            termios.tcsetattr(slave, termios.TCSANOW, settings)

    def read(self) -> bytes:
        """Return the output that is there, up to 64 KiB; empty when there is none."""
        chunks: list[bytes] = []
        size = 0
        while size < _READ_BYTES:
            try:
                # The kernel hands out 4 KiB at most, however much is asked for (drivers/tty/pty.c).
                chunk = os.read(self.master, _READ_BYTES)
            except OSError as exc:
                if exc.errno not in {errno.EAGAIN, errno.EIO}:
                    raise
                break
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    def write(self, data: bytes) -> None:
        """Type `data`. Raises `ToolError` when the program does not take it."""
        try:
            n_written = os.write(self.master, data)
        except BlockingIOError:
            n_written = 0
        if n_written < len(data):
            raise ToolError(
                f"only {n_written} of {len(data)} bytes were typed: the program reads no input"
                " now; wait for it, or write the text into a file"
            )

    def foreground(self, session: int, among: reaper.Processes) -> set[int]:
        """Return the processes of the group that has the terminal, empty when none has it."""
        try:
            group = os.tcgetpgrp(self.master)
        except OSError:
            return set()
        # tcgetpgrp(3) gives 0 when no group has the terminal; in a container that is init's group
        # and of processes from outside. A freed number may belong to another session by now.
        return {pid for pid, row in among.items() if group and row[1:] == (group, session)}

    def in_front(self, shell: int) -> list[int]:
        """Return the foreground group and all below it: neither the shell nor background jobs.

        Parents come before their children: a subshell that hears of SIGINT only after the program
        that it waits for has ended goes on with its next command.
        """
        processes = reaper.processes()
        group = self.foreground(shell, processes) - {shell}
        rest = group | reaper.descendants(group, processes)
        ordered: list[int] = []
        while top := {pid for pid in rest if processes[pid][0] not in rest}:
            ordered += top
            rest -= top
        return ordered

    def is_waiting_for_input(self, session: int) -> bool:
        """Return whether a foreground process waits for someone to type, with no input unread."""
        with self._open_slave() as slave:
            if _n_unread(slave):
                return False
            is_raw = not termios.tcgetattr(slave)[3] & termios.ICANON
        in_front = self.foreground(session, reaper.processes())
        return any(self._waits(pid, is_raw=is_raw) for pid in in_front)

    def _waits(self, pid: int, *, is_raw: bool) -> bool:
        read, polls = _SYSCALLS.get(platform.machine(), (-1, set[int]()))
        for number, first in _sleeping_calls(pid):
            if number == read and self._is_ours(pid, first):
                return True
            # Programs that read keys (readline, vim, less) set the terminal to raw and then poll.
            if is_raw and number in polls:
                return True
        return False

    def _is_ours(self, pid: int, fd: int) -> bool:
        try:
            return str(Path(f"/proc/{pid}/fd/{fd}").readlink()) in {self._name, "/dev/tty"}
        except OSError:
            return False


def _sleeping_calls(pid: int) -> Iterator[tuple[int, int]]:
    """Yield the system call number and first argument of each thread of `pid` that sleeps.

    See /proc/pid/syscall in proc(5).
    """
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            number, *arguments = (thread / "syscall").read_text().split()
            if number.isdecimal():  # Otherwise it is `running`, or sleeps outside a call.
                yield int(number), int(arguments[0], 16)
    except OSError:
        return


def has_lost_command(
    pid: int, commands: os.stat_result, control: socket.socket, reports: socket.socket
) -> bool:
    """Return whether bash waits for a line, having reported all it will.

    It reads `commands`, the other end of `control`. While a command is sourced, its descriptor 0 is
    the terminal.
    """
    process = Path("/proc", str(pid))
    try:
        # The number of the call that sleeps, then its arguments: here the descriptor.
        fd = process.joinpath("syscall").read_text().split()[1:2]
        is_reading = fd == ["0x0"] and os.path.samestat(process.joinpath("fd/0").stat(), commands)
    except OSError:
        return False
    # Looked at last: what bash wrote, it wrote before it read again.
    return is_reading and not is_unread_there(control) and not _n_unread(reports.fileno())


def is_unread_there(own_end: socket.socket) -> bool:
    """Return whether the program at the other end has not read all that was written here.

    See SIOCOUTQ in unix(7), which has the number of TIOCOUTQ.
    """
    return _number(own_end.fileno(), termios.TIOCOUTQ) > 0


def _n_unread(fd: int) -> int:
    return _number(fd, termios.FIONREAD)


def _number(fd: int, request: int) -> int:
    number = array.array("i", [0])
    fcntl.ioctl(fd, request, number)
    return number[0]


def channel(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return two connected ends. Unlike a pipe, no child can open one through /proc.

    See ENXIO in open(2).
    """
    ends = socket.socketpair()
    for end in ends:
        stack.callback(end.close)
    return ends


def run_attached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> int:
    """Return the exit code, as a shell gives it: 128 and the number of the signal that ended it.

    What is typed to interrupt it does not interrupt us. Raises `ToolError` when it cannot start.
    """
    # A child keeps what is ignored, and not what is handled.
    old = {number: signal.signal(number, _do_nothing) for number in _TYPED_TO_INTERRUPT}
    try:
        with start_errors(argv[0]):
            code = subprocess.run(argv, cwd=cwd, env=env, check=False).returncode
    finally:
        for number, before in old.items():
            signal.signal(number, before)
    return _as_in_shell(code)


def _as_in_shell(code: int) -> int:
    return code if code >= 0 else 128 - code


def _do_nothing(_number: int, _frame: FrameType | None) -> None: ...


def run_relayed(spawner: Spawner, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> int:
    """Run a program on a terminal of its own, in the place of the user's; return the exit code.

    Whoever is beside the program can then type into that terminal at most. Streams that are no
    terminal it gets as they are. Call it on the main thread. Raises `ToolError` and `OSError`.
    """
    terminals = {number for number in range(3) if os.isatty(number)}
    with ExitStack() as stack:
        pty = Pty() if terminals else None
        if pty is not None:
            stack.callback(pty.close)
            _imitate(pty, min(terminals), stack)
        fds = [pty.slave if pty and number in terminals else number for number in range(3)]
        process = spawner.spawn(argv, cwd=cwd, env=env, fds=fds)

        def interrupt(number: int, _frame: FrameType | None) -> None:
            process.signal_tree(number)

        for number in _TYPED_TO_INTERRUPT:
            stack.callback(signal.signal, number, signal.signal(number, interrupt))
        end, wake_end = channel(stack)
        process.exit_code.add_done_callback(lambda _: wake_end.send(b"\0"))
        if pty is None:
            end.recv(1)
        else:
            _relay(pty, terminals, end.fileno())
        return _as_in_shell(process.exit_code.result())


def _imitate(pty: Pty, terminal: int, stack: ExitStack) -> None:
    """Give a terminal the settings and the size of ours, which only passes on what is typed."""
    settings = termios.tcgetattr(terminal)
    termios.tcsetattr(pty.slave, termios.TCSANOW, settings)

    def resize(_number: int = 0, _frame: FrameType | None = None) -> None:
        size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(pty.slave, termios.TIOCSWINSZ, size)

    resize()
    stack.callback(signal.signal, signal.SIGWINCH, signal.signal(signal.SIGWINCH, resize))
    if terminal == 0:
        stack.callback(termios.tcsetattr, 0, termios.TCSANOW, settings)
        tty.setraw(0, termios.TCSANOW)  # What was typed ahead stays.


def _relay(pty: Pty, terminals: set[int], end: int) -> None:
    """Pass on what is typed and shown until the program has ended and all is shown."""
    poll = select.poll()
    for source in (pty.master, end, *(terminals & {0})):
        poll.register(source, select.POLLIN)
    shown_on = max(terminals)
    while True:
        ready = {source for source, _ in poll.poll()}
        if 0 in ready:
            keys = os.read(0, _TYPED_BYTES)
            if keys:
                pty.write(keys)
            else:
                poll.unregister(0)
        if pty.master in ready:
            _write_all(shown_on, pty.read())
        if end in ready:
            while rest := pty.read():
                _write_all(shown_on, rest)
            return


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
