"""What counts of a log that was not begun here, but came with a repository. Pure.

What was said and done in it counts. What was allowed in it, where it worked, what its agent was
told to be and the form of its results do not: whoever wrote it is not the user.
"""

from __future__ import annotations

from collections.abc import Sequence

from oh_daemon.core.ports import Json

FOREIGN = (
    "it came with the folder and was not begun by you on this machine, so nothing that was allowed"
    " in it counts, and it starts with the mode, approval, model and prompt that you have now"
)
_VOID = frozenset({"approval.requested", "approval.resolved", "action.decided"})


def without_authority(record: Json, folders: Sequence[str]) -> Json:
    """Return the record of a foreign log as it counts here, where these are the open folders.

    A request for approval is void as well: it may show something else than what would be run.
    """
    event = record["event"]
    if event["type"] in _VOID:
        return {**record, "event": {"type": "void"}}
    if event["type"] == "turn.started":
        return {**record, "event": {**event, "options": None}}
    if event["type"] in {"conversation.created", "agent.changed"}:
        event = {**event, "agent": {**event["agent"], "systemPrompt": "", "contextFiles": ()}}
    if event["type"] == "conversation.created":
        event = {**event, "folders": folders, "resultSchema": None}
    return {**record, "event": event}
