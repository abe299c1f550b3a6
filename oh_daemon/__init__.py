"""The Python API of oh-daemon, a software agent for your own editor and programs.

Each name is loaded on its first use, so importing a part of the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from oh_daemon.frontends.client.child import start_daemon
    from oh_daemon.frontends.client.connection import DaemonClient
    from oh_daemon.frontends.library.library_agent import LLM, Agent, Tool
    from oh_daemon.frontends.library.library_conversation import Conversation
    from oh_daemon.frontends.library.snapshot import ConversationStatus, Snapshot
    from oh_daemon.frontends.library.workspace import Workspace
    from oh_daemon.kernel.ports import (
        Intent,
        Model,
        ModelAnswer,
        ModelDelta,
        ModelRequest,
        Progress,
        ToolCall,
        ToolResult,
        ToolSpec,
        Traits,
    )
    from oh_daemon.protocol.approvals import Approval, InputRequest
    from oh_daemon.protocol.errors import DaemonError, ModelError, StorageError, UserError
    from oh_daemon.protocol.events import Record
    from oh_daemon.protocol.items import Turn
    from oh_daemon.protocol.profiles import Router
    from oh_daemon.protocol.status import Usage

__all__ = [
    "LLM",
    "Agent",
    "Approval",
    "Conversation",
    "ConversationStatus",
    "DaemonClient",
    "DaemonError",
    "InputRequest",
    "Intent",
    "Model",
    "ModelAnswer",
    "ModelDelta",
    "ModelError",
    "ModelRequest",
    "Progress",
    "Record",
    "Router",
    "Snapshot",
    "StorageError",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Traits",
    "Turn",
    "Usage",
    "UserError",
    "Workspace",
    "start_daemon",
]
_NAMES = {
    "protocol.approvals": ("Approval", "InputRequest"),
    "protocol.errors": ("DaemonError", "ModelError", "StorageError", "UserError"),
    "protocol.events": ("Record",),
    "protocol.items": ("Turn",),
    "protocol.profiles": ("Router",),
    "protocol.status": ("Usage",),
    "kernel.ports": (
        *("Intent", "ToolCall", "ToolResult", "ToolSpec"),
        *("Model", "ModelAnswer", "ModelDelta", "ModelRequest", "Progress", "Traits"),
    ),
    "frontends.client.child": ("start_daemon",),
    "frontends.client.connection": ("DaemonClient",),
    "frontends.library.library_agent": ("LLM", "Agent", "Tool"),
    "frontends.library.library_conversation": ("Conversation",),
    "frontends.library.snapshot": ("ConversationStatus", "Snapshot"),
    "frontends.library.workspace": ("Workspace",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Only public names get here, and type checkers see each of them above.
    if name == "__version__":
        return import_module("importlib.metadata").version("oh-daemon")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    # Completion in a notebook would otherwise show only what was used before.
    return [*__all__, "__version__"]
