"""Prints the text of a PDF from stdin, page by page; its most pages are the argument.

The program of a child process (see `pdf_text`): a PDF holds programs and compressed data of any
size, so its reader has limits of memory and time. It imports nothing of ours.
"""

from __future__ import annotations

import io
import logging
import resource
import sys

_MEMORY_BYTES = 1 << 30
_PROCESSOR_S = 30
_MAX_CHARS = 4 << 20


def main(max_pages: int) -> None:
    """Raises for a PDF that cannot be read within the limits."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    import pypdf  # noqa: PLC0415 - only below the limits.

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    if reader.is_encrypted and not reader.decrypt(""):
        sys.exit("it is protected by a password")
    n_pages, n_chars = len(reader.pages), 0
    for number, page in enumerate(reader.pages, 1):
        if number > max_pages or n_chars > _MAX_CHARS:
            data = f"--- {n_pages - number + 1} more pages, not read ---\n"
            sys.stdout.buffer.write(data.encode())
            return
        text = page.extract_text().strip()
        n_chars += len(text)
        data = f"--- page {number} of {n_pages} ---\n{text}\n"
        sys.stdout.buffer.write(data.encode("utf-8", "replace"))
        # A whole page counts if a later one exceeds a limit.
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
