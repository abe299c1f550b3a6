"""The daemon as an editor starts it: `oh-daemon` on stdio.

`initialize` is answered by `lifecycle` before anything here that is slow is imported; `Daemon` and
its handlers come to life right after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from oh_daemon.fronts.lsp.client_facts import ClientFacts
from oh_daemon.fronts.lsp.lifecycle import Capabilities, Hooks, Server
from oh_daemon.fronts.lsp.rpc import Json, Method
from oh_daemon.fronts.places import Places

if TYPE_CHECKING:
    from oh_daemon.fronts.lsp.daemon import Daemon

URGENT = frozenset(
    {"conversation/interrupt", "conversation/pause", "approval/respond", "conversation/close"}
)
"""Served even when too many other requests are open: those that make room."""


def serve(stdio: tuple[int, int], environment: Mapping[str, str], places: Places) -> int:
    """Serve one client until the end; the result is the exit code."""
    return _Front(stdio, environment, places).server.run()


class _Front:
    """Holds what exists before `initialize`, and builds the rest after it."""

    def __init__(
        self, stdio: tuple[int, int], environment: Mapping[str, str], places: Places
    ) -> None:
        self._environment = environment
        self._places = places
        self._methods: dict[str, Method] = {}
        self._notifications: dict[str, Callable[[Json], None]] = {}
        self._daemon: Daemon | None = None
        hooks = Hooks(
            on_initialize=self._on_initialize,
            on_stop=[self._on_stop],
            on_lost_frame=self._on_lost_frame,
            warm_up=("oh_daemon.fronts.lsp.positions",),
        )
        self.server = Server(
            stdio, self._methods, self._notifications, _capabilities(), hooks, urgent=URGENT
        )

    def _on_initialize(self, facts: ClientFacts) -> None:
        from oh_daemon.fronts.lsp.composition import compose  # noqa: PLC0415 - after the answer.

        composed = compose(self.server, facts, self._environment, self._places)
        self._daemon = composed.daemon
        self._methods.update(composed.methods)
        self._notifications.update(composed.notifications)

    def _on_stop(self, left_s: float) -> None:
        if self._daemon is not None:
            self._daemon.stop(left_s)

    def _on_lost_frame(self, head: bytes) -> None:
        if self._daemon is not None:
            self._daemon.documents.on_lost_frame(head)


def _capabilities() -> Capabilities:
    from oh_daemon.contract import protocol  # noqa: PLC0415 - pydantic comes with it.
    from oh_daemon.contract.events import EVENT_TYPES  # noqa: PLC0415

    return Capabilities(
        version=_version(),
        ours={
            "methods": [method.name for method in protocol.REQUESTS],
            "notifications": [method.name for method in protocol.NOTIFICATIONS],
            "eventTypes": list(EVENT_TYPES),
            "optionCategories": ["mode", "approval", "model"],
            "approvalScopes": ["once", "conversation", "folder"],
            "limits": protocol.LIMITS,
        },
        commands=tuple(protocol.COMMANDS),
    )


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - 10 ms, not needed to start reading.

    return version("oh-daemon")
