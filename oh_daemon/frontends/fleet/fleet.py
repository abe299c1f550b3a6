"""A fleet: many tasks, each one conversation in a clone of its own, under one folder.

The folder is the state. A driver may be killed at any moment; the next one reads what is there.
"""

from __future__ import annotations

import fcntl
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import orjson
from msgspec import Struct, field
from pydantic_core import to_json

from oh_daemon.frontends.fleet.task_folder import TaskFolder, TaskResult
from oh_daemon.frontends.fleet.tasks import FleetTask
from oh_daemon.frontends.fleet.work import FleetPlan, agent_for, require_hold, work
from oh_daemon.protocol.errors import InvalidParamsError, InvalidStateError

_TICK_S = 1.0
_MAX_CRASHES = 3
"""How often a task is given to another worker when its own has died."""


class FleetProgress(Struct):
    """How far a fleet is."""

    total: int
    n_by_status: Counter[str] = field(default_factory=Counter[str])
    """How many tasks have which status."""
    n_running: int = 0
    cost_usd: float = 0.0
    """Known cost of all that has ended."""
    is_cost_known: bool = True
    """Whether that is all of it."""
    needs_person: bool = False
    """Whether a task that has ended left something for want of an answer."""
    begin_s: float = field(default_factory=time.monotonic)

    @property
    def n_waiting(self) -> int:
        return self.total - self.n_by_status.total() - self.n_running


class FleetRequest(Struct, frozen=True):
    """What a fleet is to do, and with what at once."""

    tasks: Sequence[FleetTask]
    out: Path
    plan: FleetPlan
    jobs: int = 4
    max_total_usd: float | None = None


def run_fleet(
    request: FleetRequest,
    start_engine: Callable[[], Executor],
    on_progress: Callable[[FleetProgress, TaskResult | None], object],
) -> FleetProgress:
    """Work on all tasks and return how they ended. Blocks; `on_progress` is called on this thread.

    Raises `InvalidParamsError`, `InvalidStateError` and `ModelError` before any task begins.
    """
    _require_means(request)
    with _hold_folder(request.out):
        folders = {task.id: TaskFolder(request.out / "tasks" / task.id) for task in request.tasks}
        for task in request.tasks:
            if folders[task.id].path.exists():
                folders[task.id].take(task)
        drive = _Drive(request, folders, start_engine, on_progress)
        write_reports(request.out, drive.results)
        drive.run()
        write_reports(request.out, results_of(folders.values()))
        return drive.progress


def _require_means(request: FleetRequest) -> None:
    plan = request.plan
    require_hold(request.out.parent, plan)
    if request.max_total_usd is not None and plan.max_cost_usd is None:
        raise InvalidParamsError("--max-total: say with --max-cost what one task may cost")
    agent_for(plan)


