"""oh-daemon: a software agent inside your own editor. This is its Python API.

Names are loaded when they are first used, so importing a part of the package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oh_daemon.core.ports import ToolResult
    from oh_daemon.fronts.library import (
        LLM,
        Agent,
        Conversation,
        ConversationStatus,
        Tool,
        Workspace,
    )

__all__ = [
    "LLM",
    "Agent",
    "Conversation",
    "ConversationStatus",
    "Tool",
    "ToolResult",
    "Workspace",
]


def __getattr__(name: str) -> Any:
    # Only public names get here, and each is checked where it is defined.
    if name == "__version__":
        return import_module("importlib.metadata").version("oh-daemon")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "oh_daemon.core.ports" if name == "ToolResult" else "oh_daemon.fronts.library"
    return getattr(import_module(home), name)
