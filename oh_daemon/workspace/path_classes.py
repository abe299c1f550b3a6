"""Classifies the paths that a command names: inside the folders, outside, protected or secret.

Lexical, except for what it asks of a `Disk`. Whoever opens a file has to deal with links that
change meanwhile. Invariant: an unknown part (`UNKNOWN`) or a wildcard never looks safer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from posixpath import isabs, join, normpath
from typing import Literal, NamedTuple

UNKNOWN = "\0"
"""Stands for a part of a text that only the shell can know; a real command cannot contain it."""

Place = Literal["device", "inside", "outside", "unknown", "protected", "secret"]

_DEVICES = re.compile(r"/dev/(null|stdout|stderr|stdin|tty|zero|full|u?random|fd/\d+)")

# Paths inside a folder come as "./a/b", others as "/a/b" or "/~/a", all in lower case.
_SECRET = re.compile(
    r"""^/(dev/|root|etc/(g?shadow|passwd|sudoers|ssl/private)|(var/)?run/(secrets|.*\.sock)
      |proc/(kcore|kmem|sysrq-trigger)|proc/[^/]+/.*(environ|root|mem|maps|cwd|fd|exe)
      |~[^/]*/\.)
    | /(\.env(?!(\.\w+)?\.(example|sample|template|dist|defaults?)(/|$))([._~-][^/]*)?|[^/]+\.env
      |\.envrc|id_(rsa|dsa|ecdsa|ed25519)[^/]*(?<!\.pub)|authorized_keys|keyrings|wallet\.dat
      |[^/]+\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate|tfvars|gpg|age)
      |[._](netrc|pgpass|htpasswd|git-credentials|npmrc|pypirc|my\.cnf|s3cfg|boto|dockercfg)
      |\.(ssh|gnupg|aws|azure|kube|docker|password-store|mozilla|thunderbird)|\.[^/]*_history
      |(service[-_]?account|firebase)[^/]*\.json|\.git/config)(~|\.(bak|old|orig|save|swp))?(/|$)
    | /\.?((client_?)?secrets?|credentials?|tokens?|passw(or)?ds?)
      (\.(txt|json|ya?ml|toml|ini|enc))?$""",
    re.VERBOSE,
)
_PROTECTED = re.compile(
    r"""/(\.(git|github|gitlab|circleci|vscode|idea|devcontainer|husky|openhands|agents|claude|cursor
      |codex|githooks|zed|gemini|windsurf(rules)?|continue|roo[^/]*|kilocode[^/]*|opencode|amazonq|junie
      |aider[^/]*|direnv|hg|svn|buildkite|gitea|forgejo|woodpecker|semaphore|cargo|mvn|mise\.toml|tool-versions
      |gitmodules|gitattributes|gitconfig|mcp\.json
      |yarnrc[^/]*|gitlab-ci[^/]*|(travis|drone|woodpecker|appveyor)\.ya?ml|pnpmfile\.[^/]+|pre-commit-config\.ya?ml|devcontainer\.json
      |lefthook\.ya?ml|cursorrules|clinerules|vimrc
      |exrc|nvim(rc|\.lua)|inputrc|curlrc|wgetrc|gdbinit|bash[^/]*|zsh[^/]*|profile)
    |(agents|claude|gemini|openhands|skill|copilot-instructions)\.md|codeowners|jenkinsfile
    |(azure-pipelines|appveyor|bitbucket-pipelines|cloudbuild|buildspec|lefthook)\.ya?ml|mise\.toml|pip\.conf|crontab|(mcp|opencode)\.jsonc?
    |(site|user)customize\.py|[^/]+\.(pth|code-workspace|lockb?|lockfile)|go\.sum
    |(package-lock|npm-shrinkwrap)\.json|pnpm-lock\.yaml)(/|$)""",
    re.VERBOSE,
)


def guard_class(path: str) -> Literal["protected", "secret"] | None:
    """Return "secret" for a path in that form that may hold secrets, else "protected" or None.

    Protected paths steer git, builds, editors or agents.
    """
    if _SECRET.search(path):
        return "secret"
    return "protected" if _PROTECTED.search(path) else None


def holds_secrets(path: str) -> bool:
    """Return whether this names a home folder or one above it, or the system's settings."""
    return (
        re.fullmatch(r"(~\w*|/|/(home|Users)(/[^/]+)?|/(etc|proc|private/etc))/*", path) is not None
    )


def _fears(_path: str) -> bool:
    return True


class Disk(NamedTuple):
    """What a rating asks about absolute paths; by default nobody has looked, and all is feared."""

    hides_repository: Callable[[str], bool] = _fears
    """Whether git may take a folder, or one above it, for a repository without `.git`.

    A clone can contain such a folder, with settings for git in it."""
    leads_away: Callable[[str], bool] = _fears
    """Whether links lead from a path, or from one that fits a pattern, out of the folders or to
    what may hold secrets."""
    is_folder: Callable[[str], bool] = _fears


UNSEEN = Disk()


class RatingScope(NamedTuple):
    """Which folders are the workspace, and where relative paths start: None when nobody knows."""

    folders: tuple[str, ...]
    cwd: str | None
    disk: Disk = UNSEEN

    def moved_to(self, folder: str) -> RatingScope:
        """Return the ground after `cd folder`."""
        is_known = re.fullmatch(r"[^-+\0*?[][^\0*?[]*", folder)
        return self._replace(cwd=self.absolute(folder) if is_known else None)

    def place(self, text: str, *, writing: bool) -> Place:
        """Return where a path points; "protected" only when it is written to."""
        # A wildcard after a dot may stand for any hidden file: assume the worst one. Not so
        # `.[dev]`, which pip reads; as a pattern it is two characters long.
        path = self.absolute(re.sub(r"(^|/)\.(?!\[[\w,-]+\]$)[^/]*[*?[][^/]*", r"\1.env", text))
        folder = next((f for f in self.folders if f"{path}/".startswith(f"{f}/")), None)
        path_text = "/" + normpath(text) if path is None else path
        path_text = path_text if folder is None else "." + path_text[len(folder) :]
        path_text = unicodedata.normalize("NFKC", path_text).casefold()
        if _DEVICES.fullmatch(path_text):
            return "device"
        guard = guard_class(path_text)
        if guard == "secret" or (guard and writing):
            return guard
        if UNKNOWN in text or (path is None and not text.startswith("~")):
            return "unknown"
        return "outside" if folder is None else "inside"

    def leads_away(self, text: str) -> bool:
        """Return whether links lead from this path to another place; only for one inside."""
        # Not `absolute`: where a link leads, `..` after it leads elsewhere too.
        return self.disk.leads_away(join(self.cwd or "/", text))

    def is_everything(self, text: str) -> bool:
        """Return whether deleting this deletes a whole workspace folder, or one above it."""
        path = self.absolute(re.sub(r"(^|(?<=/))[*?.\[\]!^]*[*?][*?.\[\]!^]*/*$", ".", text))
        folders = self.folders or ("/",)
        return path is None or any(f"{f}/".startswith(path.rstrip("/") + "/") for f in folders)

    def absolute(self, text: str) -> str | None:
        """Return the path without `.` and `..`, or None when it starts at an unknown place."""
        if isabs(text):
            return "/" + normpath(text).lstrip("/")
        if text.startswith(("~", UNKNOWN)) or self.cwd is None:
            return None
        return normpath(join(self.cwd, text))
