"""Calls the handler of a method as its row in `methods` says.

Most handlers are imported at the first request for one. Such an import runs on a worker thread and
holds nothing up but later requests for the same conversation, or, if they name none, for the same
module: these run in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from oh_daemon.conversations.idempotency import Repeatable, new_conversation_id
from oh_daemon.conversations.message_content import content_of, mentions, refers, with_content
from oh_daemon.conversations.open_conversation import Live
from oh_daemon.frontends.lsp.daemon import Daemon
from oh_daemon.frontends.lsp.handler_arguments import ARGUMENTS, Call
from oh_daemon.frontends.lsp.methods import AT_ONCE, METHODS, Needs
from oh_daemon.jsonrpc.dispatch import Json, Method, RequestContext
from oh_daemon.jsonrpc.serial import OwnThreads, Serial, is_future, on_own_thread, then
from oh_daemon.protocol import methods as protocol
from oh_daemon.protocol.base import parse_strictly
from oh_daemon.protocol.errors import StorageError


def bind(daemon: Daemon) -> dict[str, Method]:
    """Return what serves each method of the registry."""
    imports, messages = Serial(daemon.workers), Serial(OwnThreads())
    registry = {each.name: each for each in protocol.REQUESTS}
    bound = {
        name: _Bound(daemon, imports, messages, module, registry[name], needs)
        for module, rows in METHODS.items()
        for name, needs in rows.items()
    }
    for method in bound.values():
        if method.module in AT_ONCE:
            method.load()
    return {name: method.call for name, method in bound.items()}


@dataclass(slots=True)
class _Bound:
    """One method of this daemon."""

    daemon: Daemon
    imports: Serial
    messages: Serial
    """Those whose texts are still to be taken, and later ones for the same conversation."""
    module: str
    method: protocol.Method
    needs: Needs
    is_loaded: bool = False
    handler: Callable[..., Any] = field(init=False)
    takes: tuple[str, ...] = field(init=False)

    def load(self) -> None:
        # The model is built here too, since that takes as long as an import.
        self.method.params.model_rebuild()
        module = import_module(f"oh_daemon.{self.module}")
        self.handler = vars(module)[protocol.function_name(self.method.name)]
        code = self.handler.__code__
        self.takes = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.is_loaded = True

    def call(self, params: Json, context: RequestContext) -> Any:
        """Serve a request. Called on the main loop."""
        named = self._named(params)
        key = self.module if named is None or self._overtakes(named) else named
        begin = partial(self._begin, params, context)
        if not self.is_loaded:
            return self.imports.run(key, lambda: self.load() or begin())
        return self.imports.after(key, lambda _failure: begin())

    def _named(self, params: Json) -> str | None:
        """Return the id of the conversation that the request is for, None if it names none."""
        if self.needs.conversation == "asking":
            asking = self.daemon.find_asking(_question(params))
            return asking and asking.id
        named = params.get("conversationId")
        return None if named is None else str(named)

    def _overtakes(self, conversation_id: str) -> bool:
        """Who interrupts something does not wait for what else was asked of it, but what opens it.

        That may itself wait for an import, unless the conversation is open and stays so. An answer
        of the user waits too, for the mode that was set before it.
        """
        if not self.needs.is_urgent or self.needs.conversation == "asking":
            return False
        is_open = self.daemon.conversations.find_live(conversation_id) is not None
        return is_open and conversation_id not in self.daemon.serial.ids()

    def _begin(self, json: Json, context: RequestContext) -> Any:
        params: Any = parse_strictly(self.method.params, json)
        request = Repeatable(self.method.name, params)
        call = Call(self.daemon, params, context, request, self.daemon.folders())
        match self.needs.conversation:
            case "none":
                call.conversation_id = json.get("conversationId", "")
            case "new":
                call.conversation_id = new_conversation_id(request.id)
            case "asking":
                call.subject = self.daemon.asking(_question(json))
                call.conversation_id = call.subject.id
            case _ if params.conversation_id is not None:
                call.conversation_id = params.conversation_id
                return self._in_turn(call)
            case _:
                pass
        return self._run(call)

    def _in_turn(self, call: Call) -> Any:
        """Go on when the conversation is open and earlier messages have gone on.

        Only messages wait for what one mentions: an interrupt or a close does not.
        """

        def go_on(_failure: BaseException | None = None) -> Any:
            on_open = partial(self._on_open, call)
            return self.daemon.serial.after(call.conversation_id, on_open)

        if self.needs.thread != "in order if it refers":
            return go_on()
        if not mentions(content_of(call.params)):
            return self.messages.after(call.conversation_id, go_on)
        return self.messages.run(call.conversation_id, lambda: self._fill(call) or go_on())

    def _fill(self, call: Call) -> None:
        live = self.daemon.conversations.find_live(call.conversation_id)
        if live is None or not self.needs.is_once or not call.request.earlier(live.conversation):
            fill = partial(self.daemon.resolver.filled, folders=call.folders)
            call.params = with_content(call.params, partial(fill, cancel=call.context.cancel))

    def _on_open(self, call: Call, failure: BaseException | None) -> Any:
        conversations, conversation_id = self.daemon.conversations, call.conversation_id
        followed = conversations.find_followed(conversation_id)
        if self.needs.conversation == "history" and followed is not None:
            call.subject = followed
        else:
            call.subject = conversations.find_live(conversation_id)
            if call.subject is None and failure is not None:
                raise failure
            if call.subject is None and self.needs.conversation != "open if there":
                call.subject = conversations.live(conversation_id)
        return self._run(call)

    def _run(self, call: Call) -> Any:
        """Run the handler on its thread, and the answer in its place among the events."""
        if self.needs.events == "after":
            call.context.hold(call.conversation_id)
        result = self._on_thread(call, partial(self._handle, call))
        if self.needs.events != "around":
            return result
        in_order = partial(call.context.in_order, call.conversation_id)
        if is_future(result):
            return then(result, in_order)
        return in_order(result)

    def _on_thread(self, call: Call, handle: Callable[[], Any]) -> Any:
        match self.needs.thread:
            case "own if it searches" if call.params.texts:
                return on_own_thread("search", handle)
            case "worker" | "own if it searches":
                return self.daemon.workers.submit(handle)
            case "own":
                return on_own_thread(f"aside-{call.conversation_id[:8]}", handle)
            case "in order":
                return self.daemon.serial.run(call.conversation_id, handle)
            case "in order if it refers" if refers(call.params):
                return self.daemon.serial.run(call.conversation_id, handle)
            case _:
                return handle()

    def _handle(self, call: Call) -> Any:
        earlier: Json | None = None
        if self.needs.is_once and isinstance(call.subject, Live):
            earlier = call.request.earlier(call.subject.conversation)
        result: Any = self._result(call) if earlier is None else earlier
        durable = partial(self._durable, call)
        if is_future(result):
            return then(result, durable) if self.needs.conversation == "new" else result
        return durable(result) if self.needs.is_durable else result

    def _durable(self, call: Call, result: object) -> Future[object]:
        subject = call.subject
        is_open = isinstance(subject, Live)
        live = subject if is_open else self.daemon.conversations.live(call.conversation_id)
        return _once_durable(live, result)

    def _result(self, call: Call) -> Any:
        return self.handler(**{name: ARGUMENTS[name](call) for name in self.takes})


def _question(params: Json) -> str:
    """Return the id of what the user answers."""
    return str(params.get("approvalId", params.get("inputId")))


def _once_durable(live: Live, result: object) -> Future[object]:
    """Return a future of `result`, done once everything appended so far is on the disk."""
    future: Future[object] = Future()

    def on_synced(error: StorageError | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    live.conversation.journal.log.after_sync(on_synced)
    return future
