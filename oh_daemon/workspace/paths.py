"""The only path policy: resolves a text or URI to a real path inside the open folders, or refuses.

Invariant: opening files through `Folders.holding` never follows a link, so swapping a folder for
a link after the check leads nowhere. What a file holds is left to `files`.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import unicodedata
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, cached_property
from glob import iglob
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct, field

from oh_daemon.protocol.errors import InvalidParamsError, PathOutsideWorkspaceError, ToolError
from oh_daemon.protocol.items import Location
from oh_daemon.workspace.path_classes import guard_class

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_SHOWN = 100
_ESCAPE = re.compile(r"\\(?:[tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4})")
_OTHER_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/|untitled:")

_MAX_FITTING = 200
"""How many paths that fit a pattern are looked at before a command is rated."""
_REFUSED = {
    "git's own files; use git commands in the terminal": re.compile(r"/(\.git|git~1)(/|$)"),
    "the log of the conversations": re.compile(r"/\.openhands/conversations(/|$)"),
    "the user's chat with the agent": re.compile(r"/\.openhands/chat(/|$)"),
}
"""Closed to tools whoever approves, since a tool could rewrite history or plant a hook there."""
_HOLDS = {
    "secret": "what may be secret",
    "protected": "settings of git, of a build, an editor or an agent",
}


def path_from_uri(uri: str) -> Path | None:
    """Return the path of a `file:` URI of this machine; None for every other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return Path(path) if path.startswith("/") and "\0" not in path else None


def paths_from_uris(uris: Iterable[str]) -> list[Path]:
    """Return the paths of those URIs that name files of this machine."""
    return [path for path in map(path_from_uri, uris) if path is not None]


def real_paths(locations: Iterable[Location]) -> list[Path]:
    """Return the real paths of those places that are on this machine. Raises `ToolError`."""
    return [*map(real_path, paths_from_uris(location.uri for location in locations))]


def uri_from_path(path: Path) -> str:
    return path.as_uri()


def looks_secret(name: str) -> bool:
    """Return whether a file of this name, or a relative path, may hold secrets."""
    return guard_class(_normalised(name)) == "secret"


def guard_reason(name: str) -> str | None:
    """Return why a file of this name in an open folder always needs a person's approval, or None.

    Judged by the name alone: `guard_reason(".vscode/tasks.json")`.
    """
    what = guard_class(_normalised(name))
    return what and f"{printable(name)} holds {_HOLDS[what]}"


def in_bare_repository(folder: str) -> bool:
    """Return whether git may take the folder, or one above it, for a repository without `.git`."""
    place = os.path.realpath(folder)
    while not os.path.lexists(f"{place}/HEAD"):
        place, last = place.rpartition("/")[0], place
        if not last:
            return False
    return True


class ProgramFinder(Struct, frozen=True):
    """Finds the file that a program's name stands for, if it lies in the folders."""

    folders: Sequence[Path]
    search_path: str
    """The value of `PATH`, as in "/usr/local/bin:/usr/bin"."""

    def __call__(self, name: str, cwd: str | None) -> str | None:
        """Return its path if `PATH`, or a link there, leads into the folders; else None."""
        places = (
            os.path.join(cwd or "/", place)  # noqa: PTH118 - each step asks for each hook.
            for place in self.search_path.split(":")
        )
        program = shutil.which(name, path=":".join(places))
        paths = map(Path, (program, os.path.realpath(program)) if program else ())
        is_inside = any(path.is_relative_to(folder) for path in paths for folder in self.folders)
        return program if is_inside else None


def real_path(path: Path) -> Path:
    """Return the path with all links resolved. Raises `ToolError` when one changes meanwhile."""
    try:
        return Path(os.path.realpath(path))
    except OSError as exc:
        raise ToolError(f"{quoted(path)} was moved just now; look again") from exc


def unusable(folder: Path) -> str | None:
    """Return why no agent can work in this folder, or None."""
    if not folder.is_dir():
        return "is not a folder"
    try:
        # Logs and prompts hold the name, and nothing but Unicode fits into them.
        str(folder).encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8; rename it"
    return None


def printable(text: PurePath | str, allowed: str = "") -> str:
    """Return the text with hidden characters escaped, except `allowed`, for people and models."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in allowed
        else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def quoted(text: PurePath | str) -> str:
    """Return the text as `printable` does, in quotes; unlike `repr`, with single backslashes."""
    return f"'{printable(text)}'"


def unescaped(text: str) -> str:
    r"""Return what `printable` made this text of: `a\u202fb.txt` has a narrow space."""
    return _ESCAPE.sub(lambda match: match[0].encode().decode("unicode_escape"), text)


class IsolatedFolders(Struct, frozen=True):
    """Where an isolated conversation has its folders. All names stay those of the open folders."""

    open_root: Callable[[Path], int]
    """Opens one of the roots there. Raises `ToolError`."""
    for_programs: Callable[[Path], Path] = lambda path: path
    """Returns the path under which the conversation's programs find what has this name."""


