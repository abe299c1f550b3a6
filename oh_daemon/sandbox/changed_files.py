"""Turns what differs in a view into a change of a file, with both contents kept as blobs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from oh_daemon.contract.items import FileChange
from oh_daemon.sandbox.changes import Change, Entry
from oh_daemon.sandbox.layer import read
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import MAX_TEXT_BYTES, FileText, parse_text
from oh_daemon.workspace.paths import uri_from_path
from oh_daemon.workspace.text_changes import with_newlines

MAX_BYTES = MAX_TEXT_BYTES


def cannot_land(change: Change) -> str | None:
    """Return why a change stays in the view, whatever its content."""
    sizes = [entry.size for entry in (change.before, change.after) if entry]
    if "other" in _kinds(change):
        return "it is a pipe, a socket or a device"
    if max(sizes, default=0) > MAX_BYTES:
        return f"it has more than {MAX_BYTES >> 20} MiB; copy it outside the sandbox"
    return None


def content_after(upper: Path, change: Change) -> bytes | None:
    """Return what the layer has: the bytes of a file, the target of a link. Raises `OSError`."""
    match change.after:
        case Entry(kind="link", target=target):
            return os.fsencode(target or "")
        case Entry(kind="file"):
            return read(upper, change.name, MAX_BYTES)
        case _:
            return None


def described(
    documents: Documents, path: Path, change: Change, before: bytes | None, after: bytes | None
) -> FileChange:
    """Return the change from one content to another; of a link, the content is its target."""
    old, new = parse_text(before or b""), parse_text(after or b"")
    is_text = _kinds(change) <= {"file"} and old and new and _same_form(old, new, change)
    if is_text and old and new:
        return _text_change(documents, path, change, None if before is None else old, new)
    return _raw_change(documents, path, change, before, after)


def _text_change(
    documents: Documents, path: Path, change: Change, old: FileText | None, new: FileText
) -> FileChange:
    history, after = documents.history, change.after
    is_chmod = change.before is not None and after is not None and _mode_changed(change)
    return FileChange(
        uri=_uri(documents, path),
        op=_op(change),
        added=0,
        removed=0,
        sha256_before=history.put(old.text) if old else None,
        sha256_after=history.put(new.text) if after else None,
        form=new.form.model_copy(update={"mode": after.mode}) if after else None,
        mode_after=after.mode if after and is_chmod else None,
    )


def _raw_change(
    documents: Documents, path: Path, change: Change, before: bytes | None, after: bytes | None
) -> FileChange:
    put = documents.history.blobs.put_blob
    kind = (change.after or change.before or Entry("file", 0, 0)).kind
    raw: Literal["bytes", "link", "folder"] = "link" if kind == "link" else "bytes"
    return FileChange(
        uri=_uri(documents, path),
        op=_op(change),
        added=0,
        removed=0,
        raw="folder" if kind == "folder" else raw,
        sha256_before=None if before is None else put(before),
        sha256_after=None if after is None else put(after),
        mode_before=change.before.mode if change.before else None,
        mode_after=change.after.mode if change.after else None,
    )


def _uri(documents: Documents, path: Path) -> str:
    return uri_from_path(documents.folders.as_opened(path))


def _kinds(change: Change) -> set[str]:
    return {entry.kind for entry in (change.before, change.after) if entry}


def _op(change: Change) -> Literal["add", "modify", "delete"]:
    if change.after is None:
        return "delete"
    return "add" if change.before is None else "modify"


def _mode_changed(change: Change) -> bool:
    return bool(change.before and change.after and change.before.mode != change.after.mode)


def _same_form(old: FileText, new: FileText, change: Change) -> bool:
    """Return whether a change of the text alone leads from one to the other."""
    if change.before is None or change.after is None:
        return True
    if with_newlines(old.text) == with_newlines(new.text):
        return False  # Line ends, encoding or permissions have changed.
    return (old.encoding, old.bom, _line_end(old)) == (new.encoding, new.bom, _line_end(new))


def _line_end(text: FileText) -> str:
    if text.has_mixed_line_ends:
        return "mixed"
    return "\r\n" if "\r\n" in text.text else "\n"
