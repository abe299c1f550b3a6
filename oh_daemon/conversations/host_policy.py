"""What decides about hosts and services of this machine: settings, grants, known registries.

The registries of packages are the public ones, and mirrors that the user's own files name. Nothing
is read from a project, which could name any host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from oh_daemon.common.hosts import Host, is_named
from oh_daemon.features.approval.judgement import Policy
from oh_daemon.features.network.host_consent import UNASKED, HostConsent
from oh_daemon.kernel.approval_requests import key_of, never_asks
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Gate
from oh_daemon.kernel.ports import Intent
from oh_daemon.protocol.approvals import HostSubject
from oh_daemon.protocol.items import Scope
from oh_daemon.workspace.files import read_plain

if TYPE_CHECKING:
    from oh_daemon.conversations.services import ConversationContext

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


def host_consent_of(
    context: ConversationContext, conversation: Conversation, policy: Policy, home: Path | None
) -> HostConsent:
    """Return what decides about the hosts that a conversation's commands connect to."""
    return HostConsent(
        conversation.journal,
        policy,
        hosts=lambda: context.user.settings.of(home).settings.hosts,
        registries=lambda: registries_of(
            context.services.home, context.services.commands.current().values
        ),
    )


def service_gates(
    hosts: Sequence[str],
    conversation: Conversation,
    grants: Collection[str],
    save_grant: Callable[[str], None],
    intent: Intent,
) -> Iterator[Gate]:
    """Yield a gate for each service of this machine that a command asks for."""
    options = conversation.state.options_now
    if not intent.services or options["mode"] == "full":
        return
    for service in intent.services:
        subject = HostSubject(host=service.name, port=service.port)
        if not is_named(service, hosts) and key_of(subject) not in grants:
            yield Gate(
                subject,
                f"Let commands connect to {service} on this machine?",
                is_required=True,
                on_allow=partial(_save_grant, save_grant, subject),
                refusal=f"Not run: no access to {service}: {UNASKED}"
                if never_asks(options)
                else None,
            )


def _save_grant(save: Callable[[str], None], subject: HostSubject, scope: Scope) -> None:
    if scope in {"folder", "user"}:
        save(key_of(subject))


def registries_of(home: Path | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of registries, as the setting `hosts` names hosts."""
    return tuple(dict.fromkeys((*PUBLIC, *_named_by_user(home, environment))))


def _named_by_user(home: Path | None, environment: Mapping[str, str]) -> Iterator[str]:
    for name in _VARIABLES:
        yield from _hosts_in(environment.get(name, ""))
    own = [home / name for name in _FILES] if home else []
    config_file = environment.get("PIP_CONFIG_FILE")
    for path in (*own, *map(Path, _OF_SYSTEM), *([Path(config_file)] if config_file else ())):
        with suppress(OSError, ValueError):
            yield from _hosts_in(_values_in(read_plain(path, _MAX_BYTES).decode()))


def _values_in(text: str) -> str:
    """Return the lines that name a registry, each with those that go on with it."""
    matching, goes_on = list[str](), False
    for line in text.splitlines():
        goes_on = bool(_NAMES_A_REGISTRY.match(line)) or (goes_on and line[:1] in {" ", "\t"})
        if goes_on:
            matching.append(line)
    return "\n".join(matching)


def _hosts_in(text: str) -> Iterator[str]:
    for match in _URL.finditer(text):
        with suppress(ValueError):
            url = urlsplit(match.group())
            if url.hostname:
                yield str(Host(url.hostname, url.port or 443))
