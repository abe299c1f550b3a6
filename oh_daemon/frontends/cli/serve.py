"""`oh-daemon serve` and `attach`: their options; `frontends/serve` does the work."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from oh_daemon.frontends.cli.options import Folder
from oh_daemon.protocol.errors import InvalidParamsError

serving = typer.Typer(rich_markup_mode=None)

_UNIT = """\
# ~/.config/systemd/user/oh-daemon.service; then: systemctl --user enable --now oh-daemon
[Unit]
Description=oh-daemon for several clients

[Service]
ExecStart={python} -P -m oh_daemon serve --idle 525600
Restart=on-failure

[Install]
WantedBy=default.target
"""
"""It lives as long as the user is logged in: its end after the last client is a year away."""


@serving.command("serve")
def serve_clients(
    idle: Annotated[
        float, typer.Option(min=0, help="End so many minutes after the last client.")
    ] = 10.0,
    web: Annotated[
        bool, typer.Option("--web", help="Serve a page too, on 127.0.0.1, and print its link.")
    ] = False,
    port: Annotated[
        int, typer.Argument(min=0, max=65535, help="For --web; default: any that is free.")
    ] = 0,
    public_url: Annotated[
        str, typer.Option(metavar="URL", help="For --web: the address of your own tunnel to it.")
    ] = "",
    workspace: Folder = Path(),
    systemd: Annotated[
        bool, typer.Option("--systemd", help="Print a unit for `systemctl --user` instead.")
    ] = False,
) -> None:
    """Serve several clients, which come with `oh-daemon attach`.

    It ends when none is left and nothing runs.
    """
    if systemd:
        sys.stdout.write(_UNIT.format(python=sys.executable))
        return
    from oh_daemon.frontends.serve.main import serve  # noqa: PLC0415 - as above.
    from oh_daemon.frontends.serve.web_gate import parse_public_url  # noqa: PLC0415 - as above.
    from oh_daemon.frontends.serve.web_server import PageOptions  # noqa: PLC0415 - for this command.

    if not web and (port or public_url):
        raise InvalidParamsError("a port and --public-url are for the page: add --web")
    page = (
        PageOptions(workspace, port, public_url and parse_public_url(public_url)) if web else None
    )
    serve(dict(os.environ), idle * 60, page)


@serving.command("attach")
def attach_client(
    start: Annotated[
        bool, typer.Option("--start", help="Start `oh-daemon serve` if it does not run.")
    ] = False,
    or_alone: Annotated[  # noqa: ARG001 - `__main__` handles all plain words.
        bool, typer.Option("--or-alone", help="Serve it alone, as `--stdio`, if none runs.")
    ] = False,
    stdio: Annotated[  # noqa: ARG001 - always so; editors add it to any command.
        bool, typer.Option("--stdio", hidden=True)
    ] = False,
) -> int:
    """Connect an editor to `oh-daemon serve`, on stdin and stdout."""
    from oh_daemon.frontends.serve.attach import attach_or_say_why  # noqa: PLC0415

    return attach_or_say_why(os.environ, starts=start)
