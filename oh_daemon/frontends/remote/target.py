"""What a user types for another machine, and the command line that reaches it.

Pure. A name goes into a command line only if it cannot be taken for an option there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from oh_daemon.protocol.errors import InvalidParamsError

FORMS = (
    "ssh://[USER@]HOST[:PORT]/FOLDER, docker://CONTAINER/FOLDER, podman://CONTAINER/FOLDER, "
    "kubectl://POD/FOLDER or cmd:COMMAND"
)
_OPTIONS = {
    "ssh": set[str](),
    "docker": {"user", "context"},
    "podman": {"user", "connection"},
    "kubectl": {"namespace", "container", "context"},
}
"""By scheme, what may follow the folder, as in `kubectl://pod/src?namespace=dev`."""
_OF_PROGRAM = {"context", "connection", "namespace"}
"""Options that stand before the word `exec`."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%-]*|\[[0-9A-Fa-f:.%]+\]")
# Without answers for a minute the connection is dead, and nothing may wait for it any longer.
_SSH = ("ssh", "-T", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")


class Target(Struct, frozen=True):
    """Where the daemon runs."""

    text: str
    """As the user wrote it."""
    words: tuple[str, ...]
    """The command that runs, there, the words that follow."""
    folder: str = ""
    """The folder there; empty for the same path as here."""
    joins_words: bool = False
    """Whether a shell there reads all words as one line, as ssh's does."""

    def argv(self, script: str) -> list[str]:
        """Return the command line that runs a script of the shell there."""
        shell = ["sh", "-c", script]
        return [*self.words, shlex.join(shell)] if self.joins_words else [*self.words, *shell]


def parse_target(text: str) -> Target:
    """Return what a user's word for a target means. Raises `InvalidParamsError`."""
    scheme, _, rest = text.partition(":")
    if scheme == "cmd":
        return Target(text, _command(rest))
    if scheme not in _OPTIONS:
        raise InvalidParamsError(f"{text!r} is no target; it is {FORMS}")
    try:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError as exc:
        raise InvalidParamsError(f"{text!r} is no target: {exc}") from None
    unknown = options.keys() - _OPTIONS[scheme]
    if unknown:
        names = ", ".join(sorted(_OPTIONS[scheme])) or "none"
        raise InvalidParamsError(f"{text!r}: unknown {', '.join(unknown)}; known: {names}")
    for name in (parts.netloc, *options.values()):
        if not _NAME.fullmatch(name.replace("@[", "@").replace("]", "")):
            raise InvalidParamsError(f"{text!r}: {name!r} is no name; a target is {FORMS}")
    folder = unquote(parts.path).rstrip("/")
    if scheme == "ssh":
        return Target(text, _ssh(text, parts.netloc), folder, joins_words=True)
    return Target(text, _exec(scheme, parts.netloc, options), folder)


def _command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as exc:
        raise InvalidParamsError(f"cmd:{text}: {str(exc).lower()}") from None
    if not words:
        raise InvalidParamsError("`cmd:` is followed by the command that runs others there")
    return words


def _ssh(text: str, place: str) -> tuple[str, ...]:
    user, at, host = place.rpartition("@")
    if ":" in user:
        raise InvalidParamsError(
            f"{text.replace(place, at + host)}: no password goes into a target, since it would "
            "show in the process list; use a key or an agent"
        )
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    if port and not port.isdigit():
        raise InvalidParamsError(f"{text!r}: {port!r} is no port")
    return (*_SSH, *(("-p", port) if port else ()), "--", user + at + name.strip("[]"))


def _exec(program: str, place: str, options: Mapping[str, str]) -> tuple[str, ...]:
    before = (f"--{name}={value}" for name, value in options.items() if name in _OF_PROGRAM)
    after = (f"--{name}={value}" for name, value in options.items() if name not in _OF_PROGRAM)
    end = ("--",) if program == "kubectl" else ()
    return (program, *before, "exec", "-i", *after, place, *end)
