"""Classifies the paths that a command names: inside the folders, outside, protected or secret.

Lexical, except for what it asks of a `Disk`. Whoever opens a file has to deal with links that
change meanwhile. Invariant: an unknown part (`UNKNOWN`) or a wildcard never looks safer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from posixpath import isabs, join, normpath
from types import MappingProxyType
from typing import Literal, NamedTuple

from oh_daemon.workspace.agent_files import STEERING_PATHS

UNKNOWN = "\0"
"""Stands for a part of a text that only the shell can know; a real command cannot contain it."""

Place = Literal["device", "inside", "outside", "unknown", "protected", "secret"]

_DEVICES = re.compile(r"/dev/(null|stdout|stderr|stdin|tty|zero|full|u?random|fd/\d+)")

# Paths inside a folder come as "./a/b", others as "/a/b" or "/~/a", all in lower case.
_DATA = r"\.(txt|json|ya?ml|toml|ini|enc|csv|xml|cfg|conf|properties|pickle)"
_SECRET = re.compile(
    rf"""^/(dev/|root|etc/(g?shadow|passwd|sudoers|ssl/private)|(var/)?run/(secrets|.*\.sock)
      |proc/(kcore|kmem|sysrq-trigger)|proc/[^/]+/.*(environ|root|mem|maps|cwd|fd|exe)
      |~[^/]*/\.)
    | ^\./auth\.json$
    | /[.\#]{{0,2}}(\.env(?!(\.\w+)?\.(example|sample|template|dist|defaults?)(/|$))([._~-][^/]*)?
      |[^/]+\.env|\.envrc[^/]*|\.envs|\.dev\.vars[^/]*|env\.(local|dev(elopment)?|prod(uction)?|staging|bak)
      |id_(rsa|dsa|ecdsa|ed25519)[^/]*(?<!\.pub)|authorized_keys|keyrings|wallet\.(dat|json)
      |[^/]+\.(pem|key|p8|p12|pfx|jks|keystore|keytab|kdbx|ppk|tfstate|tfvars(\.json)?|gpg|age
        |ovpn|private|kubeconfig)
      |[._](netrc|pgpass|htpasswd|git-credentials|npmrc|pypirc|my\.cnf|s3cfg|boto|dockercfg)
      |\.(dockerconfigjson|sentryclirc|ftpconfig|ftppass|remote-sync\.json|viminfo|vault[._-]?pass
        |openai|anthropic)
      |\.(ssh|gnupg|aws|azure|kube|docker|password-store|mozilla|thunderbird|fly|secrets)
      |\.[^/]*_history|kube/config|kubeconfig(\.ya?ml)?|admin\.conf|\.wrangler/config
      |service[-_]?account[^/]*\.json|firebase[-_]admin[^/]*\.json|\.git/config|wp-config\.php
      |sftp(-config)?\.json|(sentry|keystore)\.properties|rclone\.conf|credentials-config\.json
      |datasources\.local\.xml|webservers\.xml|(local_settings|settings_local)\.py|utc--[^/]*
      |(local\.settings|settings\.local|config\.local|config/local)\.(js|json|ya?ml|toml)
      |(\.|\.(cursor|vscode|windsurf|trae|roo|kiro/settings)/)mcp\.json|vault\.ya?ml
      |(seed|mnemonic)([_-]?phrase)?\.txt|private\.asc|keys\.txt|oauth\.json
      )(~|\#|\.(bak|old|orig|save|sw[a-p]))?(/|$)
    | /\.?(secrets?|credentials?|creds|tokens?|passw(or)?ds?|(api|access|root|deploy)[._-]?keys?
      )({_DATA})?$
    | /\.[\w-]*[_-](secrets?|credentials?|tokens?|passw(or)?d|keys?)$
    | /(?![^/]*(example|sample|template|schema|scanning|policy|reset|forgot|design))
      ([^/]*[._-])?(secrets?|credentials?|creds|api[._-]?keys?|passw(or)?ds?|vault[_-]?pass
      |(access|auth|api|bot|deploy|refresh|session)[._-]?tokens?|client[_-]?secret[^/]*
      |(private|deploy|service|gcp|gcs|gcloud|aws|azure|google|signing|encryption)[._-]?keys?
      |secrets?[._-][^/]*){_DATA}$""",
    re.VERBOSE,
)
"""Names of files whose usual content is secret. Names of code never match: these are files of data,
and files that git tracks stay visible to commands."""
_GIT_HOOKS = (
    r"(applypatch-msg|(pre|post)-(applypatch|commit|rewrite|merge|push|checkout|auto-gc|rebase)"
    r"|(prepare-)?commit-msg|pre-merge-commit)"
)
_STEERING = "|".join(re.escape(path.casefold()) for path in STEERING_PATHS)
_PROTECTED = re.compile(
    rf"""/(\.(git|github|gitlab|circleci|devcontainer|husky|openhands|agents|claude|githooks
      |git-hooks|buildkite|gitea|forgejo|woodpecker|semaphore|teamcity|concourse|tekton|argo
      |sourcehut|builds|hg|svn|jj|sl|direnv|cargo|mvn|yarn
      # Editors.
      |vscode|idea|run|fleet|zed|helix|emacs\.d|vs|theia|settings|project|classpath|dir-locals(-2)?\.el
      |[a-z]*vimrc[^/]*|exrc|nvim(rc|\.lua)|ycm_extra_conf\.py|luarc\.jsonc?|neoconf\.json|nlsp\.json
      |clangd|solargraph\.yml|merlin
      # Agents.
      |cursor[^/]*|codex|gemini|windsurf[^/]*|continue[^/]*|roo[^/]*|kilocode[^/]*|opencode|amazonq
      |junie|aider[^/]*|trae|kiro|augment[^/]*|goosehints|goose[^/]*|rules|crush[^/]*|qwen[^/]*
      |amp|factory|grok|copilot[^/]*|clinerules|cline[^/]*|mcp\.json
      # Shells, debuggers and interpreters, which run these when they start.
      |inputrc|curlrc|wgetrc|tmux\.conf|screenrc|bash[^/]*|zsh[^/]*|profile|login|logout|autoenv
      |direnvrc|gdbinit|lldbinit|radare2rc|irbrc|pryrc|byebugrc|pdbrc|pythonrc|pythonrc\.py|ipython
      |rprofile|renviron|octaverc|sqliterc|psqlrc|ocamlinit|ghci|iex\.exs|erlang|sbtopts|jvmopts
      |lein-env|terraformrc|ansible\.cfg
      # Versions of programs, and packages.
      |(r?mise|rtx)\.toml|mise|tool-versions|sdkmanrc|nvmrc|(node|python|ruby|java|go|terraform)-version
      |yarnrc[^/]*|pnp\.[^/]+|pnpmfile\.[^/]+|bundle
      # Version control and CI.
      |gitmodules|gitattributes|gitconfig|lfsconfig|hgrc|gitlab-ci[^/]*|gitpod[^/]*|replit|build\.yml
      |(travis|drone|woodpecker|appveyor|cirrus)\.ya?ml|devcontainer\.json|azure-pipelines
      |pre-commit-(config|hooks)\.ya?ml|lefthook[^/]*|overcommit\.ya?ml|lintstagedrc[^/]*|renovaterc[^/]*)
    |{_GIT_HOOKS}|lint-staged\.config\.[^/]+
    |(agents?|claude|gemini|qwen|openhands|skill|copilot-instructions|conventions)(\.[\w-]+)?\.md
    |[^/]+\.(instructions|chatmode|prompt)\.md|[^/]+\.mdc|codeowners|jenkinsfile
    |(azure-pipelines|appveyor|bitbucket-pipelines|cloudbuild|buildspec|lefthook|codemagic|bitrise
      |dependabot)\.ya?ml|lefthook\.(toml|json)|renovate\.json5?|mise\.toml|pip\.conf|crontab
    |(mcp|opencode|crush)\.jsonc?|_vimrc|ansible\.cfg|\.?pnpmfile\.[^/]+|replit\.nix
    |(site|user)customize\.py|[^/]+\.(pth|code-workspace|sublime-(project|workspace)|lockb?|lockfile)
    |go\.sum|(package-lock|npm-shrinkwrap)\.json|pnpm-lock\.yaml|{_STEERING})(/|$)""",
    re.VERBOSE,
)


def guard_class(path: str) -> Literal["protected", "secret"] | None:
    """Return "secret" for a path in that form that may hold secrets, else "protected" or None.

    Protected paths steer git, CI, editors, shells or agents. Files of a build are not among them,
    since changing them is ordinary work; docs/safety.md lists them.
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
    is_file: Callable[[str], bool] = _fears
    """Whether there is a regular file, also at the end of links."""
    find_program: Callable[[str, str | None], str | None] = lambda _name, _cwd: None
    """Return the file that a program's name stands for in a folder, if agents can change it."""


UNSEEN = Disk()


class RatingScope(NamedTuple):
    """Which folders are the workspace, and where relative paths start: None when nobody knows."""

    folders: tuple[str, ...]
    cwd: str | None
    disk: Disk = UNSEEN
    variables: Mapping[str, str] = MappingProxyType({})
    """Values of variables of the shell that a command cannot have changed before."""

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
        return self.disk.leads_away(join(self.cwd or "/", text))

    def file(self, text: str) -> str | None:
        """Return the path of a file that is run, or None if it is not known or no regular file.

        Unlike in `absolute`, `..` stays, since the kernel follows the link before it.
        """
        is_known = isabs(text) or (self.cwd is not None and not text.startswith("~"))
        if not is_known or re.search(r"[\0*?[]", text):
            return None
        path = join(self.cwd or "/", text)
        return path if self.disk.is_file(path) else None

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
