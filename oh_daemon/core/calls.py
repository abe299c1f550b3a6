"""Turns what the model wrote into arguments that fit a tool, and these into what it would do.

It never guesses. Repairs change form only (control characters, JSON inside a string, a known other
name of a tool). What cannot be repaired becomes an error that tells the model what to write.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, cast

from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.items import Risk
from oh_daemon.core.dialects import WORDS_ABOUT_A_CALL, in_our_words, own_name, strict_json
from oh_daemon.core.plain_text import is_deep, well_formed_data
from oh_daemon.core.ports import Intent, Json, Tool, ToolCall, ToolSpec

logger = logging.getLogger(__name__)

_MAX_REFERENCES = 5_000
_LEFT_OUT = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")
SELF_RATING: Json = {
    "security_risk": {
        "type": "string",
        "enum": ["low", "medium", "high"],
        "description": "Your own rating of the risk of this call.",
    },
    "summary": {"type": "string", "description": "What this call does, in at most ten words."},
}


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A tool call, checked. With an `error` (text for the model) it must not run."""

    call: ToolCall
    tool: Tool | None
    args: Json = field(default_factory=dict[str, Any])
    risk: Risk | None = None
    summary: str | None = None
    error: str | None = None
    error_kind: str | None = None
    arguments: str = "{}"
    """Valid JSON for the history, whatever the model wrote."""


def parse_call(call: ToolCall, tools: Mapping[str, Tool]) -> ParsedCall:
    """Find the tool, read the arguments, check them against its schema."""
    name, command = own_name(call.name, tools)
    tool = tools.get(name)
    if tool is None:
        known = ", ".join(sorted(tools))
        error = f"There is no tool {call.name!r}. The tools are: {known}."
        return ParsedCall(call, None, error=error, error_kind="unknownTool")
    args, error = _parse_arguments(call.arguments)
    if args is None:
        return ParsedCall(call, tool, error=error, error_kind="invalidArguments")
    arguments = call.arguments if _is_strict_object(call.arguments) else json.dumps(args)
    args = in_our_words(name, tool.spec.input_schema, args, command)
    risk, summary = _taken_out(tool.spec, args)
    problem = schema_problem(tool.spec, args)
    return ParsedCall(
        call,
        tool,
        args,
        risk,
        summary,
        problem,
        "invalidArguments" if problem else None,
        arguments,
    )


def _taken_out(spec: ToolSpec, args: Json) -> tuple[Risk | None, str | None]:
    """Remove the model's rating and its words about the call from the arguments; return them.

    A tool that has an argument of such a name itself keeps it.
    """
    own = set(spec.input_schema.get("properties", {}))
    names: set[str] = set() if spec.read_only else set(SELF_RATING)
    if spec.input_schema.get("additionalProperties") is False:
        names |= {*SELF_RATING, *WORDS_ABOUT_A_CALL}
    said = {name: args.pop(name, None) for name in names - own}
    risk = said.get("security_risk")
    words = next(filter(None, map(said.get, ("summary", *WORDS_ABOUT_A_CALL))), None)
    return (
        risk if risk in ("low", "medium", "high") else None,
        None if words is None or spec.read_only else str(words)[:200],
    )


def _parse_arguments(text: str) -> tuple[Json | None, str]:
    """Return the arguments, or None and why. `strict=False` allows raw line breaks in strings."""
    try:
        value = _loaded(text.strip() or "{}")
        if isinstance(value, str):
            value = _loaded(value)
    except ValueError as exc:
        return None, f"The arguments are not valid JSON: {exc}. Send one JSON object."
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return None, f"The arguments are a JSON {type(value).__name__}; send one JSON object."
    args = cast("Json", value)
    if is_deep(args):
        return None, "The arguments are nested too deeply; send flatter ones."
    if "\\u" in text:
        # Half of a surrogate pair cannot be written to a log, to a file or in a command.
        args = well_formed_data(args)
    return dict(args), ""


def _loaded(text: str) -> object:
    try:
        return _decoded(text)
    except ValueError as first:
        try:
            return _decoded(strict_json(text))
        except ValueError:
            raise first from None


