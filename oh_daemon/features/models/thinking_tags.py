"""Thinking that a model writes at the start of its text, in tags, told apart from the text; pure.

`<think>Hm.</think>Yes.` is the reasoning "Hm." and the text "Yes.". Servers without a parser for
reasoning send it so; templates that write the first tag themselves leave only the last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Channel = Literal["text", "reasoning"]
_WORD = r"(?:[\w-]+:)?(?:think|thinking|thought|reasoning)"
_OPENING = re.compile(
    rf"<{_WORD}>|\[THINK\]|◁think▷|<\|channel\|>analysis<\|message\|>", re.IGNORECASE
)
_CLOSING = re.compile(rf"</{_WORD}>|\[/THINK\]|◁/think▷|<\|end\|>", re.IGNORECASE)
_FINAL = re.compile(r"(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>")
"""What gpt-oss writes before its answer."""
_MAY_OPEN = re.compile(r"<[\w:|<>-]*|\[T?H?I?N?K?|◁[a-z]*")
_LONGEST = 48
"""More characters than any tag has."""
_CLOSED_ONLY = re.compile(
    rf"(.*?)(?:\n[ \t]*</{_WORD}>|</{_WORD}>[ \t]*(?=\n|\Z))\s*", re.DOTALL | re.IGNORECASE
)


class ThinkingTags:
    """Feed it the pieces of a text; it yields what is known of each, and the rest at `end`."""

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "text"] = "start"
        self._pending = ""
        self._has_thought = False

    def feed(self, piece: str) -> Iterator[tuple[Channel, str]]:
        if self._state == "text":
            yield "text", piece
            return
        self._pending += piece
        while True:
            if self._state == "thinking":
                yield from self._thought()
                if self._state == "thinking":
                    return
            rest = self._pending.lstrip()
            if opening := _OPENING.match(rest):
                self._state, self._pending = "thinking", rest[opening.end() :]
            elif final := _FINAL.match(rest):
                self._pending = rest[final.end() :]
            elif not rest or (len(rest) < _LONGEST and _MAY_OPEN.fullmatch(rest)):
                return
            else:
                self._state = "text"
                # Blank lines after the thinking belong to neither.
                self._pending = rest if self._has_thought else self._pending
                yield from self.end()
                return

    def _thought(self) -> Iterator[tuple[Channel, str]]:
        closing = _CLOSING.search(self._pending)
        tail = max(map(self._pending.rfind, "<[◁"))
        is_open = tail >= 0 and len(self._pending) - tail < _LONGEST
        end = closing.start() if closing else tail if is_open else len(self._pending)
        thinking = self._pending[:end]
        self._pending = self._pending[closing.end() if closing else end :]
        self._has_thought = True
        if closing:
            self._state = "start"
        if thinking:
            yield "reasoning", thinking

    def end(self) -> Iterator[tuple[Channel, str]]:
        """Yield what is held, since nothing more will come."""
        rest, self._pending = self._pending, ""
        if rest:
            yield ("reasoning" if self._state == "thinking" else "text"), rest


def split_thinking(text: str) -> list[tuple[Channel, str]]:
    """Return the parts of a whole text."""
    tags = ThinkingTags()
    return [*tags.feed(text), *tags.end()]


def without_closed_thinking(text: str) -> tuple[str, str]:
    """Return the thinking before a closing tag that has no opening one, and the text after it."""
    match = _CLOSED_ONLY.match(text)
    if match is None or _OPENING.search(match[1]) or match[1].count("```") % 2:
        return "", text
    return match[1].strip(), text[match.end() :]
