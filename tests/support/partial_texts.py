"""Waits until the text that streams is where it survives its daemon: beside the log."""

import threading
import time
from pathlib import Path

from oh_daemon.conformance.rpc_process import WITHIN_S


def wait_until_kept(project: Path, *texts: str) -> None:
    """Wait until each of these is in what the conversations of this project are streaming."""
    deadline = time.monotonic() + WITHIN_S
    while not all(any(text in full_text for full_text in _texts_in(project)) for text in texts):
        assert time.monotonic() < deadline, _texts_in(project)
        threading.Event().wait(0.02)


def _texts_in(project: Path) -> list[str]:
    files = project.glob(".openhands/conversations/*/partial-*")
    return [file.read_text("utf-8", "ignore") for file in files]
