"""What a trusted folder runs by itself, as found on the disk: hooks, and what skills start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from oh_daemon.common.plain_text import clip_line
from oh_daemon.features.project_programs.question import ProjectPrograms, permission
from oh_daemon.features.settings.sources import project_hooks
from oh_daemon.features.skills.files import find_skills
from oh_daemon.features.trust.trust import (
    ProgramIdentity,
    TrustBook,
    command_identity,
    hook_identity,
    server_identity,
)
from oh_daemon.kernel.state import DecisionMade
from oh_daemon.protocol.approvals import ProjectProgram, TrustSubject
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

MAX_ASKED = 100
"""How many are asked about at once; the others are asked about next."""
_MAX_CHARS = 1_000


def runs_in(folder: Path, *, is_sandboxed: bool) -> tuple[ProjectProgram, ...]:
    """Return what the folder would run by itself if it were trusted, each once. Reads the disk.

    `is_sandboxed` is whether it would run in a sandbox.
    """
    runs: dict[str, ProjectProgram] = {}
    hooks, skills = _hooks_in(folder, is_sandboxed), _skills_in(folder, is_sandboxed)
    for run in (*hooks, *skills):
        runs.setdefault(run.sha256, run)
    return tuple(runs.values())


def _hooks_in(folder: Path, is_sandboxed: bool) -> Iterator[ProjectProgram]:
    for file, table in project_hooks(folder):
        for group in (group for groups in table.values() for group in groups):
            for command in (hook.command for hook in group.hooks):
                identity = hook_identity(command, folder, is_sandboxed=is_sandboxed)
                yield _run("hook", command, file, identity)


def _skills_in(folder: Path, is_sandboxed: bool) -> Iterator[ProjectProgram]:
    for skill in find_skills([folder], None, lambda _folder: True):
        for command in skill.commands:
            identity = command_identity(command, folder, is_sandboxed=is_sandboxed)
            yield _run("skillCommand", command, skill.path, identity)
        for name, server in skill.servers.items():
            line = " ".join([server.command or server.url or "", *server.args])
            identity = server_identity(name, server, folder, is_sandboxed=is_sandboxed)
            yield _run("server", line, skill.path, identity)


def _run(
    kind: Literal["hook", "skillCommand", "server"],
    command: str,
    file: Path,
    identity: ProgramIdentity,
) -> ProjectProgram:
    return ProjectProgram(
        kind=kind,
        command=clip_line(command, _MAX_CHARS),
        uri=uri_from_path(file),
        sha256=identity.sha256,
        runs_other_files=identity.runs_other_files or None,
    )


def subject_of(
    folder: Path, runs: Sequence[ProjectProgram], *, is_trusted: bool | None = None
) -> TrustSubject:
    subjects = tuple(runs[:MAX_ASKED]) or None
    return TrustSubject(folder=uri_from_path(folder), runs=subjects, is_trusted=is_trusted)


def hashes(subject: TrustSubject) -> list[str]:
    return [run.sha256 for run in subject.runs or ()]


def project_programs_in(
    folders: Sequence[Path],
    trust: Callable[[], TrustBook],
    notify: Callable[[NoticeItem], object],
    *,
    are_sandboxed: bool,
) -> ProjectPrograms:
    """Return what the core asks with; `notify` shows what counts as decided by trust alone."""

    def list_undecided() -> list[TrustSubject]:
        trusted_folders = (folder for folder in folders if trust().of(folder) == "full")
        return [
            subject
            for folder in trusted_folders
            for subject in _undecided_subjects(
                folder, runs_in(folder, is_sandboxed=are_sandboxed), trust(), notify
            )
        ]

    def decide(subject: TrustSubject, decision: DecisionMade) -> None:
        if (folder := path_from_uri(subject.folder)) is not None:
            is_allowed = decision.effect == "allow"
            for_now = is_allowed and decision.scope not in {"folder", "user"}
            trust().decide_runs(folder, hashes(subject), may_run=is_allowed, for_now=for_now)

    return ProjectPrograms(list_undecided, decide)


def _undecided_subjects(
    folder: Path,
    runs: Sequence[ProjectProgram],
    trust: TrustBook,
    notify: Callable[[NoticeItem], object],
) -> Iterator[TrustSubject]:
    """Yield what is to be asked. What is there when trusted work begins counts as decided.

    The editor, the command line or an earlier version asked for trust without a list then. That
    covers no program that the agent could change unseen, so these are asked about by themselves.
    """
    bound = [run for run in runs if not run.runs_other_files]
    decisions = trust.runs(folder)
    if decisions is None:
        decisions = {run.sha256: True for run in bound}
        trust.decide_runs(folder, decisions, may_run=True, for_now=False)
        if bound:
            notify(permission(subject_of(folder, bound)))
    for group in (bound, [run for run in runs if run.runs_other_files]):
        if new := [run for run in group if run.sha256 not in decisions]:
            yield subject_of(folder, new, is_trusted=True)
