"""What a message mentions beside files, as text: a web page, a folder, the changes since a commit.

The text is taken when the message is sent, once, and cut to a size that fits into any prompt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from oh_daemon.common.cancel import CancelToken
from oh_daemon.conversations.services import ConversationContext
from oh_daemon.features.attachments.web_page import fetch_page
from oh_daemon.kernel.context import GIT_DIFF
from oh_daemon.protocol.content import Part, ResourceLinkPart
from oh_daemon.protocol.errors import InvalidParamsError, ToolError
from oh_daemon.system.environment import SAFE_GIT, clean_env_without_git
from oh_daemon.system.spawner import Completed
from oh_daemon.workspace.file_names import list_names
from oh_daemon.workspace.paths import path_from_uri

MAX_CHARS = 64 << 10
MAX_NAMES = 500
WITHIN_S = 30.0
"""For all that one message mentions."""
_GIT_WITHIN_S = 20.0
# Binary files stay names; nothing that the repository's settings name is run.
_DIFF = (*SAFE_GIT, "diff", "--no-ext-diff", "--no-textconv", "--no-color")
_HEAD = (*SAFE_GIT, "rev-parse", "--verify", "--quiet", "HEAD")
# The empty tree, whatever the repository hashes with.
_EMPTY = (*SAFE_GIT, "hash-object", "-t", "tree", "--stdin")
_NO_COMMIT, _NO_REPOSITORY = 1, b"not a git repository"
_NEW = (*SAFE_GIT, "ls-files", "--others", "--exclude-standard")


class Mentions(Struct, frozen=True):
    """Fills in what messages mention of these folders."""

    context: ConversationContext
    folders: Sequence[Path]
    cancel: CancelToken
    _end: float = field(default_factory=lambda: time.monotonic() + WITHIN_S)

    def fill_in(self, part: Part, path: str) -> Part:
        """Return the part with its text, if it is such a mention and has none yet.

        Reads the disk or the network. Raises `Cancelled`, or `InvalidParamsError` about the field
        at `path`.
        """
        if part.type != "resourceLink" or part.text is not None or not is_mention(part):
            return part
        if time.monotonic() >= self._end:
            raise InvalidParamsError.at(path, "what the message mentions takes too long to read")
        if part.fetch:
            if not part.uri.startswith(("https://", "http://")):
                raise InvalidParamsError.at(path, f"{part.uri!r} is no address of a web page")
            text = fetch_page(part.uri, path, self.cancel, self._end - time.monotonic())
        elif part.uri == GIT_DIFF:
            text = "\n".join(self._changes(path))
        else:
            text = self._names(part, path)
        return part.model_copy(update={"text": _cut_text(text)})

    def _changes(self, path: str) -> Iterator[str]:
        trust = self.context.user.trust
        folders = [folder for folder in self.folders if trust.of(folder) == "full"]
        if not folders:
            raise InvalidParamsError.at(path, "git is only asked in a folder that you trust")
        heads = {folder: self._head(folder, path) for folder in folders}
        repositories = {folder: head for folder, head in heads.items() if head is not None}
        if not repositories:
            raise InvalidParamsError.at(path, "no folder that you trust is in a git repository")
        for folder, head in repositories.items():
            if len(repositories) > 1:
                yield f"In {folder}:"
            diff = self._git((*_DIFF, head, "--", "."), folder, path)
            yield diff or "No changes of files that git tracks."
            if new := self._git(_NEW, folder, path):
                yield f"New files, which git does not track yet:\n{new}"

    def _head(self, folder: Path, path: str) -> str | None:
        """Return what the changes are since, None in a folder of no repository."""
        outcome = self._run(_HEAD, folder, path)
        if outcome.exit_code == _NO_COMMIT:
            return self._git(_EMPTY, folder, path)
        return None if _NO_REPOSITORY in outcome.stderr else _output(outcome, folder, path)

    def _git(self, command: Sequence[str], folder: Path, path: str) -> str:
        return _output(self._run(command, folder, path), folder, path)

    def _run(self, command: Sequence[str], folder: Path, path: str) -> Completed:
        base = clean_env_without_git(self.context.services.environment)
        env = {**base, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        left_s = min(_GIT_WITHIN_S, max(self._end - time.monotonic(), 0))
        try:
            return self.context.services.spawner.run(
                command, cwd=folder, timeout_s=left_s, cancel=self.cancel, env=env
            )
        except ToolError as exc:
            raise InvalidParamsError.at(path, str(exc)) from exc

    def _names(self, part: ResourceLinkPart, path: str) -> str:
        folder = path_from_uri(part.uri)
        real = folder.resolve() if folder else None
        if real is None or not any(real.is_relative_to(each.resolve()) for each in self.folders):
            raise InvalidParamsError.at(path, f"{part.uri!r} is not in a folder that is open")
        if not real.is_dir():
            raise InvalidParamsError.at(path, f"{part.uri!r} is not a folder")
        names = sorted(list_names(real, self.context.services.spawner, self.cancel))
        more = [f"[… {len(names) - MAX_NAMES:,} more files]"] if len(names) > MAX_NAMES else []
        return "\n".join([*names[:MAX_NAMES], *more]) or "(no files)"


def is_mention(part: Part) -> bool:
    """Return whether the part stands for a text that the daemon takes."""
    if part.type != "resourceLink":
        return False
    is_folder = part.uri.startswith("file:") and part.uri.endswith("/")
    return bool(part.fetch) or part.uri == GIT_DIFF or is_folder


def _output(outcome: Completed, folder: Path, path: str) -> str:
    if outcome.exit_code != 0:
        why = outcome.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise InvalidParamsError.at(path, f"git says in {str(folder)!r}: {why}")
    return outcome.stdout.decode("utf-8", "replace").rstrip("\n")


def _cut_text(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]}\n[… {len(text) - MAX_CHARS:,} more characters]"
