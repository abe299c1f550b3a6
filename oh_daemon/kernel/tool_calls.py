"""What the model wrote, as arguments that fit a tool; and what the tool gave, as it reads it.

Parsing never guesses. Repairs change form only (control characters, JSON inside a string, Python's
quotes, last commas, a known other name of a tool). What cannot be repaired becomes an error that
tells the model what to write.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.instructions import ContextFile, instructions_part, is_instructions
from oh_daemon.common.masking import Masker
from oh_daemon.common.plain_text import is_deep, shorten, well_formed, well_formed_data
from oh_daemon.kernel.call_aliases import (
    WORDS_ABOUT_A_CALL,
    in_our_words,
    own_name,
    repaired_json,
    strict_json,
)
from oh_daemon.kernel.ports import Intent, Json, Tool, ToolCall, ToolResult, ToolSpec
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import Risk

logger = logging.getLogger(__name__)

_MAX_REFERENCES = 5_000
_LEFT_OUT = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")
SELF_RATING: Json = {
    "security_risk": {"type": "string", "enum": ["low", "medium", "high"]},
    "summary": {"type": "string", "description": "What this call does, in at most ten words."},
}


_NOT_THERE = {"ask": "You cannot ask the user here: decide, and say so."}
"""What to do instead of calling a tool that is known, but not offered."""
_BESIDE = {"edit": ("apply_patch", "Change files with apply_patch.")}
"""What to say of a wrong call of a tool beside another that does a part of its work."""


class ParsedCall(Struct, frozen=True):
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
        names = ", ".join(sorted(n for n, t in tools.items() if t.spec.access != "onDemand"))
        error = _NOT_THERE.get(name, f"There is no tool {call.name!r}. The tools are: {names}.")
        return ParsedCall(call, None, error=error, error_kind="unknownTool")
    args, error = _parse_arguments(call.arguments)
    if args is None:
        return ParsedCall(call, tool, error=error, error_kind="invalidArguments")
    arguments = call.arguments if _is_strict_object(call.arguments) else json.dumps(args)
    args = in_our_words(name, tool.spec.input_schema, args, command)
    risk, summary = _taken_out(tool.spec, args)
    problem = schema_problem(tool.spec, args)
    other_tool, words = _BESIDE.get(name, ("", ""))
    if problem and other_tool in tools:
        problem = f"{problem} {words}"
    parsed_call = ParsedCall(
        call,
        tool,
        args,
        risk,
        summary,
        problem,
        "invalidArguments" if problem else None,
        arguments,
    )
    is_forwarded = tool.spec.access == "forwards" and problem is None
    return _forwarded(parsed_call, tools) if is_forwarded else parsed_call


def _forwarded(outer: ParsedCall, tools: Mapping[str, Tool]) -> ParsedCall:
    """Return the call that the arguments describe; the history has it as the model wrote it."""
    arguments = json.dumps(outer.args.get("arguments", {}))
    inner_call = replace(outer.call, name=outer.args["name"], arguments=arguments)
    inner = parse_call(inner_call, tools)
    rating = {"risk": inner.risk or outer.risk, "summary": inner.summary or outer.summary}
    return replace(inner, call=outer.call, arguments=outer.arguments, **rating)


def _taken_out(spec: ToolSpec, args: Json) -> tuple[Risk | None, str | None]:
    """Remove the model's rating and its words about the call from the arguments; return them.

    A tool that has an argument of such a name itself keeps it.
    """
    own = set(spec.input_schema.get("properties", {}))
    names: set[str] = set() if spec.read_only else set(SELF_RATING)
    if spec.input_schema.get("additionalProperties") is False:
        names |= {*SELF_RATING, *WORDS_ABOUT_A_CALL}
    rating = {name: args.pop(name, None) for name in names - own}
    risk = rating.get("security_risk")
    words = next(filter(None, map(rating.get, ("summary", *WORDS_ABOUT_A_CALL))), None)
    return (
        risk if risk in ("low", "medium", "high") else None,
        None if words is None or spec.read_only else str(words)[:200],
    )


def _parse_arguments(text: str) -> tuple[Json | None, str]:
    """Return the arguments, or None and why. `strict=False` allows raw line breaks in strings."""
    try:
        value = _load_json(text.strip() or "{}")
        if isinstance(value, str):
            value = _load_json(value)
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


def _load_json(text: str) -> object:
    try:
        return _decode_json(text)
    except ValueError as first:
        for value in (strict_json(text), strict_json(repaired_json(text))):
            with suppress(ValueError):
                return _decode_json(value)
        raise first from None


def _decode_json(text: str) -> object:
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
    validator, broken_errors = _validator(json.dumps(spec.input_schema, sort_keys=True))
    if spec.is_foreign:
        validator = _in_bounded_time(spec.input_schema)
    try:
        errors = sorted(validator.iter_errors(args), key=lambda error: list(error.absolute_path))
    except broken_errors as exc:
        reason = str(exc)[:200]
        return f"The tool {spec.name} cannot be used, since its schema is broken: {reason}."
    except _TooManyReferences:
        return None
    if not errors:
        return None
    problems = "; ".join(
        f"{'.'.join(map(str, error.absolute_path)) or 'arguments'}: {error.message[:300]}"
        for error in errors[:3]
    )
    properties = ", ".join(spec.input_schema.get("properties", {}))
    is_name = any(error.validator in {"required", "additionalProperties"} for error in errors)
    names = f" It takes: {properties}." if is_name and properties else ""
    return f"The arguments of {spec.name} do not fit its schema: {problems}.{names}"


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

    errors = (RecursionError, re.error, UnknownType, Unresolvable)
    # Without an explicit registry it would fetch any address that a schema names.
    return Draft202012Validator(json.loads(schema), registry=Registry[Any]()), errors


class _TooManyReferences(Exception):  # noqa: N818 - nothing is wrong, it only takes too long.
    """A check was given up."""


def _in_bounded_time(schema: Json) -> Any:
    """Return a validator for one use that leaves out what a schema can make take for ever.

    That is each regular expression (while Python matches one, no other thread runs, so the daemon
    would stand still), and references beyond a limit, of which a few lines make billions.
    """
    import jsonschema  # noqa: PLC0415 - takes 60 ms.
    from referencing import Registry  # noqa: PLC0415

    jsonschema_module: Any = jsonschema
    checks: Json = {**jsonschema_module.Draft202012Validator.VALIDATORS}
    budget = iter(range(_MAX_REFERENCES))

    def follow(keyword: str, *parts: Any) -> Iterator[Any]:
        if next(budget, None) is None:
            raise _TooManyReferences
        yield from checks[keyword](*parts) or ()

    def check_names(validator: Any, value: Any, instance: Any, within: Json) -> Iterator[Any]:
        if "patternProperties" not in within:
            yield from checks["additionalProperties"](validator, value, instance, within) or ()

    followers: Json = {name: partial(follow, name) for name in ("$ref", "$dynamicRef")}
    followers |= dict.fromkeys(_LEFT_OUT, _passes)
    followers["additionalProperties"] = check_names
    kind = jsonschema_module.validators.extend(jsonschema_module.Draft202012Validator, followers)
    return kind(schema, registry=Registry[Any]())


def _passes(*_parts: Any) -> tuple[()]:
    return ()


def render_tool(spec: ToolSpec) -> Json:
    """Return the tool as the model gets it, with a self-rating unless the tool only reads."""
    if spec.read_only:
        return render_function(spec)
    own = spec.input_schema.get("properties", {})
    # The tool's own argument of such a name stays as it is, and in its place.
    schema = {**spec.input_schema, "properties": {**own, **SELF_RATING, **own}}
    return render_function(replace(spec, input_schema=schema))


def render_function(spec: ToolSpec) -> Json:
    """Return the tool in the form of OpenAI's chat completions."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.input_schema,
    }
    return {"type": "function", "function": function}


