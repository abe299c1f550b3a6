"""What a conversation's agent works with, composed once in `app/live`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from oh_daemon.contract import events as e
from oh_daemon.contract.items import Location
from oh_daemon.contract.settings import Condenser
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.consent import Policy
from oh_daemon.core.endings import Rest
from oh_daemon.core.landing import Landings
from oh_daemon.core.ports import Model, Tool
from oh_daemon.core.prompt import ContextFile
from oh_daemon.core.slots import Slots
from oh_daemon.core.state import State


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
