"""The agent's memory: notes that outlive a conversation, and the tool `memory` for them.

    memory(command="search", text="deploy")
    memory(command="write", text="Deploy with `make ship`.", scope="project", topic="release")

A note is read in every later conversation, so writing one needs approval as a file change does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path

from oh_daemon.features.memory.notes import Notes, memory_section, render_note, search_notes
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.ports import Intent, Json, Tool, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.tool_schemas import harmless, takes
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.errors import DaemonError, ToolError

PROJECT_FOLDER = Path(".openhands") / "memory"
_TOOL = "memory"
_MAX_NOTE_CHARS = 4_000


class Memory(Feature):
    """The notes of one conversation's project and user, and their tool."""

    def __init__(
        self, notes: Notes, is_allowed: Callable[[], bool], today: Callable[[], str]
    ) -> None:
        """`is_allowed` is called each time: the setting and the trust in the folders may change.

        `today` returns a date such as "2026-11-28". A note goes into the first scope of `notes` by
        default.
        """
        self._notes = notes
        self._is_allowed = is_allowed
        self._today = today
        scopes = [*notes.folders]
        self._default = scopes[0]
        self.spec = ToolSpec(
            name=_TOOL,
            description=(
                "Notes that outlive a conversation. search: those with these words. write: a note "
                "that is clear without this conversation: a decision, preference or fact that "
                "will matter in another one and that the project does not say; never a secret. "
                "topic names its file."
            ),
            input_schema=takes(
                ["command", "text"],
                command={"enum": ["search", "write"]},
                text={"type": "string", "minLength": 1, "maxLength": _MAX_NOTE_CHARS},
                scope={
                    "enum": scopes,
                    "description": f"of a note; user: for all projects; default {scopes[0]}",
                },
                topic={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,39}$"},
            ),
        )

    def tools(self) -> Sequence[Tool]:
        return [self] if self._is_allowed() else []

    def sections(self, offered_names: Container[str]) -> Sequence[str]:
        text = memory_section(self._notes.read()) if _TOOL in offered_names else ""
        return [text] if text else []

    def plan(self, args: Json) -> Intent:
        if not self._is_allowed():
            raise ToolError("memory is turned off, or the user does not trust the folder")
        if args["command"] == "search":
            return harmless(_TOOL, args, f"Search memory: {args['text']}")
        place = "/".join(self._place(args))
        return Intent(f"Remember in {place}.md", ToolSubject(tool=_TOOL, args=args), "medium")

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if args["command"] == "search":
            return ToolResult.of(search_notes(self._notes.read(), args["text"]))
        scope, topic = self._place(args)
        text = context.masker.mask(args["text"])
        note = render_note(text, context.conversation_id, self._today())
        try:
            path = self._notes.add(scope, topic, note)
        except DaemonError as exc:
            raise ToolError(f"not remembered: {exc}") from exc
        return ToolResult.of(f"Remembered in {path}.")

    def _place(self, args: Json) -> tuple[str, str]:
        """Return the scope and the topic."""
        # To Python, `$` in the pattern also matches before a last newline.
        return args.get("scope", self._default), args.get("topic", "notes").rstrip("\n")
