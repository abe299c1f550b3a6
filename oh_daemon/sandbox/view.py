"""A view: the namespaces in which a conversation's commands run, and the layers of their changes.

Below lies the disk, on top an empty layer that takes each change; paths are the same as outside. It
starts with the first program. Of the files in the layers only the kernel and `changes` know.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from oh_daemon.contract.errors import ToolError
from oh_daemon.sandbox import bwrap, keeper, seccomp
from oh_daemon.sandbox.inside import Inside
from oh_daemon.sandbox.layer import opened
from oh_daemon.sandbox.masks import Masks
from oh_daemon.sandbox.trees import discard
from oh_daemon.workspace.shell_command import ShellPlace
from oh_daemon.workspace.spawner import Enclosure, Process, Spawner, clean_env

_PATIENCE_S = 10.0
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Ground:
    """What a view is made from."""

    program: Path
    """A bubblewrap that can mount overlays."""
    folders: Sequence[Path]
    """Real paths of the open folders, whose changes may land."""
    private: Sequence[Path]
    """Real paths of other folders that can be written to, whose changes never land."""
    hidden: Sequence[Path] = ()
    masks: Masks | None = None
    """Finds what may hold secrets; without, nothing is covered."""


class View:
    """Safe from any thread. Raises `OSError` and `ToolError` when it cannot start."""

    def __init__(self, host: Spawner, ground: Ground, place: Path) -> None:
        """`place` is a folder of its own, outside all that the view can change."""
        self._host = host
        self._ground = ground
        self._place = place
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._keeper: _Keeper | None = None
        self._spawner = Spawner(self.enclose)

    @property
    def spawner(self) -> Spawner:
        """Starts programs inside."""
        return self._spawner

    def shells(self) -> ShellPlace:
        """Return where the files of shells in it lie; what they are given they cannot change."""
        return ShellPlace(_made(self._place / "given"), _made(self._place / "kept"))

    def upper(self, folder: Path) -> Path:
        """Return where what commands change below an open folder lies."""
        return self._place / f"upper-{self._places.index(folder)}"

    def inside(self, folder: Path) -> Inside:
        """Return the way to write into the view below an open folder, once it has started."""
        return Inside(Path(f"/proc/{self.spawner.root}/root{folder}"))

    @property
    def _places(self) -> Sequence[Path]:
        return [*dict.fromkeys((*self._ground.folders, *self._ground.private))]

    @property
    def _empty(self) -> Path:
        """An empty file that commands can read and not change."""
        return self._place / "empty"

    def _covered(self) -> Mapping[Path, str]:
        return self._ground.masks.find() if self._ground.masks else {}

    def without_secrets(self, texts: Mapping[Path, str]) -> Mapping[Path, str]:
        """Leave out the texts, by real path, that commands must not see."""
        return self._ground.masks.without_secrets(texts) if self._ground.masks else texts

    @property
    def is_running(self) -> bool:
        return self.spawner.root is not None

    def refresh(self) -> None:
        """Let what was changed below be seen inside; does nothing before the first program."""
        with self._lock:
            root = self.spawner.root
            if root is None:
                return
            if self._keeper is None or self._keeper.root != root:
                self._keeper = _Keeper(self._host, root, self._empty, self._places)
            self._keeper.bring_up_to_date(self._covered())

    def close(self) -> None:
        """End all that runs inside, and remove the layers with all that did not land."""
        self.spawner.close()
        self._let_go()
        remove(self._place)

    def _let_go(self) -> None:
        """Give up what holds the mounts of the last run; two on one layer are undefined."""
        with self._lock:
            if self._keeper is not None:
                self._keeper.close()
            self._keeper = None
        self._open.close()

    def enclose(self) -> Enclosure:
        """Return what the first program inside is started with; what ran before has ended."""
        self._let_go()
        shells = self.shells()
        self._empty.touch(0o444)
        mounts = bwrap.Mounts(
            layers=[self._layer(n, place) for n, place in enumerate(self._places)],
            hidden=[*self._ground.hidden, self._place.parent],
            covered=[*self._covered()],
            empty=self._empty,
            readable=[shells.given, self._empty],
            writable=[shells.kept],
        )
        self._open.callback(os.close, locked(self._place))
        refused = seccomp.memory_file(seccomp.for_view())
        self._open.callback(os.close, refused)
        words = bwrap.arguments(self._ground.program, mounts, seccomp=refused)
        return Enclosure(words, [refused])

    def _layer(self, number: int, place: Path) -> bwrap.Layer:
        upper, work = (_made(self._place / f"{name}-{number}") for name in ("upper", "work"))
        return bwrap.Layer(place, upper, work)


class _Keeper:
    """The process that keeps the mounts of one run of a view up to date."""

    def __init__(self, host: Spawner, root: int, empty: Path, places: Sequence[Path]) -> None:
        self.root = root
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_PATIENCE_S)
        words = (sys.executable, "-I", "-S", keeper.__file__, str(root), str(empty))
        with theirs:
            env: Mapping[str, str] = clean_env(os.environ)
            fds = [theirs.fileno(), None, None]
            argv = (*words, *map(str, places))
            self._process: Process = host.spawn(argv, cwd=Path("/"), env=env, fds=fds)
        self._expect()

    def bring_up_to_date(self, covered: Mapping[Path, str]) -> None:
        words = [word for row in covered.items() for word in row]
        request = b"\0".join(map(os.fsencode, words))
        self._socket.sendall(len(request).to_bytes(4, "big") + request)
        self._expect()

    def close(self) -> None:
        self._socket.close()
        self._process.wait(_PATIENCE_S)

    def _expect(self) -> None:
        try:
            answer = self._socket.recv(1)
        except ConnectionResetError:
            answer = b""
        if answer != b"\0":
            why = os.strerror(answer[0]) if answer else "it has ended; run the command again"
            raise ToolError(f"the view of the commands cannot be brought up to date: {why}")


def sweep(places: Path) -> None:
    """Remove the views of daemons that were killed."""
    with suppress(FileNotFoundError):
        for place in places.iterdir():
            with suppress(OSError):
                os.close(locked(place))
                remove(place)


def remove(place: Path) -> None:
    """Remove a view's folder, with what commands left in it."""
    with suppress(OSError), opened(place.parent) as parent:
        discard(parent, place.name, place.with_name(f"{place.name}-gone"))


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def locked(place: Path) -> int:
    """Return a descriptor that holds the lock of a view. Raises `OSError` if another has it."""
    with ExitStack() as on_failure:
        descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        on_failure.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        on_failure.pop_all()
    return descriptor
