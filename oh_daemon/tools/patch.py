"""The tool `apply_patch`: changes of several files in the form that some models were trained on.

It turns the sections of a patch into changes of texts; `workspace/documents` does the work. A patch
is applied as a whole or not at all; the error for a section that does not fit shows what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oh_daemon.contract.approvals import FileChangeSubject
from oh_daemon.contract.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.contract.items import FileChange, Location, NamedHunk
from oh_daemon.core.ports import Footprint, Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.edit import LEFT_OUT, MAX_LABEL_CHARS, checked_text, hidden_reason
from oh_daemon.tools.forms import takes
from oh_daemon.tools.language import Watch, unwatched
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.joint_edit import change_all
from oh_daemon.workspace.patch import Hunks, Section, parse_patch
from oh_daemon.workspace.paths import shown, uri_from_path
from oh_daemon.workspace.review import Part, Wanted, hunks_of
from oh_daemon.workspace.text_changes import (
    Create,
    Remove,
    applied,
    located,
    unified,
    with_newlines,
)

NAME = "apply_patch"
_MAX_FILES = 100
PROMPT_SECTION = """\
# Changing files
Change files with `apply_patch`; here `edit` only shows them and takes back what was changed."""

_DESCRIPTION = """Change text files by a patch; text that the user has not saved counts. View a \
file before you change, move or delete it. All of the patch is applied or nothing.
*** Begin Patch
*** Add File: docs/new.md
+each line of the new file begins with a plus
*** Update File: src/app.py
*** Move to: src/main.py
@@ class App:
@@     def run(self):
     lines around the change, as they are, each after a blank
