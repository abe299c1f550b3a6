"""How much of a model's window a request fills, by our estimates and the provider's counts.

Sizes are characters, as `context.size_of` counts them; estimates are tokens.
"""

from __future__ import annotations

from msgspec import Struct

from oh_daemon.kernel.ports import Model
from oh_daemon.protocol.errors import ContextWindowExceededError

ASSUMED_WINDOW = 128_000
"""Input limit in tokens for a model whose limit is unknown."""
CHARS_PER_TOKEN = 4
"""In prose, such as our own prompt."""
LEAST_CHARS_PER_TOKEN = 3
"""In what tools show: code with line numbers, paths, logs."""
FULL = 0.8
"""Share of the window at which it is time to condense; the rest is for the answer."""
_MOST_OFF = 4
"""A provider's count that is off our own estimate by more than this factor counts as this much."""


class Size(Struct, frozen=True):
    """Size of a request: `n_fixed` counts the system prompt and the tools, `messages` the rest."""

    n_fixed: int
    messages: int

    @property
    def tokens(self) -> float:
        """Our own estimate."""
        return self.n_fixed / CHARS_PER_TOKEN + self.messages / LEAST_CHARS_PER_TOKEN


def check_fits(tokens: int, model: Model) -> None:
    """Raise `ContextWindowExceededError` for a request that no model would answer."""
    window = model.traits.context_window
    if window and not model.traits.may_be_wider and tokens > window:
        raise ContextWindowExceededError(
            f"the next request has about {tokens:,} tokens, and the window of {model.label!r}"
            f" {window:,}; nothing more can be left out",
            hint="choose a model with a larger window, or start a new conversation",
        )


class Gauge:
    """Estimates the requests of one conversation."""

    def __init__(self) -> None:
        self._last: tuple[Size, float] | None = None
        self._factor = 1.0
        """By how much the provider's count differed from our estimate of the same request."""

    def count(self, size: Size, tokens: int) -> None:
        """Learn how many tokens the provider counted for a request of this size; 0 is unknown."""
        if not tokens:
            return
        own = max(size.tokens, 1)
        self._factor = min(max(tokens / own, 1 / _MOST_OFF), _MOST_OFF)
        self._last = size, own * self._factor

    def tokens(self, size: Size) -> int:
        """Return the estimate for the next request: the last count and what has come since."""
        earlier_size, tokens = self._last or (size, size.tokens * self._factor)
        more = size.messages - earlier_size.messages
        if more < 0:  # Something was left out since.
            return int(size.tokens * self._factor)
        return int(tokens + more / self.chars_per_token)

    @property
    def chars_per_token(self) -> float:
        """How many characters of something new are taken for a token."""
        return LEAST_CHARS_PER_TOKEN / max(self._factor, 1)
