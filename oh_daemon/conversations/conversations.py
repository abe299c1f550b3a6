"""The conversations of one process: starts, opens, finds, lists, closes and deletes them.

An `OpenConversation` runs here; all others are logs that `storage/catalog` finds.
Those that touch the disk block for some milliseconds: call them on a worker thread, never on the
main loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import orjson

from oh_daemon.conversations.description import describe, describe_state, plan_update, summarize
from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.isolation import with_isolation
from oh_daemon.conversations.listing import catalogs_of, list_summaries
from oh_daemon.conversations.open_conversation import (
    LogWithState,
    OpenConversation,
    OpenConversations,
)
from oh_daemon.conversations.opening import (
    begin_again,
    closed_on_failure,
    config_for_foreign,
    new_log,
    replay_into,
    require_usable,
    working_folders,
)
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.features.approval.policy import check_options, option_pickers
from oh_daemon.features.attachments.images import require_sight
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.delivery import title_of
from oh_daemon.kernel.folding import fold
from oh_daemon.kernel.journal import History, new_id
from oh_daemon.kernel.ports import EventLog, Json
from oh_daemon.kernel.records import FOREIGN
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import BUSY
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import (
    ConversationBusyError,
    ConversationLockedError,
    ConversationNotFoundError,
    InvalidStateError,
    OverloadedError,
    ReadOnlyError,
    StorageError,
)
from oh_daemon.protocol.summaries import ConversationInfo
from oh_daemon.storage.catalog import Catalog
from oh_daemon.storage.event_log import open_log
from oh_daemon.storage.log_scan import scan_log
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.storage.search_index import IndexEntry
from oh_daemon.workspace.paths import paths_from_uris, uri_from_path

_DAMAGES = (StorageError, InvalidStateError, LookupError, TypeError, AttributeError, ValueError)
"""What opening a log raises when the log is damaged beyond use."""


Equip: TypeAlias = (
    "Callable[[Conversations, Conversation, Sequence[Path], AgentConfig], AgentConfig]"
)


class Conversations:
    """Thread-safe. One per client."""

    def __init__(
        self,
        context: ConversationContext,
        equip: Equip,
        open_conversations: OpenConversations | None = None,
    ) -> None:
        """`equip` adds tools to a configuration; `open_conversations` belong to all clients."""
        self.context = context
        self._equip = equip
        self.open_conversations = open_conversations or OpenConversations()
        self._lock, self._open_conversations, self._followed_logs = (
            self.open_conversations.lock,
            self.open_conversations.by_id,
            self.open_conversations.followed_logs,
        )
        self._entries: dict[str, IndexEntry] = {}

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
        """Create a conversation and its worker. Raises `UserError` or `StorageError`."""
        self._require_room()
        user, mask = self.context.user, self.context.services.masker.mask
        for folder in folders:
            require_usable(folder, user.trust)
        settings = user.settings.of(folders[0] if folders else None).settings
        model = params.options.get("model") or settings.model or user.models.require_default()
        require_sight(params.content or (), user.models.model_for(model))
        defaults = {"mode": settings.mode, "approval": settings.approval, "model": model}
        options = {**defaults, **check_options(params.options)}
        instructions = "\n\n".join(filter(None, (settings.instructions, params.instructions)))
        config = config or AgentConfig(
            instructions, params.tools or m.ToolFilter(), result_schema=params.result_schema
        )
        config = with_isolation(config, self.context, folders, is_isolated=params.isolated)
        state = State(conversation_id or new_id())
        catalog = None if params.ephemeral else self.catalogs(folders)[0]
        with new_log(self.context, catalog, state.conversation_id) as (log, epoch):
            open_conversation = self._make(state, log, epoch, folders, config)
            open_conversation.written_out(params.content or ())
            event = e.ConversationCreated(
                title=params.title or title_of(params.content or (), mask),
                folders=tuple(uri_from_path(folder) for folder in folders),
                agent=open_conversation.agent_info(options),
                options=options,
                max_steps=params.max_steps or settings.max_steps,
                max_cost_usd=params.max_cost_usd or settings.max_cost_usd,
                result_schema=config.result_schema,
                metadata=params.metadata,
                parent_id=config.parent.id if config.parent else None,
                isolated=config.isolated,
            )
            open_conversation.conversation.journal.append(event, cause=cause)
            open_conversation.begin_isolation()
        return self._add(open_conversation, at_work=at_work)

    def open(
        self,
        conversation_id: str,
        folders: Sequence[Path],
        *,
        config: AgentConfig | None = None,
        at_work: bool = True,
        moves: bool = True,
    ) -> OpenConversation:
        """Return the conversation, and open it from its log unless it is at work already.

        With `moves`, one whose folder was moved works where its log is now.

        Raises `ConversationNotFoundError`, `ConversationLockedError`, `InvalidStateError` without
        `moves`, or `StorageError`.
        """
        if (open_conversation := self.find_open(conversation_id)) is not None:
            if at_work:
                open_conversation.start()
            return open_conversation
        self._require_room()
        services, user = self.context.services, self.context.user
        place = self.place_of(conversation_id, folders)
        state, is_own = State(conversation_id), services.own_logs.has(place)
        recover = replay_into(state, place, folders, is_own=is_own)
        log = open_log(place, services.commit, recover, client=self.context.client.name)
        with closed_on_failure(log.log):
            has_begun = bool(state.created_at)
            if not (state.seq or log.is_damaged):
                # Killed before its first event: no client knows it, and a start may reuse its id.
                raise ConversationNotFoundError(conversation_id)
            own, moved_from = working_folders(state, place, services.user_folder, moves=moves)
            settings = user.settings.of(own[0] if own else None).settings
            config = config or AgentConfig(settings.instructions)
            if not is_own:
                config = config_for_foreign(config, state, settings, user.models)
            open_conversation = self._make(state, log.log, log.epoch, own, config)
            repairs = log.repairs
            if not has_begun:
                model = settings.model or user.models.require_default()
                repairs = (*repairs, begin_again(open_conversation, place, settings, model))
            open_conversation.take_up(moved_from)
        open_conversation.repairs = repairs if is_own else (*repairs, FOREIGN)
        return self._add(open_conversation, at_work=at_work)

    def open_or_follow(
        self, conversation_id: str, folders: Sequence[Path], on_over: Callable[[Followed], object]
    ) -> OpenConversation | Followed:
        """Open the conversation, or follow its log when another process has it open.

        `on_over` is called when that process has released it, so that it can be opened here.
        """
        followed_log = self.find_followed(conversation_id)
        if followed_log is not None and followed_log.is_live:
            return followed_log
        self.leave(conversation_id)
        try:
            return self.open(conversation_id, folders)
        except ConversationLockedError as error:
            owner = error.owner
        place, listeners = self.place_of(conversation_id, folders), self.context.client.listeners
        followed_log = Followed(place, owner, listeners)
        try:
            # The other process may have released it before we began to watch.
            open_conversation = self.open(conversation_id, folders)
        except ConversationLockedError:
            self._follow(followed_log, on_over)
            return followed_log
        except BaseException:
            followed_log.leave()
            raise
        followed_log.leave()
        return open_conversation

    def _follow(self, followed_log: Followed, on_over: Callable[[Followed], object]) -> None:
        def over() -> None:
            if self.find_followed(followed_log.id) is followed_log:
                self.leave(followed_log.id)
                on_over(followed_log)

        with self._lock:
            self._followed_logs[followed_log.id] = followed_log
        followed_log.start(over)

    def find_followed(self, conversation_id: str) -> Followed | None:
        """Return the conversation of another process that is followed here, or None."""
        with self._lock:
            return self._followed_logs.get(conversation_id)

    def all_followed(self) -> list[Followed]:
        with self._lock:
            return list(self._followed_logs.values())

    def leave(self, conversation_id: str) -> None:
        """Stop following the conversation."""
        with self._lock:
            followed_log = self._followed_logs.pop(conversation_id, None)
        if followed_log is not None:
            followed_log.leave()

    def _make(
        self, state: State, log: EventLog, epoch: str, folders: Sequence[Path], config: AgentConfig
    ) -> OpenConversation:
        log_with_state, equip = LogWithState(log, state, epoch), partial(self._equip, self)
        return OpenConversation(
            self.context, config, log_with_state, folders, equip, self._keep_summary
        )

    def _add(self, open_conversation: OpenConversation, *, at_work: bool) -> OpenConversation:
        with self._lock:
            self._open_conversations[open_conversation.id] = open_conversation
        with ExitStack() as on_failure:
            on_failure.callback(self.close, open_conversation.id)
            if at_work:
                open_conversation.start()
            on_failure.pop_all()
        self._keep_summary(open_conversation)
        return open_conversation

    def find_open(self, conversation_id: str) -> OpenConversation | None:
        with self._lock:
            return self._open_conversations.get(conversation_id)

    def find_history(self, conversation_id: str) -> History | None:
        """Return a conversation that is at work or followed here, or None."""
        open_conversation = self.find_open(conversation_id)
        return (
            open_conversation.conversation.journal
            if open_conversation is not None
            else self.find_followed(conversation_id)
        )

    def require_open(self, conversation_id: str) -> OpenConversation:
        """Return the conversation that is at work here.

        Raises `ConversationLockedError` when it is only followed, and `ConversationNotFoundError`,
        with a hint for the client, when it is not open here.
        """
        if (conversation := self.find_open(conversation_id)) is not None:
            return conversation
        if (followed_log := self.find_followed(conversation_id)) is not None:
            raise ConversationLockedError(conversation_id, followed_log.owner)
        raise ConversationNotFoundError(conversation_id)

    def all_open(self) -> list[OpenConversation]:
        with self._lock:
            return list(self._open_conversations.values())

    def close(self, conversation_id: str) -> None:
        """End the conversation's worker and release its log."""
        with self._lock:
            open_conversation = self._open_conversations.pop(conversation_id, None)
        if open_conversation is None:
            raise ConversationNotFoundError(conversation_id)
        open_conversation.agent.close()
        if open_conversation.conversation.journal.status not in BUSY | {"paused"}:
            # When the log cannot be written, its shells and its lock must still be released.
            with suppress(StorageError):
                open_conversation.conversation.journal.append(e.ConversationClosed())
        self._keep_summary(open_conversation)
        for feature in open_conversation.runtime.features:
            feature.close()
        open_conversation.close()

    def update(self, params: m.UpdateParams, folders: Sequence[Path]) -> ConversationInfo:
        """Change what lists show of a conversation; a closed one is opened only for this call."""
        was_open = self.find_open(params.conversation_id) is not None
        journal = self.open(params.conversation_id, folders, at_work=False).conversation.journal
        journal.append(plan_update(params, journal.state.metadata))
        journal.log.sync()
        if not was_open:
            self.close(params.conversation_id)
        return describe_state(journal.state, lock={"mine": was_open}, epoch=journal.epoch)

    def delete(
        self, conversation_id: str, folders: Sequence[Path], *, permanent: bool
    ) -> Conversation | None:
        """Delete a conversation and its sub-agents; return it, or None if its log was unusable.

        Raises what `open` raises, and `ConversationBusyError` when a turn is under way.
        """
        try:
            open_conversation = self.open(conversation_id, folders, at_work=False)
        except (ConversationNotFoundError, ReadOnlyError, *_DAMAGES):
            self._remove(conversation_id, folders, permanent=permanent)
            return None
        status = describe(open_conversation.conversation.journal).status
        if status in BUSY:
            raise ConversationBusyError(
                f"conversation {conversation_id!r} is {status}; interrupt it first"
            )
        folders = [*paths_from_uris(open_conversation.conversation.state.folders), *folders]
        for child in self.summaries(folders, conversation_id):
            self.delete(child["id"], folders, permanent=permanent)
        self.close(conversation_id)
        open_conversation.remove_isolation()
        self._remove(conversation_id, folders, permanent=permanent)
        return open_conversation.conversation

    def _remove(self, conversation_id: str, folders: Sequence[Path], *, permanent: bool) -> None:
        for catalog in self.catalogs(folders):
            if catalog.find_folder(conversation_id) is not None:
                catalog.remove(conversation_id, permanent=permanent)
                self.context.services.own_logs.forget(conversation_id)

    def cancel_all(self) -> None:
        """Cancel all work under way, without waiting for its end."""
        for open_conversation in self.all_open():
            open_conversation.agent.close(0)

    def close_all(self, deadline_s: float) -> None:
        """Close all conversations at once; a turn under way is recorded as interrupted."""
        self.cancel_all()
        with self._lock:
            open_conversation = list(self._open_conversations.values())
            self._open_conversations.clear()
        for followed_log in self.all_followed():
            followed_log.leave()
        for each in open_conversation:
            each.close(deadline_s / 2)
            self._keep_summary(each)

    def summaries(self, folders: Sequence[Path], parent_id: str | None = None) -> list[Json]:
        """Return summaries of top-level (or a parent's) conversations, newest first; open none."""
        # The stored summary of an open one is behind the log, so the catalog would read the log.
        histories = [
            *(open_conversation.conversation.journal for open_conversation in self.all_open()),
            *self.all_followed(),
        ]
        return list_summaries(self.catalogs(folders), parent_id, map(summarize, histories))

    def read(self, log_id: str, folders: Sequence[Path]) -> tuple[State, list[plain.Record], str]:
        """Return state, records and epoch of any conversation, without opening or locking it."""
        if (open_conversation := self.find_open(log_id)) is not None:
            records = [
                orjson.loads(line) for line in open_conversation.conversation.journal.lines()
            ]
            return fold(log_id, records), records, open_conversation.conversation.journal.epoch
        records: list[plain.Record] = []
        scan = scan_log(self.place_of(log_id, folders), records.append)
        state = fold(log_id, records)
        if not state.created_at:
            raise InvalidStateError(
                f"the first event of {log_id!r} is damaged; opened, it is an empty conversation"
            )
        return state, records, scan.header.get("epoch", "")

    def place_of(self, conversation_id: str, folders: Sequence[Path]) -> Path:
        """Return the folder of a conversation's log. Raises `ConversationNotFoundError`."""
        for catalog in self.catalogs(folders):
            if (place := catalog.find_folder(conversation_id)) is not None:
                return place
        raise ConversationNotFoundError(conversation_id, is_closed=False)

    def options_of(self, history: History) -> tuple[m.Option, ...]:
        """Return the option pickers of a conversation, with the models that settings offer."""
        user, options = self.context.user, history.state.options
        names = user.settings.of(None).settings.model_names
        return option_pickers(options, names, user.models.efforts_of(options["model"]))

    def _keep_summary(self, open_conversation: OpenConversation) -> None:
        """Store the summary that lists show while this is not open, and today's cost."""
        open_conversation.runtime.budget.save()
        if isinstance(open_conversation.conversation.journal.log, MemoryLog):
            return
        summary = summarize(open_conversation.conversation.journal)
        self.catalogs(paths_from_uris(summary["folders"]))[0].write_meta(
            open_conversation.id, summary
        )

    def _require_room(self) -> None:
        limit = self.context.user.settings.of(None).settings.max_open_conversations
        with self._lock:
            n_open = len(self._open_conversations) + len(self._followed_logs)
        if n_open >= limit:
            raise OverloadedError(
                f"{n_open} conversations are open, which is the limit; close one",
                retry_after_ms=1000,
            )

    def catalogs(self, folders: Sequence[Path]) -> list[Catalog]:
        """Return the catalogs where logs may be; a new log goes into the first."""
        return catalogs_of(folders, self.context.services.user_folder, self._entries)
