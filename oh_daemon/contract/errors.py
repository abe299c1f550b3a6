"""The exception tree: what can go wrong, said so that the reader knows what to do next.

    DaemonError
    ├── UserError    answered to the client as a JSON-RPC error, without a traceback
    ├── ToolError    becomes an observation; the model may try again
    └── ModelError   the provider's side; `retryable` says whether another attempt can help

Everything else is a bug and travels unchanged. Codes -31001 to -31027 lie outside every band that
JSON-RPC and LSP reserve; `protocol.md` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Stable machine-readable name, sent as `error.data.kind`: the class's own unless given."""
    retryable: bool = False

    def __init_subclass__(cls, *, code: int, kind: str | None = None) -> None:
        name = cls.__name__.removesuffix("Error")
        cls.code = code
        cls.kind = kind or name[0].lower() + name[1:]

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(DaemonError, code=-32803, kind="requestFailed"):
    """A request that cannot be served; the message names the field and the way out."""

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


class InvalidParamsError(UserError, code=INVALID_PARAMS):
    """Parameters do not fit the method's schema; `errors` lists {path, code, message}."""

    def __init__(self, message: str, errors: tuple[dict[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors

    @staticmethod
    def at(path: str, what: str, code: str = "invalid") -> InvalidParamsError:
        """What is wrong with the field at `path`."""
        error = {"path": path, "code": code, "message": what}
        return InvalidParamsError(f"{path}: {what}", (error,))


class InvalidRequestError(UserError, code=INVALID_REQUEST):
    """The frame is not a request this connection may make now."""


class MethodNotFoundError(UserError, code=METHOD_NOT_FOUND):
    """No such method."""

    def __init__(self, method: str) -> None:
        super().__init__(f"no method {method!r}; `initialize` lists the methods")


class NotInitializedError(UserError, code=SERVER_NOT_INITIALIZED, kind="serverNotInitialized"):
    """A request came before `initialize`."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method!r} came before `initialize`; send `initialize` first")


class RequestCancelledError(UserError, code=REQUEST_CANCELLED):
    """The client cancelled this request itself."""


class WorkspaceUntrustedError(UserError, code=-31001):
    """The folder is not trusted for what was asked."""


class ConversationNotFoundError(UserError, code=-31002):
    """No conversation with this id in any open folder."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"no conversation {conversation_id!r} is at hand; conversation/list has the ids, and "
            "conversation/open opens one"
        )


class ConversationBusyError(UserError, code=-31003):
    """The conversation is running and the request needs it idle."""


class ConversationLockedError(UserError, code=-31004):
    """Another process owns the conversation's log."""

    def __init__(self, conversation_id: str, owner: Mapping[str, object]) -> None:
        """`owner` is what the lock says about its holder."""
        self.owner = dict(owner)
        super().__init__(
            f"conversation {conversation_id!r} is open in process {owner.get('pid')} "
            f"({owner.get('client') or 'oh-daemon'}); close it there, or only read it here",
            data={"lock": owner},
        )


class TurnMismatchError(UserError, code=-31005):
    """`expectedTurnId` is not the running turn."""


class InvalidStateError(UserError, code=-31006):
    """The conversation's status does not allow this request."""


class PayloadTooLargeError(UserError, code=-31014):
    """A message, part or file is above its limit."""


class OverloadedError(UserError, code=-31013):
    """Too many requests, conversations or queued messages; try again later."""

    retryable = True


class CursorInvalidError(UserError, code=-31015):
    """A page cursor or sequence number that this log does not have."""


class IdempotencyConflictError(UserError, code=-31016):
    """The same client id came again with another body."""


class ApprovalNotFoundError(UserError, code=-31021):
    """No approval and no question has this id."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"nothing with the id {request_id!r} waits for an answer here; conversation/open shows "
            "what waits"
        )


class UnsupportedVersionError(UserError, code=-31022):
    """The client speaks another major version of this protocol."""


class ReadOnlyError(UserError, code=-31023):
    """The log or folder cannot be written."""


class ShuttingDownError(UserError, code=-31025):
    """The daemon is stopping."""


class ApprovalStaleError(UserError, code=-31027):
    """The digest is not that of the pending approval."""


class ToolError(DaemonError, code=-31028, kind="toolError"):
    """The tool could not do it; the text goes to the model, who may try again."""

    on_shown: Callable[[], None] | None = None
    """Called when the text has gone to the model: a plan that nobody sees tells nothing."""


class PathOutsideWorkspaceError(ToolError, code=-31017):
    """A path that leaves the workspace folders, directly or through a link."""


class StaleDocumentError(ToolError, code=-31018):
    """The text changed since the agent read it; the message carries what is there now."""


class EditRejectedError(ToolError, code=-31019):
    """The editor or the file system refused the edit."""


class ModelError(DaemonError, code=-31010, kind="providerError"):
    """A model call that did not give an answer."""

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


class NetworkError(ModelError, code=-31029):
    """The provider could not be reached, or the stream broke."""


class RateLimitError(ModelError, code=-31030):
    """The provider asks to wait."""


class AuthRequiredError(ModelError, code=-31008):
    """No key, or one that the provider refuses."""


class ModelUnavailableError(ModelError, code=-31009):
    """The provider does not know this model or will not serve it."""


class ContextWindowExceededError(ModelError, code=-31011):
    """The prompt does not fit the model's context."""


class StorageError(DaemonError, code=-31031):
    """The log cannot be written; the conversation pauses with reason `storage`."""
