"""The base of all contract models: frozen, camelCase on the wire, unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel


class Contract(BaseModel):
    """Base class of everything that leaves the process, on the wire or on disk."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        # Validators are built at first use: `initialize` needs four of these eighty models.
        defer_build=True,
    )


def problem_in(exc: ValidationError, *above: object, whole: str = "all of it") -> str:
    """Describe the first error, after its dotted path under `above`; `whole` if that is empty."""
    error = exc.errors(include_url=False, include_input=False)[0]
    said = error["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, (*above, *error['loc']))) or whole}: {said}"


class Position(Contract):
    """A place in a text; `character` counts code units of the negotiated position encoding."""

    line: Annotated[int, Field(ge=0)]
    character: Annotated[int, Field(ge=0)]


class Range(Contract):
    start: Position
    end: Position
