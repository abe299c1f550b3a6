"""What a dialect is: how requests of one API for models are written and how its stream is read.

Pure. Chat Completions is in `chat`, Anthropic's Messages in `anthropic`, Responses in `responses`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import NamedTuple

import orjson
from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.models.capabilities import Capabilities, efforts_in
from oh_daemon.features.models.model_messages import in_text, lacks_thinking, prepare_messages
from oh_daemon.features.models.providers import Provider
from oh_daemon.features.models.request_healing import SentTool, in_order, sent_tools
from oh_daemon.features.models.request_rules import Rules
from oh_daemon.kernel.ports import Json, ModelRequest
from oh_daemon.protocol.llm import LLMSettings


class MessageGroup(NamedTuple):
    """Some of a request's messages, one after the other."""

    messages: Sequence[Json]
    is_start: bool = False
    is_end: bool = False


class ProviderCall(Struct, frozen=True):
    """One request to a model, with all that decides how it is written."""

    request: ModelRequest
    settings: LLMSettings
    can: Capabilities
    provider: Provider | None = None
    """None when only litellm knows the provider."""
    part: MessageGroup | None = None
    """What to write of the messages, unless all; see `encoded_body`."""

    @property
    def model(self) -> str:
        """The model's name as its provider has it, without the provider's own name in front."""
        name = self.settings.model
        return self.provider.model_in(name) if self.provider else name

    @property
    def messages(self) -> Sequence[Json]:
        """The messages to write; in text if the model cannot call functions."""
        messages, is_start, _ = self._part
        if self.can.calls_functions:
            return messages
        return in_text(messages, self.request.tools if is_start else ())

    @property
    def prepared_messages(self) -> list[Json]:
        """The messages to write, prepared for chat completions."""
        _, is_start, is_end = self._part
        messages = prepare_messages(
            self.messages, self.settings.model, self.can, is_start=is_start, is_end=is_end
        )
        return in_order(messages, self.can.rules)

    @property
    def _part(self) -> MessageGroup:
        return self.part or MessageGroup(self.request.messages, is_start=True, is_end=True)

    @property
    def tools(self) -> Sequence[Json]:
        return [{"type": "function", "function": each.function} for each in self.sent_tools]

    @property
    def sent_tools(self) -> Sequence[SentTool]:
        """The tools of the request as the provider takes them."""
        return sent_tools(self.request.tools, self.can.rules) if self.can.calls_functions else ()

    @property
    def tool_choice(self) -> str | None:
        """Return None when the provider's default, `auto`, is meant."""
        choice = self.request.tool_choice
        return choice if self.tools and choice != "auto" else None

    @property
    def cache_key(self) -> str | None:
        takes_key = self.provider is not None and self.provider.takes_cache_key
        return self.request.cache_key if takes_key else None

    @property
    def effort(self) -> str | None:
        """The reasoning effort; None when the model must not think in this tool loop."""
        needs_thinking = self.can.quirks.needs_thinking_in_loop
        if needs_thinking and lacks_thinking(self.request.messages, self.settings.model):
            return None
        effort = self.request.effort
        return effort if effort in efforts_in(self.can.row) else self.settings.reasoning_effort


class Dialect(Struct, frozen=True):
    """One API for models."""

    path: str
    """What follows the provider's address, as in `/chat/completions`."""
    headers: Callable[[str | None], dict[str, str]]
    """From the key; `content-type` and the user's own headers are added by the transport."""
    body: Callable[[ProviderCall], Json]
    """The whole JSON body, with the settings' `extra_body`."""
    field: str
    """The field of the body that has the messages, but for the system prompt in some dialects.

    A body of two parts of a conversation has the messages of both bodies, if the second part begins
    with an answer of the model and the first one does not end with one.
    """
    chunks: Callable[[Iterator[Json]], Iterator[Json]]
    """Turns the events of a stream into chunks of chat completions, which `Assembly` reads.

    It raises `broken_event()` for an event of another form. Errors that the provider reports in the
    stream were raised before (see `events`), and a stream that ends early just ends.
    """


