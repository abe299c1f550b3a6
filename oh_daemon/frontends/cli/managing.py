"""`oh-daemon rename`, `archive` and `delete`: they change or remove what `oh-daemon list` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oh_daemon.frontends.cli.options import Folder, Id

managing = typer.Typer(rich_markup_mode=None)


@managing.command("rename")
def rename_conversation(
    conversation: Id,
    title: Annotated[str, typer.Argument(help="The new title.")],
    folder: Folder = Path(),
) -> None:
    """Give a conversation another title."""
    from oh_daemon.frontends.cli.conversation_commands import update  # noqa: PLC0415 - slow.

    update(folder, conversation, title=title.strip())


@managing.command("archive")
def archive_conversation(
    conversation: Id,
    folder: Folder = Path(),
    undo: Annotated[bool, typer.Option("--undo", help="List it again.")] = False,
) -> None:
    """Hide a conversation from lists."""
    from oh_daemon.frontends.cli.conversation_commands import update  # noqa: PLC0415 - slow.

    update(folder, conversation, archived=not undo)


@managing.command("delete")
def delete_conversation(
    conversation: Id,
    folder: Folder = Path(),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Remove the log instead of keeping it in `.trash`.")
    ] = False,
) -> int:
    """Delete a conversation and its pending changes."""
    from oh_daemon.frontends.cli.conversation_commands import run_delete  # noqa: PLC0415 - slow.

    return run_delete(folder, conversation, asks=not yes, is_permanent=permanent)
