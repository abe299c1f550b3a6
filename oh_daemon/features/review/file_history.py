"""Finds what the agent did to files since some event, and restores a file to before it.

Works from the log's folder alone, which keeps texts of edits, and folders as commands changed them.
Changes that others made in between or since stay; where they are in the way, nothing is done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.checkpoints.checkpoints import Checkpoints, FileBlob, FileDifference
from oh_daemon.kernel.state import changes_made
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import EditRejectedError, StorageError, ToolError, UserError
from oh_daemon.protocol.events import CheckpointCreated
from oh_daemon.protocol.items import FileChange
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import parse_text, sha256_of
from oh_daemon.workspace.hunks import Rewrite, merge_texts
from oh_daemon.workspace.paths import path_from_uri, real_path, uri_from_path
from oh_daemon.workspace.text_changes import Create, with_newlines

logger = logging.getLogger(__name__)

_MAX_REVIEWED = 500
"""A command that changes more files, such as an installation, is not for a review file by file."""
_TAKEN_BACK = ("undone", "discarded")
"""Decisions of a review that take a change back."""
_LINK = "120000"
_EXECUTABLE = "100755"
_PLAIN = "100644"


class Version(Struct, frozen=True):
    """One state of a file: its text if it is text, its exact bytes and mode if they were kept.

    Without text and bytes, what was kept of the file can no longer be read.
    """

    text: str | None
    raw: bytes | None = None
    mode: str | None = None

    def is_same(self, other_version: Version | None) -> bool:
        if other_version is None or (
            self.mode and other_version.mode and self.mode != other_version.mode
        ):
            return False
        if self.raw is not None and self.raw == other_version.raw:
            return True
        return self.text is not None and self.text == other_version.text


class FileHistory(Struct, frozen=True):
    """One file: `now` as the agent left it; `target` as it was, with what others changed since."""

    now: Version | None
    target: Version | None


Change = tuple[Path, Version | None, Version | None]
"""One change of a file: its path, and the file before and after."""


def histories_of(
    records: Iterable[plain.Record],
    to_seq: int,
    documents: Documents,
    checkpoints: Checkpoints | None,
) -> dict[Path, FileHistory]:
    """Return the files that changed after `to_seq`, by real path.

    Raises `ToolError` when the checkpoints cannot be read.
    """
    histories: dict[Path, FileHistory] = {}
    hash_by_uri: dict[str, str | None] = {}
    for record in records:
        event = record["event"]
        is_later = record["seq"] > to_seq
        changes = (
            _changes_in(event, documents, checkpoints, histories, hash_by_uri) if is_later else ()
        )
        for path, before, after in changes:
            past = histories.get(path)
            if past is None:
                histories[path] = FileHistory(after, before)
            elif _same(past.now, before):
                histories[path] = FileHistory(after, past.target)
            else:
                histories[path] = FileHistory(after, _with_gap(past, before))
        hash_by_uri |= _reviewed_by(event)
    return {path: past for path, past in histories.items() if not _same(past.now, past.target)}


def _reviewed_by(event: plain.Event) -> dict[str, str | None]:
    """Return the texts that the review of these files ends with from now on, as hashes."""
    match event["type"]:
        case "changes.reviewed":
            return {event["uri"]: event.get("now")}
        case "item.completed" | "changes.updated":
            edits = _edits_in(event)
        case "checkpoint.created":
            edits = event.get("changes", ())
        case _:
            edits = ()
    return {change["uri"]: change.get("sha256After") for change in edits if "raw" not in change}


def _same(one: Version | None, other_version: Version | None) -> bool:
    return other_version is None if one is None else one.is_same(other_version)


def _with_gap(past: FileHistory, later: Version | None) -> Version | None:
    """Return `past.target` with what somebody else changed from `past.now` to `later`."""
    texts = [version.text if version else "" for version in (past.now, past.target, later)]
    if later is None or any(text is None for text in texts):
        return later
    origin, own_text, foreign_text = (text or "" for text in texts)
    return Version(merge_texts(origin, own_text, foreign_text)[0])


def _changes_in(
    event: plain.Event,
    documents: Documents,
    checkpoints: Checkpoints | None,
    histories: Mapping[Path, FileHistory],
    hash_by_uri: Mapping[str, str | None],
) -> Iterator[Change]:
    """Yield each change of a file by the agent, and each that the user undid or discarded."""
    match event["type"]:
        case "item.completed" | "changes.updated":
            for change in _edits_in(event):
                if "raw" in change:
                    yield _raw_change(documents, change, change["raw"])
                    continue
                path = _path(change["uri"])
                before, after = change.get("sha256Before"), change.get("sha256After")
                yield path, _version(documents, before), _version(documents, after)
        case "changes.reviewed" if event["decision"] in _TAKEN_BACK and event["uri"] in hash_by_uri:
            path = _path(event["uri"])
            before, after = (
                _version(documents, sha256)
                for sha256 in (hash_by_uri[event["uri"]], event.get("now"))
            )
            past = histories.get(path)
            if past is not None and before is not None and after is not None:
                # What is not in the review, such as what the user changed since, stayed.
                after = _with_gap(FileHistory(before, after), past.now)
            yield path, past.now if past else before, after
        case "checkpoint.created" if checkpoints is not None:
            differences = checkpoints.differences(event["before"], event["after"])
            yield from _versions(differences, event.get("saved", {}), checkpoints)
        case _:
            pass


def _raw_change(documents: Documents, change: plain.FileChange, raw: str) -> Change:
    """Return a change of bytes, which a command made in its sandbox."""
    path_on_disk = path_from_uri(change["uri"]) or Path("/")
    # Resolve the folder only: a link stands for itself, not for its target.
    path = real_path(path_on_disk.parent) / path_on_disk.name

    def version(sha256: str | None, mode: int | None) -> Version | None:
        if sha256 is None:
            return None
        try:
            content = documents.history.blobs.read_blob(sha256)
        except (UserError, StorageError):
            return Version(None)
        executable = bool((mode or 0) & 0o100)
        git_mode = _LINK if raw == "link" else _EXECUTABLE if executable else _PLAIN
        return Version(None, content, git_mode)

    before = version(change.get("sha256Before"), change.get("modeBefore"))
    return path, before, version(change.get("sha256After"), change.get("modeAfter"))


def _version(documents: Documents, sha256: str | None) -> Version | None:
    if sha256 is None:
        return None
    try:
        return Version(with_newlines(documents.history.text(sha256)))
    except ToolError:
        return Version(None)  # Damaged or gone; that concerns this file alone.


def _edits_in(event: plain.ItemCompleted | plain.ChangesUpdated) -> Sequence[plain.FileChange]:
    """The changes of files by a tool of the agent, or by a sub-agent."""
    if event["type"] == "changes.updated":
        return event.get("bySubagent", ())
    return changes_made(event["item"])


def _path(uri: str) -> Path:
    return real_path(path_from_uri(uri) or Path("/"))


def _versions(
    differences: Sequence[FileDifference], saves: Mapping[str, str], checkpoints: Checkpoints
) -> Iterator[Change]:
    sides = [side for each in differences for side in (each.before, each.after) if side]
    contents = checkpoints.contents([*(side.oid for side in sides), *saves.values()])

    def text(oid: str) -> str | None:
        file_text = parse_text(contents[oid]) if oid in contents else None
        return file_text and with_newlines(file_text.text)

    def version(side: FileBlob | None) -> Version | None:
        if side is None:
            return None
        is_link = side.mode == _LINK
        return Version(None if is_link else text(side.oid), contents.get(side.oid), side.mode)

    for each in differences:
        # Resolve the folder only: a link stands for itself, not for its target.
        path = real_path(each.path.parent) / each.path.name
        before = version(each.before)
        if saved_versions := saves.get(uri_from_path(each.path)):
            # The user saved this text while the command ran, so the command's change starts from
            # it. Its bytes are unknown: the file on disk may have another encoding.
            before = Version(text(saved_versions), mode=before and before.mode)
        yield path, before, version(each.after)


def with_texts(
    checkpoint: CheckpointCreated, documents: Documents, checkpoints: Checkpoints
) -> CheckpointCreated:
    """Return the checkpoint with what differs in texts, which are kept; not of too many files."""
    try:
        differences = checkpoints.differences(checkpoint.before, checkpoint.after)
        if len(differences) > _MAX_REVIEWED:
            return checkpoint
        sides = [side for each in differences for side in (each.before, each.after) if side]
        saves = checkpoint.saved or {}
        contents = checkpoints.contents([*(side.oid for side in sides), *saves.values()])
    except ToolError as exc:
        logger.warning("a checkpoint is not shown for review: %s", exc)
        return checkpoint
    changes: list[FileChange] = []
    for each in differences:
        saved_version = saves.get(uri_from_path(each.path))
        oids = (saved_version or (each.before and each.before.oid), each.after and each.after.oid)
        file_texts = [parse_text(contents.get(oid, b"\0")) if oid else None for oid in oids]
        is_text = all(
            side is not None or oid is None for side, oid in zip(file_texts, oids, strict=True)
        )
        is_link = any(side and side.mode == _LINK for side in (each.before, each.after))
        before, after = (side and side.text for side in file_texts)
        if is_text and not is_link and before != after:
            change = documents.history.describe(each.path, before, after)
            documents.history.put(before)
            documents.history.put(after)
            changes.append(change.model_copy(update={"patch": None}))
    return checkpoint.model_copy(update={"changes": tuple(changes) or None})


def restore(documents: Documents, path: Path, past: FileHistory, *, is_dry: bool) -> bool:
    """Restore the file and keep the user's later changes; return False if it is restored already.

    Raises `ToolError` with the reason when the file has to stay as it is.
    """
    documents.folders.resolve(str(path), writing=True)
    documents.require_seen([path])
    now, target = past.now, past.target
    if path.is_symlink() or any(each and each.mode == _LINK for each in (now, target)):
        raise EditRejectedError("it is a link, and links are not restored")
    disk = path.read_bytes() if path.is_file() else None
    is_open = documents.document(path) is not None
    has_bytes = all(each is None or each.raw is not None for each in (now, target))
    if has_bytes and not is_open:
        is_executable = disk is not None and bool(path.stat().st_mode & 0o100)
        has_mode = target is None or is_executable == (target.mode == _EXECUTABLE)
        if disk == (target and target.raw) and has_mode:
            return False
        if disk == (now and now.raw):
            return is_dry or _put_bytes(documents, path, disk, target)
    return _restore_text(documents, path, past, is_dry=is_dry)


def _put_bytes(
    documents: Documents, path: Path, disk: bytes | None, target: Version | None
) -> bool:
    """Restore the exact bytes of a file that nobody has changed since."""
    raw = target.raw if target else None
    if raw is None:
        documents.files.delete(path, sha256_of(disk or b""))
    elif disk is None:
        documents.files.create(path, raw)
    else:
        documents.files.replace(path, raw, sha256_of(disk))
    _set_mode(path, target)
    return True


def _set_mode(path: Path, target: Version | None) -> None:
    if target is None or target.mode is None:
        return
    mode = path.stat().st_mode
    path.chmod(mode | 0o111 if target.mode == _EXECUTABLE else mode & ~0o111)


def _restore_text(documents: Documents, path: Path, past: FileHistory, *, is_dry: bool) -> bool:
    now, target = past.now, past.target
    textless = [each for each in (now, target) if each is not None and each.text is None]
    if any(each.raw is None for each in textless):
        raise EditRejectedError("its earlier text can no longer be read")
    if textless:
        raise EditRejectedError("it was changed since, and it is not a text file")
    change = _change(documents, path, now, target)
    if change is None:
        return False
    plan = documents.plan(path, change)
    if plan.before == plan.after:
        return False
    if not is_dry:
        documents.restore(path, change, label=f"Restore {path.name}", cancel=CancelToken())
        if now is None or (target and target.mode != now.mode):
            _set_mode(path, target)
    return True


def _change(
    documents: Documents, path: Path, now: Version | None, target: Version | None
) -> Create | Rewrite | None:
    """Return the change to make, or None if there is none.

    Raises `EditRejectedError` when the user has removed the file, or made a new one, since.
    """
    document = documents.look(path)
    text, earlier = document.text, target.text or "" if target else None
    if now is None and earlier is not None and document.file is None:
        # An editor may still show the file, but it is no longer on disk.
        return documents.history.recreating(path, earlier)
    if text is None:
        if earlier is None:
            return None
        raise EditRejectedError("it was removed since")
    if with_newlines(text) == earlier:
        return None
    if now is None:
        raise EditRejectedError("it was removed by the agent, and there is a new one by now")
    return Rewrite(now.text or "", earlier)
