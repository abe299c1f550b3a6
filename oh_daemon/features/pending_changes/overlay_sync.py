"""Keeps a view and the open folders in step: what commands see before, what they changed after.

Before a command the unsaved texts of the editor are handed in. After it, what differs is planned as
changes of files, with the contents as blobs, and taken out of the view.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Literal

from oh_daemon.features.pending_changes.apply_folders import keep_whole
from oh_daemon.features.pending_changes.changed_files import (
    Layers,
    cannot_land,
    content,
    content_on_disk,
    described,
)
from oh_daemon.features.pending_changes.git_plan import GitPlanned, Repositories
from oh_daemon.features.pending_changes.upper_layer import SLACK_NS, Change, Collected
from oh_daemon.features.sandbox.layer import (
    is_folder,
    is_whiteout,
    names_below,
    opened,
    status,
    within,
)
from oh_daemon.features.sandbox.overlay import View
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.checkpoints import LandingPlanned
from oh_daemon.protocol.items import FileChange
from oh_daemon.system.proc import held_open
from oh_daemon.system.spawner import Spawner
from oh_daemon.workspace.concurrent_edits import for_each
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.files import sha256_of

_MAX_NAMES = 1_000_000
Stands = Literal["folder", "file", "deleted"]


@dataclass(slots=True)
class CommandStart:
    """What the last command in a view began with, whoever ran it."""

    at_ns: int = 0
    landed_ns: int = 0
    """When what the command before it made was on the disk."""
    handed_in: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    """Unsaved texts, by real path."""
    open_texts: Mapping[Path, str] = field(default_factory=dict[Path, str])
    shown_over: dict[Path, bytes] = field(default_factory=dict[Path, bytes])
    """What it began with, of texts that were put in since: a program may have read either one."""
    unfinished: dict[Path, str] = field(default_factory=dict[Path, str])
    """Hashes of what was planned of files that stay in the layer, since a process writes them."""


@dataclass(frozen=True, slots=True)
class _Found:
    folder: Path
    collected: Collected
    unfinished: frozenset[Path]
    """What a process holds open for writing."""


class Exchange:
    """One view and the documents of its conversation. Blocks; raises `OSError` and `ToolError`."""

    def __init__(
        self, view: View, documents: Documents, host: Spawner, start: CommandStart, aside: Path
    ) -> None:
        """`aside` gets what the disk loses when a whole folder is kept."""
        self._view = view
        self._documents = documents
        self._layers = Layers(view, host, documents.folders.roots)
        self._start = start
        self._aside = aside
        self._planned: list[tuple[Path, list[Path]]] = []
        self._has_taken_out = False
        """Whether the view does not show the disk yet where something was taken out."""
        self._git = Repositories.of(view.spawner, host, documents)
        self.ignored: dict[Path, int] = {}
        """What git ignores in the view, with the number of files, when it was last collected."""

    def begin(self) -> None:
        """Let the view show the disk with the unsaved texts above it; call before a command."""
        encoded, unsaved = self._documents.encoded, self._unsaved()
        contents = {path: encoded(path, text) for path, text in unsaved.items()}
        for path, data in self._start.handed_in.items():
            if path in contents:
                continue
            if self._is_as_on_disk(path, data):
                contents[path] = data  # Watchers in the view would take it for deleted.
            else:
                folder, name = self._layers.split(path)
                self._take_out(folder, [name])
        self._view.refresh()
        for path, data in contents.items():
            if self._layers.read(path) != data:
                self._layers.write(path, data)
        start = self._start
        # What landed a moment ago is no change of somebody else.
        start.at_ns = max(time.time_ns(), start.landed_ns + SLACK_NS)
        start.handed_in = contents
        start.open_texts, start.shown_over = self._documents.open_texts(), {}

    def show(self, paths: Collection[Path], *, is_busy: bool) -> None:
        """Put texts in as they are now, on disk or unsaved, unless a command has changed them.

        While one runs in front, only where it is known what it began with, so that what it makes
        of that text can be merged.
        """
        if not self._view.is_running:
            return
        handed_in = {**self._start.handed_in}
        unsaved = self._documents.unsaved_texts()
        # The usual case is one more keystroke in a text that is in the view already.
        known = [path for path in paths if path in handed_in and path in unsaved]
        others = [path for path in paths if path not in known]
        if others:
            self._view.refresh()
        inside = [path for path in others if self._documents.folders.contains(path)]
        for path in (*known, *self._view.without_secrets(dict.fromkeys(inside, ""))):
            text = unsaved.get(path)
            data = content_on_disk(path) if text is None else self._documents.encoded(path, text)
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
            return self._documents.encoded(path, self._start.open_texts[path])
        return content_on_disk(path) if is_unsaved else None

    def _is_untouched(self, path: Path) -> bool:
        """Return whether the view has what was handed in or what the disk has."""
        if os.path.lexists(self._layers.place(path)):
            return self._layers.read(path) == self._start.handed_in.get(path, b"")
        folder, name = self._layers.split(path)
        was_deleted = os.path.lexists(path) and not self._view.inside(folder).has(name)
        return not was_deleted

    def _is_as_on_disk(self, path: Path, data: bytes) -> bool:
        try:
            modes = {place.lstat().st_mode for place in (path, self._layers.place(path))}
        except OSError:
            return False
        return len(modes) == 1 and data == content_on_disk(path) == self._layers.read(path)

    def plan(self, observed: Json, *, with_unfinished: bool = False) -> LandingPlanned | None:
        """Keep what has changed since the last call as blobs; None when nothing has.

        Until `settle` the view has it. What a process holds open for writing is left out, or else
        planned as it is now, and stays in the view.
        """
        changes: list[FileChange] = []
        left_out: dict[str, str] = {}
        self._planned = []
        self.ignored = {}
        findings = [*self._collected(with_unfinished=with_unfinished)]
        for finding in findings:
            folder, collected = finding.folder, finding.collected
            all_planned = for_each(partial(self._planned_change, folder), collected.changes)
            for change, planned in zip(collected.changes, all_planned, strict=True):
                if change.name in finding.unfinished:
                    changes += self._new_of_unfinished(folder / change.name, planned)
                elif isinstance(planned, str):
                    left_out[str(change.name)] = planned
                else:
                    changes.append(planned)
            self.ignored |= {folder / name: n for name, n in collected.ignored.items()}
            names = [c.name for c in collected.changes if c.name not in finding.unfinished]
            self._planned.append((folder, names))
        git = self._git_planned(findings)
        if not (changes or left_out or git.landings or git.notes):
            self.settle()
            return None
        return LandingPlanned(
            changes=tuple(changes),
            left_out=left_out,
            git=tuple(git.landings),
            notes=tuple(git.notes),
            observed=observed,
        )

    def _git_planned(self, all_found: Sequence[_Found]) -> GitPlanned:
        changed = [(found.folder, found.collected.git) for found in all_found]
        if any(changes for _, changes in changed):
            self._view.refresh()
        planned = self._git.plan(changed, self._start.at_ns)
        self._planned += [(folder, [*names]) for folder, names in planned.removals.items()]
        return planned

    def settle(self) -> None:
        """Take what was planned out of the view, which then shows the disk again."""
        for folder, names in self._planned:
            self._take_out(folder, names)
            for name in names:
                self._start.shown_over.pop(folder / name, None)
        self._planned = []
        if self._has_taken_out:
            self._has_taken_out = False
            self._view.refresh()

    def on_landed(self) -> None:
        """Know that what was planned is on the disk now: what is newer is somebody else's."""
        self._start.landed_ns = time.time_ns()

    def keep_whole(self, path: Path) -> None:
        """Give the disk what the view has there, and take it out of the view."""
        folder, name = self._layers.split(path)
        upper = self._view.upper(folder)
        keep_whole(upper, folder, str(name), self._aside)
        self._take_out(folder, [name, *names_below(upper, name, _MAX_NAMES)])
        self._view.refresh()

    def stands(self, path: Path) -> Stands | None:
        """Return what the layer has there, if it is not as on the disk."""
        folder, name = self._layers.split(path)
        with (
            suppress(OSError),
            opened(self._view.upper(folder)) as root,
            within(root, str(name.parent)) as above,
        ):
            found = status(above, name.name)
            if found and is_whiteout(above, name.name, found):
                return "deleted" if os.path.lexists(path) else None
            return found and ("folder" if is_folder(found) else "file")
        return None

    def drop(self) -> None:
        """See `kernel.extension_points.Landings`."""
        for found in self._collected():
            changes = (*found.collected.changes, *found.collected.git)
            self._take_out(found.folder, [change.name for change in changes])
        self._git.forget()
        self._view.refresh()

    def _new_of_unfinished(self, path: Path, planned: FileChange | str) -> Sequence[FileChange]:
        """Return what a process has written since it was planned the last time."""
        if isinstance(planned, str) or self._start.unfinished.get(path) == planned.sha256_after:
            return ()
        self._start.unfinished[path] = planned.sha256_after or ""
        return (planned,)

    def _take_out(self, folder: Path, names: Sequence[Path]) -> None:
        root = self._view.spawner.root
        if root is not None and names:
            self._has_taken_out = True
            self._layers.take_out(folder, names)

    def _unsaved(self) -> Mapping[Path, str]:
        return self._view.without_secrets(self._documents.unsaved_texts())

    def _collected(self, *, with_unfinished: bool = False) -> Iterator[_Found]:
        root = self._view.spawner.root
        if root is None:
            return
        handed_in = {path: sha256_of(data) for path, data in self._start.handed_in.items()}
        for folder in self._documents.folders.roots:
            held = cache(partial(held_open, root, folder))
            collected = self._layers.collect(
                folder, handed_in, self._start.at_ns, tuple if with_unfinished else held
            )
            self._has_taken_out |= bool(collected.same)
            yield _Found(folder, collected, held() if collected.changes else frozenset())

    def _planned_change(self, folder: Path, change: Change) -> FileChange | str:
        """Return the change with its contents kept, or why it cannot land."""
        path = folder / change.name
        if why := cannot_land(change):
            return why
        before = self._before(path, change)
        after = content(self._view.upper(folder), change.name, change.after)
        return described(self._documents, path, change, before, after)

    def _before(self, path: Path, change: Change) -> bytes | None:
        """Return what the command began with; of what changed meanwhile it is not known."""
        for known in (self._start.shown_over, self._start.handed_in):
            if path in known:
                return known[path]
        if change.is_stale and path in self._start.open_texts:
            return self._documents.encoded(path, self._start.open_texts[path])
        if change.is_stale and not self._is_landed(path):
            return None
        return content(path.parent, Path(path.name), change.before)

    def _is_landed(self, path: Path) -> bool:
        """Return whether the disk has what a process that goes on writing had written before."""
        planned = self._start.unfinished.get(path)
        return planned is not None and planned == sha256_of(content_on_disk(path) or b"")
