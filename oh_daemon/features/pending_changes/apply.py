"""Asks for, applies and reports the planned changes of one command; see `pending_changes`.

Texts are applied as edits are, all of them or none: in open buffers, with undo, and merged with
what the user has typed since. Other files follow one by one, and commits once all files are there.
The model does not see this tool.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import Cancelled
from oh_daemon.common.plain_text import first_line
from oh_daemon.features.edit.file_changes import FileChanges
from oh_daemon.features.language.language import Watch
from oh_daemon.features.pending_changes.apply_git import apply_git
from oh_daemon.features.pending_changes.apply_plan import (
    LOCK_FILES,
    ApplyPlan,
    Planner,
    Row,
    units,
)
from oh_daemon.features.pending_changes.shared_overlay import CommandStart
from oh_daemon.kernel.pending_changes import TOOL, ended_with, unapplied_text
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import FileChangeSubject
from oh_daemon.protocol.checkpoints import RepositoryChanges
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import FileChange, GitChange, Location, Risk
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.hunks import Wanted
from oh_daemon.workspace.paths import path_from_uri, real_path
from oh_daemon.workspace.raw_files import RawFiles, reverse
from oh_daemon.workspace.text_changes import Undo

MAX_SHOWN = 200
"""Above this number of files only their names are shown, and none can be left out."""

_MAX_TITLES = 2
_UNSIGNED = "new commits are not signed, although commit.gpgsign is set"
_SHORT = 8
_NEXT = "In git, all is as before the command: look at `git status`, then do it again."


class ApplyResult(Struct, frozen=True):
    """What came of a landing."""

    changes: Sequence[FileChange]
    left_out: dict[str, str]
    """What is as it was, by its name in the folders, with the reason."""
    rows: Sequence[str]
    """The same of what has landed, for the model."""


class ApplyTool:
    """Implements `kernel.ports.Tool` for the changes of one command."""

    spec = ToolSpec(TOOL, "Applies the changes of a command.", {"type": "object"}, kind="edit")

    def __init__(
        self,
        documents: Documents,
        watch: Watch,
        planned_changes: plain.ChangesPlanned,
        host: Spawner | None,
        *,
        asks: bool,
        start: CommandStart | None = None,
    ) -> None:
        """If nobody is asked, protected files are left out and named.

        `host` runs git outside the sandbox; without it, only files are applied. `start` is told
        the time of the last change.
        """
        self._documents = documents
        self._folders = documents.folders
        self._raw = RawFiles(documents)
        is_small = len(planned_changes["changes"]) <= MAX_SHOWN
        self._changes = FileChanges(documents, watch, whole=Undo if is_small else Wanted)
        self._planned_changes = planned_changes
        self._host = host
        self._git = [model_of(RepositoryChanges, each) for each in planned_changes.get("git", ())]
        self._asks = asks
        self._start = start
        self._signed_names: Mapping[str, str] = {}

    def plan(self, args: Json) -> Intent:
        plan = self._plan
        intent = self._changes.intent("Keep changes to", plan.steps, args)
        shown_ones = intent.subject.changes if isinstance(intent.subject, FileChangeSubject) else ()
        others = (*plan.raw, *((path, change) for path, change, _ in plan.appends))
        changes = (*shown_ones, *(change for _, change in others))
        is_small = len(changes) <= MAX_SHOWN
        hunks = intent.subject.hunks if isinstance(intent.subject, FileChangeSubject) else None
        git = () if self._why_no_git(plan, args) else self._git_changes
        protected_names = plan.protected or [
            *(_in_commit(name) for name in self.protected_names if git),
            *(self.unsigned_reasons if git else ()),
        ]
        reasons = tuple(dict.fromkeys((*protected_names, *intent.reasons)))
        # A new folder without a file in it is nothing to ask about.
        is_little = not git and all(each.raw == "folder" and each.op == "add" for each in changes)
        risk: Risk = "high" if reasons else "low" if is_little else "medium"
        return replace(
            intent,
            title=f"Keep {self._titled(changes, git)}",
            subject=FileChangeSubject(
                changes=_without_texts(changes),
                hunks=hunks if is_small else None,
                origin="command",
                git=git or None,
            ),
            editable=intent.editable and is_small,
            risk=risk,
            reasons=reasons,
            digest_material=(
                *intent.digest_material,
                *(str(path) for path, _ in others),
                *plan.protected,
                *(f"{each.pack} {each.index}" for each in self._git),
            ),
            locations=tuple(Location(uri=change.uri) for change in changes[:MAX_SHOWN]),
            item_fields={},
            outside_floor=bool(protected_names),
            clashes=plan.clashes,
            footprint=Footprint(
                writes=bool(changes or git),
                paths=frozenset(
                    (*map(str, plan.paths), *(each.git_dir for each in self._git if git))
                ),
            ),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        try:
            return self._run(args, context)
        finally:
            if self._start is not None:
                self._start.applied_ns = time.time_ns()

    def _run(self, args: Json, context: ToolContext) -> ToolResult:
        plan = self._plan
        why_no_git = self._why_no_git(plan, args)
        for path in {path.parent: path for path, _ in plan.in_place}.values():
            self._documents.files.sweep(path)  # A kill may have left a file that was being written.
        try:
            result = self.apply(args, context)
        except (ToolError, Cancelled) as exc:
            changes = [change for _, change in plan.in_place]
            return unapplied_text(self._planned_changes, f"{exc or 'Interrupted.'}", changes)
        omissions = [f"Left as it was: {name}: {why}." for name, why in result.left_out.items()]
        git, note = self._apply_result_of_git(why_no_git or _which(result.left_out))
        rows = _report_text(result.rows, omissions)
        note = "\n".join(filter(None, (rows, *note, *self._planned_changes.get("notes", ()))))
        return ended_with(self._planned_changes, note, _without_texts(result.changes), git)

    def apply(self, args: Json, context: ToolContext) -> ApplyResult:
        """Make the changes. Raises `ToolError` and `Cancelled`, with nothing changed."""
        plan = self._plan
        result = self._changes.make("command", plan.steps, args, context)
        raw, failures = self._made_raw(plan)
        all_changes = [*plan.in_place, *raw]
        rows = [part["text"] for part in result.content if part["text"]]
        if len(plan.steps) > MAX_SHOWN:
            rows = "\n".join(rows).splitlines()
        rows += [_row(change, self._folders.name(path)) for path, change in all_changes]
        changes = [*result.item_fields.get("changes", ()), *(change for _, change in all_changes)]
        return ApplyResult(changes, {**plan.left_out, **failures}, rows)

    def _why_no_git(self, plan: ApplyPlan, args: Json) -> str | None:
        """Return why commits must not land: some of the files will not be as they are there."""
        if self._changes.leaves_out(plan.steps, args):
            return "the user left out some of the changes."
        if plan.left_out:
            return _which(plan.left_out)
        if self.protected_names and not self._asks:
            return f"{_in_commit(self.protected_names[0])}; only the user can commit it."
        if self.unsigned_reasons and not self._asks:
            return f"{self.unsigned_reasons[0]}; only the user can allow that."
        return None

    @property
    def unsigned_reasons(self) -> Sequence[str]:
        """Reasons for approval in every mode: commits would have no signature."""
        problems = [each.signing.problem for each in self._git if each.signing]
        reasons = [f"the commits cannot be signed here: {why}" for why in problems if why]
        is_unsigned = any(each.unsigned for each in self._git)
        return [*reasons, *([_UNSIGNED] if is_unsigned else [])]

    @property
    def protected_names(self) -> Sequence[str]:
        """Names in commits that are asked about in every mode."""
        names = (name for each in self._git for name in each.protected_names)
        return [name for name in names if PurePath(name).name.casefold() not in LOCK_FILES]

    @property
    def _git_changes(self) -> tuple[GitChange, ...]:
        return tuple(text for each in self._git for text in each.summary)

    def _apply_result_of_git(self, why_not: str | None) -> tuple[tuple[GitChange, ...], list[str]]:
        """Bring commits and what is staged onto the disk; return what landed and what is told."""
        if not self._git:
            return (), []
        why_not = why_not or self.apply_git()
        titles = [change.title for change in self._git_changes]
        if why_not is None:
            names, changes = self._signed_names, self._git_changes
            notes = [f"Kept: {title}." for title in titles]
            notes += [
                f"Signed: {before[:_SHORT]} is {after[:_SHORT]} now."
                for before, after in names.items()
                if any(each.after == before for each in changes)
            ]
            return tuple(_with_names(each, names) for each in changes), ["[git]", *notes]
        return (), [f"[git] Not kept: {'; '.join(titles)}: {why_not} {_NEXT}"]

    def apply_git(self) -> str | None:
        """Bring commits and what is staged onto the disk; return why not, if something is amiss."""
        if self._host is None:
            return "what git keeps is not applied from here."
        try:
            blobs = self._documents.history.blobs
            self._signed_names = apply_git(self._host, blobs.read_blob, self._git)
        except ToolError as exc:
            return f"{exc}. {self._where_commits_are()}"
        return None

    def _where_commits_are(self) -> str:
        moves = [move for each in self._git for move in each.refs if each.pack]
        commits = dict.fromkeys(
            m.after for m in moves if m.after and not m.after.startswith("refs/")
        )
        return f"The objects are there: {', '.join(commits)} can be cherry-picked." * bool(commits)

    @cached_property
    def _plan(self) -> ApplyPlan:
        changes = [model_of(FileChange, each) for each in self._planned_changes["changes"]]
        omitted = self._planned_changes.get("omitted", {})
        return Planner(self._documents, asks=self._asks).plan(changes, omitted)

    def _made_raw(self, plan: ApplyPlan) -> tuple[list[Row], dict[str, str]]:
        acts = [(path, partial(self._raw.set_mode, path, mode)) for path, mode in plan.modes]
        acts += [(path, partial(self._raw.append, path, data)) for path, _, data in plan.appends]
        failures: dict[Path, str] = {}
        for path, act in acts:
            try:
                act()
            except (ToolError, OSError) as exc:
                failures[path] = first_line(str(exc))
        # What is deeper goes first, so that a folder is empty when it is removed.
        sorted_rows = sorted(plan.raw, key=_order)
        for unit in units(sorted_rows):
            failures |= self._make_unit(unit)
        rows = [*((path, change) for path, change, _ in plan.appends), *sorted_rows]
        names = {self._folders.name(path): why for path, why in failures.items()}
        return [row for row in rows if row[0] not in failures], names

    def _make_unit(self, unit: Sequence[Row]) -> dict[Path, str]:
        """Make all of these changes or none; return why not, for each file."""
        applied: list[Row] = []
        try:
            for path, change in unit:
                self._raw.make(path, change)
                applied.append((path, change))
        except (ToolError, OSError) as exc:
            for path, change in reversed(applied):
                with suppress(ToolError, OSError):  # The first error is reported.
                    self._raw.make(path, reverse(change))
            return dict.fromkeys((path for path, _ in unit), first_line(str(exc)))
        return {}

    def _titled(self, changes: Sequence[FileChange], git: Sequence[GitChange]) -> str:
        titles = [change.title for change in git[:_MAX_TITLES]]
        if len(git) > _MAX_TITLES:
            titles.append(f"{len(git) - _MAX_TITLES} more in git")
        if not titles:
            return f"changes to {self._names_of(changes)}"
        titles += [f"and {self._names_of(changes)}"] if changes else []
        return ", ".join(titles)

    def _names_of(self, changes: Sequence[FileChange]) -> str:
        if len(changes) != 1:
            return f"{len(changes)} files"
        path = path_from_uri(changes[0].uri)
        return self._folders.name(real_path(path.parent) / path.name) if path else "1 file"


def _in_commit(name: str) -> str:
    return f"{name} in a commit steers a build, an editor or an agent, or may be secret"


def _with_names(change: GitChange, names: Mapping[str, str]) -> GitChange:
    return change.model_copy(update={"after": names.get(change.after or "", change.after)})


def _which(left_out: Mapping[str, str]) -> str | None:
    if not left_out:
        return None
    name = next(iter(left_out))
    more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
    return f"{name}{more} is not applied."


def _without_texts(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Return the changes, of many only the names: nobody reads that many patches."""
    if len(changes) <= MAX_SHOWN:
        return tuple(changes)
    return tuple(change.model_copy(update={"patch": None}) for change in changes)


def _order(row: tuple[Path, FileChange]) -> tuple[bool, int]:
    path, change = row
    depth = len(path.parts)
    return (change.op != "delete", -depth if change.op == "delete" else depth)


def _row(change: FileChange, name: str) -> str:
    verb = {"add": "Created", "delete": "Deleted", "modify": "Changed"}[change.op]
    what = {"bytes": "", "link": " (a link)", "folder": " (a folder)"}[change.raw or "bytes"]
    mode = change.mode_after
    is_mode = change.sha256_before == change.sha256_after and mode is not None
    return f"{verb} {name}{what}{f', mode {mode:o}' if is_mode and mode else ''}."


def _report_text(rows: Sequence[str], omissions: Sequence[str]) -> str:
    """Return the report on files: of many changes the first, of omissions all."""
    lines = [*_cut_rows(rows), *omissions]
    return "\n".join(("[changed files]", *lines)) if lines else ""


def _cut_rows(rows: Sequence[str], limit: int = 40) -> Iterator[str]:
    yield from rows[:limit]
    if len(rows) > limit:
        yield f"… and {len(rows) - limit} more"
