"""`oh-daemon land`: brings what an isolated conversation changed into the folder, or drops it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from oh_daemon.app.isolated import Isolated
from oh_daemon.contract.daemon_messages import ReviewParams, ReviewResult
from oh_daemon.contract.errors import InvalidStateError
from oh_daemon.core.plain_text import display_escaped
from oh_daemon.fronts.cli.at_rest import at_rest
from oh_daemon.workspace.paths import path_from_uri, uri_from_path

DONE, LEFT_SOME = 0, 1


def run_land(
    folder: Path, start_of_id: str, files: Sequence[Path], *, discards: bool, is_dry: bool
) -> int:
    """Land or discard these files, or all; return the exit code."""
    with at_rest(folder, start_of_id, "oh-daemon land") as live:
        if live.isolated is None:
            raise InvalidStateError("that conversation is not isolated: nothing of it waits")
        if is_dry:
            _print(waiting_lines(live.isolated, folder))
            return DONE
        uris = tuple(uri_from_path(folder / file) for file in files)
        params = ReviewParams(conversation_id=live.id, uris=uris)
        act = live.isolated.discard if discards else live.isolated.land
        result = act(params)
    _print(settled_lines(result, folder, "discarded" if discards else "landed"))
    return LEFT_SOME if result.conflicts else DONE


def told_at_end(isolated: Isolated, conversation_id: str, folder: Path) -> Iterator[str]:
    """Yield what a run says of what waits when it ends."""
    lines = [*waiting_lines(isolated, folder)]
    yield from lines
    if lines:
        yield f"nothing of this is in the folder yet; oh-daemon land {conversation_id[:12]}"


def waiting_lines(isolated: Isolated, folder: Path) -> Iterator[str]:
    """Yield a line for each file that waits."""
    found = isolated.list()
    for file in found.files:
        counts = "" if file.raw else f" (+{file.added} -{file.removed})"
        clash = ", also changed outside" if file.state == "conflict" else ""
        yield f"{file.op} {_name(file.uri, folder)}{counts}{clash}"
    for change in found.git or ():
        yield change.title
    for uri, why in (found.left_out or {}).items():
        yield f"cannot land: {_name(uri, folder)}: {why}"


def settled_lines(result: ReviewResult, folder: Path, done: str) -> Iterator[str]:
    for uri in result.done:
        yield f"{done}: {_name(uri, folder)}"
    for conflict in result.conflicts:
        yield f"still waits: {_name(conflict.uri, folder)}: {conflict.reason}"


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{display_escaped(line)}\n")


def _name(uri: str, folder: Path) -> str:
    path = path_from_uri(uri) or Path(uri)
    if path == folder:
        return "what git did"
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
