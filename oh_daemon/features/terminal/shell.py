"""The named shells of a conversation: found by name, started when first used, replaced when dead.

What one shell does is left to `bash`. The model chooses the names; there are at most 16 shells.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Literal, Protocol

from msgspec.structs import replace

from oh_daemon.common.masking import Masker
from oh_daemon.features.terminal.bash import Bash
from oh_daemon.features.terminal.output import Scrollback
from oh_daemon.features.terminal.shell_command import CommandOutcome, ShellCommand, ShellPlace
from oh_daemon.protocol.daemon_messages import TerminalInfo
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.environment import clean_env
from oh_daemon.system.spawner import GRACE_S, Spawner, start_errors

MAX_SHELLS = 16
_SIDES = {False: "in the sandbox", True: "outside the sandbox"}
_OTHER_SIDE = "terminal {!r} is {}; use another terminal_id for what runs {}"
_REPLACED = "The shell had ended; this is a new one in the same folder."
_LOSS = (
    "The conversation was opened again. Its earlier shells are gone, with their variables, folders"
    " and jobs."
)
_JOB_ENDED = (
    '[job "{0}" ended with exit code {1} after {2:.1f} s; its output comes with is_input,'
    ' terminal_id "{0}" and command ""]'
)


class ShellSandbox(Protocol):
    """Where shells run that must not change anything outside."""

    @property
    def spawner(self) -> Spawner: ...

    @property
    def is_asking(self) -> bool:
        """Whether a program there waits for an answer of the user."""
        ...

    def take_why_ended(self) -> str:
        """Return once why all there was ended the last time, if what ran there is the reason."""
        ...

    def shells(self) -> ShellPlace:
        """Return where their files lie. Raises `OSError`."""
        ...

    def words_apart(self, folder: Path) -> Sequence[str]:
        """Return the words before a shell that starts beside the daemon and runs there unseen.

        It begins in the folder. Raises `OSError` and `ToolError`.
        """
        ...


class Shells:
    """The named shells of one conversation. Safe from any thread."""

    def __init__(  # noqa: PLR0913 - keywords, each with a default.
        self,
        spawner: Spawner,
        folder: Path,
        variables: Callable[[], Mapping[str, str]],
        masker: Masker | None = None,
        *,
        sandbox: ShellSandbox | None = None,
        reader: Sequence[str] = (),
        on_job_end: Callable[[], object] = bool,
    ) -> None:
        """In a `sandbox`, shells start inside, and outside only when that is requested.

        `variables` returns the environment before secrets are removed; each start calls it.
        `reader` are the words before a shell that can change nothing. `on_job_end` is called on the
        reader thread of a shell when a command ends that nobody waits for.
        """
        self._spawner = spawner
        self._sandbox = sandbox
        self._reader = reader
        self._folder = folder
        self._variables = variables
        self._lock = threading.Lock()
        self._place: ShellPlace | None = None
        self._shells: dict[str, Bash] = {}
        self._outside: set[str] = set()
        """The names of the shells that are not in the sandbox, though there is one."""
        self._masker = masker or Masker()
        self._screens: dict[str, Scrollback] = {}
        self._loss = ""
        self._on_job_end = on_job_end

    def lose_earlier(self) -> None:
        """Let the model know, with the next result, that it had shells which are gone."""
        self._loss = _LOSS

    def open(self, name: str = "main", *, outside: bool = False) -> Bash:
        """Return the living shell of that name, or start one."""
        outside = outside and self._sandbox is not None
        with self._lock:
            old = self._shells.get(name)
            if old and not old.is_dead:
                if outside != (name in self._outside):
                    raise ToolError(_OTHER_SIDE.format(name, _SIDES[not outside], _SIDES[outside]))
                return old
            if not old and len(self._shells) >= MAX_SHELLS:
                self._end_idle()
            (self._outside.add if outside else self._outside.discard)(name)
            note = self.take_why_ended() + _REPLACED if old else ""
            self._shells[name] = self._start_bash(name, note)
            return self._shells[name]

    def open_reader(self, folder_of: str) -> tuple[str, Bash]:
        """Start a shell for one command, which can only read; return its name too.

        It starts in the folder of that other shell.
        """
        with self._lock, start_errors("bash"):
            name = self._name_for_one("reading")
            place = replace(self._own_place(), words=self._reader)
            self._shells[name] = self._bash(name, self._spawner, place, self.cwd(folder_of))
            return name, self._shells[name]

    def open_apart(self, folder_of: str) -> tuple[str, Bash]:
        """Start a shell in the sandbox for one command that gets secrets; return its name too.

        Nothing of what ran there before sees it or is its parent. It starts in the folder of that
        other shell.
        """
        with self._lock, start_errors("bash"):
            if self._sandbox is None:
                raise ToolError("there is no sandbox; run the command in another terminal")
            name, folder = self._name_for_one("secret"), self.cwd(folder_of)
            place = replace(self._sandbox.shells(), words=self._sandbox.words_apart(folder))
            self._shells[name] = self._bash(name, self._spawner, place, folder, self._sandbox)
            return name, self._shells[name]

    def _name_for_one(self, kind: str) -> str:
        """Return the name of a new shell for one command; an old one of that name ends."""
        names = (kind if n == 1 else f"{kind}-{n}" for n in count(1))
        name = next(n for n in names if n not in self._shells or self._shells[n].is_idle)
        if old := self._shells.get(name):
            old.kill(0)
        elif len(self._shells) >= MAX_SHELLS:
            self._end_idle()
        return name

    def existing(self, name: str) -> Bash:
        """Return the shell of that name, dead or alive. Raises `ToolError` when there is none."""
        if name not in self._shells:
            words = f"there is no terminal {name!r}; run a command in it first"
            raise ToolError(". ".join(filter(None, (words, self.take_news()))))
        return self._shells[name]

    def take_ended(self, name: str) -> CommandOutcome | None:
        """Return the outcome of a command in that shell that ended unwatched, if there is one."""
        shell = self._shells.get(name)
        return shell.take_ended() if shell else None

    def take_news(self) -> str:
        """Return once, in lines for the model, which jobs have ended, and what is gone."""
        loss, self._loss = self._loss, ""
        return "\n".join(filter(None, (loss, self.take_ended_jobs())))

    def take_ended_jobs(self) -> str:
        """Return once, in lines for the model, which jobs have ended."""
        rows: list[str] = []
        for name, shell in list(self._shells.items()):
            job = shell.last
            if job is not None and job.duration_s is not None and job.is_job:
                if not job.is_reported:
                    rows.append(_JOB_ENDED.format(name, job.exit_code, job.duration_s))
                job.is_reported = True
        return "\n".join(rows)

    def terminal_infos(self) -> tuple[TerminalInfo, ...]:
        """Return what people see of each shell, oldest first."""
        return tuple(self._info(name, shell) for name, shell in list(self._shells.items()))

    def _info(self, name: str, shell: Bash) -> TerminalInfo:
        last = shell.last
        return TerminalInfo(
            terminal_id=name,
            command=self._masker.mask(last.text) if last else None,
            cwd=str(shell.cwd),
            running=shell.is_running,
            exit_code=last.exit_code if last else None,
            size_bytes=self._screens[name].size_bytes,
        )

    def screen(self, name: str) -> Scrollback:
        """Return what a terminal showed. Raises `ToolError` as `existing` does."""
        self.existing(name)
        return self._screens[name]

    def cwd(self, terminal_id: str) -> Path:
        """Return the folder of the next command; a new terminal starts in the folder of `main`."""
        shell = self._shells.get(terminal_id) or self._shells.get("main")
        return shell.cwd if shell else self._folder

    @property
    def have_readers(self) -> bool:
        return bool(self._reader)

    @property
    def are_sandboxed(self) -> bool:
        """Whether they are in a sandbox, unless one is wanted outside."""
        return self._sandbox is not None

    def is_outside(self, name: str) -> bool:
        """Whether a shell is not in the sandbox, though there is one."""
        return name in self._outside

    @property
    def level(self) -> Literal["overlay", "landlock", "off"]:
        """What holds them."""
        return "overlay" if self._sandbox is not None else "landlock" if self._reader else "off"

    def take_why_ended(self) -> str:
        """Return once why the sandbox was ended, if a command in it is the reason; otherwise ""."""
        return self._sandbox.take_why_ended() if self._sandbox else ""

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for a command in front in one of the shells in the sandbox."""
        return any(not command.is_job for _, command in self._running_commands())

    @property
    def jobs(self) -> frozenset[bytes]:
        """The marks of the commands in the sandbox that run in the background."""
        return frozenset(job.mark for _, job in self._running_commands() if job.is_job)

    @property
    def job_names(self) -> frozenset[str]:
        """The names of the shells in the sandbox with a command that runs in the background."""
        return frozenset(name for name, job in self._running_commands() if job.is_job)

    def _running_commands(self) -> Iterator[tuple[str, ShellCommand]]:
        for name, shell in list(self._shells.items()):
            command = shell.last
            if name not in self._outside and shell.is_running and command is not None:
                yield name, command

    @property
    def is_running(self) -> bool:
        """Whether a command runs in one of the shells in the sandbox."""
        return any(True for _ in self._running_commands())

    def free_name(self) -> str:
        """Return the name of a terminal that does not exist yet, for a background job."""
        return next(name for n in count(1) if (name := f"job-{n}") not in self._shells)

    def close(self) -> None:
        """End every shell and everything that runs in it."""
        with self._lock:
            shells, self._shells = list(self._shells.values()), {}
            place, self._place = self._place, None
        deadline = time.monotonic() + GRACE_S
        for shell in shells:
            shell.hang_up()
        for shell in shells:
            shell.kill(max(0.0, deadline - time.monotonic()))
        if place:
            shutil.rmtree(place.spool, ignore_errors=True)

    def _start_bash(self, name: str, note: str) -> Bash:
        with start_errors("bash"):
            if self._sandbox is not None and name not in self._outside:
                spawner, place = self._sandbox.spawner, self._sandbox.shells()
                shell = self._bash(name, spawner, place, self.cwd(name), self._sandbox)
            else:
                shell = self._bash(name, self._spawner, self._own_place(), self.cwd(name))
            shell.write_note(note)
            return shell

    def _bash(
        self,
        name: str,
        spawner: Spawner,
        place: ShellPlace,
        cwd: Path,
        sandbox: ShellSandbox | None = None,
    ) -> Bash:
        folder = cwd if cwd.is_dir() else self._folder
        screen = self._screens.setdefault(name, Scrollback(self._masker))
        is_held = (lambda: sandbox.is_asking) if sandbox else bool
        env = clean_env(self._variables())
        shell = Bash(spawner, place.of(name), folder, env, screen, is_held)
        shell.on_job_end = self._on_job_end
        return shell

    def _own_place(self) -> ShellPlace:
        if self._place is None:
            folder = Path(tempfile.mkdtemp(prefix=self._spawner.scratch.name))
            self._place = ShellPlace(folder, folder)
        return self._place

    def _end_idle(self) -> None:
        idle = (name for name, shell in self._shells.items() if name != "main" and shell.is_idle)
        name = next(idle, None)
        if name is None:
            busy = ", ".join(self._shells)
            raise ToolError(
                f"{MAX_SHELLS} terminals are open, which is the limit; stop one: {busy}"
            )
        self._shells.pop(name).hang_up()
        del self._screens[name]
