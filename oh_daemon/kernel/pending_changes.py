"""The changes of commands in the sandbox, on their way into the open folders.

The item of a command stays open until its changes have landed or were refused. What waits is in the
log, with the texts as blobs, so it outlives the sandbox and the daemon.
"""

from __future__ import annotations

from collections.abc import Sequence

from oh_daemon.common.plain_text import join_names
from oh_daemon.kernel.ports import Intent, Json, ToolResult
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import ActionDecided
from oh_daemon.protocol.forms import observed_by
from oh_daemon.protocol.items import FileChange, FileChangeItem, GitChange, ModelCall

TOOL = "apply"
"""The name by which rules can mean the changes of commands."""


def own_item(item_id: str, now: str) -> FileChangeItem:
    """Return the item of a landing that belongs to no command; the model did not call it."""
    return FileChangeItem(
        id=item_id,
        status="pending",
        started_at=now,
        tool=TOOL,
        tool_kind="edit",
        title="Keep what was changed in the background",
        origin="command",
        call=ModelCall(id=item_id, name=TOOL, arguments="{}", batch=item_id),
    )


def is_own(item: plain.Item) -> bool:
    """Return whether the item is such a landing."""
    return item["kind"] == "fileChange" and item.get("origin") is not None


OBSERVED: Json = {
    "content": ({"type": "text", "text": "Programs in the background changed files."},)
}
"""What stands in for a command's output there."""


BEGUN = "begun"
"""Stands in for a digest: a landing that was allowed and began is finished, whatever is left."""


def decided_at_start(intent: Intent) -> ActionDecided:
    return ActionDecided(
        effect="allow", rule="it was allowed, and began", risk=intent.risk, digest=BEGUN
    )


def ended_with(
    planned_changes: plain.ChangesPlanned,
    report: str,
    changes: Sequence[FileChange],
    git: Sequence[GitChange] = (),
) -> ToolResult:
    """Return the observation of the command, followed by what became of its changes."""
    fields = observed_by(planned_changes)
    content = fields.pop("content", ())
    if report:
        content = (*content, {"type": "text", "text": report})
    if changes:
        fields["changes"] = changes
    if git:
        fields["git"] = git
    return ToolResult(tuple(content), item_fields=fields)


def unapplied_text(
    planned_changes: plain.ChangesPlanned, why: str, changes: Sequence[FileChange] = ()
) -> ToolResult:
    """Return the observation of a command that lands nothing, or nothing but `changes`."""
    uris = {change.uri for change in changes}
    titles = [
        row["title"] for each in planned_changes.get("git", ()) for row in each.get("summary", ())
    ]
    remaining_uris = [
        change["uri"] for change in planned_changes["changes"] if change["uri"] not in uris
    ]
    note = f"[not kept: {join_names([*titles, *map(_name, remaining_uris)], _MAX_NAMED)}] {why}"
    note += " The files are as before the command."
    if uris:
        note += f"\n[changed files, all the same] {join_names([*map(_name, uris)], _MAX_NAMED)}"
    return ended_with(planned_changes, note, changes)


_MAX_NAMED = 20


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
