"""The process that carries stdio to a daemon elsewhere: its start, its failures, its end.

It starts through the spawner, so it ends with this process, however this one ends; then the input
of the daemon there ends, and with it all that it runs. No secret is in its environment.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from oh_daemon.contract.errors import ToolError, UserError
from oh_daemon.fronts.remote.install import folder_there
from oh_daemon.fronts.remote.target import Target
from oh_daemon.workspace.environment import clean_env
from oh_daemon.workspace.spawner import Spawner, start_thread

_BEGIN = b"oh-daemon begins here\n"
"""What comes before it is of the shell there, such as a greeting."""
_MAX_GREETING_BYTES = 1 << 20
_NOT_INSTALLED = 127
_SCRIPT = """\
PATH="$PATH:$HOME/.local/bin"
program={program}
if [ -z "$program" ]; then
  program=oh-daemon
  [ -x "{copy}/oh-daemon" ] && program="{copy}/oh-daemon"
fi
command -v "$program" >/dev/null 2>&1 || {{
  echo "there is no program $program in the target" >&2
  exit 127
}}
echo "oh-daemon begins here"
exec "$program" --stdio
"""
_WAIT_S = 5.0
_TAIL_CHARS = 2_000


class Carrier:
    """One connection. `inbound` reads what the daemon there writes, `outbound` is its input."""

    def __init__(self, target: Target, program: str, environment: Mapping[str, str]) -> None:
        """Start it. Raises `UserError` when there is no such program here."""
        self.target = target
        self._program = program
        self._spawner = Spawner()
        self._tail = ""
        self._has_begun = False
        self._errors_ended = threading.Event()
        argv = target.argv(_SCRIPT.format(program=shlex.quote(program), copy=folder_there()))
        with ExitStack() as theirs:
            their_input, self.outbound = os.pipe()
            self.inbound, their_output = os.pipe()
            errors, their_errors = os.pipe()
            fds = (their_input, their_output, their_errors)
            for descriptor in fds:
                theirs.callback(os.close, descriptor)
            try:
                self._process = self._spawner.spawn(
                    argv, cwd=Path.cwd(), env=clean_env(environment), fds=fds
                )
            except ToolError as exc:
                raise UserError(f"{target.text}: {exc.message}", hint=exc.hint) from None
        start_thread("carrier-errors", self._pass_errors_on, errors)

    def begin(self) -> bytes:
        """Wait until the daemon there starts; return what it wrote already. Raises `UserError`."""
        output = b""
        while _BEGIN not in output:
            more = os.read(self.inbound, 1 << 16)
            output += more
            if not more or len(output) > _MAX_GREETING_BYTES:
                raise self.failure()
        self._has_begun = True
        return output.partition(_BEGIN)[2]

    def failure(self) -> UserError:
        """Return why there is no connection, or none any more, and what to do about it."""
        code = self._process.wait(_WAIT_S)
        self._errors_ended.wait(_WAIT_S)
        reason = f": {self._tail.strip()}" if self._tail.strip() else ""
        name = self.target.text
        if self._has_begun:
            what = f"the connection to {name} ended (exit code {code}){reason}"
            hint = "the agent there has stopped; once it is back, open the conversation again"
        elif code == _NOT_INSTALLED:
            what = f"no daemon is at {name}{reason}"
            hint = (
                f"`oh-daemon remote --install {shlex.quote(name)}` copies this one there; or name "
            )
            hint += "it with --program"
        else:
            what = f"{name} cannot be reached (exit code {code}){reason}"
            trial = shlex.join(self.target.argv("true"))
            hint = f"this has to work in a terminal without a question: {trial}"
        return UserError(what, hint=hint)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back, on any thread, when the carrier has ended."""
        self._process.exit_code.add_done_callback(lambda _code: callback())

    def close_input(self) -> None:
        """Let the daemon there end. Call it once."""
        os.close(self.outbound)

    def exit_code(self) -> int | None:
        """Wait a little for the end of the carrier; None if it does not end."""
        return self._process.wait(_WAIT_S)

    def kill(self) -> None:
        self._spawner.close()

    def _pass_errors_on(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as errors:
            while said := errors.read(1 << 16):
                text = said.decode("utf-8", "replace")
                self._tail = (self._tail + text)[-_TAIL_CHARS:]
                with suppress(OSError, ValueError):
                    sys.stderr.write(text)
                    sys.stderr.flush()
        self._errors_ended.set()
