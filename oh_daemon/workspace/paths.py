"""The only path policy: text or URI to a real path inside the open folders, or a refusal.

Invariant: whoever opens files below `Folders.holding` never follows a link, so a folder that is
swapped for one after the check leads nowhere. What a file holds is left to `files`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from urllib.parse import unquote_to_bytes, urlsplit

from oh_daemon.contract.errors import PathOutsideWorkspaceError, ToolError
from oh_daemon.core.risk_paths import guarded

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHER_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/|untitled:")

_REFUSED = {
    "git's own files; use git commands in the terminal": re.compile(r"/(\.git|git~1)(/|$)"),
    "the log of the conversations": re.compile(r"/\.openhands/conversations(/|$)"),
}
"""Never for tools, whoever approves: what would let a tool rewrite history or plant a hook."""
_HOLDS = {
    "secret": "what may be secret",
    "protected": "settings of git, of a build, an editor or an agent",
}


def path_from_uri(uri: str) -> Path | None:
    """The path of a `file:` URI of this machine; None for every other kind of URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return Path(path) if path.startswith("/") and "\0" not in path else None


def uri_from_path(path: Path) -> str:
    return path.as_uri()


def real_path(path: Path) -> Path:
    """The path without links on the way. Raises `ToolError` when one is swapped meanwhile."""
    try:
        return Path(os.path.realpath(path))
    except OSError as exc:
        raise ToolError(f"{shown(path)!r} was moved just now; look again") from exc


def shown(text: PurePath | str, keep: str = "") -> str:
    """Text for people and the model: hidden characters are escaped, so that none can deceive."""
    return "".join(
        char
        if char.isprintable() or char in keep
        else char.encode("unicode_escape", "surrogatepass").decode()
        for char in str(text)
    )


