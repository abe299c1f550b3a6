"""A conversation at a glance, and lists of them: what is needed before one is opened."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.status import ConversationState, ForkOrigin, Isolation, PauseReason, Usage

ConversationId = Annotated[str, Field(min_length=1, max_length=128)]


class LockInfo(Contract):
    mine: bool
    """Whether this daemon has it open."""
    pid: int | None = None
    """The other process that has it open."""


class ContextInfo(Contract):
    """How full the model's context is, in tokens; `size` is absent when unknown."""

    used: int = 0
    """Size of the last prompt."""
    size: int | None = None
    """The model's window."""


class ConversationInfo(Contract):
    """A conversation at a glance."""

    id: str
    """Id of the conversation."""
    title: str
    """Its title."""
    folders: tuple[str, ...]
    """URIs of its folders; the first is the working directory."""
    status: ConversationState
    """For a conversation that no daemon has open: the last one in its log, even after a crash."""
    status_reason: PauseReason | None = None
    """Why it is paused."""
    model: str
    """The model by its name."""
    model_label: str
    """Its name for people."""
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
    """Values of its options, by id."""
    archived: bool = False
    """Whether it is archived."""
    tags: tuple[str, ...] = ()
    """Words of the user by which to find it."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    queue_length: int
    """Number of messages that wait."""
    pending_count: int
    """Number of approvals and questions that wait."""
    lock: LockInfo
    """Who has it open."""
    forked_from: ForkOrigin | None = None
    parent_id: str | None = None
    """For a sub-agent: the conversation that it works for."""
    isolated: Isolation | None = None
    """Set if its edits and commands reach the disk only when the user lands them."""


class ListParams(Contract):
    """List the conversations of the open folders, or of one folder."""

    folder: str | None = None
    """URI or path; by default all open folders."""
    query: Annotated[str, Field(max_length=200)] | None = None
    """Part of the title; case is ignored."""
    texts: bool = False
    """Take those with all words of `query` in the title or in what was said and done. The first
    such list may take long, since it reads every log once."""
    archived: bool = False
    """List archived conversations instead of the others."""
    parent_id: ConversationId | None = None
    """List the sub-agents of this conversation; no other list contains them."""
    cursor: str | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 50
    """Largest number of conversations."""


class ListResult(Contract):
    """Newest first."""

    conversations: tuple[ConversationInfo, ...]
    matches: dict[str, str] | None = None
    """With `texts`, the line with most of the words, by id; none where the title has them all."""
    next_cursor: str | None = None
