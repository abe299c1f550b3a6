"""How texts become bytes, and in which encoding bytes are that are not UTF-8 and have no mark.

Only a few encodings are thought of, since most bytes make some text in most encodings. What is not
sure counts as binary: a wrong guess would write wrong characters.
"""

from __future__ import annotations

import codecs
import unicodedata

from oh_daemon.protocol.errors import EditRejectedError
from oh_daemon.protocol.items import FileForm

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # Before UTF-16-LE, whose mark is this one's first half.
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks and what they say."""
_MAX_SAMPLE = 64 << 10
_TEXT_CONTROLS = frozenset("\t\n\r\f")
_MOST_FOREIGN = 0.5
"""Share of letters outside ASCII in a text of a Western language, at most."""


def encode_text(text: str, form: FileForm) -> bytes:
    """Return the bytes of a text in this form. Raises `EditRejectedError` if it has none."""
    bom = next((mark for mark, encoding in BOMS if encoding == form.encoding), b"")
    try:
        return (bom if form.bom else b"") + text.encode(form.encoding)
    except UnicodeEncodeError as exc:
        char = text[exc.start]
        raise EditRejectedError(
            f"the file is in {form.encoding}, which has no {char!r} (U+{ord(char):04X}); write"
            " something else; only the user can decide to convert the file to UTF-8"
        ) from exc


def find_encoding(raw: bytes) -> str | None:
    """Return the name of the encoding as Python calls it; `raw` is neither UTF-8 nor has a mark."""
    import charset_normalizer  # noqa: PLC0415 - 30 ms, and hardly any file needs it.

    candidates = ["utf_16_le", "utf_16_be"] if b"\0" in raw else ["cp1252", "cp932"]
    best = charset_normalizer.from_bytes(_sample(raw), cp_isolation=candidates).best()
    if best is None or best.encoding not in candidates:
        return None
    try:
        text = raw.decode(best.encoding)
    except UnicodeDecodeError:
        return None
    return best.encoding.replace("_", "-") if _is_sure(text, best.encoding) else None


def _sample(raw: bytes) -> bytes:
    """Return the lines that tell encodings apart, as much of them as is looked at."""
    if b"\0" in raw:
        return raw[:_MAX_SAMPLE]
    lines = (line for line in raw.splitlines(keepends=True) if not line.isascii())
    return b"".join(lines)[:_MAX_SAMPLE]


def _is_sure(text: str, encoding: str) -> bool:
    kinds = [unicodedata.category(char) for char in set(text) - _TEXT_CONTROLS]
    if any(kind in {"Cc", "Cn", "Co", "Cs"} for kind in kinds):
        return False
    foreign = [char for char in text if char > "\x7f"]
    if encoding == "cp932":
        # Halfwidth kana are single bytes that mean letters with accents elsewhere.
        return 2 * sum("\uff61" <= char <= "\uff9f" for char in foreign) < len(foreign)
    if encoding == "cp1252":
        n_letters = sum(map(str.isalpha, text))
        return sum(map(str.isalpha, foreign)) < _MOST_FOREIGN * n_letters or not n_letters
    return any(char in text for char in " \n")
