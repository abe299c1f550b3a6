"""Text of items that still stream, and what keeps it until they have ended.

It is kept beside the log, not in it: a log has each text once, with the end of its item.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class PartialText(Struct, frozen=True):
    """What an item had streamed when its daemon ended."""

    text: str
    is_whole: bool = True
    """Whether it has the beginning; of a long output, only the end is kept."""


class PartialTexts(Protocol):
    """Those of one conversation. All methods are safe from any thread; none waits for the disk."""

    def add(self, item_id: str, text: str, /) -> None:
        """Keep the next piece of text of an item that streams; it survives from 250 ms on."""
        ...

    def end(self, item_id: str, /) -> None:
        """Drop the item's text once what is in the log by now is durable."""
        ...


class NoPartialTexts:
    """Those of a conversation that ends with its process."""

    def add(self, _item_id: str, _text: str, /) -> None:
        """Do nothing."""

    def end(self, _item_id: str, /) -> None:
        """Do nothing."""
