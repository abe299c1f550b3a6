"""Resolves what a message refers to (images, other conversations) before it is accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.mentions import Mentions, is_mention
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.attachments.images import (
    Attachments,
    FilePart,
    is_image_file,
    mentioned_images,
    require_sight,
    stored_images,
    with_images,
)
from oh_daemon.features.condensation.condensation import render_transcript
from oh_daemon.kernel.context import LOG_SCHEME
from oh_daemon.kernel.ports import EventLog
from oh_daemon.protocol import messages as m
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import InvalidParamsError

_MAX_TRANSCRIPT_CHARS = 32 << 10


def refers(params: Any) -> bool:
    """Return whether the message in these params refers to something on the disk or in memory."""
    return any(_names_skill(part) or _refers(part) for part in content_of(params))


def mentions(content: Sequence[Part]) -> bool:
    """Return whether a text is still to be taken that a network or a program may hold up."""
    links = (part for part in content if part.type == "resourceLink" and part.text is None)
    return any(map(is_mention, links))


def content_of(params: Any) -> Sequence[Part]:
    """Return the message in these params."""
    content = params.message if isinstance(params, m.ResumeParams) else params.content
    return content or ()


def _names_skill(part: Part) -> bool:
    return part.type in {"command", "skill"}


def _refers(part: Part) -> bool:
    if isinstance(part, FilePart) or is_mention(part):
        return True
    return _is_conversation(part) or is_image_file(part)


def _is_conversation(part: Part) -> bool:
    return part.type == "resourceLink" and part.uri.startswith(LOG_SCHEME)


def with_content(params: Any, fill: Callable[[Sequence[Part]], Sequence[Part]]) -> Any:
    """Return the params with their message filled in."""
    name = "message" if isinstance(params, m.ResumeParams) else "content"
    with InvalidParamsError.naming(content=name):
        return params.model_copy(update={name: fill(content_of(params))})


class Resolver:
    """Resolves messages with what a client has: its uploads and its folders."""

    def __init__(self, conversations: Conversations, attachments: Attachments) -> None:
        self._conversations = conversations
        self._attachments = attachments

    def for_open_conversation(
        self,
        open_conversation: OpenConversation,
        content: Sequence[Part],
        folders: Sequence[Path],
        model: str | None = None,
    ) -> Sequence[Part]:
        """Return the content with what it refers to, for `model` or the conversation's own.

        Reads the disk if the message `refers` to something. Raises `UserError`.
        """
        if any(_names_skill(part) for part in content):
            open_conversation.runtime.skills.refresh()  # A skill may be new, or newly trusted.
        elif not any(_refers(part) for part in content):
            return content
        options = open_conversation.conversation.state.options_now
        chosen_model = self._conversations.context.user.models.model_for(model or options["model"])
        require_sight(content, chosen_model)
        log, own_folders = (
            open_conversation.conversation.journal.log,
            open_conversation.runtime.folders,
        )
        parts = self.stored_part(content, folders, log)
        images = mentioned_images(content, own_folders, chosen_model.traits)
        return with_images(parts, images, lambda: chosen_model, log)

    def stored_part(
        self, content: Sequence[Part], folders: Sequence[Path], log: EventLog
    ) -> tuple[Part, ...]:
        """Store the images in `log`, and fill in transcripts of conversations that are mentioned.

        Reads the disk. Raises `UserError` for what does not exist.
        """
        return stored_images(self.fill_in(content, folders), self._attachments, log)

    def fill_in(
        self, content: Sequence[Part], folders: Sequence[Path], cancel: CancelToken | None = None
    ) -> tuple[Part, ...]:
        """Return the content with the texts of what is mentioned that have not been taken yet.

        Reads the disk and the network, for 30 s at most. Raises `Cancelled`, or `UserError` for
        what does not exist.
        """
        own = Mentions(self._conversations.context, folders, cancel or CancelToken())
        return tuple(
            own.fill_in(self._with_transcript(part, folders), f"content.{n}")
            for n, part in enumerate(content)
        )

    def _with_transcript(self, part: Part, folders: Sequence[Path]) -> Part:
        if part.type != "resourceLink" or not _is_conversation(part):
            return part
        state, _, _ = self._conversations.read(part.uri.removeprefix(LOG_SCHEME), folders)
        transcript = render_transcript(state.items, _MAX_TRANSCRIPT_CHARS)
        return part.model_copy(update={"text": f"{state.title}\n\n{transcript}"})
