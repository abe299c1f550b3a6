"""How long a call waits: for the next piece of its answer, and for the whole answer."""

from __future__ import annotations

import time

from oh_daemon.contract.errors import NetworkError
from oh_daemon.contract.llm import LLMSettings


class Patience:
    """The deadlines of one attempt; they begin when it is made."""

    def __init__(self, settings: LLMSettings) -> None:
        self._settings = settings
        self._end = self._next = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin anew, since what was waited for so far does not count."""
        self._end = time.monotonic() + self._settings.timeout_s
        self.restart()

    def restart(self) -> None:
        """Wait anew for the next piece, since one has come."""
        self._next = time.monotonic() + self._settings.first_token_timeout_s

    def left_s(self) -> float:
        """Return the seconds until the next deadline, more than 0. Raises `NetworkError` if past.

        Keep-alives are no pieces, so whoever waits has to ask again before each wait.
        """
        left = min(self._end, self._next) - time.monotonic()
        if left <= 0:
            raise self.error()
        return left

    def error(self) -> NetworkError:
        """Return the error for the deadline that comes, or came, first."""
        settings = self._settings
        if self._end <= self._next:
            return NetworkError(
                f"the answer of {settings.model} took longer than {settings.timeout_s:g} s",
                hint="raise `llm.timeoutS` if answers may take that long",
            )
        return NetworkError(
            f"nothing came from {settings.model} for {settings.first_token_timeout_s:g} s",
            retryable=True,
            hint="raise `llm.firstTokenTimeoutS` if the model needs longer",
        )
