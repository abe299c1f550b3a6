"""What a command changed in its view, on its way into the open folders: the part that is pure.

The item of the command stays open until its changes have landed or were refused. What waits is in
the log, with the texts as blobs, so it outlives the view and the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from oh_daemon.contract import plain
from oh_daemon.contract.checkpoints import LandingPlanned
from oh_daemon.contract.events import ActionDecided
from oh_daemon.contract.items import FileChangeItem, ModelCall
from oh_daemon.core.ports import Intent, Json, Tool, ToolResult

TOOL = "landing"
"""The name by which rules can mean the changes of commands."""
Keep = Callable[[LandingPlanned], bool]
"""Makes a plan durable; returns False when nobody wants the changes any more."""


class Landings(Protocol):
    """Brings what commands changed into the open folders. Blocks; for the worker's threads."""

    def collect(self, observed: Json, keep: Keep) -> bool:
        """Take what has changed out of the view, once `keep` has made it durable.

        `observed` is the item as the command alone would end it. Returns whether there is something
        to land: not while another command runs in front, whose end will collect both, and not as
        long as `keep` returns False, after which the changes are gone.
        """
        ...

    def collect_rest(self, observed: Json, keep: Keep, *, ends_turn: bool) -> bool:
        """Do the same for what no command's end collects, such as the changes of a job.

        Unless the turn ends, that is nothing as long as no job has ended.
        """
        ...

    def drop(self) -> None:
        """Take all that has changed out of the view, for good."""
        ...

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> Tool:
        """Return what lands these changes; if nobody is asked, it leaves out protected files."""
        ...


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


CLASH = "you changed the same lines meanwhile; this replaces yours"
"""A reason to ask in any case."""
BEGUN = "begun"
"""Stands in for a digest: a landing that was allowed and began is finished, whatever is left."""


def begun(intent: Intent) -> ActionDecided:
    return ActionDecided(
        effect="allow", rule="it was allowed, and began", risk=intent.risk, digest=BEGUN
    )


def ended_with(landing: plain.LandingPlanned, told: str, **fields: Any) -> ToolResult:
    """Return the observation of the command, followed by what became of its changes."""
    content = list(landing["observed"].get("content", ()))
    if told:
        content.append({"type": "text", "text": told})
    kept = {name: value for name, value in landing["observed"].items() if name != "content"}
    return ToolResult(tuple(content), item_fields={**kept, **fields})


def without_landing(landing: plain.LandingPlanned, why: str) -> ToolResult:
    """Return the observation of a command whose changes were not taken."""
    titles = [row["title"] for each in landing.get("git", ()) for row in each.get("shown", ())]
    all_names = [*titles, *map(_name, landing["changes"])]
    names = ", ".join(all_names[:_MAX_NAMED])
    more = len(all_names) - _MAX_NAMED
    which = f"{names} and {more} more" if more > 0 else names
    return ended_with(landing, f"[not kept: {which}] {why} The files are as before the command.")


_MAX_NAMED = 20


def _name(change: plain.FileChange) -> str:
    return change["uri"].rpartition("/")[2]
