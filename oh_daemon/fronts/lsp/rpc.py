"""JSON-RPC without gaps: every request whose id can be read gets exactly one answer.

Finds the handler, turns results and exceptions into answers, routes the client's answers to
`client`. Runs on the main loop; a handler that needs longer returns a `Future`. What methods do is
left to the handlers, and which are allowed now to `lifecycle`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, cast

from oh_daemon.contract.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PARSE_ERROR,
    DaemonError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    ModelError,
    OverloadedError,
    PayloadTooLargeError,
    RequestCancelledError,
    ShuttingDownError,
    StorageError,
    ToolError,
    UserError,
)
from oh_daemon.core.cancel import Cancelled, CancelToken
from oh_daemon.fronts.lsp.client import Client
from oh_daemon.fronts.lsp.outbox import Outbox
from oh_daemon.fronts.lsp.stdio import (
    MAX_MESSAGE_BYTES,
    Frame,
    Malformed,
    Message,
    RequestId,
    TooLarge,
    encode,
)

log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 64
_RETRY_AFTER_MS = 200
_MAX_FIELD_ERRORS = 20

Json = dict[str, Any]


class RequestContext:
    """One request being handled."""

    def __init__(self, request_id: RequestId, method: str, outbox: Outbox) -> None:
        self.id = request_id
        self.method = method
        self.cancel = CancelToken()
        """Fires when the client sends `$/cancelRequest` for this request."""
        self._outbox = outbox
        self._after_answer: list[Callable[[], None]] = []

    def hold(self, conversation_id: str) -> None:
        """Write this conversation's events from now on only after the answer (rule O3)."""
        self.after_answer(self._outbox.hold(conversation_id))

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Call back once the answer is queued, on the thread that queued it."""
        self._after_answer.append(callback)

    def answered(self) -> None:
        for callback in self._after_answer:
            callback()


Method = Callable[[Json, RequestContext], Any]
"""Takes the params (`{}` when absent) and returns a model, plain data, ready JSON bytes, None, or a
`Future` of one of these, which may be completed by any thread."""
Notification = Callable[[Json], None]
Gate = Callable[[str], UserError | None]


class Dispatcher:
    """`dispatch` belongs to the main loop; answers may come from any thread.

    `methods` and `notifications` are looked up at each message, so they may grow later. `gate` says
    why a method may not be used now. `urgent` methods are served even when too many others wait:
    those that make room.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        notifications: Mapping[str, Notification],
        outbox: Outbox,
        client: Client,
        *,
        gate: Gate,
        urgent: frozenset[str] = frozenset(),
    ) -> None:
        self._methods = methods
        self._notifications = notifications
        self._outbox = outbox
        self._client = client
        self._gate = gate
        self._urgent = urgent
        self._lock = threading.Lock()
        self._in_flight: dict[RequestId, RequestContext] = {}

    def dispatch(self, frame: Frame) -> None:
        match frame:
            case Message(value=dict()):
                self._dispatch_message(frame.value)
            case Message(value=list()):
                self._refuse(None, InvalidRequestError("batches are not supported"))
            case Message():
                self._refuse(None, InvalidRequestError("a message is a JSON object"))
            case Malformed(reason=reason):
                error = {"code": PARSE_ERROR, "message": f"not a JSON message: {reason}"}
                self._outbox.error(None, encode(error))
            case TooLarge():
                text = f"{frame.size_bytes} bytes; a message may have {MAX_MESSAGE_BYTES}"
                self._refuse(frame.id, PayloadTooLargeError(text))

    def abandon(self) -> None:
        """Answer whatever is still open: the daemon stops."""
        with self._lock:
            open_requests = list(self._in_flight.values())
        for context in open_requests:
            context.cancel.cancel()
            self._answer_error(context, ShuttingDownError("the daemon is stopping"))

    def _dispatch_message(self, message: Json) -> None:
        method = message.get("method")
        is_response = method is None and ("result" in message or "error" in message)
        problem = _form_error(message, is_response=is_response)
        if problem is not None:
            self._refuse(None if is_response else _readable_id(message), problem)
        elif is_response:
            self._client.on_response(message)
        elif "id" in message:
            self._on_request(message["id"], cast("str", method), message.get("params"))
        else:
            self._on_notification(cast("str", method), message.get("params"))

    def _on_request(self, request_id: RequestId, method: str, params: object) -> None:
        handler = self._methods.get(method)
        context = RequestContext(request_id, method, self._outbox)
        problem = self._gate(method) or self._admit(context)
        if problem is not None:
            self._refuse(request_id, problem)
            return
        if handler is None:
            self._answer_error(context, MethodNotFoundError(method))
            return
        try:
            result = handler(_params_object(params), context)
        except (Exception, SystemExit, Cancelled) as error:  # noqa: BLE001 - the request handler.
            self._answer_error(context, error)
            return
        if isinstance(result, Future):
            future = cast("Future[Any]", result)
            future.add_done_callback(lambda done: self._answer_future(context, done))
        else:
            self._answer(context, result)

    def _on_notification(self, method: str, params: object) -> None:
        if method == "$/cancelRequest":
            self._cancel(params)
            return
        handler = self._notifications.get(method)
        if handler is None or self._gate(method) is not None:
            log.debug("notification %.80r ignored", method)
            return
        try:
            handler(_params_object(params))
        except (Exception, SystemExit):
            # Nobody waits for an answer to a notification; the log is the only place to say it.
            log.exception("notification %r", method)

    def _admit(self, context: RequestContext) -> UserError | None:
        with self._lock:
            if context.id in self._in_flight:
                return InvalidRequestError("a request with this id is still open")
            if len(self._in_flight) >= MAX_IN_FLIGHT and context.method not in self._urgent:
                return OverloadedError(
                    f"{MAX_IN_FLIGHT} requests are open; wait for an answer and try again",
                    retry_after_ms=_RETRY_AFTER_MS,
                )
            self._in_flight[context.id] = context
            return None

    def _cancel(self, params: object) -> None:
        request_id = cast("Json", params).get("id") if isinstance(params, dict) else None
        if not _is_id(request_id):
            return
        with self._lock:
            context = self._in_flight.get(cast("RequestId", request_id))
        if context is not None:
            context.cancel.cancel()

    def _answer_future(self, context: RequestContext, done: Future[Any]) -> None:
        if done.cancelled():
            self._answer_error(context, Cancelled())
            return
        error = done.exception()
        if error is not None:
            self._answer_error(context, error)
        else:
            self._answer(context, done.result())

    def _answer(self, context: RequestContext, result: object) -> None:
        try:
            body = result if isinstance(result, bytes) else encode(result)
        except Exception as error:  # noqa: BLE001 - the request handler: its result is not JSON.
            self._answer_error(context, error)
            return
        if self._take(context):
            self._outbox.response(context.id, body)
            context.answered()

    def _answer_error(self, context: RequestContext, error: BaseException) -> None:
        if self._take(context):
            if isinstance(error, (Cancelled, CancelledError)):
                error = _cancel_error(context)
            self._outbox.error(context.id, encode(describe_error(error, context.method)))
            context.answered()

    def _refuse(self, request_id: RequestId | None, error: UserError) -> None:
        self._outbox.error(request_id, encode(describe_error(error, "")))

    def _take(self, context: RequestContext) -> bool:
        """Whether the caller is the one that answers."""
        with self._lock:
            if self._in_flight.get(context.id) is not context:
                return False
            del self._in_flight[context.id]
            return True


