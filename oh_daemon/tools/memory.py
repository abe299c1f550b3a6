"""`memory`: search the notes of earlier conversations, write one for later ones.

A note is read in every conversation to come, so writing one asks as a change of a file does.
"""

from __future__ import annotations

from collections.abc import Callable

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.contract.errors import DaemonError, ToolError
from oh_daemon.core.memory import MAX_NOTE_CHARS, TOOL
from oh_daemon.core.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.think import NOTHING


class MemoryTool:
    """`write` takes the scope, the topic, the text and the conversation's id."""

    def __init__(
        self,
        scopes: tuple[str, ...],
        search: Callable[[str], str],
        write: Callable[[str, str, str, str], str],
        is_allowed: Callable[[], bool],
    ) -> None:
        self._search = search
        self._write = write
        self._is_allowed = is_allowed
        self._default = scopes[0]
        self.spec = ToolSpec(
            name=TOOL,
            description=(
                "The notes that outlive a conversation. search: the notes with these words. write: "
                "one note, short and understood without this conversation. topic names its file."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "command": {"enum": ["search", "write"]},
                    "text": {"type": "string", "minLength": 1, "maxLength": MAX_NOTE_CHARS},
                    "scope": {
                        "enum": [*scopes],
                        "description": f"of a note; user: for all projects; default {scopes[0]}",
                    },
                    "topic": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,39}$"},
                },
                "required": ["command", "text"],
                "additionalProperties": False,
            },
        )

    def plan(self, args: Json) -> Intent:
        if not self._is_allowed():
            raise ToolError("memory is turned off, or the user does not trust the folder")
        subject = ToolSubject(tool=TOOL, args=args)
        if args["command"] == "search":
            return Intent(f"Search memory: {args['text']}", subject, "low", footprint=NOTHING)
        place = self._place(args)
        return Intent(f"Remember in {place}", subject, "medium")

    def _place(self, args: Json) -> str:
        return f"{args.get('scope', self._default)}/{args.get('topic', 'notes')}.md"

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if args["command"] == "search":
            return ToolResult.of(self._search(args["text"]))
        scope, topic = args.get("scope", self._default), args.get("topic", "notes")
        try:
            written = self._write(scope, topic, args["text"], context.conversation_id)
        except DaemonError as exc:
            raise ToolError(f"not remembered: {exc}") from exc
        return ToolResult.of(f"Remembered in {written}.")
