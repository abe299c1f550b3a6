"""Serves the requests of one connection; `MethodCalls.serve` leads from a request to its answer.

Most handlers are imported at the first request for one. Such an import runs on a worker thread and
holds nothing up but later requests for the same conversation, or, if they name none, for the same
module: these run in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from msgspec import Struct

from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.idempotency import Repeatable, new_conversation_id
from oh_daemon.conversations.message_content import content_of, mentions, refers, with_content
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.frontends.lsp.handler_arguments import ARGUMENTS, Call
from oh_daemon.frontends.lsp.methods import AT_ONCE, METHODS, Needs
from oh_daemon.jsonrpc.dispatch import Json, Method, RequestContext
from oh_daemon.jsonrpc.serial import OwnThreads, Serial, chain, is_future, on_own_thread
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.base import parse_strictly
from oh_daemon.protocol.errors import StorageError

Wait: TypeAlias = "Callable[[Callable[..., Any]], Any]"
"""A function that calls its argument when the wait is over, on any thread, and returns the result
or a future of it, such as `partial(serial.after, conversation_id)`."""
Steps: TypeAlias = "Generator[Wait, Any, Any]"
"""The code after a `yield` runs when that wait is over. Returns the answer or a future of it."""


def bind(daemon: Daemon) -> dict[str, Method]:
    """Return what serves each method of the registry."""
    calls = MethodCalls(daemon)
    registry = {each.name: each for each in protocol.REQUESTS}
    handlers = [
        _Handler(module, registry[name], needs)
        for module, rows in METHODS.items()
        for name, needs in rows.items()
    ]
    for handler in handlers:
        if handler.module in AT_ONCE:
            handler.load()
    return {handler.method.name: partial(calls.call, handler) for handler in handlers}


class _Handler(Struct):
    """The handler of one method."""

    module: str
    method: protocol.Method
    needs: Needs
    answer: Callable[[Call], Any] | None = None
    """Calls the function of the method; None until it is loaded."""

    def load(self) -> Callable[[Call], Any]:
        """Import the function; each of its parameters is one of `ARGUMENTS`."""
        if self.answer is None:
            # The model is built here too, since that takes as long as an import.
            self.method.params.model_rebuild()
            module = import_module(f"oh_daemon.{self.module}")
            function: Any = vars(module)[protocol.function_name(self.method.name)]
            code = function.__code__
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            self.answer = lambda call: function(**{name: ARGUMENTS[name](call) for name in names})
        return self.answer


class MethodCalls:
    """The calls of one connection."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._imports = Serial(daemon.workers)
        self._messages = Serial(OwnThreads())
        """Messages whose mentioned texts are being read, and later ones for the conversation."""

    def call(self, handler: _Handler, json: Json, context: RequestContext) -> Any:
        """Return the answer to a request, or a future of it. Called on the main loop."""
        return _go_on(self.serve(handler, json, context))

    def serve(self, handler: _Handler, json: Json, context: RequestContext) -> Steps:
        """Serve a request, from the import of its handler to its answer."""
        needs, queue = handler.needs, self._import_queue(handler, json)
        yield partial(self._imports.after if handler.answer else self._imports.run, queue)
        answer = handler.load()

        params: Any = parse_strictly(handler.method.params, json)
        request = Repeatable(handler.method.name, params)
        call = Call(self._daemon, params, context, request, self._daemon.folders())
        yield from self._find_conversation(call, needs, json)

        if needs.events == "after":
            context.hold(call.conversation_id)
        yield self._thread(call, needs)

        result = (
            request.earlier(call.open_conversation.conversation)
            if needs.is_once and call.open_conversation
            else None
        )
        if result is None:
            result = answer(call)
        # Other futures have their place among the events already, such as the end of a turn.
        if is_future(result) and (needs.events == "around" or needs.conversation == "new"):
            result = yield partial(chain, result)
        if needs.is_durable and not is_future(result):
            open_conversation = call.open_conversation or self._daemon.conversations.require_open(
                call.conversation_id
            )
            return _once_durable(open_conversation, result)
        if needs.events == "around":
            return context.in_order(call.conversation_id, result)
        return result

    def _import_queue(self, handler: _Handler, json: Json) -> str:
        """Return the id of the conversation that the request is for, otherwise its module.

        Urgent requests skip the conversation's queue but still wait until it is open. An answer of
        the user waits too, for the mode that was set before it.
        """
        daemon = self._daemon
        if handler.needs.conversation == "asking":
            asking = daemon.find_asking(_question(json))
            return asking.id if asking else handler.module
        conversation_id = json.get("conversationId")
        if conversation_id is None:
            return handler.module
        if handler.needs.is_urgent and daemon.conversations.find_open(str(conversation_id)):
            # What opens it may itself wait for an import.
            is_being_opened = str(conversation_id) in daemon.serial.ids()
            return str(conversation_id) if is_being_opened else handler.module
        return str(conversation_id)

    def _find_conversation(self, call: Call, needs: Needs, json: Json) -> Steps:
        """Set the conversation of the call, once it is open and earlier messages have gone on."""
        conversation_id = call.conversation_id = json.get("conversationId") or ""
        if needs.conversation == "new":
            call.conversation_id = new_conversation_id(call.request.id)
        elif needs.conversation == "asking":
            call.subject = self._daemon.asking(_question(json))
            call.conversation_id = call.subject.id
        if needs.conversation in {"none", "new", "asking"} or not conversation_id:
            return

        # Only messages wait for what one mentions: an interrupt or a close does not.
        if needs.thread == "in order if it refers":
            if mentions(content_of(call.params)):
                yield partial(self._messages.run, conversation_id)
                self._fill(call, needs)
            else:
                yield partial(self._messages.after, conversation_id)

        failure = yield partial(self._daemon.serial.after, conversation_id)
        call.subject = self._opened(conversation_id, needs, failure)

    def _opened(
        self, conversation_id: str, needs: Needs, failure: BaseException | None
    ) -> OpenConversation | Followed | None:
        """Return the conversation; `failure` is the error of the last attempt to open it."""
        conversations = self._daemon.conversations
        if needs.conversation == "history":
            followed_log = conversations.find_followed(conversation_id)
            if followed_log is not None:
                return followed_log
        open_conversation = conversations.find_open(conversation_id)
        if open_conversation is None and failure is not None:
            raise failure
        if open_conversation is None and needs.conversation != "open if there":
            return conversations.require_open(conversation_id)
        return open_conversation

    def _fill(self, call: Call, needs: Needs) -> None:
        """Read the texts that the message mentions, unless the request was answered before."""
        open_conversation = self._daemon.conversations.find_open(call.conversation_id)
        if (
            open_conversation is None
            or not needs.is_once
            or not call.request.earlier(open_conversation.conversation)
        ):
            fill = partial(self._daemon.resolver.fill_in, folders=call.folders)
            call.params = with_content(call.params, partial(fill, cancel=call.context.cancel))

    def _thread(self, call: Call, needs: Needs) -> Wait:
        """Return the wait for the handler's thread."""
        in_order = partial(self._daemon.serial.run, call.conversation_id)
        match needs.thread:
            case "own if it searches" if call.params.texts:
                return lambda go_on: on_own_thread("search", go_on)
            case "worker" | "own if it searches":
                return self._daemon.workers.submit
            case "own":
                name = f"aside-{call.conversation_id[:8]}"
                return lambda go_on: on_own_thread(name, go_on)
            case "in order":
                return in_order
            case "in order if it refers" if refers(call.params):
                return in_order
            case _:
                return lambda go_on: go_on()


def _go_on(steps: Steps, outcome: Any = None) -> Any:
    """Run up to the next wait, which goes on from there; `outcome` is that of the last one."""
    try:
        wait = steps.send(outcome)
    except StopIteration as end:
        return end.value
    return wait(partial(_go_on, steps))


def _question(params: Json) -> str:
    """Return the id of what the user answers."""
    return str(params.get("approvalId", params.get("inputId")))


def _once_durable(open_conversation: OpenConversation, result: object) -> Future[object]:
    """Return a future of `result`, done once everything appended so far is on the disk."""
    future: Future[object] = Future()

    def on_synced(error: StorageError | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    open_conversation.conversation.journal.log.after_sync(on_synced)
    return future
