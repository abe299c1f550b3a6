"""`Workspace.remote(…)`: a folder on another machine, where a daemon runs a program's agents."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn, Self

from msgspec import Struct

from oh_daemon.conversations.conversation_runtime import BUILTIN, BuiltinName
from oh_daemon.frontends.remote.target import Target, parse_target
from oh_daemon.protocol.errors import InvalidParamsError, UserError


class RemoteWorkspace(Struct, frozen=True):
    """A description: each `Conversation` in it has a connection and a daemon there of its own."""

    target: Target
    program: str
    """The daemon there; empty for a copy of this one, or `oh-daemon`."""
    path: Path
    """The folder there."""

    @property
    def tools(self) -> list[BuiltinName]:
        """As of a `Workspace`."""
        return list(BUILTIN)

    @property
    def refusal(self) -> str | None:
        """Only the daemon there knows: `conversation.state.sandbox` says what holds commands."""
        return None

    def run_command(self, *_command: object) -> NoReturn:
        """Raises `UserError`."""
        raise not_there("run_command")

    def patch_since(self, _commit: str) -> NoReturn:
        """Raises `UserError`."""
        raise not_there("patch_since")

    def close(self) -> None:
        """Nothing is open: a conversation closes its own connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def remote_workspace(target: str, folder: str | Path, program: str) -> RemoteWorkspace:
    """Raises `InvalidParamsError` when no target or no folder is named."""
    place = parse_target(target)
    path = Path(folder or place.folder)
    if not path.is_absolute():
        raise InvalidParamsError(
            f"folder: {target!r} names no folder; give its absolute path there"
        )
    return RemoteWorkspace(place, program, path)


_INSTEAD = {
    "run_command": "let the agent run the command, or run it there yourself",
    "patch_since": "use isolated=True: `conversation.isolated_changes.list()` has patches",
    "sign_in": "sign in there: `oh-daemon mcp login SERVER`",
    "system_prompt": "use `instructions`, which are added to the packaged prompt",
    "risk_analyzer": "use `settings={'rules': […]}`, which the daemon there obeys",
    "approval_policy": "use `settings={'rules': […]}`, or answer approvals in a callback",
    "mcp_servers": "name them in the settings there",
    "mcp_tokens": "sign in there: `oh-daemon mcp login SERVER`",
    "memory": "the daemon there keeps its user's notes",
    "tool_choice": "leave it out",
    "conversation_id": "leave it out, and keep the `id` that the conversation gets",
    "moved": "move it there, and open it with `oh-daemon run --resume` there",
    "sender": "send its text in a message of your own",
}
"""By what a program cannot have of another machine, what to do instead."""


def not_there(name: str) -> UserError:
    return UserError(f"{name}: not on another machine; {_INSTEAD[name]}")
