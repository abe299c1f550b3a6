"""Renders the fields of methods, events and types as tables, from the JSON Schema of the contract.

The pages of docs/protocol have marks for them: `method NAME`, `type NAME`, `events`, `types`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

UNIONS = {
    "Part": "content of a message",
    "Item": "an item",
    "Subject": "what an approval is about",
    "Event": "an event",
}
"""Unions that have a heading of their own; each is recognised by its variants."""
ELSEWHERE = {
    "ClientBlock": "initialize.md#the-clients-block",
    "Features": "initialize.md#the-clients-block",
    "ServerBlock": "initialize.md#the-answer",
    "ErrorData": "errors.md#errors",
}
"""Types that another page than types.md explains."""
_HEAD = ("Field", "Type", "Required", "Default", "Meaning")


class FieldTables:
    """The tables of one schema document."""

    def __init__(self, document: Json) -> None:
        self._methods: Json = document["methods"]
        self._types: Json = document["$defs"]
        self._variants = {frozenset(v): name for name, v in document["unions"].items()}
        self._unions: dict[str, list[str]] = document["unions"]

    def all(self) -> dict[str, list[str]]:
        """Return every table, by its mark."""
        tables = {f"method {name}": [*self._of_method(name)] for name in self._methods}
        tables |= {f"type {name}": [*self._of_type(name)] for name in ELSEWHERE}
        return {**tables, "types": [*self._other_tables()]}

    def events(self, meanings: Mapping[str, str]) -> Iterator[str]:
        """Yield a section for each event; `meanings` has what it stands for, by its type."""
        names = {self._tag(name): name for name in self._unions["Event"]}
        for tag, meaning in meanings.items():
            yield from (f"#### {tag}", "", " ".join(meaning.split()), "")
            yield from (*self._of_type(names[tag]), "")

    def _of_method(self, name: str) -> Iterator[str]:
        method = self._methods[name]
        yield from (f"`{name}`: {method['doc']}", "")
        yield from self._of_message("Params", method["params"])
        if "result" in method:
            yield ""
            yield from self._of_message("Result", method["result"])

    def _of_message(self, title: str, name: str) -> Iterator[str]:
        if not self._types[name].get("properties"):
            yield f"{title}: no fields."
            return
        yield f"{title}:"
        yield ""
        yield from self._of_type(name)

    def _of_type(self, name: str) -> Iterator[str]:
        definition = self._types[name]
        required_names = definition.get("required", ())
        rows = [
            (
                f"`{field}`",
                self._type_of(schema),
                "yes" if field in required_names else "",
                _default_of(schema),
                schema.get("description", ""),
            )
            for field, schema in definition.get("properties", {}).items()
        ]
        if rows:
            yield from table(_HEAD, rows)

    def _other_tables(self) -> Iterator[str]:
        """Yield a section for each type that no method and no event stands for, and each union."""
        messages = {m.get(role) for m in self._methods.values() for role in ("params", "result")}
        names = self._types.keys() - messages - {*self._unions["Event"], *ELSEWHERE}
        for name in sorted({*names, *self._unions}):
            yield from (f"### {name}", "")
            if name in self._unions:
                variants = ", ".join(self._link(each) for each in self._unions[name])
                yield from (f"Stands for {UNIONS[name]}; one of {variants}.", "")
                continue
            if meaning := self._types[name].get("description"):
                yield from (" ".join(meaning.split()), "")
            if rows := [*self._of_type(name)]:
                yield from (*rows, "")

    def _tag(self, name: str) -> str:
        return self._types[name]["properties"]["type"]["const"]

    def _link(self, name: str) -> str:
        if name in self._unions["Event"]:
            return f"`{self._tag(name)}`"
        return f"[{name}]({ELSEWHERE.get(name, f'types.md#{name.lower()}')})"

    def _type_of(self, schema: Json) -> str:
        match schema:
            case {"$ref": str(path)}:
                return self._link(path.rpartition("/")[2])
            case {"const": value}:
                return f"`{value}`"
            case {"enum": [*values]}:
                return " · ".join(f"`{value}`" for value in values)
            case {"oneOf": [*variants]} | {"anyOf": [*variants]}:
                return self._union_of(variants)
            case {"type": "array", "items": inner}:
                return _range_text(f"list of {self._type_of(inner)}", schema)
            case {"type": "object", "additionalProperties": {**inner}} if inner:
                return _range_text(f"object of {self._type_of(inner)}", schema)
            case _:
                return _range_text(schema.get("type", "anything"), schema)

    def _union_of(self, variants: Sequence[Json]) -> str:
        refs = frozenset(each.get("$ref", "").rpartition("/")[2] for each in variants)
        if refs in self._variants:
            name = self._variants[refs]
            return f"[{name}](types.md#{name.lower()})"
        kinds = (self._type_of(each) for each in variants if each.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))


def _default_of(schema: Json) -> str:
    value = schema.get("default")
    is_said = value is None or "const" in schema or "$ref" in schema
    return "" if is_said else f"`{json.dumps(value)}`"


def _range_text(kind: str, schema: Json) -> str:
    """Return the type with the values that fit."""
    limits = [
        limits
        for low, high, unit in (
            ("minimum", "maximum", ""),
            ("minLength", "maxLength", " characters"),
            ("minItems", "maxItems", " elements"),
            ("minProperties", "maxProperties", " fields"),
        )
        if (limits := _range(schema.get(low), schema.get(high), unit))
    ]
    if "exclusiveMinimum" in schema:
        limits.insert(0, f"more than {schema['exclusiveMinimum']:,}")
    if "pattern" in schema:
        limits.append(f"form `{schema['pattern']}`")
    return ", ".join([kind, *limits])


def _range(low: float | None, high: float | None, unit: str) -> str:
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f"{high:,}{unit} at most"
        case _, None:
            return f"{low:,}{unit} or more"
        case _:
            return f"{low:,} to {high:,}{unit}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
