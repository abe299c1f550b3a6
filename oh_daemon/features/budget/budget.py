"""Limits of cost beyond one turn, for a conversation and for the user's day, and of time.

A `Budget` adds up what its conversation pays, keeps the day's sum where all daemons of the user
find it, and checks the limits before each step. It rereads them, so raising a limit is enough to
go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from oh_daemon.common.cancel import CancelToken
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.journal import History, Listener
from oh_daemon.kernel.notices import warn
from oh_daemon.kernel.ports import Caveat, Clock
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import TurnOutcome
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.protocol.settings import Settings

logger = logging.getLogger(__name__)

_BY_USER = frozenset({"turn.started", "turn.resumed", "approval.resolved", "input.resolved"})
_SET_PRICES = "Some had none; `llm.inputCostPerToken` and `llm.outputCostPerToken` set them."


class Budget(Listener, Feature):
    """The budget of one conversation; `spend` adds to today's cost and returns the day's sum."""

    def __init__(
        self, settings: Callable[[], Settings], spend: Callable[[float], float], clock: Clock
    ) -> None:
        self._settings = settings
        self._spend = spend
        self._clock = clock
        self._lock = threading.Lock()
        self._unsaved_usd = 0.0
        self._alone_since = clock.monotonic()

    def rest_before_step(self, state: State) -> TurnOutcome | None:
        """Return why no further step may begin, or None. Called by the worker; uses the disk."""
        settings, today_usd = self._settings(), self.save()
        limit = settings.max_cost_usd_per_conversation
        if limit is not None and state.known_cost_usd >= limit:
            return TurnOutcome("maxCostUsdPerConversation", "paused", "budget")
        limit = settings.max_cost_usd_per_day
        if limit is not None and today_usd >= limit:
            return TurnOutcome("maxCostUsdPerDay", "paused", "budget")
        limit = settings.max_minutes
        if limit is not None and self._clock.monotonic() - self._alone_since >= limit * 60:
            return TurnOutcome("maxMinutes", "paused", "budget")
        return None

    def before_step(self, conversation: Conversation, _cancel: CancelToken) -> None:
        """Warn when a limit is set, but calls of unknown price do not count toward it."""
        settings, state = self._settings(), conversation.state
        limits = (
            state.max_cost_usd,
            settings.max_cost_usd_per_conversation,
            settings.max_cost_usd_per_day,
        )
        if any(limits) and state.usage and "cost" not in state.usage:
            title = "The limit of cost counts only calls with a known price"
            warn(conversation.journal, Caveat("unknownPrice", title, _SET_PRICES))

    def save(self) -> float:
        """Store the cost that is not stored yet; return today's sum as far as it is known."""
        with self._lock:
            new, self._unsaved_usd = self._unsaved_usd, 0.0
        try:
            return self._spend(new)
        except DaemonError as exc:
            with self._lock:
                self._unsaved_usd += new
            logger.warning("what was spent today is not kept: %s", exc)
            return new

    def on_record(self, _history: History, _line: bytes, record: plain.Record) -> None:
        """Count what calls cost, except a sub-agent's, which its own conversation counts."""
        event = record["event"]
        if _is_by_user(event):
            self._alone_since = self._clock.monotonic()
        if event["type"] == "usage.updated" and event.get("purpose") != "subagent":
            with self._lock:
                cost = event["usage"].get("cost")
                self._unsaved_usd += cost["amount"] if cost else 0.0


def _is_by_user(event: plain.Event) -> bool:
    """Return whether the user has just done something, and leaves the agent alone from now on."""
    if event["type"] == "item.completed":
        return event["item"]["kind"] == "userMessage"
    return event["type"] in _BY_USER and event.get("by") != "policy"
