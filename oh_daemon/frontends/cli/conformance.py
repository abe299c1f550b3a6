"""`oh-daemon conformance`: whether another program keeps the rules of a protocol."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from oh_daemon.frontends.cli.options import AsJson
from oh_daemon.protocol.errors import InvalidParamsError

conformance = typer.Typer(rich_markup_mode=None)


@conformance.command("conformance", context_settings={"ignore_unknown_options": True})
def check_conformance(
    command: Annotated[list[str], typer.Argument(help="What to check, after `--`.")],
    as_json: AsJson = False,
    only: Annotated[str, typer.Option(metavar="ID", help="This check only.")] = "",
    acp: Annotated[bool, typer.Option("--acp", help="It is an agent that speaks ACP.")] = False,
    client: Annotated[bool, typer.Option("--client", help="It is a client.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for a message.")] = 20,
) -> int:
    """Check that a server, an ACP agent or a client keeps the rules."""
    from oh_daemon.conformance import suite  # noqa: PLC0415 - not for other commands.

    if acp and client:
        raise InvalidParamsError("--acp and --client: a command is one of them")
    name = "acp" if acp else "client" if client else "server"
    outcomes: list[suite.CheckOutcome] = []
    try:
        for outcome in suite.run(name, command, only=only, within_s=timeout):
            sys.stdout.write(f"{outcome.as_json() if as_json else outcome.as_text()}\n")
            sys.stdout.flush()
            outcomes.append(outcome)
    except LookupError:
        raise InvalidParamsError(f"--only {only}: there is no such check") from None
    if not as_json:
        sys.stdout.write(f"{suite.summary(outcomes)}\n")
    return int(any(outcome.status == "failed" for outcome in outcomes))
