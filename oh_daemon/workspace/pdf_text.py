"""The text of PDFs, read by pypdf in a child process with limits of memory, time and pages.

`read_pdf_text(path.read_bytes())` has the lines of each page below `--- page 1 of 2 ---`.
"""

from __future__ import annotations

import re

from oh_daemon.system.limited_child import run_limited

_CHILD = "oh_daemon.workspace.pdf_child"
HEAD = b"%PDF-"
"""How a PDF begins (ISO 32000-2, 7.5.2)."""
NO_TEXT = (
    "no text can be read from it: it may be a scan or protected. `pdftotext` may read more, and "
    "`pdftoppm -r 100 -png FILE page` makes images of its pages"
)
_MAX_PAGES = 300
_WITHIN_S = 60.0
_PAGE = re.compile(rb"^--- .* ---$", re.MULTILINE)


def read_pdf_text(data: bytes) -> str | None:
    """Return the text of each page below a line with its number; None if there is no text.

    Blocks for up to 60 s; what was read until a limit was reached counts.
    """
    text = run_limited(_CHILD, (_MAX_PAGES,), data, _WITHIN_S)
    return text.decode("utf-8", "replace") if _PAGE.sub(b"", text).strip() else None
