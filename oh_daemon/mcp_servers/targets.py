"""Keeps a server from having us make requests inside the user's network while the user signs in.

The server names the addresses of its authorization server. Invariant: only the user's own servers,
which are in that network themselves, may name one there.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from oh_daemon.contract.errors import ToolError


def only_where_public(server_url: str) -> Callable[[Any], Awaitable[None]]:
    """Return a hook for the HTTP client, called before each request, also after a redirect.

    A name is looked up here and once more for the request itself: whoever controls its DNS records
    can answer differently the second time.
    """
    server = urlsplit(server_url)

    async def look(request: Any) -> None:
        """Raise `ToolError` for a target that this server must not name."""
        url = request.url
        if _origin(str(url)) == _origin(server_url):
            return
        inside = [address for address in await _addresses(url.host) if not _is_public(address)]
        if not inside:
            return
        own = await _addresses(server.hostname or "")
        if own and not any(map(_is_public, own)):
            return
        origin = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        raise ToolError(
            f"the server wants to sign in at {origin}, which is on this machine or in its network;"
            " only a server that is there itself may do that"
        )

    return look


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


async def _addresses(host: str) -> list[IPv4Address | IPv6Address]:
    """Look a name up; nothing is known of one that only a proxy can look up."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_global
