"""`oh-daemon log` and `ask`: what happens in a conversation, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oh_daemon.frontends.cli.options import AsJson, Attach, Folder, Id
from oh_daemon.protocol.errors import InvalidParamsError

looking = typer.Typer(rich_markup_mode=None)


@looking.command("log")
def show_log(
    conversation: Id,
    workspace: Folder = Path(),
    as_json: AsJson = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the log grows.")] = False,
    attach: Attach = False,
) -> None:
    """Show a conversation from its log, even while it runs."""
    if attach:
        from oh_daemon.frontends.cli.attached import print_log_there  # noqa: PLC0415 - for few.

        if not follow:
            raise InvalidParamsError("--attach is for `--follow`; a log is read without a daemon")
        print_log_there(workspace, conversation, as_json=as_json)
        return
    from oh_daemon.frontends.cli.logs import print_log  # noqa: PLC0415

    print_log(workspace, conversation, as_json=as_json, follow=follow)


@looking.command("ask")
def ask_side_question(
    conversation: Id,
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    workspace: Folder = Path(),
    attach: Attach = False,
) -> None:
    """Ask about a conversation; it goes on as if nobody had asked."""
    if attach:
        from oh_daemon.frontends.cli.attached import print_answer_there  # noqa: PLC0415 - for few.

        print_answer_there(workspace, conversation, question)
        return
    from oh_daemon.frontends.cli.conversation_commands import print_answer  # noqa: PLC0415

    print_answer(workspace, conversation, question)
