"""What the daemon sends: notifications, and requests to the client with their results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oh_daemon.protocol.approvals import Approval, Subject
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.events import Record
from oh_daemon.protocol.items import ErrorInfo
from oh_daemon.protocol.language_servers import Diagnostic
from oh_daemon.protocol.messages import ConversationInfo


class EventParams(Record):
    """A durable event: a record of the log, byte for byte, with two more fields in front."""

    conversation_id: str
    epoch: str
    """Another one means that records may have been lost (R3)."""


class DeltaParams(Contract):
    """A piece of streamed text; the log has the whole text once the item has ended.

    `offset` is the number of code points sent before it on this channel of this item.
    """

    conversation_id: str
    turn_id: str
    item_id: str
    channel: Literal["text", "reasoning", "output"]
    """What the text belongs to: the message, the reasoning, or a tool's output."""
    offset: int
    """Number of code points sent before on this channel of this item."""
    text: str
    """The piece of text."""


class ChangedParams(Contract):
    """A conversation was created, updated or deleted; for lists of conversations."""

    conversation: ConversationInfo
    """As it is now; for `deleted`, as it was."""
    change: Literal["created", "updated", "deleted"]
    """What happened."""


class GapParams(Contract):
    """This client was too slow and missed events; `conversation/events` has them."""

    conversation_id: str
    from_seq: int
    """`seq` of the first event that was not sent."""
    to_seq: int
    """`seq` of the last one."""


class DaemonStatusChangedParams(Contract):
    """Something that the user should know about the daemon itself."""

    kind: Literal["normal", "warning", "error"]
    """How much it matters."""
    message: str
    """What happened, for people."""
    conversation_id: str | None = None
    """The conversation that it is about, if any."""
    error: ErrorInfo | None = None


# Requests, and the client's answers


class ApplyEditParams(Contract):
    """Apply an edit as one undo step; feature `applyEdit2`, else `workspace/applyEdit`.

    `edit` is an LSP WorkspaceEdit with versions.
    """

    label: Annotated[str, Field(max_length=40)]
    """Label of the undo step."""
    edit: dict[str, Any]
    """An LSP `WorkspaceEdit` of one document, with its version."""
    save: Literal["ifWasClean", "never"]
    """Whether to save afterwards."""


class ApplyEditResult(Contract):
    applied: bool
    """Whether the edit was made."""
    saved: bool = False
    """Whether the document was saved after it."""
    failure_reason: str | None = None
    """`stale`, `readonly`, `rejected`, `missing`, or a sentence that says what to do."""


class ReadDocumentParams(Contract):
    """Return a document's text, asked when the daemon lost track of it; feature `readDocument`."""

    uri: str


class ReadDocumentResult(Contract):
    text: str
    """What the buffer has now."""
    version: int | None = None
    """LSP's version of it."""


class SaveDocumentParams(Contract):
    """Save documents; feature `saveDocument`, else the agent is told that they are unsaved."""

    uris: tuple[str, ...]


class SaveDocumentResult(Contract):
    saved: tuple[str, ...] = ()
    """URIs of those that are saved now."""


class DiagnosticsParams(Contract):
    """Return the diagnostics of `uris`, or all that are known; feature `diagnostics`."""

    uris: tuple[str, ...] | None = None
    """Only these documents; by default all."""
    min_severity: Annotated[int, Field(ge=1, le=4)] = 4
    """A severity as in LSP; diagnostics with a higher number are left out."""


class DocumentDiagnostics(Contract):
    uri: str
    diagnostics: tuple[Diagnostic, ...]
    """All that are known."""


class DiagnosticsResult(Contract):
    items: tuple[DocumentDiagnostics, ...]
    """One for each document."""
    loading: tuple[str, ...] | None = None
    """Names of servers with work in progress (LSP's `$/progress`), whose reports may be partial."""


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
    """The LSP request."""
    params: dict[str, Any]
    """LSP's params of it."""


class LanguageRequestResult(Contract):
    """LSP's result; with several servers, that of the first server that has one."""

    result: Any
    """Null if no server has an answer."""


class OpenDiffParams(Contract):
    """Show a file's changes; feature `openDiff`, else `window/showDocument` of the patch."""

    conversation_id: str
    uri: str
    old_uri: str
    """Like `newUri`, to be read through `workspace/textDocumentContent`."""
    new_uri: str
    """URI of the text with the agent's changes."""
    title: str
    """What to call the view."""


class ApprovalRequestParams(Approval):
    """Ask the user to approve an action; `approvalRequests`, else `window/showMessageRequest`."""


class ApprovalAnswer(Contract):
    """Without an option, nothing is decided: the approval stays pending."""

    option_id: str | None = None
    """Id of the option that the user chose."""
    feedback: str | None = None
    edited_subject: Subject | None = None
