"""Reads tool calls from the pieces in which a stream brought them; pure.

Servers number, name and repeat pieces in many ways, and some give every piece a new id. So pieces
are grouped by index and id, by index, by id, or by their order alone, and the first grouping in
which every call has a name and one whole JSON object counts. The example is one call:

    {"index": 0, "id": "a1", "function": {"name": "terminal", "arguments": ""}}
    {"index": 0, "id": "b2", "function": {"arguments": {"command": "ls"}}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from oh_daemon.common.decoded import as_object
from oh_daemon.common.plain_text import well_formed
from oh_daemon.kernel.call_aliases import own_name
from oh_daemon.kernel.ports import Json, ToolCall

SIGNATURE = "__thought__"
"""Between the id of a call and the signature that Gemini wants back with it, as litellm joins them:
so a conversation may change between both ways at any time."""
_WORD = re.compile(r"[\w-]+")
_WRAPPERS = frozenset(
    [
        "analysis",
        "api",
        "assistant",
        "call",
        "channel",
        "commentary",
        "constrain",
        "default_api",
        "final",
        "function",
        "functions",
        "json",
        "message",
        "multi_tool_use",
        "namespace",
        "recipient",
        "start",
        "to",
        "tool",
        "tool_call",
        "tool_calls",
        "tools",
    ]
)
"""Words that some models or servers put around the name of a tool, as in `functions.edit:0`."""
_EMPTY_TAIL = re.compile(r"(?:\{\s*\}|\[\s*\]|null|[\s}\]])*")
_ARGUMENTS = ("arguments", "input", "parameters")
_BEGINNINGS = ("{", "[", '"', "'", "`")
"""How arguments may begin that a model wrote, be they wrong otherwise."""
_DECODER = json.JSONDecoder(strict=False)


class Piece(NamedTuple):
    """One entry of `tool_calls` in a chunk; what it lacks is None or empty."""

    number: Hashable
    call_id: str
    name: str
    arguments: str
    signature: str


class _Call(NamedTuple):
    """Pieces that are taken for one call, and what they say together."""

    call_id: str
    name: str
    arguments: str
    is_whole: bool


class KnownTools:
    """The tools of a request, by the names that a model may use for them."""

    def __init__(self, tools: Sequence[Json]) -> None:
        functions: list[Json] = [tool["function"] for tool in tools]
        self._requires: Mapping[str, bool] = {
            each["name"]: bool(each.get("parameters", {}).get("required")) for each in functions
        }

    def own_name(self, name: str) -> str | None:
        """Return the tool's name for a name that may have other words around it, else None."""
        for each in (name, name.strip(), self._unwrapped(name)):
            if own_name(each, self._requires)[0] in self._requires:
                return each
        return None

    def needs_arguments(self, name: str) -> bool:
        return self._requires.get(own_name(name, self._requires)[0], False)

    def _unwrapped(self, name: str) -> str:
        words = [word for word in _WORD.findall(name) if not word.isdigit()]
        other_words = [word for word in words if word.lower() not in _WRAPPERS]
        return other_words[0] if len(other_words) == 1 else ""


def read_piece(entry: Any) -> Piece | None:
    """Return an entry of a list of calls as a piece; None when nothing of it is one."""
    fields = as_object(entry)
    function = as_object(fields.get("function")) or fields
    if not {"name", "arguments"} & function.keys():
        return None
    number, call_id, name = fields.get("index"), fields.get("id"), function.get("name")
    arguments = next((function[key] for key in _ARGUMENTS if key in function), None)
    google = as_object(as_object(fields.get("extra_content")).get("google"))
    return Piece(
        number if isinstance(number, int | str) else None,
        str(call_id) if isinstance(call_id, int | str) else "",
        name if isinstance(name, str) else "",
        _as_text(arguments),
        str(google.get("thought_signature", "")),
    )


