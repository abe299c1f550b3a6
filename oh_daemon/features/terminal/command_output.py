"""What the model reads of a command's output: collapsed, and cut in the middle to a budget.

Whatever is left out is in a blob, with secrets masked. Tokens are estimated: no tokenizer is that
of every model, and bytes are far off for numbers and for text that repeats itself.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.masking import MaskedStream, Masker
from oh_daemon.common.partial_text import PartialText
from oh_daemon.features.terminal.output import MAX_SPILL_BYTES, Output
from oh_daemon.protocol.forms import CutFields

MAX_TOKENS = 8_000
POLL_TOKENS = 1_000
"""For a look at a command that goes on, and for what a key such as C-c brings."""
_TAIL_HEAVY = 0.25
_PIECE_CHARS = 1 << 18
_MAX_REPEATED = 3
_TOKEN = re.compile(r" ?[A-Za-z]{1,7}|\d{1,3}|\n+|[^\S\n]+|([^\w\s])\1*|.", re.DOTALL)
"""What a tokenizer takes for about one token; found by comparison with cl100k."""
_PADDING = re.compile(r"(?<=\S) {24,}(?=\S)")
_END_OF_PADDED = re.compile(r" {8,}$", re.MULTILINE)


class Excerpt(Struct, frozen=True):
    """What the model reads, and the blob that has all of it if that is not all."""

    text: str
    blob: str | None = None
    is_cut: bool = False


class OutputText(Struct, frozen=True):
    """Makes texts of outputs for one conversation."""

    masker: Masker
    put_blob_file: Callable[[Path], str]
    blobs: Path | None
    """The folder where the model finds the blobs, if they are files."""

    def render(self, output: Output, max_tokens: int) -> Excerpt:
        """Return the output in about so many tokens."""
        if output.n_cut_bytes:
            return self._of_ends(output, max_tokens)
        full_text = self.masker.mask(output.head)
        text = collapse_lines(full_text)
        if count_tokens(text) <= max_tokens:
            return Excerpt(text)
        head, tail = _ends(text, text, max_tokens)
        n_cut = len(text.encode()) - len(head.encode()) - len(tail.encode())
        blob = self._keep_pieces(iter([full_text]))
        return Excerpt(_join_ends(head, tail, n_cut, self._where(blob)), blob, is_cut=True)

    def of_partial(self, partial: PartialText) -> CutFields:
        """Return the fields of a command that was cut off with this output."""
        excerpt = self.render(Output(partial.text), MAX_TOKENS)
        begins = "" if partial.is_whole else "[… the beginning was not kept …]\n"
        return {
            "content": ({"type": "text", "text": begins + excerpt.text},),
            "outputRef": excerpt.blob,
            "truncated": excerpt.is_cut or not partial.is_whole or None,
        }

    def _of_ends(self, output: Output, max_tokens: int) -> Excerpt:
        """Return that of an output of which only both ends are in memory."""
        safe = self._safe_to_cut(output)
        both = collapse_lines(safe.head), collapse_lines(safe.tail)
        head, tail = _ends(*both, max_tokens)
        n_cut = output.n_cut_bytes + sum(len(text.encode()) for text in both)
        n_cut -= len(head.encode()) + len(tail.encode())
        blob = None
        if output.spill is not None:
            with output.spill.open(encoding="utf-8", errors="ignore") as file:
                blob = self._keep_pieces(
                    self._mask_pieces(iter(lambda: file.read(_PIECE_CHARS), ""))
                )
            output.spill.unlink(missing_ok=True)
        is_capped = output.n_cut_bytes > MAX_SPILL_BYTES
        return Excerpt(
            _join_ends(head, tail, n_cut, self._where(blob, is_capped=is_capped)), blob, True
        )

    def _safe_to_cut(self, output: Output) -> Output:
        """Mask both ends, also secrets that the cut split, whose rest would not be recognised."""
        head, tail = MaskedStream(self.masker), MaskedStream(self.masker)
        tail.feed(output.before_tail)
        shown_tail = tail.feed(output.tail) + tail.flush()
        return replace(output, head=head.feed(output.head), tail=shown_tail)

    def _mask_pieces(self, pieces: Iterator[str]) -> Iterator[str]:
        stream = MaskedStream(self.masker)
        for piece in pieces:
            yield stream.feed(piece)
        yield stream.flush()

    def _keep_pieces(self, pieces: Iterator[str]) -> str | None:
        """Store a text as a blob; None if there is no room."""
        descriptor, name = tempfile.mkstemp(prefix="oh-output-")
        path = Path(name)
        try:
            with open(descriptor, "w", encoding="utf-8", errors="replace") as out:  # noqa: PTH123 - a descriptor.
                out.writelines(pieces)
        except OSError:
            # A full disk must not cost the model the result of its command.
            path.unlink(missing_ok=True)
            return None
        return self.put_blob_file(path)

    def _where(self, blob: str | None, *, is_capped: bool = False) -> str:
        if blob is None or self.blobs is None:
            return "the middle was not kept"
        part = f"the first {MAX_SPILL_BYTES >> 20} MiB" if is_capped else "all of it"
        return f"{part}, for grep or sed in a terminal, is in {self.blobs / blob}"


def count_tokens(text: str) -> int:
    """Return about how many tokens a text has, rather too many than too few."""
    return sum(1 for _ in _TOKEN.finditer(text))


def collapse_lines(text: str) -> str:
    """Return the text with what repeats or pads it named instead of shown."""
    text = _END_OF_PADDED.sub("", _PADDING.sub("    ", text))
    return "\n".join(_without_repeats(text.split("\n")))


def _without_repeats(lines: list[str]) -> Iterator[str]:
    for line, same in groupby(lines):
        n = sum(1 for _ in same)
        if n <= _MAX_REPEATED:
            yield from [line] * n
        elif line:
            yield from (line, f"[the line above {n - 1:,} more times]")
        else:
            yield from (line, f"[{n - 1:,} more empty lines]")


def _ends(start: str, end: str, max_tokens: int) -> tuple[str, str]:
    """Return the start of one text and the end of another, in whole lines where these are short."""
    n_head = int(max_tokens * (0.5 if max_tokens >= MAX_TOKENS else _TAIL_HEAVY))
    heads, tails = _begins(start), _begins(end)
    head = start[: heads[n_head]] if len(heads) > n_head else start
    tail = end[tails[n_head - max_tokens] :] if len(tails) > max_tokens - n_head else end
    if head != start:
        head = head[: head.rfind("\n", len(head) // 2) + 1] or head
    if tail != end:
        tail = tail[tail.find("\n", 0, len(tail) // 2) + 1 :]
    return head, tail


def _begins(text: str) -> list[int]:
    return [match.start() for match in _TOKEN.finditer(text)]


def _join_ends(head: str, tail: str, n_cut: int, where: str) -> str:
    line = "" if head.endswith("\n") or not head else "\n"
    return f"{head}{line}[… {n_cut:,} bytes cut; {where} …]\n{tail}"
