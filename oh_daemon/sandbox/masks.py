"""What a view covers because it may hold secrets: nothing in the view can read or change it.

What git tracks is no secret, else a repository would look changed in a view. What was covered once
stays so while the view lives: a command could have git track a file just to see it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from oh_daemon.sandbox.secret_names import SecretNames
from oh_daemon.sandbox.secret_places import secret_places
from oh_daemon.sandbox.tracked import Tracked
from oh_daemon.workspace.paths import looks_secret
from oh_daemon.workspace.spawner import Spawner

_MAX_IN_FOLDER = 10_000
NEEDED = tuple(
    Path(path).resolve() for path in (sys.prefix, sys.base_prefix, Path(__file__).parents[1])
)
"""Without these, nothing starts in a view."""


class Masks:
    """The places to cover in one view. Safe from any thread."""

    def __init__(
        self,
        host: Spawner,
        roots: Sequence[Path],
        home: Path,
        environment: Mapping[str, str],
        *,
        own: Sequence[Path] = (),
        allowed: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`roots` are the real paths of the open folders, and `own` is what the daemon keeps.

        `allowed` are paths of secrets, or patterns for them, that the user lets commands read.
        """
        self._roots = roots
        self._needed = [f"{place}/" for place in (*NEEDED, *roots)]
        self._allowed = allowed
        self._trees = [SecretNames(root) for root in roots]
        self._at_home = SecretNames(home, is_deep=False)
        self._places = [*secret_places(home, environment), *own]
        self._tracked = {root: Tracked(host, root) for root in roots}
        self._lock = threading.Lock()
        self._ever: set[Path] = set()

    def find(self) -> Mapping[Path, str]:
        """Return the places to cover, which exist, each with what changes when it must be anew."""
        allowed = self._patterns()
        with self._lock:
            wanted = {
                real: numbers
                for path, numbers in self._candidates()
                for real in [Path(os.path.realpath(path))]
                if self._may_cover(path, real, allowed)
            }
            known = self._ever.intersection(wanted)
            secret = known | set(self._untracked(wanted.keys() - known))
            self._ever |= secret
            outermost = {path for path in secret if secret.isdisjoint(path.parents)}
            return {path: wanted.get(path, "") for path in sorted(outermost)}

    def without_secrets(self, texts: Mapping[Path, str]) -> Mapping[Path, str]:
        """Leave out what would stand, at a real path, where commands must not see it."""
        if not texts:
            return texts
        covered = self.find()
        return {
            path: text
            for path, text in texts.items()
            if covered.keys().isdisjoint((path, *path.parents)) and not self._is_new_secret(path)
        }

    def _is_new_secret(self, path: Path) -> bool:
        is_secret = looks_secret(path.name) and not path.exists()
        return is_secret and not _fits(path, self._patterns())

    def _candidates(self) -> Iterator[tuple[str, str]]:
        for tree in (*self._trees, self._at_home):
            for path in tree.find():
                yield path, tree.numbers(path)
        for place in self._places:
            if os.path.lexists(place):
                yield str(place), ""

    def _may_cover(self, path: str, real: Path, allowed: Sequence[str]) -> bool:
        if (
            any(needed.startswith(f"{str(real).rstrip('/')}/") for needed in self._needed)
            or not real.exists()
        ):
            return False
        return not (allowed and (_fits(Path(path), allowed) or _fits(real, allowed)))

    def _patterns(self) -> Sequence[str]:
        """Return the patterns for what commands may read."""
        # Unlike `Path.expanduser`, this one leaves the home folder of an unknown user as it is.
        patterns = (os.path.expanduser(text) for text in self._allowed())  # noqa: PTH111
        return [pattern for pattern in patterns if Path(pattern).parts]

    def _untracked(self, paths: set[Path]) -> Iterator[Path]:
        for root in self._roots:
            inside = {path for path in paths if path.is_relative_to(root)}
            paths = paths - inside
            tracked = self._tracked[root].among(inside) if inside else set[Path]()
            folders = {up for path in tracked for up in path.parents}
            for path in inside - tracked:
                yield from _files_below(path, tracked) if path in folders else (path,)
        yield from paths


def _fits(path: Path, patterns: Sequence[str]) -> bool:
    return any(path.match(pattern) for pattern in patterns)


def _files_below(folder: Path, tracked: set[Path]) -> Iterator[Path]:
    """Yield what git does not track in a folder of which it tracks something."""
    n_found = 0
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path not in tracked and n_found < _MAX_IN_FOLDER:
                n_found += 1
                yield path
