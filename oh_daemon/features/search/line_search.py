"""A separate program: `python -IS line_search.py` reads a job, and prints the matching lines.

Matching a model's pattern may never end, so it must not run inside the daemon. Uses the standard
library only; matches within lines, unless the pattern has a line end. Invariant: no link is
followed, anywhere in a path.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import stat
import sys
from bisect import bisect_right
from itertools import accumulate, groupby
from typing import Any

_MAX_LINE_CHARS = 400
_MAX_AROUND_CHARS = 4096
"""What is told of a long line besides, so that the daemon sees a secret that is cut in two."""
_MAX_FILE_BYTES = 64 << 20
_ACROSS = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n|\(\?[aiLmux]*s")
"""A line end or the flag `s`, in a pattern that is meant to match across lines."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Json = dict[str, Any]


class _OutOfTimeError(Exception):
    pass


def search(job: Json) -> Json:
    """Run a job with the keys pattern, ignore_case, paths, texts, context, limit, timeout_s."""
    result: Json = {"files": [], "n_searched": 0, "n_binary": 0, "too_large": [], "late": False}
    signal.signal(signal.SIGALRM, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_REAL, job["timeout_s"])
    try:
        flags = re.MULTILINE | (re.IGNORECASE if job["ignore_case"] else 0)
        pattern = re.compile(job["pattern"], flags)
        _search_files(job, pattern, result)
    except (re.error, OverflowError, RecursionError) as exc:
        return {"error": str(exc)}
    except _OutOfTimeError:
        result["late"] = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return result


def _search_files(job: Json, pattern: re.Pattern[str], result: Json) -> None:
    needle = _needle(pattern)
    room: int = job["limit"]
    for path in job["paths"]:
        text = job["texts"][path] if path in job["texts"] else _read(path, needle, result)
        result["n_searched"] += 1
        if text is None:
            continue
        text = text.replace("\r\n", "\n")
        lines = text.removesuffix("\n").split("\n")
        if _ACROSS.search(pattern.pattern):
            hits = _hits_across(pattern, text, lines)
        else:
            hits = [number for number, line in enumerate(lines) if pattern.search(line)]
        if hits:
            lines_shown = _with_context(lines, hits[:room], job["context"], pattern)
            result["files"].append({"path": path, "count": len(hits), "lines": lines_shown})
            room = max(0, room - len(hits))


def _needle(pattern: re.Pattern[str]) -> bytes:
    """Return bytes that every UTF-8 file with a match contains, so most files are ruled out fast.

    Only the private parser of `re` knows for certain which characters of a pattern are literal.
    """
    parser: Any = importlib.import_module("re._parser")
    parts = parser.parse(pattern.pattern, pattern.flags)

    def is_literal(part: Any) -> bool:
        return part[0] is parser.LITERAL and part[1] != ord("\n")  # Files may have CR LF there.

    runs = (
        "".join(chr(char) for _, char in run)
        for is_text, run in groupby(parts, is_literal)
        if is_text
    )
    longest = max(runs, key=len, default="")
    # Invalid UTF-8 is read as U+FFFD, and a letter may have several forms when case is ignored.
    is_sure = "\ufffd" not in longest and not pattern.flags & re.IGNORECASE
    return longest.encode("utf-8", "surrogatepass") if is_sure else b""


def _hits_across(pattern: re.Pattern[str], text: str, lines: list[str]) -> list[int]:
    """Return the numbers of all lines that a match has a part of."""
    starts = [0, *accumulate(len(line) + 1 for line in lines[:-1])]
    line_numbers: set[int] = set()
    for match in pattern.finditer(text):
        first, last = match.start(), max(match.start(), match.end() - 1)
        line_numbers.update(range(bisect_right(starts, first) - 1, bisect_right(starts, last)))
    return sorted(line_numbers)


def _read(path: str, needle: bytes, result: Json) -> str | None:
    """Return the text of a regular file, or None when it has no text or certainly no match.

    A file in UTF-16 or UTF-32 is not checked for `needle`.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    status = os.fstat(descriptor)
    # Compare the kernel's name of the opened file: a folder may have become a link by now.
    real = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - compared as text.
    if not stat.S_ISREG(status.st_mode) or real != path:
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path.
        if status.st_size > _MAX_FILE_BYTES:
            result["too_large"].append(path)
            return None
        raw = file.read(status.st_size + 1)  # A buffer for the limit takes longer than the search.
    encoding = "utf-8-sig"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-32" if raw.startswith(b"\xff\xfe\0\0") else "utf-16"
    elif b"\0" in raw:
        result["n_binary"] += 1
        return None
    elif needle not in raw:
        return None
    return raw.decode(encoding, "replace")


def _with_context(
    lines: list[str], hits: list[int], context: int, pattern: re.Pattern[str]
) -> list[Json]:
    """Return the lines to show, as grep does: `12:` is a match, `13-` context, `--` a gap."""
    line_numbers = {n for hit in hits for n in range(hit - context, hit + context + 1)}
    matching, last = set(hits), None
    rows: list[Json] = []
    for number in sorted(line_numbers.intersection(range(len(lines)))):
        if context and last is not None and number > last + 1:
            rows.append({"place": "--", "text": ""})
        sign = ":" if number in matching else "-"
        rows.append({"place": f"{number + 1}{sign}", **_clip_line(lines[number], pattern)})
        last = number
    return rows


def _clip_line(line: str, pattern: re.Pattern[str]) -> Json:
    """Return a line; of a long one, the part to show around its first match, in what is near."""
    if len(line) <= _MAX_LINE_CHARS:
        return {"text": line}
    match = pattern.search(line)
    start = max(0, match.start() - _MAX_LINE_CHARS // 2) if match else 0
    n_cut = len(line) - _MAX_LINE_CHARS
    first, end = max(0, start - _MAX_AROUND_CHARS), start + _MAX_LINE_CHARS
    near = line[first : end + _MAX_AROUND_CHARS]
    return {"text": near, "part": (start - first, end - first), "n_cut": n_cut}


def _raise_out_of_time(*_: object) -> None:
    raise _OutOfTimeError


if __name__ == "__main__":
    json.dump(search(json.load(sys.stdin.buffer)), sys.stdout)
