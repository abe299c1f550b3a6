"""The base of all contract models: frozen, camelCase on the wire, unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails


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


def first_error(exc: ValidationError, *above: object, whole: str = "all of it") -> tuple[str, str]:
    """Return the dotted path under `above` of the first error, or `whole`, and what would fit."""
    error = exc.errors(include_url=False, include_input=False)[0]
    return ".".join(map(str, (*above, *error["loc"]))) or whole, said_of(error)


def problem_in(exc: ValidationError, *above: object, whole: str = "all of it") -> str:
    """Describe the first error, after its dotted path."""
    return ": ".join(first_error(exc, *above, whole=whole))


def said_of(error: ErrorDetails) -> str:
    """Say what would fit, after the name of the field; the wrong value itself is never quoted."""
    if (said := _SAID.get(error["type"])) is not None:
        return said.format(**error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ")


_SAID = {
    "missing": "is missing",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    "string_type": "must be a string",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "may have {max_length} characters at most",
    "too_short": "must have {min_length} or more elements",
    "too_long": "may have {max_length} elements at most",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must have one of these as {discriminator}: {expected_tags}",
    "union_tag_not_found": "must have a field {discriminator}",
}
"""What is said in place of pydantic's messages, by its type of error."""


class Position(Contract):
    """A place in a text; `character` counts code units of the negotiated position encoding."""

    line: Annotated[int, Field(ge=0)]
    character: Annotated[int, Field(ge=0)]


class Range(Contract):
    start: Position
    end: Position
