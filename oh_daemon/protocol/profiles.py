"""User-defined model names: profiles with fallbacks, and routers between models.

They can be used wherever a model is named: in the option `model`, `fallbacks` and `models`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from oh_daemon.protocol.base import StrictContract, problem_in
from oh_daemon.protocol.items import Purpose
from oh_daemon.protocol.llm import LLMSettings

ModelName = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
_NOT_OF_PROFILES = {"apiKey", "api_key", "model"}


def _check_llm(llm: dict[str, Any]) -> dict[str, Any]:
    if wrong := _NOT_OF_PROFILES & llm.keys():
        raise ValueError(
            f"{min(wrong)} does not belong here; a key is found by its provider's variable"
        )
    try:
        LLMSettings.model_validate({"model": "any", **_given_fields(llm)})
    except ValidationError as exc:
        raise ValueError(problem_in(exc)) from None
    return llm


def _given_fields(llm: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in llm.items() if value is not None}


class Profile(StrictContract):
    """A model with its own `llm` options, and the models to use when it fails."""

    model: ModelName
    """The model by its name."""
    llm: Annotated[dict[str, Any], AfterValidator(_check_llm)] = Field(default_factory=dict)
    """Overrides fields of the setting `llm`; null removes a field."""
    fallbacks: tuple[ModelName, ...] = ()
    """Models to try in this order, each when the one before is out of attempts or refuses."""

    def llm_over(self, common: dict[str, Any]) -> LLMSettings:
        """Return the options for calling the model; `common` is the setting `llm`."""
        return LLMSettings.model_validate(
            {**_given_fields({**common, **self.llm}), "model": self.model}
        )


class RouteRule(StrictContract):
    """Send a request to the model `use` when all the given conditions hold."""

    use: ModelName
    """The model to use."""
    images: bool | None = None
    """Whether the request contains an image."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """Minimum size of the request in tokens, as estimated."""
    purpose: Purpose | Literal["step"] | None = None
    """What the request is for."""
    contains: str | None = None
    """Text that the user's last message contains; case is ignored."""


class Router(StrictContract):
    """A model name that stands for several models; each request goes to one of them.

    The first matching rule decides. If none matches, `pick` chooses among those `models` that
    accept the request's images and have room for it.
    """

    models: Annotated[tuple[ModelName, ...], Field(min_length=1)]
    """The models to choose from."""
    pick: Literal["first", "cheapest", "random"] = "first"
    """`random` keeps its choice within a conversation, so that the provider's cache is used."""
    rules: tuple[RouteRule, ...] = ()
    """Which request goes to which model; the first that matches counts."""

    @property
    def names(self) -> tuple[str, ...]:
        """All models that the router may use."""
        return tuple(dict.fromkeys((*self.models, *(rule.use for rule in self.rules))))
