"""The exception hierarchy. Messages say what went wrong and what to do next.

    DaemonError
    ├── UserError    answered to the client as a JSON-RPC error, without a traceback
    ├── ToolError    becomes an observation; the model may try again
    └── ModelError   the provider failed; `retryable` says whether another attempt can help

Any other exception is a bug and propagates unchanged. Codes -31001 to -31031 lie outside the ranges
that JSON-RPC and LSP reserve. docs/protocol lists them, with the first line of each docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import ClassVar

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800


class DaemonError(Exception):
    """A bug of the daemon; its log file has the details under `reference`.

    As a class, the base of everything that the daemon raises on purpose.
    """

    code: ClassVar[int] = INTERNAL_ERROR
    kind: ClassVar[str] = "internalError"
    """Stable name for programs, sent as `error.data.kind`; by default made from the class name."""
    retryable: bool = False

    def __init_subclass__(cls, *, code: int, kind: str | None = None) -> None:
        name = cls.__name__.removesuffix("Error")
        cls.code = code
        cls.kind = kind or name[0].lower() + name[1:]

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def with_hint(self) -> str:
        """The message and the way out, in one line; some messages already have it."""
        is_said = self.hint is None or self.hint in self.message
        return self.message if is_said else f"{self.message}; {self.hint}"


class UserError(DaemonError, code=-32803, kind="requestFailed"):
    """The request cannot be served; the message says why, and what to do."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        retry_after_ms: int | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        """Create the error; `data` is added to `error.data` unchanged."""
        super().__init__(message, hint=hint)
        self.retry_after_ms = retry_after_ms
        self.data = dict(data or {})


class InvalidParamsError(UserError, code=INVALID_PARAMS):
    """The parameters do not fit the method; `errors` says which field is wrong, and what fits."""

    def __init__(self, message: str, errors: tuple[dict[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors

    @staticmethod
    def at(path: str, what: str, code: str = "invalid") -> InvalidParamsError:
        """Return the error for the field at `path`; `what` says what is wrong with it."""
        error = {"path": path, "code": code, "message": what}
        return InvalidParamsError(f"{path}: {what}", (error,))

    @staticmethod
    @contextmanager
    def naming(**names: str) -> Generator[None]:
        """Name fields, and what is below them, as the caller knows them."""
        try:
            yield
        except InvalidParamsError as exc:
            for error in exc.errors:
                for own_name, litellm_name in names.items():
                    if f"{error['path']}.".startswith(f"{own_name}."):
                        path = litellm_name + error["path"].removeprefix(own_name)
                        raise InvalidParamsError.at(path, error["message"], error["code"]) from None
            raise


class ParseError(UserError, code=PARSE_ERROR, kind="parseError"):
    """The frame's body is not JSON, or its header has no valid length."""


class InvalidRequestError(UserError, code=INVALID_REQUEST):
    """The frame is not a request that this connection may send now."""


class MethodNotFoundError(UserError, code=METHOD_NOT_FOUND):
    """There is no such method."""

    def __init__(self, method: str) -> None:
        super().__init__(f"no method {method!r}; `initialize` lists the methods")


class NotInitializedError(UserError, code=SERVER_NOT_INITIALIZED, kind="serverNotInitialized"):
    """A request came before `initialize`."""

    def __init__(self, method: str) -> None:
        super().__init__(f"{method!r} came before `initialize`; send `initialize` first")


class RequestCancelledError(UserError, code=REQUEST_CANCELLED):
    """The client cancelled this request."""


class WorkspaceUntrustedError(UserError, code=-31001):
    """The folder is not trusted enough for this request."""


class ConversationNotFoundError(UserError, code=-31002):
    """No open folder has a conversation with this id, or the request needs it to be open."""

    def __init__(self, conversation_id: str, *, is_closed: bool = True) -> None:
        """Create the error; without `is_closed`, it could not be opened either."""
        hint = "`conversation/list` has the ids"
        if is_closed:
            what = f"there is no open conversation {conversation_id!r}"
            super().__init__(what, hint=f"{hint}; `conversation/open` opens one")
        else:
            what = f"no open folder has a conversation {conversation_id!r}"
            super().__init__(what, hint=f"{hint}; open its folder first")


class ConversationBusyError(UserError, code=-31003):
    """The conversation is running, and the request needs it to be idle."""


class ConversationLockedError(UserError, code=-31004):
    """Another process owns the conversation's log."""

    def __init__(self, conversation_id: str, owner: Mapping[str, object]) -> None:
        """Create the error; `owner` is what the lock file says about its holder."""
        self.owner = dict(owner)
        super().__init__(
            f"conversation {conversation_id!r} is open in process {owner.get('pid')} "
            f"({owner.get('client') or 'oh-daemon'}); close it there, or only read it here",
            data={"lock": owner},
        )


class TurnMismatchError(UserError, code=-31005):
    """`expectedTurnId` is not the id of the open turn."""


class InvalidStateError(UserError, code=-31006):
    """The conversation's status does not allow this request."""


class PayloadTooLargeError(UserError, code=-31014):
    """A message, an uploaded file or an export exceeds its limit."""


class OverloadedError(UserError, code=-31013):
    """There are too many requests, conversations or queued messages; try again later."""

    retryable = True


class CursorInvalidError(UserError, code=-31015):
    """The list or conversation does not have this page cursor."""


class IdempotencyConflictError(UserError, code=-31016):
    """The same client id was sent again with a different body."""


class ApprovalNotFoundError(UserError, code=-31021):
    """There is no approval or question with this id."""

    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"nothing with the id {request_id!r} waits for an answer here",
            hint="`conversation/open` shows what waits",
        )


class UnsupportedVersionError(UserError, code=-31022):
    """The client speaks a different major version of this protocol."""


class ReadOnlyError(UserError, code=-31023):
    """The log or folder is not writable."""


class ShuttingDownError(UserError, code=-31025):
    """The daemon is shutting down."""


class ApprovalStaleError(UserError, code=-31027):
    """The digest does not match the pending approval."""


class ToolError(DaemonError, code=-31028, kind="toolError"):
    """A tool failed; the message goes to the model, which may try again."""

    on_shown: Callable[[], None] | None = None
    """Called when the message goes to the model; an error that it never sees tells it nothing."""


class PathOutsideWorkspaceError(ToolError, code=-31017):
    """The path leads out of the workspace folders, directly or through a link."""


class StaleDocumentError(ToolError, code=-31018):
    """The text has changed since the agent read it; the message contains the present text."""


class EditRejectedError(ToolError, code=-31019):
    """The editor or the file system refused the edit."""


class ModelError(DaemonError, code=-31010, kind="providerError"):
    """A model call got no answer."""

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
    """The provider asks the daemon to wait."""


class AuthRequiredError(ModelError, code=-31008):
    """There is no API key, or the provider refuses it."""


class ModelUnavailableError(ModelError, code=-31009):
    """The provider does not know this model or will not serve it."""


class ContextWindowExceededError(ModelError, code=-31011):
    """The prompt does not fit into the model's context window."""


MODEL_ERRORS: tuple[type[ModelError], ...] = (
    *(ModelError, NetworkError, RateLimitError, AuthRequiredError),
    *(ModelUnavailableError, ContextWindowExceededError),
)
"""All that a model call may fail with."""


class StorageError(DaemonError, code=-31031):
    """The log cannot be written; the conversation pauses with reason `storage`."""
