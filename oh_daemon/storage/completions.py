"""Keeps each request to a model and its answer as a JSON file, for people who need every detail.

The files are in `completions/` in the conversation's folder, masked like its log. Failing to write
one is noted in the daemon's log and holds nothing up.
"""

from __future__ import annotations

import json
import logging
import re
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict
from pydantic_core import to_jsonable_python

from oh_daemon.common.cancel import Cancelled
from oh_daemon.common.masking import Masker
from oh_daemon.kernel.ports import (
    Clock,
    Json,
    LikeModel,
    Model,
    ModelAnswer,
    ModelRequest,
    Progress,
)
from oh_daemon.protocol.errors import DaemonError
from oh_daemon.system.private_files import private_folder, write_new

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
        """Wrap the model so that its requests and answers are kept here."""
        return _CallRecord(model, self)

    def keep(self, model: Model, request: ModelRequest, outcome: Json) -> None:
        """Write one file, named by time and purpose."""
        now = self._clock.now()
        value: Json = {"at": now, "model": model.name, "request": request, **outcome}
        text = self._masker.mask(render_completion(value))
        stamp = re.sub(r"\D", "", now)
        name = f"{stamp}-{next(self._numbers):04}-{request.purpose or 'step'}.json"
        try:
            private_folder(self._folder)
            write_new(self._folder / name, text.encode("utf-8", "replace"))
        except (OSError, DaemonError) as exc:
            logger.warning("no %s: %s", self._folder / name, exc)


def render_completion(value: Json) -> str:
    """Return requests and answers as they are kept, but not masked: images without their data."""
    plain = to_jsonable_python(value, exclude_none=True, fallback=_fields)
    return _LONG_DATA.sub(r"\1…", json.dumps(plain, ensure_ascii=False, indent=1))


def _fields(value: object) -> object:
    return asdict(value) if isinstance(value, Struct) else str(value)


def read_requests(folder: Path) -> list[tuple[str, Json]]:
    """Return when each step of a conversation was answered, and its request, oldest first."""
    files = sorted((folder / _FOLDER).glob("*-step.json"))
    requests = [json.loads(file.read_bytes()) for file in files]
    return [(each["at"], each["request"]) for each in requests]


class _CallRecord(LikeModel):
    """A model whose requests and answers become files."""

    def __init__(self, model: Model, files: Completions) -> None:
        super().__init__(model, model.label)
        self._files = files

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. Retries get no files; the conversation's log has them."""
        try:
            answer = self._other_model.complete(request, progress)
        except (Cancelled, DaemonError) as exc:
            self._files.keep(self._other_model, request, {"error": str(exc) or "cancelled"})
            raise
        self._files.keep(self._other_model, request, {"answer": answer})
        return answer
