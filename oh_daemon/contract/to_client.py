"""What the daemon sends: notifications, and requests to the client with the answers it expects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.approvals import Approval, Subject
from oh_daemon.contract.base import Contract
from oh_daemon.contract.events import Record
from oh_daemon.contract.language import Diagnostic
from oh_daemon.contract.messages import ConversationInfo
from oh_daemon.contract.turns import ErrorInfo


class EventParams(Record):
    """A durable event: a record of the log, byte for byte, with two fields in front."""

    conversation_id: str
    epoch: str


class DeltaParams(Contract):
    """Streamed text, never logged.

    `offset` counts code points sent before on this channel of this item.
    """

    conversation_id: str
    turn_id: str
    item_id: str
    channel: Literal["text", "reasoning", "output"]
    offset: int
    text: str


class ChangedParams(Contract):
    """For lists: created, updated or deleted."""

    conversation: ConversationInfo
    change: Literal["created", "updated", "deleted"]


class GapParams(Contract):
    """Events that this client was too slow for; `conversation/events` has them."""

    conversation_id: str
    from_seq: int
    to_seq: int


class DaemonStatusChangedParams(Contract):
    """What a user should know about the daemon itself."""

    kind: Literal["normal", "warning", "error"]
    message: str
    conversation_id: str | None = None
    error: ErrorInfo | None = None


# Requests, and what the client answers


class ApplyEditParams(Contract):
    """Apply as one undo step; feature `applyEdit2`, else `workspace/applyEdit`.

    `edit` is an LSP WorkspaceEdit with versions.
    """

    label: Annotated[str, Field(max_length=40)]
    edit: dict[str, Any]
    save: Literal["ifWasClean", "never"]


class ApplyEditResult(Contract):
    applied: bool
    saved: bool = False
    failure_reason: str | None = None


class ReadDocumentParams(Contract):
    """What the client shows, when it does not tell of an edit it made; feature `readDocument`."""

    uri: str


class ReadDocumentResult(Contract):
    text: str
    version: int | None = None


class SaveDocumentParams(Contract):
    """Save documents; feature `saveDocument`, else the user is told."""

    uris: tuple[str, ...]


class SaveDocumentResult(Contract):
    saved: tuple[str, ...] = ()


class DiagnosticsParams(Contract):
    """What the language servers report; feature `diagnostics`. Without `uris` all that is known."""

    uris: tuple[str, ...] | None = None
    min_severity: Annotated[int, Field(ge=1, le=4)] = 4
    """LSP's number; those above it are not wanted."""


class DocumentDiagnostics(Contract):
    uri: str
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticsResult(Contract):
    items: tuple[DocumentDiagnostics, ...]


class LanguageRequestParams(Contract):
    """Ask the user's language servers; feature `languageRequests`. `params` are those of LSP."""

    method: Literal[
        "textDocument/definition",
        "textDocument/references",
        "textDocument/hover",
        "textDocument/documentSymbol",
        "textDocument/prepareRename",
        "textDocument/rename",
        "workspace/symbol",
    ]
    params: dict[str, Any]


class LanguageRequestResult(Contract):
    """LSP's result; of several servers, that of the first which has one."""

    result: Any


class OpenDiffParams(Contract):
    """Show a file's changes; feature `openDiff`, else `window/showDocument` of the patch."""

    conversation_id: str
    uri: str
    old_uri: str
    """For `workspace/textDocumentContent`, as `newUri`."""
    new_uri: str
    title: str


class ApprovalRequestParams(Approval):
    """Ask the user; feature `approvalRequests`, else `window/showMessageRequest`."""


class ApprovalAnswer(Contract):
    """Without an option nothing is decided: the approval stays pending."""

    option_id: str | None = None
    feedback: str | None = None
    edited_subject: Subject | None = None
