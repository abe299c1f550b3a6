"""Stands for a daemon that is forked from a warm parent: the child that an editor has started.

It hands its streams, arguments and environment to `forked_daemons`, and ends as the daemon ends.
It passes on the signals that it can catch; if it is killed, so is the daemon.
"""

import json
import os
import signal
import socket
import sys

CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    address, *arguments = sys.argv[1:]
    listener_socket = socket.socket(socket.AF_UNIX)
    listener_socket.connect(f"\0{address}")
    request = [os.getpid(), arguments, os.getcwd(), dict(os.environ)]  # noqa: PTH109 - pathlib takes long to import.
    line = json.dumps(request).encode() + b"\n"
    n_sent = socket.send_fds(listener_socket, [line], [0, 1, 2])
    listener_socket.sendall(line[n_sent:])
    for number in CAUGHT:
        signal.signal(number, lambda number, _: listener_socket.sendall(b"%d\n" % number))
    # The daemon has its own copies, and its client waits for the end of what it writes.
    for number in range(3):
        os.close(number)
    _end_like(int(listener_socket.recv(16) or -signal.SIGKILL))


def _end_like(code: int) -> None:
    """End with an exit code, or by a signal if it is negative, as `Popen.returncode` says."""
    if -code in CAUGHT:
        signal.signal(-code, signal.SIG_DFL)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
