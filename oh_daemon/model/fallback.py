"""A profile: its model, and the fallback models that answer when that one fails.

A model that has failed rests for a while, so that not every step waits for its retries again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from oh_daemon.contract.errors import ContextWindowExceededError, ModelError
from oh_daemon.core.ports import LikeModel, Model, ModelAnswer, ModelRequest, Progress, Retry

REST_S = 120.0


class WithFallbacks(LikeModel):
    """Answers with the first of `models` that succeeds. Thread-safe."""

    def __init__(self, name: str, models: Sequence[Model]) -> None:
        super().__init__(models[0], name)
        self._models = tuple(models)
        self._rests_until = dict.fromkeys(range(len(models)), 0.0)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. A change of model is reported as a retry.

        Raises the error of the last model when all fail.
        """
        left = self._awake()
        while True:
            n = left.pop(0)
            try:
                return self._models[n].complete(request, progress)
            except ModelError as error:
                if isinstance(error, ContextWindowExceededError):
                    # A smaller window would not help, but condensing will.
                    left = [other for other in left if self._is_wider(other, n)]
                else:
                    self._rests_until[n] = time.monotonic() + REST_S
                if not left:
                    raise
                following = self._models[left[0]].label
                n_models = len(self._models)
                progress.on_retry(Retry(left[0] + 1, n_models, 0.0, error, model=following))

    def _awake(self) -> list[int]:
        now = time.monotonic()
        found = [n for n, until in self._rests_until.items() if until <= now]
        return found or list(self._rests_until)

    def _is_wider(self, one: int, other: int) -> bool:
        window, known = (self._models[each].traits.context_window for each in (one, other))
        return window is not None and known is not None and window > known
