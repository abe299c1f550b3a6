"""Decides what becomes of each change of a command, from the state of the disk and of the editor.

Files that other processes have open for writing are protected: the user is asked about them, with
the names of the processes. A pure append to such a file goes to its end instead. The files of a
database are applied together or not at all. Looks only; `apply` asks and acts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.common.plain_text import join_names
from oh_daemon.features.edit.file_changes import Step
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import FileChange, FileForm
from oh_daemon.system.writers import HIDDEN, Writer, find_writers
from oh_daemon.workspace.databases import databases, is_journal_name, parts_of
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.encodings import encode_text
from oh_daemon.workspace.hunks import Rewrite, Wanted, force_merge, merge_texts
from oh_daemon.workspace.paths import path_from_uri, printable
from oh_daemon.workspace.raw_files import RawFiles
from oh_daemon.workspace.text_changes import Create, with_newlines

LOCK_FILES = frozenset(
    """package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock uv.lock poetry.lock
    pdm.lock pipfile.lock cargo.lock go.sum gemfile.lock composer.lock flake.lock mix.lock
    packages.lock.json pubspec.lock""".split()  # noqa: SIM905
)
"""Files that package managers write; a command that may run without a question may change these."""

_CLASH = "you changed the same lines meanwhile; this replaces yours"
_MAX_WRITERS = 3

Row = tuple[Path, FileChange]


class ApplyPlan(Struct):
    """The outcome of each change."""

    steps: list[Step] = field(default_factory=list[Step])
    modes: list[tuple[Path, int]] = field(default_factory=list[tuple[Path, int]])
    """Texts whose permissions change too."""
    raw: list[Row] = field(default_factory=list[Row])
    appends: list[tuple[Path, FileChange, bytes]] = field(
        default_factory=list[tuple[Path, FileChange, bytes]]
    )
    """Bytes for the end of files to which other processes append."""
    in_place: list[Row] = field(default_factory=list[Row])
    """Changes that the disk has already: the daemon ended while it applied them."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    protected: list[str] = field(default_factory=list[str])
    clashes: bool = False
    """Whether one of them replaces what the user has changed meanwhile."""

    @property
    def paths(self) -> Iterator[Path]:
        """All that is about to change."""
        yield from (step.path for step in self.steps)
        yield from (path for path, _ in self.raw)
        yield from (path for path, _, _ in self.appends)

    def without(self, paths: frozenset[Path]) -> None:
        """Remove all that was to become of some files."""
        self.steps[:] = [step for step in self.steps if step.path not in paths]
        self.modes[:] = [row for row in self.modes if row[0] not in paths]
        self.raw[:] = [row for row in self.raw if row[0] not in paths]
        self.appends[:] = [row for row in self.appends if row[0] not in paths]


