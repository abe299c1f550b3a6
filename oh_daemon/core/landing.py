"""What a command changed in its view, on its way into the open folders: the part that is pure.

The item of the command stays open until its changes have landed or were refused. What waits is in
the log, with the texts as blobs, so it outlives the view and the daemon.
"""

from __future__ import annotations

from typing import Any, Protocol

from oh_daemon.contract import plain
from oh_daemon.contract.checkpoints import LandingPlanned
from oh_daemon.core.ports import Json, Tool, ToolResult

TOOL = "landing"
"""The name by which rules can mean the changes of commands."""


class Landings(Protocol):
    """Brings what commands changed into the open folders. Blocks; for the worker's threads."""

    def plan(self, observed: Json) -> LandingPlanned | None:
        """Keep what has changed since the last call as blobs; None when nothing has.

        `observed` is the item as the command alone would end it. Until `settle` the view has it.
        """
        ...

    def settle(self) -> None:
        """Take what was planned out of the view, which then shows the disk again."""
        ...

    def drop(self) -> None:
        """Take all that has changed out of the view, for good."""
        ...

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> Tool:
        """Return what lands these changes; if nobody is asked, it leaves out protected files."""
        ...


def ended_with(landing: plain.LandingPlanned, told: str, **fields: Any) -> ToolResult:
    """Return the observation of the command, followed by what became of its changes."""
    content = list(landing["observed"].get("content", ()))
    if told:
        content.append({"type": "text", "text": told})
    kept = {name: value for name, value in landing["observed"].items() if name != "content"}
    return ToolResult(tuple(content), item_fields={**kept, **fields})


def without_landing(landing: plain.LandingPlanned, why: str) -> ToolResult:
    """Return the observation of a command whose changes were not taken."""
    names = ", ".join(_name(change) for change in landing["changes"][:_MAX_NAMED])
    more = len(landing["changes"]) - _MAX_NAMED
    which = f"{names} and {more} more" if more > 0 else names
    return ended_with(landing, f"[not kept: {which}] {why} The files are as before the command.")


_MAX_NAMED = 20


def _name(change: plain.FileChange) -> str:
    return change["uri"].rpartition("/")[2]
