"""Models by names that the user gives: profiles with fallbacks, and routers between models.

Wherever a model is named (option `model`, `fallbacks`, a router's `models`) these names may stand.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, ValidationError

from oh_daemon.contract.base import Contract, problem_in
from oh_daemon.contract.items import Purpose
from oh_daemon.contract.llm import LLMSettings

ModelName = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_NOT_OF_PROFILES = {"apiKey", "api_key", "model"}


def _check_llm(llm: dict[str, Any]) -> dict[str, Any]:
    if wrong := _NOT_OF_PROFILES & llm.keys():
        raise ValueError(
            f"{min(wrong)} does not belong here; a key is found by its provider's variable"
        )
    try:
        LLMSettings.model_validate({"model": "any", **_given(llm)})
    except ValidationError as exc:
        raise ValueError(problem_in(exc)) from None
    return llm


def _given(llm: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in llm.items() if value is not None}


class Profile(Contract):
    """A model with settings of its own, and what to use when it does not answer."""

    model_config = ConfigDict(extra="forbid")

    model: ModelName
    llm: Annotated[dict[str, Any], AfterValidator(_check_llm)] = Field(default_factory=dict)
    """Laid over the setting `llm`; a null takes back what that says."""
    fallbacks: tuple[ModelName, ...] = ()
    """Tried in this order when the attempts of the one before are used up, or it refuses."""

    def llm_over(self, common: dict[str, Any]) -> LLMSettings:
        """How to reach it; `common` is the setting `llm`."""
        return LLMSettings.model_validate({**_given({**common, **self.llm}), "model": self.model})


class RouteRule(Contract):
    """When all conditions that it names hold, `use` answers."""

    model_config = ConfigDict(extra="forbid")

    use: ModelName
    images: bool | None = None
    """Whether the request holds an image."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """Of the request, estimated."""
    purpose: Purpose | Literal["step"] | None = None
    contains: str | None = None
    """In the user's last message, in any case."""


class Router(Contract):
    """A model that lets another one answer each request.

    The first rule that holds decides; else one of `models` that sees the request's images and has
    room for it.
    """

    model_config = ConfigDict(extra="forbid")

    models: Annotated[tuple[ModelName, ...], Field(min_length=1)]
    pick: Literal["first", "cheapest", "random"] = "first"
    """`random` stays with its choice in a conversation, so that the provider's cache helps."""
    rules: tuple[RouteRule, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All models that it may use."""
        return tuple(dict.fromkeys((*self.models, *(rule.use for rule in self.rules))))
