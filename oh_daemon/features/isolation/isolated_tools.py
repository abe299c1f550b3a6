"""The tools of an isolated conversation: their changes stay there, so nobody is asked.

`IsolatedCommandChanges` stands for `PendingChanges`: nothing is applied before the user says so.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.isolation.isolated_files import CHANGES_APART, IsolatedFiles
from oh_daemon.features.language.language import Watch
from oh_daemon.features.pending_changes.apply import ApplyTool
from oh_daemon.kernel.extension_points import MakeDurable
from oh_daemon.kernel.ports import Intent, Json, Tool, ToolContext, ToolResult, ToolSpec
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import ToolError
from oh_daemon.workspace.documents import Documents


class IsolatedCommandChanges(Struct, frozen=True):
    """Implements `extension_points.CommandChanges`; the user applies changes, not the turn."""

    isolated_files: IsolatedFiles
    documents: Documents
    watch: Watch

    def begin(self) -> None:
        """Let commands see what has changed outside. Raises `ToolError`."""
        try:
            self.isolated_files.begin(self.documents)
        except OSError as exc:
            raise ToolError(f"the sandbox cannot be brought up to date: {exc.strerror}") from exc

    def collect(self, observation: Json, persist: MakeDurable) -> bool:  # noqa: ARG002 - the user applies.
        with suppress(OSError, ToolError):  # It is noted with the next command.
            self.isolated_files.end(self.documents)
        return False

    has_news = False

    def collect_rest(self, observation: Json, persist: MakeDurable, *, ends_turn: bool) -> bool:  # noqa: ARG002
        return False

    def drop(self) -> None: ...

    def tool(self, planned_changes: plain.ChangesPlanned, *, asks: bool) -> ApplyTool:
        return ApplyTool(self.documents, self.watch, planned_changes, None, asks=asks)


class IsolatedTool(Struct, frozen=True):
    """A tool that changes files, in an isolated conversation: nobody needs to be asked."""

    tool: Tool
    command_changes: IsolatedCommandChanges

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    def plan(self, args: Json) -> Intent:
        intent = self.tool.plan(args)
        return (
            replace(intent, confinement=CHANGES_APART, outside_floor=False)
            if intent.footprint.writes
            else intent
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if context.confinement:
            self.command_changes.begin()
        return self.tool.run(args, context)
