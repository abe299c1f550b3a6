"""Assembles a streamed answer from chunks in OpenAI's form; pure, whatever delivers the chunks.

Invariant: all text that it returns is valid Unicode, so the next request is strict JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from json import dumps, loads
from typing import Any, cast

from msgspec import Struct, field

from oh_daemon.common.decoded import as_object, objects_in
from oh_daemon.common.plain_text import well_formed
from oh_daemon.features.models.answer_ends import FinishReason, end_of
from oh_daemon.features.models.call_pieces import KnownTools, Piece, read_calls, read_piece
from oh_daemon.features.models.failures import unreachable
from oh_daemon.features.models.thinking_tags import (
    Channel,
    ThinkingTags,
    split_thinking,
    without_closed_thinking,
)
from oh_daemon.kernel.ports import Json, ModelAnswer, ModelDelta
from oh_daemon.protocol.status import Usage

_TEXT_OF_BLOCK: Mapping[str, str] = {
    "thinking": "thinking",
    "reasoning.text": "text",
    "reasoning.summary": "summary",
}
"""Kinds of thinking blocks that come in pieces (Anthropic, OpenRouter), with their text's field."""
_PARSER = "check the server's tool parser, or set `llm.nativeToolCalling` to false"
_CHANNELS: tuple[Channel, ...] = ("reasoning", "text")
_HIGH_SURROGATES = ("\ud800", "\udbff")


class _Text(Struct):
    """The pieces of one channel; half a surrogate pair is held until its other half comes."""

    pieces: list[str] = field(default_factory=list[str])
    half: str = ""

    def feed(self, piece: str) -> str:
        text = self.half + piece
        self.half = ""
        try:
            text.encode()
        except UnicodeEncodeError:
            if _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
                text, self.half = text[:-1], text[-1]
            text = well_formed(text)
        self.pieces.append(text)
        return text

    def full_text(self) -> str:
        return "".join(self.pieces) + ("\ufffd" if self.half else "")


_REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""Fields in which servers send reasoning; some send it in two of them."""


class _Choice(Struct):
    """One of the answers in a stream; a server may spread one answer over several."""

    texts: dict[Channel, _Text] = field(
        default_factory=lambda: {"text": _Text(), "reasoning": _Text()}
    )
    tags: ThinkingTags = field(default_factory=ThinkingTags)
    pieces: list[Piece] = field(default_factory=list[Piece])
    ends: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What was said of its end: the reason, and that of the provider behind."""


def chunks_of(events: Iterable[Json], translate: Callable[[Json], Json]) -> Iterator[Json]:
    """Yield what becomes of each event; an event that lacks what it is about costs only itself."""
    for event in events:
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            if chunk := translate(event):
                yield chunk


def delta_chunk(**delta: Any) -> Json:
    return {"choices": [{"delta": delta}]}


def call_chunk(index: int, function: Json, call_id: str | None = None) -> Json:
    """Return a piece of a call; its first piece has the id and the name."""
    return delta_chunk(tool_calls=[{"index": index, "id": call_id, "function": function}])


