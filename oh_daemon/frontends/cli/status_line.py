"""A line at the terminal that says what is going on, while it goes on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

_ERASE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


@contextmanager
def status_line(text: str, console: Console) -> Generator[None]:
    """Show the line, and erase it at the end; where it could not be erased, show nothing."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield
        return
    console.print(Text(text, "dim"), end="", no_wrap=True, overflow="crop", width=console.width - 1)
    try:
        yield
    finally:
        console.control(_ERASE)
