"""Keeps each request to a model and its answer as a JSON file, for whoever wants to know exactly.

The files lie in the folder of the conversation, in `completions/`, masked like its log. A file that
cannot be written is told in the daemon's log and holds nothing up.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import fields, is_dataclass
from itertools import count
from pathlib import Path

from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import DaemonError
from oh_daemon.core.cancel import Cancelled
from oh_daemon.core.ports import Clock, Json, Model, ModelAnswer, ModelRequest, Progress
from oh_daemon.core.secrets import Masker
from oh_daemon.store.private_files import private_folder, write_new

logger = logging.getLogger(__name__)

_FOLDER = "completions"
_LONG_DATA = re.compile(r"(data:[\w/+.-]+;base64,)[A-Za-z0-9+/=]{1000,}")


class Completions:
    """The files of one conversation. Thread-safe."""

    def __init__(self, folder: Path, masker: Masker, clock: Clock) -> None:
        self._folder = folder / _FOLDER
        self._masker = masker
        self._clock = clock
        self._numbers = count(1)

    def of(self, model: Model) -> Model:
        """The model, with what it is asked and answers kept here."""
        return _Kept(model, self)

    def keep(self, model: Model, request: ModelRequest, outcome: Json) -> None:
        """Write one file, named by time and purpose."""
        now = self._clock.now()
        value: Json = {"at": now, "model": model.name, "request": request, **outcome}
        text = json.dumps(value, ensure_ascii=False, default=_plain, indent=1)
        text = _LONG_DATA.sub(r"\1…", self._masker.mask(text))
        stamp = re.sub(r"\D", "", now)
        name = f"{stamp}-{next(self._numbers):04}-{request.purpose or 'step'}.json"
        try:
            private_folder(self._folder)
            write_new(self._folder / name, text.encode("utf-8", "replace"))
        except (OSError, DaemonError) as exc:
            logger.warning("no %s: %s", self._folder / name, exc)


class _Kept:
    """A model as the port has it; all but `complete` is the inner one's."""

    def __init__(self, model: Model, files: Completions) -> None:
        self._model = model
        self._files = files
        self.name = model.name
        self.label = model.label

    @property
    def context_window(self) -> int | None:
        return self._model.context_window

    @property
    def sees_images(self) -> bool:
        return self._model.sees_images

    @property
    def edits_by_patch(self) -> bool:
        return self._model.edits_by_patch

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._model.warnings

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """As the port says; retries are in the conversation's log."""
        try:
            answer = self._model.complete(request, progress)
        except (Cancelled, DaemonError) as exc:
            self._files.keep(self._model, request, {"error": str(exc) or "cancelled"})
            raise
        self._files.keep(self._model, request, {"answer": answer})
        return answer


def _plain(value: object) -> object:
    if isinstance(value, Contract):
        return value.model_dump(mode="json", exclude_none=True)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return str(value)
