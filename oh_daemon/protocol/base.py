"""The base of all contract models: frozen, camelCase on the wire, unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, to_json


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


class StrictContract(Contract):
    """Refuses fields that it does not know, so that a misspelling shows; extensions pass."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"patternProperties": {"^_": {}}})

    @model_validator(mode="before")
    @classmethod
    def _without_extensions(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value).items()
        return {name: each for name, each in fields if not is_extension(name)}


def is_extension(name: str) -> bool:
    """Return whether a field is `_meta` or a vendor's, which this protocol never uses."""
    return name.startswith("_")


Model = TypeVar("Model", bound=BaseModel)


def names_on_wire(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of a model's fields as JSON has them."""
    return tuple(each.alias or name for name, each in model.model_fields.items())


def parse_strictly(model: type[Model], value: object) -> Model:
    """Return what came over the wire as JSON; no other type is taken for the one that is wanted.

    Raises `ValidationError`.
    """
    # Only in JSON mode is a list taken for a tuple, and everything else as it is.
    return model.model_validate_json(to_json(value), strict=True)


def first_error(exc: ValidationError, *above: object, label: str = "all of it") -> tuple[str, str]:
    """Return the dotted path under `above` of the first error, or `whole`, and what would fit."""
    error = exc.errors(include_url=False, include_input=False)[0]
    return ".".join(map(str, (*above, *error["loc"]))) or label, said_of(error)


def problem_in(exc: ValidationError, *above: object, label: str = "all of it") -> str:
    """Describe the first error, after its dotted path."""
    return ": ".join(first_error(exc, *above, label=label))


FIELD_CODES = {
    "missing": "the field must be there",
    "wrong_type": "it must be of another type",
    "unknown": "it names nothing that there is: a value, a type, a setting, a model, a file",
    "out_of_range": "the number is too small or too large",
    "wrong_size": "the text or list is too short or too long",
    "wrong_form": "the text must have another form",
    "not_a_folder": "the folder is not there",
    "not_a_path": "it must be a file URI or an absolute path",
    "not_editable": "this part of an approval cannot be changed",
    "invalid_name": "a secret of this name is not taken",
    "invalid": "anything else; the message says what",
}
"""The names for programs of what is wrong with a field, and what they mean."""


def code_of(error: ErrorDetails) -> str:
    """Return our name for an error that pydantic found."""
    kind = error["type"]
    if kind in _CODES:
        return _CODES[kind]
    return "wrong_type" if kind.endswith(("_type", "_parsing")) else "invalid"


_CODES = {
    **dict.fromkeys(("missing", "union_tag_not_found"), "missing"),
    **dict.fromkeys(("literal_error", "union_tag_invalid"), "unknown"),
    **dict.fromkeys(("too_short", "too_long", "string_too_short", "string_too_long"), "wrong_size"),
    **dict.fromkeys(
        ("greater_than", "greater_than_equal", "less_than", "less_than_equal"), "out_of_range"
    ),
    **dict.fromkeys(("string_pattern_mismatch", "string_unicode"), "wrong_form"),
    **dict.fromkeys(("int_from_float", "json_invalid"), "wrong_type"),
}


def said_of(error: ErrorDetails) -> str:
    """Say what would fit, after the name of the field; the wrong value itself is never quoted."""
    template, details = _SAID.get(error["type"]), error.get("ctx", {})
    if error["type"] == "too_short" and details.get("field_type") == "Value":
        template = _SAID["string_too_short"]  # pydantic does not say of a secret that it is a text.
    if template is not None:
        return template.format(**details)
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
    "string_pattern_mismatch": "has the wrong form; what fits the pattern {pattern} is taken",
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
    """Number of the line, from 0."""
    character: Annotated[int, Field(ge=0)]
    """Place in the line, from 0."""


class Range(Contract):
    start: Position
    """Where it begins."""
    end: Position
    """Where it ends; what is there does not belong to it."""
