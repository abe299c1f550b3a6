"""The only retry loop: which failed model calls are tried again, and when."""

from __future__ import annotations

import random
from collections.abc import Callable

from oh_daemon.contract.errors import ModelError
from oh_daemon.core.ports import ModelAnswer, Progress, Retry

MAX_DELAY_S = 30.0
MAX_RETRY_AFTER_S = 60.0


def with_retries(
    attempt: Callable[[], ModelAnswer],
    *,
    max_attempts: int,
    first_delay_s: float,
    progress: Progress,
) -> ModelAnswer:
    """Call `attempt` until it answers; an empty answer to the last attempt is returned as it is."""
    for n in range(1, max_attempts + 1):
        is_last = n == max_attempts
        try:
            answer = attempt()
            if is_last or not is_empty(answer):
                return answer
            error = ModelError("the model gave an empty answer", retryable=True)
        except ModelError as exc:
            if is_last or not exc.retryable:
                raise
            error = exc
        delay_s = plan_delay_s(error, n, first_delay_s, random.random())  # noqa: S311 - jitter.
        progress.on_retry(Retry(n + 1, max_attempts, delay_s, error))
        progress.cancel.wait(delay_s)
        progress.cancel.raise_if_cancelled()
    raise AssertionError("unreachable: the last attempt returns or raises")


def is_empty(answer: ModelAnswer) -> bool:
    """Return whether nothing came although the model says that it is done."""
    is_silent = not (answer.text.strip() or answer.reasoning.strip() or answer.tool_calls)
    return is_silent and answer.finish_reason in {"stop", "tool_calls"}


def plan_delay_s(error: ModelError, attempt: int, first_delay_s: float, jitter: float) -> float:
    """Return seconds until the next attempt: as the provider asks, else doubling with jitter.

    `jitter` is in [0, 1); it spreads out clients that failed at the same time.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    return min(first_delay_s * 2 ** (attempt - 1), MAX_DELAY_S) * (0.5 + jitter / 2)
