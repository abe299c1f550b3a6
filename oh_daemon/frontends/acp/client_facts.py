"""What an ACP client says of itself in `initialize`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from oh_daemon.jsonrpc.reading import Json, field_in, object_in


class AcpClientFacts(Struct, frozen=True):
    """What a client says of itself."""

    name: str = ""
    capabilities: Json = field(default_factory=dict[str, Any])

    def offers(self, *path: str) -> bool:
        """Return whether the capability at this path is there, and not false."""
        return field_in(self.capabilities, *path) not in (None, False)


def client_facts(params: Json) -> AcpClientFacts:
    """Read what counts for us; whatever has another type than it should counts as absent."""
    name = field_in(params, "clientInfo", "name")
    return AcpClientFacts(
        name if name and isinstance(name, str) else "an ACP client",
        object_in(params, "clientCapabilities"),
    )
