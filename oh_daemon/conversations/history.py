"""Forks a conversation, rolls it back to before a message, and restores files; also as handlers.

Calls block. To go back, the agent must be at rest. Nothing is lost: the log keeps what was rolled
back, and a file whose restoring would lose a change of others is left alone and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path

import orjson

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.conversation_runtime import ConversationRuntime
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.description import describe
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.review.file_history import FileHistory, histories_of, restore
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import History, new_id
from oh_daemon.kernel.notices import caveat_of
from oh_daemon.kernel.records import begin_of_item, begin_of_message, fork_records, standing_records
from oh_daemon.kernel.recovery import drop_events, stopping_events, withdrawn_prompts
from oh_daemon.kernel.state import is_tool_item
from oh_daemon.protocol import branches, plain
from oh_daemon.protocol import events as e
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import (
    ConversationNotFoundError,
    InvalidParamsError,
    InvalidStateError,
    ToolError,
)
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.protocol.messages import Conflict, ConversationResult
from oh_daemon.storage.log_ownership import write_fork
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.paths import uri_from_path

_MAX_NAMED = 20
"""How many restored files the model is told by name."""
_GIT_STAYS = (
    "what git did is not taken back with the files; use git for it, for instance `git reset`"
)


def conversation_fork(
    conversations: Conversations,
    params: branches.ForkParams,
    folders: Sequence[Path],
    on_forked: Callable[[History], object],
) -> ConversationResult:
    """Handle `conversation/fork`; `on_forked` lets the client know of the new conversation."""
    journal = fork(conversations, params, folders).conversation.journal
    on_forked(journal)
    return ConversationResult(conversation=describe(journal))


def fork(
    conversations: Conversations,
    params: branches.ForkParams,
    folders: Sequence[Path],
    *,
    at_work: bool = True,
) -> OpenConversation:
    """Start a conversation with the first part of another one, and open it.

    Raises `InvalidParamsError`, `ConversationNotFoundError`, `StorageError`, and
    `InvalidStateError` when the source is kept in memory only.
    """
    _, records, _ = conversations.read(params.conversation_id, folders)
    try:
        place = conversations.place_of(params.conversation_id, folders)
    except ConversationNotFoundError as exc:
        raise InvalidStateError(
            "the conversation is in memory only, so no branch of it can be kept; start one that "
            "is kept, in a folder"
        ) from exc
    context = conversations.context
    fork_start = fork_records(records, params, context.services.clock.now())
    forked_id = write_fork(place, fork_start, context.services.commit, context.services.own_logs)
    return conversations.open(forked_id, [place.parents[2]], at_work=at_work)


def conversation_rollback(
    conversation: Conversation, runtime: ConversationRuntime, params: branches.RollbackParams
) -> branches.RollbackResult:
    """Roll back a message of the user and everything after it.

    Raises `InvalidParamsError`, `ConversationBusyError` and `StorageError`.
    """
    _require_message(conversation, params.to_item_id)
    conversation.require_rest()
    records = _records(conversation)
    to_seq = begin_of_message(standing_records(records), params.to_item_id)
    result = branches.RestoreResult(restored=(), conflicts=())
    if params.files == "restore":
        result = _restore(conversation, runtime, records, to_seq, is_dry=params.dry_run)
    if not params.dry_run:
        with conversation.journal.condition:
            conversation.require_rest()
            rolled_back = e.ConversationRolledBack(
                to_seq=to_seq, to_item_id=params.to_item_id, files=params.files
            )
            conversation.journal.append(*_ending(conversation), rolled_back)
            if conversation.journal.status != "idle":
                conversation.journal.append(conversation.turns.status_event("idle"))
            runtime.learn_again(conversation.state)
        conversation.journal.log.sync()
    return branches.RollbackResult(
        restored=result.restored,
        conflicts=result.conflicts,
        conversation=describe(conversation.journal),
    )


def checkpoint_list(
    conversation: Conversation, runtime: ConversationRuntime
) -> branches.CheckpointListResult:
    """List the moments before the agent changed files, oldest first."""
    by_id: dict[str, branches.Checkpoint] = {}
    records = standing_records(_records(conversation))
    n_files = _checkpointed(records)
    for record in records:
        event = record["event"]
        if event["type"] != "item.completed" or not is_tool_item(item := event["item"]):
            continue
        n_changed = len(item.get("changes", ())) if item["status"] == "completed" else 0
        if n := n_changed or n_files.get(item["id"], 0):
            at, title = item.get("startedAt") or record["ts"], item["title"]
            by_id[item["id"]] = branches.Checkpoint(
                id=item["id"], created_at=at, title=title, n_files=n
            )
    store = runtime.checkpoints
    return branches.CheckpointListResult(
        checkpoints=tuple(by_id.values()), problem=store.problem if store else None
    )


def _records(conversation: Conversation) -> list[plain.Record]:
    return [orjson.loads(line) for line in conversation.journal.lines()]


def _checkpointed(records: Iterable[plain.Record]) -> dict[str, int]:
    """Return of how many files each action left a checkpoint, by the action's id."""
    return {
        record["itemId"]: record["event"]["nFiles"]
        for record in records
        if record["event"]["type"] == "checkpoint.created" and "itemId" in record
    }


