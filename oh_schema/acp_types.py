"""Renders what we send over the Agent Client Protocol as types, from its official schema.

The schema is pinned beside the tests, which check every frame against it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from oh_schema.editor_types import format_code

_SCHEMA = Path(__file__).parents[1] / "tests/data/acp/schema.json"
_ROOTS = ("SessionNotification", "RequestPermissionRequest")
_UNSENT = {
    *("Annotations", "AudioContent", "ResourceLink", "EmbeddedResource", "Terminal"),
    *("SessionConfigBoolean", "SessionConfigSelectGroup", "CompactionSummaryChunk"),
}
"""What we never send, and so no type of ours names."""
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_HEAD = '''"""What we send to ACP clients; `make schema` writes it from the official schema.

At run time this module is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
'''

Json = dict[str, Any]


def render_acp() -> str:
    """Render the definitions that the roots need, each after those that it needs itself."""
    definitions: Json = _sent_schema(json.loads(_SCHEMA.read_text("utf-8"))["$defs"])
    lines: dict[str, list[str]] = {}
    for root in _ROOTS:
        _add(root, definitions, lines)
    text = "\n".join(f"    {line}" for each in lines.values() for line in each)
    return format_code(f"{_HEAD}{text}\n")


def _sent_schema(schema: Any) -> Any:
    """Return the schema without the fields and variants that we never send."""
    if isinstance(schema, list):
        return [_sent_schema(each) for each in cast("list[Any]", schema) if not _is_unsent(each)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("Json", schema).items()
    return {key: _sent_schema(value) for key, value in fields if not _is_unsent(value)}


def _is_unsent(schema: Any) -> bool:
    match schema:
        case {"$ref": str(name)}:
            return name.rpartition("/")[2] in _UNSENT
        case {"allOf": [*parts]}:
            return any(map(_is_unsent, parts))
        case {"anyOf": [*parts]}:
            return all(each == {"type": "null"} or _is_unsent(each) for each in parts)
        case {"items": part}:
            return _is_unsent(part)
        case _:
            return False


def _add(name: str, definitions: Json, lines: dict[str, list[str]]) -> None:
    if name in lines:
        return
    lines[name] = []
    definition = definitions[name]
    for reference in _references(definition):
        _add(reference, definitions, lines)
    # Each goes to the end, behind what it needs.
    del lines[name]
    lines[name] = [*_lines_of(name, definition)]


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        fields = cast("Json", schema)
        if "$ref" in fields:
            yield fields["$ref"].rpartition("/")[2]
        for key, value in fields.items():
            if key != "_meta":
                yield from _references(value)
    elif isinstance(schema, list):
        for value in cast("list[Any]", schema):
            yield from _references(value)


def _lines_of(name: str, schema: Json) -> Iterator[str]:
    variants = schema.get("anyOf") or schema.get("oneOf") or ()
    tags = [(each, tag) for each in variants if (tag := _tag_of(each))]
    if not tags:
        yield from (
            _class(name, [], schema)
            if "properties" in schema
            else (f"{name} = {_type_of(schema)}",)
        )
        return
    above = [f"{name}Base"] if "properties" in schema else []
    for base in above:
        yield from _class(base, [], schema)
    names: list[str] = []
    for each, (tag, value) in tags:
        bases = [base["$ref"].rpartition("/")[2] for base in each.get("allOf", ())]
        names.append(f"{name}{''.join(word.title() for word in value.split('_'))}")
        own = {"properties": {tag: each["properties"][tag]}, "required": [tag]}
        yield from _class(names[-1], [*above, *bases], own)
    yield f"{name} = {' | '.join(names)}"


def _class(name: str, bases: list[str], schema: Json) -> Iterator[str]:
    yield f"class {name}({', '.join(bases) or 'TypedDict'}):"
    fields = {key: value for key, value in schema["properties"].items() if key != "_meta"}
    for key, value in fields.items():
        kind = _type_of(value)
        is_required = key in schema.get("required", ())
        yield f"    {key}: {kind if is_required else f'NotRequired[{kind}]'}"
    if not fields:
        yield "    pass"


def _tag_of(schema: Json) -> tuple[str, str] | None:
    """Return the field that tells a variant from others, and its value; empty if there is none."""
    fields = schema.get("properties", {}).items()
    tags = ((key, str(value["const"])) for key, value in fields if "const" in value)
    return next(tags, None)


def _type_of(schema: Json) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _union(schema[key])
    # We leave out what is null.
    kind = str(schema.get("type"))
    if isinstance(schema.get("type"), list):
        [kind] = (each for each in schema["type"] if each != "null")
    if kind == "null":
        return "None"
    if kind == "array":
        return f"list[{_type_of(schema['items'])}]"
    return _SCALARS.get(kind, "Any")


def _union(variants: list[Json]) -> str:
    """Return the union; of texts only those that are listed, if no other is allowed."""
    kinds = [kind for each in variants if (kind := _type_of(each)) != "None"]
    values = [repr(each["const"]) for each in variants if "const" in each]
    other_kinds = [kind for kind in kinds if not kind.startswith("Literal[")]
    literals = [f"Literal[{', '.join(values)}]"] if values and "str" not in other_kinds else []
    return " | ".join(dict.fromkeys([*literals, *other_kinds]))
