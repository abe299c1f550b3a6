"""Which of the agent's changes the user keeps: hunks, and how to revert them around later changes.

Pure values like `text_changes`; all texts here have LF line ends. Invariant: where the user changed
the same lines, the user's stay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from msgspec import Struct

from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.protocol.branches import ReviewParams
from oh_daemon.protocol.errors import EditRejectedError, StaleDocumentError
from oh_daemon.protocol.items import Hunk
from oh_daemon.workspace.line_diff import TextDiff, line_edits
from oh_daemon.workspace.patch import Hunks
from oh_daemon.workspace.text_changes import Change, Insert, Replace, apply_edits


def choose_hunks(
    params: ReviewParams,
    files: Collection[str],
    hunks_in: Callable[[str], Collection[Hunk]],
    other_uris: Collection[str] = (),
) -> tuple[dict[str, Collection[Hunk]], dict[str, str]]:
    """Return the chosen hunks by URI, and why some cannot be chosen; `other_uris` are no files."""
    uris = dict.fromkeys((*params.uris, *(hunk.uri for hunk in params.hunks)))
    hunks_by_uri: dict[str, Collection[Hunk]] = {}
    conflicts: dict[str, str] = {}
    for uri in [uri for uri in uris or files if uri not in other_uris]:
        hunks = [choice.hunk for choice in params.hunks if choice.uri == uri]
        if uri not in files:
            conflicts[uri] = "nothing of it waits for review; see changes/list"
        elif not all(hunk in hunks_in(uri) for hunk in hunks):
            conflicts[uri] = "these hunks are of an older state; ask changes/diff again"
        else:
            # Without a choice of hunks, all of the file is meant.
            hunks_by_uri[uri] = hunks or hunks_in(uri)
    return hunks_by_uri, conflicts


def merge_texts(origin: str, own_text: str, other_text: str) -> tuple[str, int]:
    """Merge the changes from `origin` to `ours` into `theirs`, and count those that do not fit."""
    their_edits = list(line_edits(origin, other_text))
    same_edits = set(their_edits)
    our_edits = [edit for edit in line_edits(origin, own_text) if edit not in same_edits]
    fitting = _without_overlap(our_edits, their_edits)
    return _both(origin, fitting, their_edits), len(our_edits) - len(fitting)


def force_merge(origin: str, own_text: str, other_text: str) -> str:
    """Merge as `merge_texts` does, but where both changed the same lines, ours win."""
    our_edits, their_edits = [*line_edits(origin, own_text)], [*line_edits(origin, other_text)]
    return _both(origin, our_edits, _without_overlap(their_edits, our_edits))


def _without_overlap(some: Sequence[TextEdit], other_edits: Sequence[TextEdit]) -> list[TextEdit]:
    """Return those edits that touch no lines of the others; both ascend and are never adjacent."""
    ends = [edit.end for edit in other_edits]
    nexts = ((edit, bisect_left(ends, edit.start)) for edit in some)
    return [edit for edit, n in nexts if n == len(ends) or other_edits[n].start > edit.end]


def _both(origin: str, some: Sequence[TextEdit], other_edits: Sequence[TextEdit]) -> str:
    return apply_edits(origin, sorted([*some, *other_edits], key=lambda edit: edit.start))


class Rewrite(Struct, frozen=True, dict=True):
    """Turn the text `before` into `after`, keeping what others changed since; LF line ends."""

    before: str
    after: str | None
    """None means no file."""

    @cached_property
    def diff(self) -> TextDiff:
        return TextDiff.between(self.before, self.after or "")

    def edits(self, plain: str) -> Sequence[TextEdit]:
        if plain == self.before:
            return self.diff.edits
        target, n_lost = merge_texts(self.before, self.after or "", plain)
        if n_lost or (self.after is None and target):
            raise EditRejectedError("the same lines were changed since; nothing was done")
        return [*line_edits(plain, target)]


class PartialChange(Struct, frozen=True):
    """Only these hunks of a change; the user left out the others."""

    change: Replace | Insert | Hunks | Rewrite
    hunks: tuple[Hunk, ...]

    @property
    def is_anchored(self) -> bool:
        return isinstance(self.change, Rewrite) or self.change.is_anchored

    def names_lines(self, plain: str) -> bool:
        return isinstance(self.change, Rewrite) or self.change.names_lines(plain)

    def place(self, plain: str) -> int:
        return 1 if isinstance(self.change, Rewrite) else self.change.place(plain)

    def edits(self, plain: str) -> list[TextEdit]:
        hunks = TextDiff.of_edits(plain, self.change.edits(plain)).hunks
        if not hunks.keys() >= set(self.hunks):
            raise StaleDocumentError("the text changed since the user chose from this edit")
        return [edit for hunk, edit in hunks.items() if hunk in self.hunks]


Wanted = Change | Hunks | Rewrite | PartialChange
"""What an edit may be asked to do."""


def is_unseen(change: Wanted) -> bool:
    """Return whether the agent is not shown the change, so that it does not count as seen."""
    return isinstance(change.change if isinstance(change, PartialChange) else change, Rewrite)
