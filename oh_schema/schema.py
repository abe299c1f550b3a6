"""Renders docs/schema.json: the JSON Schema of everything on the wire and in the log."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic.json_schema import models_json_schema

from oh_daemon.protocol import approvals, connection, content, errors, events, items
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.llm import LLMSettings
from oh_daemon.protocol.methods import Method
from oh_daemon.protocol.settings import Settings
from oh_schema.meanings import explain

DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNIONS = {
    "Part": content.Part,
    "Item": items.Item,
    "Subject": approvals.Subject,
    "Event": events.KnownEvent,
}


def schema_document(project_url: str) -> dict[str, Any]:
    """Return the schema of everything on the wire and in the log, with methods by name."""
    models: list[type[Contract]] = [events.Record, Settings, LLMSettings, *connection.MODELS]
    for method in protocol.METHODS:
        models += [method.params] if method.result is None else [method.params, method.result]
    unique = list(dict.fromkeys(models))
    _, schema = models_json_schema([(model, "serialization") for model in unique])
    return {
        "$schema": DIALECT,
        "$id": f"{project_url}/blob/main/docs/schema.json",
        "title": "The protocol of oh-daemon",
        "protocolVersion": {"major": protocol.PROTOCOL_MAJOR, "minor": protocol.PROTOCOL_MINOR},
        "initialize": {"from": "client", "params": "ClientBlock", "result": "ServerBlock"},
        "methods": {method.name: _describe_method(method) for method in protocol.METHODS},
        "unions": {name: [*_variants(union)] for name, union in UNIONS.items()},
        "limits": protocol.LIMITS,
        "errors": {error.kind: error.code for error in error_classes()},
        "$defs": explain(schema["$defs"]),
    }


def as_text(document: dict[str, Any]) -> str:
    """Return the schema as it is in the file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _describe_method(method: Method) -> dict[str, Any]:
    is_ours = method in (*protocol.NOTIFICATIONS, *protocol.CLIENT_REQUESTS)
    sender = "daemon" if is_ours else "client"
    method_entry = {"from": sender, "params": method.params.__name__, "doc": method.doc}
    if method.result is not None:
        method_entry["result"] = method.result.__name__
    return method_entry


def _variants(union: Any) -> Iterator[str]:
    for part in get_args(union):
        if inspect.isclass(part):
            yield part.__name__
        elif get_args(part):
            yield from _variants(part)


def error_classes() -> list[type[errors.DaemonError]]:
    """Return every error class that has a code of its own, sorted by code."""
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.DaemonError)
    ]
    return sorted((error for error in classes if "code" in vars(error)), key=lambda e: -e.code)
