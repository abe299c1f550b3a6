"""Schemas of tools in the forms that providers take; those of MCP servers may be any. Pure."""

from __future__ import annotations

import re
from typing import Any, cast

from oh_daemon.kernel.ports import Json

_DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""
_UNIONS = ("allOf", "anyOf", "oneOf")
_REFUSED_ON_TOP = frozenset({*_UNIONS, "const", "enum", "not"})


def without_unions(schema: Json) -> Json:
    """Merge the branches of unions at the top of an object's schema, if they can be merged."""
    return _flat(schema, schema, {}) or schema


def with_regexes(schema: Json) -> Json:
    """Leave out patterns of other dialects than Python's."""
    return _with_regexes(schema)


def _with_regexes(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_regexes(each) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("Json", node)
    if isinstance(fields.get("patternProperties"), dict):
        patterns: Json = fields["patternProperties"]
        valid_patterns = {pattern: each for pattern, each in patterns.items() if _is_regex(pattern)}
        fields = {**fields, "patternProperties": valid_patterns}
    return {
        name: value if name in _DATA else _with_regexes(value)
        for name, value in fields.items()
        if name != "pattern" or not isinstance(value, str) or _is_regex(value)
    }


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError):
        return False
    return True


def _flat(schema: Any, root: Json, definitions: dict[str, Json | None]) -> Json | None:
    """Return an object's schema with the branches of its unions merged; None if they cannot be.

    `definitions` has those that were merged, and None for one that is under way.
    """
    if not isinstance(schema, dict):
        return None
    fields = cast("Json", schema)
    if isinstance(ref := fields.get("$ref"), str):
        if ref not in definitions:
            definitions[ref] = None
            definitions[ref] = _flat(_definition(ref, root), root, definitions)
        return definitions[ref]
    unions = {name: fields[name] for name in _UNIONS if isinstance(fields.get(name), list)}
    merged_unions = {
        name: [_flat(each, root, definitions) for each in unions[name]] for name in unions
    }
    branches = [branch for group in merged_unions.values() for branch in group]
    if not branches:
        return fields
    branches_present = [branch for branch in branches if branch is not None]
    if len(branches_present) < len(branches):
        return None
    properties: Json = {}
    for branch in (*reversed(branches_present), fields):
        properties |= branch.get("properties", {})
    required_names = sorted({*fields.get("required", ()), *_required_names(merged_unions)})
    other_fields = {name: value for name, value in fields.items() if name not in _REFUSED_ON_TOP}
    flat = {**other_fields, "type": "object", "properties": properties}
    return {**flat, "required": required_names} if required_names else flat


def _definition(ref: str, root: Json) -> Any:
    _, _, path = ref.partition("#/")
    where, _, name = path.partition("/")
    return root.get(where, {}).get(name) if where in {"$defs", "definitions"} else None


def _required_names(unions: dict[str, list[Json | None]]) -> set[str]:
    """Return what all of an `allOf` requires, and what every branch of another union does."""
    names = set[str]()
    for union, branches in unions.items():
        names_by_branch = [set[str](branch.get("required", ())) for branch in branches if branch]
        if names_by_branch:
            first, *other_sets = names_by_branch
            names |= (
                first.union(*other_sets) if union == "allOf" else first.intersection(*other_sets)
            )
    return names
