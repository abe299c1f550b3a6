"""`oh-daemon rollback`: takes a conversation, and its files, back to before a message.

With this, users without an editor undo what the agent did. Files that others changed
since then stay as they are and are named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from oh_daemon.app.export_words import said_in
from oh_daemon.app.live import Live
from oh_daemon.app.rollback import rollback
from oh_daemon.contract import plain
from oh_daemon.contract.branches import RollbackParams, RollbackResult
from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.core.delivery import MAX_TITLE
from oh_daemon.core.plain_text import clipped, display_escaped
from oh_daemon.fronts.cli.at_rest import at_rest
from oh_daemon.workspace.paths import path_from_uri

DONE, LEFT_SOME = 0, 1


def run_rollback(
    folder: Path, start_of_id: str, to_item: str | None, *, keep_files: bool, is_dry: bool
) -> int:
    """Take back the last message, or `to_item`, and all after it; return the exit code."""
    with at_rest(folder, start_of_id, "oh-daemon rollback") as live:
        message = _message(live, to_item)
        params = RollbackParams(
            conversation_id=live.id,
            to_item_id=message["id"],
            files="keep" if keep_files else "restore",
            dry_run=is_dry,
        )
        result = rollback(live, params)
    for line in _told(result, message, folder, is_dry=is_dry):
        sys.stdout.write(f"{display_escaped(line)}\n")
    return LEFT_SOME if result.conflicts else DONE


def _message(live: Live, item_id: str | None) -> plain.UserMessageItem:
    """Return the message to go back to. Raises `InvalidParamsError`."""
    messages = [item for item in live.conversation.state.items if item["kind"] == "userMessage"]
    found = [item for item in messages if item_id in {None, item["id"]}]
    if not found:
        what = "no message to go back to" if item_id is None else f"no message {item_id!r}"
        raise InvalidParamsError(
            f"{what} in this conversation; `oh-daemon log {live.id[:12]} --json` shows its items"
        )
    return found[-1]


def _told(
    result: RollbackResult, message: plain.UserMessageItem, folder: Path, *, is_dry: bool
) -> Iterator[str]:
    said = clipped(" ".join(said_in(message).split()), MAX_TITLE)
    yield f"{'Would go' if is_dry else 'Went'} back to before: {said}"
    for uri in result.restored:
        yield f"  {'would be' if is_dry else 'is'} as it was: {_name(uri, folder)}"
    for conflict in result.conflicts:
        yield f"  stays as it is: {_name(conflict.uri, folder)} ({conflict.reason})"


def _name(uri: str, folder: Path) -> str:
    path = path_from_uri(uri) or Path(uri)
    if path == folder:
        return "the rest of the folder"
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
