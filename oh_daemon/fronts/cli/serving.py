"""`oh-daemon serve` and `attach`: their options; `fronts/serve` does the work."""

from __future__ import annotations

import os
from typing import Annotated

import typer

serving = typer.Typer(rich_markup_mode=None)


@serving.command("serve")
def serve_clients(
    idle: Annotated[
        float, typer.Option(min=0, help="End so many minutes after the last client.")
    ] = 10.0,
) -> int:
    """Serve several clients, which come with `oh-daemon attach`.

    It ends when none is left and nothing runs.
    """
    from oh_daemon.fronts.serve.main import serve  # noqa: PLC0415

    return serve(dict(os.environ), idle * 60)


@serving.command("attach")
def attach_client(
    start: Annotated[
        bool, typer.Option("--start", help="Start `oh-daemon serve` if it does not run.")
    ] = False,
    stdio: Annotated[  # noqa: ARG001 - always so; editors add it to any command.
        bool, typer.Option("--stdio", hidden=True)
    ] = False,
) -> int:
    """Connect an editor to `oh-daemon serve`, on stdin and stdout."""
    # `__main__` handles the plain words.
    from oh_daemon.fronts.serve.attach import attach  # noqa: PLC0415

    return attach(os.environ, starts=start)
