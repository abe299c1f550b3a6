"""How long an attempt of a model call may wait, and which failed ones are made again, and when."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from oh_daemon.common.hosts import Reach, reach_of_url
from oh_daemon.kernel.ports import ModelAnswer, Progress, Retry
from oh_daemon.protocol.errors import ModelError, NetworkError
from oh_daemon.protocol.llm import LLMSettings

FIRST_TOKEN_S: Mapping[Reach, float] = {"public": 120, "private": 1200, "local": 1200}
"""Seconds to the first piece of an answer, by the server's place: a server of the user's own may
have to load the model, and reads a long prompt at 20 to 50 tokens a second without a GPU."""


class AttemptDeadlines:
    """The deadlines of one attempt; they begin when it is made."""

    def __init__(self, settings: LLMSettings, address: str | None = None) -> None:
        """`address` is that of a server which is not the provider's own service."""
        self._settings = settings
        reach = reach_of_url(address) if address else "public"
        self._pause_s = settings.first_token_timeout_s or FIRST_TOKEN_S[reach]
        self._end = self._next = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin anew, since what was waited for so far does not count."""
        self._end = time.monotonic() + self._settings.timeout_s
        self.restart()

    def restart(self) -> None:
        """Wait anew for the next piece, since one has come."""
        self._next = time.monotonic() + self._pause_s

    def left_s(self) -> float:
        """Return the seconds until the next deadline, more than 0. Raises `NetworkError` if past.

        Keep-alives are no pieces, so whoever waits has to ask again before each wait.
        """
        seconds = min(self._end, self._next) - time.monotonic()
        if seconds <= 0:
            raise self.error()
        return seconds

    def error(self) -> NetworkError:
        """Return the error for the deadline that comes, or came, first."""
        settings = self._settings
        if self._end <= self._next:
            return NetworkError(
                f"the answer of {settings.model} took longer than {settings.timeout_s:g} s",
                hint="raise `llm.timeoutS` if answers may take that long",
            )
        return NetworkError(
            f"nothing came from {settings.model} for {self._pause_s:g} s",
            retryable=True,
            hint="raise `llm.firstTokenTimeoutS` if the model needs longer",
        )


MAX_DELAY_S = 30.0
MAX_RETRY_AFTER_S = 60.0


def with_retries(
    attempt: Callable[[], ModelAnswer],
    *,
    max_attempts: int,
    first_delay_s: float,
    progress: Progress,
) -> ModelAnswer:
    """Call `attempt` until it answers, be the answer empty. Raises `ModelError`."""
    for n in range(1, max_attempts + 1):
        is_last = n == max_attempts
        try:
            return attempt()
        except ModelError as exc:
            if is_last or not exc.retryable:
                raise
            error = exc
        delay_s = plan_delay_s(error, n, first_delay_s, random.random())  # noqa: S311 - jitter.
        progress.on_retry(Retry(n + 1, max_attempts, delay_s, error))
        progress.cancel.wait(delay_s)
        progress.cancel.raise_if_cancelled()
    raise AssertionError("unreachable: the last attempt returns or raises")


def plan_delay_s(error: ModelError, attempt: int, first_delay_s: float, jitter: float) -> float:
    """Return seconds until the next attempt: as the provider asks, else doubling with jitter.

    `jitter` is in [0, 1); it spreads out clients that failed at the same time.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    return min(first_delay_s * 2 ** (attempt - 1), MAX_DELAY_S) * (0.5 + jitter / 2)
