"""A linked git worktree in which one task is done, its check, and its patch and commit at the end.

Only the files count. The commits, the index and the `.git` of the worktree are the agent's, which
may have made them say anything: git is told where the repository is, and has an index of its own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.plain_text import shorten
from oh_daemon.protocol.errors import InvalidParamsError, ToolError
from oh_daemon.system.environment import git_env_of_user
from oh_daemon.system.git import TASK_MARK, Git, Repository, refusal_of, run_git
from oh_daemon.system.spawner import Spawner

OURS = ".openhands"
"""The folder with our own files, which no patch has."""
_ALL = ("--", ":(top)", f":(top,exclude){OURS}")
_MAX_OUTPUT_CHARS = 4000


class CheckResult(Struct, frozen=True):
    """How a command ended that says whether the task is done."""

    command: str
    exit_code: int | None
    """None when it did not end in time, or could not start."""
    seconds: float
    output: str
    """The start and the end of what it wrote."""


class PatchedFile(Struct, frozen=True):
    """A file of the patch; the lines are None for a binary file."""

    path: str
    added: int | None
    deleted: int | None


class TaskWorktree(Struct, frozen=True):
    """A worktree at `place`, without a branch. Raises `ToolError` when git refuses."""

    git: Git
    place: Path
    base: str
    """The commit that it was made from."""

    def write(self) -> str:
        """Return git's name for the files as they are now, without those that git ignores."""
        with tempfile.TemporaryDirectory(prefix="oh-index-") as apart:
            git = replace(self.git, variables={"GIT_INDEX_FILE": f"{apart}/index"})
            git.run("read-tree", self.base)
            git.run("add", "--all", *_ALL)
            return git.run("write-tree").decode().strip()

    def patch(self, files: str) -> bytes:
        """Return the patch from the base to what `write` returned, for `git apply`."""
        return self._patch(files)

    def patch_as_text(self, files: str) -> str:
        """Return the same as text: files that are not UTF-8 are in it as binary ones."""
        try:
            return self._patch(files).decode()
        except UnicodeDecodeError:
            with tempfile.NamedTemporaryFile("w", prefix="oh-attributes-") as attributes:
                attributes.write("* -diff\n")
                attributes.flush()
                setting = f"core.attributesFile={attributes.name}"
                return self._patch(files, "-c", setting).decode()

    def _patch(self, files: str, *settings: str) -> bytes:
        options = ("-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv")
        return self.git.run(*settings, "diff-tree", "-r", *options, self.base, files)

    def changes(self, files: str) -> Iterator[PatchedFile]:
        rows = self.git.run("diff-tree", "-r", "-z", "--no-renames", "--numstat", self.base, files)
        for row in rows.decode("utf-8", "replace").split("\0")[:-1]:
            n_added, n_removed, path = row.split("\t", 2)
            yield PatchedFile(path, *(None if n == "-" else int(n) for n in (n_added, n_removed)))

    def commit(self, files: str, message: str, branch: str, sign: Callable[[bytes], bytes]) -> str:
        """Make a new branch of one commit with these files, and return the commit.

        `sign` returns a commit as it is stored, given one without a signature.
        """
        words = ("commit-tree", "-p", self.base, "-F", "-", files)
        user = replace(self.git, variables=git_env_of_user(os.environ))
        plain = user.run(*words, stdin=message.encode()).decode().strip()
        data = sign(self.git.run("cat-file", "commit", plain))
        words = ("hash-object", "-w", "-t", "commit", "--stdin")
        commit = self.git.run(*words, stdin=data).decode().strip()
        self.git.run("update-ref", f"refs/heads/{branch}", commit, "0" * len(commit))
        return commit

    def remove(self) -> None:
        """Remove the worktree with all that is in it."""
        self.git.run("worktree", "remove", "--force", str(self.place))


def make_tree(spawner: Spawner, repository: Path, place: Path) -> TaskWorktree:
    """Make a worktree of what is checked out in a repository. Raises `ToolError`."""
    where = run_git(
        spawner, "rev-parse", "--path-format=absolute", "--git-common-dir", cwd=repository
    )
    if where.exit_code:
        why = refusal_of(spawner, repository) or f"{str(repository)!r} is in no git repository"
        raise InvalidParamsError(why)
    git_dir = Path(where.stdout.decode().strip())
    base = run_git(spawner, "rev-parse", "--verify", "-q", "HEAD^{commit}", cwd=repository)
    if base.exit_code:
        raise InvalidParamsError(f"{str(repository)!r} has no commit to begin with")
    commit = base.stdout.decode().strip()
    Git(spawner, Repository(git_dir)).run("worktree", "add", "-q", "--detach", str(place), commit)
    own = run_git(spawner, "rev-parse", "--absolute-git-dir", cwd=place).stdout
    Path(os.fsdecode(own).removesuffix("\n"), TASK_MARK).touch()
    return TaskWorktree(Git(spawner, Repository(git_dir, place)), place, commit)


def run_check(spawner: Spawner, command: str, folder: Path, timeout_s: float) -> CheckResult:
    """Run a command of bash; after that time, it is ended with all that it started.

    `spawner` should be what holds the agent's commands: the check runs what the agent wrote.
    """
    start_s = time.monotonic()
    words, code = ["bash", "-c", f"exec 2>&1\n{command}"], None
    try:
        result = spawner.run(words, cwd=folder, timeout_s=timeout_s)
        code, output = result.exit_code, result.stdout.decode("utf-8", "replace")
    except ToolError as exc:
        output = exc.message
    return CheckResult(
        command, code, time.monotonic() - start_s, shorten(output, _MAX_OUTPUT_CHARS)
    )
