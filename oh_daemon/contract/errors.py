"""The exception tree: what can go wrong, said so that the reader knows what to do next.

    DaemonError
    ├── UserError    answered to the client as a JSON-RPC error, without a traceback
    ├── ToolError    becomes an observation; the model may try again
    └── ModelError   the provider's side; `retryable` says whether another attempt can help

Everything else is a bug and travels unchanged. Codes -31001 to -31027 lie outside every band that
JSON-RPC and LSP reserve; `protocol.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800


class DaemonError(Exception):
    """Root of everything this program raises on purpose."""

    code: ClassVar[int] = INTERNAL_ERROR
    kind: ClassVar[str] = "internalError"
    """Stable machine-readable name, sent as `error.data.kind`."""
    retryable: bool = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(DaemonError):
    """A request that cannot be served; the message names the field and the way out."""

    code = -32803
    kind = "requestFailed"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        retry_after_ms: int | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        """`data` joins `error.data` as it is."""
        super().__init__(message, hint=hint)
        self.retry_after_ms = retry_after_ms
        self.data = dict(data or {})


class InvalidParamsError(UserError):
    """Parameters do not fit the method's schema; `errors` lists {path, code, message}."""

    code = INVALID_PARAMS
    kind = "invalidParams"

    def __init__(self, message: str, errors: tuple[dict[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors


class InvalidRequestError(UserError):
    """The frame is not a request this connection may make now."""

    code = INVALID_REQUEST
    kind = "invalidRequest"


class MethodNotFoundError(UserError):
    """No such method."""

    code = METHOD_NOT_FOUND
    kind = "methodNotFound"

    def __init__(self, method: str) -> None:
        super().__init__(f"no method {method!r}; `initialize` lists the methods")


class NotInitializedError(UserError):
    """A request came before `initialize`."""

    code = SERVER_NOT_INITIALIZED
    kind = "serverNotInitialized"

    def __init__(self, method: str) -> None:
        super().__init__(f"{method!r} came before `initialize`; send `initialize` first")


class RequestCancelledError(UserError):
    """The client cancelled this request itself."""

    code = REQUEST_CANCELLED
    kind = "requestCancelled"


class WorkspaceUntrustedError(UserError):
    """The folder is not trusted for what was asked."""

    code = -31001
    kind = "workspaceUntrusted"


class ConversationNotFoundError(UserError):
    """No conversation with this id in any open folder."""

    code = -31002
    kind = "conversationNotFound"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"no conversation {conversation_id!r}; ask conversation/list for the ids")


class ConversationBusyError(UserError):
    """The conversation is running and the request needs it idle."""

    code = -31003
    kind = "conversationBusy"


class ConversationLockedError(UserError):
    """Another process owns the conversation's log."""

    code = -31004
    kind = "conversationLocked"


class TurnMismatchError(UserError):
    """`expectedTurnId` is not the running turn."""

    code = -31005
    kind = "turnMismatch"


class InvalidStateError(UserError):
    """The conversation's status does not allow this request."""

    code = -31006
    kind = "invalidState"


class CapabilityMissingError(UserError):
    """The client did not offer what this needs."""

    code = -31007
    kind = "capabilityMissing"


class PayloadTooLargeError(UserError):
    """A message, part or file is above its limit."""

    code = -31014
    kind = "payloadTooLarge"


class OverloadedError(UserError):
    """Too many requests, conversations or queued messages; try again later."""

    code = -31013
    kind = "overloaded"
    retryable = True


class CursorInvalidError(UserError):
    """A page cursor or sequence number that this log does not have."""

    code = -31015
    kind = "cursorInvalid"


class IdempotencyConflictError(UserError):
    """The same client id came again with another body."""

    code = -31016
    kind = "idempotencyConflict"


class SandboxUnavailableError(UserError):
    """This platform or file system lacks what safe operation needs."""

    code = -31020
    kind = "sandboxUnavailable"


class ApprovalNotFoundError(UserError):
    """No pending approval has this id."""

    code = -31021
    kind = "approvalNotFound"


class UnsupportedVersionError(UserError):
    """The client speaks another major version of this protocol."""

    code = -31022
    kind = "unsupportedVersion"


class ReadOnlyError(UserError):
    """The log or folder cannot be written."""

    code = -31023
    kind = "readOnly"


class ShuttingDownError(UserError):
    """The daemon is stopping."""

    code = -31025
    kind = "shuttingDown"


class NotSteerableError(UserError):
    """The running turn cannot take a message now."""

    code = -31026
    kind = "notSteerable"


class ApprovalStaleError(UserError):
    """The digest is not that of the pending approval."""

    code = -31027
    kind = "approvalStale"


class ToolError(DaemonError):
    """The tool could not do it; the text goes to the model, who may try again."""

    code = -31028
    kind = "toolError"


class PathOutsideWorkspaceError(ToolError):
    """A path that leaves the workspace folders, directly or through a link."""

    code = -31017
    kind = "pathOutsideWorkspace"


class StaleDocumentError(ToolError):
    """The text changed since the agent read it; the message carries what is there now."""

    code = -31018
    kind = "staleDocument"


class EditRejectedError(ToolError):
    """The editor or the file system refused the edit."""

    code = -31019
    kind = "editRejected"


class ModelError(DaemonError):
    """A model call that did not give an answer."""

    code = -31010
    kind = "providerError"

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        http_status: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.http_status = http_status


class NetworkError(ModelError):
    """The provider could not be reached, or the stream broke."""

    code = -31029
    kind = "network"


class RateLimitError(ModelError):
    """The provider asks to wait."""

    code = -31030
    kind = "rateLimit"


class AuthRequiredError(ModelError):
    """No key, or one that the provider refuses."""

    code = -31008
    kind = "authRequired"


class ModelUnavailableError(ModelError):
    """The provider does not know this model or will not serve it."""

    code = -31009
    kind = "modelUnavailable"


class ContextWindowExceededError(ModelError):
    """The prompt does not fit the model's context."""

    code = -31011
    kind = "contextWindowExceeded"


class BudgetExceededError(ModelError):
    """A limit of cost or steps is reached."""

    code = -31012
    kind = "budgetExceeded"


class StorageError(DaemonError):
    """The log cannot be written; the conversation pauses with reason `storage`."""

    code = -31031
    kind = "storage"


def all_error_types() -> tuple[type[DaemonError], ...]:
    """Every leaf and inner class below `DaemonError` that carries a code, for docs and tests."""

    def below(root: type[DaemonError]) -> list[type[DaemonError]]:
        return [found for child in root.__subclasses__() for found in (child, *below(child))]

    return tuple(sorted(below(DaemonError), key=lambda t: t.__name__))
