"""`oh-daemon remote`: its options; `frontends/remote` does the work."""

from __future__ import annotations

from typing import Annotated

import typer

remote = typer.Typer(rich_markup_mode=None)


@remote.command("remote")
def serve_remote(
    target: Annotated[str, typer.Argument(help="Such as ssh://HOST/FOLDER; see docs/remote.md.")],
    program: Annotated[
        str, typer.Option(help="The daemon there; default: a copy of this one, or `oh-daemon`.")
    ] = "",
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="HERE=THERE", help="Another path there; repeatable."),
    ] = None,
    installs: Annotated[
        bool, typer.Option("--install", help="Copy this installation there, and do no more.")
    ] = False,
    stdio: Annotated[  # noqa: ARG001 - always so; editors add it to any command.
        bool, typer.Option("--stdio", hidden=True)
    ] = False,
) -> int:
    """Serve an editor from another machine.

    The daemon runs there, and asks the models from here.
    """
    from oh_daemon.frontends.remote import main  # noqa: PLC0415

    return main.install(target) if installs else main.serve(target, program, maps or [])