@contextmanager
def _hold_folder(out: Path) -> Generator[None]:
    """Let no other driver work in the folder, on any machine that shares it."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidStateError(f"another fleet is at work in {str(out)!r}") from None
        yield


class _Drive:
    """Gives tasks to the engine, and takes their results. Only for the thread of `run`."""

    def __init__(
        self,
        request: FleetRequest,
        folders: dict[str, TaskFolder],
        start_engine: Callable[[], Executor],
        on_progress: Callable[[FleetProgress, TaskResult | None], object],
    ) -> None:
        self._request = request
        self._folders = folders
        self._start_engine = start_engine
        self._on_progress = on_progress
        self._running_tasks: dict[Future[TaskResult], FleetTask] = {}
        self._crashes: Counter[str] = Counter()
        self.results: list[TaskResult] = []
        self.progress = FleetProgress(len(request.tasks))
        self._waiting_tasks = deque[FleetTask]()
        self._ledgers = {id_: folder.ledger for id_, folder in folders.items()}
        for task in request.tasks:
            result = folders[task.id].result
            if result is None or (request.plan.resumes and result.status != "passed"):
                self._waiting_tasks.append(task)
            else:
                self._count(result)

    def run(self) -> None:
        """Work until no task runs and none may begin."""
        engine = self._start_engine()
        try:
            while self._submit_to(engine) or self._running_tasks:
                ready, _ = wait(self._running_tasks, _TICK_S, FIRST_COMPLETED)
                results = [*map(self._take_result, ready)]
                if any(isinstance(future.exception(), BrokenExecutor) for future in ready):
                    engine.shutdown(wait=False)
                    # Ray forgets the futures of a connection that was shut down.
                    self._waiting_tasks.extend(self._running_tasks.values())
                    self._running_tasks.clear()
                    engine = self._start_engine()
                for result in (*results, None):
                    self._on_progress(self.progress, result)
        finally:
            engine.shutdown(wait=False, cancel_futures=True)

    def _submit_to(self, engine: Executor) -> bool:
        """Let as many tasks begin as may; return whether any did."""
        n_before = len(self._running_tasks)
        while (
            self._waiting_tasks
            and len(self._running_tasks) < self._request.jobs
            and self._may_begin()
        ):
            task = self._waiting_tasks.popleft()
            future = engine.submit(work, task, self._folders[task.id].path, self._request.plan)
            self._running_tasks[future] = task
        self.progress.n_running = len(self._running_tasks)
        return len(self._running_tasks) > n_before

    def _may_begin(self) -> bool:
        """Return whether the next task may cost all that one may, with all that run."""
        limit, each = self._request.max_total_usd, self._request.plan.max_cost_usd
        if limit is None or each is None:
            return True
        full = {task.id for task in (*self._running_tasks.values(), self._waiting_tasks[0])}
        spent_usd = sum(its.cost_usd for id_, its in self._ledgers.items() if id_ not in full)
        return spent_usd + len(full) * each <= limit

    def _take_result(self, future: Future[TaskResult]) -> TaskResult | None:
        """Return the result; None if the worker has died and another one goes on."""
        task = self._running_tasks.pop(future)
        self.progress.n_running = len(self._running_tasks)
        folder, error = self._folders[task.id], future.exception()
        self._ledgers[task.id] = folder.ledger
        if error is None:
            result = future.result()
        elif isinstance(error, BrokenExecutor) and self._crashes[task.id] < _MAX_CRASHES:
            self._crashes[task.id] += 1
            self._waiting_tasks.append(task)
            return None
        else:
            result = TaskResult(
                id=task.id, status="error", reason=f"{type(error).__name__}: {error}"
            )
            folder.finish(result)
        self._count(result)
        write_reports(self._request.out, [result], "ab")
        return result

    def _count(self, result: TaskResult) -> None:
        self.results.append(result)
        self.progress.n_by_status[result.status] += 1
        self.progress.needs_person |= result.needs_person
        ledger = self._ledgers[result.id]
        self.progress.cost_usd += ledger.cost_usd
        self.progress.is_cost_known &= ledger.is_cost_known


def folders_below(out: Path) -> list[TaskFolder]:
    """Return the folders of all tasks of a fleet, also of one that ran in shards."""
    paths = [*out.glob("tasks/*/task.json"), *out.glob("shard-*/tasks/*/task.json")]
    return [TaskFolder(file.parent) for file in sorted(paths)]


def results_of(folders: Iterable[TaskFolder]) -> list[TaskResult]:
    """Return the results of those tasks that have ended."""
    return [result for folder in folders if (result := folder.result) is not None]


def write_reports(
    out: Path, results: Iterable[TaskResult], mode: Literal["wb", "ab"] = "wb"
) -> None:
    """Write results.jsonl, and predictions.jsonl in the form of SWE-bench; or add to them.

    A kill may leave half a line, which the next run repairs from the folders of the tasks.
    """
    rows = [orjson.loads(to_json(result)) for result in results]
    predictions = [
        {
            "instance_id": row["id"],
            "model_name_or_path": f"oh-daemon {row['model']}".strip(),
            "model_patch": row["patch"],
        }
        for row in rows
    ]
    for name, lines in (("results.jsonl", rows), ("predictions.jsonl", predictions)):
        with (out / name).open(mode) as file:
            file.writelines(orjson.dumps(line) + b"\n" for line in lines)
