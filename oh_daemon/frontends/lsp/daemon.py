"""What the handlers of one connection work with, and how they reach a conversation.

Everything that touches the disk runs on `workers`. Requests about a conversation that is still
being opened wait for it (`serial`), so that a client may send them without waiting itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.message_content import Resolver
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import ConversationContext
from oh_daemon.features.attachments.images import Attachments
from oh_daemon.features.review.handlers import AgentChanges
from oh_daemon.frontends.lsp.client_tool_calls import ClientTools
from oh_daemon.frontends.lsp.publisher import Publisher
from oh_daemon.frontends.lsp.sync import OpenDocuments
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.jsonrpc.serial import Serial
from oh_daemon.protocol.errors import (
    ApprovalNotFoundError,
    ConversationLockedError,
    InvalidParamsError,
)
from oh_daemon.workspace.file_names import FileNames

_ALONE = nullcontext()


class Daemon(Struct, dict=True):
    """One per client. Its fields are never reassigned once it serves."""

    documents: OpenDocuments
    outbox: Outbox
    publisher: Publisher
    client_tools: ClientTools
    conversations: Conversations
    serial: Serial
    attachments: Attachments = field(default_factory=Attachments)
    speaking: Callable[[str], AbstractContextManager[object]] = lambda _conversation_id: _ALONE
    """Entered, with the conversation locked, while a message of this client is taken."""
    has_others: Callable[[str], bool] = lambda _conversation_id: False
    """Whether other clients take part in a conversation, so that it stays open without this one."""
    leaving: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """What is to be done when this client leaves others alone."""
    started_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.publisher.asker.carry_on = self.carry_on

    @cached_property
    def resolver(self) -> Resolver:
        return Resolver(self.conversations, self.attachments)

    @cached_property
    def file_names(self) -> FileNames:
        return FileNames(self.context.services.spawner)

    @property
    def context(self) -> ConversationContext:
        return self.conversations.context

    @property
    def workers(self) -> Executor:
        return self.serial.workers

    def folders(self) -> list[Path]:
        """Return the folders that the client has open."""
        return list(self.documents.folders())

    def find_asking(self, request_id: str) -> OpenConversation | None:
        """Return the conversation that waits for this answer of the user, or has got it."""
        for open_conversation in self.conversations.all_open():
            state = open_conversation.conversation.state
            if request_id in state.pending or request_id in state.resolutions:
                return open_conversation
        return None

    def asking(self, request_id: str) -> OpenConversation:
        """Return the conversation that waits for this answer of the user, or has got it.

        Raises `ApprovalNotFoundError`, and `ConversationLockedError` if it is only followed.
        """
        if (open_conversation := self.find_asking(request_id)) is not None:
            return open_conversation
        for followed_log in self.conversations.all_followed():
            if request_id in followed_log.state.pending:
                raise ConversationLockedError(followed_log.id, followed_log.owner)
        raise ApprovalNotFoundError(request_id)

    def carry_on(self, conversation_id: str) -> bool:
        """Resume a conversation that the end of a daemon stopped; return whether it was one.

        A client without a plugin does not read `needsResume`, so its answer resumes the turn.
        """
        open_conversation = self.conversations.find_open(conversation_id)
        if open_conversation is None:
            return False
        conversation = open_conversation.conversation
        with conversation.journal.condition:
            is_stopped = conversation.state.status_reason == "daemonRestarted"
            if is_stopped:
                conversation.resume()
            return is_stopped

    def reconsider(self) -> None:
        """Let what waits for the user be decided again, since trust or settings are new."""
        for open_conversation in self.conversations.all_open():
            open_conversation.conversation.reconsider()

    def stop(self, left_s: float) -> None:
        """End all conversations within about `left_s`, then every process that is left."""
        self.conversations.close_all(max(0.1, left_s - 0.8))
        self.context.services.close()


def started_pool(n_threads: int) -> ThreadPoolExecutor:
    """Return a pool whose threads all run.

    If one could not be started later, `submit` would raise and keep the work all the same.
    """
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="opener")
    all_run = threading.Barrier(n_threads + 1)
    for _ in range(n_threads):
        pool.submit(all_run.wait)
    all_run.wait()
    return pool


def changes_of(open_conversation: OpenConversation) -> AgentChanges:
    """Return the changes for review.

    Raises `InvalidParamsError` if the conversation has no folder, and what
    `OpenConversation.isolated` raises.
    """
    if not open_conversation.runtime.folders.folders:
        raise InvalidParamsError.at("conversationId", "without a folder it changes no files")
    return AgentChanges(
        open_conversation.conversation,
        open_conversation.runtime.documents,
        open_conversation.isolated_changes,
    )


def newest(conversations: Iterable[OpenConversation]) -> OpenConversation | None:
    """Return the conversation that changed last."""
    return max(conversations, key=lambda opened: opened.conversation.state.updated_at, default=None)
