"""Decisions about an agent's rights in a folder, and about the programs of a trusted folder.

The strictest known verdict of user and editor wins; a folder is read-only until it has one. A hook,
a skill's command or server has an identity, over all of it and the files that it names and runs;
only what the user's decision covers runs, and whoever starts one of them asks `may_run` first.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import NamedTuple

from oh_daemon.features.risk.binding import Binding, bind
from oh_daemon.features.risk.rating import rate_command
from oh_daemon.protocol.daemon_messages import FolderTrust, Trust
from oh_daemon.protocol.errors import ReadOnlyError
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.protocol.problems import Problem
from oh_daemon.storage.user_state import UserState
from oh_daemon.system.environment import project_variables
from oh_daemon.workspace.path_classes import Disk
from oh_daemon.workspace.paths import ProgramFinder, in_bare_repository
from oh_daemon.workspace.repository import up_to_repository


class TrustBook:
    """Trust by folder. Thread-safe. Decisions made `for_now` end with the process."""

    def __init__(
        self,
        user_state: UserState | None = None,
        *,
        trust_by_folder: Mapping[Path, bool] | None = None,
    ) -> None:
        """`trusted` is the verdict of the editor, or of the command line, by folder."""
        self._user_state = user_state
        self._lock = threading.Lock()
        self.verdicts: Mapping[str, bool] = by_real_path(trust_by_folder or {})
        """The editor's or command line's verdicts, by real path."""
        self._for_now: dict[str, Trust] = {}
        self._runs: dict[str, dict[str, bool]] = {}

    @property
    def problem(self) -> Problem | None:
        """The problem of the file with the user's decisions, if it has one."""
        return self._user_state.problem if self._user_state is not None else None

    def with_verdicts(self, verdicts: Mapping[str, bool]) -> TrustBook:
        """Return the same user's book for another client, with its verdicts by real path."""
        book = copy(self)
        book.verdicts = verdicts
        return book

    def of(self, folder: Path) -> Trust:
        real = _real(folder)
        # Without the lock: with a hundred turns at work, all others would wait for each read.
        user_verdict = self.verdicts.get(real)
        verdict = self._for_now.get(real)
        if verdict is None and self._user_state is not None:
            verdict = self._user_state.trust(real)
        if user_verdict is False:
            return "none" if verdict == "none" else "readOnly"
        return verdict or ("full" if user_verdict else "readOnly")

    def may_ask(self, folder: Path) -> bool:
        """Whether the user may be asked for trust: not if the editor itself withholds it."""
        return self.verdicts.get(_real(folder)) is not False

    def decide(self, folder: Path, trust: Trust, *, for_now: bool = False) -> None:
        """Record a decision, in place of all earlier ones about this folder and what it runs.

        Raises `ReadOnlyError` when a lasting one cannot be stored.
        """
        real = _real(folder)
        with self._lock:
            self._for_now[real] = trust
            self._runs.pop(real, None)
        if not for_now and self._user_state is not None:
            self._user_state.forget_runs(real)
            self._user_state.set_trust(real, trust)

    def runs(self, folder: Path) -> Mapping[str, bool] | None:
        """Return, by hash, what may run by itself in a folder; None if that was never decided."""
        real = _real(folder)
        with self._lock:
            now = self._runs.get(real)
        stored_runs = self._user_state.runs(real) if self._user_state is not None else None
        return (
            None if now is None and stored_runs is None else {**(stored_runs or {}), **(now or {})}
        )

    def decide_runs(
        self, folder: Path, hashes: Iterable[str], *, may_run: bool, for_now: bool
    ) -> None:
        """Record whether these may run; only until the process ends, if it cannot be stored."""
        real, verdicts = _real(folder), dict.fromkeys(hashes, may_run)
        with self._lock:
            self._runs[real] = {**self._runs.get(real, {}), **verdicts}
        if not for_now and self._user_state is not None:
            with suppress(ReadOnlyError):
                self._user_state.add_runs(real, verdicts)

    def folder_trusts(self) -> tuple[FolderTrust, ...]:
        with self._lock:
            stored_folders = (
                self._user_state.trusted_folders() if self._user_state is not None else ()
            )
            folders = {*stored_folders, *self.verdicts, *self._for_now}
        return tuple(FolderTrust(folder=f, trusted=self.of(Path(f))) for f in sorted(folders))


def by_real_path(verdicts: Mapping[Path, bool]) -> dict[str, bool]:
    return {_real(path): verdict for path, verdict in verdicts.items()}


def _real(folder: Path) -> str:
    # As text, since each step asks many times.
    return os.path.realpath(folder)


class ProgramIdentity(NamedTuple):
    """A program that the user decides about, with the content of the files that it runs."""

    sha256: str
    runs_other_files: bool
    """Whether it may run files that it does not name, where nothing holds it.

    Such a program is the same in the sandbox whatever it runs, and another one outside."""


def hook_identity(command: str, folder: Path, *, is_sandboxed: bool) -> ProgramIdentity:
    binding = _bind(command, folder, project_variables(folder))
    return _identity("hook", [command], binding, is_sandboxed)


def command_identity(command: str, folder: Path, *, is_sandboxed: bool) -> ProgramIdentity:
    return _identity("skillCommand", [command], _bind(command, folder), is_sandboxed)


def server_identity(
    name: str, server: McpServerSettings, folder: Path, *, is_sandboxed: bool
) -> ProgramIdentity:
    variables = (f"{key}={value}" for key, value in server.env.items())
    line = shlex.join(["env", *variables, server.command, *server.args]) if server.command else ":"
    binding = _bind(line, folder)
    # Only the start of the server replaces `${NAME}`.
    binding = binding._replace(is_whole=binding.is_whole and "${" not in line)
    return _identity("server", [name, server.model_dump_json()], binding, is_sandboxed)


def _bind(command: str, folder: Path, variables: Mapping[str, str] | None = None) -> Binding:
    top = up_to_repository(folder)[-1]
    find_program = ProgramFinder((top, folder), os.environ.get("PATH", os.defpath))
    disk = Disk(in_bare_repository, is_file=os.path.isfile, find_program=find_program)
    return bind(rate_command(command, [top], folder, disk, variables or {}))


def _identity(
    kind: str, parts: Sequence[str], binding: Binding, is_sandboxed: bool
) -> ProgramIdentity:
    files = [[file.uri, file.sha256] for file in binding.files]
    bound_to = files if binding.is_whole else ("sandbox" if is_sandboxed else "anything")
    sha256 = hashlib.sha256(json.dumps([kind, parts, bound_to]).encode()).hexdigest()
    return ProgramIdentity(sha256, not (binding.is_whole or is_sandboxed))


def may_run(trust: TrustBook, folder: Path, program: ProgramIdentity) -> bool | None:
    """Return what the user decided about a program, None if nothing yet."""
    return (trust.runs(folder) or {}).get(program.sha256)
