"""Looks at processes that may end at any moment."""

from __future__ import annotations

import psutil


def argv(process: psutil.Process) -> list[str]:
    """Return the command line of a process, or nothing if the process has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def cwd(process: psutil.Process) -> str | None:
    """Return the folder of a process, or nothing if it has ended or is another user's."""
    try:
        return process.cwd()
    except psutil.Error:
        return None
