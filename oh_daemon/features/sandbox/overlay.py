"""An overlay: the namespaces of a conversation's commands, and the layers with their changes.

Below lies the disk, on top an empty layer that takes each change; paths are the same as outside. It
starts with the first program. Of the files in the layers only the kernel and `changes` know.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from oh_daemon.features.sandbox import bwrap, entry, inside, monitor, seccomp, signature_mark
from oh_daemon.features.sandbox.disk_space import DiskSpace
from oh_daemon.features.sandbox.layer import OverlayFolder, open_in
from oh_daemon.features.sandbox.mounts import (
    SandboxMounts,
    empty_file,
    mask_place,
    mounts_of,
    unmasked,
    upper_of,
)
from oh_daemon.features.sandbox.storage import (
    LOCK,
    limit,
    lock_folder,
    make_folder_in,
    n_numbers,
    note_holder,
    own_folder,
    remove,
    reserve_in,
    too_full,
)
from oh_daemon.features.terminal.shell_command import ShellPlace
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system import reaper
from oh_daemon.system.environment import clean_env, git_settings
from oh_daemon.system.proc import mounts_below
from oh_daemon.system.spawner import FIRST_FD, Enclosure, Process, Spawner, input_file, start_thread

_PATIENCE_S = 10.0
_FILTER, _OPTIONS, _TERMINALS = range(FIRST_FD, FIRST_FD + 3)
"""Descriptors of the first program."""
_VARIABLES = {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
"""Without it, git looks for a repository no further than the mount of the open folder; git(1)."""
_WAIT_FOR_LOCK = "import fcntl; fcntl.flock(0, fcntl.LOCK_EX)"
_MOUNT = (
    "the sandbox cannot cover {}, since {} has been mounted there. "
    "The user can unmount that, or set `sandbox` to `landlock`"
)


class SandboxNetwork(Protocol):
    """Connects a sandbox's network, which has only itself, with hosts."""

    @property
    def variables(self) -> Mapping[str, str]:
        """What tells programs inside the way."""
        ...

    @property
    def is_asking(self) -> bool:
        """Whether a program inside waits for an answer of the user."""
        ...

    def begin(self, overlay: OverlaySandbox) -> None:
        """The sandbox has started. Raises `OSError`."""
        ...

    def end(self) -> None:
        """The sandbox has ended."""
        ...


