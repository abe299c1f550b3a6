"""Looking at processes that may end at any moment."""

from __future__ import annotations

import psutil


def argv(process: psutil.Process) -> list[str]:
    """Nothing for one that has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
