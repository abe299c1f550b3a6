"""What runs the tasks of a fleet: threads of this process, processes of this machine, or Ray.

None of them holds anything that must survive; what a killed one was doing is in the folders.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Literal

Kind = Literal["threads", "processes"]
_PR_SET_PDEATHSIG = 1


def engine(kind: Kind, jobs: int) -> Callable[[], Executor]:
    """Return what starts the engine, for its first time and after a worker has died."""
    if kind == "threads":
        return lambda: ThreadPoolExecutor(jobs, "task")
    # A fork would copy the locks of threads that are not there in the child.
    fresh = multiprocessing.get_context("spawn")
    return lambda: ProcessPoolExecutor(jobs, fresh, _end_with, (os.getpid(),))


def _end_with(driver: int) -> None:
    """Have the kernel end this process with the driver, which starts it from its main thread."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != driver:
        os._exit(1)