class OverlaySandbox:
    """Safe from any thread. Raises `OSError` and `ToolError` when it cannot start."""

    def __init__(
        self,
        host: Spawner,
        mounts: SandboxMounts,
        place: Path,
        network: SandboxNetwork | None = None,
        *,
        outlives: bool = False,
        idle_s: float = 3.0,
    ) -> None:
        """`place` is a folder of its own, outside all that the sandbox can change.

        If it `outlives` the sandbox, the next one at the same place goes on with its layers. After
        `idle_s` without use, a helper process ends, which starts again in a few milliseconds.
        """
        self._host = host
        self._network = network
        self._outlives = outlives
        self._idle_ms = int(1000 * idle_s)
        self._mounts = mounts
        self._place = place
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._starting = ExitStack()
        """Closes the descriptors that only the start of process 1 needs."""
        self._ownership: int | None = None
        """Keeps the place from being swept away before the first run, unless it outlives that."""
        self._layer_lock: int | None = None
        """Keeps others from the place from the first run on."""
        self._monitor: _MonitorProcess | None = None
        self._is_over = threading.Event()
        """Ends the watch over the disk for the last run."""
        self._overlays: Sequence[Path] = ()
        """What the last run covers, but for caches."""
        self._masked = frozenset[Path]()
        """The secrets that a lower layer of the last run hides."""
        self._writable: Sequence[str] = ()
        """Where commands of the last run can write."""
        self._marked_root: int | None = None
        """The process 1 of which `holder` knows."""
        self._end_reason = ""
        self._variables = {
            **_VARIABLES,
            **git_settings(os.environ, signature_mark.settings(place)),
            **(network.variables if network else {}),
        }
        self._spawner = Spawner(self.enclose, self._variables)

    @property
    def spawner(self) -> Spawner:
        """Starts programs inside."""
        return self._spawner

    def shells(self) -> ShellPlace:
        """Return where the files of shells in it lie; what they are given they cannot change."""
        with self._lock:
            if self._ownership is self._layer_lock is None and not self._outlives:
                self._ownership = own_folder(self._place)
        return ShellPlace(
            make_folder_in(self._place / "given"), make_folder_in(self._place / "kept")
        )

    def words_apart(self, folder: Path) -> Sequence[str]:
        """Return the words before a program of the host's that put it inside, where none sees it.

        It begins in a folder, if that is there. Raises `OSError` and `ToolError`.
        """
        variables = [f"{name}={value}" for name, value in self._variables.items()]
        words = entry.apart_words(self.start(), str(folder), self._writable)
        return [*words, "env", *variables]

    def upper(self, folder: Path) -> Path:
        """Return where what commands change below an open folder lies."""
        return upper_of(self._mounts, self._place, folder)

    @property
    def git_dirs(self) -> Sequence[Path]:
        """Repositories' own folders outside the open ones, each with a layer of its own."""
        return self._mounts.git_dirs

    def private_place(self, path: Path) -> Path | None:
        """Return the folder whose layer has what commands change at a path and is never applied."""
        places = [at for at in self._mounts.places if path.is_relative_to(at)]
        place = max(places, key=lambda at: len(at.parts), default=None)
        is_whole = place is not None and not mounts_below(place)
        is_private = place in (*self._mounts.private, *self._mounts.scratch)
        return place if is_private and is_whole else None

    def inside(self, folder: Path) -> OverlayFolder:
        """Return the way to write into the sandbox below an open folder, once it has started."""
        return OverlayFolder(self.spawner.root or 0, folder)

    def start(self) -> int:
        """Return the number of process 1 inside, which is started if it is not there."""
        if (root := self.spawner.root) is not None and root == self._marked_root:
            return root
        words = (sys.executable, "-I", "-S", "-c", "")
        self.spawner.run(words, cwd=Path("/"), timeout_s=_PATIENCE_S)
        if (root := self.spawner.root) is None:
            raise ToolError("the sandbox has ended; try again")
        note_holder(self._place, root, self._writable)
        self._marked_root = root
        return root

    def open(self, folder: Path) -> int:
        """Open an open folder as it is seen inside. Raises `OSError` and `ToolError`."""
        root = self.start()
        descriptor = open_in(root, folder)
        if root == self.spawner.root:
            return descriptor
        # The number may be another process's by now, and the folder the disk's.
        os.close(descriptor)
        raise ToolError("the sandbox has just ended; try again")

    @property
    def is_asking(self) -> bool:
        """Whether a program inside waits for an answer of the user."""
        return self._network is not None and self._network.is_asking

    def socket(self, family: socket.AddressFamily, port: int = 0) -> socket.socket:
        """Return a TCP socket of its network, bound to the port on its loopback, unless that is 0.

        Raises `OSError`.
        """
        with self._lock:
            if self._monitor is None:
                raise OSError(errno.ENETDOWN, "the sandbox has ended")
            return self._monitor.socket(family, port)

    def without_secrets(self, texts: Mapping[Path, str]) -> Mapping[Path, str]:
        """Leave out the texts, by real path, that commands must not see."""
        return self._mounts.masks.without_secrets(texts) if self._mounts.masks else texts

    @property
    def is_running(self) -> bool:
        return self.spawner.root is not None

    def refresh(self) -> None:
        """Let what was changed below be seen inside; does nothing before the first program."""
        with self._lock:
            if self._monitor is not None and self._monitor.root == self.spawner.root:
                self._monitor.bring_up_to_date(self._covered())

    def _covered(self) -> Mapping[Path, str]:
        return unmasked(self._mounts.covered_places(), self._masked)

    def _begin(self, root: int) -> None:
        """Act in the namespaces of process 1 before it has started anything."""
        with self._lock:
            self._starting.close()
            reserve = reserve_in(self._place)
            limit(root, self._place, reserve)
            self._end_reason, self._is_over = "", threading.Event()
            on_full = partial(self._end_for, too_full(reserve))
            start_thread(
                "disk-space", DiskSpace(self._place, reserve).watch, self._is_over, on_full
            )
            empty = empty_file(self._place)
            Path(os.fsdecode(monitor.covers_file(bytes(empty)))).unlink(missing_ok=True)
            files = (empty, *self._overlays)
            self._monitor = _MonitorProcess(self._host, root, self._idle_ms, files)
            self._monitor.bring_up_to_date(self._covered())
        if self._network is not None:
            self._network.begin(self)

    def _end_for(self, reason: str) -> None:
        self._end_reason = reason
        reaper.send_signal({self.spawner.root or -1}, signal.SIGKILL)

    def close(self) -> None:
        """End all that runs inside; if they do not outlive it, remove the layers."""
        self.spawner.close()
        self._let_go()
        remove(mask_place(self._place))
        if not self._outlives:
            remove(self._place)
        self._own_by(None)

    def _own_by(self, layer_lock: int | None) -> None:
        """Give up what keeps others from the place, but for this descriptor."""
        with self._lock:
            for descriptor in (self._ownership, self._layer_lock):
                if descriptor not in (None, layer_lock):
                    os.close(descriptor)
            self._ownership, self._layer_lock = None, layer_lock

    def _let_go(self) -> None:
        """Give up what holds the mounts of the last run; two on one layer are undefined."""
        if self._network is not None:
            self._network.end()
        with self._lock:
            self._is_over.set()
            if self._monitor is not None:
                self._monitor.close()
            self._monitor = None
        self._starting.close()
        self._open.close()

    def take_why_ended(self) -> str:
        """Return once why it ended the last time, if what ran inside is the reason; else ""."""
        why, self._end_reason = self._end_reason, ""
        return why

    def enclose(self) -> Enclosure:
        """Return what the first program inside is started with; what ran before has ended."""
        self._let_go()
        for place in (*self._mounts.folders, *self._mounts.git_dirs):
            if inner_mounts := mounts_below(place):
                raise ToolError(_MOUNT.format(place, next(iter(inner_mounts))))
        mounts, self._overlays, self._masked = mounts_of(
            self._mounts, self._place, self.shells(), self._open
        )
        lock = self._layer_lock or self._lock_layer()
        self._own_by(lock)
        filter_program = seccomp.memory_file(seccomp.for_overlay())
        self._starting.callback(os.close, filter_program)
        # As a file, since a request to the reaper is shorter than these words can be.
        program, *options, end = bwrap.arguments(self._mounts.program, mounts, seccomp=_FILTER)
        options_file = input_file(b"\0".join(map(os.fsencode, options)), self._starting)
        words = [program, "--args", str(_OPTIONS), end]
        self._writable = [*map(str, mounts.places_to_write)]
        # Commands can open their standard streams by name, which are terminals of the host.
        terminals = os.open("/dev/pts", os.O_PATH | os.O_CLOEXEC)
        self._starting.callback(os.close, terminals)
        first = (sys.executable, "-I", "-S", inside.__file__, str(_TERMINALS), *self._writable)
        # Process 1 has the lock too: when the daemon is killed, it goes on for a moment.
        return Enclosure(
            self._host,
            words,
            [filter_program, options_file, terminals, lock],
            [*mounts.hidden, *mounts.covered],
            reaper=first,
            begin=self._begin,
        )

    def _lock_layer(self) -> int:
        """Return a descriptor that holds the lock; wait for one that is about to be released."""
        with suppress(BlockingIOError):
            return lock_folder(self._place)
        with ExitStack() as on_failure:
            lock = os.open(self._place / LOCK, os.O_RDONLY | os.O_CLOEXEC)
            on_failure.callback(os.close, lock)
            words = (sys.executable, "-I", "-S", "-c", _WAIT_FOR_LOCK)
            env = clean_env(os.environ)
            process = self._host.spawn(words, cwd=Path("/"), env=env, fds=[lock, None, None])
            if process.wait(_PATIENCE_S) is None:
                process.kill_tree(0)
                raise ToolError("another process has this sandbox open; close it there")
            on_failure.pop_all()
        return lock