def describe_error(error: BaseException, method: str) -> Json:
    """The JSON-RPC error for an exception. Bugs go to the log; the client gets a reference."""
    match error:
        case UserError() | ToolError() | ModelError() | StorageError():
            return {"code": error.code, "message": error.message, "data": _error_data(error)}
        case ValueError() if (errors := _field_errors(error)) is not None:
            named = ", ".join(item["path"] or "params" for item in errors)
            data = {"kind": InvalidParamsError.kind, "retryable": False, "errors": errors}
            return {"code": INVALID_PARAMS, "message": f"invalid params: {named}", "data": data}
        case _:
            reference = uuid.uuid4().hex[:8]
            log.error("request %r, reference %s", method, reference, exc_info=error)
            data = {"kind": "internal", "retryable": False, "reference": reference}
            message = f"internal error; the daemon's log has it under reference {reference}"
            return {"code": INTERNAL_ERROR, "message": message, "data": data}


def _error_data(error: DaemonError) -> Json:
    data: Json = {"kind": error.kind, "retryable": error.retryable}
    if error.hint:
        data["hint"] = error.hint
    match error:
        case InvalidParamsError() if error.errors:
            data["errors"] = error.errors
        case UserError() if error.retry_after_ms is not None:
            data["retryAfterMs"] = error.retry_after_ms
        case ModelError() if error.retry_after_s is not None:
            data["retryAfterMs"] = round(error.retry_after_s * 1000)
        case _:
            pass
    if isinstance(error, UserError):
        data.update(error.data)
    return data


def _field_errors(error: ValueError) -> list[dict[str, str]] | None:
    """What is wrong with which field, never the value itself; None when pydantic did not say it."""
    # pydantic costs 160 ms to import, and `initialize` is answered without it.
    from pydantic import ValidationError  # noqa: PLC0415

    if not isinstance(error, ValidationError):
        return None
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        {
            "path": ".".join(str(part) for part in item["loc"]),
            "code": item["type"],
            # This one message of pydantic quotes the value.
            "message": "unknown tag" if item["type"] == "union_tag_invalid" else item["msg"],
        }
        for item in found[:_MAX_FIELD_ERRORS]
    ]


def _cancel_error(context: RequestContext) -> UserError:
    if context.cancel.is_cancelled:
        return RequestCancelledError("cancelled by the client")
    return UserError("interrupted before it was done")


def _params_object(params: object) -> Json:
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise InvalidParamsError(
            "params must be an object",
            ({"path": "", "code": "dict_type", "message": "Input should be an object"},),
        )
    return cast("Json", params)


def _form_error(message: Json, *, is_response: bool) -> UserError | None:
    if message.get("jsonrpc") != "2.0":
        return InvalidRequestError('`jsonrpc` must be "2.0"')
    if is_response:
        return None
    if not isinstance(message.get("method"), str):
        return InvalidRequestError("`method` must be a string")
    if "id" in message and not _is_id(message["id"]):
        return InvalidRequestError("`id` must be a string or a number")
    return None


def _readable_id(message: Json) -> RequestId | None:
    request_id = message.get("id")
    return cast("RequestId", request_id) if _is_id(request_id) else None


def _is_id(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
