"""What the client said about itself in `initialize`, read without pydantic to answer quickly.

Unknown fields are ignored, missing ones have defaults, wrong types are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct, field

from oh_daemon.frontends.lsp.boot import choose_encoding
from oh_daemon.jsonrpc.reading import field_in
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.initialize import FEATURES

Json = dict[str, Any]


class ClientFacts(Struct, frozen=True):
    """Fixed for the life of the connection."""

    protocol_major: int | None = None
    """None when the client does not say."""
    block: Json | None = None
    """What it says to us, in the `ohDaemon` block."""
    name: str = ""
    is_panel: bool = False
    """The client shows approvals itself when it receives their events."""
    is_attended: bool = True
    """Whether anybody is there who could answer, if only with the next message."""
    features: frozenset[str] = frozenset()
    """The features that our block sets to `true`, for instance applyEdit2."""
    wants_deltas: bool = True
    opted_out: frozenset[str] = frozenset()
    """Event types this client does not want."""
    trust: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Folder (URI or path as sent) to the editor's own verdict; only a plain `true` is trust."""
    models: Json | None = None
    """The models that the client reaches for us; None if we reach them ourselves."""
    settings: Json = field(default_factory=dict[str, Any])
    process_id: int | None = None
    folder_uris: tuple[str, ...] = ()
    position_encoding: str = "utf-16"
    capabilities: Json = field(default_factory=dict[str, Any])
    """LSP's ClientCapabilities; query them with `offers`."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a plain LSP client, which knows none of our notifications."""
        return self.block is None or self.block.get("plain") is True

    def offers(self, *path: str) -> bool:
        """Return whether the value at this path in `capabilities` is present and not false."""
        return field_in(self.capabilities, *path) not in (None, False)


def parse_client_facts(params: Json) -> ClientFacts:
    """Read the params of `initialize`. Raises `InvalidParamsError` naming the field."""
    params_part = _Part("", params)
    capabilities = params_part.object("capabilities")
    own_block = params_part.object("initializationOptions").find("ohDaemon")
    if own_block is None:
        own_block = capabilities.object("experimental").find("ohDaemon")
    block = own_block or _Part("", {})
    client = block.find("client") or params_part.object("clientInfo")
    events, features = block.object("events"), block.object("features")
    return ClientFacts(
        block=own_block and own_block.values,
        protocol_major=block.object("protocolVersion").field("major", int),
        name=client.text("name"),
        is_panel=client.text("kind") == "panel",
        is_attended=client.text("kind") != "unattended",
        features=frozenset(name for name in FEATURES if features.field(name, bool)),
        wants_deltas=events.field("deltas", bool) is not False,
        opted_out=frozenset(name for name in events.array("optOut") if isinstance(name, str)),
        trust={e.text("folder"): e.field("trusted", bool) is True for e in block.objects("trust")},
        models=block.object("models").values if features.field("modelRequests", bool) else None,
        settings=block.object("settings").values,
        process_id=params_part.field("processId", int),
        folder_uris=_folder_uris(params_part),
        position_encoding=choose_encoding(
            capabilities.object("general").array("positionEncodings")
        ),
        capabilities=capabilities.values,
    )


_KIND_NAMES: dict[type, str] = {
    dict: "object", list: "array", str: "string", int: "number", bool: "boolean",
}  # fmt: skip


class _Part(Struct, frozen=True):
    """An object within the params, and its place there, by which errors name its fields."""

    path: str
    values: Json

    def field(self, name: str, kind: type) -> Any:
        """Return the value, which must be of type `kind`, or None when it is missing or null."""
        value = self.values.get(name)
        if kind is dict and value == []:
            return {}  # Lua writes an empty table as an empty array.
        if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
            return value
        what = f"must be of type {_KIND_NAMES[kind]}"
        raise InvalidParamsError.at(f"{self.path}{name}", what, "wrong_type")

    def find(self, name: str) -> _Part | None:
        values = self.field(name, dict)
        return None if values is None else _Part(f"{self.path}{name}.", values)

    def object(self, name: str) -> _Part:
        return self.find(name) or _Part(f"{self.path}{name}.", {})

    def text(self, name: str) -> str:
        return self.field(name, str) or ""

    def array(self, name: str) -> list[Any]:
        return self.field(name, list) or []

    def objects(self, name: str) -> list[_Part]:
        entries = enumerate(self.array(name))
        return [
            _Part(f"{self.path}{name}.{n}.", cast("Json", each))
            for n, each in entries
            if isinstance(each, dict)
        ]


def _folder_uris(params: _Part) -> tuple[str, ...]:
    if params.values.get("workspaceFolders") is not None:
        return tuple(folder.text("uri") for folder in params.objects("workspaceFolders"))
    root_uri = params.text("rootUri")
    return (root_uri,) if root_uri else ()
