"""How a conversation is doing: its state, what it has cost, what it is a copy of."""

from __future__ import annotations

from typing import Literal

from oh_daemon.protocol.base import Contract

ConversationState = Literal[
    "idle", "running", "waiting", "pausing", "paused", "interrupting", "error", "finished", "closed"
]
PauseReason = Literal[
    "user", "budget", "network", "rateLimit", "storage", "daemonRestarted", "stuck"
]
Isolation = Literal["overlay", "worktree"]
"""What an isolated conversation works in."""


class Cost(Contract):
    amount: float
    """How much."""
    currency: Literal["USD"] = "USD"
    """Its unit."""


class Usage(Contract):
    """Tokens and cost of model calls. `cost` is absent when any call had no known price."""

    input_tokens: int = 0
    """All prompt tokens, including those read from a cache."""
    output_tokens: int = 0
    """Tokens of the answers, with those of reasoning."""
    cache_read_tokens: int = 0
    """Prompt tokens that came from the provider's cache."""
    cache_write_tokens: int = 0
    """Prompt tokens that were written to it."""
    reasoning_tokens: int = 0
    """Tokens that the model spent on reasoning."""
    cost: Cost | None = None
    """The cost, if all prices are known."""
    requests: int = 0
    """Number of model calls."""


class ForkOrigin(Contract):
    """The conversation that another one was forked from, and the last event that both share."""

    id: str
    """Id of that conversation."""
    seq: int
    """`seq` of that event."""
