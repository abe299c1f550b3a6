"""The environment variables of programs: no secrets, and nothing that waits for a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_GIT_KEY, _GIT_VALUE = "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"
_LEFT_OUT = re.compile(rf"(?i:{SECRET_NAME.pattern})|^{_GIT_VALUE}|^CDPATH$")
"""Also the folders in which `cd` looks: a command's folder must be known before it runs."""
_GIT_SECRET = re.compile(r"extraheader|cookie|credential|passw|token|://[^/\s]*@", re.IGNORECASE)
_NO_EDITOR = (
    'echo "[git started an editor for ${1##*/}; there is none, so the text stayed as it was.'
    ' Give it as an option such as -m; set GIT_EDITOR or GIT_SEQUENCE_EDITOR to edit it]" >&2; :'
)
"""A value of GIT_EDITOR that reports, exactly where git starts an editor, that nothing is edited.

git runs a value with characters of the shell as `sh -c 'VALUE "$@"' VALUE FILE` (git-var(1),
`run-command.c`). With a plain "true", `git rebase -i` reported success and did nothing.
"""
_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": _NO_EDITOR,
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "VIRTUAL_ENV_DISABLE_PROMPT": "1",
}
_GIT_STARTS_NOTHING = (
    *(("log.showSignature", "false"), ("core.fsmonitor", "false")),
    # It would pack a repository again after each command, in a layer where that does not stay.
    *(("gc.auto", "0"), ("maintenance.auto", "false")),
)
"""Settings of git that come last, so they win over those of the user and of the repository."""
_NAMES_REPOSITORY = re.compile(
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|OBJECT_DIRECTORY|DIR|WORK_TREE|COMMON_DIR|PREFIX"
    r"|IMPLICIT_WORK_TREE|GRAFT_FILE|INDEX_FILE|REPLACE_REF_BASE|SHALLOW_FILE|NAMESPACE)"
)
SAFE_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Git that starts nothing which a hostile repository names."""


class CommandVariables(Struct, frozen=True):
    """The variables of commands as far as they are known; `clean_env` still removes secrets."""

    values: Mapping[str, str]
    origin: str = ""
    """How they differ from those of this process, such as "PATH from zsh's start-up files"."""


def clean_env(base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` without secrets, and set so that pagers, editors and prompts cannot hang."""
    return without_secrets(base) | _QUIET | git_settings(base)


def without_secrets(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names are not those of secrets."""
    return {name: value for name, value in base.items() if not _LEFT_OUT.search(name)}


def project_variables(folder: Path) -> dict[str, str]:
    """Return the variables of hooks that have the folder of their project, Claude's name first."""
    return dict.fromkeys(("CLAUDE_PROJECT_DIR", "OH_PROJECT_DIR"), str(folder))


def clean_env_without_git(base: Mapping[str, str]) -> dict[str, str]:
    """Return what `clean_env` does, for a git that is told everything on its command line."""
    return {name: value for name, value in clean_env(base).items() if not name.startswith("GIT_")}


def git_env_of_user(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a git that acts for the user, as in the user's terminal: a push.

    Only those are missing that name a repository, as in a hook; see `git rev-parse
    --local-env-vars`.
    """
    return {name: value for name, value in base.items() if not _NAMES_REPOSITORY.fullmatch(name)}


def git_settings(base: Mapping[str, str], more: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the settings for git in `base` without secrets, and after them `more` and our own.

    What only reads asks nobody, so a repository should not make it start a program.
    """
    count = base.get("GIT_CONFIG_COUNT", "")
    numbers = range(int(count) if re.fullmatch(r"\d{1,3}", count) else 0)
    pairs = [(base.get(f"{_GIT_KEY}{n}", ""), base.get(f"{_GIT_VALUE}{n}", "")) for n in numbers]
    safe_pairs = [(k, v) for k, v in pairs if k and not _GIT_SECRET.search(f"{k}={v}")]
    numbered_pairs = list(enumerate((*safe_pairs, *more, *_GIT_STARTS_NOTHING)))
    keys = {f"{_GIT_KEY}{n}": key for n, (key, _) in numbered_pairs}
    values = {f"{_GIT_VALUE}{n}": value for n, (_, value) in numbered_pairs}
    return {"GIT_CONFIG_COUNT": str(len(numbered_pairs)), **keys, **values}
