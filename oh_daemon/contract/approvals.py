"""A held action: what it would do, how risky that is, and what may be answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.items import FileChange, Hunk, NamedHunk, Risk, Scope


class CommandSubject(Contract):
    kind: Literal["command"] = "command"
    command: str
    cwd: str


class FileChangeSubject(Contract):
    kind: Literal["fileChange"] = "fileChange"
    changes: tuple[FileChange, ...]
    hunks: tuple[NamedHunk | Hunk, ...] | None = None
    """Where `editable`: all of the edit. An `editedSubject` has those that the user leaves in."""


class ToolSubject(Contract):
    kind: Literal["tool"] = "tool"
    tool: str
    args: dict[str, Any]
    definition: str | None = None
    """Hash of what an MCP server says of its tool; with another one it is asked for again."""


class PathSubject(Contract):
    kind: Literal["path"] = "path"
    uri: str
    access: Literal["read", "write"]


class TrustSubject(Contract):
    kind: Literal["trust"] = "trust"
    folder: str


class SaveDocumentsSubject(Contract):
    """Agent-edited buffers that a command would not see unless they are saved first."""

    kind: Literal["saveDocuments"] = "saveDocuments"
    uris: tuple[str, ...]


Subject = Annotated[
    CommandSubject
    | FileChangeSubject
    | ToolSubject
    | PathSubject
    | TrustSubject
    | SaveDocumentsSubject,
    Field(discriminator="kind"),
]


class ApprovalOption(Contract):
    id: str
    label: str
    effect: Literal["allow", "reject"]
    scope: Scope


class Approval(Contract):
    """A held action, durable until somebody decides. `digest` covers everything shown."""

    id: str
    digest: str
    conversation_id: str
    turn_id: str
    item_id: str
    title: str
    """The exact command or file, hidden characters escaped; built by the daemon, not the model."""
    description: str | None = None
    subject: Subject
    risk: Risk
    reason: str | None = None
    options: tuple[ApprovalOption, ...]
    editable: bool = False
    created_at: str
