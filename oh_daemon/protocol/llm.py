"""How to call one model: endpoint, key, sampling, timeouts.

A key is never serialised: `api_key` and `extra_headers` (which may carry one) are left out of every
dump and repr, so they must be set again after a dump is read back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
)

from oh_daemon.protocol.base import StrictContract

if TYPE_CHECKING:
    # Type checkers do not know that pydantic also accepts the key as plain text.
    Key = SecretStr | str
else:
    Key = SecretStr
Fraction = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Price = Annotated[float, Field(ge=0)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
EFFORTS: tuple[str, ...] = get_args(Effort)
Api = Literal["chat", "responses"]
_URL = r"^https?://\S+$"


def _check_url(value: str) -> str:
    if not re.match(_URL, value):
        raise ValueError("a URL begins with http:// or https://")
    return value


HttpUrl = Annotated[
    str, AfterValidator(_check_url), WithJsonSchema({"type": "string", "pattern": _URL})
]


class LLMSettings(StrictContract):
    """Options for model calls; the provider decides about those that are None."""

    model_config = ConfigDict(hide_input_in_errors=True)

    model: Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
    """The model by its litellm name, such as `anthropic/claude-sonnet-5-5`."""
    api_key: Annotated[Key | None, Field(exclude=True, repr=False)] = None
    """API key. If unset, the provider's environment variable is used, such as `OPENAI_API_KEY`."""
    base_url: HttpUrl | None = None
    """URL of the endpoint, for instance a proxy or a local server. If unset, the provider's
    environment variable is used, such as `OPENAI_BASE_URL`, else the provider's own endpoint."""
    api_version: str | None = None
    """API version of an endpoint that has versions, for instance `2024-10-21`."""
    custom_llm_provider: str | None = None
    """The provider whose API `baseUrl` speaks, for instance `openai`; needed when the model's name
    does not say it."""
    client: Literal["auto", "litellm"] = "auto"
    """What sends the requests. `auto` asks the common providers directly and all others through
    litellm; `litellm` asks every model through litellm."""
    api: Api | None = None
    """Chat Completions (`chat`) or the Responses API (`responses`). If unset, litellm's model data
    decides; unknown models use `chat`."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature; a higher value makes answers more varied."""
    top_p: Fraction | None = None
    """Sample only from the most likely tokens whose probabilities add up to this share."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Sample only from this many of the most likely tokens."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """Maximum length of one answer in tokens. An answer that is cut off there ends the turn."""
    reasoning_effort: Effort | None = None
    """How much the model thinks before it answers, if it supports that."""
    extra_headers: Annotated[dict[str, str], Field(exclude=True, repr=False)] = Field(
        default_factory=dict
    )
    """HTTP headers to send with every request; never shown and never logged."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Fields to add to the request's JSON body, unchanged."""
    timeout_s: Seconds = 1800
    """Timeout in seconds for a whole answer, until its stream ends."""
    first_token_timeout_s: Seconds | None = None
    """Timeout in seconds for the first piece of an answer, and from each piece to the next. If
    unset, 120; 1,200 for a server on this machine or in a private network."""
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """How often to attempt one model call, with growing pauses between attempts."""
    native_tool_calling: bool | None = None
    """Whether the model supports function calling. If unset, litellm's model data or the
    endpoint decides; unknown models are assumed to. If false, the prompt describes the tools, and
    the model calls them in its text."""
    sees_images: bool | None = None
    """Whether the model accepts images. If unset, litellm's model data or the endpoint decides;
    unknown models are assumed to."""
    edits_by_patch: bool | None = None
    """Whether the model edits files with the tool `apply_patch` instead of `edit`. If unset, the
    model's name decides; unknown models use `edit`."""
    caching_prompt: bool = True
    """Mark the parts of a prompt that can be cached, for providers that need such marks."""
    context_window: Annotated[int, Field(ge=1)] | None = None
    """Maximum input in tokens. If unset, litellm's model data or the endpoint decides; llama.cpp,
    LM Studio, Ollama and vLLM are asked for the window that they run the model with."""
    input_cost_per_token: Price | None = None
    """Price of an input token in US dollars. Setting both prices replaces litellm's price table. A
    model that a server on this machine runs costs nothing."""
    output_cost_per_token: Price | None = None
    """Price of an output token in US dollars."""

    @property
    def key(self) -> str | None:
        """The API key as text."""
        return self.api_key.get_secret_value() if isinstance(self.api_key, SecretStr) else None
