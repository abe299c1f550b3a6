"""Assembles a streamed answer from chunks in OpenAI's form; pure, whatever delivers the chunks.

Invariant: all text that it returns is valid Unicode, so the next request is strict JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from json import dumps, loads
from typing import Any, Literal

from pydantic import InstanceOf, TypeAdapter
from typing_extensions import TypedDict

from oh_daemon.common.plain_text import well_formed
from oh_daemon.features.models.stream_events import broken_event
from oh_daemon.kernel.ports import Json, ModelAnswer, ModelDelta, ToolCall
from oh_daemon.protocol.status import Usage

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", ""]
_FINISH: Mapping[str, FinishReason] = {
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
_TEXT_OF_BLOCK: Mapping[str, str] = {
    "thinking": "thinking",
    "reasoning.text": "text",
    "reasoning.summary": "summary",
}
"""Kinds of thinking blocks that come in pieces (Anthropic, OpenRouter), with their text's field."""
_HIGH_SURROGATES = ("\ud800", "\udbff")


@dataclass(slots=True)
class _Text:
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

    def whole(self) -> str:
        return "".join(self.pieces) + ("\ufffd" if self.half else "")


@dataclass(slots=True)
class _Call:
    id: str
    name: str = ""
    arguments: _Text = field(default_factory=_Text)


class _Function(TypedDict, total=False):
    # pydantic's str refuses half a surrogate pair, which a piece may hold.
    name: InstanceOf[str] | None
    arguments: InstanceOf[str] | None


class _CallPiece(TypedDict, total=False):
    index: int | None
    id: InstanceOf[str] | None
    function: _Function | None


class _Delta(TypedDict, total=False):
    tool_calls: list[_CallPiece] | None
    thinking_blocks: list[dict[str, Any]] | None
    reasoning_details: list[dict[str, Any]] | None


class _Choice(TypedDict, total=False):
    delta: _Delta | None
    finish_reason: str | None


class _Chunk(TypedDict, total=False):
    choices: list[_Choice] | None
    usage: dict[str, Any] | None


_CHUNK = TypeAdapter(_Chunk)
"""The form of the fields that `Assembly` reads; other fields may have any form."""


def chunks_of(events: Iterable[Json], translate: Callable[[Json], Json]) -> Iterator[Json]:
    """Yield what becomes of each event. Raises `broken_event()` for one of another form."""
    for event in events:
        try:
            chunk = translate(event)
            _CHUNK.validate_python(chunk)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise broken_event() from None
        yield chunk


def delta_chunk(**delta: Any) -> Json:
    return {"choices": [{"delta": delta}]}


def call_chunk(index: int, function: Json, call_id: str | None = None) -> Json:
    """Return a piece of a call; its first piece has the id and the name."""
    return delta_chunk(tool_calls=[{"index": index, "id": call_id, "function": function}])


class Assembly:
    """Feed it every chunk, then call `answer`. `on_delta` gets each piece as it comes."""

    def __init__(self, on_delta: Callable[[ModelDelta], None]) -> None:
        self._on_delta = on_delta
        self._texts: dict[Literal["text", "reasoning"], _Text] = {
            "text": _Text(),
            "reasoning": _Text(),
        }
        self._calls: list[_Call] = []
        self._call_by_index: dict[int, _Call] = {}
        self._blocks: list[Json] = []
        self._response_id: str | None = None
        self.usage: Json | None = None
        self.finish_reason: str | None = None

    def feed(self, chunk: Json) -> None:
        self._response_id = self._response_id or chunk.get("id")
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices")
        if not choices:
            return
        choice = choices[0]
        delta: Json = choice.get("delta") or {}
        self._feed_text("reasoning", delta.get("reasoning_content") or delta.get("reasoning"))
        self._feed_text("text", delta.get("content"))
        if delta.get("refusal"):
            self._feed_text("text", delta["refusal"])
            self.finish_reason = "refusal"
        for name in ("thinking_blocks", "reasoning_details"):
            for block in delta.get(name) or ():
                self._feed_block(block)
        for piece in delta.get("tool_calls") or ():
            self._feed_call(piece)
        self.finish_reason = self.finish_reason or choice.get("finish_reason")

    def answer(self, usage: Usage) -> ModelAnswer:
        """Return what came; its finish reason is empty when the provider gave none."""
        calls = tuple(
            ToolCall(_valid(call.id), _valid(call.name), call.arguments.whole())
            for call in self._calls
        )
        finish = _FINISH.get(self.finish_reason, "stop") if self.finish_reason else ""
        return ModelAnswer(
            text=self._texts["text"].whole(),
            reasoning=self._texts["reasoning"].whole(),
            thinking_blocks=_valid_blocks(self._blocks),
            tool_calls=calls,
            finish_reason="tool_calls" if calls and finish == "stop" else finish,
            usage=usage,
            response_id=self._response_id,
        )

    def _feed_text(self, channel: Literal["text", "reasoning"], piece: Any) -> None:
        if isinstance(piece, str) and piece:
            clean = self._texts[channel].feed(piece)
            if clean:
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

    def _feed_call(self, piece: Json) -> None:
        function: Json = piece.get("function") or {}
        call = self._call_at(piece.get("index") or 0, piece.get("id") or "")
        call.name = call.name or function.get("name") or ""
        if function.get("arguments"):
            call.arguments.feed(function["arguments"])

    def _call_at(self, index: int, call_id: str) -> _Call:
        """Return a piece's call. Some servers use index 0 for all, so a new id is a new call."""
        call = self._call_by_index.get(index)
        if call is None or (call_id and call.id not in ("", call_id)):
            call = self._call_by_index[index] = _Call(call_id)
            self._calls.append(call)
        call.id = call.id or call_id
        return call


def _valid_blocks(blocks: list[Json]) -> tuple[Json, ...]:
    """Return the blocks, or none if they hold half a surrogate pair.

    A log cannot store such a block, and the provider would refuse a repaired one.
    """
    try:
        text = dumps(blocks, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
        return tuple(loads(text.decode("utf-16-le")))
    except UnicodeDecodeError:
        return ()


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
