"""The person at the terminal: what the agent asks them, and what they see while it works."""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.prompt import Prompt
from rich.text import TextType

from oh_daemon.features.export.event_lines import EventPrinter, print_lines
from oh_daemon.frontends.cli.conversation_control import ConversationControl
from oh_daemon.frontends.cli.signals import CHECK_S, on_signals
from oh_daemon.kernel.approval_requests import whole_text
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision
from oh_daemon.system import reaper


class _InterruptiblePrompt(Prompt):
    """A prompt that no signal escapes.

    Python runs handlers between bytecodes only, so one that comes just before read(2) would wait
    for the next line: https://docs.python.org/3.11/library/signal.html#execution-of-python-signal-handlers
    """

    @classmethod
    def get_input(
        cls, console: Console, prompt: TextType, password: bool, stream: TextIO | None = None
    ) -> str:
        console.print(prompt, end="")
        while not reaper.wait_readable(sys.stdin.fileno(), wait_s=CHECK_S):
            pass
        return super().get_input(console, "", password, stream)


@dataclass(frozen=True, slots=True)
class TerminalUser:
    """Whoever can answer, if anybody `is_there`."""

    control: ConversationControl
    console: Console
    is_there: bool

    def ask(self, event: plain.Event) -> None:
        """Put a request that was just printed to them, and hand on the answer."""
        if not self.is_there:
            return
        if event["type"] == "approval.requested":
            self._approve(event["approval"])
        if event["type"] == "input.requested":
            self._answer(event["input"])

    def ask_again(self, ids: Collection[str]) -> None:
        """Settle what already waited in a resumed conversation, unless a message replaced that."""
        for request in self.control.pending_requests(ids):
            kind = "input" if "prompt" in request else "approval"
            event: Any = {"type": f"{kind}.requested", kind: request}
            record: Any = {"itemId": request["itemId"], "event": event}
            if self.is_there:
                EventPrinter(self.console).print(record)
                self.ask(event)
            elif "digest" in request:
                self.control.reject_unattended(request)

    def _approve(self, approval: plain.Approval) -> None:
        text = whole_text(approval["subject"])
        if text not in approval["title"]:
            print_lines(text, self.console)
        options = {str(n): option for n, option in enumerate(approval["options"], 1)}
        for number, option in options.items():
            self.console.print(f"  {number}  {option['label']}", markup=False)
        reply = self._read_choice(list(options))
        if reply is None:
            return
        chosen_option, decision = options.get(reply), Decision(effect="reject")
        if chosen_option is not None:
            decision = Decision(effect=chosen_option["effect"], scope=chosen_option["scope"])
        self.control.decide(approval, decision)

    def _answer(self, question: plain.InputRequest) -> None:
        """Take the number of a choice, or any text as the answer; an empty line declines."""
        reply = self._read_choice()
        if reply is None:
            return
        choices_by_number = {
            str(n): choice for n, choice in enumerate(question.get("choices", ()), 1)
        }
        self.control.answer(question, choices_by_number.get(reply, reply))

    def _read_choice(self, choices: list[str] | None = None) -> str | None:
        """Return what they type: empty at the end of input, None if they interrupt the turn."""
        # With our own handlers the prompt would go on waiting.
        handlers = on_signals(signal.default_int_handler)
        try:
            reply = _InterruptiblePrompt.ask("  Your answer", choices=choices, console=self.console)
            return reply.strip()
        except EOFError:
            self.console.print()
            return ""
        except KeyboardInterrupt:
            self.control.interrupt()
            return None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