def _decoded(text: str) -> object:
    try:
        return json.loads(text, strict=False, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("they are nested too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _is_strict_object(text: str) -> bool:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return False
    return isinstance(value, dict)


def schema_problem(spec: ToolSpec, args: Json) -> str | None:
    """Return what is wrong with `args`, naming the field, or None when they fit."""
    validator, broken = _validator(json.dumps(spec.input_schema, sort_keys=True))
    if spec.is_foreign:
        validator = _in_bounded_time(spec.input_schema)
    try:
        errors = sorted(validator.iter_errors(args), key=lambda error: list(error.absolute_path))
    except broken as exc:
        reason = str(exc)[:200]
        return f"The tool {spec.name} cannot be used, since its schema is broken: {reason}."
    except _TooManyReferences:
        return None
    if not errors:
        return None
    shown = "; ".join(
        f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message[:300]}"
        for error in errors[:3]
    )
    known = ", ".join(spec.input_schema.get("properties", {}))
    is_name = any(error.validator in {"required", "additionalProperties"} for error in errors)
    names = f" It takes: {known}." if is_name and known else ""
    return f"The arguments of {spec.name} do not fit its schema: {shown}.{names}"


def plan(tool: Tool, args: Json) -> Intent:
    """Ask the tool what it would do. Raises `ToolError`, for the model, whatever breaks there."""
    try:
        return tool.plan(args)
    except ToolError:
        raise
    except Exception as exc:
        logger.exception("tool %s could not plan", tool.spec.name)
        raise ToolError(f"{tool.spec.name} broke before it ran: {exc!r}. Nothing changed.") from exc


def schema_flaw(schema: Json) -> str | None:
    """Return why this is not a valid JSON Schema, or None."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - takes 60 ms.

    if is_deep(schema):
        return "it is nested too deeply"
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError) as exc:
        return str(exc).splitlines()[0][:200]
    return None


@lru_cache(maxsize=256)
def _validator(schema: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return the validator, and what it raises for a circular, dangling or invalid schema."""
    # jsonschema takes 60 ms to import, which `initialize` must not pay.
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - a slow import, see above.
    from jsonschema.exceptions import UnknownType  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    broken = (RecursionError, re.error, UnknownType, Unresolvable)
    # Without an explicit registry it would fetch any address that a schema names.
    return Draft202012Validator(json.loads(schema), registry=Registry[Any]()), broken


class _TooManyReferences(Exception):  # noqa: N818 - nothing is wrong, it only takes too long.
    """A check was given up."""


def _in_bounded_time(schema: Json) -> Any:
    """Return a validator for one use that leaves out what a schema can make take for ever.

    That is each regular expression (while Python matches one, no other thread runs, so the daemon
    would stand still), and references beyond a limit, of which a few lines make billions.
    """
    import jsonschema  # noqa: PLC0415 - takes 60 ms.
    from referencing import Registry  # noqa: PLC0415

    untyped: Any = jsonschema
    checks: Json = {**untyped.Draft202012Validator.VALIDATORS}
    left = iter(range(_MAX_REFERENCES))

    def follow(keyword: str, *parts: Any) -> Iterator[Any]:
        if next(left, None) is None:
            raise _TooManyReferences
        yield from checks[keyword](*parts) or ()

    def check_names(validator: Any, value: Any, instance: Any, within: Json) -> Iterator[Any]:
        if "patternProperties" not in within:
            yield from checks["additionalProperties"](validator, value, instance, within) or ()

    bounded: Json = {name: partial(follow, name) for name in ("$ref", "$dynamicRef")}
    bounded |= dict.fromkeys(_LEFT_OUT, _passes)
    bounded["additionalProperties"] = check_names
    kind = untyped.validators.extend(untyped.Draft202012Validator, bounded)
    return kind(schema, registry=Registry[Any]())


def _passes(*_parts: Any) -> tuple[()]:
    return ()


def render_tool(spec: ToolSpec) -> Json:
    """Return the tool as the model gets it, with a self-rating unless the tool only reads."""
    schema = dict(spec.input_schema)
    if not spec.read_only:
        own = schema.get("properties", {})
        # The tool's own argument of such a name stays as it is, and in its place.
        schema["properties"] = {**own, **SELF_RATING, **own}
    function = {"name": spec.name, "description": spec.description, "parameters": schema}
    return {"type": "function", "function": function}
