"""Takes the variables that the user's login shell sets: `PATH` of nvm, pyenv, conda and so on.

An editor that was started from a desktop has none of them. The shell runs once, in the home folder
and in the background; what it changes is cached until a start-up file changes. Secrets are left out
as everywhere. docs/decisions.md gives the reasons, under "Login shell".
"""

from __future__ import annotations

import logging
import os
import pwd
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from oh_daemon.common.plain_text import join_names
from oh_daemon.protocol.errors import DaemonError, ToolError
from oh_daemon.system.environment import CommandVariables, without_secrets
from oh_daemon.system.private_files import Json, PrivateValues
from oh_daemon.system.spawner import (
    RUN_TAG,
    Spawner,
    input_file,
    output_file,
    start_errors,
    start_thread,
    written_to,
)

logger = logging.getLogger(__name__)

DEADLINE_S = 10.0
"""How long the shell may take, and commands wait for it; also the limit of VS Code."""
_MAX_AGE_S = 24 * 3600
"""Start-up files read others, such as nvm's default version, which no list of ours can name."""
_OUTPUT_FD = 3
"""Not 1, into which start-up files print."""
_INTERACTIVE_LOGIN = ("-i", "-l", "-c", "{line}")
_WORDS: dict[str, tuple[str, ...]] = {
    # A login bash does not read .bashrc (bash manual, 6.2), which a terminal's bash does; so one
    # follows the other, as at a desktop: the session's and then the terminal's.
    "bash": ("-l", "-c", 'exec "$BASH" -i -c "{line}"'),
    **dict.fromkeys(("zsh", "fish", "sh", "dash", "ksh", "mksh"), _INTERACTIVE_LOGIN),
}
_GUARD = "VSCODE_RESOLVING_ENVIRONMENT"
"""Start-up files test this variable of VS Code, before they start tmux or another shell."""
_OF_THE_RUN = frozenset(
    {
        *("_", "SHLVL", "PWD", "OLDPWD", "TERM", "TTY", "GPG_TTY", "SHELL", _GUARD, RUN_TAG),
        # An agent that the start-up files have started ends with the shell.
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID"),
    }
)
"""Variables that say something about that one shell only."""
_HAS_PASSWORD = re.compile(r"://[^\s/@]*:[^\s/@]+@")
_START_UP_FILES = (
    *("profile", "profile.d/*", "bash.bashrc", "bashrc", "zshenv", "zprofile", "zshrc", "zlogin"),
    *("zsh/z*", "fish/config.fish", "fish/conf.d/*"),
)
"""In /etc. Manuals: bash 6.2; zshall(1), STARTUP/SHUTDOWN FILES; fish(1)."""
_USER_START_UP_FILES = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_aliases", ".kshrc", ".mkshrc"),
    *(".zshenv", ".zprofile", ".zshrc", ".zlogin", ".config/zsh/.z*", ".config/fish/config.fish"),
    *(".config/fish/conf.d/*", ".config/fish/fish_variables"),
    *(".nvm/alias/default", ".pyenv/version", ".tool-versions", ".condarc"),
)
"""In the home folder, with the files in which version managers keep the user's choice."""
_N_NAMES = 2


def is_from_shell(environment: Mapping[str, str]) -> bool:
    """Return whether these variables already come from the user's shell.

    A shell counts itself in SHLVL, and takes itself out again when it becomes another program, as
    the scripts of display managers do. VS Code runs the login shell itself, and leaves its marks in
    the environment of extensions.
    """
    level = environment.get("SHLVL", "")
    has_shell = level.isdecimal() and int(level) > 0
    return has_shell or any(name.startswith("VSCODE_") for name in environment)


class ShellOutcome(Struct, frozen=True):
    """Changes of the daemon's variables by a login shell, or why they are not known."""

    changes: Mapping[str, str]
    text: str
    """Completes "with": "PATH from zsh's start-up files"."""
    is_complete: bool = True


class CommandEnvironment:
    """The variables of commands: the daemon's own, completed by `take`. Safe from any thread."""

    def __init__(
        self, own: Mapping[str, str], take: Callable[[], ShellOutcome] | None = None
    ) -> None:
        """`take` runs on a thread of its own, at most once; without it, commands get `own`."""
        self._take = take
        self._current = CommandVariables(own)
        self._is_settled = threading.Event()
        self._lock = threading.Lock()
        if take is None:
            self._is_settled.set()

    def begin(self) -> None:
        """Begin to take the variables in the background, if that has not begun."""
        with self._lock:
            take, self._take = self._take, None
        if take is None:
            return
        try:
            start_thread("login-shell", self._settle, take)
        except OSError as exc:
            logger.info("the login shell cannot be run: %s", exc)
            self._is_settled.set()

    def variables(self) -> Mapping[str, str]:
        """Return the variables of commands; wait for the login shell, 10 s at most."""
        self.begin()
        self._is_settled.wait(DEADLINE_S)
        return self._current.values

    def current(self) -> CommandVariables:
        """Return those that are there by now. Does not wait."""
        return self._current

    def _settle(self, take: Callable[[], ShellOutcome]) -> None:
        try:
            outcome = take()
            values = {**self._current.values, **outcome.changes}
            self._current = CommandVariables(values, outcome.text)
        finally:
            self._is_settled.set()


