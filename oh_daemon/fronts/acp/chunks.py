"""Pieces of streamed text as updates, and how much of it a slow client was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oh_daemon.fronts.wire.outbox import DeltaStream

if TYPE_CHECKING:
    from oh_daemon.fronts.acp import schema as acp

UPDATE = "session/update"
_LEFT_OUT = (
    "\n\n[What came now was left out, since nobody read it. Load the session again to see it.]\n\n"
)


class SentText:
    """How much of each streamed text the client was sent: it loses what it is too slow for."""

    def __init__(self) -> None:
        self._n_chars: dict[str, int] = {}

    def params(self, stream: DeltaStream, offset: int, text: str) -> acp.SessionNotification:
        """Return the update that sends this piece."""
        self._n_chars[stream.item_id] = offset + len(text)
        return update_params(stream.conversation_id, chunk(stream.channel, text, stream.item_id))

    def take(self, item_id: str) -> int:
        """Return how many characters were sent, and forget it: the item has ended."""
        return self._n_chars.pop(item_id, 0)


def chunk(channel: str, text: str, message_id: str | None) -> acp.SessionUpdate:
    """Return the update with a piece of the agent's text or, as `reasoning`, of its thoughts."""
    shown: acp.ContentChunk = {"content": {"type": "text", "text": text}}
    if message_id is not None:
        shown["messageId"] = message_id
    if channel == "reasoning":
        return {"sessionUpdate": "agent_thought_chunk", **shown}
    return {"sessionUpdate": "agent_message_chunk", **shown}


def gap_params(session_id: str, _first: int, _last: int) -> acp.SessionNotification:
    """Return the update that says that others were left out."""
    return update_params(session_id, chunk("text", _LEFT_OUT, None))


def update_params(session_id: str, update: acp.SessionUpdate) -> acp.SessionNotification:
    return {"sessionId": session_id, "update": update}
