"""Edits of several files that belong together: all of them happen, or none stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Timer

from oh_daemon.contract.errors import EditRejectedError, ToolError
from oh_daemon.core.cancel import Cancelled, CancelToken
from oh_daemon.workspace.documents import Documents, EditDone
from oh_daemon.workspace.review import Rewrite
from oh_daemon.workspace.text_changes import with_newlines

_TAKE_BACK_S = 0.8


def rewrite_all(
    documents: Documents, rewrites: Mapping[Path, Rewrite], *, label: str, cancel: CancelToken
) -> dict[Path, EditDone]:
    """Raises `ToolError` or `Cancelled`; what was done by then is taken back first."""
    done: dict[Path, EditDone] = {}
    try:
        for path, rewrite in rewrites.items():
            done[path] = documents.rewrite(path, rewrite, label=label, cancel=cancel)
    except (ToolError, Cancelled) as exc:
        left = _take_back(documents, done, label)
        if left:
            names = ", ".join(documents.folders.name(path) for path in left)
            raise EditRejectedError(f"{exc}\nChanged all the same: {names}; undo these") from exc
        raise
    return done


def _take_back(documents: Documents, done: Mapping[Path, EditDone], label: str) -> list[Path]:
    """Returns the files that could not be taken back."""
    left: list[Path] = []
    text, cancel = documents.history.text, CancelToken()
    # Interrupted or not, an editor that hangs must not hold the turn.
    giving_up = Timer(_TAKE_BACK_S, cancel.cancel)
    giving_up.name, giving_up.daemon = "take-back", True
    giving_up.start()
    for path, edit in done.items():
        before, after = edit.change.sha256_before, edit.change.sha256_after
        back = Rewrite(with_newlines(text(after)), with_newlines(text(before)))
        try:
            documents.rewrite(path, back, label=label, cancel=cancel)
        except (ToolError, Cancelled):
            left.append(path)
    giving_up.cancel()
    return left
