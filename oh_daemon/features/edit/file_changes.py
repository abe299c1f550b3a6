"""What tools that change files share: what is asked of the user, the choice of hunks, the writing.

A tool turns its arguments into steps, one for each file; either all of them are made or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.language.language import Watch
from oh_daemon.kernel.editor_ports import MAX_LABEL_CHARS
from oh_daemon.kernel.ports import Footprint, Intent, Json, ToolContext, ToolResult
from oh_daemon.protocol.approvals import FileChangeSubject
from oh_daemon.protocol.errors import StaleDocumentError, ToolError
from oh_daemon.protocol.items import FileChange, Location, NamedHunk
from oh_daemon.workspace.arbiter import EditDone
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.excerpts import cap_text
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.hunks import PartialChange, Rewrite, Wanted
from oh_daemon.workspace.joint_edit import change_all
from oh_daemon.workspace.line_diff import TextDiff
from oh_daemon.workspace.patch import Hunks
from oh_daemon.workspace.paths import printable, quoted, uri_from_path
from oh_daemon.workspace.text_changes import Insert, Replace, Undo, diff_of

_MAX_INSERT_SHOWN = 20
_MAX_LINES_NAMED = 10
_MAX_HUNKS = 1_000
"""A change with more hunks is offered as a whole only."""
_LEFT_OUT = "The user left this out of your edit; do not do it again unless asked:"
# Writing direction controls, invisible spaces and tags; the joiner of emoji (U+200D) is allowed.
_HIDDEN = re.compile(
    "[\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


class Move(Struct, frozen=True):
    """A file that gets another name; both steps of it, the new file and the deletion, have this."""

    old: str
    new: str
    text: str
    """Before the move."""


class Step(Struct, frozen=True):
    """What becomes of one file."""

    path: Path
    change: Wanted
    before: str | None
    after: str | None
    diff: TextDiff
    """The lines that change."""
    protected_reason: str | None
    """Why this file is asked about in any case, if it is."""
    move: Move | None = None
    saves_unsaved_text: bool = False
    """Whether it saves what the user has typed in this file."""


class FileChanges:
    """Plans and makes the changes of one tool."""

    def __init__(
        self, documents: Documents, watch: Watch, whole: type | UnionType = Undo | Rewrite
    ) -> None:
        """The user cannot choose hunks of a `whole` change."""
        self._whole_changes = whole
        self._documents = documents
        self._folders = documents.folders
        self._watch = watch

    def step(self, path: str, change: Wanted) -> Step:
        """Plan the change of a file as it is now. Raises what `Documents.plan` raises."""
        real = self._folders.resolve(path, writing=True)
        plan = self._documents.plan(real, change)
        is_protected = self._folders.is_protected(path)
        before, after, saves = plan.before, plan.after, plan.saves_unsaved_text
        return Step(real, change, before, after, plan.diff, is_protected, saves_unsaved_text=saves)

    def names_of(self, steps: Sequence[Step]) -> str:
        n = len(steps)
        return self._folders.name(steps[0].path) if n == 1 else f"{n} files"

    def intent(self, words: str, requested_steps: Sequence[Step], args: Json) -> Intent:
        """Return what the user is asked; once he has chosen hunks, he is not offered them again."""
        steps = self._chosen_steps(requested_steps, args)
        hunks = () if "hunks" in args else tuple(h for step in steps for h in self._hunks(step))
        describe = self._documents.history.describe
        changes = tuple(
            _shown_change(s, describe(s.path, s.before, s.after, s.diff)) for s in steps
        )
        unseen = self._documents.unseen_texts([step.path for step in steps]).values()
        protected_flags = [*(step.protected_reason for step in steps), *unseen]
        doubts = (*protected_flags, *map(_hidden_reason, steps), *map(_saving_reason, steps))
        reasons = tuple(dict.fromkeys(filter(None, doubts)))
        return Intent(
            title=f"{words} {self.names_of(steps)}",
            subject=FileChangeSubject(changes=changes, hunks=hunks if len(hunks) > 1 else None),
            editable=len(hunks) > 1,
            risk="high" if reasons else "medium",
            reasons=reasons,
            footprint=Footprint(writes=True, paths=frozenset(str(step.path) for step in steps)),
            digest_material=(
                *(
                    f"{step.path} {'' if step.before is None else sha256_of(step.before)}"
                    for step in steps
                ),
                *unseen,
            ),
            locations=tuple(Location(uri=change.uri) for change in changes),
            item_fields={"kind": "fileChange", "toolKind": "edit", "changes": changes},
            outside_floor=any(protected_flags),
            texts=tuple(t for s in steps for t in (s.before, s.after) if t is not None),
        )

    def make(
        self, label: str, steps: Sequence[Step], args: Json, context: ToolContext
    ) -> ToolResult:
        """Make those of the changes that the user chose; `label` names them in the editor."""
        by_path = {step.path: step for step in self._chosen_steps(steps, args)}
        label = f"oh: {label}"[:MAX_LABEL_CHARS]
        news = self._watch([*by_path], context.cancel)
        change_by_path = {path: step.change for path, step in by_path.items()}
        result = change_all(self._documents, change_by_path, label=label, cancel=context.cancel)
        changes = tuple(_shown_change(by_path[path], each.change) for path, each in result.items())
        rows = [self._describe_edit(by_path[path], each) for path, each in result.items()]
        notes = (cap_text("\n".join(rows), "this"), _left_out(steps, by_path), news())
        route = next(iter(result.values())).route if len(result) == 1 else None
        return ToolResult.of(
            "\n".join(filter(None, notes)),
            changes=changes,
            route=route,
            undoLabel=label,
        )

    def leaves_out(self, steps: Sequence[Step], args: Json) -> bool:
        """Return whether the user chose only some of the hunks."""
        text_by_path = {step.path: step.after for step in self._chosen_steps(steps, args)}
        return any(text_by_path.get(step.path, step.before) != step.after for step in steps)

    def _chosen_steps(self, steps: Sequence[Step], args: Json) -> list[Step]:
        """Return the steps with only those hunks that the user chose."""
        if "hunks" not in args:
            return list(steps)
        chosen_hunks = [NamedHunk(**hunk) for hunk in args["hunks"]]
        hunks_by_path = {step.path: self._hunks(step) for step in steps}
        if not all(any(hunk in hunks for hunks in hunks_by_path.values()) for hunk in chosen_hunks):
            raise StaleDocumentError("a text changed since the user chose from this edit")
        choice: list[Step] = []
        for step in steps:
            hunks = [hunk for hunk in hunks_by_path[step.path] if hunk in chosen_hunks]
            if hunks == hunks_by_path[step.path]:
                choice.append(step)
            elif hunks and isinstance(step.change, Replace | Insert | Hunks | Rewrite):
                part = PartialChange(step.change, tuple(hunk.hunk for hunk in hunks))
                plan = self._documents.plan(step.path, part)
                choice.append(replace(step, change=part, after=plan.after, diff=plan.diff))
        return choice

    def _describe_edit(self, step: Step, edit: EditDone) -> str:
        change = _shown_change(step, edit.change)
        verb = {"add": "Created", "delete": "Deleted", "modify": "Edited"}[change.op]
        where = (
            _lines_named(step) if isinstance(step.change, Replace | Hunks | PartialChange) else ""
        )
        name = f"{self._folders.name(step.path)}{where}"
        row = f"{verb} {name}: +{change.added} -{change.removed} lines."
        # A line number is easily off by one; the lines around the inserted text reveal that.
        is_short_insert = isinstance(step.change, Insert) and change.added <= _MAX_INSERT_SHOWN
        patch = change.patch if is_short_insert or isinstance(step.change, Undo) else None
        return "\n".join(filter(None, (row, edit.note, patch)))

    def _hunks(self, step: Step) -> list[NamedHunk]:
        """Return the hunks that the user may choose from, if this file can be changed in part."""
        is_removed = step.after is None and isinstance(step.change, Rewrite)
        if step.move is not None or is_removed or isinstance(step.change, self._whole_changes):
            return []
        if len(step.diff.edits) > _MAX_HUNKS:
            return []
        uri = uri_from_path(self._folders.as_opened(step.path))
        return [NamedHunk(**dict(hunk), uri=uri) for hunk in step.diff.hunks]


def _lines_named(step: Step) -> str:
    """Return at which lines of the new text a change is."""
    spans = [
        (hunk.new_start + 1, hunk.new_start + max(hunk.new_lines, 1))
        for hunk in islice(step.diff.hunks, _MAX_LINES_NAMED)
    ]
    ranges = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    more = ", …" if len(step.diff.edits) > len(spans) else ""
    is_one = len(spans) == 1 and spans[0][0] == spans[0][1]
    return f" at line{'' if is_one else 's'} {', '.join(ranges)}{more}"


def checked_text(args: Json, name: str) -> str:
    text: Any = args.get(name)
    if not isinstance(text, str):
        raise ToolError(f"{name} is missing; give the text")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text if char > "\x7f"):
        raise ToolError(f"{name} holds characters that no text file can have (NUL or surrogates)")
    return text


def _hidden_reason(step: Step) -> str | None:
    """Return a reason to look twice before approving: hidden characters that the change adds."""
    new = "" if step.after is None else "".join(edit.text for edit in step.diff.edits)
    before = step.move.text if step.move else step.before
    marks = {mark for mark in _HIDDEN.findall(new) if mark not in (before or "")}
    if not marks:
        return None
    names = ", ".join(f"U+{ord(char):04X}" for char in sorted(marks))
    return f"adds hidden characters ({names}), which can make code read otherwise than it runs"


def _saving_reason(step: Step) -> str | None:
    name = printable(step.path.name)
    return f"also saves your unsaved changes in {quoted(name)}" if step.saves_unsaved_text else None


def _shown_change(step: Step, change: FileChange) -> FileChange:
    """For a moved file, reduce the patch to what differs, in git's form."""
    if step.move is None:
        return change
    head = f"rename from {step.move.old}\nrename to {step.move.new}\n"
    if step.after is None:
        return change.model_copy(update={"patch": head, "removed": 0})
    diff = diff_of(step.move.text, step.after)
    patch = head + diff.patch(step.move.new)
    return change.model_copy(update={"patch": patch, "added": diff.added, "removed": diff.removed})


def _left_out(requested_steps: Sequence[Step], applied_steps: Mapping[Path, Step]) -> str | None:
    """Return what to tell the model about hunks that the user left out."""
    patches: list[str] = []
    for step in requested_steps:
        after = applied_steps[step.path].after if step.path in applied_steps else step.before
        if (after or "") != (step.after or ""):
            patches.append(diff_of(after, step.after).patch(step.path.name))
    return "\n".join((_LEFT_OUT, *patches)) if any(patches) else None
