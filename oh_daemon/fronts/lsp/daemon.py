"""What the handlers of one connection work with, and how they reach a conversation.

Everything that touches the disk runs on `workers`; requests about a conversation that is just being
opened wait for it, so that a client may send them without waiting itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from oh_daemon.contract.errors import InvalidParamsError, StorageError
from oh_daemon.core.journal import Journal
from oh_daemon.core.ports import Json
from oh_daemon.fronts.conversations import Conversations
from oh_daemon.fronts.following import Followed
from oh_daemon.fronts.images import Attachments
from oh_daemon.fronts.lsp.client_tools import ClientTools
from oh_daemon.fronts.lsp.outbox import Outbox
from oh_daemon.fronts.lsp.publisher import Publisher
from oh_daemon.fronts.lsp.rpc import RequestContext
from oh_daemon.fronts.lsp.sync import Documents
from oh_daemon.fronts.models import Models
from oh_daemon.fronts.wiring import Live, Shared
from oh_daemon.workspace.names import FileNames
from oh_daemon.workspace.paths import path_from_uri

T = TypeVar("T")


@dataclass(slots=True)
class Daemon:
    """One per process. Fields are fixed; `lock` guards `opening`."""

    shared: Shared
    conversations: Conversations
    documents: Documents
    outbox: Outbox
    publisher: Publisher
    models: Models
    client_tools: ClientTools
    attachments: Attachments = field(default_factory=Attachments)
    workers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="opener")
    )
    file_names: FileNames = field(init=False)
    started_at: float = field(default_factory=time.monotonic)
    opening: dict[str, Future[Any]] = field(default_factory=dict[str, "Future[Any]"])
    """The last that is under way about a conversation as a whole, by id."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.file_names = FileNames(self.shared.spawner)

    def folders(self, named: tuple[str, ...] | None = None) -> list[Path]:
        """Folders by URI or path; without any, those the client has open.

        Raises `InvalidParamsError`.
        """
        if named is None:
            return list(self.documents.folders())
        return [parse_folder(name, "folders") for name in named]

    def cancel(self) -> None:
        """End what is under way in every conversation, and wait for nothing."""
        for live in self.conversations.all_live():
            live.agent.close(0)

    def stop(self, left_s: float) -> None:
        """End all conversations, then every process that is left."""
        self.conversations.close_all(max(0.1, left_s - 0.8))
        self.shared.spawner.close()
        self.shared.commit.close()

    def in_turn(self, conversation_id: str, work: Callable[[], T]) -> Future[T]:
        """Open, change or close it on a worker thread; requests that come meanwhile wait for it."""
        with self.lock:
            before = self.opening.get(conversation_id)
            done = self.workers.submit(work) if before is None else self._after(before, work)
            self.opening[conversation_id] = done
        done.add_done_callback(lambda _done: self._forget(conversation_id, done))
        return done

    def _after(self, before: Future[Any], work: Callable[[], Any]) -> Future[Any]:
        done: Future[Any] = Future()
        before.add_done_callback(lambda _before: _settle(done, lambda: self.workers.submit(work)))
        return done

    def _forget(self, conversation_id: str, done: Future[Any]) -> None:
        with self.lock:
            if self.opening.get(conversation_id) is done:
                self.opening.pop(conversation_id)


Handler = Callable[[Daemon, Any, RequestContext], Any]
"""What a method does with its valid params: a `rpc.Method` that knows the daemon."""


def on_open(
    handler: Callable[[Daemon, Live, Any, RequestContext], Any],
    on_followed: Callable[[Daemon, Followed, Any, RequestContext], Any] | None = None,
) -> Handler:
    """A handler that gets the open conversation that its params name, once it is opened.

    One that is only followed goes to `on_followed`. Raises `ConversationLockedError` and
    `ConversationNotFoundError`, also through the future.
    """

    def call(daemon: Daemon, params: Any, context: RequestContext) -> Any:
        def on_live(_opened: object = None) -> Any:
            followed = daemon.conversations.find_followed(params.conversation_id)
            if followed is not None and on_followed is not None:
                return on_followed(daemon, followed, params, context)
            live = daemon.conversations.live(params.conversation_id)
            return handler(daemon, live, params, context)

        opening = daemon.opening.get(params.conversation_id)
        return on_live() if opening is None else then(opening, on_live)

    return call


def on_journal(handler: Callable[[Daemon, Journal, Any, RequestContext], Any]) -> Handler:
    """A handler that only reads, so one that is followed will do."""

    def on_live(daemon: Daemon, live: Live, params: Any, context: RequestContext) -> Any:
        return handler(daemon, live.conversation, params, context)

    return on_open(on_live, handler)


def on_worker(handler: Callable[[Daemon, Any, list[Path]], Any]) -> Handler:
    """A handler that reads the disk: it gets the client's folders and runs on a worker thread."""

    def call(daemon: Daemon, params: Any, _context: RequestContext) -> Any:
        return daemon.workers.submit(handler, daemon, params, daemon.folders())

    return call


def then(first: Future[Any], act: Callable[[Any], Any]) -> Future[Any]:
    """`act` on the result of a future, on the thread that completes it; futures are followed."""
    done: Future[Any] = Future()
    first.add_done_callback(lambda finished: _settle(done, lambda: act(finished.result())))
    return done


def on_own_thread(name: str, compute: Callable[[], Any]) -> Future[Any]:
    """For what may take as long as a model's answer: the workers stay free."""
    done: Future[Any] = Future()
    threading.Thread(target=_settle, args=(done, compute), name=name, daemon=True).start()
    return done


def _settle(done: Future[Any], compute: Callable[[], Any]) -> None:
    try:
        result = compute()
    except BaseException as exc:  # noqa: BLE001 - handed on to whoever waits.
        done.set_exception(exc)
        return
    if isinstance(result, Future):
        future = cast("Future[Any]", result)
        future.add_done_callback(lambda second: _settle(done, second.result))
    else:
        done.set_result(result)


def once_durable(live: Live, result: Json) -> Future[Json]:
    """`result` as soon as everything that was appended for it is on the disk."""
    done: Future[Json] = Future()

    def on_synced(error: StorageError | None) -> None:
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    live.conversation.log.after_sync(on_synced)
    return done


def parse_folder(name: str, field: str) -> Path:
    """A folder by URI or absolute path. Raises `InvalidParamsError` naming the field."""
    path = path_from_uri(name) if ":" in name.split("/", maxsplit=1)[0] else Path(name)
    if path is None or not path.is_absolute():
        what = f"{name!r} must be a file URI or an absolute path"
        raise InvalidParamsError.at(field, what, "not_a_path")
    return path
