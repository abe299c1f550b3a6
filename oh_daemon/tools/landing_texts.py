"""What becomes of one text that a command changed: as it left it, merged, or against the user's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from oh_daemon.contract.items import FileChange
from oh_daemon.tools.file_changes import Step
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.review import Rewrite, Wanted, forced, merged
from oh_daemon.workspace.text_changes import Create, with_newlines


@dataclass(frozen=True, slots=True)
class Landed:
    """The step that lands a text; None when it is there already."""

    step: Step | None
    clashes: bool = False
    """Whether it replaces what the user changed meanwhile."""


def plan_text(documents: Documents, path: Path, change: FileChange) -> Landed:
    """Raises `ToolError` when the text cannot land."""
    look = documents.look(path)
    before, after = (_text(documents, sha) for sha in (change.sha256_before, change.sha256_after))
    now = None if look.text is None else with_newlines(look.text)
    if now == after:
        return Landed(None)
    if look.document is None and look.text == before and before is not None:
        return Landed(Step(path, Rewrite(before, after), before, after, None))
    wanted: Wanted = Rewrite(before or "", after)
    clashes = False
    if now != before:
        clashes = _clash(before, after, now)
        if clashes:
            before, after = now, _over(before, after, now)
        wanted = Rewrite(before or "", after)
    if now is None:
        wanted = Create(after or "", change.form)
    planned = documents.plan(path, wanted)
    return Landed(Step(path, wanted, planned.before, planned.after, None), clashes)


def _text(documents: Documents, sha256: str | None) -> str | None:
    return None if sha256 is None else with_newlines(documents.history.text(sha256))


def _clash(before: str | None, after: str | None, now: str | None) -> bool:
    """Return whether what is there now and the change cannot both stay."""
    if before is None or after is None or now is None:
        return True
    return merged(before, after, now)[1] > 0


def _over(before: str | None, after: str | None, now: str | None) -> str | None:
    if before is None or after is None or now is None:
        return after
    return forced(before, after, now)
