"""Skills: what is known of each, and the method that lists them."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import ConversationId

SkillKind = Literal["agent", "keyword", "task", "path", "always"]
SkillSource = Literal["project", "user"]


class SkillListParams(Contract):
    """Skills of the project and of the user, also those that are not used, with the reason."""

    conversation_id: ConversationId | None = None
    folder: str | None = None
    """Of this folder instead; without both, of the folders that are open."""


class SkillInfo(Contract):
    name: str
    description: str
    kind: SkillKind
    """What sets it off: the agent itself, a keyword, a command of the user, a path, or nothing."""
    source: SkillSource
    path: str
    argument_hint: str | None = None
    problem: str | None = None
    """Why it is not used."""


class SkillListResult(Contract):
    """Nearest first."""

    skills: tuple[SkillInfo, ...]
