"""`oh-daemon ask`: a question about a conversation, beside its work."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.plain_text import display_escaped
from oh_daemon.fronts.cli.at_rest import at_rest
from oh_daemon.fronts.cli.status_line import shown


def print_answer(folder: Path, start_of_id: str, question: str) -> None:
    """Ask the conversation's model and print its answer. Raises `ModelError`, `UserError`."""
    if not question.strip():
        raise InvalidParamsError('say what you want to know: oh-daemon ask ID "question"')
    with (
        at_rest(folder, start_of_id, "oh-daemon ask") as live,
        shown("asking; Ctrl-C stops it", Console(stderr=True, highlight=False)),
    ):
        answer = live.agent.ask(question, CancelToken())
    sys.stdout.write(f"{display_escaped(answer.text)}\n")