class Folders(Struct, frozen=True, dict=True):
    """The folders open in the editor; relative paths start at the first."""

    folders: tuple[Path, ...]
    isolated: IsolatedFolders | None = None
    """Set if what they hold is not read from the disk but where the conversation keeps it."""
    rule_files: set[Path] = field(default_factory=set[Path])
    """Real paths of files that the agent follows, such as imports of CLAUDE.md: protected, too."""

    @cached_property
    def roots(self) -> tuple[Path, ...]:
        """The same folders with links resolved; every path that we hand out lies in one of them."""
        return tuple(map(real_path, self.folders))

    @cached_property
    def _roots_by_prefix(self) -> Mapping[str, Path]:
        """The roots by how a path below them begins, the innermost first."""
        # Each applied file asks several times, so string operations replace `Path`.
        roots = sorted(self.roots, key=lambda root: len(root.parts), reverse=True)
        return {os.path.join(root, ""): root for root in roots}  # noqa: PTH118

    def resolve(self, text: str, *, writing: bool) -> Path:
        """Return the real path that `text` (relative, absolute or a file URI) names.

        It need not exist. Raises `PathOutsideWorkspaceError`, also for git's files and our own log.
        """
        lexical = self._absolute(text)
        real = real_path(lexical)
        self._require_open(text, real, self._guises(lexical, real), writing=writing)
        return real

    def _require_open(
        self, text: str, real: Path, guises: Collection[str], *, writing: bool
    ) -> None:
        root = self._root_of(real)
        if root is None:
            raise PathOutsideWorkspaceError(
                f"{quoted(text)} leads outside the open folders ({self._names()}); name a path"
                " inside them, or look at it with a command in the terminal"
            )
        if why := _too_long(real, root):
            raise ToolError(f"{quoted(text[:_MAX_SHOWN])}: {why}; use shorter names")
        if what := _refusal_reason(guises):
            raise PathOutsideWorkspaceError(
                f"{quoted(text)} is closed to {'edits' if writing else 'tools'}: {what}"
            )

    def is_protected(self, path: Path | str, *, writing: bool = True) -> str | None:
        """Return why using this path always needs a person's approval, or None.

        Reading needs it for secrets only. Give the text that the model wrote, not its resolved
        form: both names are judged, so a link called `.vscode` counts, and a link into it too.
        """
        lexical = self._absolute(str(path))
        real = real_path(lexical)
        guises = self._guises(lexical, real)
        return self._guard_reason(real, guises, self._links(), writing=writing)

    def judge(self) -> Callable[[str], tuple[Path, str | None]]:
        """Return what gives `resolve` and `is_protected` of many paths that are written to.

        It looks once at each folder and at the links at the top, so it is for one moment.
        """
        real_folder = cache(real_path)
        links = tuple(self._links())

        def judged(text: str) -> tuple[Path, str | None]:
            lexical = self._absolute(text)
            real = real_folder(lexical.parent) / lexical.name
            if lexical.name == ".." or real.is_symlink():
                real = real_path(lexical)
            guises = self._guises(lexical, real)
            self._require_open(text, real, guises, writing=True)
            return real, self._guard_reason(real, guises, links, writing=True)

        return judged

    def _guard_reason(
        self,
        real: Path,
        guises: Collection[str],
        links: Iterable[tuple[str, Path]],
        *,
        writing: bool,
    ) -> str | None:
        guards = {guard_class(guise) for guise in (*guises, *_linked_names(real, links))}
        classes = ("secret", "protected") if writing else ("secret",)
        if what := next((one for one in classes if one in guards), None):
            return f"{self.name(real)} holds {_HOLDS[what]}"
        if writing and real in self.rule_files:
            return f"{self.name(real)} holds instructions that the agent follows"
        if writing and _has_second_name(real):
            # There is no way to find the other name.
            where = "perhaps outside the folders, and that changes too"
            return f"{self.name(real)} has a second name (hard link), {where}"
        return None

    def is_left_out(self, path: Path) -> bool:
        """Return whether a search skips this real path, judged by its name alone."""
        # Called for thousands of paths, so string operations replace `Path`.
        name, roots = str(path), (os.path.join(root, "") for root in self.roots)  # noqa: PTH118
        guises = [_normalised(name[len(root) :]) for root in roots if name.startswith(root)]
        return bool(_refusal_reason(guises)) or any(
            guard_class(guise) == "secret" for guise in guises
        )

    def is_closed(self, path: Path) -> bool:
        """Return whether no tool may touch this real path, judged by its name alone."""
        return not self.contains(path) or _refusal_reason(self._guises(path, path)) is not None

    def leads_away(self, pattern: str) -> bool:
        """Return whether an absolute path leads out of the folders or to what may hold secrets.

        Of a pattern, as bash reads it, this is asked of all paths that fit it.
        """
        matches = iglob(pattern)  # noqa: PTH207 - this one leaves hidden files out, as bash does.
        fitting = {pattern, *islice(matches, _MAX_FITTING)}
        return len(fitting) > _MAX_FITTING or any(map(self._leads_away, fitting))

    def _leads_away(self, path: str) -> bool:
        is_outside = not self.contains(real_path(Path(path)))
        return is_outside or self.is_protected(path, writing=False) is not None

    def is_link(self, text: str) -> bool:
        """Return whether the name itself is a link, so that its target has another name."""
        return self._absolute(text).is_symlink()

    def kind(self, path: Path) -> Literal["file", "folder", "other"] | None:
        """Return what stands under a real path, which no link leads to; None if nothing does."""
        if path in self.roots:
            return "folder"
        try:
            with self.holding(path) as folder:
                mode = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
        except (OSError, ToolError):
            return None
        return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"

    def for_programs(self, path: Path) -> Path:
        """Return the path under which the conversation's programs find a real path."""
        return self.isolated.for_programs(path) if self.isolated else path

    def contains(self, path: Path) -> bool:
        """Return whether a real path lies inside one of the folders."""
        return self._root_of(path) is not None

    def relative(self, path: Path) -> Path:
        """Return the path as tools take it: relative in the first folder, absolute in others."""
        first = self.roots[0]
        return path.relative_to(first) if first in self._roots_of(path) else path

    def name(self, path: Path) -> str:
        """Return `relative(path)` as text to show."""
        # Called for thousands of paths, so string operations replace `Path`.
        text, first = str(path), os.path.join(self.roots[0], "")  # noqa: PTH118
        is_below = text.startswith(first)
        return printable(text[len(first) :] if is_below else self.relative(path))

    def as_opened(self, path: Path) -> Path:
        """Return a real path below the folder as the user opened it, which may be a link."""
        if self.folders == self.roots:
            return path
        for folder, root in zip(self.folders, self.roots, strict=True):
            if path.is_relative_to(root):
                return path if folder == root else folder / path.relative_to(root)
        return path

    @contextmanager
    def holding(self, path: Path, *, create: bool = False) -> Generator[int]:
        """Open the folder that holds `path`, without following any link, and yield its descriptor.

        `path` comes from `resolve`. With `create`, missing folders on the way are created. Raises
        `FileNotFoundError` and `ToolError`.
        """
        root = self._root_of(path)
        if root is None or path == root:
            raise PathOutsideWorkspaceError(f"{quoted(path)} is not inside the open folders")
        descriptor = self._open_root(root, path)
        try:
            for name in str(path)[len(os.path.join(root, "")) :].split("/")[:-1]:  # noqa: PTH118
                child = _open_folder(name, path, descriptor, create=create)
                os.close(descriptor)
                descriptor = child
            yield descriptor
        finally:
            os.close(descriptor)

    def down_to(self, path: Path) -> Generator[tuple[Path, int]]:
        """Yield every folder from the outermost open one down to a real path, with a descriptor.

        Each is opened from the one above it, once, and no link is followed. Ends at the first that
        cannot be opened.
        """
        roots = self._roots_of(path)
        if not roots:
            return
        root = roots[-1]
        folder, names = root, path.relative_to(root).parts
        with ExitStack() as stack, suppress(FileNotFoundError, ToolError):
            descriptor = self._open_root(folder, path)
            stack.callback(lambda: os.close(descriptor))
            yield folder, descriptor
            for name in names:
                child = _open_folder(name, path, descriptor)
                os.close(descriptor)
                folder, descriptor = folder / name, child
                yield folder, descriptor

    def _absolute(self, text: str) -> Path:
        """Return the absolute path of `text`, with links and `..` not yet resolved."""
        if not self.folders:
            raise PathOutsideWorkspaceError("no folder is open; only the user can open one")
        path = path_from_uri(text) if text.startswith("file:") else Path(text)
        if path is None or not text or "\0" in text or _OTHER_URI.match(text):
            raise PathOutsideWorkspaceError(
                f"{quoted(text)} names no file here; give a path relative to {self._names()}"
            )
        if text.startswith("~"):
            raise PathOutsideWorkspaceError(
                f"{quoted(text)}: '~' is not expanded; name a path inside {self._names()}"
            )
        return self._as_written(self.folders[0] / path)

    def _as_written(self, path: Path) -> Path:
        """Return what a printed name stands for, if that is there and a file of this name is not.

        Of a new file, this is asked about its folder.
        """
        text = str(path)
        name = unescaped(text)
        if name == text or self._is_there(text):
            return path
        above, above_name = (os.path.dirname(each) for each in (text, name))  # noqa: PTH120
        if self._is_there(name):
            return Path(name)
        is_folder_printed = not self._is_there(above) and self._is_there(above_name)
        return Path(above_name, path.name) if is_folder_printed else path

    def _is_there(self, path: str) -> bool:
        if self.isolated is None:
            return os.path.lexists(path)
        real = real_path(Path(path))
        return self.contains(real) and self.kind(real) is not None

    def _open_root(self, root: Path, path: Path) -> int:
        return self.isolated.open_root(root) if self.isolated else _open_folder(str(root), path)

    def _root_of(self, path: Path) -> Path | None:
        return next(iter(self._roots_of(path)), None)

    def _roots_of(self, path: Path) -> list[Path]:
        """Return the roots that are the path or above it, the innermost first."""
        name = f"{path}/"
        return [root for start, root in self._roots_by_prefix.items() if name.startswith(start)]

    def _guises(self, lexical: Path, real: Path) -> set[str]:
        """Return the path below a folder, as written and resolved, normalised for the patterns."""
        # Called for thousands of paths, so string operations replace `Path`.
        paths = {f"{path}/" for path in (lexical, os.path.normpath(lexical), real)}
        bases = {os.path.join(folder, "") for folder in (*self.folders, *self.roots)}  # noqa: PTH118
        return {
            _normalised(path[len(base) : -1] or ".")
            for path in paths
            for base in bases
            if path.startswith(base)
        }

    def _links(self) -> Iterator[tuple[str, Path]]:
        """Yield the names and targets of the links at the top of the folders."""
        for root in self.roots:
            for link in _links_in(root):
                yield link.name, real_path(Path(link.path))

    def _names(self) -> str:
        return ", ".join(printable(folder) for folder in self.folders)


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
                f"{quoted(name)} in {quoted(path)} is not a folder, or was just swapped"
                " for a link; look again"
            ) from exc
        raise ToolError(f"folder {quoted(path.parent)}: {exc.strerror}") from exc


