"""Generates the JSON Schema, the editors' types and the documents' tables from one registry.

A tool for those who change the contract; it is not installed with the package.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic.json_schema import models_json_schema

from oh_daemon.contract import base, errors, events, protocol
from oh_daemon.contract.base import Contract
from oh_daemon.contract.llm import LLMSettings
from oh_daemon.contract.protocol import Method
from oh_daemon.contract.settings import (
    CHOICES,
    LIMITS,
    NOT_FROM_PROJECT,
    STRICTER,
    TIGHTENED,
    Settings,
)
from oh_schema.acp_types import render_acp
from oh_schema.editor_types import render_lua, render_python, render_typescript

ROOT = Path(__file__).parents[1]
PAGES = (Path("protocol.md"), Path("docs/settings.md"))


def write_schema(root: Path, *, check: bool) -> int:
    """Update the generated files, or with `check` only report stale ones and then return 1."""
    wanted = {
        root / "docs" / "schema.json": render_schema(),
        root / "oh_daemon" / "contract" / "plain.py": render_python(),
        root / "oh_daemon" / "contract" / "initialize.py": render_initialize(),
        root / "oh_daemon" / "contract" / "version.py": render_version(),
        root / "oh_daemon" / "fronts" / "acp" / "schema.py": render_acp(),
        root / "editors" / "vscode" / "src" / "protocol.ts": render_typescript(),
        root / "editors" / "neovim" / "lua" / "oh" / "protocol.lua": render_lua(),
    }
    manifest = root / "editors" / "vscode" / "package.json"
    if manifest.is_file():
        wanted[manifest] = render_manifest(manifest.read_text("utf-8"))
    for page in (root / name for name in PAGES):
        wanted[page] = render_page(_text_of(page) or "")
    stale = [path for path, text in wanted.items() if _text_of(path) != text]
    for path in stale:
        if check:
            sys.stderr.write(f"{path.relative_to(root)} is out of date; run `make schema`\n")
        else:
            path.write_text(wanted[path], "utf-8")
    return int(check and bool(stale))


def _text_of(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


def render_schema() -> str:
    """Render the JSON Schema of everything on the wire and in the log, with methods by name."""
    models: list[type[Contract]] = [events.Record, Settings, LLMSettings]
    for method in protocol.METHODS:
        models += [method.params] if method.result is None else [method.params, method.result]
    unique = list(dict.fromkeys(models))
    _, schema = models_json_schema([(model, "serialization") for model in unique])
    document = {
        "protocolVersion": {"major": protocol.PROTOCOL_MAJOR, "minor": protocol.PROTOCOL_MINOR},
        "methods": {method.name: _described(method) for method in protocol.METHODS},
        "limits": protocol.LIMITS,
        "errors": {error.kind: error.code for error in error_classes()},
        "$defs": _explained(schema["$defs"]),
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def render_version() -> str:
    """Render the version, which takes long to be read from the metadata of the package."""
    head = '"""The version of the package; `make schema` generates it."""'
    return f'{head}\n\nVERSION = "{_version()}"\n'


def _version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def render_initialize() -> str:
    """Render the answer to `initialize`, but for what depends on the client and the machine."""
    version = _version()
    ours = {
        "protocolVersion": {"major": protocol.PROTOCOL_MAJOR, "minor": protocol.PROTOCOL_MINOR},
        "daemon": {"name": "oh-daemon", "version": version, "pid": 0},
        "methods": [method.name for method in protocol.REQUESTS],
        "notifications": [method.name for method in protocol.NOTIFICATIONS],
        "limits": protocol.LIMITS,
        "more": 0,
    }
    capabilities = {
        "positionEncoding": "%(encoding)s",
        "textDocumentSync": {"openClose": True, "change": 2, "save": True},
        "codeActionProvider": True,
        "workspace": {
            "workspaceFolders": {"supported": True, "changeNotifications": True},
            "textDocumentContent": {"schemes": protocol.DOCUMENT_SCHEMES},
        },
        "codeLensProvider": {},
        "executeCommandProvider": {"commands": [*protocol.COMMANDS, *protocol.OWN_COMMANDS]},
        "experimental": {"ohDaemon": ours},
    }
    info = {"name": "oh-daemon", "version": version}
    answer = json.dumps({"capabilities": capabilities, "serverInfo": info})
    answer = answer.replace('"pid": 0', '"pid": %(pid)d').replace(', "more": 0', "%(more)s")
    lines = textwrap.wrap(answer, 98, break_long_words=False, break_on_hyphens=False)
    head = '"""The answer to `initialize`, as it is written; `make schema` generates it."""'
    known = {"FEATURES": protocol.FEATURES, "SETTINGS": tuple(_setting_names())}
    facts = f"PROTOCOL_MAJOR = {protocol.PROTOCOL_MAJOR}\n" + "\n".join(
        f"{name} = (\n" + "".join(f'    "{each}",\n' for each in names) + ")"
        for name, names in known.items()
    )
    text = "\n".join(lines)
    return f'{head}\n\n{facts}\nANSWER = """\\\n{text}\n""".replace("\\n", " ")\n'


def _setting_names() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        yield field.serialization_alias or field.alias or name


def _described(method: Method) -> dict[str, Any]:
    is_ours = method in (*protocol.NOTIFICATIONS, *protocol.CLIENT_REQUESTS)
    sender = "daemon" if is_ours else "client"
    described = {"from": sender, "params": method.params.__name__, "doc": method.doc}
    if method.result is not None:
        described["result"] = method.result.__name__
    return described


def _explained(definitions: dict[str, Any]) -> dict[str, Any]:
    """Give each field its meaning as `description`, in place of the title that pydantic makes."""
    for model in _subclasses(Contract):
        bases = (base for base in reversed(model.__mro__) if issubclass(base, Contract))
        meanings = {name: text for base in bases for name, text in _field_docs(base).items()}
        properties = definitions.get(model.__name__, {}).get("properties", {})
        for name, field in model.model_fields.items():
            shown = properties.get(field.serialization_alias or field.alias or name, {})
            shown.pop("title", None)
            if name in meanings:
                shown["description"] = " ".join(meanings[name].split())
    return definitions


def _subclasses(model: type[Contract]) -> Iterator[type[Contract]]:
    for below in model.__subclasses__():
        yield below
        yield from _subclasses(below)


def error_classes() -> list[type[errors.DaemonError]]:
    """Return every error class that has a code of its own, sorted by code."""
    found = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.DaemonError)
    ]
    return sorted((error for error in found if "code" in vars(error)), key=lambda e: -e.code)


def render_manifest(manifest: str) -> str:
    """Regenerate the settings in VS Code's manifest; their scopes limit what a repository sets."""
    document = json.loads(manifest)
    own = document["contributes"]["configuration"]["properties"]
    kept = {name: setting for name, setting in own.items() if not name.startswith("ohDaemon.")}
    ours = {f"ohDaemon.{name}": setting for name, setting in _vscode_settings().items()}
    document["contributes"]["configuration"]["properties"] = {**kept, **ours}
    for_trusted = [name for name, setting in ours.items() if setting["scope"] == "window"]
    trust = document["capabilities"]["untrustedWorkspaces"]
    trust["restrictedConfigurations"] = [*kept, *for_trusted]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _vscode_settings() -> dict[str, dict[str, Any]]:
    meanings = _field_docs(Settings)
    schemas = Settings.model_json_schema()["properties"].items()
    guarded = {*NOT_FROM_PROJECT, *CHOICES, *STRICTER, *TIGHTENED, *LIMITS}
    described: dict[str, dict[str, Any]] = {}
    for (field, model), (name, schema) in zip(Settings.model_fields.items(), schemas, strict=True):
        choices: list[dict[str, Any]] = schema.pop("anyOf", [schema])
        types = [choice.pop("type") for choice in choices]
        rules = {key: value for choice in (*choices, schema) for key, value in choice.items()}
        described[name] = {
            "type": types if len(types) > 1 else types[0],
            # The manifest cannot hold definitions (`$ref`); the daemon checks such values itself.
            **{
                key: rules[key] for key in rules if key != "title" and "$ref" not in str(rules[key])
            },
            "default": model.get_default(call_default_factory=True),
            "scope": "machine" if name in guarded else "window",
            "order": len(described) + 1,
            "markdownDescription": " ".join(meanings[field].split()),
        }
    described["instructions"]["editPresentation"] = "multilineText"
    return described


