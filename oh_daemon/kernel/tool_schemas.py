"""Helpers that tools share: schemas of arguments, and the intent of a harmless call."""

from __future__ import annotations

from collections.abc import Sequence

from oh_daemon.kernel.ports import Footprint, Intent, Json, Question
from oh_daemon.protocol.approvals import ToolSubject

TEXT: Json = {"type": "string", "minLength": 1}
LINE: Json = {"type": "integer", "minimum": 1}
PATH: Json = {"type": "string", "description": "relative to the first folder, or absolute"}
NOTHING = Footprint(writes=False, paths=frozenset())


def takes(names: Sequence[str] = (), /, **properties: Json) -> Json:
    """Return the JSON Schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*names],
        "additionalProperties": False,
    }


def harmless(
    tool: str,
    args: Json,
    title: str,
    *,
    footprint: Footprint = NOTHING,
    question: Question | None = None,
) -> Intent:
    """Return the intent of a call that needs no approval of its own, shown as its arguments."""
    subject = ToolSubject(tool=tool, args=args)
    return Intent(title, subject, "low", footprint=footprint, question=question)
