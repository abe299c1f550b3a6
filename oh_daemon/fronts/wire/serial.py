"""Futures of one connection: chained, run on their own thread, or run in turn by conversation.

Invariant of `Serial`: work on a conversation as a whole, and each request that arrives meanwhile,
runs in the order of arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Step:
    """Work to run, and `act` on its outcome; without work, on the outcome of the last one."""

    work: Callable[[], Any] | None
    act: Callable[[Future[Any]], Any]
    done: Future[Any] = field(default_factory=Future[Any])


class Serial:
    """Thread-safe."""

    def __init__(self, workers: Executor) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._steps: dict[str, deque[_Step]] = {}
        """The waiting steps, by the id of each conversation that has any under way."""
        self._threads: dict[str, int] = {}

    def ids(self) -> list[str]:
        """Return the conversations that have a step under way, the newest last."""
        with self._lock:
            return list(self._steps)

    def run(
        self, conversation_id: str, work: Callable[[], T], act: Callable[[T], Any] | None = None
    ) -> Future[Any]:
        """Do `work` that opens, changes or closes it on a worker thread, then `act` on the result.

        A step that an `act` asks for comes before all that are waiting.
        """
        step = _Step(work, lambda ended: act(ended.result()) if act else ended.result())
        with self._lock:
            steps = self._steps.get(conversation_id)
            if steps is None:
                self._steps[conversation_id] = deque([step])
                self._workers.submit(self._work_off, conversation_id)
            elif self._threads.get(conversation_id) == threading.get_ident():
                steps.appendleft(step)
            else:
                steps.append(step)
        return step.done

    def wait(
        self, conversation_id: str, act: Callable[[BaseException | None], Any]
    ) -> Future[Any] | None:
        """Call `act` after all steps under way, with what the last work raised, if it failed.

        Return None when nothing is under way.
        """
        step = _Step(None, lambda ended: act(ended.exception()))
        with self._lock:
            steps = self._steps.get(conversation_id)
            if steps is None:
                return None
            steps.append(step)
        return step.done

    def _work_off(self, conversation_id: str) -> None:
        with self._lock:
            self._threads[conversation_id] = threading.get_ident()
        ended: Future[Any] = Future()
        while (step := self._next(conversation_id)) is not None:
            if step.work is not None:
                ended = Future()
                settle(ended, step.work)
            settle(step.done, partial(step.act, ended))

    def _next(self, conversation_id: str) -> _Step | None:
        with self._lock:
            if steps := self._steps[conversation_id]:
                return steps.popleft()
            del self._steps[conversation_id], self._threads[conversation_id]
            return None


def then(first: Future[Any], act: Callable[[Any], Any]) -> Future[Any]:
    """Call `act` on the result of `first`, on the thread that completes it.

    When `act` returns a future, its result becomes the result.
    """
    done: Future[Any] = Future()
    first.add_done_callback(lambda finished: settle(done, lambda: act(finished.result())))
    return done


def on_own_thread(name: str, compute: Callable[[], Any]) -> Future[Any]:
    """Compute something that may take as long as a model's answer, without holding a worker."""
    done: Future[Any] = Future()
    threading.Thread(target=settle, args=(done, compute), name=name, daemon=True).start()
    return done


def settle(done: Future[Any], compute: Callable[[], Any]) -> None:
    try:
        result = compute()
    except BaseException as exc:  # noqa: BLE001 - handed on to whoever waits.
        done.set_exception(exc)
        return
    if isinstance(result, Future):
        future = cast("Future[Any]", result)
        future.add_done_callback(lambda second: settle(done, second.result))
    else:
        done.set_result(result)
