"""Signals that ask a command to end: SIGINT, SIGTERM and SIGHUP. Imports nothing slow."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oh_daemon.frontends.cli.conversation_control import ConversationControl

Handler = Callable[[int, FrameType | None], Any] | int | None
CHECK_S = 0.5
"""The longest wait of the main thread at once: Python runs the handler of a signal that comes just
before a wait only after it."""


class Signals:
    """Ends the start of a run at a signal, and interrupts the turn from then on.

    Make it before the imports of a run: Python drops an exception that a signal raises in a
    callback of the import system (`sys.unraisablehook`), and `has_come` remembers it.
    """

    def __init__(self) -> None:
        self.has_come = False
        self.control: ConversationControl | None = None
        on_signals(self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.has_come = True
        if self.control is None:
            raise KeyboardInterrupt
        interrupt(self.control)


def interrupt(control: ConversationControl) -> None:
    # On a thread of its own: when the signal came, this one may have held the conversation's lock.
    threading.Thread(target=control.interrupt, name="interrupt", daemon=True).start()


def on_signals(act: Handler) -> dict[signal.Signals, Handler]:
    """Let `act` handle the signals; return the handlers until now."""
    # Under `nohup`, a terminal that closes ends nothing.
    is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    ends = (
        (signal.SIGINT, signal.SIGTERM)
        if is_kept
        else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    )
    return {number: signal.signal(number, act) for number in ends}