MAX_TEXT_CHARS = 64 << 10
_MAX_PART_CHARS = 16 << 20
_IMAGE_HEADS = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
"""How the base64 of an image begins, and its kind."""
_MAX_SEEN_CHARS = 5 << 20
"""The smallest limit of a provider on one image, Anthropic's."""
_MAX_INLINE_CHARS = 32 << 10
"""Longer base64 is stored as a blob, since each line of the log is read for every request."""


def presentable(result: ToolResult, masker: Masker) -> ToolResult:
    """Return the result with content that is JSON in MCP's form and not too long."""
    content: Iterable[object] = result.content
    meta = _loggable(_render_value(result.meta))

    def short(text: str) -> str:
        return shorten(text, MAX_TEXT_CHARS, masker.part)

    parts = tuple(_part(part, short) for part in content)
    # Names of instructions, and the mark on their parts, are for `with_instructions` to set.
    own_meta = _without(cast("Json", meta), "contextFiles") if isinstance(meta, dict) else {}
    return replace(result, content=parts, meta=own_meta)


def with_blobs(result: ToolResult, put_blob: Callable[[bytes], str]) -> ToolResult:
    """Return the result with its large images, sounds and files stored beside the log."""
    return replace(result, content=tuple(_with_blob(part, put_blob) for part in result.content))


