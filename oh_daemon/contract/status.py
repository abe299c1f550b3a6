"""How a conversation is doing: its state, what it has cost, what it is a copy of."""

from __future__ import annotations

from typing import Literal

from oh_daemon.contract.base import Contract

ConversationState = Literal[
    "idle", "running", "waiting", "pausing", "paused", "interrupting", "error", "finished", "closed"
]
PauseReason = Literal[
    "user", "budget", "network", "rateLimit", "storage", "daemonRestarted", "stuck"
]
Isolation = Literal["view", "worktree"]
"""What an isolated conversation works in."""


class Cost(Contract):
    amount: float
    currency: Literal["USD"] = "USD"


class Usage(Contract):
    """Tokens and cost of model calls. `cost` is absent when any call had no known price."""

    input_tokens: int = 0
    """All prompt tokens, including those read from a cache."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Cost | None = None
    requests: int = 0


class ForkOrigin(Contract):
    """The conversation that another one was forked from, and the last event that both share."""

    id: str
    seq: int
