"""The script that our bash runs at its start, and the lines that run one command.

Descriptors 240 and 241 are the terminal and the socket for reports. Exported variables and the
current folder survive an `exit`: the trap saves them for the next shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

# USR2 drops the rest of an interrupted command, even when the foreground program caught SIGINT and
# ended as if nothing had happened. A USR2 after the end of the command must do nothing, or bash
# would drop part of the next one. When a pipeline is dropped between its forks, bash would put the
# next process into that pipeline's group, which is gone ("child setpgid"); running a subshell first
# avoids this.
_RC = r"""
exec 240>&1 241>&3 3>&-
set +o history +H
__oh_begin() {
  __oh_runs=1 __oh_status=$1 __oh_lent=()
  shift
  while [ $# -gt 0 ]; do export "$1=$2"; __oh_lent+=("$1"); shift 2; done
  return "$__oh_status"
}
__oh_forget() { unset -v "${__oh_lent[@]}" || :; __oh_lent=(); }
__oh_quiet() { __oh_runs= PS1= PS2= PROMPT_COMMAND=; return "$1"; }
__oh_done() {
  __oh_runs=
  __oh_forget
  [ "$1" = 0 ] || (:)
  printf '\036%s\036' "$2" >&240
  printf '%s %s %s\0' "$2" "$1" "$PWD" >&241
  return "$1"
}
trap '__oh_forget; declare -px > @STATE@' EXIT
trap '[ -z "$__oh_runs" ] || kill -INT $$' USR2
if [ -r @STATE@ ]; then . @STATE@; cd -- "$PWD"; rm -f @STATE@; fi 2>/dev/null
__oh_quiet 0
"""
_COMMAND = """\
__oh_begin $?{lent}; . {file} <&240 240>&- 241>&-; {{ __oh_quiet $?; }} 2>/dev/null
{{ __oh_done $? {mark}; }} 2>/dev/null
"""


def render_rc(state: Path) -> str:
    """Return the start script; `state` is the file where one shell saves its state for the next."""
    return _RC.replace("@STATE@", shlex.quote(str(state)))


def render_command(file: Path, mark: bytes, lent: Mapping[str, str]) -> str:
    """Return lines that source `file` with the variables `lent` set, then report its end by `mark`.

    The variables reach bash through its input, so no file and no list of processes shows them.
    """
    given = "".join(f" {name} {shlex.quote(value)}" for name, value in lent.items())
    return _COMMAND.format(file=shlex.quote(str(file)), mark=mark.decode(), lent=given)