def _with_blob(part: Json, put_blob: Callable[[bytes], str]) -> Json:
    match part:
        case {"type": "image" | "audio", "data": str(data)} if len(data) > _MAX_INLINE_CHARS:
            return {**_without(part, "data"), "outputRef": put_blob(b64decode(data))}
        case {"type": "resource", "resource": {"blob": str(data)} as resource} if (
            len(data) > _MAX_INLINE_CHARS
        ):
            resource_fields = {**_without(resource, "blob"), "outputRef": put_blob(b64decode(data))}
            return {**part, "resource": resource_fields}
        case _:
            return part


def _without(part: Json, key: str) -> Json:
    return {name: value for name, value in part.items() if name != key}


def with_instructions(result: ToolResult, texts: Sequence[ContextFile]) -> ToolResult:
    """Return the result, followed by its instructions and the project's for the places in it."""
    files = (*result.instructions, *texts)
    if not files:
        return result
    parts = map(instructions_part, files)
    meta = {**result.meta, "contextFiles": [file.name for file in files]}
    return replace(result, content=(*result.content, *parts), meta=meta)


def _render_value(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(repr(value))
    # File names and output of programs may hold half surrogate pairs, which are not JSON.
    return well_formed(text)


def _loggable(text: str) -> Any:
    """Return what the log can hold: the data, or its text when it is nested too deeply."""
    data = json.loads(text)
    return text if is_deep(data) else data


def _part(part: object, short: Callable[[str], str]) -> Json:
    rendered_text = _render_value(part)
    match _loggable(rendered_text):
        case {"type": "text", "text": str(text)} as block:
            own = _without(block, "_meta") if is_instructions(block) else block
            return {**own, "text": short(text)}
        case str(text):
            return {"type": "text", "text": short(text)}
        case {"type": "resource", "resource": {"text": str(text)} as resource} as block:
            return {**block, "resource": {**resource, "text": short(text)}}
        case {"type": "resource", "resource": {"blob": str(data)}} as block if _is_bearable(data):
            return block
        case {"type": "image" | "audio", "data": str(data)} as block if _is_bearable(data):
            return block if block["type"] == "audio" else _image(block, data)
        case {"type": "resource_link", "uri": str()} as block if (
            len(rendered_text) <= MAX_TEXT_CHARS
        ):
            return block
        case {"type": str(kind), "data": str()} | {"type": str(kind), "resource": {"blob": str()}}:
            return {"type": "text", "text": f"({kind}: broken, or larger than 12 MiB)"}
        case _:
            return {"type": "text", "text": short(rendered_text)}


def _image(part: Json, data: str) -> Json:
    """Correct the type by the data: with a wrong one, providers would refuse every request.

    An image that some provider would refuse is for the user only.
    """
    kind = next((kind for head, kind in _IMAGE_HEADS.items() if data.startswith(head)), None)
    if kind is None or len(data) > _MAX_SEEN_CHARS:
        return {**part, "annotations": {"audience": ["user"]}}
    return {**part, "mimeType": kind}


def _is_bearable(data: str) -> bool:
    """Return whether this is base64, of a size that a log can hold."""
    try:
        return len(data) <= _MAX_PART_CHARS and bool(b64decode(data, validate=True))
    except ValueError:
        return False
