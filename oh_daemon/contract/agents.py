"""Named agents that a conversation can delegate to."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import ConversationId


class AgentListParams(Contract):
    """List the agents to delegate to, for a conversation, a folder or the open folders."""

    conversation_id: ConversationId | None = None
    folder: str | None = None


class AgentSummary(Contract):
    name: str
    description: str
    source: Literal["builtin", "project", "user"]
    path: str | None = None
    """The file that defines it."""


class AgentListResult(Contract):
    """Sorted by name; a project's agent replaces a user's agent of the same name."""

    agents: tuple[AgentSummary, ...]
