"""What counts of a log that was not begun here, but came with a repository. Pure.

What was said and done in it counts. What was allowed in it, where it worked, what its agent was
told to be and the form of its results do not: whoever wrote it is not the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oh_daemon.contract import plain

FOREIGN = (
    "it came with the folder and was not begun by you on this machine, so nothing that was allowed"
    " in it counts, and it starts with the mode, approval, model and prompt that you have now"
)


def without_authority(record: plain.Record, folders: Sequence[str]) -> plain.Record:
    """Return the record of a foreign log as it counts here, where these are the open folders.

    A request for approval is void as well: it may show something else than what would be run.
    """
    counting: Any = _counting(record["event"], folders)
    return {**record, "event": counting}


def _counting(event: plain.Event, folders: Sequence[str]) -> Mapping[str, object]:
    match event["type"]:
        case "approval.requested" | "approval.resolved" | "action.decided":
            return {"type": "void"}
        case "turn.started":
            return {**event, "options": None}
        case "agent.changed":
            return {**event, "agent": _bare(event["agent"])}
        case "conversation.created":
            own = {"folders": folders, "resultSchema": None}
            return {**event, **own, "agent": _bare(event["agent"])}
        case _:
            return event


def _bare(agent: plain.AgentInfo) -> plain.AgentInfo:
    return {**agent, "systemPrompt": "", "contextFiles": [], "skills": {}}