class _MonitorProcess:
    """The process that acts in the namespaces of one run of a sandbox, there when it is needed."""

    def __init__(self, host: Spawner, root: int, idle_ms: int, files: Sequence[Path]) -> None:
        self.root = root
        self._host = host
        self._idle_ms = idle_ms
        self._n_numbers = n_numbers()
        """0 once the first monitor has set that limit."""
        self._files = files
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: Process | None = None

    def bring_up_to_date(self, covers: Mapping[Path, str]) -> None:
        answer, _ = self._ask("mounts", *(word for row in covers.items() for word in row))
        if answer != b"\0":
            why = os.strerror(answer[0]) if answer else "it has ended; run the command again"
            raise ToolError(f"the sandbox of the commands cannot be brought up to date: {why}")

    def socket(self, family: socket.AddressFamily, port: int) -> socket.socket:
        answer, descriptors = self._ask("socket", str(int(family)), str(port))
        if not descriptors:
            number = answer[0] if answer else errno.ENETDOWN
            raise OSError(number, os.strerror(number))
        return socket.socket(fileno=descriptors[0])

    def _ask(self, *words: str | Path) -> tuple[bytes, list[int]]:
        request = b"\0".join(map(os.fsencode, words))
        packet = len(request).to_bytes(4, "big") + request
        with self._lock:
            # A monitor without requests may have ended just before this one.
            if self._socket and (answer := _answer_to(packet, self._socket))[0]:
                return answer
            return _answer_to(packet, self._start())

    def _start(self) -> socket.socket:
        self._stop()
        own_end, other_end = socket.socketpair()
        own_end.settimeout(_PATIENCE_S)
        with other_end, ExitStack() as on_failure:
            on_failure.callback(own_end.close)
            fds = [other_end.fileno(), None, None]
            facts = (self.root, self._idle_ms, self._n_numbers, *self._files)
            process = self._host.spawn_module(monitor.__file__, [*map(str, facts)], fds)
            on_failure.pop_all()
        self._socket, self._process, self._n_numbers = own_end, process, 0
        process.exit_code.add_done_callback(lambda _: self._on_end(process))
        return own_end

    def _on_end(self, process: Process) -> None:
        # The holder of the lock finds out by the missing answer.
        if self._lock.acquire(blocking=False):
            if self._process is process:
                self._stop()
            self._lock.release()

    def _stop(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait(_PATIENCE_S)
        self._socket = self._process = None

    def close(self) -> None:
        with self._lock:
            self._stop()


def _answer_to(packet: bytes, monitor_socket: socket.socket) -> tuple[bytes, list[int]]:
    """Return a byte and perhaps a descriptor; no byte if the monitor has ended or hangs."""
    try:
        monitor_socket.sendall(packet)
        answer, descriptors, _, _ = socket.recv_fds(monitor_socket, 1, 1)
    except (ConnectionError, TimeoutError):
        return b"", []
    return answer, descriptors
