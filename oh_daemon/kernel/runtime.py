"""The parts of a conversation's agent, composed once in `conversations/open_conversation`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.extension_points import (
    ActionApproval,
    CommandChanges,
    Condenser,
    Feature,
    FindStuck,
    Hooks,
    OpenQuestions,
    Toolbox,
    WatchFiles,
)
from oh_daemon.kernel.ports import Model


class Slots:
    """The turn slots that all conversations of a daemon share."""

    def __init__(self, limit: int = 64) -> None:
        self._condition = threading.Condition()
        self._free = limit
        self._waiters: deque[object] = deque()

    @contextmanager
    def take(self, cancel: CancelToken) -> Generator[None]:
        """Hold a slot; raises `Cancelled` when cancelled while waiting for one."""
        self._wait_for_slot(cancel)
        try:
            cancel.raise_if_cancelled()
            yield
        finally:
            self._give_back()

    @contextmanager
    def give_back(self, cancel: CancelToken) -> Generator[None]:
        """Give back the caller's slot while its turn waits for other turns."""
        self._give_back()
        try:
            yield
        finally:
            self._wait_for_slot(cancel)

    def _wait_for_slot(self, cancel: CancelToken) -> None:
        """Wait in line for a slot; after a cancel take one at once, as the turn soon frees it."""
        ticket = object()
        with cancel.notifying(self._condition), self._condition:
            self._waiters.append(ticket)
            self._condition.wait_for(lambda: cancel.is_cancelled or self._is_next(ticket))
            self._waiters.remove(ticket)
            self._free -= 1
            # If two slots became free at once, the next in line has looked in vain: wake it again.
            self._condition.notify_all()

    def _give_back(self) -> None:
        with self._condition:
            self._free += 1
            self._condition.notify_all()

    def _is_next(self, ticket: object) -> bool:
        return self._free > 0 and self._waiters[0] is ticket


class Runtime(Struct, frozen=True):
    """The parts of one conversation's agent; `kernel.extension_points` says what each does."""

    model_for: Callable[[str], Model]
    toolbox: Toolbox
    features: Sequence[Feature]
    approval: ActionApproval
    hooks: Hooks
    questions: Sequence[OpenQuestions]
    condenser: Condenser
    find_stuck: FindStuck
    command_changes: CommandChanges | None
    """None where commands change the open folders themselves."""
    watch_files: WatchFiles | None
    slots: Slots
    tool_choice: Literal["auto", "required"]
    """`required` holds for the first request of a turn only."""
    titles: bool
    """Whether a new conversation gets a title from the model."""
    on_idle: Callable[[], None]
    """Called on the worker's thread, without a lock, whenever a turn has come to rest."""
