"""The log of a conversation that is begun or opened, and how it counts.

A log that was not begun here is folded without what was allowed in it, and its options become those
that the user has now, unless they are stricter.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.services import AgentConfig, ConversationContext
from oh_daemon.features.models.models import ModelCatalog
from oh_daemon.features.trust.trust import TrustBook
from oh_daemon.kernel.folding import apply
from oh_daemon.kernel.journal import new_id
from oh_daemon.kernel.ports import EventLog
from oh_daemon.kernel.records import without_authority
from oh_daemon.kernel.state import State
from oh_daemon.protocol import events as e
from oh_daemon.protocol.errors import (
    ConversationLockedError,
    InvalidParamsError,
    InvalidStateError,
    UserError,
    WorkspaceUntrustedError,
)
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.protocol.settings import CHOICES, Settings, stricter
from oh_daemon.storage.catalog import DAMAGED, Catalog
from oh_daemon.storage.event_log import open_log
from oh_daemon.storage.log_scan import LOG_NAME, TakeRecord
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.workspace.paths import paths_from_uris, unusable, uri_from_path


def replay_into(state: State, place: Path, folders: Sequence[Path], *, is_own: bool) -> TakeRecord:
    """Return what applies the records of the log at `place`; a foreign one works in `folders`."""
    if is_own:
        return partial(apply, state)
    uris = tuple(dict.fromkeys(map(uri_from_path, (place.parents[2], *folders))))
    return lambda record: apply(state, without_authority(record, uris))


def config_for_foreign(
    config: AgentConfig, state: State, settings: Settings, models: ModelCatalog
) -> AgentConfig:
    """Return the recipe with the options that replace those of a foreign log."""
    options: dict[str, str] = {"mode": settings.mode, "approval": settings.approval}
    for name, value in options.items():
        if (logged_value := state.options.get(name)) in CHOICES[name]:
            options[name] = stricter(name, value, logged_value)
    with suppress(UserError):  # Without a model, the conversation can still be read.
        options["model"] = settings.model or models.require_default()
    return replace(config, options={**options, **config.options})


def working_folders(
    state: State, place: Path, user_folder: Path, *, moves: bool
) -> tuple[list[Path], Path | None]:
    """Return where a conversation works, and from where its folder was moved, if it was.

    Raises `InvalidStateError` when it must not move, or cannot since it is isolated.
    """
    folders, home = paths_from_uris(state.folders), place.parents[2]
    if place.parents[1] == user_folder:
        return folders, None
    if not state.created_at:
        return [home], None  # The first event, which would say so, is damaged.
    if not folders or any(_is_same(folder, home) for folder in folders):
        return folders, None
    if not moves or state.isolation is not None:
        raise InvalidStateError(
            f"conversation {state.conversation_id!r} works in {str(folders[0])!r}, but its log is "
            f"in {str(home)!r} now; "
            + ("an isolated one cannot move" if moves else "with `moved=True`, it works there")
        )
    return [home, *folders[1:]], folders[0]


def _is_same(folder: Path, other_path: Path) -> bool:
    with suppress(OSError):
        return folder.samefile(other_path)
    return False


def begin_again(
    open_conversation: OpenConversation, place: Path, settings: Settings, model: str
) -> str:
    """Begin a conversation whose first event is damaged, empty; return what is said about it."""
    journal, folders = (
        open_conversation.conversation.journal,
        open_conversation.runtime.folders.folders,
    )
    description = (
        "the first event of the log is damaged, so the conversation is empty and has the options"
        f" that you have now; what can still be read is in {str(place / LOG_NAME)!r}"
    )
    options = {"mode": settings.mode, "approval": settings.approval, "model": model}
    event = e.ConversationCreated(
        title=DAMAGED,
        folders=tuple(map(uri_from_path, folders)),
        agent=open_conversation.agent_info(options),
        options=options,
        max_steps=settings.max_steps,
        max_cost_usd=settings.max_cost_usd,
    )
    notice = NoticeItem(id=new_id(), severity="warning", title=DAMAGED, description=description)
    journal.append(event, e.ItemCompleted(item=notice))
    return description


def require_usable(folder: Path, trust: TrustBook) -> None:
    """Raises `InvalidParamsError`, and `WorkspaceUntrustedError` if no agent may work there."""
    if problem := unusable(folder):
        raise InvalidParamsError.at("folders", f"{str(folder)!r} {problem}", "not_a_folder")
    if trust.of(folder) == "none":
        raise WorkspaceUntrustedError(
            f"no agent may work in {str(folder)!r}; workspace/setTrust changes that"
        )


@contextmanager
def new_log(
    context: ConversationContext, catalog: Catalog | None, conversation_id: str
) -> Generator[tuple[EventLog, str]]:
    """Yield a new log, in memory without a catalog, and its epoch.

    It is removed when the conversation fails to start.
    """
    if catalog is None:
        yield MemoryLog(), new_id()
        return
    place = catalog.create(conversation_id)
    try:
        log = open_log(place, context.services.commit, client=context.client.name, create=True)
        with closed_on_failure(log.log):
            context.services.own_logs.add(place)
            yield log.log, log.epoch
    except ConversationLockedError:
        raise
    except BaseException:
        catalog.discard(conversation_id)
        raise


@contextmanager
def closed_on_failure(log: EventLog) -> Generator[None]:
    """Release the log's lock when starting or opening the conversation fails."""
    try:
        yield
    except BaseException:
        log.close()
        raise
