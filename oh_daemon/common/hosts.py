"""Hosts that programs in the sandbox connect to: how they are named, and where addresses lie."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

PLACE = re.compile(r"127\.0\.0\.1:[0-9]{1,5}")
"""A service of this machine, as `services` and the setting `hosts` name it."""
_PRIVATE_ENDS = (".local", ".lan", ".internal", ".home", ".home.arpa", ".intranet", ".corp")
"""Ends of names that no public server has: RFC 6762, RFC 8375, and ICANN's list of collisions."""
WEB_PORTS = frozenset({80, 443})
REGISTRIES = "registries"
"""The entry of the setting `hosts` that means all registries of packages."""
Reach = Literal["public", "private", "local"]
"""`local` are this machine, its link, and what clouds tell machines about themselves."""
_LOCAL = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"),
            *("::/128", "::1/128", "fe80::/10", "ff00::/8"),
            # Metadata of Alibaba, Azure, Oracle and Amazon that lie elsewhere.
            *("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128"),
        ),
    )
)
_HOLDING_IPV4 = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""Addresses whose last 32 bits are one of IPv4; see RFC 6052 and RFC 4291."""


class Host(Struct, frozen=True):
    """Where a program connects to."""

    name: str
    """In lower case, or an address."""
    port: int

    @property
    def is_address(self) -> bool:
        return _is_address(self.name)

    @property
    def is_service(self) -> bool:
        """Whether it is an address of this machine, or as near."""
        return self.is_address and reach_of([self.name]) == "local"

    @property
    def url_name(self) -> str:
        """The name as URLs have it: `[::1]` for the address `::1`."""
        return f"[{self.name}]" if ":" in self.name else self.name

    def __str__(self) -> str:
        name = self.url_name
        return name if self.port in WEB_PORTS else f"{name}:{self.port}"


def parse_host(place: str) -> Host:
    """Return the host of `NAME:PORT`. Raises `ValueError`."""
    name, colon, port = place.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{place!r} must be HOST:PORT")
    bare = name.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if not bare or not all(each.isalnum() or each in "-._:" for each in bare):
        raise ValueError(f"{name!r} is no name of a host")
    return Host(str(ip_address(bare)) if _is_address(bare) else bare, int(port))


def is_named(host: Host, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns means the host; without a port, one means the web's."""
    return any(_means(pattern.lower(), host) for pattern in patterns)


def reach_of(addresses: Iterable[str]) -> Reach:
    """Return where the nearest of the addresses lies."""
    ranges = {_reach(ip_address(each.partition("%")[0])) for each in addresses}
    return "local" if "local" in ranges else "private" if "private" in ranges else "public"


def reach_of_url(url: str) -> Reach:
    """Return where the server of a URL lies by its host alone: no name is looked up.

    `http://localhost:8080` is local, `http://gpu-box/v1` private, `https://example.com` public.
    """
    try:
        name = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return "public"
    if _is_address(name):
        return reach_of([name])
    if name == "localhost" or name.endswith(".localhost"):
        return "local"
    is_private = bool(name) and ("." not in name or name.endswith(_PRIVATE_ENDS))
    return "private" if is_private else "public"


def _means(pattern: str, host: Host) -> bool:
    name, _, port = pattern.rpartition(":")
    if not port.isdigit() or (":" in name and not name.endswith("]")):
        name, port = pattern, ""
    if int(port) != host.port if port else host.port not in WEB_PORTS:
        return False
    name = name.removeprefix("[").removesuffix("]")
    return host.name.endswith(name[1:]) if name.startswith("*.") else host.name == name


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _reach(address: IPv4Address | IPv6Address) -> Reach:
    if any(address in network for network in _LOCAL):
        return "local"
    if isinstance(address, IPv6Address) and (inner := _inner(address)) is not None:
        return _reach(inner)
    return "public" if address.is_global else "private"


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which packets for this one go, if there is one."""
    if any(address in network for network in _HOLDING_IPV4):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo and teredo[1])
