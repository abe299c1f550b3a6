"""JSON-RPC without gaps: every request whose id can be read gets exactly one answer.

`Dispatcher` finds the handler, turns results and exceptions into answers, and routes the client's
answers to `client`. It runs on the main loop; a handler that needs longer returns a `Future`. The
handlers know what methods do, the front which are allowed now.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeGuard, cast

from msgspec import Struct, field

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.jsonrpc.client import Client
from oh_daemon.jsonrpc.framing import (
    MAX_MESSAGE_BYTES,
    Frame,
    Malformed,
    Message,
    RequestId,
    TooLarge,
    encode,
)
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.jsonrpc.reading import field_in
from oh_daemon.jsonrpc.serial import is_future
from oh_daemon.protocol import errors as e

log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 64
_RETRY_AFTER_MS = 200
_MAX_FIELD_ERRORS = 20

Json = dict[str, Any]


class RequestContext(Struct, eq=False):
    """One request being handled."""

    id: RequestId
    method: str
    _outbox: Outbox
    cancel: CancelToken = field(default_factory=CancelToken)
    """Fires when the client cancels this request."""
    _after_answer: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def hold(self, conversation_id: str) -> None:
        """Hold this conversation's events back from now on until the answer is queued (rule O3)."""
        self.after_answer(self._outbox.hold(conversation_id))

    def in_order(self, conversation_id: str, result: Any) -> Future[Any]:
        """Answer `result` between the events of this conversation so far and all later ones.

        It also waits for the answers that hold events back. Call it with the conversation locked
        when `result` says which events the client has.
        """
        future: Future[Any] = Future()
        begin = partial(future.set_result, result)
        self.after_answer(self._outbox.hold_in_order(conversation_id, begin))
        return future

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the answer is queued, on the thread that queued it."""
        self._after_answer.append(callback)

    def mark_answered(self) -> None:
        for callback in self._after_answer:
            _run_unanswered(self.method, callback)


Method = Callable[[Json, RequestContext], Any]
"""Takes the params (`{}` when absent) and returns a model, plain data, ready JSON bytes, None, or a
`Future` of one of these, which may be completed by any thread."""
Notification = Callable[[Json], None]


class Dispatcher(Struct, eq=False):
    """`dispatch` belongs to the main loop; answers may come from any thread."""

    outbox: Outbox
    client: Client
    gate: Callable[[str], e.UserError | None]
    """Says why a method may not be used now."""
    cancel: tuple[str, str]
    """The notification that cancels a request, and its field with the request's id."""
    urgent_methods: Collection[str]
    """Methods served even when too many other requests are open, since these make room."""
    methods: dict[str, Method] = field(default_factory=dict[str, Method])
    """Looked up for each message, so more can be added later; `notifications` too."""
    notifications: dict[str, Notification] = field(default_factory=dict[str, Notification])
    mask: Callable[[str], str] = str
    """Hides secrets in errors, which may quote a provider or a server."""
    own_codes: Mapping[int, int] = field(default_factory=dict[int, int])
    """The codes that the front's protocol has for errors that have others in ours."""
    _in_flight: dict[RequestId, RequestContext] = field(
        default_factory=dict[RequestId, RequestContext]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def dispatch(self, frame: Frame) -> None:
        match frame:
            case Message(value=dict()):
                self._dispatch_message(frame.value)
            case Message(value=list()):
                self.refuse(None, e.InvalidRequestError("batches are not supported"))
            case Message():
                self.refuse(None, e.InvalidRequestError("a message is a JSON object"))
            case Malformed(reason=reason):
                self.refuse(None, e.ParseError(f"not a JSON message: {reason}"))
            case TooLarge():
                text = f"{frame.size_bytes} bytes; a message may have {MAX_MESSAGE_BYTES}"
                self.refuse(frame.id, e.PayloadTooLargeError(text))

    def abandon(self) -> None:
        """Answer all open requests with an error, since the daemon is stopping."""
        with self._lock:
            open_requests = list(self._in_flight.values())
        for context in open_requests:
            self._answer_error(context, e.ShuttingDownError("the daemon is stopping"))
            context.cancel.cancel()

    def _dispatch_message(self, message: Json) -> None:
        method = message.get("method")
        is_response = method is None and ("result" in message or "error" in message)
        problem = _form_error(message, is_response=is_response)
        if problem is not None:
            request_id = None if is_response else message.get("id")
            self.refuse(request_id if _is_id(request_id) else None, problem)
        elif is_response:
            _run_unanswered("the client's answer", lambda: self.client.on_response(message))
        elif "id" in message:
            self._on_request(message["id"], cast("str", method), message.get("params"))
        else:
            self._on_notification(cast("str", method), message.get("params"))

    def _on_request(self, request_id: RequestId, method: str, params: object) -> None:
        context = RequestContext(request_id, method, self.outbox)
        problem = self.gate(method) or self._admit(context)
        if problem is not None:
            self.refuse(request_id, problem)
            return
        handler = self.methods.get(method)
        if handler is None:
            self._answer_error(context, e.MethodNotFoundError(method))
            return
        try:
            result = handler(_params_object(params), context)
        except (Exception, SystemExit, Cancelled) as error:  # noqa: BLE001 - the request handler.
            self._answer_error(context, error)
            return
        if is_future(result):
            result.add_done_callback(lambda future: self._answer_future(context, future))
        else:
            self._answer(context, result)

    def _on_notification(self, method: str, params: object) -> None:
        if method == self.cancel[0]:
            self._cancel(params)
            return
        handler = self.notifications.get(method)
        if handler is None or self.gate(method) is not None:
            log.debug("notification %.80r ignored", method)
            return
        _run_unanswered(method, lambda: handler(_params_object(params)))

    def _admit(self, context: RequestContext) -> e.UserError | None:
        with self._lock:
            if context.id in self._in_flight:
                return e.InvalidRequestError("a request with this id is still open")
            if len(self._in_flight) >= MAX_IN_FLIGHT and context.method not in self.urgent_methods:
                text = f"{MAX_IN_FLIGHT} requests are open; wait for an answer and try again"
                return e.OverloadedError(text, retry_after_ms=_RETRY_AFTER_MS)
            self._in_flight[context.id] = context
            return None

    def _cancel(self, params: object) -> None:
        request_id = field_in(params, self.cancel[1])
        with self._lock:
            context = self._in_flight.get(request_id) if _is_id(request_id) else None
        if context is not None:
            context.cancel.cancel()

    def _answer_future(self, context: RequestContext, future: Future[Any]) -> None:
        error = Cancelled() if future.cancelled() else future.exception()
        if error is not None:
            self._answer_error(context, error)
        else:
            self._answer(context, future.result())

    def _answer(self, context: RequestContext, result: object) -> None:
        try:
            body = result if isinstance(result, bytes) else encode(result)
        except Exception as error:  # noqa: BLE001 - the request handler: its result is not JSON.
            self._answer_error(context, error)
            return
        if self._take_slot(context):
            self.outbox.response(context.id, body)
            context.mark_answered()

    def _answer_error(self, context: RequestContext, error: BaseException) -> None:
        if self._take_slot(context):
            if isinstance(error, (Cancelled, CancelledError)):
                error = _cancel_error(context)
            body = encode(self._describe(error, context.method)).decode()
            self.outbox.error(context.id, self.mask(body).encode())
            context.mark_answered()

    def refuse(self, request_id: RequestId | None, error: e.UserError) -> None:
        """Answer a request that is not in flight with an error."""
        self.outbox.error(request_id, encode(self._describe(error, "")))

    def _describe(self, error: BaseException, method: str) -> Json:
        description = describe_error(error, method)
        return {**description, "code": self.own_codes.get(description["code"], description["code"])}

    def _take_slot(self, context: RequestContext) -> bool:
        """Close the request; return whether it was open, so that only one caller answers it."""
        with self._lock:
            if self._in_flight.get(context.id) is not context:
                return False
            del self._in_flight[context.id]
            return True


def describe_error(error: BaseException, method: str) -> Json:
    """Return the JSON-RPC error for an exception. A bug is logged; the client gets a reference."""
    if isinstance(error, e.DaemonError):
        return {"code": error.code, "message": error.message, "data": _error_data(error)}
    if isinstance(error, ValueError) and (errors := _field_errors(error)) is not None:
        problems = "; ".join(
            f"{item['path'] or 'params'}: {item['message']}" for item in errors[:3]
        )
        return describe_error(e.InvalidParamsError(problems, errors), method)
    reference = uuid.uuid4().hex[:8]
    log.error("request %r, reference %s", method, reference, exc_info=error)
    message = f"internal error; the daemon's log has it under reference {reference}"
    data = {"kind": e.DaemonError.kind, "retryable": False, "reference": reference}
    return {"code": e.INTERNAL_ERROR, "message": message, "data": data}


def _error_data(error: e.DaemonError) -> Json:
    data: Json = {"kind": error.kind, "retryable": error.retryable, "hint": error.hint}
    match error:
        case e.InvalidParamsError():
            data["errors"] = error.errors
        case e.UserError():
            data |= {"retryAfterMs": error.retry_after_ms, **error.data}
        case e.ModelError():
            wait_s = error.retry_after_s
            data["retryAfterMs"] = None if wait_s is None else round(wait_s * 1000)
            data["httpStatus"] = error.http_status
        case _:
            pass
    return {name: value for name, value in data.items() if value not in (None, ())}


def _field_errors(error: ValueError) -> tuple[dict[str, str], ...] | None:
    """List what is wrong with which field, never its value; None if it is no pydantic error."""
    # pydantic costs 160 ms to import, and `initialize` is answered without it.
    from pydantic import ValidationError  # noqa: PLC0415

    from oh_daemon.protocol.base import code_of, said_of  # noqa: PLC0415

    if not isinstance(error, ValidationError):
        return None
    errors = error.errors(include_url=False, include_input=False)
    # A list that is left empty by a wrong element counts as too short as well.
    above = {item["loc"][:depth] for item in errors for depth in range(len(item["loc"]))}
    errors = [item for item in errors if item["type"] != "too_short" or item["loc"] not in above]
    return tuple(
        {
            "path": ".".join(str(part) for part in item["loc"]),
            "code": code_of(item),
            "message": said_of(item),
        }
        for item in errors[:_MAX_FIELD_ERRORS]
    )


def _run_unanswered(what: str, handler: Callable[[], None]) -> None:
    """Run `handler` and log what broke: with no answer, the log is the only place to say it."""
    try:
        handler()
    except (Exception, SystemExit):
        log.exception("%.80r", what)


def _cancel_error(context: RequestContext) -> e.UserError:
    if context.cancel.is_cancelled:
        return e.RequestCancelledError("cancelled by the client")
    return e.UserError("interrupted before it was done")


def _params_object(params: object) -> Json:
    # Lua writes an empty table as an empty array.
    if params is None or params == []:
        return {}
    if not isinstance(params, dict):
        raise e.InvalidParamsError.at("params", "must be an object", "wrong_type")
    return cast("Json", params)


def _form_error(message: Json, *, is_response: bool) -> e.UserError | None:
    if message.get("jsonrpc") != "2.0":
        return e.InvalidRequestError('`jsonrpc` must be "2.0"')
    if is_response:
        return None
    if not isinstance(message.get("method"), str):
        return e.InvalidRequestError("`method` must be a string")
    if "id" in message and not _is_id(message["id"]):
        return e.InvalidRequestError("`id` must be a string or a number")
    return None


def _is_id(value: object) -> TypeGuard[RequestId]:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