def checkpoint_restore(
    conversation: Conversation,
    runtime: ConversationRuntime,
    params: branches.CheckpointRestoreParams,
) -> branches.RestoreResult:
    """Undo the agent's changes of files from an action on, and tell the agent.

    Raises `InvalidParamsError`, `ConversationBusyError` and `StorageError`.
    """
    conversation.require_rest()
    checkpoints = checkpoint_list(conversation, runtime).checkpoints
    by_id = {checkpoint.id: checkpoint for checkpoint in checkpoints}
    if params.checkpoint_id not in by_id:
        what = "names no checkpoint of this conversation"
        raise InvalidParamsError.at("checkpointId", what, "unknown")
    records = _records(conversation)
    begin = begin_of_item(records, params.checkpoint_id)
    result = _restore(conversation, runtime, records, begin, is_dry=params.dry_run)
    if result.restored and not params.dry_run:
        title = f"Files are as before: {by_id[params.checkpoint_id].title}"
        names = ", ".join(uri.rpartition("/")[2] for uri in result.restored[:_MAX_NAMED])
        note = f"The user took back your changes of files since then. Restored: {names}."
        notice = NoticeItem(id=new_id(), title=title, note=note)
        conversation.journal.append(e.ItemCompleted(item=notice))
        conversation.journal.log.sync()
    return result


def _restore(
    conversation: Conversation,
    runtime: ConversationRuntime,
    records: Sequence[plain.Record],
    to_seq: int,
    *,
    is_dry: bool,
) -> branches.RestoreResult:
    """Restore each file changed after `to_seq` separately; report those that stay as they are."""
    later = [record for record in records if record["seq"] > to_seq]
    documents, result = runtime.documents, list[str]()
    conflicts = [
        *_without_checkpoint(runtime.folders.folders, records, later),
        *_git_that_stays(later),
    ]
    pasts = histories_of(records, to_seq, documents, runtime.checkpoints)
    store = runtime.checkpoints if pasts and not is_dry else None
    stop_watching = store.watch(CancelToken()) if store else lambda: None
    reviews: list[e.ChangesReviewed] = []
    for path, past in pasts.items():
        uri = uri_from_path(documents.folders.as_opened(path))
        try:
            if restore(documents, path, past, is_dry=is_dry):
                result.append(uri)
                reviews += _review_events(conversation, documents, uri, past)
        except (ToolError, OSError) as exc:
            reason = str(exc).partition("\n")[0]
            conflicts.append(Conflict(uri=uri, reason=reason))
    checkpoint = stop_watching()
    events = [*([checkpoint] if checkpoint else ()), *([] if is_dry else reviews)]
    if events:
        conversation.journal.append(*events)
    return branches.RestoreResult(restored=tuple(result), conflicts=tuple(conflicts))


def _without_checkpoint(
    folders: Sequence[Path], records: Sequence[plain.Record], later: Sequence[plain.Record]
) -> list[Conflict]:
    """Name the folders if commands may have changed them while there were no checkpoints."""
    reasons = [
        why for record in records if (why := _why_no_checkpoint(record["event"])) is not None
    ]
    n_files = _checkpointed(later)
    if not (reasons and any(_may_have_changed(record["event"], n_files) for record in later)):
        return []
    return [Conflict(uri=uri_from_path(folder), reason=reasons[-1]) for folder in folders]


def _git_that_stays(later: Sequence[plain.Record]) -> list[Conflict]:
    """Name what commands did to repositories since."""
    events = [record["event"] for record in later]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [
        Conflict(uri=change["repository"], reason=f"{change['title']}: {_GIT_STAYS}")
        for item in items
        if item["kind"] == "command" or item["kind"] == "fileChange"
        for change in item.get("git", ())
    ]


def _why_no_checkpoint(event: plain.Event) -> str | None:
    """Return what a warning that there are no checkpoints says."""
    if event["type"] != "item.completed" or event["item"]["kind"] != "notice":
        return None
    is_problem = caveat_of(event["item"]) == ("noCheckpoints", None)
    return event["item"].get("description") if is_problem else None


def _may_have_changed(event: plain.Event, ids: Container[str]) -> bool:
    """Return whether a command ran that does more than read, and left no checkpoint."""
    if event["type"] != "item.completed" or event["item"]["kind"] != "command":
        return False
    item = event["item"]
    return item.get("risk") != "low" and item["status"] != "rejected" and item["id"] not in ids


def _review_events(
    conversation: Conversation, documents: Documents, uri: str, past: FileHistory
) -> Sequence[e.ChangesReviewed]:
    """Return the event that takes what was restored out of the user's review, if it is there."""
    review = conversation.state.reviews.get(uri)
    if review is None or (past.target is not None and past.target.text is None):
        return ()
    now = documents.history.put(past.target.text if past.target else None)
    base = now if review["gaps"] else review["base"]
    return (e.ChangesReviewed(uri=uri, decision="undone", base=base, now=now),)


def _require_message(conversation: Conversation, item_id: str) -> None:
    with conversation.journal.condition:
        state = conversation.state
        if item_id not in state.positions or state.item(item_id)["kind"] != "userMessage":
            what = "names no message of the user in this conversation"
            raise InvalidParamsError.at("toItemId", what, "unknown")


def _ending(conversation: Conversation) -> Sequence[Contract]:
    """Return the events that end what is on hold, because nobody can resume it any more."""
    state, now = conversation.state, conversation.journal.clock.now()
    prompts = withdrawn_prompts(state)
    if state.turn is not None:
        return [*prompts, *stopping_events(state, now, is_closing=False)]
    return [*prompts, *drop_events(state, now)]
