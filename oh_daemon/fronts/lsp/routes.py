"""Which module has the handler of each method; most are imported at the first request for one.

Such imports run on a worker thread and hold nothing up but later requests for the same
conversation, or, if they name none, for the same module: these run in the order of arrival.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from oh_daemon.contract import protocol
from oh_daemon.fronts.lsp.daemon import Daemon, Handler
from oh_daemon.fronts.lsp.methods import URGENT
from oh_daemon.fronts.wire.dispatch import Json, Method, RequestContext
from oh_daemon.fronts.wire.serial import Serial

ROUTES: dict[str, tuple[str, ...]] = {
    "branches": (
        *("conversation/export", "conversation/fork", "conversation/rollback"),
        *("checkpoint/list", "checkpoint/restore"),
    ),
    "changes": ("changes/list", "changes/diff", "changes/accept", "changes/revert"),
    "conversation": (
        *("conversation/start", "conversation/close", "conversation/update", "conversation/delete"),
        *("conversation/sendMessage", "conversation/pause", "conversation/resume"),
        *("conversation/condense", "conversation/interrupt", "conversation/queue"),
        *("conversation/setOption", "conversation/subscribe", "conversation/unsubscribe"),
    ),
    "daemon": (
        *("approval/list", "approval/respond", "input/respond", "tool/list", "attachment/put"),
        *("config/read", "config/validate", "secret/set", "secret/remove", "secret/list"),
        *("daemon/status", "workspace/setTrust"),
    ),
    "history": (
        *("conversation/open", "conversation/list", "conversation/read", "conversation/events"),
        "output/read",
    ),
    "mcp": ("mcp/list", "mcp/setEnabled", "mcp/restart", "mcp/authenticate"),
    "models": ("model/list", "conversation/ask", "usage/read"),
    "ports": ("port/list", "port/open"),
    "search": ("context/search",),
    "skills": ("agent/list", "command/list", "skill/list"),
    "terminal": ("terminal/list", "terminal/read", "terminal/write", "terminal/kill"),
}
"""Each has a module `handlers_<noun>`, whose `HANDLERS` are of these methods."""
_NOUNS = {name: noun for noun, names in ROUTES.items() for name in names}
_AT_ONCE = frozenset({"conversation", "daemon", "history"})
"""These are imported with the services: what a client asks first, and what may not be overtaken by
a message that follows it (an interrupt, an approval, a start)."""


def bind(daemon: Daemon) -> dict[str, Method]:
    """Return what serves each method of the registry."""
    imports = Serial(daemon.workers)
    return {method.name: _bound(daemon, method, imports) for method in protocol.REQUESTS}


def _bound(daemon: Daemon, method: protocol.Method, imports: Serial) -> Method:
    noun, loaded = _NOUNS[method.name], list[Handler]()

    def load() -> None:
        # The model is built here too, since that takes as long as an import.
        method.params.model_rebuild()
        loaded.append(import_module(f"oh_daemon.fronts.lsp.handlers_{noun}").HANDLERS[method.name])

    if noun in _AT_ONCE:
        load()

    def call(params: Json, context: RequestContext) -> Any:
        def run(_: object = None) -> Any:
            return loaded[0](daemon, method.params.model_validate(params), context)

        # Who interrupts something does not wait for what else was asked of it.
        key = noun if method.name in URGENT else str(params.get("conversationId", noun))
        if not loaded:
            return imports.run(key, load, run)
        waiting = imports.wait(key, run)
        return run() if waiting is None else waiting

    return call
