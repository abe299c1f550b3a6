"""The body of a request as bytes, with each message prepared and encoded once in its life.

Each request of a conversation repeats the messages of the one before, so their bytes are kept, in
runs that dialects write one by one: an answer of the model and what follows it. Written again are
messages whose objects changed, as those with stored images, and those that cache marks move on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import NamedTuple

import orjson

from oh_daemon.core.ports import Json
from oh_daemon.model.dialect import Call, Dialect, Part

_MOST_RUNS = 64
"""How many runs are written as one piece where many are new, as those of a log just opened."""
_MARKED_PIECES = 2
"""Cache marks are at the end of the last run, a piece of its own, and of the one before it."""


class _Piece(NamedTuple):
    """Some messages, by their places, and their bytes."""

    start: int
    end: int
    data: bytes


class Written:
    """The messages of one conversation, as one model gets them. For one thread at a time."""

    def __init__(self) -> None:
        self._effort: str | None = None
        self._messages: Sequence[Json] = ()
        self._pieces: list[_Piece] = []

    def pieces(self, call: Call, write: Callable[[Part], bytes]) -> list[bytes]:
        """Return what comes after the system prompt, of which only new messages are written."""
        messages, before, n_same = call.request.messages, self._messages, 0
        if call.effort != self._effort:
            # Some providers want other messages of a model that thinks.
            before, self._pieces = (), []
        if len(before) <= len(messages) and all(map(is_, before, messages)):
            # The last run may go on.
            n_same = max(len(self._pieces) - 1, 0)
        known = {piece.start: piece for piece in self._pieces[n_same:]}
        begin = self._pieces[n_same].start if n_same else 1
        pieces, bounds = self._pieces[:n_same], _bounds(messages, begin)
        places = {bound: n for n, bound in enumerate(bounds)}
        n = 0
        while n < len(bounds) - 1:
            start, earlier = bounds[n], known.get(bounds[n])
            end = earlier.end if earlier else 0
            if end not in places:
                end, earlier = bounds[max(min(n + _MOST_RUNS, len(bounds) - 2), n + 1)], None
            new = messages[start:end]
            if earlier is None or not all(map(is_, new, before[start:end])):
                earlier = _Piece(start, end, write(Part(new)))
            pieces.append(earlier)
            n = places[end]
        self._effort, self._messages, self._pieces = call.effort, messages, pieces
        return [piece.data for piece in pieces]

    def last(self, n_pieces: int) -> tuple[int, int]:
        """Return how many pieces come before the last ones, and where those begin."""
        n_before = max(len(self._pieces) - n_pieces, 0)
        return n_before, self._pieces[n_before].start if self._pieces else len(self._messages)


def written_body(dialect: Dialect, call: Call, written: Written) -> bytes:
    """Return the body; what was `written` for the conversation's last request is used again."""
    messages, name = call.request.messages, dialect.field
    if messages[0]["role"] != "system" or name in call.settings.extra_body:
        return encoded(dialect.body(call))

    def write(part: Part) -> bytes:
        request = replace(call.request, tools=())
        items = dialect.body(replace(call, request=request, part=part))[name]
        return encoded(items)[1:-1]

    fields = dialect.body(replace(call, part=Part(messages[:1], is_start=True)))
    pieces = [encoded(fields.pop(name))[1:-1], *written.pieces(call, write)]
    if call.can.quirks.wants_cache_marks:
        n_before, start = written.last(_MARKED_PIECES)
        pieces[1 + n_before :] = [write(Part(messages[start:], is_end=True))]
    return b'%b,"%b":[%b]}' % (
        encoded(fields)[:-1],
        name.encode(),
        b",".join(filter(None, pieces)),
    )


def _bounds(messages: Sequence[Json], begin: int) -> list[int]:
    """Return where runs from `begin` on start, and the end; one begins with a model's answer."""
    answers = [message["role"] == "assistant" for message in messages[begin:]]
    starts = (n for n in range(1, len(answers)) if answers[n] and not answers[n - 1])
    return [*range(begin, len(messages))[:1], *(begin + n for n in starts), len(messages)]


def encoded(body: Json | list[Json]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:
        # Half characters, and numbers of more than 64 bits, which a tool's schema may have.
        return json.dumps(body).encode()
