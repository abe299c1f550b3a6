"""The tools `skill` and `memory`: instructions and notes that outlive a conversation.

For a skill that runs commands or starts servers, the plan lists them: they are what is approved,
and approval is asked for again when the skill's files change them. A note is read in every later
conversation, so writing one needs approval as a file change does.
"""

from __future__ import annotations

from collections.abc import Callable

from oh_daemon.features.memory.notes import MAX_NOTE_CHARS
from oh_daemon.features.memory.notes import TOOL as MEMORY
from oh_daemon.kernel.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.kernel.tool_schemas import harmless, takes
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.errors import DaemonError, ToolError


class MemoryTool:
    """`write` takes the scope, the topic, the text and the conversation's id; returns the place."""

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
            name=MEMORY,
            description=(
                "The notes that outlive a conversation. search: the notes with these words. write: "
                "one note, short and understood without this conversation. topic names its file."
            ),
            input_schema=takes(
                ["command", "text"],
                command={"enum": ["search", "write"]},
                text={"type": "string", "minLength": 1, "maxLength": MAX_NOTE_CHARS},
                scope={
                    "enum": [*scopes],
                    "description": f"of a note; user: for all projects; default {scopes[0]}",
                },
                topic={"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,39}$"},
            ),
        )

    def plan(self, args: Json) -> Intent:
        if not self._is_allowed():
            raise ToolError("memory is turned off, or the user does not trust the folder")
        if args["command"] == "search":
            return harmless(MEMORY, args, f"Search memory: {args['text']}")
        place = "/".join(self._place(args))
        return Intent(f"Remember in {place}.md", ToolSubject(tool=MEMORY, args=args), "medium")

    def _place(self, args: Json) -> tuple[str, str]:
        """Return the scope and the topic."""
        # To Python, `$` in the pattern also matches before a last newline.
        return args.get("scope", self._default), args.get("topic", "notes").rstrip("\n")

    def run(self, args: Json, context: ToolContext) -> ToolResult:
        if args["command"] == "search":
            return ToolResult.of(self._search(args["text"]))
        scope, topic = self._place(args)
        try:
            written = self._write(scope, topic, args["text"], context.conversation_id)
        except DaemonError as exc:
            raise ToolError(f"not remembered: {exc}") from exc
        return ToolResult.of(f"Remembered in {written}.")
