"""The process of a command: its arguments, streams and errors.

A program may start us with streams closed, in a locale without UTF-8, with bytes in no encoding.
An error is reported in one line.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from typer.exceptions import TyperException

from oh_daemon.common.plain_text import display_escaped
from oh_daemon.protocol.errors import DaemonError, ModelError

_FAILED, _USAGE, _NO_MODEL, _INTERRUPTED = 1, 2, 5, 130
_LAST_STANDARD = 2


def exit_code_of(command: Callable[[list[str]], int]) -> int:
    """Run the command with the arguments of this process; return the process's exit code."""
    _settle_streams()
    try:
        code = command([_valid_text(word) for word in sys.argv[1:]])
        sys.stdout.flush()
    except TyperException as exc:
        context = getattr(exc, "ctx", None)
        path = context.command_path if context else "oh-daemon"
        text = " ".join(exc.format_message().replace("Value error, ", "").split()).rstrip(".?")
        print_line(f"{text}; see `{path} --help`")
        return _USAGE
    except DaemonError as exc:
        print_line(exc.with_hint)
        return _NO_MODEL if isinstance(exc, ModelError) else _USAGE
    except BrokenPipeError:
        _drop_output()  # Whoever reads, such as `head`, has enough.
        return _FAILED
    except OSError as exc:
        what = repr(str(exc.filename)) if exc.filename else "the output cannot be written"
        print_line(f"{what}: {(exc.strerror or str(exc)).lower()}")
        _drop_output()
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def print_line(text: str) -> None:
    """Tell on stderr what the command has to say about itself."""
    sys.stderr.write(f"oh-daemon: {display_escaped(text)}\n")


def read_all() -> str:
    """Return all of stdin as text, with the ends of lines that Unix has."""
    text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n")


def _settle_streams() -> None:
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


def _drop_output() -> None:
    """Give up what stdout still has to write; at the exit, Python would fail at it once more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _valid_text(text: str) -> str:
    """Return an argument of the command line; bytes that are no UTF-8 become `�`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text).decode("utf-8", "replace")
    return text