def _too_long(path: Path, root: Path) -> str | None:
    """Return why no file below `root` can have this path, or None."""
    n_path, max_name = len(os.fsencode(path)), os.pathconf(root, "PC_NAME_MAX")
    if n_path <= max_name:
        return None
    n_name, max_path = max(map(len, map(os.fsencode, path.parts))), os.pathconf(root, "PC_PATH_MAX")
    if n_path >= max_path:
        return f"the path has {n_path:,} bytes, and {max_path - 1:,} are possible"
    return f"a name has {n_name} bytes, and {max_name} are possible" if n_name > max_name else None


def _linked_names(real: Path, links: Iterable[tuple[str, Path]]) -> Iterator[str]:
    """Yield the names under which links at the top of the folders lead to `real`.

    The target of a link called `.vscode` is editor settings, wherever it lies.
    """
    for name, target in links:
        if real.is_relative_to(target):
            yield _normalised((name / real.relative_to(target)).as_posix())


def _links_in(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry in entries if entry.is_symlink()]
    return []


def _normalised(path: str) -> str:
    """Return one spelling, such as `./a/b`, of all names that a file system or git may equate.

    Such names differ in case, Unicode form, invisible characters, or trailing dots and spaces.
    """
    normal = unicodedata.normalize("NFKC", path)
    if not normal.isascii():
        normal = "".join(char for char in normal if unicodedata.category(char) != "Cf")
    return "./" + re.sub(r"[. ]+(?=/|$)", "", normal.casefold())


def _refusal_reason(guises: Iterable[str]) -> str | None:
    return next(
        (why for why, pattern in _REFUSED.items() if any(map(pattern.search, guises))), None
    )


def _has_second_name(path: Path) -> bool:
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return False


def parse_folder(name: str, field: str) -> Path:
    """Return the folder of a URI or absolute path. Raises `InvalidParamsError` naming the field."""
    path = path_from_uri(name) if ":" in name.split("/", maxsplit=1)[0] else Path(name)
    if path is None or not path.is_absolute():
        what = f"{name!r} must be a file URI or an absolute path"
        raise InvalidParamsError.at(field, what, "not_a_path")
    return path
