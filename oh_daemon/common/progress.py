"""Renders what an agent has done so far: its plan, and the files that it changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from posixpath import commonpath
from urllib.parse import unquote

from oh_daemon.common.plain_text import clip_line, display_escaped, first_line, within_tag
from oh_daemon.protocol import plain

PLAN_MARKS = {"pending": "[ ]", "inProgress": "[~]", "completed": "[x]"}
_PLAN_ROW_CHARS = 200
_MAX_FILES = 100


def render_plan(entries: Sequence[plain.PlanEntry]) -> str:
    """Return a plan with one row per entry, such as "[x] Read the log"; long ones are cut."""
    rows = (f"{PLAN_MARKS[entry['status']]} {first_line(entry['text'])}" for entry in entries)
    text = "\n".join(clip_line(row, _PLAN_ROW_CHARS) for row in rows)
    return f"<plan>\n{within_tag('plan', text)}\n</plan>"


def render_changed_files(changes_made: Iterable[plain.FileChange]) -> str:
    """Return the files that changed, without those that are again as they were; "" for none."""
    before: dict[str, str | None] = {}
    latest: dict[str, plain.FileChange] = {}
    for change in changes_made:
        before.setdefault(change["uri"], change.get("sha256Before"))
        latest[change["uri"]] = change
    changes = {
        PurePosixPath(unquote(uri.removeprefix("file://"))): change
        for uri, change in latest.items()
        if before[uri] != change.get("sha256After")
    }
    if not changes:
        return ""
    folder = PurePosixPath(commonpath([path.parent for path in changes]))
    rows = [
        display_escaped(str(path.relative_to(folder))) + _file_state(before[change["uri"]], change)
        for path, change in changes.items()
    ]
    if len(rows) > _MAX_FILES:
        rows[_MAX_FILES:] = [f"[{len(rows) - _MAX_FILES} more files]"]
    text = within_tag("changed-files", "\n".join(rows))
    return f"<changed-files in={display_escaped(str(folder))!r}>\n{text}\n</changed-files>"


def _file_state(before: str | None, change: plain.FileChange) -> str:
    if change["op"] == "delete":
        return " (deleted)"
    return " (new)" if before is None else ""
