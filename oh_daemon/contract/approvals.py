"""An action that waits for approval: what it would do, how risky it is, the possible answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.base import Contract
from oh_daemon.contract.items import FileChange, NamedHunk, Risk, Scope


class CommandSubject(Contract):
    kind: Literal["command"] = "command"
    command: str
    cwd: str


class FileChangeSubject(Contract):
    kind: Literal["fileChange"] = "fileChange"
    changes: tuple[FileChange, ...]
    hunks: tuple[NamedHunk, ...] | None = None
    """If `editable`, all hunks of the edit. An `editedSubject` has those that the user keeps."""


class ToolSubject(Contract):
    kind: Literal["tool"] = "tool"
    tool: str
    args: dict[str, Any]
    definition: str | None = None
    """Hash of an MCP tool's description; the user is asked again when it changes."""


class PathSubject(Contract):
    kind: Literal["path"] = "path"
    uri: str
    access: Literal["read", "write"]


class TrustSubject(Contract):
    kind: Literal["trust"] = "trust"
    folder: str


class SaveDocumentsSubject(Contract):
    """Buffers that the agent edited; a command does not see the edits until they are saved."""

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
    """An action held until the user decides, across restarts. `digest` covers all that is shown."""

    id: str
    digest: str
    conversation_id: str
    turn_id: str
    item_id: str
    title: str
    """The exact command or file, with hidden characters escaped; the model does not write it."""
    description: str | None = None
    subject: Subject
    risk: Risk
    reason: str | None = None
    options: tuple[ApprovalOption, ...]
    editable: bool = False
    created_at: str
