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
from contextlib import suppress
from pathlib import Path

from oh_daemon.frontends.client.child import Child
from oh_daemon.frontends.remote.install import folder_there
from oh_daemon.frontends.remote.target import Target
from oh_daemon.protocol.errors import UserError
from oh_daemon.system.environment import clean_env
from oh_daemon.system.spawner import start_thread

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


class Carrier(Child):
    """One connection. `inbound` reads what the daemon there writes, `outbound` is its input."""

    def __init__(self, target: Target, program: str, environment: Mapping[str, str]) -> None:
        """Start it. Raises `UserError` when there is no such program here."""
        self.target = target
        self._tail = ""
        self._has_begun = False
        self._has_stderr_ended = threading.Event()
        argv = target.argv(_SCRIPT.format(program=shlex.quote(program), copy=folder_there()))
        errors, their_errors = os.pipe()
        try:
            super().__init__(argv, Path.cwd(), clean_env(environment), their_errors)
        except UserError as exc:
            raise UserError(f"{target.text}: {exc.message}", hint=exc.hint) from None
        finally:
            os.close(their_errors)
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
        code = self.exit_code()
        self._has_stderr_ended.wait(_WAIT_S)
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

    def end(self, hang_up: Callable[[], object]) -> None:
        """Let the daemon there end, which `hang_up` does, and the connection in any case.

        Any thread may call.
        """
        last_resort = threading.Timer(_WAIT_S, self.kill)
        last_resort.name, last_resort.daemon = "last-resort", True
        last_resort.start()
        hang_up()

    def _pass_errors_on(self, descriptor: int) -> None:
        with open(descriptor, "rb", buffering=0) as errors:
            while chunk := errors.read(1 << 16):
                text = chunk.decode("utf-8", "replace")
                self._tail = (self._tail + text)[-_TAIL_CHARS:]
                with suppress(OSError, ValueError):
                    sys.stderr.write(text)
                    sys.stderr.flush()
        self._has_stderr_ended.set()
