"""Runs git, on the disk or in a sandbox, where its output is a claim; parses refs and the index.

Without hooks, without programs that watch files, and without variables of the environment. An index
is compared as rows of `git ls-files -s`; the file itself is never taken over.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.common.plain_text import first_line, well_formed
from oh_daemon.protocol.checkpoints import StashEntry
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.environment import SAFE_GIT, clean_env_without_git
from oh_daemon.system.spawner import Completed, Spawner

logger = logging.getLogger(__name__)

Rows = frozenset[bytes]

HEAD = "HEAD"
STASH = "refs/stash"
TASK_MARK = "oh-daemon-task"
"""A file in git's own folder of a work tree of which only the files count: see `TaskWorktree`."""
CACHES = frozenset(
    """__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .eslintcache
    .parcel-cache .turbo""".split()  # noqa: SIM905
)
"""Names of what programs make again at need: they are ignored everywhere, and never land."""
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"refs/(heads|tags)/[^\s\x00-\x1f\x7f~^:?*\[\\\ud800-\udfff]+")
"""A name that git allows, and that fits into a log."""
_OURS = ("refs/heads/", "refs/tags/")
_ROW = re.compile(rb"(100644|100755|120000|160000) ([0-9a-f]{40}|[0-9a-f]{64}) [0-3]\t[^\0]+")
_DEBUG = re.compile(rb"  ctime: .*?\tflags: ([0-9a-f]+)\n", re.DOTALL)
_INTENT_TO_ADD, _SKIP_WORKTREE = 1 << 29, 1 << 30
"""Flags that `git ls-files --debug` shows; see CE_INTENT_TO_ADD in git's read-cache-ll.h."""
_LITERAL = b":(top,literal)"
_MAX_NAMED_CHARS = 1 << 16
"""So much fits into a command line; of more paths, git lists all."""
_BEFORE, _AFTER, _TO_ADD, _SKIPPED = b"-", b"+", b"N", b"S"
_OTHER_OWNER = re.compile(r"(?:dubious ownership in repository at|unsafe repository \() ?'(.+?)'")
"""The second form is that of git 2.35 and 2.36."""
_LIST_TIMEOUT_S = 10.0
_IGNORED = ("check-ignore", "-z", "--stdin")
_TIMEOUT_S = 60.0
_WORDS = (
    *(*SAFE_GIT, "--no-replace-objects"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)


def run_git(
    spawner: Spawner,
    *arguments: str,
    cwd: Path = Path("/"),
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Completed:
    """Run git to its end. Raises `ToolError` when it cannot start or takes too long."""
    return spawner.run(
        (*_WORDS, *arguments),
        cwd=cwd,
        env={**clean_env_without_git(os.environ), "LC_ALL": "C", **(variables or {})},
        stdin=stdin,
        timeout_s=timeout_s,
    )


def top_of(folder: Path) -> Path | None:
    """Return the nearest folder with a `.git`, from this one upwards; git may still refuse it."""
    return next((up for up in (folder, *folder.parents) if (up / ".git").exists()), None)


def refusal_of(spawner: Spawner, folder: Path) -> str | None:
    """Return why git refuses to work in a folder that has a repository, with the cure if known.

    Such as a repository of another user; see `safe.directory` in git-config(1). None if git works
    there, is missing, or finds no repository.
    """
    if top_of(folder) is None:
        return None
    try:
        answer = run_git(spawner, "rev-parse", "--absolute-git-dir", cwd=folder)
    except ToolError:
        return None
    message = answer.stderr.decode("utf-8", "replace")
    if answer.exit_code == 0 or "not a git repository" in message:
        return None
    if match := _OTHER_OWNER.search(message):
        cure = shlex.join(("git", "config", "--global", "--add", "safe.directory", match[1]))
        return (
            f"git refuses the repository {match[1]!r}, since it belongs to another user;"
            f" if you trust it: {cure}"
        )
    return f"git refuses the repository of {str(folder)!r}: {first_line(message)}"


class Repository(Struct, frozen=True):
    """Where git keeps its files, and the files that it keeps."""

    git_dir: Path
    work_tree: Path | None = None
    """None for what has none, or has it in its settings."""


def init(host: Spawner, work_tree: Path) -> None:
    """Make a repository with the user's own settings. Raises `ToolError`."""
    answer = run_git(host, "init", "-q", "--", str(work_tree))
    if answer.exit_code:
        raise ToolError(f"git init: {answer.stderr.decode('utf-8', 'replace').strip()}")


class Git(Struct, frozen=True):
    """git for one repository. Raises `ToolError`."""

    spawner: Spawner
    repository: Repository
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def ask(self, *arguments: str, stdin: bytes = b"") -> Completed:
        # The folder is outside of every repository: else names would be relative to it.
        where = [f"--git-dir={self.repository.git_dir}"]
        if self.repository.work_tree is not None:
            where.append(f"--work-tree={self.repository.work_tree}")
        variables = self.variables
        return run_git(self.spawner, *where, *arguments, stdin=stdin, variables=variables)

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        answer = self.ask(*arguments, stdin=stdin)
        if answer.exit_code:
            why = answer.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            raise ToolError(f"git {arguments[0]}: {why or f'exit code {answer.exit_code}'}")
        return answer.stdout

    def rows(self, *arguments: str, stdin: bytes = b"") -> list[str]:
        return os.fsdecode(self.run(*arguments, stdin=stdin)).split("\n")[:-1]


def find_ignored(host: Spawner, folder: Path, names: Sequence[str]) -> Collection[str]:
    """Return those of some names below a folder that are ignored; a folder's name ends with "/".

    Without git or a repository only caches are. Each repository inside is asked for itself.
    """
    find_repository = repositories(folder)
    by_repository: dict[Path, list[str]] = {}
    ignored_names = {name for name in names if not CACHES.isdisjoint(name.split("/"))}
    top = os.path.join(folder, "")  # noqa: PTH118 - strings for thousands of long paths.
    for name in names:
        repository = find_repository(top + name.removesuffix("/"))
        if repository is not None:
            by_repository.setdefault(repository, []).append(name)
    # Absolute, so that no name looks like the magic of a pathspec.
    for repository, inside in by_repository.items():
        absolute = {top + name: name for name in inside}
        ignored_names |= {
            absolute[ignored_path]
            for ignored_path in ask_git(host, repository, _IGNORED, [*absolute])
            if ignored_path in absolute
        }
    return ignored_names


def repositories(folder: Path) -> Callable[[str], Path | None]:
    """Return what finds the repository on the disk that holds a path; None beyond links."""
    # Paths may have thousands of folders that are not on the disk yet, so they are strings, and
    # below a missing folder nothing is looked for.
    top = str(folder)
    by_folder = {"": Path("/") if Path("/.git").exists() else None}
    missing = set[str]()

    def find(path: str) -> Path | None:
        above: list[str] = []
        up = path.rpartition("/")[0]
        while up not in by_folder:
            above.append(up)
            up = up.rpartition("/")[0]
        for each in reversed(above):
            repository, up = by_folder[up], each
            if each.rpartition("/")[0] in missing or not os.path.lexists(each):
                missing.add(each)
            elif Path(each, ".git").exists():
                repository = Path(each)
            elif each.startswith(f"{top}/") and Path(each).is_symlink():
                repository = None
            by_folder[each] = repository
        return by_folder[up]

    return find


def ask_git(
    host: Spawner, repository: Path, words: Sequence[str], names: Sequence[str] = ()
) -> list[str]:
    """Return the names that git prints, given some on stdin; none if it cannot be asked."""
    names_input = b"".join(os.fsencode(name) + b"\0" for name in names)
    try:
        result = run_git(host, *words, cwd=repository, stdin=names_input, timeout_s=_LIST_TIMEOUT_S)
    except ToolError as exc:
        logger.warning("git says nothing about %s: %s", repository, exc)
        return []
    if result.exit_code > 1:
        logger.warning("git refuses %s: %s", repository, result.stderr.decode("utf-8", "replace"))
    return os.fsdecode(result.stdout).split("\0")[:-1]


def is_object(text: str) -> bool:
    """Return whether it is the full name of an object."""
    return _OBJECT.fullmatch(text) is not None


def refs_of(git: Git) -> dict[str, str]:
    """Return the branches and tags, without those that only lead to others."""
    rows = git.rows("for-each-ref", "--format=%(objectname) %(refname) %(symref)", *_OURS)
    parts = [row.split(" ") for row in rows]
    return {
        part[1]: part[0]
        for part in parts
        if part[2:] == [""] and is_object(part[0]) and _REF.fullmatch(part[1])
    }


def head_of(git: Git, *, is_peeled: bool = False) -> str | None:
    """Return the branch that HEAD is on, else its commit; `peeled` always returns the commit."""
    if not is_peeled:
        answer = git.ask("symbolic-ref", "-q", HEAD)
        ref = answer.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")
        if not answer.exit_code:
            return ref if _REF.fullmatch(ref) else None
    answer = git.ask("rev-parse", "--verify", "-q", HEAD)
    commit = answer.stdout.decode("ascii", "replace").removesuffix("\n")
    return commit if is_object(commit) else None


def stash_of(git: Git) -> tuple[StashEntry, ...]:
    """Return the entries of the stash, the newest first."""
    if git.ask("rev-parse", "--verify", "-q", STASH).exit_code:
        return ()
    # rev-list knows no messages of reflogs.
    words = ("log", "--walk-reflogs", "--no-show-signature", "--no-patch", "--format=%H %gs")
    parts = [row.partition(" ") for row in git.rows(*words, STASH, "--")]
    return tuple(
        StashEntry(commit=commit, message=well_formed(message))
        for commit, _, message in parts
        if is_object(commit)
    )


class IndexChange(Struct, frozen=True):
    """The rows of paths that differ."""

    before: Rows
    after: Rows
    to_add: frozenset[bytes] = frozenset()
    """Paths that are only meant to be added: their rows have no object."""
    skipped_paths: frozenset[bytes] = frozenset()
    """Paths that are left out of the work tree."""

    @property
    def paths(self) -> frozenset[bytes]:
        return frozenset(map(path_of, self.before | self.after))

    @property
    def objects(self) -> set[str]:
        """Names of the files' contents that the new rows need."""
        rows = (row for row in self.after if path_of(row) not in self.to_add)
        return {row.split(b" ")[1].decode() for row in rows if not row.startswith(b"160000")}

    def encode(self) -> bytes:
        sides = ((_BEFORE, self.before), (_AFTER, self.after))
        more = ((_TO_ADD, self.to_add), (_SKIPPED, self.skipped_paths))
        return b"\0".join(sign + row for sign, rows in (*sides, *more) for row in sorted(rows))


def decode_index(data: bytes) -> IndexChange:
    """Return what `IndexChange.encode` wrote."""
    rows = data.split(b"\0")

    def of(sign: bytes) -> Rows:
        return frozenset(row[1:] for row in rows if row.startswith(sign))

    return IndexChange(of(_BEFORE), of(_AFTER), of(_TO_ADD), of(_SKIPPED))


def path_of(row: bytes) -> bytes:
    return row.partition(b"\t")[2]


def rows_of(git: Git) -> Rows:
    return frozenset(git.run("ls-files", "-s", "-z").split(b"\0")[:-1])


def rows_at(rows: Rows, paths: Iterable[bytes]) -> Rows:
    path_set = frozenset(paths)
    return frozenset(row for row in rows if path_of(row) in path_set)


def compare_index(disk: Git, sandbox: Git) -> IndexChange | None:
    """Return what differs in the sandbox; None if nothing does. Raises `ToolError`."""
    before, after = rows_of(disk), rows_of(sandbox)
    if before == after:
        return None
    change = IndexChange(before - after, after - before)
    if not all(map(_ROW.fullmatch, change.after)):
        raise ToolError("the index has entries that cannot come back from the sandbox")
    # The paths, so that the rows of all stages of a path are on both sides.
    change = IndexChange(rows_at(before, change.paths), rows_at(after, change.paths))
    return _mark_skipped(change, sandbox)


def _mark_skipped(change: IndexChange, sandbox: Git) -> IndexChange:
    paths = [os.fsdecode(_LITERAL + path) for path in change.paths]
    some = ("--", *paths) if sum(map(len, paths)) < _MAX_NAMED_CHARS else ()
    parts = sandbox.run("ls-files", "-s", "-z", "--debug", *some).split(b"\0")
    to_add: set[bytes] = set()
    skipped_paths: set[bytes] = set()
    row = parts[0]
    for part in parts[1:]:
        match = _DEBUG.match(part)
        flags = int(match[1], 16) if match else 0
        if row in change.after:
            to_add |= {path_of(row)} if flags & _INTENT_TO_ADD else set()
            skipped_paths |= {path_of(row)} if flags & _SKIP_WORKTREE else set()
        row = part[match.end() :] if match else b""
    return IndexChange(change.before, change.after, frozenset(to_add), frozenset(skipped_paths))


def make_change(git: Git, index: Path, change: IndexChange) -> None:
    """Change an index file, a copy of the repository's. Raises `ToolError`."""
    own = Git(git.spawner, git.repository, {**git.variables, "GIT_INDEX_FILE": str(index)})
    some_row = next(iter(change.before | change.after))
    nothing = b"0 " + b"0" * len(some_row.split(b" ")[1]) + b"\t"
    removals = [nothing + path for path in sorted(change.paths)]
    rows = sorted(row for row in change.after if path_of(row) not in change.to_add)
    own.run("update-index", "-z", "--index-info", stdin=_lines([*removals, *rows]))
    if change.to_add:
        words = ("--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul")
        literal = [_LITERAL + path for path in change.to_add]
        own.run("add", *words, stdin=_lines(literal))
    if change.skipped_paths:
        own.run(
            "update-index", "-z", "--skip-worktree", "--stdin", stdin=_lines(change.skipped_paths)
        )
    # Else each file would count as changed until somebody looked at it. What differs is no error.
    own.ask("update-index", "-q", "--refresh")


def differing_from_disk(git: Git, change: IndexChange) -> frozenset[bytes]:
    """Return the paths of a change whose files on the disk are not as its rows say."""
    with tempfile.TemporaryDirectory(prefix="oh-git-") as apart:
        index = Path(apart) / "index"
        own_index = git.repository.git_dir / "index"
        if own_index.exists():
            index.write_bytes(own_index.read_bytes())
        make_change(git, index, change)
        own = Git(git.spawner, git.repository, {**git.variables, "GIT_INDEX_FILE": str(index)})
        names = {*own.run("diff-files", "-z", "--name-only").split(b"\0")[:-1]}
    top = git.repository.work_tree or Path(
        os.fsdecode(git.run("rev-parse", "--show-toplevel"))[:-1]
    )
    removed = change.paths - {*map(path_of, change.after)}
    names |= {path for path in removed if os.path.lexists(top / os.fsdecode(path))}
    return change.paths & names


def _lines(rows: Iterable[bytes]) -> bytes:
    return b"".join(row + b"\0" for row in rows)
