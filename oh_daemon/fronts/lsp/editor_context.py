"""What the user is looking at, from `editor/contextChanged`, phrased as the model is told.

Invariant: this names nothing outside a conversation's folders and quotes no file that may hold
secrets. `core` decides who is told what, and when.
"""

from __future__ import annotations

import os
from pathlib import Path

from oh_daemon.contract.base import Range
from oh_daemon.contract.daemon_messages import ContextChangedParams, ShownSelection
from oh_daemon.core.context import NOTHING
from oh_daemon.core.ports import Json
from oh_daemon.core.secrets import Masker
from oh_daemon.workspace.paths import Folders, path_from_uri

_MAX_OPEN = 20
_MAX_SELECTED_CHARS = 4000


class EditorContext:
    """Set on the main loop, read by any thread: the value is replaced as a whole."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._shown: ContextChangedParams | None = None

    def on_changed(self, params: Json) -> None:
        """Handle the notification. Raises `ValidationError`; then the previous context stays."""
        self._shown = ContextChangedParams.model_validate(params)

    def seen_in(self, folders: Folders) -> dict[str, str]:
        """Return what a conversation in these folders may know, by kind.

        Empty until the client has sent the notification.
        """
        shown = self._shown
        if shown is None:
            return {}
        selection, counts = shown.selection, shown.diagnostics_summary
        problems = f"errors {counts.errors}, warnings {counts.warnings}" if counts else NOTHING
        return {
            "active": _active(folders, shown),
            "selection": _selection(folders, selection, self._masker) if selection else NOTHING,
            "open": _open(folders, shown.open_uris),
            "problems": problems,
        }


def _active(folders: Folders, shown: ContextChangedParams) -> str:
    name = _name(folders, shown.active_uri)
    if name is None:
        return NOTHING
    selection = shown.selection
    if selection and selection.uri == shown.active_uri and _is_empty(selection.range):
        name += f", cursor in line {selection.range.start.line + 1}"
    if shown.visible_ranges:
        first, last = shown.visible_ranges[0].start.line, shown.visible_ranges[-1].end.line
        name += f", lines {first + 1}-{last + 1} on screen"
    return name


def _selection(folders: Folders, selection: ShownSelection, masker: Masker) -> str:
    name, span = _name(folders, selection.uri), selection.range
    if name is None or _is_empty(span):
        return NOTHING
    text = selection.text or ""
    cut = len(text) - _MAX_SELECTED_CHARS
    if cut > 0:
        start = masker.mask_start(text[:_MAX_SELECTED_CHARS])
        text = f"{start}\n[cut, {cut:,} characters more]"
    return f"{name} lines {span.start.line + 1}-{span.end.line + 1}\n{text}"


def _open(folders: Folders, uris: tuple[str, ...]) -> str:
    names = [name for uri in uris if (name := _name(folders, uri))]
    more = [f"{len(names) - _MAX_OPEN} more"] if len(names) > _MAX_OPEN else []
    return ", ".join([*names[:_MAX_OPEN], *more]) or NOTHING


def _is_empty(span: Range) -> bool:
    return span.start == span.end


def _name(folders: Folders, uri: str | None) -> str | None:
    """Name a file by its path's text alone: the caller holds a lock, so the disk is not read."""
    path = path_from_uri(uri or "")
    if path is None:
        return None
    path = Path(os.path.normpath(path))
    for folder, root in zip(folders.folders, folders.roots, strict=True):
        if path.is_relative_to(folder):
            path = root / path.relative_to(folder)
    return folders.name(path) if folders.contains(path) and not folders.is_left_out(path) else None
