"""The `conversation/*` methods, one short function each.

They append facts, read snapshots or hand work to a thread, and return at once. Order of events and
answers is kept by `context.hold`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any

from oh_daemon.contract import events as e
from oh_daemon.contract import messages as m
from oh_daemon.contract.errors import (
    IdempotencyConflictError,
    InvalidParamsError,
    RequestCancelledError,
)
from oh_daemon.contract.items import Contract, QueuedMessage
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import Json
from oh_daemon.fronts.conversations import (
    check_options,
    describe,
    require_closable,
)
from oh_daemon.fronts.lsp.daemon import Daemon, once_durable, then
from oh_daemon.fronts.lsp.rpc import RequestContext
from oh_daemon.fronts.wiring import Live

_INTERRUPT_ANSWER_S = 10.0


def start(daemon: Daemon, params: m.StartParams, context: RequestContext) -> Any:
    body_hash, request_id = _hash_of(params), params.client_request_id or ""
    earlier = daemon.started_by.get(request_id)
    if earlier is not None:
        known_id = _same(earlier, body_hash, request_id)
        return daemon.with_live(known_id, lambda live: _started_before(daemon, live))
    check_options(params.options)
    folders = daemon.folders(params.folders)
    conversation_id = new_id()
    daemon.publisher.subscribed.add(conversation_id)
    context.hold(conversation_id)
    if request_id:
        daemon.started_by[request_id] = (body_hash, conversation_id)

    def make() -> Live:
        try:
            return _make(daemon, params, folders, conversation_id)
        except BaseException:
            daemon.publisher.subscribed.discard(conversation_id)
            daemon.started_by.pop(request_id, None)
            raise

    def begun(live: Live) -> Any:
        if live.id != conversation_id:
            daemon.publisher.subscribed.add(live.id)
            return _started_before(daemon, live)
        return once_durable(live, _begin(daemon, params, live))

    return then(daemon.open_later(conversation_id, make), begun)


def _make(
    daemon: Daemon, params: m.StartParams, folders: Sequence[Path], conversation_id: str
) -> Live:
    """A new conversation, or the one that this request started before the daemon did."""
    request_id = params.client_request_id
    known = daemon.conversations.started_by(request_id, folders) if request_id else None
    if known is not None:
        known_id = _same(known, _hash_of(params), request_id or "")
        return daemon.conversations.open(known_id, folders)
    cause = _cause("conversation/start", params)({})
    return daemon.conversations.start(params, folders, conversation_id=conversation_id, cause=cause)


def _begin(daemon: Daemon, params: m.StartParams, live: Live) -> Json:
    sent: Json = {}
    if params.content is not None:
        sent = live.conversation.send(params.content, client_message_id=params.client_message_id)
    return {
        "conversation": describe(live.conversation),
        "options": daemon.conversations.options_of(live),
        **{key: sent[key] for key in ("messageId", "turnId") if key in sent},
    }


def _same(earlier: tuple[str, str], body_hash: str, request_id: str) -> str:
    """The conversation that this very request started. Raises `IdempotencyConflictError`."""
    known_hash, conversation_id = earlier
    if known_hash != body_hash:
        raise IdempotencyConflictError(
            f"{request_id!r} was used for another conversation/start; use a new clientRequestId"
        )
    return conversation_id


def _started_before(daemon: Daemon, live: Live) -> Json:
    return {
        "conversation": describe(live.conversation),
        "options": daemon.conversations.options_of(live),
        "duplicate": True,
    }


def close(daemon: Daemon, params: m.CloseParams, _context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        conversation = live.conversation
        if params.if_running == "error":
            require_closable(live)
        elif params.if_running == "interrupt":
            return then(conversation.interrupt(), lambda _ended: end(conversation))
        return end(conversation)

    def end(conversation: Conversation) -> Future[Json]:
        def work() -> Json:
            daemon.conversations.close(params.conversation_id)
            daemon.publisher.subscribed.discard(params.conversation_id)
            daemon.publisher.asker.withdraw(conversation.state.approvals)
            return {}

        return daemon.workers.submit(work)

    return daemon.with_live(params.conversation_id, act)


def send_message(daemon: Daemon, params: m.SendMessageParams, context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        conversation = live.conversation
        known = _earlier(conversation, "conversation/sendMessage", params, params.client_message_id)
        if known is not None:
            return known
        if params.wait == "accepted":
            context.hold(conversation.id)
        with conversation.changed:
            result = conversation.send(
                params.content,
                delivery=params.delivery,
                client_message_id=params.client_message_id,
                expected_turn_id=params.expected_turn_id,
                run=params.run,
                cause=_cause("conversation/sendMessage", params, params.client_message_id),
            )
            if params.wait == "accepted":
                return once_durable(live, result)
            ended = conversation.turn_ended(result["messageId"], result.get("turnId"))
        return _when_ended(conversation, result, ended, context)

    return daemon.with_live(params.conversation_id, act)


def _when_ended(
    conversation: Conversation, result: Json, ended: Future[Json], context: RequestContext
) -> Future[Json]:
    """Answer with the turn; cancelling the request interrupts it."""
    context.cancel.on_cancel(lambda: _ignore(conversation.interrupt()))

    def finished(turn: Json) -> Json:
        if context.cancel.is_cancelled:
            raise RequestCancelledError("cancelled by the client; the turn was interrupted")
        text = {"finalText": turn["finalText"]} if turn.get("finalText") else {}
        return {**result, "turnId": turn["id"], "turn": turn, **text}

    return then(ended, finished)


def pause(daemon: Daemon, params: m.PauseParams, context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        known = _earlier(live.conversation, "conversation/pause", params)
        if known is not None:
            return known
        context.hold(live.id)
        return once_durable(live, live.conversation.pause(params.when))

    return daemon.with_live(params.conversation_id, act)


def resume(daemon: Daemon, params: m.ResumeParams, context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        known = _earlier(live.conversation, "conversation/resume", params)
        if known is not None:
            return known
        context.hold(live.id)
        cause = _cause("conversation/resume", params)
        if params.message is None:
            result = live.conversation.resume(cause)
        else:
            sent = live.conversation.send(params.message, cause=cause)
            result = {"turnId": sent["turnId"]}
        return once_durable(live, result)

    return daemon.with_live(params.conversation_id, act)


def interrupt(daemon: Daemon, params: m.InterruptParams, _context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        conversation = live.conversation
        with conversation.changed:
            turn = conversation.state.turn
            if params.turn_id is not None and (turn is None or turn["id"] != params.turn_id):
                return {"turnId": params.turn_id, "status": conversation.state.status}
        ended = conversation.interrupt(clear_queue=params.clear_queue)
        answer: Future[Json] = Future()
        unfinished = {"turnId": (turn or {}).get("id"), "status": "interrupting"}
        late = threading.Timer(_INTERRUPT_ANSWER_S, _answer_once, (answer, unfinished))
        late.daemon = True
        late.start()

        def on_ended(done: Future[Json]) -> None:
            late.cancel()
            _answer_once(answer, done.result())

        ended.add_done_callback(on_ended)
        return answer

    return daemon.with_live(params.conversation_id, act)


def _answer_once(answer: Future[Json], result: Json) -> None:
    with contextlib.suppress(InvalidStateError):  # The other one was first.
        answer.set_result(result)


def queue(daemon: Daemon, params: m.QueueParams, context: RequestContext) -> Any:
    def act(live: Live) -> m.QueueResult:
        conversation = live.conversation
        if params.op == "remove":
            if params.message_id is None:
                problem = {"path": "messageId", "code": "missing", "message": "Field required"}
                raise InvalidParamsError("messageId is needed to remove a message", (problem,))
            context.hold(live.id)
            conversation.remove_queued(params.message_id)
        with conversation.changed:
            waiting = tuple(QueuedMessage.model_validate(q) for q in conversation.state.queue)
        return m.QueueResult(queue=waiting)

    return daemon.with_live(params.conversation_id, act)


def set_option(daemon: Daemon, params: m.SetOptionParams, context: RequestContext) -> Any:
    def act(live: Live) -> Any:
        known = _earlier(live.conversation, "conversation/setOption", params)
        if known is not None:
            options = daemon.conversations.options_of(live)
            return {"options": options, "duplicate": True}
        values = check_options({params.option_id: params.value})
        context.hold(live.id)
        cause = _cause("conversation/setOption", params)
        live.conversation.append(e.OptionsChanged(values=values), cause=cause({}))
        return once_durable(live, {"options": daemon.conversations.options_of(live)})

    return daemon.with_live(params.conversation_id, act)


def subscribe(daemon: Daemon, params: m.SubscribeParams, context: RequestContext) -> Any:
    def act(live: Live) -> m.SubscribeResult:
        with live.conversation.changed:
            context.hold(live.id)
            daemon.publisher.subscribed.add(live.id)
            for approval in live.conversation.state.approvals.values():
                daemon.publisher.asker.ask(live.conversation, approval)
            return m.SubscribeResult(last_seq=live.conversation.state.seq)

    return daemon.with_live(params.conversation_id, act)


def unsubscribe(daemon: Daemon, params: m.SubscribeParams, _context: RequestContext) -> m.Empty:
    daemon.publisher.subscribed.discard(params.conversation_id)
    return m.Empty()


HANDLERS: dict[str, Callable[[Daemon, Any, RequestContext], Any]] = {
    "conversation/start": start,
    "conversation/close": close,
    "conversation/sendMessage": send_message,
    "conversation/pause": pause,
    "conversation/resume": resume,
    "conversation/interrupt": interrupt,
    "conversation/queue": queue,
    "conversation/setOption": set_option,
    "conversation/subscribe": subscribe,
    "conversation/unsubscribe": unsubscribe,
}


# Idempotency


def _earlier(
    conversation: Conversation, method: str, params: Contract, message_id: str | None = None
) -> Json | None:
    request_id = _request_id(params, message_id)
    if request_id is None:
        return None
    return conversation.earlier_result(method, request_id, _hash_of(params))


def _cause(
    method: str, params: Contract, message_id: str | None = None
) -> Callable[[Json], e.Cause | None]:
    """What the event that a request causes says about it, so that it can be repeated safely."""
    request_id = _request_id(params, message_id)

    def make(result: Json) -> e.Cause | None:
        if request_id is None:
            return None
        return e.Cause(
            method=method,
            client_request_id=request_id,
            body_hash=_hash_of(params),
            result=result,
        )

    return make


def _request_id(params: Any, message_id: str | None) -> str | None:
    if params.client_request_id is not None:
        return params.client_request_id
    return None if message_id is None else f"message {message_id}"


def _hash_of(params: Contract) -> str:
    body = params.model_dump(mode="json", exclude={"client_request_id"})
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _ignore(_future: object) -> None:
    """The answer comes on another way."""