def render_page(page: str) -> str:
    """Regenerate the tables in a document; the rest of its text stays."""
    for name, lines in _tables().items():
        block = "\n".join([f"<!-- generated: {name} -->", *lines, f"<!-- end: {name} -->"])
        pattern = re.compile(f"<!-- generated: {name} -->.*?<!-- end: {name} -->", re.DOTALL)
        page = pattern.sub(lambda _old, block=block: block, page)
    return page


def _tables() -> dict[str, list[str]]:
    limits = [(f"`{name}`", f"{value:,}") for name, value in protocol.LIMITS.items()]
    field_codes = [(f"`{code}`", text) for code, text in base.FIELD_CODES.items()]
    commands = [(f"`{name}`", f"`{method}`") for name, method in protocol.COMMANDS.items()]
    return {
        "requests": list(_methods(protocol.REQUESTS)),
        "client notifications": list(_methods(protocol.CLIENT_NOTIFICATIONS)),
        "notifications": list(_methods(protocol.NOTIFICATIONS)),
        "client requests": list(_methods(protocol.CLIENT_REQUESTS)),
        "events": list(_events()),
        "errors": list(_errors()),
        "field codes": list(_table(("`code`", "What is wrong"), field_codes)),
        "limits": list(_table(("Limit", "Value"), limits)),
        "commands": list(_table(("Command", "Method"), commands)),
        "settings": list(_settings(Settings)),
        "llm": list(_settings(LLMSettings)),
    }


