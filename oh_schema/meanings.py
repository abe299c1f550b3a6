"""What the fields of the contract mean: the string under a field, or what is alike everywhere."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from typing import Any, get_args

from oh_daemon.protocol.base import Contract

NAMES = {
    "conversation_id": "Id of the conversation.",
    "turn_id": "Id of the turn.",
    "item_id": "Id of the item.",
    "message_id": "Id of the message; its `userMessage` item has it, too.",
    "client_message_id": "The client's own id of the message, by which a second one is recognised.",
    "client_request_id": "The client's own id of the request, which makes it safe to repeat (K1).",
    "duplicate": "`true` if the request came before and this is the answer to the first (K1).",
    "expected_turn_id": "Refuse the message if another turn is open.",
    "uri": "URI of the file.",
    "uris": "URIs of the files.",
    "cwd": "Path of the folder in which it runs.",
    "command": "The command, as it is run.",
    "exit_code": "Its exit code, once it has ended.",
    "terminal_id": "Id of the terminal.",
    "range": "Where in the text.",
    "title": "What it is, in one line for people.",
    "description": "More about it, for people.",
    "label": "Its name for people.",
    "created_at": "When it was created.",
    "started_at": "When it started.",
    "ended_at": "When it ended.",
    "updated_at": "When anything last happened in it.",
    "limit": "The largest number of elements of the answer.",
    "cursor": "`nextCursor` of the page before; absent for the first page.",
    "next_cursor": "For the next page; absent if this is the last.",
    "first_seq": "`seq` of the first event of the page.",
    "last_seq": "`seq` of the last event.",
    "epoch": "Another one means that records may have been lost (R3).",
    "mime_type": "MIME type.",
    "digest": "Hash of the action and all that it depends on; an answer echoes it.",
    "risk": "How risky the action is rated.",
    "feedback": "What the user says about it, for the model.",
    "edited_subject": "What runs instead; only if the approval is `editable`.",
    "problems": "What is wrong, one sentence for each; empty if nothing is.",
    "server": "Name of the server in the settings.",
    "argument_hint": "What may follow the name, for people.",
    "severity": "How much it matters.",
    "status": "The state that it is in.",
    "metadata": "Anything the client wants to keep with the conversation.",
    "offset": "Where to begin.",
    "next_offset": "Where what follows begins.",
}
"""The meaning of a field of this name without a string under it."""


def meanings(model: type[Contract]) -> dict[str, str]:
    """Return what each field means, as far as anything says it, inherited ones too."""
    bases = [base for base in reversed(model.__mro__) if issubclass(base, Contract)]
    own_docs = {name: text for base in bases for name, text in field_docs(base).items()}
    docs: dict[str, str] = {}
    for name, field in model.model_fields.items():
        text = own_docs.get(name) or _of_tag(field.annotation) or NAMES.get(name)
        text = text or _of_type(field.annotation)
        if text:
            docs[name] = " ".join(text.split())
    return docs


def field_docs(model: type[Contract]) -> dict[str, str]:
    """Return the docstrings under a model's fields, by field."""
    body = ast.parse(inspect.getsource(model)).body[0]
    docs: dict[str, str] = {}
    if isinstance(body, ast.ClassDef):
        for field, below in itertools.pairwise(body.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    docs[name] = text
                case _:
                    pass
    return docs


def explain(definitions: dict[str, Any]) -> dict[str, Any]:
    """Give fields their meaning as `description`, not pydantic's title, and require the tags."""
    for model in _subclasses(Contract):
        definition = definitions.get(model.__name__, {})
        properties = definition.get("properties", {})
        # A tag has a default, but whoever reads a union needs it.
        tags = [name for name, field_schema in properties.items() if "const" in field_schema]
        if tags:
            definition["required"] = sorted({*definition.get("required", ()), *tags})
        docs = meanings(model) if properties else {}
        for name, field in model.model_fields.items():
            field_schema = properties.get(field.serialization_alias or field.alias or name, {})
            field_schema.pop("title", None)
            if name in docs:
                field_schema["description"] = docs[name]
    return definitions


def _subclasses(model: type[Contract]) -> Iterator[type[Contract]]:
    for below in model.__subclasses__():
        yield below
        yield from _subclasses(below)


def _of_tag(annotation: Any) -> str:
    """Return what a field says that has but one value."""
    values = get_args(annotation)
    is_tag = len(values) == 1 and isinstance(values[0], str)
    return "Tells this type from others." if is_tag else ""


def _of_type(annotation: Any) -> str:
    """Return what the one model means that is in this type."""
    models = [*_models_in(annotation)]
    return inspect.cleandoc(models[0].__doc__ or "").split("\n\n")[0] if len(models) == 1 else ""


def _models_in(annotation: Any) -> Iterator[type[Contract]]:
    if inspect.isclass(annotation) and issubclass(annotation, Contract):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
