"""The one retry loop: which failures of a model call are tried again, and when."""

from __future__ import annotations

import random
from collections.abc import Callable

from oh_daemon.contract.errors import ModelError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.ports import Model, ModelAnswer, ModelDelta, ModelRequest, Retry

MAX_DELAY_S = 30.0
MAX_RETRY_AFTER_S = 60.0


class Retrying:
    """A model that calls another one up to `max_attempts` times."""

    def __init__(self, model: Model, max_attempts: int, *, first_delay_s: float = 1.0) -> None:
        self._model = model
        self._max_attempts = max_attempts
        self._first_delay_s = first_delay_s
        self.name = model.name
        self.label = model.label

    @property
    def context_window(self) -> int | None:
        return self._model.context_window

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._model.warnings

    def complete(
        self,
        request: ModelRequest,
        *,
        on_delta: Callable[[ModelDelta], None],
        on_retry: Callable[[Retry], None],
        cancel: CancelToken,
    ) -> ModelAnswer:
        """As the port says. An answer that stays empty is returned as it is."""
        for attempt in range(1, self._max_attempts + 1):
            is_last = attempt == self._max_attempts
            try:
                answer = self._model.complete(
                    request, on_delta=on_delta, on_retry=on_retry, cancel=cancel
                )
                if is_last or not is_empty(answer):
                    return answer
                error = ModelError(f"{self.name} gave an empty answer", retryable=True)
            except ModelError as exc:
                if is_last or not exc.retryable:
                    raise
                error = exc
            delay_s = plan_delay_s(error, attempt, self._first_delay_s, random.random())  # noqa: S311 - jitter.
            on_retry(Retry(attempt + 1, self._max_attempts, delay_s, error))
            cancel.wait(delay_s)
            cancel.raise_if_cancelled()
        raise AssertionError("unreachable: the last attempt returns or raises")


def is_empty(answer: ModelAnswer) -> bool:
    """Nothing came although the model says that it is done."""
    is_silent = not (answer.text.strip() or answer.reasoning.strip() or answer.tool_calls)
    return is_silent and answer.finish_reason in {"stop", "tool_calls"}


def plan_delay_s(error: ModelError, attempt: int, first_delay_s: float, jitter: float) -> float:
    """Seconds until the next attempt: what the provider asks for, else doubling with jitter.

    `jitter` is in [0, 1); clients that failed together come back at different times.
    """
    if error.retry_after_s is not None:
        return min(error.retry_after_s, MAX_RETRY_AFTER_S)
    return min(first_delay_s * 2 ** (attempt - 1), MAX_DELAY_S) * (0.5 + jitter / 2)
