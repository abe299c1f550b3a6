"""What a message mentions beside files, as text: a web page, a folder, the changes since a commit.

The text is taken when the message is sent, once, and cut to a size that fits into any prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oh_daemon.app.shared import Shared
from oh_daemon.app.web_page import fetch_page
from oh_daemon.contract.content import Part, ResourceLinkPart
from oh_daemon.contract.errors import InvalidParamsError, ToolError
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.context import GIT_DIFF
from oh_daemon.workspace.environment import SAFE_GIT, clean_env_without_git
from oh_daemon.workspace.file_names import list_names
from oh_daemon.workspace.paths import path_from_uri

MAX_CHARS = 64 << 10
MAX_NAMES = 500
_GIT_WITHIN_S = 20.0
# Binary files stay names; nothing that the repository's settings name is run.
_DIFF = (*SAFE_GIT, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "HEAD", "--", ".")
_NEW = (*SAFE_GIT, "ls-files", "--others", "--exclude-standard")


@dataclass(frozen=True, slots=True)
class Mentions:
    """Fills in what messages mention of these folders."""

    shared: Shared
    folders: Sequence[Path]

    def filled(self, part: Part, path: str) -> Part:
        """Return the part with its text, if it is such a mention and has none yet.

        Reads the disk or the network. Raises `InvalidParamsError` about the field at `path`.
        """
        if part.type != "resourceLink" or part.text is not None or not is_mention(part):
            return part
        if part.fetch:
            if not part.uri.startswith(("https://", "http://")):
                raise InvalidParamsError.at(path, f"{part.uri!r} is no address of a web page")
            text = fetch_page(part.uri, path)
        elif part.uri == GIT_DIFF:
            text = "\n".join(self._changes(path))
        else:
            text = self._names(part, path)
        return part.model_copy(update={"text": _cut(text)})

    def _changes(self, path: str) -> Iterator[str]:
        repositories = [folder for folder in self.folders if self.shared.trust.of(folder) == "full"]
        if not repositories:
            raise InvalidParamsError.at(path, "git is only asked in a folder that you trust")
        for folder in repositories:
            if len(repositories) > 1:
                yield f"In {folder}:"
            yield self._git(_DIFF, folder, path) or "No changes of files that git tracks."
            if new := self._git(_NEW, folder, path):
                yield f"New files, which git does not track yet:\n{new}"

    def _git(self, command: Sequence[str], folder: Path, path: str) -> str:
        env = {**clean_env_without_git(self.shared.environment), "GIT_OPTIONAL_LOCKS": "0"}
        try:
            done = self.shared.spawner.run(command, cwd=folder, timeout_s=_GIT_WITHIN_S, env=env)
        except ToolError as exc:
            raise InvalidParamsError.at(path, str(exc)) from exc
        if done.exit_code != 0:
            why = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            raise InvalidParamsError.at(path, f"git says in {str(folder)!r}: {why}")
        return done.stdout.decode("utf-8", "replace").rstrip("\n")

    def _names(self, part: ResourceLinkPart, path: str) -> str:
        folder = path_from_uri(part.uri)
        real = folder.resolve() if folder else None
        if real is None or not any(real.is_relative_to(each.resolve()) for each in self.folders):
            raise InvalidParamsError.at(path, f"{part.uri!r} is not in a folder that is open")
        if not real.is_dir():
            raise InvalidParamsError.at(path, f"{part.uri!r} is not a folder")
        names = sorted(list_names(real, self.shared.spawner, CancelToken()))
        more = [f"[… {len(names) - MAX_NAMES:,} more files]"] if len(names) > MAX_NAMES else []
        return "\n".join([*names[:MAX_NAMES], *more]) or "(no files)"


def is_mention(part: Part) -> bool:
    """Return whether the part stands for a text that is still to be taken."""
    if part.type != "resourceLink":
        return False
    is_folder = part.uri.startswith("file:") and part.uri.endswith("/")
    return bool(part.fetch) or part.uri == GIT_DIFF or is_folder


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[:MAX_CHARS]}\n[… {len(text) - MAX_CHARS:,} more characters]"