def without_none(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


_MOST_RUNS = 64
"""How many runs are written as one piece where many are new, as those of a log just opened."""
_MARKED_PIECES = 2
"""Cache marks are at the end of the last run, a piece of its own, and of the one before it."""


class _Piece(NamedTuple):
    """Some messages, by their places, and their bytes."""

    start: int
    end: int
    data: bytes


class EncodedMessages:
    """The messages of one conversation, as one model gets them. For one thread at a time."""

    def __init__(self) -> None:
        self._form: tuple[str | None, Rules | None] = None, None
        self._messages: Sequence[Json] = ()
        self._pieces: list[_Piece] = []

    def pieces(self, call: ProviderCall, write: Callable[[MessageGroup], bytes]) -> list[bytes]:
        """Return what comes after the system prompt, of which only new messages are written."""
        messages, before, n_same = call.request.messages, self._messages, 0
        form = call.effort, call.can.rules
        if form != self._form:
            # Some providers want other messages of a model that thinks, or after a refusal.
            before, self._pieces = (), []
        if len(before) <= len(messages) and all(map(is_, before, messages)):
            # The last run may go on.
            n_same = max(len(self._pieces) - 1, 0)
        pieces_by_start = {piece.start: piece for piece in self._pieces[n_same:]}
        begin = self._pieces[n_same].start if n_same else 1
        pieces, bounds = self._pieces[:n_same], _bounds(messages, begin)
        places = {bound: n for n, bound in enumerate(bounds)}
        n = 0
        while n < len(bounds) - 1:
            start, earlier = bounds[n], pieces_by_start.get(bounds[n])
            end = earlier.end if earlier else 0
            if end not in places:
                end, earlier = bounds[max(min(n + _MOST_RUNS, len(bounds) - 2), n + 1)], None
            new = messages[start:end]
            if earlier is None or not all(map(is_, new, before[start:end])):
                earlier = _Piece(start, end, write(MessageGroup(new)))
            pieces.append(earlier)
            n = places[end]
        self._form, self._messages, self._pieces = form, messages, pieces
        return [piece.data for piece in pieces]

    def last(self, n_pieces: int) -> tuple[int, int]:
        """Return how many pieces come before the last ones, and where those begin."""
        n_before = max(len(self._pieces) - n_pieces, 0)
        return n_before, self._pieces[n_before].start if self._pieces else len(self._messages)


def encoded_body(dialect: Dialect, call: ProviderCall, cache: EncodedMessages) -> bytes:
    """Return the body; what was encoded for the conversation's last request is used again."""
    messages, name = call.request.messages, dialect.field
    is_apart = messages[0]["role"] == "system" and call.can.rules.takes_system
    if not is_apart or name in call.settings.extra_body:
        return encode_body(dialect.body(call))

    def write(part: MessageGroup) -> bytes:
        request = replace(call.request, tools=())
        items = dialect.body(replace(call, request=request, part=part))[name]
        return encode_body(items)[1:-1]

    fields = dialect.body(replace(call, part=MessageGroup(messages[:1], is_start=True)))
    pieces = [encode_body(fields.pop(name))[1:-1], *cache.pieces(call, write)]
    if call.can.quirks.wants_cache_marks:
        n_before, start = cache.last(_MARKED_PIECES)
        pieces[1 + n_before :] = [write(MessageGroup(messages[start:], is_end=True))]
    return b'%b,"%b":[%b]}' % (
        encode_body(fields)[:-1],
        name.encode(),
        b",".join(filter(None, pieces)),
    )


def _bounds(messages: Sequence[Json], begin: int) -> list[int]:
    """Return where runs from `begin` on start, and the end; one begins with a model's answer."""
    answers = [message["role"] == "assistant" for message in messages[begin:]]
    starts = (n for n in range(1, len(answers)) if answers[n] and not answers[n - 1])
    return [*range(begin, len(messages))[:1], *(begin + n for n in starts), len(messages)]


def encode_body(body: Json | list[Json]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:
        # Half characters, and numbers of more than 64 bits, which a tool's schema may have.
        return json.dumps(body).encode()
