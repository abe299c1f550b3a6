"""Brings the changes that commands made in the overlay into the open folders: start reading here.

The changes of each command go through these steps; the functions below have the same order.

1. Begin: before the command, the overlay shows the disk and the editor's unsaved texts above it.
2. Collect and plan: describe each change, with both contents as blobs (`collect`).
3. Make durable: the kernel logs the plan, which then outlives the overlay and the daemon.
   The overlay shows the disk again.
4. Ask, apply and report: the tool from `tool` is the second part of the command's action. It asks
   for approval, applies files and then git's changes, and reports to the model (`apply`).
5. Offer: files that git ignores stay in the overlay until the user wants them (`offers`).
6. Discard: `drop` removes changes that were refused before they were planned.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from oh_daemon.features.language.language import Watch
from oh_daemon.features.pending_changes.apply import ApplyTool
from oh_daemon.features.pending_changes.apply_folders import apply_folder
from oh_daemon.features.pending_changes.apply_plan import OpenFiles
from oh_daemon.features.pending_changes.changed_files import (
    Layers,
    content,
    content_on_disk,
    describe_change,
    why_not_applied,
)
from oh_daemon.features.pending_changes.git_plan import (
    GitPlan,
    Repositories,
    first_names,
    outside_text,
)
from oh_daemon.features.pending_changes.git_repositories import drop_leftover_locks
from oh_daemon.features.pending_changes.shared_overlay import SharedOverlay
from oh_daemon.features.pending_changes.upper_layer import (
    SLACK_NS,
    Change,
    ChangeSet,
    SubtreeChanges,
    subtree_changes,
)
from oh_daemon.features.sandbox.layer import (
    is_folder,
    is_whiteout,
    names_below,
    open_folder,
    status,
    within,
)
from oh_daemon.features.terminal.shell import Shells
from oh_daemon.kernel.extension_points import MakeDurable
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import plain
from oh_daemon.protocol.checkpoints import ChangesPlanned
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import FileChange
from oh_daemon.system.git import CACHES
from oh_daemon.system.proc import held_open
from oh_daemon.system.spawner import Spawner, start_thread
from oh_daemon.workspace.concurrent_edits import for_each
from oh_daemon.workspace.databases import databases, parts_of
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import sha256_of
from oh_daemon.workspace.paths import guard_reason, path_from_uri, real_path, uri_from_path

logger = logging.getLogger(__name__)

_MAX_NAMES = 1_000_000
_CACHES_BELOW = CACHES | {".cache", ".vite", ".vitest"}
"""Names in ignored folders, such as `node_modules/.cache`, of what programs make again at need."""
_OPEN_DATABASE = "a program in the sandbox has this database open; it is applied when that ends"


class UnappliedFile(Struct, frozen=True):
    """A folder or a file that git ignores, and that differs in the overlay."""

    uri: str
    name: str
    n_files: int
    op: Literal["add", "modify", "delete"]
    is_folder: bool
    fingerprint: str
    """Differs when a command has changed anything in it since."""
    protected_reason: str | None
    """Why it is asked about as a whole in any case, if it is."""
    protected: Sequence[str] = ()
    """Why files in it are asked about in any case, one sentence each."""
    is_all_protected: bool = False
    """Whether there is nothing else in it."""

    @property
    def title(self) -> str:
        if self.op == "delete":
            return f"the deletion of {self.name}"
        files = "1 file" if self.n_files == 1 else f"{self.n_files:,} files"
        return f"{self.name} ({files})" if self.is_folder else self.name

    @property
    def question(self) -> str:
        return f"Keep {self.title}{'' if self.op == 'delete' else ' in the project'}?"


class _Found(Struct, frozen=True):
    folder: Path
    change_set: ChangeSet
    unfinished: frozenset[Path]
    """Files that a process holds open for writing."""
    open_databases: frozenset[Path]
    """All files of databases with a journal of which a process holds one open."""


class ChangedSinceError(OSError):
    """A command changed what the user was asked about, so the answer does not apply."""


def _databases(folder: Path, names: Collection[str]) -> Mapping[str, str]:
    return databases(names, lambda name: os.path.lexists(folder / name))


def _is_cache(name: str) -> bool:
    return not _CACHES_BELOW.isdisjoint(name.split("/"))


class PendingChanges:
    """Implements `extension_points.CommandChanges` for a conversation, or one of its sub-agents.

    Blocks. Safe from any thread. Raises `OSError` and `ToolError` unless a method says otherwise.
    """

    def __init__(
        self,
        overlay: SharedOverlay,
        shells: Shells,
        documents: Documents,
        watch: Watch,
        host: Spawner,
        replaced: Path,
    ) -> None:
        """`replaced` is a folder for the files that the disk loses when a whole folder is kept."""
        # The first is the owner: its turns outlast its sub-agents', so it collects what they left.
        self._is_owner = not overlay.shells
        overlay.shells.append(shells)
        self._overlay = overlay
        self._sandbox = overlay.sandbox
        self._start = overlay.start
        self._shells = shells
        self._documents = documents
        self._watch = watch
        self._host = host
        self._replaced = replaced
        self._layers = Layers(overlay.sandbox, host, documents.folders.roots)
        drop_leftover_locks(documents.folders.roots)
        self._repositories = Repositories.of(overlay.sandbox.spawner, host, documents)
        self._jobs = frozenset[bytes]()
        """The jobs that ran when changes were collected last."""
        self._paths_by_folder: list[tuple[Path, list[Path]]] = []
        self._has_taken_out = False
        """Whether the overlay does not show the disk yet where something was taken out."""
        self._ignored_files: dict[Path, int] = {}
        """Names that git ignores, with the number of files, when they were collected last."""
        self._changed_texts: set[Path] = set()
        self._is_showing = False
        self._texts_lock = threading.Lock()
        """Guards `_changed_texts` and `_is_showing`."""

    # 1. Begin

    def begin(self) -> None:
        """Let the overlay show the disk with the unsaved texts above it; call before a command.

        Raises `ToolError`.
        """
        try:
            with self._overlay.changing:
                self._bring_up_to_date()
        except OSError as exc:
            raise ToolError(f"the sandbox cannot be brought up to date: {exc.strerror}") from exc

    def _bring_up_to_date(self) -> None:
        encode = self._documents.encode
        unsaved_texts = self._sandbox.without_secrets(self._documents.unsaved_texts())
        contents = {path: encode(path, text) for path, text in unsaved_texts.items()}
        for path, data in self._start.handed_in.items():
            if path in contents:
                continue
            if self._is_as_on_disk(path, data):
                contents[path] = data  # Watchers in the sandbox would take it for deleted.
            else:
                folder, name = self._layers.split(path)
                self._take_out(folder, [name])
        self._sandbox.refresh()
        for path, data in contents.items():
            if self._layers.read(path) != data:
                self._layers.write(path, data)
        start = self._start
        # What landed a moment ago is no change of somebody else.
        start.at_ns = max(time.time_ns(), start.applied_ns + SLACK_NS)
        start.handed_in = contents
        start.open_texts, start.shown_over = self._documents.open_texts(), {}

    def _is_as_on_disk(self, path: Path, data: bytes) -> bool:
        try:
            modes = {place.lstat().st_mode for place in (path, self._layers.place(path))}
        except OSError:
            return False
        return len(modes) == 1 and data == content_on_disk(path) == self._layers.read(path)

    def text_written(self, path: Path, is_unsaved: bool) -> None:
        """Do as `text_changed` for a text that the agent wrote, if programs do not see it yet."""
        folders = self._documents.folders
        is_seen = folders.contains(path) and not folders.is_left_out(path)
        if is_unsaved or not is_seen or self._overlay.is_watched:
            self.text_changed(path)

    def text_changed(self, path: Path) -> None:
        """Let programs see the new text at a real path, on a thread. Raises nothing."""
        if not self._sandbox.is_running:
            return
        with self._texts_lock:
            self._changed_texts.add(path)
            if self._is_showing:
                return
            self._is_showing = True
        try:
            start_thread("live-text", self._show_texts)
        except OSError:
            with self._texts_lock:
                self._is_showing = False

    def _show_texts(self) -> None:
        while True:
            with self._texts_lock:
                paths, self._changed_texts = self._changed_texts, set()
                self._is_showing = bool(paths)
            if not paths:
                return
            try:
                with self._overlay.changing:
                    self._show(paths)
            except (OSError, ToolError) as exc:
                logger.warning("texts that changed are not seen in the sandbox yet: %s", exc)

    def _show(self, paths: Collection[Path]) -> None:
        """Put texts in as they are now, on disk or unsaved, unless a command has changed them.

        While a command runs in front, only where it is known what it began with, so that what it
        makes of that text can be merged.
        """
        if not self._sandbox.is_running:
            return
        is_busy = self._overlay.is_busy
        handed_in = {**self._start.handed_in}
        unsaved_texts = self._documents.unsaved_texts()
        # The usual case is one more keystroke in a text that is in the sandbox already.
        known_paths = [path for path in paths if path in handed_in and path in unsaved_texts]
        other_paths = [path for path in paths if path not in known_paths]
        if other_paths:
            self._sandbox.refresh()
        # Programs see a saved text without this; only watchers must hear of it.
        is_watched = self._overlay.is_watched
        inside = [
            path
            for path in other_paths
            if (is_watched or path in unsaved_texts) and self._documents.folders.contains(path)
        ]
        for path in (*known_paths, *self._sandbox.without_secrets(dict.fromkeys(inside, ""))):
            text = unsaved_texts.get(path)
            data = content_on_disk(path) if text is None else self._documents.encode(path, text)
            is_shown = data == handed_in.get(path) == self._layers.read(path)
            before = handed_in.get(path) or self._began_with(path, is_unsaved=text is not None)
            if data is None or is_shown or (is_busy and before is None):
                continue
            if self._is_untouched(path):
                self._layers.write(path, data)
                handed_in[path] = data
                if before is not None:
                    self._start.shown_over.setdefault(path, before)
        self._start.handed_in = handed_in

    def _began_with(self, path: Path, *, is_unsaved: bool) -> bytes | None:
        """Return what the last command began with of a text that was not handed in, if known."""
        if path in self._start.open_texts:
            return self._documents.encode(path, self._start.open_texts[path])
        return content_on_disk(path) if is_unsaved else None

    def _is_untouched(self, path: Path) -> bool:
        """Return whether the sandbox has what was handed in or what the disk has."""
        if os.path.lexists(self._layers.place(path)):
            return self._layers.read(path) == self._start.handed_in.get(path, b"")
        folder, name = self._layers.split(path)
        was_deleted = os.path.lexists(path) and not self._sandbox.inside(folder).has(name)
        return not was_deleted

    # 2. Collect and plan, 3. make durable

    def collect(self, observation: Json, persist: MakeDurable) -> bool:
        if observation.get("exitCode") is None:
            self._jobs |= self._shells.jobs
            return False  # It still runs, so it is a job.
        return self._collect(observation, persist, with_unfinished=False)

    @property
    def has_news(self) -> bool:
        return not (self._jobs <= self._shells.jobs or self._overlay.is_busy)

    def collect_rest(self, observation: Json, persist: MakeDurable, *, ends_turn: bool) -> bool:
        if not (self.has_news or (ends_turn and (self._is_owner or self._shells.jobs))):
            return False
        return self._collect(observation, persist, with_unfinished=ends_turn)

    def _collect(self, observation: Json, persist: MakeDurable, *, with_unfinished: bool) -> bool:
        with self._overlay.changing:
            if self._overlay.is_busy:
                return False  # Its changes are collected together, when the last command has ended.
            self._jobs = self._shells.jobs
            try:
                plan = self._plan(observation, with_unfinished=with_unfinished)
                if plan is None:
                    self._show_disk()
                    return False
            except (ToolError, OSError) as exc:
                logger.warning("the changes of a command cannot be collected: %s", exc)
                left_out = {"what the command changed": f"it cannot be collected: {exc}"}
                plan = ChangesPlanned(changes=(), omitted=left_out, item_fields=observation)
            if not persist(plan):
                self.drop()
                return False
            self._show_disk()
            return True

    def _plan(self, observation: Json, *, with_unfinished: bool) -> ChangesPlanned | None:
        """Keep the changes since the last call as blobs; None when nothing has changed.

        Files that a process holds open for writing are left out, or else planned as they are now,
        and stay in the overlay.
        """
        changes: list[FileChange] = []
        left_out: dict[str, str] = {}
        self._paths_by_folder = []
        self._ignored_files = {}
        findings = [*self._collected(with_unfinished=with_unfinished)]
        git = self._git_planned(findings)
        for finding in findings:
            folder, change_set = finding.folder, finding.change_set
            plans = for_each(partial(self._planned_change, folder), change_set.changes)
            for change, planned_change in zip(change_set.changes, plans, strict=True):
                path = folder / change.name
                if why := git.refused_files.get(path):
                    left_out[self._documents.folders.name(path)] = why
                elif change.name in finding.open_databases:
                    left_out |= self._news_of_database(path)
                elif change.name in finding.unfinished:
                    changes += self._new_of_unfinished(path, planned_change)
                elif isinstance(planned_change, str):
                    left_out[self._documents.folders.name(path)] = planned_change
                else:
                    changes.append(planned_change)
            self._ignored_files |= {
                folder / name: n for name, n in change_set.ignored_files.items()
            }
            staying = finding.unfinished | finding.open_databases
            names = [each.name for each in change_set.changes if each.name not in staying]
            self._paths_by_folder.append((folder, names))
        if not (changes or left_out or git.repositories or git.notes):
            return None
        return ChangesPlanned(
            changes=tuple(changes),
            omitted=left_out,
            git=tuple(git.repositories),
            notes=tuple(git.notes),
            refusals=tuple(git.refusals),
            item_fields=observation,
        )

    def _collected(self, *, with_unfinished: bool = False) -> Iterator[_Found]:
        root = self._sandbox.spawner.root
        if root is None:
            return
        handed_in = {path: sha256_of(data) for path, data in self._start.handed_in.items()}
        for folder in (*self._documents.folders.roots, *self._sandbox.git_dirs):
            is_open = cache(partial(held_open, root, folder))
            change_set = self._layers.collect(
                folder, handed_in, self._start.at_ns, tuple if with_unfinished else is_open
            )
            self._has_taken_out |= bool(change_set.same)
            unfinished = is_open() if change_set.changes else frozenset[Path]()
            names = [str(change.name) for change in change_set.changes] if unfinished else []
            parts = parts_of(_databases(folder, names), map(str, unfinished))
            yield _Found(folder, change_set, unfinished, frozenset(map(Path, parts)))

    def _planned_change(self, folder: Path, change: Change) -> FileChange | str:
        """Return the change with its contents kept, or why it cannot land."""
        path = folder / change.name
        if why := why_not_applied(change):
            return why
        before = self._before(path, change)
        after = content(self._sandbox.upper(folder), change.name, change.after)
        return describe_change(self._documents, path, change, before, after)

    def _before(self, path: Path, change: Change) -> bytes | None:
        """Return what the command began with; of what changed meanwhile it is not known."""
        for contents in (self._start.shown_over, self._start.handed_in):
            if path in contents:
                return contents[path]
        if change.is_stale and path in self._start.open_texts:
            return self._documents.encode(path, self._start.open_texts[path])
        if change.is_stale and not self._is_applied(path):
            return None
        return content(path.parent, Path(path.name), change.before)

    def _is_applied(self, path: Path) -> bool:
        """Return whether the disk has what a process that goes on writing had written before."""
        plan = self._start.unfinished.get(path)
        return plan is not None and plan == sha256_of(content_on_disk(path) or b"")

    def _new_of_unfinished(self, path: Path, plan: FileChange | str) -> Sequence[FileChange]:
        """Return what a process has written since it was planned the last time."""
        if isinstance(plan, str) or self._start.unfinished.get(path) == plan.sha256_after:
            return ()
        self._start.unfinished[path] = plan.sha256_after or ""
        return (plan,)

    def _news_of_database(self, path: Path) -> Mapping[str, str]:
        """Return why a file of an open database stays in the sandbox, once for each file."""
        if self._start.unfinished.get(path) == _OPEN_DATABASE:
            return {}
        self._start.unfinished[path] = _OPEN_DATABASE
        return {self._documents.folders.name(path): _OPEN_DATABASE}

    def _git_planned(self, findings: Sequence[_Found]) -> GitPlan:
        folders_and_changes = [(finding.folder, finding.change_set.git) for finding in findings]
        if any(changes for _, changes in folders_and_changes):
            self._sandbox.refresh()
        plan = self._repositories.plan(folders_and_changes, self._start.at_ns)
        self._paths_by_folder += [(folder, [*names]) for folder, names in plan.removals.items()]
        for top, tracked in plan.tracked_outside.items():
            self._forget_outside(top, tracked, plan.notes)
        return plan

    def _forget_outside(self, top: Path, tracked: Collection[Path], notes: list[str]) -> None:
        """Let the sandbox have the disk's files of a work tree where they are not to be changed."""
        place = self._sandbox.private_place(top)
        if place is None:
            return
        below, folders = top.relative_to(place), self._documents.folders
        relevant = {up for path in tracked for up in (path, *path.parents)}
        names = [
            name
            for name in names_below(self._sandbox.upper(place), below, _MAX_NAMES)
            if name.relative_to(below) in relevant and not folders.contains(place / name)
        ]
        if names:
            self._paths_by_folder.append((place, names))
            paths = [os.fsencode(name.relative_to(below)) for name in names]
            notes.append(f"Left as it was: {first_names(paths)}: {outside_text(top)}.")

    def _show_disk(self) -> None:
        """Take what was planned out of the overlay, which then shows the disk again."""
        for folder, names in self._paths_by_folder:
            self._take_out(folder, names)
            for name in names:
                self._start.shown_over.pop(folder / name, None)
        self._paths_by_folder = []
        if self._has_taken_out:
            self._has_taken_out = False
            self._sandbox.refresh()

    def _take_out(self, folder: Path, names: Sequence[Path]) -> None:
        root = self._sandbox.spawner.root
        if root is not None and names:
            self._has_taken_out = True
            self._layers.take_out(folder, names)

    # 4. Ask, apply and report

    def tool(self, planned_changes: plain.ChangesPlanned, *, asks: bool) -> ApplyTool:
        return ApplyTool(
            self._documents, self._watch, planned_changes, self._host, asks=asks, start=self._start
        )

    # 5. Offer

    def unapplied_files(self) -> Sequence[UnappliedFile]:
        """Return the ignored files that differ from the disk, as they were collected last."""
        if not self._is_owner:
            return ()
        ignored_files = self._ignored_files.items()
        candidates = (
            self._left_inside(path, n, kind)
            for path, n in ignored_files
            if (kind := self._stands(path))
        )
        return [*filter(None, candidates)]

    def _stands(self, path: Path) -> Literal["folder", "file", "deleted"] | None:
        """Return what the overlay has there, if it is not as on the disk."""
        folder, name = self._layers.split(path)
        with (
            suppress(OSError),
            open_folder(self._sandbox.upper(folder)) as root,
            within(root, str(name.parent)) as above,
        ):
            entry = status(above, name.name)
            if entry and is_whiteout(above, name.name, entry):
                return "deleted" if os.path.lexists(path) else None
            return entry and ("folder" if is_folder(entry) else "file")
        return None

    def _left_inside(
        self, path: Path, n_files: int, kind: Literal["folder", "file", "deleted"]
    ) -> UnappliedFile | None:
        folders = self._documents.folders
        contents, reasons = SubtreeChanges((), (), (), ""), dict[str, str]()
        try:
            contents = self._subtree(path)
            if all(map(_is_cache, (*contents.writes, *contents.deletions))):
                return None
            reasons = self._reasons(path, contents)
            folders.resolve(str(path), writing=True)
            own_reason = reasons.get(str(self._layers.split(path)[1]))
            if own_reason and own_reason.endswith(_OPEN_DATABASE):
                return None  # It is offered once the program has ended.
            why = folders.is_protected(path) or own_reason
        except FileNotFoundError:
            return None  # It is gone again.
        except ToolError as exc:
            why = str(exc)
        except OSError as exc:
            why = f"it cannot be compared with the disk: {exc.strerror}"
        writes = [reasons[name] for name in contents.writes if name in reasons]
        deletions = [reasons[name] for name in contents.deletions if name in reasons]
        return UnappliedFile(
            uri=uri_from_path(folders.as_opened(path)),
            name=folders.name(path),
            n_files=n_files,
            op="delete" if kind == "deleted" else "modify" if path.is_dir() else "add",
            is_folder=path.is_dir() if kind == "deleted" else kind == "folder",
            fingerprint=contents.fingerprint,
            protected_reason=why
            or "; ".join(f"{each}, and is deleted" for each in deletions)
            or None,
            protected=writes,
            is_all_protected=bool(writes) and len(writes) == len(contents.writes),
        )

    def _reasons(self, path: Path, contents: SubtreeChanges) -> dict[str, str]:
        """Return why files of an ignored tree are not applied without a question, by their names.

        They may be protected, or open in another process, or belong to a database that a program
        in the sandbox has open.
        """
        folder, _ = self._layers.split(path)
        folders = self._documents.folders
        reasons: dict[str, str] = {}
        for name in (*contents.writes, *contents.deletions):
            if why := guard_reason(name):
                reasons[name] = why
        open_files = OpenFiles([folder / name for name in contents.replaced])
        for name in contents.replaced:
            if why := open_files.reason(folder / name, folders.name(folder / name)):
                reasons.setdefault(name, why)
        main_files = _databases(folder, (*contents.writes, *contents.deletions))
        root = self._sandbox.spawner.root
        in_use = held_open(root, folder) if main_files and root is not None else ()
        for name in parts_of(main_files, map(str, in_use)):
            reasons.setdefault(name, f"{folders.name(folder / name)}: {_OPEN_DATABASE}")
        return reasons

    def _subtree(self, path: Path) -> SubtreeChanges:
        folder, name = self._layers.split(path)
        return subtree_changes(self._sandbox.upper(folder), folder, str(name))

    def apply_whole(self, uri: str, *, fingerprint: str | None = None) -> None:
        """Give the disk what the overlay has there, and take it out of the overlay.

        With the `fingerprint` that the user was asked about, everything is applied, and
        `ChangedSinceError` raised if a command has changed anything meanwhile. Without one,
        protected files stay in the overlay.
        """
        opened_path = path_from_uri(uri)
        if opened_path is None:
            raise ToolError("it is no file of this machine")
        path = real_path(opened_path.parent) / opened_path.name
        self._documents.folders.resolve(str(path), writing=True)
        with self._overlay.changing:
            folder, name = self._layers.split(path)
            upper = self._sandbox.upper(folder)
            is_asked = fingerprint is not None
            protected = {} if is_asked else self._reasons(path, self._subtree(path))
            is_protected = protected.__contains__

            def confirm() -> None:
                if fingerprint is not None and self._subtree(path).fingerprint != fingerprint:
                    raise ChangedSinceError("it changed after you were asked about it")

            replaced = self._replaced
            apply_folder(
                upper, folder, str(name), replaced, is_omitted=is_protected, confirm=confirm
            )
            names = names_below(upper, name, _MAX_NAMES)
            applied = [each for each in names if not is_protected(str(each))]
            self._take_out(folder, applied if len(applied) < len(names) else [name, *names])
            self._sandbox.refresh()

    # 6. Discard

    def drop(self) -> None:
        with self._overlay.changing:
            for finding in self._collected():
                changes = (*finding.change_set.changes, *finding.change_set.git)
                self._take_out(finding.folder, [change.name for change in changes])
            self._repositories.forget()
            self._sandbox.refresh()
