"""The names of files that a search covers: those that git tracks or would track; how they fit.

A name fits a glob, or a few letters that a person types. Links are never followed. Without git, and
in a folder that git ignores as a whole, all files count.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePath

from oh_daemon.common.cancel import CancelToken
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.environment import SAFE_GIT
from oh_daemon.system.spawner import Spawner

MAX_FILES = 100_000
_GIT_TIMEOUT_S = 30.0
_OURS = {"chat", "conversations", "memory"}
"""Names in our own folder that git ignores."""
_MAX_ALTERNATIVES = 100
# A bare repository below may be hostile, too.
_LIST = (
    *(*SAFE_GIT, "-c", "safe.bareRepository=explicit"),
    *("ls-files", "-z", "-co", "--exclude-standard"),
)


def list_files(folder: Path, top: int, spawner: Spawner, cancel: CancelToken) -> list[str]:
    """Return the names of regular files below a folder, at most `MAX_FILES` + 1.

    `folder` is where programs find it, and `top` is the folder itself. Raises `Cancelled`.
    """
    return list(islice(_files(folder, top, "", spawner, cancel), MAX_FILES + 1))


def list_names(folder: Path, spawner: Spawner, cancel: CancelToken) -> list[str]:
    """Return up to `MAX_FILES` names relative to the folder; much faster than `list_files`.

    Some may be gone already. Repositories within this one are left out.
    """
    names = _tracked_names(folder, spawner, cancel)
    if names:
        return list(islice((name for name in names if not name.endswith("/")), MAX_FILES))
    with suppress(OSError), _open_folder(folder) as top:
        return list(islice(_all_files(top, ""), MAX_FILES))
    return []


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield top
    finally:
        os.close(top)


def _files(
    folder: Path, top: int, prefix: str, spawner: Spawner, cancel: CancelToken
) -> Iterator[str]:
    names = _tracked_names(folder / prefix, spawner, cancel)
    if not names:
        yield from _all_files(top, prefix)
        return
    for name in names:
        path = prefix + name
        mode = _mode(path, top)
        if stat.S_ISREG(mode):
            yield path
        elif stat.S_ISDIR(mode) and name != "./":
            # A repository inside this one: git lists only its folder.
            yield from _files(folder, top, f"{path.rstrip('/')}/", spawner, cancel)


def _tracked_names(folder: Path, spawner: Spawner, cancel: CancelToken) -> Iterable[str]:
    """Return what git tracks or would track; nothing without git or outside a repository."""
    try:
        result = spawner.run(_LIST, cwd=folder, timeout_s=_GIT_TIMEOUT_S, cancel=cancel)
    except ToolError:  # There is no git, or it took too long.
        return ()
    if result.exit_code != 0 or not result.stdout:
        return ()
    # A file with a merge conflict is listed once per side.
    return dict.fromkeys(os.fsdecode(result.stdout).rstrip("\0").split("\0"))


def _all_files(top: int, prefix: str) -> Iterator[str]:
    start = f"./{prefix}".rstrip("/")
    # Unlike os.walk, safe from swapped links.
    for above, folders, names, descriptor in os.fwalk(start, dir_fd=top):
        left_out = _OURS if Path(above).name == ".openhands" else {".git"}
        folders[:] = sorted(name for name in folders if name not in left_out)
        names_found = sorted(name for name in names if stat.S_ISREG(_mode(name, descriptor)))
        yield from (f"{above}/{name}".removeprefix("./") for name in names_found)


def _mode(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return 0  # Tracked but deleted, or removed just now.


def parse_glob(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Return the alternatives of a pattern with `*`, `?`, `[a-z]`, `**`, `{a,b}`, split at `/`.

    As in .gitignore, a pattern without a slash matches names at any depth. Raises `ToolError`.
    """
    alternatives = [pattern.removeprefix("./")]
    while any("{" in one for one in alternatives):
        alternatives = [new for one in alternatives for new in _without_last_brace(one, pattern)]
        if len(alternatives) > _MAX_ALTERNATIVES:
            raise ToolError(f"{pattern!r} has more than {_MAX_ALTERNATIVES} alternatives")
    return tuple(
        tuple(one.strip("/").split("/")) if "/" in one else ("**", one) for one in alternatives
    )


def fits(path: PurePath, alternatives: Iterable[tuple[str, ...]]) -> bool:
    """Return whether a relative path matches an alternative, in linear time for any pattern."""
    return any(_fits(path.parts, pattern) for pattern in alternatives)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    positions = {0}
    """The numbers of parts that the pattern may have matched so far."""
    for part in pattern:
        if part == "**":
            positions = set(range(min(positions), len(parts) + 1))
        else:
            positions = {n + 1 for n in positions if n < len(parts) and fnmatchcase(parts[n], part)}
        if not positions:
            return False
    return len(parts) in positions


def _without_last_brace(pattern: str, pattern_text: str) -> list[str]:
    head, brace, rest = pattern.rpartition("{")
    inner, closing, tail = rest.partition("}")
    if brace and not closing:
        raise ToolError(f"{pattern_text!r} opens a brace that it does not close")
    return [head + one + tail for one in inner.split(",")] if brace else [pattern]


_FRESH_S = 2.0

Rank = tuple[int, int, int]
"""Lower is better: the kind of match, its spread in letters, the length of the name."""


class Query:
    """Matches names with these letters in order, in any case; a path's last part ranks higher."""

    def __init__(self, text: str) -> None:
        self._text = "".join(text.lower().split())
        parts = (f"[^{re.escape(c)}]*{re.escape(c)}" for c in self._text[1:])
        self._fuzzy = re.compile("".join([re.escape(self._text[:1]), *parts]), re.DOTALL)

    def rank(self, name: str) -> Rank | None:
        """Return how well the name matches, None when it does not."""
        name, text = name.lower(), self._text
        match = self._fuzzy.search(name)
        if match is None:
            return None
        last = name[name.rfind("/") + 1 :]
        fails = (
            text not in {last, last.partition(".")[0] or last},
            not last.startswith(text),
            text not in last,
            text not in name,
        )
        match = self._fuzzy.search(last) or match
        return (sum(fails), len(match[0]), len(name))


class FileNames:
    """The names of a folder's files that git does not ignore. Safe from any thread."""

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        self._lock = threading.Lock()
        self._listings: dict[Path, tuple[float, list[str]]] = {}

    def of(self, folder: Path, cancel: CancelToken) -> list[str]:
        """Return the names relative to the folder, which may be seconds old. Raises `Cancelled`."""
        start_s = time.monotonic()
        with self._lock:
            stale_at, names = self._listings.get(folder, (0.0, []))
        if start_s < stale_at:
            return names
        names = list_names(folder, self._spawner, cancel)
        now = time.monotonic()
        # A person who types asks again with each letter; list for a tenth of the time at most.
        stale_at = now + max(_FRESH_S, 10 * (now - start_s))
        with self._lock:
            self._listings[folder] = (stale_at, names)
        return names
