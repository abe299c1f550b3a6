"""What our bash is told: at its start, and for each command.

Descriptors 240 and 241 are the terminal and the report pipe. What was exported, and the folder,
survive an `exit`: the trap saves them for the next shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

# USR2 drops the rest of an interrupted command, also when the program in front caught SIGINT and
# ended as if nothing had happened; one that comes after the command must do nothing, or bash would
# drop a part of the next one. Dropped between the forks of a pipeline, bash would put the next
# process into the group of that pipeline, which is gone ("child setpgid"): a subshell goes first.
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
    """`state` is the file in which one shell leaves what the next takes up."""
    return _RC.replace("@STATE@", shlex.quote(str(state)))


def render_command(file: Path, mark: bytes, lent: Mapping[str, str]) -> str:
    """Lines that source `file` and tell its end by `mark`; until then the variables `lent` are set.

    They reach bash through its input, so no file and no list of processes shows them.
    """
    given = "".join(f" {name} {shlex.quote(value)}" for name, value in lent.items())
    return _COMMAND.format(file=shlex.quote(str(file)), mark=mark.decode(), lent=given)
