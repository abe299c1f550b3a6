"""Futures of one connection: chained, run on their own thread, or in order by conversation.

Invariant of `Serial`: work on a conversation as a whole, and each request that arrives meanwhile,
runs in the order of arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeGuard

from msgspec import Struct, field


class _Step(Struct, frozen=True):
    act: Callable[[BaseException | None], Any]
    """Gets what the last work raised, if it failed."""
    is_work: bool
    future: Future[Any] = field(default_factory=Future[Any])


class Serial:
    """Thread-safe."""

    def __init__(self, workers: Executor) -> None:
        self.workers = workers
        self._lock = threading.Lock()
        self._steps: dict[str, deque[_Step]] = {}
        """The waiting steps, by the id of each conversation that has any under way."""
        self._threads: dict[str, int] = {}

    def ids(self) -> list[str]:
        """Return the conversations that have a step under way, the newest last."""
        with self._lock:
            return list(self._steps)

    def run(self, conversation_id: str, work: Callable[[], Any]) -> Future[Any]:
        """Do `work` that opens, changes or closes it on a worker thread.

        Work that a step asks for comes before all that are waiting.
        """
        step = _Step(lambda _failure: work(), is_work=True)
        with self._lock:
            steps = self._steps.get(conversation_id)
            if steps is None:
                self._steps[conversation_id] = deque([step])
                self.workers.submit(self._work_off, conversation_id)
            elif self._threads.get(conversation_id) == threading.get_ident():
                steps.appendleft(step)
            else:
                steps.append(step)
        return step.future

    def after(self, conversation_id: str, act: Callable[[BaseException | None], Any]) -> Any:
        """Call `act` after all steps under way, with what the last work raised, if it failed.

        When nothing is under way, this thread calls it, and returns what it returns.
        """
        with self._lock:
            steps = self._steps.get(conversation_id)
            if steps is not None:
                step = _Step(act, is_work=False)
                steps.append(step)
                return step.future
        return act(None)

    def _work_off(self, conversation_id: str) -> None:
        with self._lock:
            self._threads[conversation_id] = threading.get_ident()
        failure: BaseException | None = None
        while (step := self._next(conversation_id)) is not None:
            outcome = settle(step.future, partial(step.act, failure))
            if step.is_work:
                failure = outcome

    def _next(self, conversation_id: str) -> _Step | None:
        with self._lock:
            if steps := self._steps[conversation_id]:
                return steps.popleft()
            del self._steps[conversation_id], self._threads[conversation_id]
            return None


class OwnThreads(Executor):
    """For a `Serial` of what may take as long as a network: a thread for each conversation."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return on_own_thread("slow-steps", partial(fn, *args, **kwargs))


def chain(first: Future[Any], act: Callable[[Any], Any]) -> Future[Any]:
    """Call `act` on the result of `first`, on the thread that completes it.

    When `act` returns a future, its result becomes the result.
    """
    result: Future[Any] = Future()
    first.add_done_callback(lambda earlier: settle(result, lambda: act(earlier.result())))
    return result


def is_future(value: object) -> TypeGuard[Future[Any]]:
    return isinstance(value, Future)


def on_own_thread(name: str, compute: Callable[[], Any]) -> Future[Any]:
    """Compute something that may take as long as a model's answer, without holding a worker."""
    future: Future[Any] = Future()
    threading.Thread(target=settle, args=(future, compute), name=name, daemon=True).start()
    return future


def settle(future: Future[Any], compute: Callable[[], Any]) -> BaseException | None:
    """Give `future` the result of `compute`, or of a future that it returns.

    Returns what `compute` raised.
    """
    try:
        result = compute()
    except BaseException as exc:  # noqa: BLE001 - handed on to whoever waits.
        future.set_exception(exc)
        return exc
    if is_future(result):
        result.add_done_callback(lambda second: _pass_on(future, second))
    else:
        future.set_result(result)
    return None


def _pass_on(future: Future[Any], second: Future[Any]) -> None:
    settle(future, second.result)
