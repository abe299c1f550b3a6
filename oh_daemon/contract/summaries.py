"""A conversation at a glance, and lists of them: what is needed before one is opened."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.status import ConversationState, ForkOrigin, Isolation, PauseReason, Usage

ConversationId = Annotated[str, Field(min_length=1, max_length=128)]


class LockInfo(Contract):
    mine: bool
    pid: int | None = None


class ContextInfo(Contract):
    """How full the model's context is, in tokens; `size` is absent when unknown."""

    used: int = 0
    size: int | None = None


class ConversationInfo(Contract):
    """A conversation at a glance."""

    id: str
    title: str
    folders: tuple[str, ...]
    status: ConversationState
    """For a conversation that no daemon has open: the last one in its log, even after a crash."""
    status_reason: PauseReason | None = None
    model: str
    model_label: str
    created_at: str
    updated_at: str
    last_seq: int
    epoch: str | None = None
    turn_id: str | None = None
    """The open turn."""
    message_count: int
    """Messages of the user and of the agent."""
    file_count: int | None = None
    """How many files its turns changed; absent if it was summed up by an earlier version."""
    usage: Usage | None = None
    context: ContextInfo = ContextInfo()
    options: dict[str, str]
    archived: bool = False
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    queue_length: int
    pending_count: int
    lock: LockInfo
    forked_from: ForkOrigin | None = None
    parent_id: str | None = None
    """For a sub-agent: the conversation that it works for."""
    isolated: Isolation | None = None
    """Set if its edits and commands reach the disk only when the user lands them."""


class ListParams(Contract):
    """List the conversations of the open folders, or of one folder."""

    folder: str | None = None
    query: Annotated[str, Field(max_length=200)] | None = None
    """Part of the title; case is ignored."""
    archived: bool = False
    """List archived conversations instead of the others."""
    parent_id: ConversationId | None = None
    """List the sub-agents of this conversation; no other list contains them."""
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 50


class ListResult(Contract):
    """Newest first."""

    conversations: tuple[ConversationInfo, ...]
    next_cursor: str | None = None