def _as_text(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


def read_calls(
    pieces: Sequence[Piece], tools: KnownTools, *, is_cut: bool = False
) -> tuple[ToolCall, ...] | None:
    """Return the calls that were meant, in order; None when they cannot be told apart.

    A call whose arguments are wrong comes as the model wrote it, if it is clear where it ends.
    With `is_cut`, the answer ended at a limit, and no call of it will run.
    """
    readings = [
        [call for group in grouping for call in _read_group(group, tools)]
        for grouping in _groupings(pieces)
    ]
    for calls in readings:
        if all(call.name and call.is_whole for call in calls):
            return _distinct(calls)
    # What is wrong in what follows is the model's own fault, so the model is told of it.
    for calls in readings[:2]:
        if len(calls) == 1 and calls[0].name:
            return _distinct(calls)
    has_ids = all(piece.call_id for piece in pieces)
    for calls in readings[: 3 if has_ids else 2]:
        if all(call.name and _is_plain(call) for call in calls):
            return _distinct(calls)
    return _distinct([call for call in readings[0] if call.name]) if is_cut else None


def _is_plain(call: _Call) -> bool:
    """Return whether these are the whole arguments of a call, even if they are wrong."""
    return call.is_whole or call.arguments.lstrip().startswith(_BEGINNINGS)


def _distinct(calls: Sequence[_Call]) -> tuple[ToolCall, ...]:
    """Return the calls without those that were sent again under their id."""
    distinct: dict[object, _Call] = {}
    for n, call in enumerate(calls):
        distinct.setdefault(call[:3] if call.call_id else n, call)
    return tuple(ToolCall(call.call_id, call.name, call.arguments) for call in distinct.values())


def _groupings(pieces: Sequence[Piece]) -> Iterator[list[list[Piece]]]:
    """Yield the ways to group pieces, the one that separates most first."""
    ids: dict[Hashable, str] = {}
    both: list[tuple[Hashable, str]] = []
    for piece in pieces:
        ids[piece.number] = piece.call_id or ids.get(piece.number, "")
        both.append((piece.number, ids[piece.number]))
    yield _grouped(pieces, both)
    for key in (_number, _id):
        last: Hashable = None
        keys: list[Hashable] = []
        for piece in pieces:
            last = key(piece) if key(piece) not in (None, "") else last
            keys.append(last)
        yield _grouped(pieces, keys)
    yield [[*pieces]]


def _number(piece: Piece) -> Hashable:
    return piece.number


def _id(piece: Piece) -> Hashable:
    return piece.call_id


def _grouped(pieces: Sequence[Piece], keys: Sequence[Hashable]) -> list[list[Piece]]:
    groups: dict[Hashable, list[Piece]] = {}
    for key, piece in zip(keys, pieces, strict=True):
        groups.setdefault(key, []).append(piece)
    return [*groups.values()]


def _read_group(group: Sequence[Piece], tools: KnownTools) -> Iterator[_Call]:
    """Yield the calls of a group, in which a call begins where the one before it is whole."""
    current: list[Piece] = []
    for n, piece in enumerate(group):
        if current and piece.name and _begins_call(current, group, n, tools):
            yield _read_call(current, tools)
            current = []
        current.append(piece)
    yield _read_call(current, tools)


def _begins_call(
    before: Sequence[Piece], group: Sequence[Piece], n: int, tools: KnownTools
) -> bool:
    """Return whether another call begins with the `n`-th piece of a group, which has a name."""
    piece, names = group[n], [each.name for each in before if each.name]
    is_other = piece.name not in names and bool(tools.own_name(piece.name))
    if not any(each.arguments.strip() for each in before):
        return is_other and bool(tools.own_name("".join(names)))
    if not _may_be_whole(before):
        return False
    call, text = _read_call(before, tools), _next_text(group, n, tools)
    if not call.is_whole or (text == "{}" and tools.needs_arguments(call.name) and not is_other):
        return False
    return text.startswith("{") or piece.name not in (*names[:1], call.name)


def _next_text(group: Sequence[Piece], start: int, tools: KnownTools) -> str:
    """Return the next arguments from a piece on, unless another tool's name comes before them."""
    name = ""
    for n in range(start, len(group)):
        piece = group[n]
        name += piece.name
        is_other = piece.name != group[start].name and bool(tools.own_name(piece.name))
        # The last piece of a name may be the name of another tool: `files__` and `read_file`.
        if n > start and is_other and not tools.own_name(name):
            return ""
        if text := piece.arguments.strip():
            return text
    return ""


def _may_be_whole(pieces: Sequence[Piece]) -> bool:
    """Return whether the text ends as JSON does, without reading all of it."""
    last = next(each.arguments for each in reversed(pieces) if each.arguments.strip())
    return last.rstrip().endswith(("}", "]", "null"))


def _read_call(pieces: Sequence[Piece], tools: KnownTools) -> _Call:
    name = _name([each.name for each in pieces if each.name], tools)
    texts = [each.arguments for each in pieces if each.arguments]
    text = well_formed("".join(texts))
    whole = _whole_object(text)
    if whole is None and len(texts) > 1 and _grow(texts):
        text, whole = well_formed(texts[-1]), _whole_object(texts[-1])
    is_whole = whole is not None and not (whole == "{}" and tools.needs_arguments(name))
    call_id = next((each.call_id for each in pieces if each.call_id), "")
    signature = next((each.signature for each in pieces if each.signature), "")
    if signature:
        call_id = f"{call_id}{SIGNATURE}{signature}"
    return _Call(
        well_formed(call_id), well_formed(name), text if whole is None else whole, is_whole
    )


def _grow(texts: Sequence[str]) -> bool:
    """Return whether each text repeats the one before it and goes on."""
    return all(b.startswith(a) for a, b in pairwise(texts))


def _name(names: Sequence[str], tools: KnownTools) -> str:
    """Return the name in pieces that repeat it, go on with it or begin it again; "" if neither."""
    distinct = [*dict.fromkeys(names)]
    candidates = [*distinct[:1]] * (len(distinct) == 1)
    candidates += ["".join(names), *(distinct[-1:] if _grow(names) else ())]
    found_name = next(filter(None, map(tools.own_name, candidates)), None)
    if found_name is not None:
        return found_name
    is_clash = len(distinct) > 1 and any(map(tools.own_name, distinct))
    return "" if is_clash else candidates[0]


def _whole_object(text: str) -> str | None:
    """Return the one JSON object in the text, as it is written there; None if there is none.

    Empty JSON around it means nothing, and neither does the same object again.
    """
    text = text.strip()
    if not text or (_EMPTY_TAIL.fullmatch(text) and text[0] in "{n"):
        return "{}"
    try:
        value, end = _DECODER.raw_decode(text)
        if value == {}:
            return _whole_object(text[end:])
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    whole, tail = text[:end], text[end:].strip()
    while tail.startswith(whole):
        tail = tail[len(whole) :].strip()
    return whole if _EMPTY_TAIL.fullmatch(tail) else None
