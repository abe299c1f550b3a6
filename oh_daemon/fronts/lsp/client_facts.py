"""What the client said about itself in `initialize`, read without pydantic to answer quickly.

Unknown fields are ignored, missing ones have defaults, wrong types are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from oh_daemon.contract.errors import InvalidParamsError
from oh_daemon.fronts.lsp.boot import choose_encoding

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """Fixed for the life of the connection."""

    protocol_major: int | None = None
    """None when the client does not say."""
    is_plain: bool = True
    """It sent no `ohDaemon` block: a plain LSP client, which knows none of our notifications."""
    name: str = ""
    is_panel: bool = False
    """The client shows approvals itself when it receives their events."""
    features: frozenset[str] = frozenset()
    """The features that our block sets to `true`, for instance applyEdit2."""
    wants_deltas: bool = True
    opted_out: frozenset[str] = frozenset()
    """Event types this client does not want."""
    trust: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Folder (URI or path as sent) to the editor's own verdict; only a plain `true` is trust."""
    settings: Json = field(default_factory=dict[str, Any])
    process_id: int | None = None
    folder_uris: tuple[str, ...] = ()
    position_encoding: str = "utf-16"
    capabilities: Json = field(default_factory=dict[str, Any])
    """LSP's ClientCapabilities; query them with `offers`."""

    def offers(self, *path: str) -> bool:
        """Return whether the value at this path in `capabilities` is present and not false."""
        value: Any = self.capabilities
        for name in path:
            value = cast("Json", value).get(name) if isinstance(value, dict) else None
        return value not in (None, False)


def parse_client_facts(params: Json) -> ClientFacts:
    """Read the params of `initialize`. Raises `InvalidParamsError` naming the field."""
    capabilities = _object(params, "capabilities")
    ours = _field(_object(params, "initializationOptions"), "ohDaemon", dict)
    if ours is None:
        ours = _field(_object(capabilities, "experimental"), "ohDaemon", dict)
    block: Json = ours or {}
    client = _object(block, "client") or _object(params, "clientInfo")
    events = _object(block, "events")
    return ClientFacts(
        is_plain=ours is None,
        protocol_major=_field(_object(block, "protocolVersion"), "major", int),
        name=_text(client, "name"),
        is_panel=_text(client, "kind") == "panel",
        features=frozenset(k for k, on in _object(block, "features").items() if on is True),
        wants_deltas=_field(events, "deltas", bool) is not False,
        opted_out=frozenset(name for name in _array(events, "optOut") if isinstance(name, str)),
        trust={_text(e, "folder"): e.get("trusted") is True for e in _objects(block, "trust")},
        settings=_object(block, "settings"),
        process_id=_field(params, "processId", int),
        folder_uris=_folder_uris(params),
        position_encoding=choose_encoding(
            _array(_object(capabilities, "general"), "positionEncodings")
        ),
        capabilities=capabilities,
    )


_KIND_NAMES: dict[type, str] = {
    dict: "object", list: "array", str: "string", int: "number", bool: "boolean",
}  # fmt: skip


def _field(source: Json, name: str, kind: type) -> Any:
    """Return the value, which must be of type `kind`, or None when it is missing or null."""
    value = source.get(name)
    if kind is dict and value == []:
        return {}  # Lua writes an empty table as an empty array.
    if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
        return value
    expected = _KIND_NAMES[kind]
    raise InvalidParamsError.at(name, f"must be of type {expected}", f"{expected}_type")


def _object(source: Json, name: str) -> Json:
    return _field(source, name, dict) or {}


def _text(source: Json, name: str) -> str:
    return _field(source, name, str) or ""


def _array(source: Json, name: str) -> list[Any]:
    return _field(source, name, list) or []


def _objects(source: Json, name: str) -> list[Json]:
    return [value for value in _array(source, name) if isinstance(value, dict)]


def _folder_uris(params: Json) -> tuple[str, ...]:
    if params.get("workspaceFolders") is not None:
        return tuple(_text(folder, "uri") for folder in _objects(params, "workspaceFolders"))
    root_uri = _text(params, "rootUri")
    return (root_uri,) if root_uri else ()
