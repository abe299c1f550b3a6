"""Imports in the background what the first call needs, so that it does not wait for that."""

from __future__ import annotations

import gc
import threading
from functools import cache
from importlib import import_module


@cache
def warm_up() -> None:
    """Begin; further calls do nothing.

    Only for a process of our own: the garbage collector then passes over all that exists so far.
    """
    threading.Thread(target=_load, name="model-import", daemon=True).start()


def _load() -> None:
    import_module("oh_daemon.features.models.remote_model")
    import_module("oh_daemon.features.models.sockets").tls_context()
    gc.freeze()