class OpenFiles:
    """The files among some that other processes have open for writing, as of one moment."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._main_files = databases([*map(str, paths)], os.path.lexists)
        self._writers = find_writers({*paths, *map(Path, self._main_files.values())})

    def writers(self, path: Path) -> Sequence[Writer]:
        """Return the writers of a file, of a journal also those of its database."""
        if not self._writers:
            return ()
        main_file = Path(self._main_files.get(str(path), path))
        return self._writers.get(path) or self._writers.get(main_file, ())

    def reason(self, path: Path, name: str) -> str | None:
        """Return why a file must not be replaced without a question, if so."""
        if not (writers := self.writers(path)):
            return None
        titles = dict.fromkeys(
            "a process that the system hides"
            if writer == HIDDEN
            else f"{printable(writer.name)} (process {writer.pid})"
            for writer in writers
        )
        programs = join_names([*titles], _MAX_WRITERS)
        return f"{name} is open for writing in {programs}, whose data may be lost or damaged"


class Planner:
    """Plans the changes of one command; used once."""

    def __init__(self, documents: Documents, *, asks: bool) -> None:
        """Unless the user is asked, protected files are left out and named."""
        self._documents = documents
        self._folders = documents.folders
        self._raw = RawFiles(documents)
        self._asks = asks
        self._plan = ApplyPlan()
        self._missing = set[Path]()
        """Files that are not applied."""
        self._unseen: Mapping[Path, str] = {}
        """Files with unsaved text that is not known, each with the reason to ask."""

    def plan(self, changes: Sequence[FileChange], omitted: Mapping[str, str]) -> ApplyPlan:
        """Return what becomes of the changes; `omitted` has names with the reasons."""
        self._plan.left_out.update(omitted)
        self._missing.update(root / name for name in omitted for root in self._folders.roots[:1])
        places = [*self._places(changes)]
        self._unseen = self._documents.unseen_texts([path for path, _, _ in places])
        files = [path for path, change, _ in places if _replaces_file(change)]
        open_files = OpenFiles(files)
        for path, change, why in places:
            try:
                self._add(path, change, why, open_files)
            except ToolError as exc:
                self._leave_out(path, exc)
        self._leave_out_parts_of_databases()
        if not self._asks:
            self._plan.protected.clear()
        return self._plan

    def _places(
        self, changes: Sequence[FileChange]
    ) -> Iterator[tuple[Path, FileChange, str | None]]:
        """Yield the real path of each change, and why that is protected, if it is."""
        judge = self._folders.judge()
        for change in changes:
            path = path_from_uri(change.uri)
            if path is None:
                self._plan.left_out[printable(change.uri)] = "it is no file of this machine"
                continue
            try:
                if change.raw == "link":
                    # The link itself changes, not what it leads to.
                    folder = self._folders.resolve(str(path.parent), writing=True)
                    yield folder / path.name, change, self._folders.is_protected(path)
                else:
                    real_path, why = judge(str(path))
                    yield real_path, change, why
            except ToolError as exc:
                self._leave_out(path, exc)

    def _leave_out(self, path: Path, why: ToolError | str) -> None:
        self._plan.left_out[self._folders.name(path)] = str(why).partition("\n")[0]
        self._missing.add(path)

    def _add(self, path: Path, change: FileChange, why: str | None, open_files: OpenFiles) -> None:
        if not self._asks and path.name.casefold() in LOCK_FILES:
            why = None
        writers = open_files.writers(path)
        is_log = writers and all(writer.is_appending for writer in writers)
        is_known = why is None and path not in self._unseen
        if is_log and is_known and self._add_append(path, change):
            return
        why = why or self._unseen.get(path) or open_files.reason(path, self._folders.name(path))
        if why and not self._asks:
            self._leave_out(path, f"{why}; only the user can change it")
            return
        if why:
            self._plan.protected.append(why)
        if change.raw is None:
            self._add_text(path, change)
        else:
            is_done = self._raw.is_done(path, change)
            (self._plan.in_place if is_done else self._plan.raw).append((path, change))

    def _add_text(self, path: Path, change: FileChange) -> None:
        plan = self._plan
        step, clashes = plan_text(self._documents, path, change)
        if clashes and not self._asks:
            why = "the user changed the same lines meanwhile, and theirs stay"
            self._leave_out(path, why)
            return
        if clashes:
            plan.clashes = True
            plan.protected.append(_CLASH)
        if change.mode_after is not None:
            plan.modes.append((path, change.mode_after))
        if step is None:
            plan.in_place.append((path, change))
        else:
            plan.steps.append(step)

    def _add_append(self, path: Path, change: FileChange) -> bool:
        """Plan a change that only adds to the end; return whether it is one."""
        contents = self._contents(change)
        if contents is None or not contents[1].startswith(contents[0]):
            return False
        before, after = contents
        end = after[len(before) :]
        # After a kill, nothing shows whether these bytes are ours; they are not written twice.
        if end in self._documents.files.read_bytes(path)[len(before) :]:
            self._plan.in_place.append((path, change))
            return True
        if change.raw is None:
            text = self._documents.history.text
            texts = text(change.sha256_before), text(change.sha256_after)
            change = self._documents.history.describe(path, *texts)
        self._plan.appends.append((path, change, end))
        return True

    def _contents(self, change: FileChange) -> tuple[bytes, bytes] | None:
        """Return the bytes before and after the change of a file's content alone."""
        history, hashes = self._documents.history, (change.sha256_before, change.sha256_after)
        before, after = hashes
        if change.op != "modify" or before is None or after is None:
            return None
        if change.raw is not None:
            is_alone = change.raw == "bytes" and change.mode_before == change.mode_after
            read = history.blobs.read_blob
            return (read(before), read(after)) if is_alone else None
        form = change.form or FileForm()
        texts = [encode_text(history.text(each), form) for each in hashes]
        return (texts[0], texts[1]) if change.mode_after is None else None

    def _leave_out_parts_of_databases(self) -> None:
        paths = frozenset((*self._plan.paths, *self._missing))
        main_files = databases([*map(str, paths)], os.path.lexists)
        damaged = parts_of(main_files, map(str, self._missing))
        parts = [path for path in self._plan.paths if str(path) in damaged]
        for path in parts:
            self._leave_out(path, "another file of the same database is not applied")
        self._plan.without(frozenset(parts))


def _replaces_file(change: FileChange) -> bool:
    is_replaced = change.op != "add" or is_journal_name(change.uri)
    return is_replaced and change.raw in (None, "bytes")


def units(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows that are applied together: those of one database, others one by one."""
    main_files = databases([str(path) for path, _ in rows], os.path.lexists)
    by_main_file: dict[str, list[Row]] = {}
    for row in rows:
        name = str(row[0])
        by_main_file.setdefault(main_files.get(name, name), []).append(row)
    yield from by_main_file.values()


def plan_text(documents: Documents, path: Path, change: FileChange) -> tuple[Step | None, bool]:
    """Return the step that applies a text, and whether it replaces changes of the user.

    There is no step when the text is there already. Raises `ToolError` when it cannot be applied.
    """
    document = documents.look(path)
    before, after = (_text(documents, sha) for sha in (change.sha256_before, change.sha256_after))
    now = None if document.text is None else with_newlines(document.text)
    if now not in (before, after):
        documents.files.sweep(path)  # A kill may have cut an append short.
        document = documents.look(path)
        now = None if document.text is None else with_newlines(document.text)
    if now == after:
        return None, False
    if document.document is None and document.text == before and before is not None:
        rewrite = Rewrite(before, after)
        return Step(path, rewrite, before, after, rewrite.diff, None), False
    edit: Wanted = Rewrite(before or "", after)
    clashes = False
    if now != before:
        if before is None or after is None or now is None:
            clashes, before = True, now
        elif merge_texts(before, after, now)[1]:
            clashes, before, after = True, now, force_merge(before, after, now)
        edit = Rewrite(before or "", after)
    if now is None:
        edit = Create(after or "", change.form)
    plan = documents.plan(path, edit, document)
    return Step(path, edit, plan.before, plan.after, plan.diff, None), clashes


def _text(documents: Documents, sha256: str | None) -> str | None:
    return None if sha256 is None else with_newlines(documents.history.text(sha256))
