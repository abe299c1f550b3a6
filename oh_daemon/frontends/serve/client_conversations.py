"""The conversations of a process as one of its clients sees them: those of the folders it opened.

What belongs to no folder, and what the client has started or opened itself, it sees as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.conversations.sub_agents import equip
from oh_daemon.frontends.lsp.composition import Window
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import EventLog, Json
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.workspace.paths import path_from_uri


class ClientHost(Protocol):
    """What all clients share."""

    conversations: Conversations

    def act(self, conversation_id: str, window: Window) -> ConversationContext: ...

    def on_deleted(self, history: History, *, but: Window) -> None: ...

    def on_over(self, history: History) -> None: ...


class ClientConversations(Conversations):
    """See `Conversations`, all of which are the same for all clients."""

    def __init__(self, host: ClientHost, window: Window) -> None:
        super().__init__(window.context, equip, host.conversations.open_conversations)
        self._host = host
        self._window = window

    def find_open(self, conversation_id: str) -> OpenConversation | None:
        open_conversation = super().find_open(conversation_id)
        return (
            open_conversation
            if open_conversation and sees(self._window, open_conversation.conversation.journal)
            else None
        )

    def find_followed(self, conversation_id: str) -> Followed | None:
        followed_log = super().find_followed(conversation_id)
        return followed_log if followed_log and sees(self._window, followed_log) else None

    def all_open(self) -> list[OpenConversation]:
        return [
            each for each in super().all_open() if sees(self._window, each.conversation.journal)
        ]

    def all_followed(self) -> list[Followed]:
        return [each for each in super().all_followed() if sees(self._window, each)]

    def start(
        self,
        params: m.StartParams,
        folders: Sequence[Path],
        *,
        conversation_id: str | None = None,
        config: AgentConfig | None = None,
        cause: e.Cause | None = None,
        at_work: bool = True,
    ) -> OpenConversation:
        if conversation_id is not None and super().find_open(conversation_id) is not None:
            # It is in a folder of another client, or this one would have found it.
            self._window.publisher.subscribed_ids.discard(conversation_id)
            raise InvalidParamsError.at("clientRequestId", "another client has taken it", "taken")
        return super().start(
            params,
            folders,
            conversation_id=conversation_id,
            config=config,
            cause=cause,
            at_work=at_work,
        )

    def summaries(self, folders: Sequence[Path], parent_id: str | None = None) -> list[Json]:
        folders_open = self._window.documents.folders()
        return super().summaries(
            [each for each in folders if _is_in(each, folders_open)], parent_id
        )

    def open_or_follow(
        self,
        conversation_id: str,
        folders: Sequence[Path],
        on_over: Callable[[Followed], object],  # noqa: ARG002 - the host tells all clients.
    ) -> OpenConversation | Followed:
        return super().open_or_follow(conversation_id, folders, self._host.on_over)

    def delete(
        self, conversation_id: str, folders: Sequence[Path], *, permanent: bool
    ) -> Conversation | None:
        is_deleted = super().delete(conversation_id, folders, permanent=permanent)
        if is_deleted is not None:
            self._host.on_deleted(is_deleted.journal, but=self._window)
        return is_deleted

    def _make(
        self, state: State, log: EventLog, epoch: str, folders: Sequence[Path], config: AgentConfig
    ) -> OpenConversation:
        """Make it so that whoever sends the message of a turn acts in it."""
        context = self._host.act(state.conversation_id, self._window)
        own = Conversations(context, equip, self._host.conversations.open_conversations)
        return own._make(state, log, epoch, folders, config)


def sees(window: Window, history: History) -> bool:
    """Return whether a client may know of a conversation. Takes no lock and reads no disk twice."""
    publisher, state = window.publisher, history.state
    if publisher.is_heard(history):
        return True
    return _is_open(tuple(state.folders), window.documents.folders())


@lru_cache(4096)
def _is_open(folders: tuple[str, ...], open_folders: tuple[Path, ...]) -> bool:
    paths = [path for uri in folders if (path := path_from_uri(uri)) is not None]
    return not folders or any(_is_in(path, open_folders) for path in paths)


def _is_in(path: Path, open_folders: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in open_folders)
