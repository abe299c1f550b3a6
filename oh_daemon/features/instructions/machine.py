"""What is true of the machine and the folder in which commands run, in the words for the model.

Only git is run, on a thread of its own and in trusted folders: it may take long.
"""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Container, Mapping
from pathlib import Path

from msgspec import Struct

from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.protocol.errors import ToolError
from oh_daemon.system.environment import SAFE_GIT, CommandVariables, clean_env_without_git
from oh_daemon.system.git import refusal_of
from oh_daemon.system.spawner import Spawner, start_thread
from oh_daemon.workspace.paths import printable

logger = logging.getLogger(__name__)

PATIENCE_S = 0.03
"""How long the start of a conversation waits for git; what comes later is told in a note."""
_GIT_DEADLINE_S = 30.0
_MAX_BYTES = 4096
_STATUS = (*SAFE_GIT, "--no-optional-locks", "status", "--porcelain")
_REFTABLE = ".invalid"
"""What HEAD names where git keeps the branch in a table of its own."""


class RepositoryHead(Struct, frozen=True):
    """Where a repository is: on a `branch`, or on none."""

    branch: str
    has_commits: bool

    @property
    def where(self) -> str:
        return f"branch {self.branch}" if self.branch not in {"", _REFTABLE} else "no branch"


class Machine(Feature):
    """The machine as one conversation sees it. Safe from any thread."""

    def __init__(
        self,
        folder: Path | None,
        variables: Callable[[], CommandVariables],
        spawner: Spawner,
        is_trusted: Callable[[], bool],
    ) -> None:
        """Without a `folder` there are no commands either. `variables` does not wait."""
        self._folder = folder
        self._variables = variables
        self._spawner = spawner
        self._is_trusted = is_trusted
        self._head: RepositoryHead | None = None
        """Where the repository was when git was asked the last time."""
        self._git = ""
        self._programs: tuple[CommandVariables | None, Mapping[str, str]] = (None, {})
        """The programs on the disk by the variables for which they were looked at."""
        self._platform = _platform()
        self._is_answered = threading.Event()
        self._is_answered.set()

    def look(self, git_facts: str = "") -> None:
        """Look at the disk, and begin to ask git unless its branch is still that in `git_told`."""
        folder = self._folder
        head = find_head(folder) if folder is not None and self._is_trusted() else None
        if folder is None or head is None or head == self._head:
            return
        if git_facts.split(", ", maxsplit=1)[0] == head.where:
            return
        self._head = head
        if not head.has_commits:
            self._git = f"{head.where}, no commits yet"
            return
        self._is_answered.clear()
        try:
            start_thread("git-status", self._ask_git, folder, head)
        except OSError:
            self._is_answered.set()

    def wait(self, patience_s: float = PATIENCE_S) -> None:
        """Wait for the answer of git, at most that long."""
        if not self._is_answered.wait(patience_s) and self._head is not None:
            self._git = self._head.where

    def report(self, conversation: Conversation, _offered: Container[str]) -> None:
        """Tell the model what has changed since its last step, and look again in a new turn."""
        if conversation.state.open_turn.n_steps == 0:
            self.look(conversation.delivery.facts_reported().get("git", ""))
        conversation.delivery.report_news()

    def facts(self) -> dict[str, str]:
        """Return what is known by now, by kind. Does not wait."""
        variables, programs = self._variables(), self._programs
        if self._folder is not None and programs[0] is not variables:
            programs = self._programs = (variables, _programs(self._folder, variables))
        facts = {"date": time.strftime("%Y-%m-%d"), "platform": self._platform, **programs[1]}
        return facts | ({"git": self._git} if self._git else {})

    def _ask_git(self, folder: Path, head: RepositoryHead) -> None:
        env = {**clean_env_without_git(self._variables().values), "LC_ALL": "C"}
        try:
            answer = self._spawner.run(_STATUS, cwd=folder, timeout_s=_GIT_DEADLINE_S, env=env)
            n_changed = len(answer.stdout.splitlines())
            if answer.exit_code == 0:
                files = f"{n_changed or 'no'} changed file{'' if n_changed == 1 else 's'}"
                self._git = f"{head.where}, {files}"
            elif refusal := refusal_of(self._spawner, folder):
                self._git = f"{head.where}, {refusal}"
        except ToolError as exc:
            logger.info("git status in %s: %s", folder, exc)
        self._is_answered.set()


def _programs(folder: Path, variables: CommandVariables) -> dict[str, str]:
    path, origin = variables.values.get("PATH"), variables.origin
    shell = f"bash; {origin}" if origin else "bash"
    programs = {"shell": printable(shell), "python": python_row(folder, path)}
    node = shutil.which("node", path=path)
    return programs if node is None else {**programs, "node": printable(node)}


def python_row(folder: Path, path: str | None) -> str:
    """Return which Python a command gets, and which one is there for the project."""
    python, python3 = (shutil.which(name, path=path) for name in ("python", "python3"))
    rows = [_version_text(python)] if python else []
    if python is None:
        rows = [f"{_version_text(python3)}, as `python3` only"] if python3 else ["none"]
    own = (folder / name / "bin" / "python" for name in (".venv", "venv"))
    python_path = next((each for each in own if each.exists() and str(each) != python), None)
    if python_path is not None:
        rows.append(
            f"the project has {_version_text(str(python_path), python_path.relative_to(folder))}"
        )
    return "; ".join(rows)


def _version_text(program: str, name: Path | None = None) -> str:
    """Name a Python with its version, as far as that is written somewhere."""
    version = re.search(r"python(\d+\.\d+)$", str(Path(program).resolve()))
    settings = _read(Path(program).parent.parent / "pyvenv.cfg")
    match = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", settings, re.MULTILINE)
    best = match or version
    return printable(str(name or program)) + (f" ({best[1]})" if best else "")


def _platform() -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', _read(Path("/etc/os-release")), re.MULTILINE)
    return match[1] if match else "Linux"


def find_head(folder: Path) -> RepositoryHead | None:
    """Return what the files of git say of the repository of a folder; None without one."""
    for place in (folder, *folder.parents):
        git_path = place / ".git"
        pointer = _read(git_path).partition("gitdir: ")[2].strip()
        if not (pointer or git_path.is_dir()):
            continue
        own = place / pointer if pointer else git_path
        # The layout is in gitrepository-layout(5): a linked work tree has HEAD, the rest is shared.
        common_dir = own / (_read(own / "commondir").strip() or ".")
        name = _read(own / "HEAD").partition("ref: ")[2].strip()
        branch = name.removeprefix("refs/heads/")
        is_born = (common_dir / name).is_file() or (common_dir / "packed-refs").is_file()
        return RepositoryHead(
            printable(branch), has_commits=not name or is_born or branch == _REFTABLE
        )
    return None


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
