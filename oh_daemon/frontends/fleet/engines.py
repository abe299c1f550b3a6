"""What runs the tasks of a fleet: threads of this process, processes of this machine, or Ray.

None of them holds anything that must survive; what a killed one was doing is in the folders.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from importlib import import_module
from typing import Any, Literal

from oh_daemon.protocol.errors import InvalidStateError

Kind = Literal["threads", "processes", "ray"]
_PR_SET_PDEATHSIG = 1
_MAX_RETRIES = 5


def engine(kind: Kind, jobs: int, address: str = "") -> Callable[[], Executor]:
    """Return what starts the engine, for its first time and after a worker has died.

    `address` is that of a Ray cluster; without one, Ray begins its own on this machine.
    """
    if kind == "threads":
        return lambda: ThreadPoolExecutor(jobs, "task")
    if kind == "ray":
        return lambda: _Ray(address)
    # A fork would copy the locks of threads that are not there in the child.
    spawn_context = multiprocessing.get_context("spawn")
    return lambda: ProcessPoolExecutor(jobs, spawn_context, _end_with, (os.getpid(),))


def _end_with(driver: int) -> None:
    """Have the kernel end this process with the driver, which starts it from its main thread."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != driver:
        os._exit(1)


class _Ray(Executor):
    """A Ray cluster. Its workers take their keys from the environment of their own node."""

    def __init__(self, address: str) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            how = "install it beside oh-daemon, on all machines: pip install 'oh-daemon[ray]'"
            raise InvalidStateError("Ray is not here", hint=how) from None
        where = {"address": address} if address else {"include_dashboard": False}
        try:
            self._ray.init(**where, log_to_driver=False, logging_level="WARNING")
        # Ray also raises plain errors, such as `RuntimeError` if no node of this machine is alive.
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as exc:
            how = "the same command goes on once a Ray node runs on this machine"
            what = f"no Ray node answers for the cluster at {address!r}: {exc}"
            raise InvalidStateError(what, hint=how) from None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it on some node, again after its worker or node has died.

        The future raises `BrokenExecutor` when Ray gave up, or lost the node of this driver.
        """
        spread = {"max_retries": _MAX_RETRIES, "scheduling_strategy": "SPREAD"}
        future, errors = Future[Any](), self._ray.exceptions

        def copy(outcome: Future[Any]) -> None:
            error = outcome.exception()
            if error is None:
                future.set_result(outcome.result())
            elif isinstance(error, errors.RayError) and not isinstance(error, errors.RayTaskError):
                future.set_exception(BrokenExecutor(f"{type(error).__name__}: {error}"))
            else:
                future.set_exception(error)

        self._ray.remote(**spread)(fn).remote(*args, **kwargs).future().add_done_callback(copy)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - Ray ends all that this driver runs.
        self._ray.shutdown()
