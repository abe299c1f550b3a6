"""Which places a command names: inside the folders, outside, protected or secret.

Purely lexical: no file is looked at, so links are the business of whoever opens a file.
Invariant: an unknown part (`UNKNOWN`) or a wildcard never makes a path look safer.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice, product
from posixpath import isabs, join, normpath
from typing import Literal

UNKNOWN = "\0"
"""Stands in a text for a part that only the shell will know; a real command cannot hold it."""

Place = Literal["device", "inside", "outside", "unknown", "protected", "secret"]
PLACES: tuple[Place, ...] = ("device", "inside", "outside", "unknown", "protected", "secret")

_DEVICES = re.compile(r"/dev/(null|stdout|stderr|stdin|tty|zero|full|u?random|fd/\d+)")

# Paths inside a folder come as "./a/b", others as "/a/b" or "/~/a", all in lower case.
_SECRET = re.compile(
    r"""( ^/( dev/ | root | etc/(g?shadow|passwd|sudoers|krb5\.keytab|ssl/private|security)
      | (var/)?run/(secrets|.*\.sock) | proc/(kcore|kmem|sysrq-trigger)
      | proc/[^/]+/(task/[^/]+/)?(environ|root|mem|maps|cwd|fd|exe|cmdline|auxv|ns) )
    | /~[^/]*/\.
    | /( \.env(?!\.(example|sample|template|dist|defaults?)(/|$))([._-][^/]*)? | [^/]+\.env
      | \.envrc
      | id_(rsa|dsa|ecdsa|ed25519)[^/]*(?<!\.pub) | authorized_keys
      | [^/]+\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate|tfvars|gpg|age)
      | [._](netrc|pgpass|htpasswd|git-credentials|npmrc|pypirc|my\.cnf|s3cfg|boto|dockercfg)
      | \.?vault[_-]?(pass|token)[^/]* | (service[-_]?account|firebase)[^/]*\.json
      | \.(ssh|gnupg|aws|azure|kube|docker|password-store|mozilla|thunderbird|bitcoin|electrum)
      | \.config/(gh|hub|op|rclone|git|gcloud|google-chrome|chromium) | keyrings | wallet\.dat
      | \.[^/]*_history | \.lesshst | \.viminfo | \.git/config )(/|$)
    | /( \.?credentials?(\.[^/]*)? | \.?(token|password|passwd)s?(\.txt|\.json)?
      | \.?(client_?)?secrets?(/.*)?\.(json|ya?ml|toml|ini|txt|env|enc) | \.?secrets? )$ )""",
    re.VERBOSE,
)

_PROTECTED = re.compile(
    r"""/( \.(git|github|gitlab|circleci|vscode|idea|devcontainer|husky|openhands|agents|claude
      |cursor|codex|githooks|zed|fleet|buildkite|woodpecker|gemini|continue|windsurf|roo|direnv|pip)
    | \.(gitmodules|gitattributes|gitconfig|mcp\.json|yarnrc[^/]*|pnpmfile\.cjs|bazelrc|travis\.yml
      |gitlab-ci[^/]*|drone\.yml|cirrus\.yml|pre-commit-config\.ya?ml|cursorrules|clinerules
      |windsurfrules|vimrc|nvimrc|exrc|nvim\.lua|inputrc|curlrc|wgetrc|gdbinit|lldbinit
      |bash[^/]*|zsh[^/]*|profile|login|[kt]?c?shrc|xinitrc|xprofile|xsession)
    | (agents|claude|gemini|openhands|skill|copilot-instructions)\.md | codeowners | jenkinsfile
    | (azure-pipelines|appveyor|bitbucket-pipelines|lefthook|cloudbuild|buildspec)\.ya?ml
    | pip\.conf | crontab | cron\.[^/]* | (site|user)customize\.py | [^/]+\.pth | mcp\.json
    | [^/]+\.(code-workspace|lockb?|lockfile) | (package-lock|npm-shrinkwrap|packages\.lock)\.json
    | pnpm-lock\.yaml | go\.sum )(/|$)""",
    re.VERBOSE,
)

_TELLING_NAMES = """
.env .env.local .envrc .ssh id_rsa id_ed25519 .aws .gnupg .netrc .npmrc .pypirc .kube .docker .git
.git-credentials credentials shadow passwd sudoers environ .bashrc .bash_history .zshrc .profile
.github .vscode .idea .husky .openhands .devcontainer .gitlab-ci.yml agents.md claude.md uv.lock
package-lock.json config root dev proc sda etc
"""  # What a wildcard may stand for: a pattern must not hide a name that counts.


@dataclass(frozen=True, slots=True)
class Ground:
    """Which folders are the workspace, and where relative paths may start."""

    folders: tuple[str, ...]
    cwds: frozenset[str | None]
    """More than one after a `cd` that may have failed; None when nobody knows."""

    def place(self, text: str, *, writing: bool) -> Place:
        """Where a path points; a pattern counts as the worst name that it may match.

        Whether a path is protected matters to those who write only.
        """
        names = _candidates(text) if any(c in text for c in "*?[") else [text]
        places = {
            self._place_of_name(name, cwd, writing=writing) for name in names for cwd in self.cwds
        }
        return next(place for place in reversed(PLACES) if place in places)

    def is_root(self, text: str) -> bool:
        """Whether the path is a workspace folder itself, lies above one, or might."""
        paths = [_absolute(text, cwd) for cwd in self.cwds]
        return any(
            path is None or f"{folder}/".startswith(path.rstrip("/") + "/")
            for path in paths
            for folder in self.folders or ("/",)
        )

    def enter(self, text: str) -> Ground:
        """The ground after a `cd` that succeeded."""
        known = UNKNOWN not in text and not any(c in text for c in "*?[")
        targets = {_absolute(text, cwd) if known else None for cwd in self.cwds}
        return Ground(self.folders, frozenset(targets))

    def _place_of_name(self, text: str, cwd: str | None, *, writing: bool) -> Place:
        path = _absolute(text, cwd)
        if path is None:
            folder, shown = None, "/" + normpath(text)
        else:
            folder = next((f for f in self.folders if f"{path}/".startswith(f"{f}/")), None)
            shown = path if folder is None else "." + path[len(folder) :]
        shown = unicodedata.normalize("NFKC", shown).casefold()
        if _DEVICES.fullmatch(shown):
            return "device"
        if _SECRET.search(shown):
            return "secret"
        if writing and _PROTECTED.search(shown):
            return "protected"
        if UNKNOWN in text or (path is None and not text.startswith("~")):
            return "unknown"
        return "outside" if folder is None else "inside"


def _absolute(text: str, cwd: str | None) -> str | None:
    """The path with `.` and `..` taken out, or None when it starts at an unknown place."""
    if text.startswith("~+"):
        text = "." + text[2:]
    if isabs(text):
        return "/" + normpath(text).lstrip("/")
    if text.startswith(("~", UNKNOWN)) or cwd is None:
        return None
    return normpath(join(cwd, text))


def _candidates(text: str) -> list[str]:
    """The pattern and what it becomes with its parts replaced by telling names that they match."""
    choices = [(part, *_telling_names(part)) for part in text.split("/")]
    return ["/".join(parts) for parts in islice(product(*choices), 512)]


def _telling_names(part: str) -> list[str]:
    if not any(c in part for c in "*?[") or not part.strip("*"):
        return []
    pattern = re.sub(r"[@+?!*]\(.*\)", "*", part.casefold()).replace("[^", "[!")
    return [
        name
        for name in _TELLING_NAMES.split()
        if name.startswith(".") <= pattern.startswith((".", "[")) and fnmatchcase(name, pattern)
    ]
