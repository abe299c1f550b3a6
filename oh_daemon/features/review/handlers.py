"""Handlers of `changes/*`: the user keeps or undoes changes, or applies or discards isolated ones.

The log records the state of each file at its last review; the texts themselves are blobs. What the
user changed in between belongs to the user and is never part of a review.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.isolation.isolated_changes import IsolatedChanges, require_rest
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.editor_ports import TextEdit
from oh_daemon.kernel.state import Review
from oh_daemon.protocol import branches as m
from oh_daemon.protocol.errors import (
    EditRejectedError,
    InvalidParamsError,
    InvalidStateError,
    PathOutsideWorkspaceError,
    ToolError,
    UserError,
)
from oh_daemon.protocol.events import ChangesReviewed
from oh_daemon.protocol.items import FileChange
from oh_daemon.protocol.messages import Conflict
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.hunks import choose_hunks, merge_texts
from oh_daemon.workspace.line_diff import TextDiff
from oh_daemon.workspace.paths import path_from_uri
from oh_daemon.workspace.text_changes import apply_edits, with_newlines

Decision = Literal["kept", "undone", "applied", "discarded"]
_ISOLATED = (
    "the conversation is isolated; send changes/apply or changes/discard to settle its changes"
)
_SHARED = (
    "the conversation is not isolated, so its changes are applied already; send changes/keep or"
    " changes/undo to review them"
)
_LOST = "its earlier text can no longer be read"


class AgentChanges(Struct, frozen=True):
    """The file changes of one conversation's agent."""

    conversation: Conversation
    documents: Documents
    isolated: IsolatedChanges | None
    """Changes that are still to be applied, if the conversation is isolated."""


class _Review(Struct, frozen=True, dict=True):
    """One file: what the user has accepted so far, and what the agent made of it."""

    uri: str
    base: str | None
    now: str | None
    decision: Decision | None
    remains: FileChange | None = None
    """What is known of the file if a kept text is damaged or gone; both texts are then None."""
    by_command: bool = False

    @cached_property
    def hunks(self) -> dict[m.Hunk, TextEdit]:
        """The agent's changes that wait, from a diff of both texts."""
        return TextDiff.between(self.base or "", self.now or "").hunks

    @property
    def is_pending(self) -> bool:
        if self.remains is not None:
            return self.remains.sha256_before != self.remains.sha256_after
        return self.base != self.now

    def with_hunks(self, hunks: Collection[m.Hunk]) -> str | None:
        """Return the accepted text with only these hunks of the agent's changes applied."""
        edits = [edit for hunk, edit in self.hunks.items() if hunk in hunks]
        if len(edits) == len(self.hunks):
            return self.now
        return apply_edits(self.base or "", edits) if edits else self.base


def _reviews(changes: AgentChanges) -> dict[str, _Review]:
    with changes.conversation.journal.condition:
        files = deepcopy(changes.conversation.state.reviews)
    return {uri: _review(changes.documents, uri, file) for uri, file in files.items()}


def _review(documents: Documents, uri: str, file: Review) -> _Review:
    decision, by_command = file.get("decision"), file.get("by_command", False)
    try:
        base, now = _text(documents, file["base"]), _text(documents, file["now"])
        for before, after in file["gaps"]:
            # The user's own changes count as accepted, even where they replaced the agent's.
            current_text = _text(documents, after) or ""
            base = merge_texts(_text(documents, before) or "", base or "", current_text)[0]
    except ToolError:
        # That concerns this file alone.
        loss = _loss(uri, file["base"], file["now"])
        return _Review(uri, None, None, decision, remains=loss, by_command=by_command)
    return _Review(uri, base, now, decision, by_command=by_command)


def _loss(uri: str, before: str | None, after: str | None) -> FileChange:
    """Return a change of which only the hashes are known."""
    op = "add" if before is None else "delete" if after is None else "modify"
    return FileChange(uri=uri, op=op, added=0, removed=0, sha256_before=before, sha256_after=after)


def _text(documents: Documents, sha256: str | None) -> str | None:
    return None if sha256 is None else with_newlines(documents.history.text(sha256))


def changes_list(changes: AgentChanges, params: m.ChangesListParams) -> m.ChangesListResult:
    documents, turn_id = changes.documents, params.turn_id
    if changes.isolated is not None and turn_id is None:
        return changes.isolated.list()
    reviews = _reviews(changes)
    requested_reviews = reviews if turn_id is None else _of_turn(changes, turn_id)
    files: list[m.ReviewedFile] = []
    for uri, review in requested_reviews.items():
        change = _change(documents, review).model_copy(update={"patch": None, "uri": uri})
        own = reviews[uri]
        state, by_command = _state(documents, own), own.by_command or None
        files.append(m.ReviewedFile(**dict(change), state=state, by_command=by_command))
    return m.ChangesListResult(files=tuple(files))


def _change(documents: Documents, review: _Review) -> FileChange:
    if review.remains is not None:
        return review.remains
    try:
        path = documents.folders.resolve(review.uri, writing=False)
    except PathOutsideWorkspaceError:
        # Its name leads elsewhere by now, or its folder was closed; only its kept texts are shown.
        path = path_from_uri(review.uri) or Path(review.uri)
    return documents.history.describe(path, review.base, review.now)


