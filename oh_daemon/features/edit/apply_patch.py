"""The tool `apply_patch`: changes of several files in the form that some models were trained on.

It turns the sections of a patch into changes of texts; `workspace/documents` does the work. A patch
is applied as a whole or not at all; the error for a section that does not fit shows what is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from oh_daemon.features.edit.file_changes import FileChanges, Move, Step, checked_text
from oh_daemon.features.language.language import Watch, unwatched
from oh_daemon.kernel.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.prompt import true_spec
from oh_daemon.kernel.tool_schemas import takes
from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError, ToolError
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.patch import Section, parse_patch
from oh_daemon.workspace.paths import printable
from oh_daemon.workspace.text_changes import Create, Remove, locate_edits

NAME = "apply_patch"
_MAX_FILES = 100

_DESCRIPTION = """Change text files by a patch. View a file before you change, move or delete it. \
All of the patch is applied or nothing.
?buffers Text that the user has not saved counts.
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
PATCH_SPEC = ToolSpec(NAME, _DESCRIPTION, _SCHEMA, kind="edit", counts_as="edit")


class PatchTool:
    """Implements `kernel.ports.Tool`."""

    def __init__(
        self, documents: Documents, watch: Watch = unwatched, facts: Collection[str] = ()
    ) -> None:
        """For `facts` see `true_rows`."""
        self.spec = true_spec(PATCH_SPEC, facts)
        self._documents = documents
        self._folders = documents.folders
        self._changes = FileChanges(documents, watch)

    def plan(self, args: Json) -> Intent:
        return self._changes.intent("Patch", self._steps(args), args)

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        steps = self._steps(args)
        return self._changes.make(f"patch {self._changes.names_of(steps)}", steps, args, context)

    def _steps(self, args: Json) -> list[Step]:
        """Return the steps, deletions last. Raises `ToolError` that lists all that does not fit."""
        steps: list[Step] = []
        problems: list[ToolError] = []
        for section in parse_patch(checked_text(args, "input")):
            try:
                steps += self._plan_section(section)
            except ToolError as exc:
                error = ToolError(f"{printable(section.path)}: {exc.message}")
                error.on_shown = exc.on_shown
                problems.append(error)
        for path, n in Counter(step.path for step in steps).items():
            if n > 1:
                name = self._folders.name(path)
                problems.append(ToolError(f"{name}: it is named {n} times; name each file once"))
        if problems:
            raise _join_problems(problems)
        if len(steps) > _MAX_FILES:
            raise ToolError(f"the patch changes {len(steps)} files, and {_MAX_FILES} may")
        return sorted(steps, key=lambda step: isinstance(step.change, Remove))

    def _plan_section(self, section: Section) -> list[Step]:
        if section.op == "Add":
            return [self._changes.step(section.path, Create(section.text))]
        if section.op == "Update" and section.move_to is None:
            step = self._changes.step(section.path, section.hunks)
            if step.before == step.after:
                raise ToolError("nothing would change")
            return [step]
        return self._taken_away(section)

    def _taken_away(self, section: Section) -> list[Step]:
        """Plan a deletion, or a move, which creates the new file in the form of the old one."""
        if self._folders.is_link(section.path):
            raise EditRejectedError("it is a link; use rm or mv in the terminal")
        document = self._documents.look(self._folders.resolve(section.path, writing=True))
        text = document.file.text if document.file else document.text or ""
        removal = self._changes.step(section.path, Remove(text))
        if section.move_to is None or document.file is None:
            return [removal]
        after = locate_edits(text, section.hunks.edits).after
        target_step = self._changes.step(section.move_to, Create(after, document.file.form))
        move = Move(self._folders.name(removal.path), self._folders.name(target_step.path), text)
        return [replace(target_step, move=move), replace(removal, move=move)]


def _join_problems(problems: Sequence[ToolError]) -> ToolError:
    """Join errors into one; the texts of files that it shows count as seen."""
    text = "\n".join(("nothing was changed", *(problem.message for problem in problems)))
    is_stale = any(problem.on_shown is not None for problem in problems)
    error = (StaleDocumentError if is_stale else ToolError)(text)

    def on_shown() -> None:
        for problem in problems:
            if problem.on_shown is not None:
                problem.on_shown()

    error.on_shown = on_shown
    return error
