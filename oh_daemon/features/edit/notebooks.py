"""Jupyter notebooks as text: their cells in order, with outputs cut; pure.

Their form: "The Notebook file format", nbformat.readthedocs.io, version 4. Other versions are text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from oh_daemon.common.plain_text import ends

_MAX_OUTPUT_CHARS = 1000
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def render_notebook(text: str) -> str | None:
    """Return the cells as text; None for a text that is not a notebook of version 4.

    A cell begins with a line such as `[cell 1, code]`, an output with the line `[output]`.
    """
    try:
        cells: list[Any] = json.loads(text)["cells"]
        return "\n".join(_render_cell(n, cell) for n, cell in enumerate(cells, 1))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _render_cell(number: int, cell: Any) -> str:
    lines = [f"[cell {number}, {cell['cell_type']}]", _joined(cell["source"])]
    for output in cell.get("outputs", ()):
        text = _COLORS.sub("", "\n".join(_texts_of(output)))
        note = "run the notebook to see all of it"
        lines += ["[output]", ends(text, _MAX_OUTPUT_CHARS, note)]
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def _texts_of(output: Any) -> Iterator[str]:
    """Yield the texts of an output, and its other forms by their types."""
    if output["output_type"] == "stream":
        yield _joined(output["text"])
    elif output["output_type"] == "error":
        yield "\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}"
    for kind, data in output.get("data", {}).items():
        yield _joined(data) if kind == "text/plain" else f"({kind}, not shown)"


def _joined(lines: Any) -> str:
    """Return a text that is stored as one string or as a list of lines. Raises `TypeError`."""
    return lines if isinstance(lines, str) else "".join(lines)