def _state(documents: Documents, review: _Review) -> Literal["pending", "conflict"] | Decision:
    if not review.is_pending:
        return review.decision or "kept"
    if review.remains is not None:
        return "conflict"
    try:
        path = documents.folders.resolve(review.uri, writing=False)
        documents.plan(path, documents.history.way_back(path, review.now, review.base))
    except ToolError:
        return "conflict"
    return "pending"


def _of_turn(changes: AgentChanges, turn_id: str) -> dict[str, _Review]:
    """Return what one turn did to files, as if nothing had been accepted since it began."""
    with changes.conversation.journal.condition:
        files = dict(changes.conversation.state.turn_changes.get(turn_id, {}))
    documents, before, after = changes.documents, "sha256Before", "sha256After"
    reviews = (
        _review(documents, uri, {"base": each.get(before), "now": each.get(after), "gaps": []})
        for uri, each in files.items()
    )
    return {review.uri: review for review in reviews if review.is_pending}


def changes_diff(changes: AgentChanges, params: m.ChangesDiffParams) -> m.ChangesDiffResult:
    turn_id = params.turn_id
    if changes.isolated is not None and turn_id is None:
        return changes.isolated.diff(params.uri)
    reviews = _reviews(changes) if turn_id is None else _of_turn(changes, turn_id)
    review = reviews.get(params.uri)
    if review is None:
        raise InvalidParamsError.at("uri", "the agent did not change that; see changes/list")
    if review.remains is not None:
        raise UserError(_LOST)
    change = _change(changes.documents, review)
    return m.ChangesDiffResult(
        old_text=review.base,
        new_text=review.now,
        patch=change.patch or "",
        hunks=tuple(review.hunks) if turn_id is None else (),
    )


def changes_keep(changes: AgentChanges, params: m.ReviewParams) -> m.ReviewResult:
    _require_shared(changes)

    def act(review: _Review, hunks: Collection[m.Hunk]) -> _Review:
        # A file with a lost text can be accepted as a whole: it stays as it is.
        base = review.with_hunks(hunks)
        return replace(review, base=base, decision="kept")

    return _settle(changes, params, act)


def changes_undo(changes: AgentChanges, params: m.ReviewParams) -> m.ReviewResult:
    _require_shared(changes)
    require_rest(changes.conversation)
    documents = changes.documents

    def act(review: _Review, hunks: Collection[m.Hunk]) -> _Review:
        if review.remains is not None:
            raise EditRejectedError(_LOST)
        remaining = review.with_hunks([hunk for hunk in review.hunks if hunk not in hunks])
        path = documents.folders.resolve(review.uri, writing=True)
        documents.require_seen([path])
        change = documents.history.way_back(path, review.now, remaining)
        documents.restore(path, change, label=f"Undo in {path.name}", cancel=CancelToken())
        return _Review(review.uri, review.base, remaining, "undone")

    return _settle(changes, params, act)


def changes_apply(changes: AgentChanges, params: m.ReviewParams) -> m.ReviewResult:
    return _require_isolated(changes).apply(params)


def changes_discard(changes: AgentChanges, params: m.ReviewParams) -> m.ReviewResult:
    return _require_isolated(changes).discard(params)


def _require_shared(changes: AgentChanges) -> None:
    if changes.isolated is not None:
        raise InvalidStateError(_ISOLATED)


def _require_isolated(changes: AgentChanges) -> IsolatedChanges:
    if changes.isolated is None:
        raise InvalidStateError(_SHARED)
    return changes.isolated


def _settle(
    changes: AgentChanges,
    params: m.ReviewParams,
    act: Callable[[_Review, Collection[m.Hunk]], _Review],
) -> m.ReviewResult:
    """Act on each named file, or on all that are pending.

    A file that cannot be settled stays as it is and is listed as a conflict, with the reason.
    """
    journal, reviews = changes.conversation.journal, _reviews(changes)
    pending = {uri: review for uri, review in reviews.items() if review.is_pending}
    choice, conflicts = choose_hunks(params, pending, lambda uri: pending[uri].hunks)
    uris: list[str] = []
    for uri, hunks in choice.items():
        try:
            after = act(pending[uri], hunks)
        except ToolError as exc:
            conflicts[uri] = exc.message.partition("\n")[0]
            continue
        journal.append(_reviewed(changes.documents, after))
        uris.append(uri)
    journal.log.sync()
    reasons = tuple(Conflict(uri=uri, reason=why) for uri, why in conflicts.items())
    return m.ReviewResult(done=tuple(uris), conflicts=reasons)


def _reviewed(documents: Documents, after: _Review) -> ChangesReviewed:
    if after.remains is not None:
        base = now = after.remains.sha256_after
    else:
        base, now = map(documents.history.put, (after.base, after.now))
    decision = "kept" if after.decision == "kept" else "undone"
    return ChangesReviewed(uri=after.uri, decision=decision, base=base, now=now)