class LoginShell(Struct, frozen=True):
    """The login shell of the user in whose `home` it runs."""

    spawner: Spawner
    own: Mapping[str, str]
    """The variables of this process."""
    home: Path
    cache: PrivateValues
    deadline_s: float = DEADLINE_S

    @property
    def program(self) -> str:
        try:
            return self.own.get("SHELL") or pwd.getpwuid(os.geteuid()).pw_shell
        except KeyError:  # A container may run as a user that it does not know.
            return "/bin/sh"

    @property
    def name(self) -> str:
        return Path(self.program).name

    def take(self) -> ShellOutcome:
        """Return what the shell changes: from the cache if that is still right, or by running it.

        Blocks for `deadline_s` at most, and leaves no process behind.
        """
        stamps = self._stamps()
        entry = self.cache.get(self.program, {})
        if self._is_current(entry, stamps):
            changes = {name: after for name, (_, after) in entry["changes"].items()}
            return ShellOutcome(changes, self._describe(changes))
        outcome = self._run()
        if outcome.is_complete:
            changes = {name: (self.own.get(name), after) for name, after in outcome.changes.items()}
            entry = {"stamps": stamps, "takenAt": time.time(), "changes": changes}
            try:
                self.cache[self.program] = entry
            except DaemonError as exc:
                logger.info("the variables of %s are not cached: %s", self.name, exc)
        return outcome

    def run_again(self) -> ShellOutcome:
        """Run the shell and empty the cache. Blocks as `take` does."""
        self.cache.forget(self.program)
        return self._run()

    def _run(self) -> ShellOutcome:
        words, lister = _WORDS.get(self.name), shutil.which("env")
        if words is None or lister is None:
            return self._failure(f"the start-up files of {self.name!r} are not read")
        line = f"{lister} -0 >&{_OUTPUT_FD}"
        argv = [self.program, *(word.format(line=line) for word in words)]
        try:
            with ExitStack() as stack:
                with start_errors(self.name):
                    # A shell that replaces this one by `exec` reads the line from here.
                    fds = [input_file(f"{line}\n".encode(), stack), *[None] * (_OUTPUT_FD - 1)]
                    output = output_file(stack)
                env = {**without_secrets(self.own), _GUARD: "1"}
                # Many start-up files do nothing in a terminal named "dumb", which Emacs sets.
                env.pop("TERM", None)
                process = self.spawner.spawn(argv, cwd=self.home, env=env, fds=[*fds, output])
                has_ended = process.wait(self.deadline_s) is not None
                values = _parse(written_to(output))
                process.kill_tree(0)
        except ToolError as exc:
            return self._failure(str(exc))
        files = f"{self.name}'s start-up files"
        if not values:
            reason = "something in them ended it" if has_ended else _TOO_LONG
            return self._failure(f"{files} could not be read: {reason.format(self.deadline_s)}")
        changes = dict(self._changes(values))
        return ShellOutcome(changes, self._describe(changes))

    def _failure(self, text: str) -> ShellOutcome:
        logger.info("the login shell: %s", text)
        return ShellOutcome({}, text, is_complete=False)

    def _changes(self, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for name, value in without_secrets(values).items():
            is_git = name.startswith("GIT_CONFIG_")  # Numbered, so that one alone is wrong.
            if name in _OF_THE_RUN or is_git or _HAS_PASSWORD.search(value):
                continue
            after = merged_path(value, self.own.get("PATH", "")) if name == "PATH" else value
            if after != self.own.get(name):
                yield name, after

    def _describe(self, changes: Mapping[str, str]) -> str:
        if not changes:
            return ""
        names = sorted(changes, key=lambda name: (name != "PATH", name))
        return f"{join_names(names, _N_NAMES)} from {self.name}'s start-up files"

    def _stamps(self) -> Json:
        """Return size and time of each start-up file, by path."""
        folders: dict[Path, tuple[str, ...]] = {
            Path("/etc"): _START_UP_FILES,
            self.home: _USER_START_UP_FILES,
        }
        if zsh_folder := self.own.get("ZDOTDIR"):
            folders[Path(zsh_folder)] = (".z*",)
        stamps: Json = {}
        for folder, patterns in folders.items():
            for file in (file for pattern in patterns for file in folder.glob(pattern)):
                try:
                    status = file.stat()
                except OSError:
                    continue
                stamps[str(file)] = [status.st_size, status.st_mtime_ns]
        return stamps

    def _is_current(self, entry: Json, stamps: Json) -> bool:
        return (
            entry.get("stamps") == stamps
            and 0 <= time.time() - entry["takenAt"] < _MAX_AGE_S
            # Start-up files make new values from old ones, as `PATH=~/tools:$PATH` does.
            and all(self.own.get(name) == before for name, (before, _) in entry["changes"].items())
        )


_TOO_LONG = "they took more than {:g} s"


def _parse(data: bytes) -> dict[str, str]:
    """Return the variables in the output of `env -0`; those in no encoding are left out."""
    values: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, is_entry, value = entry.partition(b"=")
        try:
            values |= {name.decode(): value.decode()} if is_entry else {}
        except UnicodeDecodeError:
            continue
    return values


def merged_path(of_shell: str, own: str) -> str:
    """Return the `PATH` of the shell with the entries of the daemon's own that it lacks.

    Each stays in front of the entry that followed it. Without them, /etc/profile of Debian would
    take away the folder that a container's image has put in front of the system's; the command line
    of dev containers merges for the same reason (`mergePaths` of devcontainers/cli).
    """
    entries = of_shell.split(":")
    position = len(entries)
    for entry in reversed([*filter(None, own.split(":"))]):
        if entry in entries:
            position = entries.index(entry)
        else:
            entries.insert(position, entry)
    return ":".join(entries)
