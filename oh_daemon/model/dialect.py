"""What a dialect is: how requests of one API for models are written and how its stream is read.

Pure. Chat Completions is in `chat`, Anthropic's Messages in `anthropic`, Responses in `responses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from oh_daemon.contract.llm import LLMSettings
from oh_daemon.core.ports import Json, ModelRequest
from oh_daemon.model.capabilities import Capabilities
from oh_daemon.model.events import broken_event
from oh_daemon.model.messages import lacks_thinking, prepare_messages
from oh_daemon.model.providers import Provider
from oh_daemon.model.text_tools import in_text


class Part(NamedTuple):
    """Some of a request's messages, one after the other."""

    messages: Sequence[Json]
    is_start: bool = False
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a model, with all that decides how it is written."""

    request: ModelRequest
    settings: LLMSettings
    can: Capabilities
    provider: Provider | None = None
    """None when only litellm knows the provider."""
    part: Part | None = None
    """What to write of the messages, unless all; see `written`."""

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
    def prepared(self) -> list[Json]:
        """The messages to write, prepared for chat completions."""
        _, is_start, is_end = self._part
        return prepare_messages(
            self.messages, self.settings.model, self.can, is_start=is_start, is_end=is_end
        )

    @property
    def _part(self) -> Part:
        return self.part or Part(self.request.messages, is_start=True, is_end=True)

    @property
    def tools(self) -> Sequence[Json]:
        return self.request.tools if self.can.calls_functions else ()

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
        return self.settings.reasoning_effort


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API for models."""

    path: str
    """What follows the provider's address, as in `/chat/completions`."""
    headers: Callable[[str | None], dict[str, str]]
    """From the key; `content-type` and the user's own headers are added by the transport."""
    body: Callable[[Call], Json]
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


def bearer_headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def translated(
    events: Iterator[Json], form: TypeAdapter[Any], translate: Callable[[Json], Json]
) -> Iterator[Json]:
    """Yield what becomes of each event. Raises `broken_event()` for one that has not this form."""
    for event in events:
        try:
            form.validate_python(event)
            chunk = translate(event)
        except (ValueError, KeyError):
            raise broken_event() from None
        yield chunk


def without_none(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
