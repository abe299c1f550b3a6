"""The tools of an isolated conversation: what they change stays apart, so nobody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from oh_daemon.contract import plain
from oh_daemon.contract.errors import ToolError
from oh_daemon.core.landing import Keep as Durably
from oh_daemon.core.landing import LeftInside
from oh_daemon.core.ports import Intent, Json, Tool, ToolContext, ToolResult, ToolSpec
from oh_daemon.sandbox.apart import HELD, Keep
from oh_daemon.tools.landing import LandingTool, no_git
from oh_daemon.tools.language import Watch
from oh_daemon.workspace.documents import Documents


@dataclass(frozen=True, slots=True)
class NoLandings:
    """Implements `core.landing.Landings` where the user lands changes, not the turn."""

    keep: Keep
    documents: Documents
    watch: Watch

    def begin(self) -> None:
        """Let commands see what has changed outside. Raises `ToolError`."""
        try:
            self.keep.begin(self.documents)
        except OSError as exc:
            raise ToolError(f"the sandbox cannot be brought up to date: {exc.strerror}") from exc

    def collect(self, observed: Json, keep: Durably) -> bool:  # noqa: ARG002 - nothing lands.
        with suppress(OSError, ToolError):  # It is noted with the next command.
            self.keep.end(self.documents)
        return False

    has_news = False

    def collect_rest(self, observed: Json, keep: Durably, *, ends_turn: bool) -> bool:  # noqa: ARG002
        return False

    def left_inside(self) -> Sequence[LeftInside]:
        return ()

    def keep_whole(self, uri: str) -> None:
        raise ToolError(f"{uri!r} stays in the conversation until the user lands it")

    def drop(self) -> None: ...

    def tool(self, landing: plain.LandingPlanned, *, asks: bool) -> LandingTool:
        return LandingTool(self.documents, self.watch, landing, no_git, asks=asks)


@dataclass(frozen=True, slots=True)
class ApartTool:
    """A tool that changes files, in an isolated conversation: nobody needs to be asked."""

    tool: Tool
    landings: NoLandings

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    def plan(self, args: Json) -> Intent:
        intent = self.tool.plan(args)
        return (
            replace(intent, held=HELD, outside_floor=False) if intent.footprint.writes else intent
        )

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if context.held:
            self.landings.begin()
        return self.tool.run(args, context)
