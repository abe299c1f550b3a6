"""Pure decisions: how a message that arrives now is delivered, and what may be resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from oh_daemon.contract.content import CommandPart, Part, SkillPart
from oh_daemon.contract.errors import InvalidStateError, OverloadedError
from oh_daemon.contract.items import Delivery
from oh_daemon.core.plain_text import clipped, first_line
from oh_daemon.core.state import State

MAX_QUEUE = 32
MAX_TITLE = 60
BUSY = frozenset({"running", "waiting", "pausing", "interrupting"})

Disposition = Literal["started", "steered", "queued", "interruptedAndStarted"]


def plan_delivery(
    state: State, delivery: Delivery, *, run: bool, has_options: bool = False
) -> Disposition:
    """Decide how a message that arrives now is delivered.

    Raises `OverloadedError` when the queue is full, and `InvalidStateError` for a message with
    options of its own that would join another turn.
    """
    if has_options and (not run or _plan(state, delivery, run=run) == "steered"):
        raise InvalidStateError(
            "a message with overrides needs a turn of its own; send it with delivery queue or "
            "interrupt"
        )
    return _plan(state, delivery, run=run)


def _plan(state: State, delivery: Delivery, *, run: bool) -> Disposition:
    is_busy = state.status in BUSY
    waits = delivery == "queue" and (is_busy or state.status == "paused")
    if not run or waits:
        if len(state.queue) < MAX_QUEUE:
            return "queued"
        raise OverloadedError(
            f"{MAX_QUEUE} messages are queued already; remove one with conversation/queue",
            retry_after_ms=1000,
        )
    if (is_busy and delivery == "interrupt") or state.status == "interrupting":
        return "interruptedAndStarted"
    return "steered" if state.turn is not None else "started"


DELIVERED: dict[Disposition, Delivery] = {"steered": "steer", "interruptedAndStarted": "interrupt"}


def may_resume(state: State) -> bool:
    """Return whether a turn is paused, or the last one ended early."""
    ended_early = (state.last_turn or {}).get("status") in {"interrupted", "failed"}
    return state.status == "paused" or (state.status in {"idle", "error"} and ended_early)


def title_of(content: Sequence[Part], mask: Callable[[str], str] = str) -> str:
    """Return a message's first line, shortened; masked before, or half a secret would stay."""
    return clipped(mask(first_line("\n".join(map(_typed, content)))), MAX_TITLE)


def _typed(part: Part) -> str:
    """Return what the user typed."""
    if isinstance(part, CommandPart | SkillPart):
        return f"/{part.name} {part.args or ''}"
    return part.text if part.type == "text" else ""
