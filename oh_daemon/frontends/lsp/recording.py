"""The file of `--record`: each message in and out as a line of JSON, for people who look for a bug.

Invariant: what is written holds no secret that the protocol names or that the masker knows. If
writing the file fails, the stream goes on.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson

from oh_daemon.common.masking import HIDDEN, Masker
from oh_daemon.system.private_files import open_private, write_all

log = logging.getLogger(__name__)

_CHARS = r'(?:[^"\\]++|\\.)*+'
"""The inside of a JSON string; its closing quote may be missing where a frame was cut off."""
_NAMES = r"(?:api_?key|passw(?:or)?d|secret|(?:access|auth|refresh)_?token)"
_FIELD = re.compile(rf'(?is)(?P<kept>"[\w-]*{_NAMES}"\s*:\s*"){_CHARS}')
_VARIABLES = re.compile(
    rf'(?is)"(?:env|environment|(?:extra_?)?headers)"\s*:\s*\{{(?:"{_CHARS}"?|[^"{{}}])*+'
)
_VARIABLE = re.compile(rf'(?s)(?P<kept>"{_CHARS}"\s*:\s*"){_CHARS}')
_LENDING = re.compile(r'"method"\s*:\s*"secret\\?/set"')
_LENT = re.compile(rf'(?s)(?P<kept>"value"\s*:\s*"){_CHARS}')
_HIDDEN = rf"\g<kept>{HIDDEN}"
_UTC = orjson.OPT_UTC_Z
_ONE_LINE = str.maketrans("\r\n", "  ")


class WireRecording:
    """Safe from any thread."""

    def __init__(self, path: Path) -> None:
        """Open the file to append lines to it. Raises `ReadOnlyError` and `OSError`."""
        self._path = path
        self._file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()
        self._is_over = False
        self.mask: Callable[[str], str] = Masker().mask
        """Hides secrets by value or form; replaced later by one that knows the user's own."""

    def record_received(self, body: bytes, problem: str = "") -> None:
        """Record a body as it came; one with a `problem` was unreadable and may be incomplete."""
        self._note("client", body, problem)

    def record_sent(self, frame: bytes) -> None:
        """Record a frame that is about to be written to the client."""
        self._note("daemon", frame[frame.index(b"{") :])

    def _note(self, sender: str, body: bytes, problem: str = "") -> None:
        if self._is_over:
            return
        text = self.mask(_without_fields(body.decode("utf-8", "backslashreplace")))
        head = {"ts": datetime.now(UTC), "pid": os.getpid(), "from": sender}
        if problem:
            line = orjson.dumps({**head, "problem": problem, "raw": text}, option=_UTC)
        else:
            # Not parsed and encoded again: the reader wants the message as it was.
            message = text.removeprefix("\ufeff").translate(_ONE_LINE)
            line = b'%b,"message":%b}' % (orjson.dumps(head, option=_UTC)[:-1], message.encode())
        try:
            # In one call, so that lines of several threads or daemons do not mix.
            write_all(self._file, line + b"\n")
        except OSError as exc:
            self._give_up(exc)

    def _give_up(self, exc: OSError) -> None:
        with self._lock:
            was_over, self._is_over = self._is_over, True
        if not was_over:
            log.error("nothing more is recorded to %s: %s", self._path, exc.strerror)


def _without_fields(text: str) -> str:
    """Hide the values that are secret by their place in a message."""
    text = _FIELD.sub(_HIDDEN, text)
    text = _VARIABLES.sub(lambda match: _VARIABLE.sub(_HIDDEN, match[0]), text)
    return _LENT.sub(_HIDDEN, text) if _LENDING.search(text) else text
