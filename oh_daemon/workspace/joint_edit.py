"""Edits of several files that belong together: either all are made, or all are taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import EditRejectedError, ToolError
from oh_daemon.protocol.forms import ItemFields, model_of
from oh_daemon.protocol.items import FileChange
from oh_daemon.workspace.arbiter import EditDone
from oh_daemon.workspace.concurrent_edits import MAX_IN_TURN, for_each
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.hunks import Rewrite, Wanted, is_unseen
from oh_daemon.workspace.paths import path_from_uri, real_path
from oh_daemon.workspace.text_changes import Create, with_newlines

_TAKE_BACK_S = 0.8


def change_all(
    documents: Documents, changes: Mapping[Path, Wanted], *, label: str, cancel: CancelToken
) -> dict[Path, EditDone]:
    """Make all changes, which the user has allowed, also in files with an unknown text.

    Raises `ToolError` or `Cancelled` after taking back those made so far.
    """
    edits: dict[Path, EditDone] = {}
    unknown = {path for path in changes if documents.is_unknown(path)}

    def write(path: Path) -> None:
        change, is_unknown = changes[path], path in unknown
        write = documents.rewrite if is_unseen(change) else documents.edit
        edits[path] = write(path, change, label=label, cancel=cancel, under_unknown=is_unknown)

    is_few = len(changes) <= MAX_IN_TURN
    in_turn = {path for path in changes if is_few or documents.document(path) is not None}
    try:
        for path in filter(in_turn.__contains__, changes):
            write(path)
        for_each(write, [path for path in changes if path not in in_turn])
    except (ToolError, Cancelled, RuntimeError) as exc:
        remaining = _take_back(documents, edits, label)
        if remaining:
            names = ", ".join(documents.folders.name(path) for path in remaining)
            raise EditRejectedError(f"{exc}\nChanged all the same: {names}; undo these") from exc
        raise
    return {path: edits[path] for path in changes}


def cut_short(documents: Documents, open_items: Iterable[plain.Item]) -> dict[str, ItemFields]:
    """Return, for edits under way when a daemon died, the changes made and a text about them."""
    observations: dict[str, ItemFields] = {}
    for item in open_items:
        if item["kind"] == "fileChange" and item["status"] == "running" and item.get("changes"):
            applied_changes = [change for change in item["changes"] if _is_done(documents, change)]
            names = (
                ", ".join(change["uri"].rpartition("/")[2] for change in applied_changes) or "none"
            )
            text = f"Of {len(item['changes'])} files these are as the edit wanted them: {names}."
            content = [{"type": "text", "text": text}]
            changes = [model_of(FileChange, change) for change in applied_changes]
            observations[item["id"]] = {"changes": changes, "content": content}
    return observations


def _is_done(documents: Documents, change: plain.FileChange) -> bool:
    path = path_from_uri(change["uri"])
    try:
        if path is not None:
            documents.files.sweep(real_path(path))  # The kill may have cut an append short.
        text = documents.look(real_path(path)).text if path else None
    except (ToolError, OSError):
        return False
    return (None if text is None else sha256_of(text)) == change.get("sha256After")


def _take_back(documents: Documents, edits: Mapping[Path, EditDone], label: str) -> list[Path]:
    """Take the edits back, and return the files where that failed."""
    failures: list[Path] = []
    cancel = CancelToken()
    # An editor that hangs must not hold up the turn, whether that was interrupted or not.
    giving_up = Timer(_TAKE_BACK_S, cancel.cancel)
    giving_up.name, giving_up.daemon = "take-back", True
    with suppress(RuntimeError):  # Without a thread to give: the edits must come back all the same.
        giving_up.start()
    for path, edit in reversed(tuple(edits.items())):
        back = _back(documents, path, edit.change)
        write = documents.rewrite if isinstance(back, Rewrite) else documents.edit
        try:
            write(path, back, label=label, cancel=cancel, under_unknown=edit.route == "disk")
        except (ToolError, Cancelled):
            failures.append(path)
    giving_up.cancel()
    return failures


def _back(documents: Documents, path: Path, change: FileChange) -> Create | Rewrite:
    before, after = (
        None if sha256 is None else with_newlines(documents.history.text(sha256))
        for sha256 in (change.sha256_before, change.sha256_after)
    )
    return documents.history.way_back(path, after, before)
