"""The registries of packages: the public ones, and mirrors that the user's own files name.

Nothing is read from a project, which could name any host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from oh_daemon.core.hosts import Host
from oh_daemon.workspace.files import read_plain

PUBLIC = (
    *("pypi.org", "files.pythonhosted.org"),
    "registry.npmjs.org",
    *("index.crates.io", "static.crates.io"),
    *("proxy.golang.org", "sum.golang.org"),
)
_VARIABLES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX"),
    *("npm_config_registry", "NPM_CONFIG_REGISTRY", "GOPROXY"),
)
_FILES = (
    *(".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml", ".npmrc"),
    *(".cargo/config.toml", ".cargo/config", ".config/go/env"),
)
"""In the user's home folder."""
_OF_SYSTEM = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "/etc/npmrc")
_NAMES_A_REGISTRY = re.compile(
    r"^\s*(?:(?:extra-)?index-url|(?:default-)?index|url|(?:@[\w.-]+:)?registry|GOPROXY)\s*=", re.I
)
"""A line of any of these files; what goes on in the next line is indented."""
_URL = re.compile(r"https?://[^\s\"',|]+")
_MAX_BYTES = 1 << 16


def registries_of(home: Path | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return their hosts, as the setting `hosts` names hosts."""
    return tuple(dict.fromkeys((*PUBLIC, *_named_by_user(home, environment))))


def _named_by_user(home: Path | None, environment: Mapping[str, str]) -> Iterator[str]:
    for name in _VARIABLES:
        yield from _hosts_in(environment.get(name, ""))
    own = [home / name for name in _FILES] if home else []
    named = environment.get("PIP_CONFIG_FILE")
    for path in (*own, *map(Path, _OF_SYSTEM), *([Path(named)] if named else ())):
        with suppress(OSError, ValueError):
            yield from _hosts_in(_values_in(read_plain(path, _MAX_BYTES).decode()))


def _values_in(text: str) -> str:
    """Return the lines that name a registry, each with those that go on with it."""
    kept, goes_on = list[str](), False
    for line in text.splitlines():
        goes_on = bool(_NAMES_A_REGISTRY.match(line)) or (goes_on and line[:1] in {" ", "\t"})
        if goes_on:
            kept.append(line)
    return "\n".join(kept)


def _hosts_in(text: str) -> Iterator[str]:
    for found in _URL.finditer(text):
        with suppress(ValueError):
            url = urlsplit(found.group())
            if url.hostname:
                yield str(Host(url.hostname, url.port or 443))
