"""The daemon's own log file: conversations at INFO, details at DEBUG, with all secrets masked.

A daemon's stderr gets errors only, because some editors present each of its lines as an error.
"""

from __future__ import annotations

import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from oh_daemon.common.masking import Masker

_MAX_BYTES = 5 << 20
_N_OLD_FILES = 2
_FORMAT = "%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"


class MaskedFormatter(logging.Formatter):
    """Masks secrets in the finished log entry, including its traceback."""

    def __init__(self, masker: Masker) -> None:
        super().__init__(_FORMAT)
        self._masker = masker

    def format(self, record: logging.LogRecord) -> str:
        return self._masker.mask(super().format(record))


def log_to(path: Path, level: str, masker: Masker) -> None:
    """Log to `path`, readable by its owner only, and errors to stderr as well."""
    _attach([_on_stderr(), *_in_file(path)], level, masker)


def log_quietly_to(path: Path, level: str, masker: Masker) -> None:
    """Log to `path`, for a command that tells people itself what matters; else errors to stderr."""
    _attach(_in_file(path) or [_on_stderr()], level, masker)


def _on_stderr() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.ERROR)
    return handler


def _in_file(path: Path) -> list[logging.Handler]:
    """Return what logs to the file; nothing if it cannot be opened, which is said."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_private(path)
        handler = RotatingFileHandler(path, maxBytes=_MAX_BYTES, backupCount=_N_OLD_FILES)
    except OSError as exc:
        sys.stderr.write(f"oh-daemon: no log file {path}: {exc.strerror}\n")
        return []
    handler.rotator = _rotate
    return [handler]


def _make_private(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))


def _rotate(full: str, old: str) -> None:
    """Make room for the next file here, since the handler would leave its mode to the umask."""
    Path(full).replace(old)
    _make_private(Path(full))


def _attach(handlers: list[logging.Handler], level: str, masker: Masker) -> None:
    root = logging.getLogger("oh_daemon")
    root.setLevel(level)
    for handler in handlers:
        handler.setFormatter(MaskedFormatter(masker))
        root.addHandler(handler)
