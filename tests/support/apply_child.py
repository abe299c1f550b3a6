"""The program that a test kills while it applies changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.language.language import unwatched
from oh_daemon.features.pending_changes.apply import ApplyTool
from oh_daemon.kernel.ports import ToolContext, ToolResult
from oh_daemon.protocol.items import FileChange
from oh_daemon.storage.blobs import Blobs
from oh_daemon.workspace.concurrent_edits import PathLocks
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.edit_history import EditHistory
from oh_daemon.workspace.paths import Folders


class Kept:
    """Blobs as a log keeps them."""

    def __init__(self, folder: Path) -> None:
        self._blobs = Blobs(folder)

    def put_blob(self, data: bytes) -> str:
        return self._blobs.put(data)

    def read_blob(self, sha256: str, offset: int = 0, limit: int = -1) -> bytes:
        return self._blobs.read(sha256, offset, limit)


def planned_change(
    store: Kept, path: Path, before: bytes | None, after: bytes | None, **more: Any
) -> dict[str, Any]:
    """Return the change of a file from one content to another, as it stands in a log."""
    hashes = {
        "sha256_before": None if before is None else store.put_blob(before),
        "sha256_after": None if after is None else store.put_blob(after),
    }
    op = "add" if before is None else "delete" if after is None else "modify"
    change = FileChange(
        uri=path.as_uri(), op=more.pop("op", op), added=0, removed=0, **hashes, **more
    )
    return change.model_dump(mode="json", by_alias=True, exclude_none=True)


def tool_at(place: Path, *, asks: bool = True) -> ApplyTool:
    history = EditHistory(Folders((place / "project",)), Kept(place / "blobs"))  # type: ignore[arg-type]
    documents = Documents(history._folders, None, history, PathLocks())
    planned_changes = json.loads((place / "landing.json").read_text())
    return ApplyTool(documents, unwatched, planned_changes, None, asks=asks)


def land(place: Path, *, asks: bool = True) -> ToolResult:
    tool = tool_at(place, asks=asks)
    tool.plan({})
    return tool.run({}, ToolContext("c", "i", CancelToken(), lambda _: None, Masker()))
