"""`memory`: search the notes of earlier conversations, write notes for later ones.

A note is read in every later conversation, so writing one needs approval as a file change does.
"""

from __future__ import annotations

from collections.abc import Callable

from oh_daemon.contract.approvals import ToolSubject
from oh_daemon.contract.errors import DaemonError, ToolError
from oh_daemon.core.memory import MAX_NOTE_CHARS, TOOL
from oh_daemon.core.ports import Intent, Json, ToolContext, ToolResult, ToolSpec
from oh_daemon.tools.forms import harmless, takes


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
            name=TOOL,
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
            return harmless(TOOL, args, f"Search memory: {args['text']}")
        place = "/".join(self._place(args))
        return Intent(f"Remember in {place}.md", ToolSubject(tool=TOOL, args=args), "medium")

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
