"""Requests from the daemon to the client: numbered, awaited, withdrawn; late answers are logged.

What to ask is left to the callers. Invariant: every call ends exactly once, with an answer or with
the reason why there is none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.outbox import Outbox
from oh_daemon.jsonrpc.reading import object_in
from oh_daemon.protocol import errors as e

log = logging.getLogger(__name__)

_MAX_ERROR_CHARS = 1000
_KINDS = {
    kind.code: kind
    for kind in vars(e).values()
    if isinstance(kind, type) and issubclass(kind, e.DaemonError)
}
Family = TypeVar("Family", bound=e.DaemonError)


class ClientAnswer(Struct, frozen=True):
    """What became of a request; `result` is valid only when `outcome` is "answered"."""

    outcome: Literal["answered", "refused", "deadline", "gone"]
    result: Any = None
    """JSON as the client sent it; whoever asked checks it."""
    message: str = ""
    lacks_method: bool = False
    """Whether it was refused because the client has no such method."""
    error: Any = None
    """JSON as the client sent it, if it was refused."""


OnAnswer = Callable[[ClientAnswer], None]
_GONE = ClientAnswer("gone", message="the client is gone")


class Client:
    """Sends requests to the other end of the connection. Any thread may ask."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._lock = threading.Lock()
        self._waiters: dict[int, OnAnswer] = {}
        self._ids = count(1)
        self._is_gone = False

    def request(
        self, method: str, params: object, *, deadline_s: float, cancel: CancelToken
    ) -> ClientAnswer:
        """Ask and wait for the answer. Never call this on the main loop.

        Withdraws the request after the deadline, or when cancelled, and then ignores a late
        answer. Raises `Cancelled`.
        """
        cancel.raise_if_cancelled()
        answers: SimpleQueue[ClientAnswer | None] = SimpleQueue()
        withdraw = self.request_async(method, params, answers.put)
        unregister = cancel.on_cancel(lambda: answers.put(None))
        try:
            answer = answers.get(timeout=deadline_s)
        except Empty:
            answer = ClientAnswer("deadline", message=f"no answer to {method} in {deadline_s:g} s")
        finally:
            unregister()
            withdraw()
        if answer is None:
            raise Cancelled
        return answer

    def request_async(
        self, method: str, params: object, on_answer: OnAnswer = lambda _answer: None
    ) -> Callable[[], None]:
        """Ask without a deadline. `on_answer` must be short: it is called on the main loop.

        When the client is gone already, this thread calls it, before returning. The returned
        function withdraws the request if it is still open; then `on_answer` is never called.
        """
        body = encode(params)
        with self._lock:
            request_id = next(self._ids)
            is_gone = self._is_gone
            if not is_gone:
                self._waiters[request_id] = on_answer
        if is_gone:
            on_answer(_GONE)
        else:
            self._outbox.request(request_id, method, body)
        return lambda: self._withdraw(request_id)

    def on_response(self, response: dict[str, Any]) -> None:
        """Route the client's answer to whoever asked."""
        on_answer = self._take_waiter(response.get("id"))
        if on_answer is None:
            # In ordinary use, too: it was withdrawn while the client answered.
            log.debug("an answer to no open request: id %.40r", response.get("id"))
            return
        error = response.get("error")
        if error is None:
            on_answer(ClientAnswer("answered", result=response.get("result")))
        else:
            code, text = _code_and_text(error)
            lacks_method = code == e.METHOD_NOT_FOUND
            answer = ClientAnswer("refused", message=text, lacks_method=lacks_method, error=error)
            on_answer(answer)

    def on_gone(self) -> None:
        """End all open requests with outcome "gone"; later ones end so as soon as they are made."""
        with self._lock:
            self._is_gone = True
            requests = list(self._waiters.values())
            self._waiters.clear()
        for on_answer in requests:
            on_answer(_GONE)

    def _withdraw(self, request_id: int) -> None:
        if self._take_waiter(request_id) is not None:
            self._outbox.withdraw(request_id)

    def _take_waiter(self, request_id: object) -> OnAnswer | None:
        if not isinstance(request_id, int) or isinstance(request_id, bool):
            return None
        with self._lock:
            return self._waiters.pop(request_id, None)


class SharedQuestions:
    """Questions to the user, each open at most once. Thread-safe."""

    def __init__(self, outbox: Outbox, client: Client) -> None:
        self._outbox = outbox
        self._client = client
        self._lock = threading.Lock()
        self._open: dict[str, Callable[[], None]] = {}

    def ask(
        self, question_id: str, stream_id: str, form: tuple[str, object], on_answer: OnAnswer
    ) -> None:
        """Ask with this method and these params, after the stream's events, unless it is open."""
        with self._lock:
            if question_id in self._open:
                return
            self._open[question_id] = lambda: None
        self._outbox.in_order(stream_id, lambda: self._send(question_id, form, on_answer))

    def withdraw(self, question_ids: Iterable[str]) -> None:
        """Withdraw those that are decided by now, or that nobody waits for any more."""
        with self._lock:
            open_ones = [self._open.pop(each) for each in question_ids if each in self._open]
        for withdraw in open_ones:
            withdraw()

    def _send(self, question_id: str, form: tuple[str, object], deliver: OnAnswer) -> None:
        def on_answer(answer: ClientAnswer) -> None:
            with self._lock:
                self._open.pop(question_id, None)
            deliver(answer)

        withdraw = self._client.request_async(*form, on_answer)
        with self._lock:
            if question_id in self._open:
                self._open[question_id] = withdraw
                return
        withdraw()  # It was decided elsewhere meanwhile.


def error_of(raw_error: Any, family: type[Family]) -> Family:
    """Return the error that a JSON-RPC error describes, whatever is wrong with that.

    Its class is the one that was raised there, if that is of this family, else the family's own.
    """
    fields = object_in(raw_error) or {"message": str(raw_error)}
    more, code = object_in(fields, "data"), fields.get("code")
    kind = _KINDS.get(code, family) if isinstance(code, int) else family
    # Without its own constructor, which makes a message.
    error = kind.__new__(kind) if issubclass(kind, family) else family.__new__(family)
    text, hint = str(fields.get("message")), more.get("hint")
    e.DaemonError.__init__(error, text, hint=hint if isinstance(hint, str) else None)
    error.retryable = more.get("retryable") is True
    wait_ms, status = more.get("retryAfterMs"), more.get("httpStatus")
    wait_ms = round(wait_ms) if isinstance(wait_ms, int | float) else None
    if isinstance(error, e.ModelError):
        error.retry_after_s = None if wait_ms is None else wait_ms / 1000
        error.http_status = status if isinstance(status, int) else None
    if isinstance(error, e.UserError):
        error.retry_after_ms, error.data = wait_ms, more
    if isinstance(error, e.InvalidParamsError):
        error.errors = tuple(more.get("errors") or ())
    if isinstance(error, e.ConversationLockedError):
        error.owner = object_in(more, "lock")
    return error


def _code_and_text(error: object) -> tuple[object, str]:
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    return fields.get("code"), str(fields.get("message"))[:_MAX_ERROR_CHARS]
