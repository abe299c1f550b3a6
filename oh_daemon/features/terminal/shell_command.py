"""One command in a shell: how bash is started, the lines that run it, and what is seen of it.

Descriptors 240 and 241 of bash are the terminal and the socket for reports. Exported variables and
the current folder survive an `exit`: a trap saves them for the next shell.
"""

from __future__ import annotations

import os
import resource
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from msgspec import Struct, field

from oh_daemon.features.terminal.output import Capture, CleanText, Output
from oh_daemon.protocol.errors import ToolError

State = Literal["done", "running", "waitingForInput"]
OnOutput = Callable[[str], None]
NO_COMMAND = "no command runs in this terminal; call again without is_input"
SHELL_IS_GONE = "the shell of this terminal has just ended; run the command again, in a new one"
SHELL_ENDED = (
    "The shell itself ended with this command; the next one gets a new shell: variables that were"
    " not exported, functions and options are gone."
)


def ignore(_text: str) -> None: ...


class ShellPlace(Struct, frozen=True):
    """Where the files of shells lie, in folders that exist."""

    spool: Path
    """What they are given, and what is kept of their output; a shell need not write here."""
    state: Path
    """What one shell leaves for the next. Only shells write and read here."""
    words: Sequence[str] = ()
    """The words before a shell's own: a program that holds it."""

    def of(self, name: str) -> ShellPlace:
        """Return the place of one shell."""
        return ShellPlace(self.spool / name, self.state / f".{name}", self.words)


class CommandOutcome(Struct, frozen=True):
    """What one call saw of a command."""

    state: State
    output: Output
    cwd: Path
    duration_s: float
    """Seconds since the command began."""
    exit_code: int | None = None
    """Negative when a signal ended the shell itself."""
    note: str = ""
    """What happened to the shell, for the model."""
    late: str = ""
    """What background jobs wrote after the end of the previous command."""
    waited_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long the command waited for the user's answer about each host, since the last call."""


class ShellCommand(Struct, eq=False):
    """A command that runs, or that ended and is not yet reported. Guarded by its shell's lock."""

    text: str
    capture: Capture
    is_background: bool
    note: str
    late: str
    mark: bytes = field(default_factory=lambda: secrets.token_hex(16).encode())
    is_marked: bool = False
    status: int | None = None
    """What bash reported; it counts once the mark shows that all output before it was read."""
    cleaner: CleanText = field(default_factory=CleanText)
    pending: bytes = b""
    """Output that may be the beginning of the mark."""
    start_s: float = field(default_factory=time.monotonic)
    active: float = field(default_factory=time.monotonic)
    """When the command last wrote something or was last typed into."""
    exit_code: int | None = None
    """Set once, when the command has ended."""
    duration_s: float | None = None
    """Set together with the exit code."""
    is_reported: bool = False
    """Whether the model has heard of its end."""
    is_let_go: bool = False
    """Whether somebody waited for it, but not to its end; it is like a job then."""

    @property
    def is_job(self) -> bool:
        return self.is_background or self.is_let_go

    def end(self) -> None:
        """Note that it has ended with what bash reported."""
        self.duration_s = time.monotonic() - self.start_s
        self.exit_code = self.status

    def report(self, capture: Capture) -> tuple[Capture, str, str]:
        """Return its output so far, its note and late output once; go on in this `capture`."""
        output, self.capture = self.capture, capture
        note, self.note = self.note, ""
        late, self.late = self.late, ""
        self.is_reported = self.exit_code is not None
        return output, note, late

    def let_go(self) -> Self:
        """Note that nobody waits for it any more."""
        self.is_let_go = True
        return self

    def take_rest(self) -> str:
        """Return the output that was not split off yet; nothing before a mark comes any more."""
        start, self.pending, self.is_marked = self.pending, b"", True
        return self.cleaner.feed(start) + self.cleaner.flush()

    def split(self, data: bytes) -> tuple[str, bytes | None]:
        """Return the command's clean output, and the bytes after its mark, None before the mark."""
        mark = b"\x1e%b\x1e" % self.mark
        before, found_mark, after = (self.pending + data).partition(mark)
        start = before.rfind(b"\x1e", -len(mark))
        self.pending = b""
        if not found_mark and start >= 0 and mark.startswith(before[start:]):
            before, self.pending = before[:start], before[start:]
        return self.cleaner.feed(before), after if found_mark else None


_TOP_FD = 241
_COMMAND = "command"
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC

# A command runs in this very shell, so it may define functions and aliases of any name, take
# builtins away and set traps. What reports its end must not depend on any of that (facts by their
# section of the bash manual):
# - Functions that are `readonly -f` can be neither redefined nor removed (4.2 `readonly`). A
#   quoted word is no alias (6.6 Aliases), and the body of a function had its aliases replaced when
#   it was defined. Reserved words cannot be functions.
# - All builtins are called through `builtin` (4.2). The real one can return from `__oh_intact`; a
#   function or program of that name cannot, and then `${9?}` drops the line (3.5.3, Shell Parameter
#   Expansion): argument 9 is never given, and no variable can take its place.
# - `enable` (4.2) brings builtins back that a command disabled.
# - So either all is well or no report comes. `Bash` notices that and ends the shell.
#
# USR2 drops the rest of an interrupted command, even when the foreground program caught SIGINT and
# ended as if nothing had happened. A USR2 after the end of the command must do nothing, or bash
# would drop part of the next one: the outermost file that is being read tells (5.2 `BASH_SOURCE`).
# When a pipeline is dropped between its forks, bash would put the next process into that pipeline's
# group, which is gone ("child setpgid"); running a subshell first avoids this.
#
# Without HISTFILE the history of the user is neither read nor written (5.2).
_RC = r"""
exec 240>&1 241>&3 3>&-
set +o history +H
unset -v HISTFILE
__oh_intact() { builtin return "$1"; ((${9?})); }
__oh_quiet() { PS0= PS1= PS2=; builtin unset -v PROMPT_COMMAND; builtin return "$1"; }
__oh_lend() {
  __oh_intact 0
  builtin trap - DEBUG ERR RETURN
  builtin set +vxET
  while builtin read -r -d '' -u 241 && [[ $REPLY ]]; do builtin export "$REPLY"; done
  builtin return "$1"
}
__oh_done() {
  builtin enable . export printf read return set trap unset || ((${9?}))
  __oh_intact 0
  __oh_quiet 0
  [[ -z ${PROMPT_COMMAND[*]-} ]] || ((${9?}))
  [[ $1 == 0 ]] || ([[ 0 ]])
  builtin printf '\036%s\036' "$2" >&240
  builtin printf '%s %s %s\0' "$2" "$1" "$PWD" >&241
  builtin return "$1"
}
__oh_save() { builtin declare -px >| @STATE@; }
__oh_stop() { [[ ${BASH_SOURCE[-1]} != @COMMAND@ ]] || builtin kill -INT $$; }
readonly -f __oh_intact __oh_quiet __oh_lend __oh_done __oh_save __oh_stop
trap '\__oh_save' EXIT
trap '\__oh_stop' USR2
if [ -r @STATE@ ]; then . @STATE@; cd -- "$PWD"; rm -f @STATE@; fi 2>/dev/null
__oh_quiet 0
"""
_RUN = r"\builtin . {file} <&240 240>&- 241>&-"
# A subshell takes the secrets with it when it ends, whatever the command did to keep them. They
# come by the socket, since a line that held them would be seen by traps, `jobs` and the history;
# and traps and traces of earlier commands are off before they are read.
_RUN_WITH_SECRETS = rf"({{{{ \__oh_lend $?; }}}} 2>/dev/null; {_RUN})"
_REPORT = r"""; {{ \__oh_quiet $?; }} 2>/dev/null
{{ \__oh_done $? {mark}; }} 2>/dev/null
"""


def prepare_bash(place: ShellPlace) -> list[str]:
    """Write the start script, and return the command line that uses it.

    One shell saves its state for the next. Raises `ToolError` and `OSError`.
    """
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= _TOP_FD:
        raise ToolError(
            "the limit for open files is too low for a terminal; raise it with"
            " `ulimit -n 1024` where the editor is started"
        )
    place.spool.mkdir(mode=0o700, exist_ok=True)
    rc, state = place.spool / "rc", shlex.quote(str(place.state))
    command = shlex.quote(str(place.spool / _COMMAND))
    rc.write_text(_RC.replace("@STATE@", state).replace("@COMMAND@", command))
    return [*place.words, "bash", "--noprofile", "--rcfile", str(rc), "--noediting", "-i"]


def write_command(scratch: Path, text: str) -> Path:
    """Write the text of a command to the file that `render_command` takes, and return it."""
    file = scratch / _COMMAND
    data = f"{text}\n".encode("utf-8", "surrogateescape")
    # Not truncated to nothing: ext4 would then write to the disk before the file is closed (the
    # mount option `auto_da_alloc` of ext4(5)), which takes a quarter of a millisecond.
    try:
        descriptor = os.open(file, _WRITE, 0o600)
    except FileNotFoundError:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, _WRITE, 0o600)
    with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor, not a path.
        stream.write(data)
        stream.truncate()
    return file


def error_prefix(scratch: Path) -> str:
    """Return how a syntax error of bash begins, with the file of the command that has it."""
    return f"bash: {scratch / _COMMAND}: "


def render_command(file: Path, mark: bytes, *, exposes: bool) -> bytes:
    """Return lines that source `file` and report its end by `mark`.

    With `exposes` they wait for `render_exposed` on the socket for reports.
    """
    lines = (_RUN_WITH_SECRETS if exposes else _RUN) + _REPORT
    return lines.format(file=shlex.quote(str(file)), mark=mark.decode()).encode()


def render_exposed(secrets_exposed: Mapping[str, str]) -> bytes:
    """Return what a command gets as variables."""
    return "\0".join(
        (*(f"{name}={value}" for name, value in secrets_exposed.items()), "", "")
    ).encode()
