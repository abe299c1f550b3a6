"""JSON for the moments before anything is imported: the parser that `json` itself is built on.

`orjson` costs 30 ms of CPU to import, `json` 10 ms. Whatever is not plain, strict JSON is refused.
"""

from __future__ import annotations

from _json import encode_basestring_ascii as quote
from _json import make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["parse", "quote"]


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


class _Strict:
    """What `make_scanner` reads of a `json.JSONDecoder`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse)
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner has one of its own.


_context: Any = _Strict
_scan = make_scanner(_context)


def parse(text: bytes) -> Any:
    """Return the value. Raises `ValueError` if it is not just one."""
    body = text.decode().strip(" \t\r\n")
    try:
        value, end = _scan(body, 0)
    # Until `json` is imported, Python 3.11 has no class for the error that it means to raise.
    except (StopIteration, RecursionError, SystemError):
        raise ValueError("this is not JSON") from None
    if end != len(body):
        raise ValueError("something follows the value")
    return value
