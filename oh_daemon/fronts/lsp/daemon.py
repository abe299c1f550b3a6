"""What the handlers of one connection work with, and how they reach a conversation.

Everything that touches the disk runs on `workers`. Requests about a conversation that is still
being opened wait for it (`serial`), so that a client may send them without waiting itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oh_daemon.app.conversations import Conversations
from oh_daemon.app.following import Followed
from oh_daemon.app.images import Attachments
from oh_daemon.app.live import Live
from oh_daemon.app.models import Models
from oh_daemon.app.shared import Shared
from oh_daemon.contract.errors import InvalidParamsError, StorageError
from oh_daemon.core.journal import History
from oh_daemon.core.ports import Json
from oh_daemon.fronts.lsp.client_tools import ClientTools
from oh_daemon.fronts.lsp.folder_names import parse_folder
from oh_daemon.fronts.lsp.publisher import Publisher
from oh_daemon.fronts.lsp.sync import OpenDocuments
from oh_daemon.fronts.wire.dispatch import RequestContext
from oh_daemon.fronts.wire.outbox import Outbox
from oh_daemon.fronts.wire.serial import Serial
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.listing import FileNames


@dataclass(slots=True)
class Daemon:
    """One per process. Its fields are never reassigned."""

    shared: Shared
    conversations: Conversations
    documents: OpenDocuments
    outbox: Outbox
    publisher: Publisher
    models: Models
    client_tools: ClientTools
    attachments: Attachments = field(default_factory=Attachments)
    workers: ThreadPoolExecutor = field(default_factory=lambda: _started_pool(4))
    serial: Serial = field(init=False)
    file_names: FileNames = field(init=False)
    started_at: float = field(default_factory=time.monotonic)
    version: str = field(default_factory=lambda: version("oh-daemon"))

    def __post_init__(self) -> None:
        self.serial = Serial(self.workers)
        self.file_names = FileNames(self.shared.spawner)

    def folders(self, named: tuple[str, ...] | None = None) -> list[Path]:
        """Return the folders named by URI or path; without names, those the client has open.

        Raises `InvalidParamsError`.
        """
        if named is None:
            return list(self.documents.folders())
        return list(dict.fromkeys(parse_folder(name, "folders") for name in named))

    def cancel(self) -> None:
        """Cancel all work under way in every conversation, without waiting for its end."""
        for live in self.conversations.all_live():
            live.agent.close(0)

    def stop(self, left_s: float) -> None:
        """End all conversations within about `left_s`, then every process that is left."""
        self.conversations.close_all(max(0.1, left_s - 0.8))
        self.shared.spawner.close()
        self.shared.commit.close()


def _started_pool(n_threads: int) -> ThreadPoolExecutor:
    """Return a pool whose threads all run.

    If one could not be started later, `submit` would raise and keep the work all the same.
    """
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="opener")
    all_run = threading.Barrier(n_threads + 1)
    for _ in range(n_threads):
        pool.submit(all_run.wait)
    all_run.wait()
    return pool


Handler = Callable[[Daemon, Any, RequestContext], Any]
"""Serves a method: a `rpc.Method` that gets the daemon and validated params."""


def on_open(
    handler: Callable[[Daemon, Live, Any, RequestContext], Any],
    on_followed: Callable[[Daemon, Followed, Any, RequestContext], Any] | None = None,
) -> Handler:
    """Make a handler that gets the conversation named in its params, once that is open.

    A conversation that is only followed goes to `on_followed`. The handler raises
    `ConversationLockedError` and `ConversationNotFoundError`, also through its future.
    """

    def call(daemon: Daemon, params: Any, context: RequestContext) -> Any:
        def on_live(failure: BaseException | None = None) -> Any:
            followed = daemon.conversations.find_followed(params.conversation_id)
            if followed is not None and on_followed is not None:
                return on_followed(daemon, followed, params, context)
            if (
                failure is not None
                and daemon.conversations.find_live(params.conversation_id) is None
            ):
                raise failure
            live = daemon.conversations.live(params.conversation_id)
            return handler(daemon, live, params, context)

        waiting = daemon.serial.wait(params.conversation_id, on_live)
        return on_live() if waiting is None else waiting

    return call


def on_open_if_named(handler: Callable[[Daemon, Live | None, Any], Any]) -> Handler:
    """Like `on_open`, for params that may name no conversation; then the handler gets None."""

    @on_open
    def on_named(daemon: Daemon, live: Live, params: Any, _context: RequestContext) -> Any:
        return handler(daemon, live, params)

    def call(daemon: Daemon, params: Any, context: RequestContext) -> Any:
        if params.conversation_id is None:
            return handler(daemon, None, params)
        return on_named(daemon, params, context)

    return call


def on_journal(handler: Callable[[Daemon, History, Any, RequestContext], Any]) -> Handler:
    """Make a handler that only reads, so a conversation that is only followed will do."""

    def on_live(daemon: Daemon, live: Live, params: Any, context: RequestContext) -> Any:
        return handler(daemon, live.conversation.journal, params, context)

    return on_open(on_live, handler)


def on_open_worker(handler: Callable[[Live, Any], Any]) -> Handler:
    """Make a handler that looks at an open conversation's files or shells, on a worker thread.

    The client gets the events that it causes after the answer.
    """

    @on_open
    def call(daemon: Daemon, live: Live, params: Any, context: RequestContext) -> Any:
        context.hold(live.id)
        return daemon.workers.submit(handler, live, params)

    return call


def in_turn(handler: Callable[[Live, Any], Any]) -> Handler:
    """Like `on_open_worker`, for one that changes files: later requests wait until it is done."""

    @on_open
    def call(daemon: Daemon, live: Live, params: Any, context: RequestContext) -> Any:
        context.hold(live.id)
        return daemon.serial.run(live.id, lambda: handler(live, params))

    return call


def on_worker(handler: Callable[[Daemon, Any, list[Path]], Any]) -> Handler:
    """Make a handler that reads the disk: on a worker thread, with the client's folders."""

    def call(daemon: Daemon, params: Any, _context: RequestContext) -> Any:
        return daemon.workers.submit(handler, daemon, params, daemon.folders())

    return call


def documents_of(live: Live) -> Documents:
    """Return the conversation's documents. Raises `InvalidParamsError` if it has no folder."""
    if not live.workbench.folders.folders:
        raise InvalidParamsError.at("conversationId", "without a folder it changes no files")
    return live.workbench.documents


def newest(conversations: Iterable[Live]) -> Live | None:
    """Return the conversation that changed last."""
    return max(conversations, key=lambda live: live.conversation.state.updated_at, default=None)


def once_durable(live: Live, result: Json) -> Future[Json]:
    """Return a future of `result`, done once everything appended so far is on the disk."""
    done: Future[Json] = Future()

    def on_synced(error: StorageError | None) -> None:
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    live.conversation.journal.log.after_sync(on_synced)
    return done
