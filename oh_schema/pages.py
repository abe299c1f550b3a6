"""Renders the tables in the documents: each has a mark before and after it; other text stays."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from oh_daemon.protocol import base, events
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.methods import Method
from oh_daemon.protocol.settings import Settings
from oh_schema.field_tables import FieldTables, table
from oh_schema.meanings import meanings
from oh_schema.schema import error_classes

_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_BLOCK = re.compile(r"<!-- generated: (.+?) -->.*?<!-- end: \1 -->", re.DOTALL)


def render_page(page: str, tables: dict[str, list[str]]) -> str:
    """Regenerate the tables in a document; the rest of its text stays."""

    def block(old: re.Match[str]) -> str:
        name = old[1]
        lines = [f"<!-- generated: {name} -->", *tables[name], f"<!-- end: {name} -->"]
        return "\n".join(lines)

    return _BLOCK.sub(block, page)


def all_tables(document: dict[str, Any], pages: Mapping[Path, str]) -> dict[str, list[str]]:
    """Return every table that a document may have, by its mark."""
    places, fields = _places(pages), FieldTables(document)
    limits = [(f"`{name}`", f"{value:,}") for name, value in protocol.LIMITS.items()]
    field_codes = [(f"`{code}`", text) for code, text in base.FIELD_CODES.items()]
    commands = [(f"`{name}`", f"`{method}`") for name, method in protocol.COMMANDS.items()]
    return {
        "requests": list(_methods(protocol.REQUESTS, places)),
        "client notifications": list(_methods(protocol.CLIENT_NOTIFICATIONS, places)),
        "notifications": list(_methods(protocol.NOTIFICATIONS, places)),
        "client requests": list(_methods(protocol.CLIENT_REQUESTS, places)),
        "events": [*fields.events(_events())],
        "errors": list(_errors()),
        "field codes": list(table(("`code`", "What is wrong"), field_codes)),
        "limits": list(table(("Limit", "Value"), limits)),
        "commands": list(table(("Command", "Method"), commands)),
        "settings": list(_settings(Settings)),
        "llm": list(_settings(LLMSettings)),
        **fields.all(),
    }


def _methods(methods: Sequence[Method], places: Mapping[str, str]) -> Iterator[str]:
    rows = [(f"[`{each.name}`]({places[each.name]})", each.doc) for each in methods]
    yield from table(("Method", "What it does"), rows)


def _places(pages: Mapping[Path, str]) -> dict[str, str]:
    """Return where each method is described, as a link from the root."""
    return {
        name: f"{path.as_posix()}#{anchor(above[-1])}" if above else path.as_posix()
        for path, page in pages.items()
        for name, before in _marks(page)
        for above in [_HEADING.findall(before)]
    }


def _marks(page: str) -> Iterator[tuple[str, str]]:
    """Yield each method that a page describes, and the text before that."""
    for mark in re.finditer(r"<!-- generated: method (.+?) -->", page):
        yield mark[1], page[: mark.start()]


def anchor(heading: str) -> str:
    """Return what a link to a heading names."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _events() -> dict[str, str]:
    """Return what each type of event means."""
    event_types = get_args(get_args(events.KnownEvent)[0])
    meaning = {
        str(model.model_fields["type"].default): inspect.cleandoc(model.__doc__ or "")
        for model in event_types
    }
    return dict(sorted(meaning.items()))


def _errors() -> Iterator[str]:
    rows = [
        (str(error.code), f"`{error.kind}`", inspect.cleandoc(error.__doc__ or "").split("\n")[0])
        for error in error_classes()
    ]
    yield from table(("Code", "`error.data.kind`", "When"), rows)


def _settings(model: type[Contract]) -> Iterator[str]:
    """Yield a table of every field that may be left out."""
    docs = meanings(model)
    rows = [
        (
            f"`{field.serialization_alias or field.alias or name}`",
            f"`{json.dumps(field.get_default(call_default_factory=True))}`",
            docs.get(name, ""),
        )
        for name, field in model.model_fields.items()
        if not field.is_required()
    ]
    yield from table(("Setting", "Default", "Meaning"), rows)
