"""What a trusted folder runs by itself, as found on the disk: hooks, and what skills start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from oh_daemon.common.plain_text import clip_line
from oh_daemon.features.project_programs.question import ProjectPrograms, permission
from oh_daemon.features.settings.sources import project_hooks
from oh_daemon.features.skills.files import find_skills
from oh_daemon.features.trust.trust import TrustBook, command_hash, hook_hash, server_hash
from oh_daemon.kernel.state import DecisionMade
from oh_daemon.protocol.approvals import ProjectProgram, TrustSubject
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

MAX_ASKED = 100
"""How many are asked about at once; the others are asked about next."""
_MAX_CHARS = 1_000


def runs_in(folder: Path) -> tuple[ProjectProgram, ...]:
    """Return what the folder would run by itself if it were trusted, each once. Reads the disk."""
    runs: dict[str, ProjectProgram] = {}
    for run in (*_hooks_in(folder), *_skills_in(folder)):
        runs.setdefault(run.sha256, run)
    return tuple(runs.values())


def _hooks_in(folder: Path) -> Iterator[ProjectProgram]:
    for file, table in project_hooks(folder):
        for group in (group for groups in table.values() for group in groups):
            for command in (hook.command for hook in group.hooks):
                yield _run("hook", command, file, hook_hash(command, folder))


def _skills_in(folder: Path) -> Iterator[ProjectProgram]:
    for skill in find_skills([folder], None, lambda _folder: True):
        for command in skill.commands:
            yield _run("skillCommand", command, skill.path, command_hash(command, folder))
        for name, server in skill.servers.items():
            line = " ".join([server.command or server.url or "", *server.args])
            yield _run("server", line, skill.path, server_hash(name, server, folder))


def _run(
    kind: Literal["hook", "skillCommand", "server"], command: str, file: Path, sha256: str
) -> ProjectProgram:
    uri = uri_from_path(file)
    return ProjectProgram(kind=kind, command=clip_line(command, _MAX_CHARS), uri=uri, sha256=sha256)


def subject_of(
    folder: Path, runs: Sequence[ProjectProgram], *, is_trusted: bool | None = None
) -> TrustSubject:
    subjects = tuple(runs[:MAX_ASKED]) or None
    return TrustSubject(folder=uri_from_path(folder), runs=subjects, is_trusted=is_trusted)


def hashes(subject: TrustSubject) -> list[str]:
    return [run.sha256 for run in subject.runs or ()]


def project_programs_in(
    folders: Sequence[Path], trust: Callable[[], TrustBook], notify: Callable[[NoticeItem], object]
) -> ProjectPrograms:
    """Return what the core asks with; `tell` shows what counts as decided by trust alone."""

    def list_undecided() -> list[TrustSubject]:
        trusted_folders = (folder for folder in folders if trust().of(folder) == "full")
        return [
            subject
            for folder in trusted_folders
            if (subject := _undecided_subjects(folder, trust(), notify))
        ]

    def decide(subject: TrustSubject, decision: DecisionMade) -> None:
        if (folder := path_from_uri(subject.folder)) is not None:
            is_allowed = decision.effect == "allow"
            for_now = is_allowed and decision.scope not in {"folder", "user"}
            trust().decide_runs(folder, hashes(subject), may_run=is_allowed, for_now=for_now)

    return ProjectPrograms(list_undecided, decide)


def _undecided_subjects(
    folder: Path, trust: TrustBook, notify: Callable[[NoticeItem], object]
) -> TrustSubject | None:
    """Return what is to be asked. What is there when trusted work begins counts as decided.

    The editor, the command line or an earlier version asked for trust without a list then.
    """
    runs, decisions = runs_in(folder), trust.runs(folder)
    if decisions is None:
        trust.decide_runs(folder, [run.sha256 for run in runs], may_run=True, for_now=False)
        if runs:
            notify(permission(subject_of(folder, runs)))
        return None
    new = [run for run in runs if run.sha256 not in decisions]
    return subject_of(folder, new, is_trusted=True) if new else None
