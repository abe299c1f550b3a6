"""The person at the terminal: what the agent asks them, and what they see while it works."""

from __future__ import annotations

import math
import signal
import sys
import termios
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from rich.console import Console

from oh_daemon.features.export.event_lines import EventPrinter, print_lines
from oh_daemon.frontends.cli.conversation_control import ConversationControl
from oh_daemon.frontends.cli.signals import CHECK_S, on_signals
from oh_daemon.kernel.approval_requests import whole_text
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision
from oh_daemon.system import reaper

_REQUESTS = frozenset({"approval.requested", "input.requested"})
_EFFECT_S = 5.0
"""How long the next request waits for the effect of an answer, which may settle it."""


class TerminalUser:
    """The user at the terminal, if one `is_there`, who gets one request after the other."""

    def __init__(self, control: ConversationControl, console: Console, *, is_there: bool) -> None:
        self.control = control
        self.console = console
        self._is_there = is_there
        self._printer = EventPrinter(console)
        self._requests: deque[plain.Record] = deque()
        self._answered_item = ""
        """The item of the last answer, until the agent acts on it."""

    def take(self, record: plain.Record, *, is_shown: bool) -> None:
        """Print what happened; a request waits until `ask_next` puts it to them."""
        event = record["event"]["type"]
        if event == "turn.completed" and is_shown:
            self.expect_no_effect()
            while self.ask_next():
                self.expect_no_effect()
        if _is_effect(record, self._answered_item):
            self.expect_no_effect()
        if self._is_there and event in _REQUESTS:
            self._requests.append(record)
        elif is_shown:
            self._printer.print(record)

    @property
    def patience_s(self) -> float:
        """How long to wait for what happens, in seconds."""
        return _EFFECT_S if self._requests else math.inf

    def expect_no_effect(self) -> None:
        """Ask the next request, though the agent has not acted on the last answer."""
        self._answered_item = ""

    def ask_next(self) -> bool:
        """Put the next request to them, unless it is settled; return whether there was one."""
        if not self._requests or self._answered_item:
            return False
        self._ask(self._requests.popleft())
        return True

    def _ask(self, record: plain.Record) -> None:
        event = record["event"]
        if event["type"] == "approval.requested" and self.control.is_pending(event["approval"]):
            self._printer.print(record)
            self._approve(event["approval"])
        if event["type"] == "input.requested" and self.control.is_pending(event["input"]):
            self._printer.print(record)
            self._answer(event["input"])

    def ask_again(self, ids: Collection[str]) -> None:
        """Settle what already waited in a resumed conversation, unless a message replaced that."""
        for request in self.control.pending_requests(ids):
            kind = "input" if "prompt" in request else "approval"
            event: Any = {"type": f"{kind}.requested", kind: request}
            record: Any = {"itemId": request["itemId"], "event": event}
            if self._is_there:
                self._requests.append(record)
            elif "digest" in request:
                self.control.reject_unattended(request)

    def _approve(self, approval: plain.Approval) -> None:
        text = whole_text(approval["subject"])
        if text not in approval["title"]:
            print_lines(text, self.console)
        options = {str(n): option for n, option in enumerate(approval["options"], 1)}
        for number, option in options.items():
            self.console.print(f"  {number}  {option['label']}", markup=False)
        reply = self._read_reply(approval, list(options))
        if reply is None:
            return
        chosen_option, decision = options.get(reply), Decision(effect="reject")
        if chosen_option is not None:
            decision = Decision(effect=chosen_option["effect"], scope=chosen_option["scope"])
        if self.control.decide(approval, decision):
            self._answered_item = approval["itemId"]
        else:
            self._report_late_answer()

    def _answer(self, question: plain.InputRequest) -> None:
        """Take the number of a choice, or any text as the answer; an empty line declines."""
        reply = self._read_reply(question)
        if reply is None:
            return
        choices_by_number = {
            str(n): choice for n, choice in enumerate(question.get("choices", ()), 1)
        }
        if not self.control.answer(question, choices_by_number.get(reply, reply)):
            self._report_late_answer()

    def _report_late_answer(self) -> None:
        self.console.print("  Your answer came too late: it was settled elsewhere.")

    def _read_reply(
        self, request: plain.Approval | plain.InputRequest, choices: Sequence[str] = ()
    ) -> str | None:
        """Return what they type: empty at the end of input.

        None if they interrupt the turn, or if the request is answered elsewhere meanwhile.
        """
        # With our own handlers the prompt would go on waiting.
        handlers = on_signals(signal.default_int_handler)
        try:
            while self._has_typed(request, choices):
                reply = input().strip()
                if not choices or reply in choices:
                    return reply
                self.console.print(f"  Type one of {', '.join(choices)}.")
        except EOFError:
            self.console.print()
            return ""
        except KeyboardInterrupt:
            self.control.interrupt()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return None

    def _has_typed(
        self, request: plain.Approval | plain.InputRequest, choices: Sequence[str]
    ) -> bool:
        """Prompt, and wait for a line; false if the request is answered elsewhere before that.

        Python runs handlers of signals between bytecodes only, so one that comes just before
        read(2) would wait for the next line: see `signals.CHECK_S`, and
        https://docs.python.org/3.11/library/signal.html#execution-of-python-signal-handlers
        """
        numbers = f" [{'/'.join(choices)}]" if choices else ""
        self.console.print(f"  Your answer{numbers}: ", end="", markup=False)
        while not reaper.wait_readable(sys.stdin.fileno(), wait_s=CHECK_S):
            if not self.control.is_pending(request):
                # Half a line for this request is no answer to the next one.
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
                self.console.print("\n  Settled elsewhere; no answer is needed.")
                return False
        return True


def _is_effect(record: plain.Record, item_id: str) -> bool:
    """Return whether the agent acts on an answer about this item, or on its changes."""
    event = record["event"]
    if event["type"] == "item.completed":
        return item_id in {event["item"]["id"], event["item"].get("settles")}
    return event["type"] == "item.updated" and record.get("itemId") == item_id
