"""Exports a conversation as one text to share: its log, Markdown, or an HTML page.

Rendering is pure. Secrets are masked in the records before they are rendered, including secrets
that became known only after the log was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import orjson

from oh_daemon.app.export_markdown import render_markdown
from oh_daemon.app.export_words import ReadBlob
from oh_daemon.contract import plain
from oh_daemon.core.folding import fold
from oh_daemon.core.secrets import Masker

Format = Literal["jsonl", "markdown", "html"]


def render_export(
    conversation_id: str,
    records: Iterable[plain.Record],
    form: Format,
    *,
    masker: Masker,
    read_blob: ReadBlob,
) -> str:
    """Return the whole text; `read_blob` returns the images that are kept beside the log."""
    lines = [masker.mask(orjson.dumps(record).decode()) for record in records]
    if form == "jsonl":
        return "".join(f"{line}\n" for line in lines)
    masked = [orjson.loads(line) for line in lines]
    state = fold(conversation_id, masked)
    if form == "markdown":
        return render_markdown(state, masked)
    # The page needs a Markdown parser, which is slow to import.
    from oh_daemon.app.export_page import render_page  # noqa: PLC0415

    return render_page(state, masked, read_blob)
