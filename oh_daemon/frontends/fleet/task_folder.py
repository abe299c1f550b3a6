"""The folder of one task, which is all that is known of it: clone, log, patch and result.

Every file is there whole or not at all, so that a kill at any moment leaves what can go on.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

import orjson
from msgspec import Struct
from pydantic_core import to_json

from oh_daemon.features.approval.open_ends import OpenEnds
from oh_daemon.frontends.fleet.tasks import FleetTask
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import InvalidParamsError, ReadOnlyError
from oh_daemon.storage.log_scan import read_log

Status = Literal["passed", "failed", "error"]


class TaskResult(Contract):
    """How a task ended: an `error` is of what was around the agent, such as clone and setup."""

    id: str
    status: Status
    reason: str
    """The turn's stop reason, or what went wrong."""
    check: int | None = None
    """The exit code of the check; 124 when its time was up."""
    steps: int = 0
    cost_usd: float | None = None
    """None when a call had no known price."""
    patch: str = ""
    """What the agent changed since `base`, without `.openhands`; binary files included."""
    base: str = ""
    conversation: str = ""
    n_cut: int = 0
    """How often a kill cut it off."""
    model: str = ""
    sandbox: str = ""
    """What held the commands: `overlay`, `landlock` or `off`."""
    boundary: str | None = None
    """What the user named as the boundary where no sandbox holds them."""
    not_done: tuple[str, ...] = ()
    """Refusals, and changes that were not applied: a line for each, see `OpenEnds`."""
    needs_person: bool = False
    """Whether one of them was left for want of an answer, or is a change that was not applied."""
    seconds: float = 0
    """Of the run that ended it."""
    version: str = ""


class Ledger(Struct, frozen=True):
    """What the log of a conversation says of its calls."""

    steps: int = 0
    cost_usd: float = 0.0
    """Of the calls with a known price, and `lost_usd`."""
    lost_usd: float = 0.0
    """For each kill, as much as the costliest call: one that was under way may be paid again."""
    n_cut: int = 0
    is_cost_known: bool = True
    """Whether each call had a known price."""


class TaskFolder(Struct, frozen=True, dict=True):
    """The folder of one task, below that of the fleet."""

    path: Path

    @property
    def tree(self) -> Path:
        return self.path / "tree"

    @cached_property
    def conversation_id(self) -> str:
        """The conversation's id, drawn once: a repository may ship the log of any other.

        The link `log` keeps it, and leads to the log.
        """
        link = self.path / "log"
        with suppress(FileExistsError):
            link.symlink_to(f"tree/.openhands/conversations/{uuid.uuid4().hex}")
        return link.readlink().name

    @contextmanager
    def hold(self) -> Generator[None]:
        """Wait until no other process works on the task: one that was killed may need a moment."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def take(self, task: FleetTask) -> None:
        """Note what is to be done. Raises `InvalidParamsError` if it was something else before."""
        file, row = self.path / "task.json", to_json(task)
        with suppress(FileNotFoundError):
            if orjson.loads(file.read_bytes()) == orjson.loads(row):
                return
            raise InvalidParamsError(
                f"task {task.id!r} was another one when {str(self.path)!r} was begun; use another"
                " --out"
            )
        write_whole(file, row)

    @property
    def result(self) -> TaskResult | None:
        with suppress(FileNotFoundError):
            return TaskResult.model_validate_json((self.path / "result.json").read_bytes())
        return None

    def finish(self, result: TaskResult) -> None:
        # A task that failed before it began has no folder yet.
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / "result.json", to_json(result, indent=1))

    @property
    def open_ends(self) -> OpenEnds:
        """Refusals and missing changes of its conversation so far."""
        open_ends = OpenEnds()
        for record in self._records():
            open_ends.take(record)
        return open_ends

    def _records(self) -> list[plain.Record]:
        with suppress(FileNotFoundError, ReadOnlyError):
            return read_log(self.path / "log")
        return []

    @property
    def ledger(self) -> Ledger:
        """What its conversation has cost so far, also while it is under way elsewhere."""
        steps, cost_usd, costliest_usd, n_open, n_cut = 0, 0.0, 0.0, 0, 0
        is_known = True
        for record in self._records():
            event = record["event"]
            if event["type"] == "usage.updated":
                steps += event.get("purpose") is None
                usd = event["usage"].get("cost", {}).get("amount", 0.0)
                is_known &= "cost" in event["usage"]
                cost_usd, costliest_usd = cost_usd + usd, max(costliest_usd, usd)
            elif event["type"] == "turn.started":
                n_open += 1
            elif event["type"] == "turn.completed":
                n_open, n_cut = n_open - 1, n_cut + (event["turn"]["status"] == "interrupted")
        lost_usd = (n_cut + n_open) * costliest_usd
        return Ledger(steps, cost_usd + lost_usd, lost_usd, n_cut + n_open, is_known)


def write_whole(path: Path, data: bytes) -> None:
    """Replace the file so that a kill leaves the old bytes or the new ones."""
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    with temp.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temp.rename(path)
