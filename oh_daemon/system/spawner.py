"""The only place that starts processes, as the client of one small child process, the reaper.

Owns the packets to and from it; leaves ptys to `pty` and shells to `shell`. The reaper starts at
the first use; however the daemon ends, everything started here ends with it.
A request is `tag, argc, cwd, argv…, env…` joined by NUL, with the descriptors attached. An
empty cwd means that `argv[0]` is a module of ours, whose `main` runs in the fork.
"""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field

from oh_daemon.common.cancel import CancelToken
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system import reaper
from oh_daemon.system.environment import clean_env

RUN_TAG = "OH_DAEMON_RUN"
GRACE_S = 0.5
MAX_OUTPUT_BYTES = 64 << 20
_END_DEADLINE_S = 10.0
_ANSWER_DEADLINE_S = 60.0
_MAX_DIGITS = 9
"""Of a process's number, an exit code, or that of an error."""
_WAYS_OUT = {
    errno.EAGAIN: "no more processes can be started; end some background commands and try again",
    errno.ENOMEM: "memory is short; end some background commands and try again",
    errno.EMFILE: "too many files are open; close some terminals and try again",
    errno.ENFILE: "too many files are open on this machine; try again later",
    errno.EMSGSIZE: "the command line is too long; write the text into a file and name the file",
}


class Completed(Struct, frozen=True):
    """A program that ran to its end."""

    exit_code: int
    stdout: bytes
    stderr: bytes = b""


