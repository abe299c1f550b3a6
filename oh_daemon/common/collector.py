"""The garbage collector, paused where very many objects are made and none of them is garbage."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause the garbage collector for imports or for reading a log; any thread may.

    A collection of the oldest generation takes 30 ms while the program is composed, and each
    passes over the same modules and classes again.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
