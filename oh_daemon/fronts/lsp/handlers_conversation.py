"""The `conversation/*` methods that change something, one short function each.

They append facts or hand work to a thread, and return at once. `context.hold` keeps events and
answers in order. A repeated request is recognised by the event that the first one caused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

from oh_daemon.app.description import describe
from oh_daemon.app.following import Followed
from oh_daemon.app.live import Live
from oh_daemon.contract import events as e
from oh_daemon.contract import messages as m
from oh_daemon.contract import plain
from oh_daemon.contract.base import Contract
from oh_daemon.contract.content import Part
from oh_daemon.contract.errors import (
    ConversationBusyError,
    ConversationNotFoundError,
    InvalidParamsError,
    RequestCancelledError,
)
from oh_daemon.core.approval import check_options
from oh_daemon.core.journal import History, new_id
from oh_daemon.core.ports import Json
from oh_daemon.core.turns import BUSY
from oh_daemon.fronts.lsp.content import prepared, resolved
from oh_daemon.fronts.lsp.daemon import Daemon, Handler, on_journal, on_open, once_durable
from oh_daemon.fronts.wire.dispatch import RequestContext
from oh_daemon.fronts.wire.serial import on_own_thread, then
from oh_daemon.store.memory_log import MemoryLog

_INTERRUPT_ANSWER_S = 10.0
_STARTS = uuid.UUID("6f682d64-6165-6d6f-6e2d-737461727473")
"""The UUID namespace in which a `clientRequestId` gives the id of its conversation."""

MakeCause = Callable[[Json], e.Cause | None]


def start(daemon: Daemon, params: m.StartParams, context: RequestContext) -> Any:
    """Start one. Its id derives from `clientRequestId`, so a repeated start finds the first one."""
    check_options(params.options)
    folders, conversations = daemon.folders(params.folders), daemon.conversations
    request_id, made = params.client_request_id, list[str]()
    conversation_id = uuid.uuid5(_STARTS, request_id).hex if request_id else new_id()
    request = _Repeatable(context.method, params, request_id)
    daemon.client_tools.take(conversation_id, params.client_tools)
    daemon.publisher.subscribed.add(conversation_id)
    context.hold(conversation_id)

    def make() -> Live:
        if request_id:
            with contextlib.suppress(ConversationNotFoundError):
                return conversations.open(conversation_id, folders)
        # Content that refers to nothing is refused before there is a conversation.
        resolved(daemon, params.content or (), folders, MemoryLog())
        made.append(conversation_id)
        return conversations.start(
            params, folders, conversation_id=conversation_id, cause=request.cause({})
        )

    def begun(live: Live) -> Any:
        earlier: Json = {} if made else (request.earlier(live) or {"duplicate": True})
        # A kill may have come between the conversation and its first message.
        is_untold = "messageId" not in earlier and not live.conversation.state.items
        if made or (params.content and is_untold):
            return prepared(daemon, live, params.content or (), lambda content: sent(live, content))
        return {**described(live), **_only(earlier, "messageId", "turnId", "duplicate")}

    def sent(live: Live, content: Sequence[Part]) -> Future[Json]:
        result: Json = {}
        if content:
            message_id = params.client_message_id
            send = live.conversation.send
            result = send(content, client_message_id=message_id, cause=request.cause)
        return once_durable(live, {**described(live), **_only(result, "messageId", "turnId")})

    def described(live: Live) -> Json:
        options = conversations.options_of(live.conversation.journal)
        return {"conversation": describe(live.conversation.journal), "options": options}

    return daemon.serial.run(conversation_id, make, begun)


def close(daemon: Daemon, live: Live, params: m.CloseParams, context: RequestContext) -> Any:
    status = describe(live.conversation.journal).status
    if params.if_running == "error" and status in BUSY:
        raise ConversationBusyError(
            f"conversation {live.id!r} is {status}; close it with ifRunning interrupt or pause"
        )
    # A halted conversation is at rest already, and its log could not record an interrupt.
    interrupts = params.if_running == "interrupt" and live.conversation.journal.halted is None
    interrupted = live.conversation.interrupt() if interrupts else None

    def work() -> Json:
        # Awaited here, so that an open that comes meanwhile does not find what is about to close.
        with contextlib.suppress(TimeoutError):
            if interrupted is not None:
                interrupted.result(_INTERRUPT_ANSWER_S)
        daemon.conversations.close(live.id)
        daemon.publisher.unsubscribe(live.conversation.journal)
        return {}

    return daemon.serial.run(live.id, work, lambda done: context.in_order(live.id, done))


def _leave(
    daemon: Daemon, followed: Followed, _params: m.CloseParams, _context: RequestContext
) -> Json:
    daemon.publisher.unsubscribe(followed)
    daemon.conversations.leave(followed.id)
    return {}


def update(daemon: Daemon, params: m.UpdateParams, context: RequestContext) -> Any:
    folders = daemon.folders()
    context.hold(params.conversation_id)

    def work() -> m.ConversationResult:
        return m.ConversationResult(conversation=daemon.conversations.update(params, folders))

    return daemon.serial.run(params.conversation_id, work)


def delete(daemon: Daemon, params: m.DeleteParams, _context: RequestContext) -> Any:
    """Delete a conversation; one that does not exist counts as deleted."""
    conversation_id, folders = params.conversation_id, daemon.folders()

    def work() -> Json:
        conversations = daemon.conversations
        gone = conversations.delete(conversation_id, folders, permanent=params.permanent)
        if gone is not None:
            daemon.publisher.on_deleted(gone.journal)
        return {}

    return daemon.serial.run(conversation_id, work)


@on_open
def send_message(
    daemon: Daemon, live: Live, params: m.SendMessageParams, context: RequestContext
) -> Any:
    conversation, message_id = live.conversation, params.client_message_id
    request_id = params.client_request_id or (message_id and f"message {message_id}")
    request = _Repeatable(context.method, params, request_id)

    def send(content: Sequence[Part]) -> Json:
        with conversation.journal.changed:
            conversation.require_turn(params.expected_turn_id)
            return conversation.send(
                content,
                delivery=params.delivery,
                client_message_id=message_id,
                run=params.run,
                options=check_options(params.overrides.options),
                cause=request.cause,
            )

    def answer_at_once(content: Sequence[Part]) -> Future[Json]:
        return once_durable(live, send(content))

    def answer_at_end(content: Sequence[Part]) -> Future[Json]:
        with conversation.journal.changed:
            result = send(content)
            ended = conversation.turns.ended(result["messageId"], result.get("turnId"))
        context.cancel.on_cancel(conversation.interrupt)
        return then(ended, lambda turn: context.in_order(live.id, _finished(turn, result, context)))

    if params.wait == "accepted":
        context.hold(live.id)
    act = answer_at_once if params.wait == "accepted" else answer_at_end
    model = params.overrides.options.get("model")
    return request.once(live, lambda: prepared(daemon, live, params.content, act, model))


def _finished(turn: plain.Turn, sent: Json, context: RequestContext) -> Json:
    if context.cancel.is_cancelled:
        raise RequestCancelledError("cancelled by the client; the turn was interrupted")
    said = turn.get("finalText")
    text = {"finalText": said} if said else {}
    return {**sent, "turnId": turn["id"], "turn": turn, **text}


def _once(act: Callable[[Daemon, Live, Any, MakeCause], Any]) -> Handler:
    """Make a handler that acts on an open conversation once per `clientRequestId`."""

    @on_open
    def call(daemon: Daemon, live: Live, params: Any, context: RequestContext) -> Future[Json]:
        request = _Repeatable(context.method, params, params.client_request_id)
        context.hold(live.id)
        return request.once(live, lambda: act(daemon, live, params, request.cause))

    return call


@_once
def pause(_daemon: Daemon, live: Live, params: m.PauseParams, cause: MakeCause) -> Json:
    return live.conversation.pause(params.when, cause)


@_once
def resume(daemon: Daemon, live: Live, params: m.ResumeParams, cause: MakeCause) -> Any:
    def say(content: Sequence[Part]) -> Future[Json]:
        # A message that waits for the end of an interrupted turn has no turn yet.
        told = live.conversation.send(content, cause=lambda sent: cause(_only(sent, "turnId")))
        return once_durable(live, _only(told, "turnId"))

    if params.message is None:
        return live.conversation.resume(cause)
    return prepared(daemon, live, params.message, say)


@_once
def condense(_daemon: Daemon, live: Live, params: m.CondenseParams, cause: MakeCause) -> Json:
    return live.conversation.condense(params.instructions, cause)


@on_open
def interrupt(
    _daemon: Daemon, live: Live, params: m.InterruptParams, context: RequestContext
) -> Any:
    conversation = live.conversation
    with conversation.journal.changed:
        turn_id = conversation.state.turn_id
        if params.turn_id not in (None, turn_id):
            return {"turnId": params.turn_id, "status": conversation.state.status}
    ended = conversation.interrupt(clear_queue=params.clear_queue)

    def answer() -> Json:
        try:
            return ended.result(_INTERRUPT_ANSWER_S)
        except TimeoutError:
            return {"turnId": turn_id, "status": "interrupting"}

    answered = ended if ended.done() else on_own_thread("late-answer", answer)
    return then(answered, lambda result: context.in_order(live.id, result))


@on_open
def queue(daemon: Daemon, live: Live, params: m.QueueParams, context: RequestContext) -> Any:
    for name in _NEEDED[params.op] - params.model_dump(by_alias=True, exclude_none=True).keys():
        raise InvalidParamsError.at(name, f"is needed to {params.op}", "missing")
    context.hold(live.id)
    content = params.content or ()
    return prepared(daemon, live, content, lambda stored: _change_queue(live, params, stored))


def _change_queue(live: Live, params: m.QueueParams, content: Sequence[Part]) -> Future[Json]:
    conversation, message_id = live.conversation, params.message_id or ""
    with conversation.journal.changed:
        match params.op:
            case "edit":
                conversation.delivery.edit_queued(message_id, content=content)
            case "move":
                conversation.delivery.edit_queued(message_id, position=params.position)
            case "remove":
                conversation.delivery.remove_queued(message_id)
            case "sendNow":
                conversation.delivery.send_queued(message_id)
            case "list":
                pass
        return once_durable(live, {"queue": list(conversation.state.queue)})


_NEEDED = {
    "list": set[str](),
    "edit": {"messageId", "content"},
    "move": {"messageId", "position"},
    "remove": {"messageId"},
    "sendNow": {"messageId"},
}


@on_open
def set_option(
    daemon: Daemon, live: Live, params: m.SetOptionParams, context: RequestContext
) -> Any:
    values = check_options({params.option_id: params.value})
    request = _Repeatable(context.method, params, params.client_request_id)
    context.hold(live.id)

    def act() -> Json:
        live.conversation.journal.append(e.OptionsChanged(values=values), cause=request.cause({}))
        return {}

    options_of = daemon.conversations.options_of
    done = request.once(live, act)
    return then(done, lambda result: {"options": options_of(live.conversation.journal), **result})


@on_journal
def subscribe(
    daemon: Daemon, history: History, _params: m.SubscribeParams, context: RequestContext
) -> Future[m.SubscribeResult]:
    with history.changed:
        last_seq = m.SubscribeResult(last_seq=history.state.seq)
        answer = context.in_order(history.id, last_seq)
        daemon.publisher.subscribe(history)
        return answer


def unsubscribe(daemon: Daemon, params: m.SubscribeParams, _context: RequestContext) -> m.Empty:
    daemon.publisher.subscribed.discard(params.conversation_id)
    return m.Empty()


def _only(result: Json, *names: str) -> Json:
    return {name: result[name] for name in names if name in result}


@dataclass(frozen=True, slots=True)
class _Repeatable:
    """A request that takes effect only once, however often it comes with the same id."""

    method: str
    params: Contract
    id: str | None

    def once(self, live: Live, act: Callable[[], Any]) -> Future[Json]:
        """Run `act` and answer once its events are on the disk; if repeated, answer the same."""
        result: Any = self.earlier(live)
        if result is None:
            result = act()
        if isinstance(result, Future):
            return cast("Future[Json]", result)
        return once_durable(live, result)

    def earlier(self, live: Live) -> Json | None:
        """Return the answer to the first request with this id, if there was one."""
        if self.id is None:
            return None
        return live.conversation.earlier_result(self.method, self.id, self._body_hash())

    def cause(self, result: Json) -> e.Cause | None:
        """Return what the event caused by this request says about it."""
        if self.id is None:
            return None
        return e.Cause(
            method=self.method,
            client_request_id=self.id,
            body_hash=self._body_hash(),
            result=result,
        )

    def _body_hash(self) -> str:
        body = self.params.model_dump(mode="json", exclude={"client_request_id"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


HANDLERS: dict[str, Handler] = {
    "conversation/start": start,
    "conversation/close": on_open(close, _leave),
    "conversation/update": update,
    "conversation/delete": delete,
    "conversation/sendMessage": send_message,
    "conversation/pause": pause,
    "conversation/resume": resume,
    "conversation/condense": condense,
    "conversation/interrupt": interrupt,
    "conversation/queue": queue,
    "conversation/setOption": set_option,
    "conversation/subscribe": subscribe,
    "conversation/unsubscribe": unsubscribe,
}