class Process(Struct, frozen=True):
    """A started program, leader of its own session. Safe from any thread."""

    pid: int
    tag: str
    exit_code: Future[int] = field(default_factory=Future[int])
    """Negative when a signal ended the program."""

    def wait(self, timeout_s: float | None = None, cancel: CancelToken | None = None) -> int | None:
        """Wait for the exit code; returns None when the time is up or `cancel` comes first."""
        wake = threading.Event()
        self.exit_code.add_done_callback(lambda _: wake.set())
        forget = cancel.on_cancel(wake.set) if cancel else lambda: None
        wake.wait(timeout_s)
        forget()
        return self.exit_code.result() if self.exit_code.done() else None

    def kill_tree(self, grace_s: float = GRACE_S) -> None:
        """Send SIGTERM to the whole tree, and SIGKILL to what is left after `grace_s`."""
        self.signal_tree(signal.SIGTERM)
        self.wait(grace_s)
        # Twice, since a process may fork after the tree was listed and before the signal.
        for _ in range(2):
            self.signal_tree(signal.SIGKILL)

    def signal_tree(self, number: int) -> None:
        reaper.send_signal(self.tree(), number)

    def tree(self) -> set[int]:
        """Return every living process that comes from this one, even after setsid and forks."""
        processes = reaper.processes()
        roots = {
            pid for pid, row in processes.items() if row[2] == self.pid or self._is_tagged(pid)
        }
        if not self.exit_code.done():
            roots.add(self.pid)
        return roots | reaper.descendants(roots, processes)

    def _is_tagged(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return f"{RUN_TAG}={self.tag}".encode() in environ.split(b"\0")


_REAPER = (sys.executable, "-I", "-S", reaper.__file__)
FIRST_FD = 3
"""The descriptor after the standard streams."""


class Enclosure(Struct, frozen=True):
    """Where a reaper runs that does not run beside the daemon: in namespaces of its own."""

    host: Spawner
    """Starts it."""
    argv: Sequence[str]
    """The words before the reaper's, which is process 1 there and the only child of `argv[0]`.

    `argv[0]` is killed once the reaper has begun.
    """
    fds: Sequence[int] = ()
    """Descriptors that `argv` names by the numbers from `FIRST_FD` on."""
    needs: Sequence[Path] = ()
    """What `argv` names, and others may remove before it has started."""
    reaper: Sequence[str] = _REAPER
    """The words that run the reaper there, before its own arguments."""
    begin: Callable[[int], None] | None = None
    """Called with the reaper's number before it starts a program; may raise `OSError`."""


class Spawner:
    """Starts programs. Safe from any thread."""

    def __init__(
        self,
        enclose: Callable[[], Enclosure] | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`enclose` is called before each start of a reaper; it may raise `OSError`.

        All programs get these `variables`, whatever their environment says.
        """
        self.run_id = uuid.uuid4().hex
        self._enclose = enclose
        self._variables = variables
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._reaper: subprocess.Popen[bytes] | Process | None = None
        self._reaper_start = b""
        """When it began, by which its number is not mistaken for another process's."""
        self._n_starts = 0
        self._is_closed = False
        self._needs: Sequence[Path] = ()
        self._answers = queue.SimpleQueue[Process | OSError]()
        """One answer for each request, in order; an error once the reaper has ended."""
        self._awaited_kind = b""
        """The tag of the request that has no answer yet; what answers no request is dropped."""
        self._running_processes: dict[int, Process] = {}

    @property
    def scratch(self) -> Path:
        """How the paths of folders begin that are removed when the processes are ended."""
        return Path(tempfile.gettempdir(), f"oh-shells-{self.run_id}-")

    def spawn(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], fds: Sequence[int | None]
    ) -> Process:
        """Start `argv` in a session of its own with `fds` as its descriptors 0, 1, 2 and so on.

        None means /dev/null. A terminal as descriptor 1 becomes the controlling terminal. The
        caller keeps its descriptors. Raises `ToolError`, with a way out, when starting fails.
        """
        program = shutil.which(argv[0], path=env.get("PATH"))
        if program is None:
            raise ToolError(f"there is no program {argv[0]!r} here; install it or use another")
        if self._enclose is None and not cwd.is_dir():
            raise ToolError(f"the folder {str(cwd)!r} is gone; use one that exists")
        with start_errors(argv[0]), Path(os.devnull).open("r+b", buffering=0) as null:
            words = [os.path.abspath(program), *argv[1:]]  # noqa: PTH100 - links stay as they are.
            descriptors = [null.fileno() if fd is None else fd for fd in fds]
            return self._request(words, str(cwd), env, descriptors)

    def spawn_module(
        self, file: str, arguments: Sequence[str], fds: Sequence[int | None]
    ) -> Process:
        """Start `main` of a module of this package, which imports nothing of ours, in a fork.

        A fork takes a fraction of the time and the memory of an interpreter. Raises as `spawn`
        does.
        """
        with start_errors(file), Path(os.devnull).open("r+b", buffering=0) as null:
            descriptors = [null.fileno() if fd is None else fd for fd in fds]
            return self._request([file, *arguments], "", {}, descriptors)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        timeout_s: float,
        cancel: CancelToken | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run `argv` to its end, by default with our own variables.

        It cannot write more than `MAX_OUTPUT_BYTES`. Raises `ToolError` when it cannot start or
        takes too long, and `Cancelled`; neither leaves a process behind.
        """
        with ExitStack() as stack:
            with start_errors(argv[0]):
                stdin_file = input_file(stdin, stack) if stdin else None
                out, err = output_file(stack), output_file(stack)
            variables = clean_env(os.environ) if env is None else env
            process = self.spawn(argv, cwd=cwd, env=variables, fds=[stdin_file, out, err])
            if process.wait(timeout_s, cancel) is None:
                process.kill_tree()
                if cancel is not None:
                    cancel.raise_if_cancelled()
                raise ToolError(f"{argv[0]!r} took more than {timeout_s:g} s and was ended")
            return Completed(process.exit_code.result(), written_to(out), written_to(err))

    @property
    def root(self) -> int | None:
        """The number of the process from which all others come; None before the first starts."""
        child, start = self._reaper, self._reaper_start
        return child.pid if child and reaper.start_time(child.pid) == start else None

    def close(self) -> None:
        """End all processes, by SIGTERM, then SIGKILL after 0.5 s; returns when none is left.

        On a machine that is too busy to end them in time, it returns earlier: they end without us.
        """
        with self._lock:
            self._is_closed = True
            sock, child = self._socket, self._reaper
        if sock and child:
            sock.shutdown(socket.SHUT_WR)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END_DEADLINE_S)

    def _request(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], fds: list[int]
    ) -> Process:
        # Held until the answer is here, for the time of a fork, so answers need no numbers.
        with self._lock:
            if self._is_closed:
                raise ToolError("the daemon is stopping; nothing can be started any more")
            self._n_starts += 1
            tag = f"{self.run_id}.{self._n_starts}"
            variables = {**env, **self._variables, RUN_TAG: tag}
            entries = [f"{name}={value}" for name, value in variables.items()]
            words = [tag, str(len(argv)), cwd, *argv, *entries]
            packet = b"\0".join(os.fsencode(word) for word in words)
            if len(packet) > reaper.MAX_REQUEST_BYTES:
                raise OSError(errno.EMSGSIZE, "too long")
            while True:
                is_first = self._socket is None
                try:
                    return self._ask(packet, fds)
                except OSError:
                    if not is_first or all(map(os.path.lexists, self._needs)):
                        raise
                    # Something vanished while it started: another starts with what is there now.

    def _ask(self, packet: bytes, fds: list[int]) -> Process:
        sock = self._socket or self._start_reaper()
        self._awaited_kind = packet.partition(b"\0")[0]
        socket.send_fds(sock, [packet], fds)
        return self._answer()

    def _answer(self) -> Process:
        try:
            answer = self._answers.get(timeout=_ANSWER_DEADLINE_S)
        except queue.Empty:
            reaper.send_signal({self.root or -1}, signal.SIGKILL)
            answer = OSError(errno.EAGAIN, "the reaper does not answer")
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _start_reaper(self) -> socket.socket:
        self._answers = queue.SimpleQueue[Process | OSError]()
        around = self._enclose() if self._enclose else None
        self._needs = around.needs if around else ()
        own_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ExitStack() as on_failure:
            on_failure.callback(own_end.close)
            own_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * reaper.MAX_REQUEST_BYTES)
            with closing(child_end):
                start = self._start_beside if around is None else partial(self._start_in, around)
                child = start(child_end.fileno())
            on_failure.callback(_wait_for_end, child)
            on_failure.callback(own_end.close)  # Before the wait, since it ends the reaper.
            _wait_until_ready(own_end)
            if around is not None and isinstance(child, Process):
                child = around.host.replace_by_child(child)
            begin = reaper.start_time(child.pid)
            start_thread("reaper", self._read_reports, own_end, child)
            on_failure.pop_all()
        self._socket, self._reaper, self._reaper_start = own_end, child, begin
        if around is not None and around.begin is not None:
            try:
                around.begin(child.pid)
            except BaseException:
                with suppress(OSError):
                    own_end.shutdown(socket.SHUT_RDWR)
                raise
        return own_end

    def _start_beside(self, end: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*_REAPER, str(end), str(self.scratch)],
            pass_fds=[end],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=clean_env(os.environ),  # Its children can read it in /proc.
            start_new_session=True,
        )

    def _start_in(self, around: Enclosure, end: int) -> Process:
        fds = [*[None] * FIRST_FD, *around.fds, end]
        words = [*around.argv, *around.reaper, str(len(fds) - 1), str(self.scratch)]
        env = clean_env(os.environ)
        return around.host.spawn(words, cwd=Path("/"), env=env, fds=fds)

    def replace_by_child(self, parent: Process) -> Process:
        """Kill a program whose only child goes on, below the reaper; return the child.

        Raises `OSError` if the child has ended.
        """
        for pid in reaper.children(parent.pid):
            child = self._running_processes[pid] = Process(pid, parent.tag)
            reaper.send_signal({parent.pid}, signal.SIGKILL)
            parent.wait()
            # Otherwise its parent may have taken the exit code.
            if child.exit_code.done() or pid in reaper.children(self.root or -1):
                return child
            self._running_processes.pop(pid, None)
        raise OSError(errno.EAGAIN, "the reaper ended")

    def _read_reports(self, sock: socket.socket, child: subprocess.Popen[bytes] | Process) -> None:
        with sock:
            answers = self._answers
            while report := _receive(sock):
                self._on_report(report)
            child.wait()
            answers.put(OSError(errno.EAGAIN, "the reaper ended"))
            self._on_reaper_gone(sock)

    def _on_report(self, report: bytes) -> None:
        """Take one report. What runs beside a reaper may have forged it: it is dropped then."""
        awaited_kind = self._awaited_kind
        match report.split():
            case [b"exit", pid, code] if _is_number(pid) and _is_number(code.removeprefix(b"-")):
                # Orphans that the reaper inherited have no `Process`.
                if process := self._running_processes.pop(int(pid), None):
                    process.exit_code.set_result(int(code))
            case [b"started", tag, pid] if tag == awaited_kind and _is_number(pid):
                self._awaited_kind = b""
                process = Process(self._number_here(int(pid)), tag.decode())
                self._running_processes[int(pid)] = process
                self._answers.put(process)
            case [b"failed", tag, code] if tag == awaited_kind and _is_number(code):
                self._awaited_kind = b""
                self._answers.put(OSError(int(code), os.strerror(int(code))))
            case _:
                pass

    def _number_here(self, pid: int) -> int:
        """Return the number that a process has here, by its number in the reaper's namespace.

        -1 when it has ended already. The children of a reaper are few; see NSpid in proc(5).
        """
        if self._enclose is None:
            return pid
        born = reaper.children(self.root or -1)
        return next((child for child in born if reaper.inner_number(child) == pid), -1)

    def _on_reaper_gone(self, sock: socket.socket) -> None:
        """Clean up after the reaper was killed or closed, so that nobody waits for ever.

        The next start of a process starts a new reaper.
        """
        with self._lock:
            if self._socket is not sock:
                return  # There is a new one, and no process was started by this one.
            self._socket = self._reaper = None
            # Processes started from here on belong to the next reaper.
            processes, self._running_processes = self._running_processes, {}
        for process in processes.values():
            process.signal_tree(signal.SIGKILL)
            process.exit_code.set_result(-signal.SIGKILL)


def _wait_for_end(child: subprocess.Popen[bytes] | Process) -> None:
    child.wait()


def _wait_until_ready(sock: socket.socket) -> None:
    sock.settimeout(_ANSWER_DEADLINE_S)
    try:
        while (report := _receive(sock)) != b"ready":
            if not report:
                raise OSError(errno.EAGAIN, "the reaper ended")
    except TimeoutError as exc:
        raise OSError(errno.EAGAIN, "the reaper does not answer") from exc
    sock.settimeout(None)


def _is_number(text: bytes) -> bool:
    return len(text) <= _MAX_DIGITS and text.isdigit()


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(256)
    except ConnectionResetError:
        return b""


@contextmanager
def start_errors(name: str) -> Generator[None]:
    """Turn an `OSError` in starting `name` into a `ToolError` that names a way out."""
    try:
        yield
    except OSError as exc:
        hint = _WAYS_OUT.get(exc.errno or 0, exc.strerror)
        raise ToolError(f"cannot start {name!r}: {hint}") from exc


def start_apart(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Start a program that outlives this process; wait until it has written a line, or ended."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        argv,
        env=env,
        cwd=Path.home(),
        stdin=null,
        stdout=subprocess.PIPE,
        stderr=null,
        start_new_session=True,
    )
    if process.stdout is not None:
        process.stdout.readline()


def start_thread(name: str, target: Callable[..., object], *args: object) -> None:
    """Start a thread. Raises `OSError` when there can be no more, as when a process is started."""
    try:
        threading.Thread(target=target, args=args, name=name, daemon=True).start()
    except RuntimeError as exc:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from exc


def output_file(stack: ExitStack, max_bytes: int = MAX_OUTPUT_BYTES) -> int:
    """Return a file in memory that takes at most so many bytes; `stack` closes it.

    Unlike a pipe it needs no reader, and a surviving program that has it open blocks nobody. For
    the seals see memfd_create(2).
    """
    file = os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, file)
    os.ftruncate(file, max_bytes)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return file


def input_file(data: bytes, stack: ExitStack) -> int:
    """Return a file in memory with this content, to be read from its start."""
    file = os.memfd_create("input", os.MFD_CLOEXEC)
    stack.callback(os.close, file)
    with open(file, "wb", closefd=False) as stream:
        stream.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def written_to(file: int) -> bytes:
    """Return what programs wrote to an `output_file`."""
    return os.pread(file, os.lseek(file, 0, os.SEEK_CUR), 0)


class Spawners(Struct, frozen=True):
    """Start the programs of one conversation."""

    host: Spawner
    inside: Callable[[], Spawner] | None
    """Returns the spawner in the conversation's sandbox, if there is one. Raises `ToolError`."""

    @property
    def are_sandboxed(self) -> bool:
        """Whether programs of the project run in a sandbox."""
        return self.inside is not None

    def for_project_programs(self) -> Spawner:
        """Return the spawner for what the project runs by itself. Raises `ToolError`."""
        return self.inside() if self.inside else self.host
