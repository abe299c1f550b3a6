"""What the client said about itself in `initialize`, read without pydantic: that must be quick.

Unknown fields are ignored, missing ones have defaults, wrong types are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from oh_daemon.contract.errors import InvalidParamsError

Json = dict[str, Any]
_ENCODINGS = ("utf-16", "utf-32", "utf-8")


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """Fixed for the life of the connection."""

    protocol_major: int | None = None
    """None for a client without our block: any LSP client."""
    name: str = ""
    version: str = ""
    kind: str = "buffer"
    """panel, buffer or script."""
    features: frozenset[str] = frozenset()
    """What our block offers, for instance applyEdit2; only what is true."""
    wants_deltas: bool = True
    opted_out: frozenset[str] = frozenset()
    """Event types this client does not want."""
    on_disconnect: str = "interrupt"
    trust: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Folder (URI or path as sent) to the editor's own verdict; it can only lower trust."""
    locale: str = ""
    process_id: int | None = None
    folder_uris: tuple[str, ...] = ()
    position_encoding: str = "utf-16"
    applies_edits: bool = False
    """LSP's `workspace/applyEdit`."""
    takes_document_changes: bool = False
    """Edits may carry the version they were made for."""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """LSP's ClientCapabilities, for whoever needs more of them."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`initializationOptions` as sent."""

    def offers(self, *path: str) -> bool:
        """Whether a flag deep in `capabilities` is true."""
        value: Any = self.capabilities
        for name in path:
            value = cast("Json", value).get(name) if isinstance(value, dict) else None
        return value is True


def parse_client_facts(params: Json) -> ClientFacts:
    """Read the params of `initialize`. Raises `InvalidParamsError` naming the field."""
    capabilities = _object(params, "capabilities")
    options = _object(params, "initializationOptions")
    block = _object(options, "ohDaemon") or _object(
        _object(capabilities, "experimental"), "ohDaemon"
    )
    client = _object(block, "client") or _object(params, "clientInfo")
    events = _object(block, "events")
    features = _object(block, "features").items()
    workspace = _object(capabilities, "workspace")
    return ClientFacts(
        protocol_major=_field(_object(block, "protocolVersion"), "major", int, "number"),
        name=_text(client, "name"),
        version=_text(client, "version"),
        kind=_text(client, "kind") or "buffer",
        features=frozenset(name for name, offered in features if offered is True),
        wants_deltas=_field(events, "deltas", bool, "boolean") is not False,
        opted_out=frozenset(_texts(_array(events, "optOut"))),
        on_disconnect=_text(block, "onDisconnect") or "interrupt",
        trust=_trust(_array(block, "trust")),
        locale=_text(block, "locale") or _text(params, "locale"),
        process_id=_field(params, "processId", int, "number"),
        folder_uris=_folder_uris(params),
        position_encoding=_encoding(_array(_object(capabilities, "general"), "positionEncodings")),
        applies_edits=workspace.get("applyEdit") is True,
        takes_document_changes=_object(workspace, "workspaceEdit").get("documentChanges") is True,
        capabilities=capabilities,
        options=options,
    )


def _field(source: Json, name: str, kind: type, kind_name: str) -> Any:
    """The value, which is of type `kind`, or None where it is missing or null."""
    value = source.get(name)
    if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
        return value
    message = f"Input should be of type {kind_name}"
    raise InvalidParamsError(
        f"{name!r} must be of type {kind_name}",
        ({"path": name, "code": f"{kind_name}_type", "message": message},),
    )


def _object(source: Json, name: str) -> Json:
    return _field(source, name, dict, "object") or {}


def _array(source: Json, name: str) -> list[Any]:
    return _field(source, name, list, "array") or []


def _text(source: Json, name: str) -> str:
    return _field(source, name, str, "string") or ""


def _texts(values: list[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _objects(values: list[Any]) -> list[Json]:
    return [cast("Json", value) for value in values if isinstance(value, dict)]


def _trust(entries: list[Any]) -> dict[str, bool]:
    """Only a plain `true` counts as trusted."""
    return {_text(entry, "folder"): entry.get("trusted") is True for entry in _objects(entries)}


def _folder_uris(params: Json) -> tuple[str, ...]:
    if params.get("workspaceFolders") is not None:
        folders = _objects(_array(params, "workspaceFolders"))
        return tuple(_text(folder, "uri") for folder in folders)
    root_uri = _text(params, "rootUri")
    return (root_uri,) if root_uri else ()


def _encoding(offered: list[Any]) -> str:
    """The first that we know in the client's own order; LSP's default is UTF-16."""
    return next((name for name in _texts(offered) if name in _ENCODINGS), "utf-16")
