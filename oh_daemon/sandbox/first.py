"""Process 1 of a view that holds one command; runs by file path, started by bubblewrap.

Interrupts typed by a person pass by bubblewrap and this process, and reach the command.
"""

from __future__ import annotations

import os
import signal
import sys


def run(argv: list[str]) -> int:
    """Run the command and return its exit code as a shell gives it; what it leaves is reaped."""
    child = os.fork()
    if child == 0:
        _become(argv)
    while (ended := os.wait())[0] != child:
        pass
    code = os.waitstatus_to_exitcode(ended[1])
    return code if code >= 0 else 128 - code


def _become(argv: list[str]) -> None:
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - its job.
    except OSError as exc:
        os.write(2, b"%b: %b\n" % (os.fsencode(argv[0]), str(exc.strerror).encode()))
    os._exit(127)


if __name__ == "__main__":
    os._exit(run(sys.argv[1:]))
