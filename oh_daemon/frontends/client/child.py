"""A daemon as a child process: it ends with this process, however this one ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from oh_daemon.frontends.client.connection import DaemonClient
from oh_daemon.jsonrpc.dispatch import Method
from oh_daemon.protocol.errors import DaemonError, ToolError, UserError
from oh_daemon.system.spawner import Spawner

DAEMON = (sys.executable, "-P", "-m", "oh_daemon", "--stdio")
"""This installation's own."""
_WAIT_S = 5.0


class Child:
    """A `Line` to a daemon on the standard streams of a process."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], errors: int | None = 2
    ) -> None:
        """Start it; `errors` is its stderr. Raises `UserError` when there is no such program."""
        self._spawner = Spawner()
        with ExitStack() as child_ends, ExitStack() as on_failure:
            their_input, self.outbound = os.pipe()
            child_ends.callback(os.close, their_input)
            on_failure.callback(os.close, self.outbound)
            self.inbound, their_output = os.pipe()
            child_ends.callback(os.close, their_output)
            on_failure.callback(os.close, self.inbound)
            fds = (their_input, their_output, errors)
            try:
                self._process = self._spawner.spawn(argv, cwd=cwd, env=environment, fds=fds)
            except ToolError as exc:
                raise UserError(exc.message, hint=exc.hint) from None
            on_failure.pop_all()

    def exit_code(self) -> int | None:
        """Wait a little for its end; None if it does not end."""
        return self._process.wait(_WAIT_S)

    def close_input(self) -> None:
        os.close(self.outbound)

    def failure(self) -> DaemonError:
        message = f"the daemon has ended (exit code {self.exit_code()})"
        return UserError(message, hint="its log file says why")

    def kill(self) -> None:
        self._spawner.close()


def start_daemon(
    argv: Sequence[str] = DAEMON,
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    methods: Mapping[str, Method] | None = None,
) -> DaemonClient:
    """Start a daemon, by default this installation's own, and connect to it."""
    variables = os.environ if environment is None else environment
    return DaemonClient(Child(argv, cwd or Path.cwd(), variables), methods)
