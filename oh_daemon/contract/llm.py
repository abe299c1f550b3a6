"""How to reach one model: endpoint, key, sampling, deadlines.

A key is never serialised: `api_key` and `extra_headers` (which may carry one) are left out of every
dump and repr, so what is read back must be given them again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SecretStr, StringConstraints

from oh_daemon.contract.base import Contract

Fraction = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Price = Annotated[float, Field(ge=0)]
Api = Literal["chat", "responses"]
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]


class LLMSettings(Contract):
    """Parameters of the model layer; what is None is left to the provider."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    model: Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
    """The model by its litellm name, such as `anthropic/claude-sonnet-4-5` or `openai/gpt-5`."""
    api_key: Annotated[SecretStr | None, Field(exclude=True, repr=False)] = None
    """None: the provider's own variable of the environment, such as `OPENAI_API_KEY`."""
    base_url: HttpUrl | None = None
    """Another endpoint than the provider's own, for instance a proxy or a local server. None: what
    the provider's variable says, such as `OPENAI_BASE_URL`, else the provider's own."""
    api_version: str | None = None
    """Of an endpoint that has versions, for instance `2024-10-21`."""
    custom_llm_provider: str | None = None
    """The dialect that `baseUrl` speaks when the model's name does not say it, e.g. `openai`."""
    api: Api | None = None
    """Chat Completions or the Responses API; None: as far as known, and unknown models chat."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """How freely the model chooses its words."""
    top_p: Fraction | None = None
    """Choose among the words that make up this share of probability."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Choose among this many words."""
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of one answer; one that is cut there ends the turn."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    """How much the model thinks before it answers, where it can."""
    extra_headers: Annotated[dict[str, str], Field(exclude=True, repr=False)] = Field(
        default_factory=dict
    )
    """Sent with every request; never shown and never logged."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Fields added to the request's JSON as they are."""
    timeout_s: Seconds = 1800
    """For a whole answer, streamed to its end."""
    first_token_timeout_s: Seconds = 120
    """Until the first piece of an answer, and from one piece to the next."""
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """Of one model call, with growing pauses between them."""
    native_tool_calling: bool | None = None
    """Whether the model calls functions; None: as far as known, and unknown models do. One that
    does not is told of the tools in its prompt and calls them in its text."""
    sees_images: bool | None = None
    """Whether the model takes images; None: as far as known, and unknown models do."""
    edits_by_patch: bool | None = None
    """Whether the model changes files by `apply_patch` instead of by the commands of `edit`; None:
    as its family is used to, and unknown ones use `edit`."""
    caching_prompt: bool = True
    """Mark what can be cached, where the provider wants marks."""
    context_window: Annotated[int, Field(ge=1)] | None = None
    """Input limit in tokens; None: as far as known."""
    input_cost_per_token: Price | None = None
    """In US dollars; both prices together replace litellm's table."""
    output_cost_per_token: Price | None = None
    """In US dollars."""
