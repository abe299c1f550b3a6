"""Composes from settings and grants what decides about hosts and services of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from oh_daemon.app.registries import registries_of
from oh_daemon.contract.approvals import HostSubject
from oh_daemon.contract.items import Scope
from oh_daemon.core.approval import Gate, never_asks
from oh_daemon.core.consent import Policy
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.host_consent import UNASKED, HostConsent, key_of
from oh_daemon.core.hosts import is_named
from oh_daemon.core.ports import Intent

if TYPE_CHECKING:
    from oh_daemon.app.shared import Shared


def host_consent_of(
    shared: Shared, conversation: Conversation, policy: Policy, home: Path | None
) -> HostConsent:
    """Return what decides about the hosts that a conversation's commands connect to."""
    return HostConsent(
        conversation,
        policy,
        allowed=lambda: shared.settings(home).settings.hosts,
        registries=lambda: registries_of(shared.home, shared.environment),
    )


def service_gates(
    shared: Shared,
    conversation: Conversation,
    home: Path,
    is_granted: Callable[[str], bool],
    intent: Intent,
) -> Iterator[Gate]:
    """Yield a gate for each service of this machine that a command asks for."""
    options = conversation.state.options_now
    if not intent.services or options["mode"] == "full":
        return
    allowed = shared.settings(home).settings.hosts
    for service in intent.services:
        subject = HostSubject(host=service.name, port=service.port)
        if not is_named(service, allowed) and not is_granted(key_of(subject)):
            yield Gate(
                subject,
                f"Let commands connect to {service} on this machine?",
                required=True,
                on_allow=partial(_keep_grant, shared, home, subject),
                refusal=f"Not run: no access to {service}: {UNASKED}"
                if never_asks(options)
                else None,
            )


def _keep_grant(shared: Shared, home: Path, subject: HostSubject, scope: Scope) -> None:
    if scope in {"folder", "user"}:
        shared.save_grant(home, key_of(subject))
