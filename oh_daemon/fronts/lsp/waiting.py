"""What came before the methods were there: it waits, and is served in order when they are.

Belongs to the main loop. `lifecycle` says what waits, and what acts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from oh_daemon.fronts.wire.framing import Frame, Message, RequestId

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of the main loop."""

    reason: str
    exit_code: int
    awaits_answers: bool
    """Whether requests that wait are served first."""


class Waiting:
    """Frames in order of arrival, perhaps with a stop behind them."""

    def __init__(self) -> None:
        self._entries: list[Frame | Stop] = []

    @property
    def has_request(self) -> bool:
        """Whether the client waits for an answer."""
        return any({"id", "method"} <= message_of(entry).keys() for entry in self._entries)

    @property
    def changes_folders(self) -> bool:
        name = "workspace/didChangeWorkspaceFolders"
        return any(message_of(entry).get("method") == name for entry in self._entries)

    def add(self, entry: Frame | Stop) -> None:
        self._entries.append(entry)

    def take(self) -> list[Frame | Stop]:
        """Return all; nothing waits any more."""
        taken, self._entries = self._entries, []
        return taken

    def cancel(self, params: object) -> RequestId | None:
        """Forget the request that `$/cancelRequest` names; return its id if it waited."""
        for entry in self._entries:
            message = message_of(entry)
            if "method" in message and "id" in message and {"id": message["id"]} == params:
                self._entries.remove(entry)
                return message["id"]
        return None


def message_of(entry: object) -> Json:
    """Return the object in a frame, empty if there is none."""
    value: object = entry.value if isinstance(entry, Message) else None
    return cast("Json", value) if isinstance(value, dict) else {}
