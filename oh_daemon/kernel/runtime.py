"""What a conversation's agent works with, composed once in `conversations/open_conversation`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.approval.consent import Policy
from oh_daemon.kernel.pending_changes import Landings
from oh_daemon.kernel.ports import Model, Tool
from oh_daemon.kernel.prompt import ContextFile
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import Rest
from oh_daemon.protocol import events as e
from oh_daemon.protocol.items import Location
from oh_daemon.protocol.settings import Condenser


class Slots:
    """The turn slots that all conversations of a daemon share."""

    def __init__(self, limit: int = 64) -> None:
        self._changed = threading.Condition()
        self._free = limit
        self._waiting: deque[object] = deque()

    @contextmanager
    def taken(self, cancel: CancelToken) -> Generator[None]:
        """Hold a slot; raises `Cancelled` when cancelled while waiting for one."""
        self._take(cancel)
        try:
            cancel.raise_if_cancelled()
            yield
        finally:
            self._give_back()

    @contextmanager
    def lent(self, cancel: CancelToken) -> Generator[None]:
        """Give back the caller's slot while its turn waits for other turns."""
        self._give_back()
        try:
            yield
        finally:
            self._take(cancel)

    def _take(self, cancel: CancelToken) -> None:
        """Wait in line for a slot; after a cancel take one at once, as the turn soon frees it."""
        ticket = object()
        with cancel.notifying(self._changed), self._changed:
            self._waiting.append(ticket)
            self._changed.wait_for(lambda: cancel.is_cancelled or self._is_next(ticket))
            self._waiting.remove(ticket)
            self._free -= 1
            # If two slots became free at once, the next in line has looked in vain: wake it again.
            self._changed.notify_all()

    def _give_back(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()

    def _is_next(self, ticket: object) -> bool:
        return self._free > 0 and self._waiting[0] is ticket


def no_watch(_cancel: CancelToken) -> Callable[[], None]:
    return lambda: None


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the core knows of the world, beside its log."""

    model_for: Callable[[str], Model]
    tools: Callable[[], Mapping[str, Tool]]
    """Returns the tools offered now, by name; replaced as a whole, so any thread may call it."""
    policy: Policy = field(default_factory=Policy)
    slots: Slots = field(default_factory=Slots)
    tool_choice: Literal["auto", "required"] = "auto"
    """`required` holds for the first request of a turn only."""
    condenser: Condenser = "pipeline"
    context_for: Callable[[Sequence[Location]], Sequence[ContextFile]] = lambda _locations: ()
    """Returns what the project says about the places of an action, only what is new each time."""
    titles: bool = False
    """Whether a new conversation gets a title from the model."""
    watch_files: Callable[[CancelToken], Callable[[], e.CheckpointCreated | None]] = no_watch
    """Looks at the folders before an action; the function returned looks again for changes."""
    landings: Landings | None = None
    """Brings what commands changed in their view into the open folders, where there is a view."""
    over_budget: Callable[[State], Rest | None] = lambda _state: None
    """Checks limits beyond those of the turn; may read the disk."""
    before_step: Callable[[CancelToken], None] = lambda _cancel: None
    """Brings `tools` up to date; may wait for servers that are starting."""
