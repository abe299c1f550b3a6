"""The `conversation/*` methods that open, change, stop or close one.

They append facts or hand work to a thread. A repeated request is recognised by the event that the
first one caused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.conversations.conversations import Conversations
from oh_daemon.conversations.description import describe
from oh_daemon.conversations.following import Followed
from oh_daemon.conversations.history_pages import replay
from oh_daemon.conversations.idempotency import Repeatable
from oh_daemon.conversations.message_content import Resolver, mentions, with_content
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.conversations.sub_agents import sub_agents_of
from oh_daemon.features.approval.policy import check_options
from oh_daemon.features.trust.trust import TrustBook
from oh_daemon.frontends.lsp.client_tool_calls import ClientTools
from oh_daemon.frontends.lsp.publisher import Publisher
from oh_daemon.jsonrpc.dispatch import RequestContext
from oh_daemon.jsonrpc.framing import encode
from oh_daemon.jsonrpc.serial import Serial, chain, on_own_thread
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import History
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.turns import BUSY, turn_end
from oh_daemon.protocol import events as e
from oh_daemon.protocol import messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol import side_questions as a
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import (
    ConversationBusyError,
    ConversationNotFoundError,
    InvalidParamsError,
    InvalidStateError,
    RequestCancelledError,
    WorkspaceUntrustedError,
)
from oh_daemon.protocol.settings import CHOICES
from oh_daemon.storage.log_scan import last_seq_of
from oh_daemon.storage.memory_log import MemoryLog
from oh_daemon.workspace.paths import parse_folder

_INTERRUPT_ANSWER_S = 10.0


Resolve: TypeAlias = "Callable[..., Sequence[Part]]"
"""Resolves a message to the open conversation; see `Resolver.for_open_conversation`."""
Speaking: TypeAlias = "Callable[[str], AbstractContextManager[object]]"
"""See `Daemon.speaking`."""


def conversation_start(  # noqa: PLR0913 - a handler names each part that it takes.
    *,
    conversations: Conversations,
    resolver: Resolver,
    trust: TrustBook,
    client_tools: ClientTools,
    publisher: Publisher,
    serial: Serial,
    params: m.StartParams,
    folders: Sequence[Path],
    request: Repeatable,
    conversation_id: str,
    cancel: CancelToken,
) -> Any:
    check_options(params.options)
    if params.folders is not None:
        start_folders = list(
            dict.fromkeys(parse_folder(name, "folders") for name in params.folders)
        )
        _require_open_or_trusted(trust, start_folders, folders)
        folders = start_folders
    client_tools.take(conversation_id, params.client_tools)
    publisher.subscribed_ids.add(conversation_id)

    def earlier() -> OpenConversation | None:
        return _started_before(conversations, conversation_id, folders) if request.id else None

    def start(params: m.StartParams) -> Json:
        open_conversation, result, is_new = earlier(), Json(), False
        if open_conversation is not None:
            result = request.earlier(open_conversation.conversation) or {"duplicate": True}
        else:
            # Content that refers to nothing is refused before there is a conversation.
            content = resolver.fill_in(params.content or (), folders)
            params = params.model_copy(update={"content": content or params.content})
            resolver.stored_part(content, folders, MemoryLog())
            cause, is_new = request.cause({}), True
            open_conversation = conversations.start(
                params, folders, conversation_id=conversation_id, cause=cause
            )
        # A kill may have come between the conversation and its first message.
        is_untold = "messageId" not in result and not open_conversation.conversation.state.items
        if params.content and (is_new or is_untold):
            content = resolver.for_open_conversation(open_conversation, params.content, folders)
            message_id = params.client_message_id
            result = open_conversation.conversation.send(
                content, client_message_id=message_id, cause=request.cause
            )
        return {
            "conversation": describe(open_conversation.conversation.journal),
            "options": conversations.options_of(open_conversation.conversation.journal),
            **_only(result, "messageId", "turnId", "duplicate"),
        }

    if mentions(params.content or ()) and earlier() is None:
        # Mentioned texts may come from a network, and a worker does not wait for that.
        fill = partial(resolver.fill_in, folders=folders, cancel=cancel)
        reading = on_own_thread("mentions", partial(with_content, params, fill))
        return chain(reading, lambda params: serial.run(conversation_id, partial(start, params)))
    return start(params)


def _require_open_or_trusted(
    trust: TrustBook, start_folders: Sequence[Path], open_folders: Sequence[Path]
) -> None:
    """Refuse any other folder, since a start writes there and the agent may read there."""
    real = [folder.resolve() for folder in open_folders]
    for folder in start_folders:
        is_open = any(folder.resolve().is_relative_to(each) for each in real)
        # What is no folder is refused as such, whoever starts there.
        if folder.is_dir() and not is_open and trust.of(folder) != "full":
            raise WorkspaceUntrustedError(
                f"{str(folder)!r} is neither open nor trusted; open it, or trust it with "
                "workspace/setTrust"
            )


def _started_before(
    conversations: Conversations, conversation_id: str, folders: Sequence[Path]
) -> OpenConversation | None:
    with suppress(ConversationNotFoundError):
        # A crash amid the first event: the start is still to be done as it was asked for.
        if not last_seq_of(conversations.place_of(conversation_id, folders)):
            return None
        return conversations.open(conversation_id, folders)
    return None


def conversation_open(  # noqa: PLR0913 - a handler names each part that it takes.
    *,
    conversations: Conversations,
    client_tools: ClientTools,
    publisher: Publisher,
    serial: Serial,
    params: m.OpenParams,
    folders: Sequence[Path],
    context: RequestContext,
) -> Future[bytes]:
    conversation_id = params.conversation_id
    client_tools.take(conversation_id, params.client_tools)

    def on_closed_elsewhere(followed_log: Followed) -> None:
        # This daemon may have opened it meanwhile.
        if conversations.find_open(followed_log.id) is None:
            publisher.on_over(followed_log)

    def on_over(followed_log: Followed) -> None:
        serial.run(conversation_id, partial(on_closed_elsewhere, followed_log))

    conversation = conversations.open_or_follow(conversation_id, folders, on_over)
    history = (
        conversation.conversation.journal
        if isinstance(conversation, OpenConversation)
        else conversation
    )
    asking = [history, *sub_agents_of(conversations, conversation_id)]
    with history.condition:
        result = {
            "conversation": describe(history),
            "options": conversations.options_of(history),
            **replay(history, params),
            "pending": [each for own in asking for each in own.state.pending.values()],
            "queue": history.state.queue,
            "repaired": conversation.repairs,
        }
        # Encode now, under the lock: the state's own dicts change later.
        answer = context.in_order(conversation_id, encode(result))
        publisher.subscribe(history)
        return answer


def conversation_close(
    conversations: Conversations,
    publisher: Publisher,
    serial: Serial,
    has_others: Callable[[str], bool],
    history: History,
    params: m.CloseParams,
) -> Any:
    if has_others(history.id):
        publisher.unsubscribe(history)
        return {}
    if isinstance(history, Followed):
        publisher.unsubscribe(history)
        conversations.leave(history.id)
        return {}
    conversation = conversations.require_open(history.id).conversation
    status = describe(conversation.journal).status
    if params.if_running == "error" and status in BUSY:
        raise ConversationBusyError(
            f"conversation {history.id!r} is {status}; close it with ifRunning interrupt or pause"
        )
    # A halted conversation is at rest already, and its log could not record an interrupt.
    interrupts = params.if_running == "interrupt" and conversation.journal.storage_error is None
    interruption = conversation.interrupt() if interrupts else None

    def close() -> Json:
        # Awaited here, so that an open that comes meanwhile does not find what is about to close.
        with suppress(TimeoutError):
            if interruption is not None:
                interruption.result(_INTERRUPT_ANSWER_S)
        conversations.close(history.id)
        publisher.unsubscribe(history)
        return {}

    return serial.run(history.id, close)


def conversation_update(
    conversations: Conversations, params: m.UpdateParams, folders: Sequence[Path]
) -> m.ConversationResult:
    return m.ConversationResult(conversation=conversations.update(params, folders))


def conversation_delete(
    conversations: Conversations,
    publisher: Publisher,
    params: m.DeleteParams,
    folders: Sequence[Path],
) -> Json:
    """Delete a conversation; one that does not exist counts as deleted."""
    deletion = conversations.delete(params.conversation_id, folders, permanent=params.permanent)
    if deletion is not None:
        publisher.on_deleted(deletion.journal)
    return {}


def conversation_send_message(
    conversation: Conversation,
    resolve: Resolve,
    speaking: Speaking,
    params: m.SendMessageParams,
    context: RequestContext,
    request: Repeatable,
) -> Any:
    options = params.overrides.options
    if params.wait == "accepted":
        context.hold(conversation.id)
    content = resolve(params.content, model=options.get("model"))
    with conversation.journal.condition, InvalidParamsError.naming(options="overrides.options"):
        conversation.require_turn(params.expected_turn_id)
        with speaking(conversation.id):
            answer = conversation.send(
                content,
                delivery=params.delivery,
                client_message_id=params.client_message_id,
                run=params.run,
                options=check_options(options),
                cause=request.cause,
            )
        if params.wait == "accepted":
            return answer
        turn_future = turn_end(conversation.journal, answer["messageId"], answer.get("turnId"))
    context.cancel.on_cancel(conversation.interrupt)
    return chain(
        turn_future,
        lambda turn: context.in_order(conversation.id, _finish_result(turn, answer, context)),
    )


def _finish_result(turn: plain.Turn, receipt: Json, context: RequestContext) -> Json:
    if context.cancel.is_cancelled:
        raise RequestCancelledError("cancelled by the client; the turn was interrupted")
    final_text = turn.get("finalText")
    text = {"finalText": final_text} if final_text else {}
    return {**receipt, "turnId": turn["id"], "turn": turn, **text}


def conversation_pause(
    conversation: Conversation, params: m.PauseParams, request: Repeatable
) -> Json:
    return conversation.pause(params.when, request.cause)


def conversation_resume(
    conversation: Conversation,
    resolve: Resolve,
    speaking: Speaking,
    params: m.ResumeParams,
    request: Repeatable,
) -> Json:
    if params.message is None:
        return conversation.resume(request.cause)
    with InvalidParamsError.naming(content="message"):
        content = resolve(params.message)
        # A message that waits for the end of an interrupted turn has no turn yet.
        with conversation.journal.condition, speaking(conversation.id):
            receipt = conversation.send(
                content, cause=lambda result: request.cause(_only(result, "turnId"))
            )
    return _only(receipt, "turnId")


def conversation_condense(
    conversation: Conversation, params: m.CondenseParams, request: Repeatable
) -> Json:
    return conversation.condense(params.instructions, request.cause)


def conversation_interrupt(conversation: Conversation, params: m.InterruptParams) -> Any:
    with conversation.journal.condition:
        turn_id = conversation.state.turn_id
        if params.turn_id not in (None, turn_id):
            return {"turnId": params.turn_id, "status": conversation.state.status}
    interruption = conversation.interrupt(clear_queue=params.clear_queue)
    if interruption.done():
        return interruption
    return on_own_thread("late-answer", partial(_interrupt_result, interruption, turn_id))


def _interrupt_result(interruption: Future[Json], turn_id: str | None) -> Json:
    try:
        return interruption.result(_INTERRUPT_ANSWER_S)
    except TimeoutError:
        return {"turnId": turn_id, "status": "interrupting"}


def conversation_queue(conversation: Conversation, resolve: Resolve, params: m.QueueParams) -> Json:
    for name in _NEEDED[params.op] - params.model_dump(by_alias=True, exclude_none=True).keys():
        raise InvalidParamsError.at(name, f"is needed to {params.op}", "missing")
    content: Sequence[Any] = resolve(params.content or ())
    message_id = params.message_id or ""
    with conversation.journal.condition:
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
        return {"queue": list(conversation.state.queue)}


_NEEDED = {
    "list": set[str](),
    "edit": {"messageId", "content"},
    "move": {"messageId", "position"},
    "remove": {"messageId"},
    "sendNow": {"messageId"},
}


def conversation_set_option(
    conversations: Conversations,
    conversation: Conversation,
    params: m.SetOptionParams,
    request: Repeatable,
) -> Json:
    option_id, is_known = params.option_id, params.option_id in {*CHOICES, "effort", "model"}
    with InvalidParamsError.naming(**{f"options.{option_id}": "value" if is_known else "optionId"}):
        values = check_options({option_id: params.value})
    earlier, journal = request.earlier(conversation), conversation.journal
    if option_id == "effort" and params.value != "default":
        efforts = conversations.context.user.models.efforts_of(journal.state.options["model"])
        if params.value not in efforts:
            what = f"cannot be {params.value!r} with this model: {', '.join(('default', *efforts))}"
            raise InvalidParamsError.at("value", what, "unknown")
    if earlier is None:
        journal.append(e.OptionsChanged(values=values), cause=request.cause({}))
    return {"options": conversations.options_of(journal), **(earlier or {})}


def conversation_ask(
    agent: AgentLoop, conversation: Conversation, params: a.AskParams, cancel: CancelToken
) -> a.AskResult:
    try:
        answer = agent.ask(params.question, cancel)
    except Cancelled:
        if conversation.journal.is_closing:
            raise InvalidStateError("the conversation was closed meanwhile") from None
        raise RequestCancelledError("cancelled by the client") from None
    return a.AskResult(text=answer.text, usage=answer.usage)


def conversation_subscribe(
    publisher: Publisher, history: History, context: RequestContext
) -> Future[m.SubscribeResult]:
    with history.condition:
        last_seq = m.SubscribeResult(last_seq=history.state.seq)
        answer = context.in_order(history.id, last_seq)
        publisher.subscribe(history)
        return answer


def conversation_unsubscribe(publisher: Publisher, params: m.UnsubscribeParams) -> m.Empty:
    publisher.subscribed_ids.discard(params.conversation_id)
    return m.Empty()


def _only(result: Json, *names: str) -> Json:
    return {name: result[name] for name in names if name in result}
