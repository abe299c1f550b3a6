"""Named agents that a conversation can delegate to."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract
from oh_daemon.contract.messages import ConversationId


class AgentListParams(Contract):
    """Agents that can be delegated to, in a conversation, a folder or the open folders."""

    conversation_id: ConversationId | None = None
    folder: str | None = None


class AgentSummary(Contract):
    name: str
    description: str
    source: Literal["builtin", "project", "user"]
    path: str | None = None
    """The file that defines it."""


class AgentListResult(Contract):
    """By name; of the same name the project's counts before the user's."""

    agents: tuple[AgentSummary, ...]
