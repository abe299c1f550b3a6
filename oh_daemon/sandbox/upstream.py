"""The proxies that the user's environment names, to which ours passes on what they are for."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from oh_daemon.core.hosts import Host

_PORTS = {"http": 3128, "https": 443}


@dataclass(frozen=True, slots=True)
class Upstream:
    """A proxy of the user."""

    host: str
    port: int
    is_encrypted: bool
    headers: bytes
    """What identifies the user to it."""


def upstream_for(host: Host, scheme: str, environment: Mapping[str, str]) -> Upstream | None:
    """Return the proxy for a host. Raises `ValueError` if it is one that we cannot speak with."""
    names = (f"{scheme}_proxy", "all_proxy")
    found = (environment.get(each) for name in names for each in (name, name.upper()))
    value = next(filter(None, found), "")
    if not value or _is_excepted(host, environment):
        return None
    url = urlsplit(value if "://" in value else f"http://{value}")
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError(f"the user's proxy is of a kind that cannot be used: {url.scheme}")
    port = url.port or _PORTS[url.scheme]
    return Upstream(url.hostname, port, url.scheme == "https", _identity(url))


def _is_excepted(host: Host, environment: Mapping[str, str]) -> bool:
    """Return whether `no_proxy` names the host, a domain that it is in, or all hosts."""
    named = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    for entry in filter(None, (each.strip().lower() for each in named.split(","))):
        name = entry.removeprefix("*").removeprefix(".")
        if entry == "*" or f".{host.name}".endswith(f".{name}") or entry == str(host):
            return True
    return False


def _identity(url: SplitResult) -> bytes:
    if url.username is None:
        return b""
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
    return b"Proxy-Authorization: Basic " + b64encode(pair) + b"\r\n"
