"""The arguments and standard streams of a command, made usable however it was started.

A program may start us with streams closed, in a locale without UTF-8, with bytes in no encoding.
"""

from __future__ import annotations

import io
import os
import sys

_LAST_STANDARD = 2


def settle_streams() -> None:
    """Open closed streams on /dev/null; from now on, what a stream cannot show becomes `?`."""
    # The next file to be opened would get the number of a closed stream, and all that it is sent.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # Python has None for a stream that was closed when it started, whatever the types say.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if vars(sys)[name] is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open to the end.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def drop_output() -> None:
    """Give up what stdout still has to write; at the exit, Python would fail at it once more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def settled(text: str) -> str:
    """Return an argument of the command line; bytes that are no UTF-8 become `�`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text).decode("utf-8", "replace")
    return text


def read_all() -> str:
    """Return all of stdin as text, with the ends of lines that Unix has."""
    text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n")
