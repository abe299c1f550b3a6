"""Skills: the description of each, and the method that lists them."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import ConversationId

SkillKind = Literal["agent", "keyword", "task", "path", "always"]
SkillSource = Literal["project", "user"]


class SkillListParams(Contract):
    """List the skills of the project and the user; one that is not used says why."""

    conversation_id: ConversationId | None = None
    folder: str | None = None
    """List those of this folder instead; without both fields, those of the open folders."""


class SkillInfo(Contract):
    name: str
    description: str
    kind: SkillKind
    """What activates it: the agent, a keyword, a user's command, a path; `always` needs nothing."""
    source: SkillSource
    path: str
    argument_hint: str | None = None
    problem: str | None = None
    """Why it is not used."""


class SkillListResult(Contract):
    """Nearest folder first."""

    skills: tuple[SkillInfo, ...]