class Assembly:
    """Feed it every chunk, then call `answer`. `on_delta` gets each piece as it comes.

    Whatever has another form than in OpenAI's API is read for what it holds, or skipped.
    """

    def __init__(self, on_delta: Callable[[ModelDelta], None], tools: Sequence[Json] = ()) -> None:
        """`tools` are those of the request: they tell which names a stream may mean."""
        self._on_delta = on_delta
        self._tools = KnownTools(tools)
        self._choices: dict[object, _Choice] = {}
        self._streams: dict[Channel, object] = {}
        """By channel, the choice whose text is shown: the first that had some."""
        self._blocks: list[Json] = []
        self._response_id: str | None = None
        self._is_done = False
        """Whether the mark of the stream's end came."""
        self.usage: Json | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the provider gave a reason for the end, or ended cleanly after some content."""
        choices = self._choices.values()
        has_content = any(choice.pieces or choice.texts["text"].pieces for choice in choices)
        return any(choice.ends for choice in choices) or (self._is_done and has_content)

    def feed(self, chunk: Json) -> None:
        match chunk.get("id"):
            case str(response_id):
                self._response_id = self._response_id or response_id
            case _:
                pass
        self._is_done = self._is_done or chunk.get("done") is True
        self.usage = as_object(chunk.get("usage")) or self.usage
        for n, choice in enumerate(objects_in(chunk.get("choices"))):
            key = choice.get("index", n)
            self._feed_choice(key if isinstance(key, int | str) else n, choice)

    def _feed_choice(self, key: object, fields: Json) -> None:
        choice = self._choices.setdefault(key, _Choice())
        for name in ("delta", "message"):
            if isinstance(fields.get(name), dict):
                self._feed_delta(key, fields[name], is_whole=name == "message")
        reason = fields.get("finish_reason")
        if isinstance(reason, str) and reason:
            choice.ends.append((reason, str(fields.get("native_finish_reason") or "")))

    def _feed_delta(self, key: object, delta: Json, *, is_whole: bool) -> None:
        """Add a piece of an answer, or with `is_whole`, what of the whole has not come yet."""
        choice = self._choices[key]
        reasoning = next(filter(None, map(delta.get, _REASONING)), None)
        texts: list[tuple[Channel, str]] = [("reasoning", text) for _, text in _texts_in(reasoning)]
        texts += [*_texts_in(delta.get("content")), *_texts_in(delta.get("refusal"))]
        feed = self._feed_rest if is_whole else self._feed_piece
        for channel in _CHANNELS:
            feed(channel, key, "".join(text for name, text in texts if name == channel))
        if delta.get("refusal"):
            choice.ends.insert(0, ("refusal", ""))
        blocks = (delta.get(name) for name in ("thinking_blocks", "reasoning_details"))
        for block in (each for some in blocks for each in objects_in(some)):
            self._feed_block(block)
        if not (is_whole and choice.pieces):
            choice.pieces += filter(None, map(read_piece, _entries(delta)))

    def answer(self, usage: Usage) -> ModelAnswer:
        """Return what came, which is to be `is_complete`.

        Raises `NetworkError` if its end is not known to be success, or if it is not clear what the
        calls in it are.
        """
        for key, choice in self._choices.items():
            for channel, rest in choice.tags.end():
                self._feed_text(channel, key, rest)
        text, reasoning = self._text("text"), self._text("reasoning")
        if not reasoning:
            reasoning, text = without_closed_thinking(text)
        choices = self._choices.values()
        ends: list[FinishReason] = [end_of(*end) for choice in choices for end in choice.ends]
        finish = ends[0] if ends else "stop"
        pieces = next((each.pieces for each in self._choices.values() if each.pieces), None)
        calls = read_calls(pieces, self._tools, is_cut=finish == "length") if pieces else ()
        if calls is None:
            raise unreachable(
                "the tool calls of the answer came in pieces that do not fit", _PARSER
            )
        return ModelAnswer(
            text=text,
            reasoning=reasoning,
            thinking_blocks=_valid_blocks(self._blocks),
            tool_calls=calls,
            finish_reason="tool_calls" if calls and finish == "stop" else finish,
            usage=usage,
            response_id=self._response_id,
        )

    def _text(self, channel: Channel) -> str:
        if channel not in self._streams:
            return ""
        return self._choices[self._streams[channel]].texts[channel].full_text()

    def _feed_rest(self, channel: Channel, key: object, whole: str) -> None:
        """Add what has not come yet of a whole text."""
        parts: list[tuple[Channel, str]] = [(channel, whole)]
        for name, text in split_thinking(whole) if channel == "text" else parts:
            before = self._choices[key].texts[name].full_text()
            if text.strip() != before.strip():
                self._feed_text(name, key, text.removeprefix(before))

    def _feed_piece(self, channel: Channel, key: object, piece: str) -> None:
        if channel == "reasoning":
            self._feed_text(channel, key, piece)
            return
        for name, text in self._choices[key].tags.feed(piece):
            self._feed_text(name, key, text)

    def _feed_text(self, channel: Channel, key: object, piece: str) -> None:
        clean = self._choices[key].texts[channel].feed(piece) if piece else ""
        if piece and self._streams.setdefault(channel, key) == key and clean:
            self._on_delta(ModelDelta(channel, clean))

    def _feed_block(self, block: Json) -> None:
        """Add a piece of thinking to the last block, or begin a block, as after a signature."""
        block = {key: value for key, value in block.items() if value is not None}
        if not isinstance(block.get("type"), str):
            return  # The type decides how a block is sent back, so this one never could be.
        last = self._blocks[-1] if self._blocks else {}
        is_same = all(last.get(key) == block.get(key) for key in ("type", "index"))
        name = _TEXT_OF_BLOCK.get(block["type"])
        if name is None or not is_same or last.get("signature"):
            self._blocks.append(block)
            return
        text = f"{last.get(name, '')}{block.get(name, '')}"
        self._blocks[-1] = {**last, **block, name: text}


def _entries(delta: Json) -> Sequence[Any]:
    """Return the calls in a delta, which may be a list, one call, or calls by their number."""
    entries: Any = delta.get("tool_calls")
    if isinstance(entries, list):
        return cast("list[Any]", entries)
    if not (fields := as_object(entries)):
        function = as_object(delta.get("function_call"))
        return [{"function": function}] if function else ()
    if {"function", "name"} & fields.keys():
        return [fields]
    return [{"index": key, **as_object(each)} for key, each in fields.items()]


def _texts_in(content: Any) -> Iterator[tuple[Channel, str]]:
    """Yield the texts of a content: one text, or parts such as Mistral sends while it reasons."""
    match content:
        case str(text):
            yield "text", text
        case [*parts]:
            for part in parts:
                yield from _texts_in(part)
        case {"thinking": inner} | {"type": "reasoning", "text": inner}:
            for _, text in _texts_in(inner):
                yield "reasoning", text
        case {"text": str(text)}:
            yield "text", text
        case _:
            pass


def _valid_blocks(blocks: list[Json]) -> tuple[Json, ...]:
    """Return the blocks, or none if they hold half a surrogate pair.

    A log cannot store such a block, and the provider would refuse a repaired one.
    """
    try:
        text = dumps(blocks, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
        return tuple(loads(text.decode("utf-16-le")))
    except UnicodeDecodeError:
        return ()