@dataclass(frozen=True)
class Folders:
    """The folders open in the editor; the first is where relative paths start."""

    folders: tuple[Path, ...]

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """The same folders without links on the way; every path we hand out lies below one."""
        return tuple(map(real_path, self.folders))

    def resolve(self, text: str, *, writing: bool) -> Path:
        """The real path that `text` (relative, absolute or a file URI) names; it need not exist.

        Raises `PathOutsideWorkspaceError`, also for git's files and for our own log.
        """
        lexical = self._absolute(text)
        real = real_path(lexical)
        if self._root_of(real) is None:
            raise PathOutsideWorkspaceError(
                f"{shown(text)!r} leads outside the open folders ({self._names()}); name a path"
                " inside them, or look at it with a command in the terminal"
            )
        if what := _refused(self._guises(lexical, real)):
            raise PathOutsideWorkspaceError(
                f"{shown(text)!r} is closed to {'edits' if writing else 'tools'}: {what}"
            )
        return real

    def is_protected(self, path: Path | str, *, writing: bool = True) -> str | None:
        """Why using this path always asks a person, or None; reading asks for secrets only.

        Give the text that the model wrote, not its resolved form: both names are judged, so a link
        called `.vscode` counts as well as a link to something inside it.
        """
        lexical = self._absolute(str(path))
        real = real_path(lexical)
        guises = (*self._guises(lexical, real), *self._linked_names(real))
        guards = {guarded(guise) for guise in guises}
        asks = ("secret", "protected") if writing else ("secret",)
        if what := next((one for one in asks if one in guards), None):
            return f"{self.name(real)} holds {_HOLDS[what]}"
        if writing and _has_second_name(real):
            # The other name may lie outside the folders, and nobody can tell where.
            return f"{self.name(real)} has a second name (hard link) somewhere"
        return None

    def is_left_out(self, path: Path) -> bool:
        """Whether a search passes over this real path, by its name alone."""
        # Thousands of paths pass here, so they are cut as texts.
        name, roots = str(path), (os.path.join(root, "") for root in self.roots)  # noqa: PTH118
        guises = [_normalised(name[len(root) :]) for root in roots if name.startswith(root)]
        return bool(_refused(guises)) or any(guarded(guise) == "secret" for guise in guises)

    def is_link(self, text: str) -> bool:
        """Whether the name itself is a link, so that what it leads to has another one."""
        return self._absolute(text).is_symlink()

    def contains(self, path: Path) -> bool:
        """Whether a real path lies inside."""
        return self._root_of(path) is not None

    def relative(self, path: Path) -> Path:
        """The path as a tool takes it: relative in the first folder, absolute in the others."""
        first = self.roots[0]
        return path.relative_to(first) if path.is_relative_to(first) else path

    def name(self, path: Path) -> str:
        """The same, to be shown."""
        return shown(self.relative(path))

    def as_opened(self, path: Path) -> Path:
        """A real path in the terms of the folder that the user opened, which may be a link."""
        for folder, root in zip(self.folders, self.roots, strict=True):
            if path.is_relative_to(root):
                return folder / path.relative_to(root)
        return path

    @contextmanager
    def holding(self, path: Path, *, create: bool = False) -> Generator[int]:
        """A descriptor of the folder that holds `path`, reached without following any link.

        `path` comes from `resolve`. With `create`, missing folders are made on the way. Raises
        `FileNotFoundError` and `ToolError`.
        """
        root = self._root_of(path)
        if root is None or path == root:
            raise PathOutsideWorkspaceError(f"{shown(path)!r} is not inside the open folders")
        descriptor = _open_folder(str(root), path)
        try:
            for name in path.parent.relative_to(root).parts:
                child = _open_folder(name, path, descriptor, create=create)
                os.close(descriptor)
                descriptor = child
            yield descriptor
        finally:
            os.close(descriptor)

    def _absolute(self, text: str) -> Path:
        """Where `text` points, links and `..` not yet followed."""
        if not self.folders:
            raise PathOutsideWorkspaceError("no folder is open; ask the user to open one")
        path = path_from_uri(text) if text.startswith("file:") else Path(text)
        if path is None or not text or "\0" in text or _OTHER_URI.match(text):
            raise PathOutsideWorkspaceError(
                f"{shown(text)!r} names no file here; give a path relative to {self._names()}"
            )
        if text.startswith("~"):
            raise PathOutsideWorkspaceError(
                f"{shown(text)!r}: '~' is not expanded; name a path inside {self._names()}"
            )
        return self.folders[0] / path

    def _root_of(self, path: Path) -> Path | None:
        below = [root for root in self.roots if path.is_relative_to(root)]
        return max(below, key=lambda root: len(root.parts), default=None)

    def _guises(self, lexical: Path, real: Path) -> set[str]:
        """The path below a folder as written and as it really is, in the form of the patterns."""
        return {
            _normalised(path.relative_to(base).as_posix())
            for path in {lexical, Path(os.path.normpath(lexical)), real}
            for base in {*self.folders, *self.roots}
            if path.is_relative_to(base)
        }

    def _linked_names(self, real: Path) -> Iterator[str]:
        """The names under which links at the top of the folders lead to `real`.

        What `.vscode` points at is editor settings, wherever it lies.
        """
        for root in self.roots:
            for link in _links_in(root):
                target = real_path(Path(link.path))
                if real.is_relative_to(target):
                    yield _normalised((link.name / real.relative_to(target)).as_posix())

    def _names(self) -> str:
        return ", ".join(shown(folder) for folder in self.folders)


def _open_folder(name: str, path: Path, parent: int | None = None, *, create: bool = False) -> int:
    try:
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        return os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathOutsideWorkspaceError(
                f"{shown(name)!r} in {shown(path)!r} is no folder, or was swapped for a link just"
                " now; look again"
            ) from exc
        raise ToolError(f"folder {shown(path.parent)!r}: {exc.strerror}") from exc


def _links_in(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.is_symlink()]
    return []


def _normalised(path: str) -> str:
    """One spelling, as `./a/b`, for what some file system or git takes for the same.

    Names differ in case, Unicode form, invisible characters, or dots and spaces at the end.
    """
    normal = unicodedata.normalize("NFKC", path)
    if not normal.isascii():
        normal = "".join(char for char in normal if unicodedata.category(char) != "Cf")
    return "./" + re.sub(r"[. ]+(?=/|$)", "", normal.casefold())


def _refused(guises: Iterable[str]) -> str | None:
    return next((why for why, known in _REFUSED.items() if any(map(known.search, guises))), None)


def _has_second_name(path: Path) -> bool:
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return False
