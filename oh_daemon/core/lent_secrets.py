"""Secrets for commands: lent by name, given to each command that names one, and to nothing else.

Invariant: the masker knows a value before any command does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oh_daemon.contract.errors import ToolError
from oh_daemon.core.secrets import MIN_LENGTH, Masker

SecretSource = str | Callable[[], str]
"""A value, or a function that returns it when a command needs it."""


@dataclass(frozen=True, slots=True)
class LentSecrets:
    """The secrets that commands may get. Thread-safe."""

    masker: Masker
    sources: Mapping[str, SecretSource]
    """Sources by the environment variable that a command gets; may change at any time."""

    def named_in(self, command: str) -> tuple[str, ...]:
        """Return the names of the secrets that occur as a word anywhere in the command."""
        words = set(re.findall(r"\w+", command, re.ASCII))
        return tuple(sorted(words.intersection(self.sources)))

    def values_of(self, names: Sequence[str]) -> dict[str, str]:
        """Return values by name. Raises `ToolError` for one that is unavailable or not maskable."""
        return {name: self._value_of(name, self.sources.get(name)) for name in names}

    def _value_of(self, name: str, source: SecretSource | None) -> str:
        if source is None:
            raise ToolError(f"the secret {name} was taken back; ask the user for it")
        try:
            value = source if isinstance(source, str) else source()
        except Exception as exc:  # noqa: BLE001 - a program's own function.
            # Not `from exc`: its text may hold the value.
            raise ToolError(f"the secret {name} cannot be had: {type(exc).__name__}") from None
        if len(value) < MIN_LENGTH or "\0" in value:
            raise ToolError(f"the secret {name} is too short to be hidden; tell the user")
        self.masker.add(value)
        return value
