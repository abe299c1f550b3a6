"""The budget of the calls that a daemon elsewhere makes with the user's key.

That daemon keeps the limits itself if it is honest. Here they hold whatever it does: it names no
conversation, so the conversations count that the user began or opened on this connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oh_daemon.common.amounts import render_usd
from oh_daemon.protocol.errors import ModelError
from oh_daemon.protocol.settings import Settings
from oh_daemon.protocol.status import Usage

_HINT = "raise the limit in your settings here, then resume"


class CallBudget:
    """Adds up what one connection costs. Thread-safe. Calls of unknown price do not count."""

    def __init__(self, settings: Callable[[], Settings], spend: Callable[[float], float]) -> None:
        """`spend` adds US dollars to what the user spent today, and returns the day's sum."""
        self._settings = settings
        self._spend = spend
        self._lock = threading.Lock()
        self._cost_usd = 0.0
        self._conversations: set[str] = set()

    def add_conversation(self, key: str) -> None:
        """Count a conversation that the user begins or opens there, each key once."""
        with self._lock:
            self._conversations.add(key)

    def check(self) -> None:
        """Raise `ModelError` once a limit is reached; calls under way may exceed it."""
        settings = self._settings()
        with self._lock:
            cost_usd, n_conversations = self._cost_usd, max(1, len(self._conversations))
        limit = settings.max_cost_usd_per_conversation
        if limit is not None and cost_usd >= limit * n_conversations:
            raise ModelError(
                f"the calls from there cost {render_usd(cost_usd)}, and "
                f"maxCostUsdPerConversation is ${limit:g}",
                hint=_HINT,
            )
        limit = settings.max_cost_usd_per_day
        if limit is not None and self._spend(0.0) >= limit:
            raise ModelError(f"maxCostUsdPerDay is reached: ${limit:g}", hint=_HINT)

    def add(self, usage: Usage) -> None:
        """Count the cost of a call that was answered."""
        if usage.cost is None:
            return
        with self._lock:
            self._cost_usd += usage.cost.amount
        self._spend(usage.cost.amount)
