"""Descriptors 0 and 1 for the protocol alone, and the signals that ask a front to end.

It imports next to nothing, since it comes before everything else.
"""

from __future__ import annotations

import os
import signal

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""What asks us to stop."""


def claim_stdio() -> tuple[int, int]:
    """Take descriptors 0 and 1 for the protocol; returns (inbound, outbound).

    Afterwards 0 reads nothing and 1 is stderr, so a stray print or a child cannot break a frame.
    Call before anything heavy is imported. Raises `OSError` when 0 or 1 is closed.
    """
    try:
        os.fstat(2)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    inbound, outbound = os.dup(0), os.dup(1)
    # Some parents hand over pipes in non-blocking mode; our reader and writer need to block.
    os.set_blocking(inbound, True)
    os.set_blocking(outbound, True)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    os.close(nowhere)
    return inbound, outbound


def end_on_request() -> None:
    """Let signals end the process, also amid an import: there is nothing yet to end in order."""
    for number in SIGNALS:
        signal.signal(number, lambda _number, _frame: os._exit(0))


def signal_numbers() -> int:
    """Return a descriptor that gets the number of each signal that asks us to stop.

    A Python handler would not do: if the signal comes right before the main thread waits, the
    handler runs only when something else wakes that thread.
    """
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    return readable