-    line that goes
+    line that comes
*** Delete File: old.py
*** End Patch
`Move to` is optional. Each hunk begins with `@@`; a line of the file after it, or several, says \
below which the hunk is, when its own lines are in the file more than once. Three lines around a \
change will do. Lines are found word for word, white space included. `*** End of File` after a \
hunk says that it ends the file. Paths are relative to the first folder, or absolute."""

_SCHEMA = takes(["input"], input={"type": "string", "description": "the whole patch"})


@dataclass(frozen=True, slots=True)
class _Step:
    """What becomes of one file; `moved` is its old name, its new name and its text before."""

    path: Path
    change: Wanted
    before: str | None
    after: str | None
    is_protected: str | None
    moved: tuple[str, str, str] | None = None


class PatchTool:
    """Implements `core.ports.Tool`."""

    spec = ToolSpec(NAME, _DESCRIPTION, _SCHEMA, kind="edit", counts_as="edit")

    def __init__(self, documents: Documents, watch: Watch = unwatched) -> None:
        self._documents = documents
        self._folders = documents.folders
        self._watch = watch

    def plan(self, args: Json) -> Intent:
        steps = self._taken(self._steps(args), args)
        hunks = () if "hunks" in args else tuple(h for step in steps for h in self._hunks(step))
        describe = self._documents.history.describe
        changes = tuple(_shown(s, describe(s.path, s.before, s.after)) for s in steps)
        protected = [step.is_protected for step in steps]
        hidden = [hidden_reason(s.moved[2] if s.moved else s.before, s.after) for s in steps]
        reasons = tuple(dict.fromkeys(filter(None, (*protected, *hidden))))
        return Intent(
            title=f"Patch {self._named(steps)}",
            subject=FileChangeSubject(changes=changes, hunks=hunks if len(hunks) > 1 else None),
            editable=len(hunks) > 1,
            risk="high" if reasons else "medium",
            reasons=reasons,
            footprint=Footprint(writes=True, paths=frozenset(str(step.path) for step in steps)),
            digest_material=tuple(
                f"{step.path} {'' if step.before is None else sha256_of(step.before)}"
                for step in steps
            ),
            locations=tuple(Location(uri=change.uri) for change in changes),
            item_fields={"kind": "fileChange", "tool_kind": "edit", "changes": changes},
            outside_floor=any(protected),
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        asked = self._steps(args)
        steps = {step.path: step for step in self._taken(asked, args)}
        label = f"oh: patch {self._named([*steps.values()])}"[:MAX_LABEL_CHARS]
        news = self._watch([*steps], context.cancel)
        wanted = {path: step.change for path, step in steps.items()}
        done = change_all(self._documents, wanted, label=label, cancel=context.cancel)
        changes = [_shown(steps[path], each.change) for path, each in done.items()]
        rows = [
            " ".join(filter(None, (self._told(path, change), done[path].note)))
            for path, change in zip(done, changes, strict=True)
        ]
        return ToolResult.of(
            "\n".join(filter(None, (*rows, _left_out(asked, steps), news()))),
            changes=tuple(changes),
            undo_label=label,
        )

    def _told(self, path: Path, change: FileChange) -> str:
        verb = {"add": "Created", "delete": "Deleted", "modify": "Edited"}[change.op]
        return f"{verb} {self._folders.name(path)}: +{change.added} -{change.removed} lines."

    def _named(self, steps: Sequence[_Step]) -> str:
        n = len(steps)
        return self._folders.name(steps[0].path) if n == 1 else f"{n} files"

    def _steps(self, args: Json) -> list[_Step]:
        """Return the steps, deletions last. Raises `ToolError` that lists all that does not fit."""
        steps: list[_Step] = []
        problems: list[ToolError] = []
        for section in parse_patch(checked_text(args, "input")):
            try:
                steps += self._planned(section)
            except ToolError as exc:
                told = ToolError(f"{shown(section.path)}: {exc.message}")
                told.on_shown = exc.on_shown
                problems.append(told)
        for path, n in Counter(step.path for step in steps).items():
            if n > 1:
                name = self._folders.name(path)
                problems.append(ToolError(f"{name}: it is named {n} times; name each file once"))
        if problems:
            raise _joined(problems)
        if len(steps) > _MAX_FILES:
            raise ToolError(f"the patch changes {len(steps)} files, and {_MAX_FILES} may")
        return sorted(steps, key=lambda step: isinstance(step.change, Remove))

    def _taken(self, steps: Sequence[_Step], args: Json) -> list[_Step]:
        """Return the steps with only those hunks that the user chose."""
        if "hunks" not in args:
            return list(steps)
        chosen = [NamedHunk.model_validate(hunk) for hunk in args["hunks"]]
        offered = {step.path: self._hunks(step) for step in steps}
        if not all(any(hunk in hunks for hunks in offered.values()) for hunk in chosen):
            raise StaleDocumentError("a text changed since the user chose from this patch")
        taken: list[_Step] = []
        for step in steps:
            hunks = [hunk for hunk in offered[step.path] if hunk in chosen]
            if hunks == offered[step.path]:
                taken.append(step)
            elif hunks and isinstance(step.change, Hunks):
                part = Part(step.change, tuple(hunk.hunk for hunk in hunks))
                after = self._documents.plan(step.path, part).after
                taken.append(replace(step, change=part, after=after))
        return taken

    def _hunks(self, step: _Step) -> list[NamedHunk]:
        """Return the hunks that the user may choose from; none if a file moves or is empty."""
        if step.moved is not None:
            return []
        uri = uri_from_path(self._folders.as_opened(step.path))
        found = hunks_of(*(with_newlines(text or "") for text in (step.before, step.after)))
        return [NamedHunk.model_validate({**hunk.model_dump(), "uri": uri}) for hunk in found]

    def _planned(self, section: Section) -> list[_Step]:
        if section.op == "Add":
            return [self._step(section.path, Create(section.text))]
        if section.op == "Update" and section.move_to is None:
            step = self._step(section.path, section.hunks)
            if step.before == step.after:
                raise ToolError("nothing would change")
            return [step]
        return self._taken_away(section)

    def _taken_away(self, section: Section) -> list[_Step]:
        """Plan a deletion, or a move, which creates the new file in the form of the old one."""
        if self._folders.is_link(section.path):
            raise EditRejectedError("it is a link; use rm or mv in the terminal")
        look = self._documents.look(self._folders.resolve(section.path, writing=True))
        text = look.file.text if look.file else look.text or ""
        removal = self._step(section.path, Remove(text))
        if section.move_to is None or look.file is None:
            return [removal]
        after = applied(text, located(text, section.hunks.edits))
        made = self._step(section.move_to, Create(after, look.file.form))
        moved = (self._folders.name(removal.path), self._folders.name(made.path), text)
        return [replace(made, moved=moved), replace(removal, moved=moved)]

    def _step(self, text: str, change: Wanted) -> _Step:
        path = self._folders.resolve(text, writing=True)
        planned = self._documents.plan(path, change)
        protected = self._folders.is_protected(text)
        return _Step(path, change, planned.before, planned.after, protected)


def _shown(step: _Step, change: FileChange) -> FileChange:
    """For a moved file, reduce the patch to what differs, in git's form."""
    if step.moved is None:
        return change
    old, new, before = step.moved
    head = f"rename from {old}\nrename to {new}\n"
    if step.after is None:
        return change.model_copy(update={"patch": head, "removed": 0})
    patch, added, removed = unified(before, step.after, new)
    update = {"patch": head + patch, "added": added, "removed": removed}
    return change.model_copy(update=update)


def _left_out(asked: Sequence[_Step], taken: Mapping[Path, _Step]) -> str | None:
    """Return what to tell the model about hunks that the user left out."""
    patches: list[str] = []
    for step in asked:
        after = taken[step.path].after if step.path in taken else step.before
        patches.append(unified(after or "", step.after or "", step.path.name)[0])
    return "\n".join((LEFT_OUT, *filter(None, patches))) if any(patches) else None


def _joined(problems: Sequence[ToolError]) -> ToolError:
    """Join errors into one; the texts of files that it shows count as seen."""
    text = "\n".join(("nothing was changed", *(problem.message for problem in problems)))
    stale = any(problem.on_shown is not None for problem in problems)
    error = (StaleDocumentError if stale else ToolError)(text)

    def on_shown() -> None:
        for problem in problems:
            if problem.on_shown is not None:
                problem.on_shown()

    error.on_shown = on_shown
    return error
