"""Other conversations that a message mentions: their words go with it, for the model to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oh_daemon.contract.content import Part, ResourceLinkPart
from oh_daemon.core.condensation import render_transcript
from oh_daemon.core.context import LOG_SCHEME
from oh_daemon.core.state import State

_MAX_CHARS = 32 << 10


def has_mentions(content: Sequence[Part]) -> bool:
    return any(_is_mention(part) for part in content)


def _is_mention(part: Part) -> bool:
    return part.type == "resourceLink" and part.uri.startswith(LOG_SCHEME)


def with_transcripts(content: Sequence[Part], read: Callable[[str], State]) -> tuple[Part, ...]:
    """The content with what is said in the conversations that it links to. Reads the disk.

    Raises `ConversationNotFoundError`.
    """
    return tuple(
        _with_transcript(part, read) if isinstance(part, ResourceLinkPart) else part
        for part in content
    )


def _with_transcript(part: ResourceLinkPart, read: Callable[[str], State]) -> ResourceLinkPart:
    if not _is_mention(part):
        return part
    state = read(part.uri.removeprefix(LOG_SCHEME))
    text = f"{state.title}\n\n{render_transcript(state.items, _MAX_CHARS)}"
    return part.model_copy(update={"text": text})
