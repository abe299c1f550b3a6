"""Pieces of streamed text as updates, and how much of it a slow client was sent.

Of what a running command prints, the end is kept: an update replaces all that the last one showed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oh_daemon.jsonrpc.outbox import DeltaStream

if TYPE_CHECKING:
    from oh_daemon.frontends.acp import schema as acp

UPDATE = "session/update"
MAX_PRINTED_CHARS = 4 << 10
"""How much of what a running command prints is shown."""
_LEFT_OUT = (
    "\n\n[What came now was left out, since nobody read it. Load the session again to see it.]\n\n"
)


class SentText:
    """How much of each streamed text the client was sent: it loses what it is too slow for."""

    def __init__(self) -> None:
        self._n_chars: dict[str, int] = {}
        self._sent_by_item: dict[str, tuple[int, str]] = {}
        """How often each running command has printed, and the end of that."""

    def params(self, stream: DeltaStream, offset: int, text: str) -> acp.SessionNotification:
        """Return the update that sends this piece or, of output, all that is to be shown now."""
        if stream.channel == "output":
            return update_params(stream.conversation_id, self._running_update(stream.item_id))
        self._n_chars[stream.item_id] = offset + len(text)
        return update_params(stream.conversation_id, chunk(stream.channel, text, stream.item_id))

    def take(self, item_id: str) -> int:
        """Return how many characters were sent, and forget it: the item has ended."""
        return self._n_chars.pop(item_id, 0)

    def add_printed(self, item_id: str, text: str) -> int:
        """Keep the end of what a running command prints; return how often it had printed before.

        In its stream each time counts as one character, so what comes fast is sent as one update.
        """
        n_times, before = self._sent_by_item.get(item_id, (0, ""))
        self._sent_by_item[item_id] = (n_times + 1, _end_of(before + text))
        return n_times

    def end_printed(self, item_id: str) -> None:
        """Forget it: the command has ended, and its result has all that counts."""
        self._sent_by_item.pop(item_id, None)

    def _running_update(self, item_id: str) -> acp.SessionUpdate:
        _, text = self._sent_by_item[item_id]
        content: acp.ToolCallContent = {
            "type": "content",
            "content": {"type": "text", "text": text},
        }
        call: acp.ToolCallUpdate = {"toolCallId": item_id, "status": "in_progress"}
        return {"sessionUpdate": "tool_call_update", **call, "content": [content]}


def _end_of(text: str) -> str:
    """Return the last lines of a text, or the end of a line that is too long by itself."""
    if len(text) <= MAX_PRINTED_CHARS:
        return text
    end = text[-MAX_PRINTED_CHARS:]
    return end.partition("\n")[2] or end


def chunk(channel: str, text: str, message_id: str | None) -> acp.SessionUpdate:
    """Return the update with a piece of the agent's text or, as `reasoning`, of its thoughts."""
    message_chunk: acp.ContentChunk = {"content": {"type": "text", "text": text}}
    if message_id is not None:
        message_chunk["messageId"] = message_id
    if channel == "reasoning":
        return {"sessionUpdate": "agent_thought_chunk", **message_chunk}
    return {"sessionUpdate": "agent_message_chunk", **message_chunk}


def gap_params(session_id: str, _first: int, _last: int) -> acp.SessionNotification:
    """Return the update that says that others were left out."""
    return update_params(session_id, chunk("text", _LEFT_OUT, None))


def update_params(session_id: str, update: acp.SessionUpdate) -> acp.SessionNotification:
    return {"sessionId": session_id, "update": update}
