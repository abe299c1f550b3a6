"""Resolves what a message refers to (images, other conversations) before it is accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oh_daemon.app.images import (
    is_image_file,
    mentioned_images,
    require_sight,
    stored_images,
    with_images,
)
from oh_daemon.app.live import Live
from oh_daemon.contract.content import ImagePart, Part
from oh_daemon.core.condensation import render_transcript
from oh_daemon.core.context import LOG_SCHEME
from oh_daemon.core.ports import EventLog
from oh_daemon.fronts.lsp.daemon import Daemon

_MAX_TRANSCRIPT_CHARS = 32 << 10


def prepared(
    daemon: Daemon,
    live: Live,
    content: Sequence[Part],
    act: Callable[[Sequence[Part]], Any],
    model: str | None = None,
) -> Any:
    """Call `act` on the content once what it refers to is read; later requests wait.

    `model` is the model that gets the content, if not the conversation's own.
    """
    names_skill = any(part.type in {"command", "skill"} for part in content)
    if not names_skill and not any(_refers(part) for part in content):
        return act(content)
    folders = daemon.folders()

    def work() -> tuple[Part, ...]:
        if names_skill:
            live.workbench.skills.refresh()  # A skill may be new, or newly trusted.
        chosen = daemon.shared.model_for(model or live.conversation.state.options_now["model"])
        require_sight(content, chosen)
        log, sees = live.conversation.journal.log, chosen.traits.sees_images
        stored = resolved(daemon, content, folders, log)
        shown = mentioned_images(content, live.workbench.folders) if sees else ()
        return with_images(stored, shown, lambda: chosen, log)

    return daemon.serial.run(live.id, work, act)


def _refers(part: Part) -> bool:
    """Return whether the part refers to something on the disk or in memory."""
    return isinstance(part, ImagePart) or _is_conversation(part) or is_image_file(part)


def _is_conversation(part: Part) -> bool:
    return part.type == "resourceLink" and part.uri.startswith(LOG_SCHEME)


def resolved(
    daemon: Daemon, content: Sequence[Part], folders: Sequence[Path], log: EventLog
) -> tuple[Part, ...]:
    """Store the content's images in `log` and fill in transcripts of conversations it mentions.

    Reads the disk. Raises `UserError` for what does not exist.
    """

    def with_transcript(part: Part) -> Part:
        if part.type != "resourceLink" or not _is_conversation(part):
            return part
        state, _, _ = daemon.conversations.read(part.uri.removeprefix(LOG_SCHEME), folders)
        said = render_transcript(state.items, _MAX_TRANSCRIPT_CHARS)
        return part.model_copy(update={"text": f"{state.title}\n\n{said}"})

    stored = stored_images(content, daemon.attachments, log)
    return tuple(with_transcript(part) for part in stored)
