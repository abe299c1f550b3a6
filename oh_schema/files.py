"""Generates the JSON Schema, the editors' types and the documents' tables from one registry.

A tool for those who change the contract; it is not installed with the package.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.settings import Project, Settings, project_class
from oh_schema.acp_types import render_acp
from oh_schema.editor_types import (
    render_lua,
    render_python,
    render_python_methods,
    render_typescript,
)
from oh_schema.meanings import meanings
from oh_schema.pages import all_tables, render_page
from oh_schema.schema import as_text, schema_document

ROOT = Path(__file__).parents[1]
PAGES = tuple(
    page.relative_to(ROOT)
    for page in (
        ROOT / "protocol.md",
        ROOT / "docs/settings.md",
        *sorted(ROOT.glob("docs/protocol/*.md")),
    )
)
"""Documents with tables."""


def write_schema(root: Path, *, check: bool) -> int:
    """Update the generated files, or with `check` only report stale ones and then return 1."""
    document = schema_document(_project()["urls"]["Repository"])
    texts = {
        root / "docs" / "schema.json": as_text(document),
        root / "oh_daemon" / "protocol" / "plain.py": render_python(),
        root / "oh_daemon" / "protocol" / "initialize.py": render_initialize(),
        root / "oh_daemon" / "protocol" / "version.py": render_version(),
        root / "oh_daemon" / "conformance" / "rules.txt": render_rules(),
        root / "oh_daemon" / "frontends" / "acp" / "schema.py": render_acp(),
        root / "oh_daemon" / "frontends" / "client" / "methods.pyi": render_python_methods(),
        root / "clients" / "typescript" / "src" / "protocol.ts": render_typescript(),
        root / "editors" / "neovim" / "lua" / "oh" / "protocol.lua": render_lua(),
    }
    manifest = root / "editors" / "vscode" / "package.json"
    if manifest.is_file():
        texts[manifest] = render_manifest(manifest.read_text("utf-8"))
    pages = {name: _text_of(root / name) or "" for name in PAGES}
    tables = all_tables(document, pages)
    texts |= {root / name: render_page(page, tables) for name, page in pages.items()}
    stale_paths = [path for path, text in texts.items() if _text_of(path) != text]
    for path in stale_paths:
        if check:
            sys.stderr.write(f"{path.relative_to(root)} is out of date; run `make schema`\n")
        else:
            path.write_text(texts[path], "utf-8")
    return int(check and bool(stale_paths))


def render_rules() -> str:
    """Return the rules of docs/protocol, one a line after its id, for `oh-daemon conformance`."""
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs/protocol").glob("*.md"))]
    rows = re.findall(r"^\| ([A-Z]+\d+) \| (.+) \|$", "\n".join(pages), re.MULTILINE)
    return "".join(f"{rule}\t{sentence}\n" for rule, sentence in rows)


def _text_of(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None


def render_version() -> str:
    """Render the version, which takes long to be read from the metadata of the package."""
    head = '"""The version of the package; `make schema` generates it."""'
    return f'{head}\n\nVERSION = "{_version()}"\n'


def _version() -> str:
    return _project()["version"]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def render_initialize() -> str:
    """Render the answer to `initialize`, but for what depends on the client and the machine."""
    version = _version()
    block = {
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
        "experimental": {"ohDaemon": block},
    }
    info = {"name": "oh-daemon", "version": version}
    answer = json.dumps({"capabilities": capabilities, "serverInfo": info})
    answer = answer.replace('"pid": 0', '"pid": %(pid)d').replace(', "more": 0', "%(more)s")
    lines = textwrap.wrap(answer, 98, break_long_words=False, break_on_hyphens=False)
    head = '"""The answer to `initialize`, as it is written; `make schema` generates it."""'
    constants = {"FEATURES": protocol.FEATURES, "SETTINGS": tuple(_setting_names())}
    facts = f"PROTOCOL_MAJOR = {protocol.PROTOCOL_MAJOR}\n" + "\n".join(
        f"{name} = (\n" + "".join(f'    "{each}",\n' for each in names) + ")"
        for name, names in constants.items()
    )
    text = "\n".join(lines)
    return f'{head}\n\n{facts}\nANSWER = """\\\n{text}\n""".replace("\\n", " ")\n'


def _setting_names() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        yield field.serialization_alias or field.alias or name


def render_manifest(manifest: str) -> str:
    """Regenerate the settings in VS Code's manifest; their scopes limit what a repository sets."""
    document = json.loads(manifest)
    own = document["contributes"]["configuration"]["properties"]
    foreign_settings = {
        name: setting for name, setting in own.items() if not name.startswith("ohDaemon.")
    }
    settings = {f"ohDaemon.{name}": setting for name, setting in _vscode_settings().items()}
    document["contributes"]["configuration"]["properties"] = {**foreign_settings, **settings}
    trusted_names = [name for name, setting in settings.items() if setting["scope"] == "window"]
    trust = document["capabilities"]["untrustedWorkspaces"]
    trust["restrictedConfigurations"] = [*foreign_settings, *trusted_names]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _vscode_settings() -> dict[str, dict[str, Any]]:
    docs = meanings(Settings)
    schemas = Settings.model_json_schema()["properties"].items()
    entries: dict[str, dict[str, Any]] = {}
    for (field, model), (name, schema) in zip(Settings.model_fields.items(), schemas, strict=True):
        choices: list[dict[str, Any]] = schema.pop("anyOf", [schema])
        types = [choice.pop("type") for choice in choices]
        rules = {key: value for choice in (*choices, schema) for key, value in choice.items()}
        entries[name] = {
            "type": types if len(types) > 1 else types[0],
            # The manifest cannot hold definitions (`$ref`); the daemon checks such values itself.
            **{
                key: rules[key] for key in rules if key != "title" and "$ref" not in str(rules[key])
            },
            "default": model.get_default(call_default_factory=True),
            "scope": "window" if project_class(model) is Project.ANY else "machine",
            "order": len(entries) + 1,
            "markdownDescription": docs[field],
        }
    entries["instructions"]["editPresentation"] = "multilineText"
    return entries
