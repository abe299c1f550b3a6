"""What the daemon sends: notifications, and requests to the client with their results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.contract.approvals import Approval, Subject
from oh_daemon.contract.base import Contract
from oh_daemon.contract.events import Record
from oh_daemon.contract.items import ErrorInfo
from oh_daemon.contract.language_servers import Diagnostic
from oh_daemon.contract.messages import ConversationInfo


class EventParams(Record):
    """A durable event: a record of the log, byte for byte, with two more fields in front."""

    conversation_id: str
    epoch: str


class DeltaParams(Contract):
    """A piece of streamed text; the log has the whole text once the item has ended.

    `offset` is the number of code points sent before it on this channel of this item.
    """

    conversation_id: str
    turn_id: str
    item_id: str
    channel: Literal["text", "reasoning", "output"]
    offset: int
    text: str


class ChangedParams(Contract):
    """A conversation was created, updated or deleted; for lists of conversations."""

    conversation: ConversationInfo
    change: Literal["created", "updated", "deleted"]


class GapParams(Contract):
    """This client was too slow and missed events; `conversation/events` has them."""

    conversation_id: str
    from_seq: int
    to_seq: int


class DaemonStatusChangedParams(Contract):
    """Something that the user should know about the daemon itself."""

    kind: Literal["normal", "warning", "error"]
    message: str
    conversation_id: str | None = None
    error: ErrorInfo | None = None


# Requests, and the client's answers


class ApplyEditParams(Contract):
    """Apply an edit as one undo step; feature `applyEdit2`, else `workspace/applyEdit`.

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
    """Return a document's text, asked when the daemon lost track of it; feature `readDocument`."""

    uri: str


class ReadDocumentResult(Contract):
    text: str
    version: int | None = None


class SaveDocumentParams(Contract):
    """Save documents; feature `saveDocument`, else the agent is told that they are unsaved."""

    uris: tuple[str, ...]


class SaveDocumentResult(Contract):
    saved: tuple[str, ...] = ()


class DiagnosticsParams(Contract):
    """Return the diagnostics of `uris`, or all that are known; feature `diagnostics`."""

    uris: tuple[str, ...] | None = None
    min_severity: Annotated[int, Field(ge=1, le=4)] = 4
    """A severity as in LSP; diagnostics with a higher number are left out."""


class DocumentDiagnostics(Contract):
    uri: str
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticsResult(Contract):
    items: tuple[DocumentDiagnostics, ...]


class LanguageRequestParams(Contract):
    """Ask the user's language servers, with LSP's `params`; feature `languageRequests`."""

    method: Literal[
        "textDocument/definition",
        "textDocument/references",
        "textDocument/hover",
        "textDocument/documentSymbol",
        "textDocument/rename",
        "workspace/symbol",
    ]
    params: dict[str, Any]


class LanguageRequestResult(Contract):
    """LSP's result; with several servers, that of the first server that has one."""

    result: Any


class OpenDiffParams(Contract):
    """Show a file's changes; feature `openDiff`, else `window/showDocument` of the patch."""

    conversation_id: str
    uri: str
    old_uri: str
    """Like `newUri`, to be read through `workspace/textDocumentContent`."""
    new_uri: str
    title: str


class ApprovalRequestParams(Approval):
    """Ask the user to approve an action; `approvalRequests`, else `window/showMessageRequest`."""


class ApprovalAnswer(Contract):
    """Without an option, nothing is decided: the approval stays pending."""

    option_id: str | None = None
    feedback: str | None = None
    edited_subject: Subject | None = None