def _methods(methods: Sequence[Method]) -> Iterator[str]:
    rows = [
        (f"`{method.name}`", method.doc, _fields(method.params), _fields(method.result))
        for method in methods
    ]
    yield from _table(("Method", "What it does", "Params", "Result"), rows)


def _fields(model: type[Contract] | None) -> str:
    """Return the field names as on the wire, optional ones with a question mark."""
    if model is None:
        return "none"
    names = [
        f"`{field.serialization_alias or field.alias or name}{'' if field.is_required() else '?'}`"
        for name, field in model.model_fields.items()
    ]
    return ", ".join(names) or "none"


def _events() -> Iterator[str]:
    known = get_args(get_args(events.KnownEvent)[0])
    rows = [
        (
            f"`{model.model_fields['type'].default}`",
            inspect.cleandoc(model.__doc__ or "").split("\n")[0],
            ", ".join(part for part in _fields(model).split(", ") if part != "`type?`") or "none",
        )
        for model in known
    ]
    yield from _table(("Type", "Meaning", "Fields"), sorted(rows))


def _errors() -> Iterator[str]:
    rows = [
        (str(error.code), f"`{error.kind}`", inspect.cleandoc(error.__doc__ or "").split("\n")[0])
        for error in error_classes()
    ]
    yield from _table(("Code", "`error.data.kind`", "When"), rows)


def _settings(model: type[Contract]) -> Iterator[str]:
    """Yield a table of every field that may be left out."""
    meanings = _field_docs(model)
    rows = [
        (
            f"`{field.serialization_alias or field.alias or name}`",
            f"`{json.dumps(field.get_default(call_default_factory=True))}`",
            " ".join(meanings.get(name, "").split()),
        )
        for name, field in model.model_fields.items()
        if not field.is_required()
    ]
    yield from _table(("Setting", "Default", "Meaning"), rows)


def _field_docs(model: type[Contract]) -> dict[str, str]:
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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
