"""The Python API of oh-daemon, a software agent for your own editor and programs.

Each name is loaded on its first use, so importing a part of the package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oh_daemon.contract.profiles import Router
    from oh_daemon.core.ports import ToolResult
    from oh_daemon.fronts.library.agent import LLM, Agent, Tool
    from oh_daemon.fronts.library.conversation import Conversation, ConversationStatus
    from oh_daemon.fronts.library.workspace import Workspace

__all__ = [
    "LLM",
    "Agent",
    "Conversation",
    "ConversationStatus",
    "Router",
    "Tool",
    "ToolResult",
    "Workspace",
]
_HOMES = {
    **dict.fromkeys(("LLM", "Agent", "Tool"), "fronts.library.agent"),
    "Router": "contract.profiles",
    "ToolResult": "core.ports",
    **dict.fromkeys(("Conversation", "ConversationStatus"), "fronts.library.conversation"),
    "Workspace": "fronts.library.workspace",
}


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
