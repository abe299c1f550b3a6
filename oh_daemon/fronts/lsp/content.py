"""What a message refers to, made ready before the message is taken: images, other conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oh_daemon.contract.content import Part
from oh_daemon.core.ports import EventLog
from oh_daemon.core.state import State
from oh_daemon.fronts.images import check_images, has_images, require_sight, stored_images
from oh_daemon.fronts.lsp.daemon import Daemon
from oh_daemon.fronts.mentions import has_mentions, with_transcripts
from oh_daemon.fronts.wiring import Live


def prepared(
    daemon: Daemon,
    live: Live,
    content: Sequence[Part],
    act: Callable[[Sequence[Part]], Any],
    model: str | None = None,
) -> Any:
    """`act` on the content once what it needs of the disk is done; later requests wait.

    `model` is who gets it, when that is not the conversation's.
    """
    names_skill = any(part.type in {"command", "skill"} for part in content)
    if not (names_skill or has_images(content) or has_mentions(content)):
        return act(content)
    check_images(content, daemon.attachments)
    folders = daemon.folders()

    def work() -> tuple[Part, ...]:
        if names_skill:
            live.workbench.skills.refresh()  # It may be new, or be trusted only now.
        name = model or live.conversation.state.options_now["model"]
        require_sight(content, daemon.shared.model_for(name))
        return resolved(daemon, content, folders, live.conversation.log)

    return daemon.in_turn.run(live.id, work, act)


def resolved(
    daemon: Daemon, content: Sequence[Part], folders: Sequence[Path], log: EventLog
) -> tuple[Part, ...]:
    """The content with its images in this log, and the words of conversations it mentions.

    Raises `UserError` for what is not there.
    """

    def read(conversation_id: str) -> State:
        return daemon.conversations.read(conversation_id, folders)[0]

    return with_transcripts(stored_images(content, daemon.attachments, log), read)
