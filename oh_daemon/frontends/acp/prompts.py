"""`session/prompt` and `session/cancel`: from the message to the answer at the end of its turn.

Invariant: a prompt is answered after all updates of its turn, and `cancelled` whenever the client
has cancelled it, however early.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from pydantic import ValidationError

from oh_daemon.conversations.message_content import Resolver
from oh_daemon.conversations.open_conversation import OpenConversation
from oh_daemon.features.attachments.images import Attachments
from oh_daemon.features.skills.prompts import typed_part
from oh_daemon.frontends.acp.session import AcpSession, PromptRequest
from oh_daemon.frontends.acp.sessions import Sessions
from oh_daemon.frontends.acp.updates import end_of, paused_for
from oh_daemon.jsonrpc.dispatch import Method, Notification, RequestContext
from oh_daemon.jsonrpc.reading import field_in, list_in
from oh_daemon.jsonrpc.serial import settle
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.ports import Json
from oh_daemon.kernel.turns import may_resume, turn_end
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import problem_in
from oh_daemon.protocol.content import (
    DocumentPart,
    ImagePart,
    Part,
    ResourceLinkPart,
    ResourcePart,
)
from oh_daemon.protocol.errors import AuthRequiredError, InvalidParamsError

_SIGN_IN = (
    "run `oh-daemon login`, or set the key of the provider where the agent is started, and start "
    "it again"
)


class Prompts:
    """Called on the main thread; what takes longer is done by the session's own queue."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def methods(self) -> dict[str, Method]:
        return {"session/prompt": self._prompt, "_session/steering": self._steer}

    def notifications(self) -> dict[str, Notification]:
        return {"session/cancel": self._cancel}

    def _prompt(self, params: Json, context: RequestContext) -> Future[Json]:
        session = self._sessions.require_session(params)
        prompt = PromptRequest(_blocks_in(params), context.cancel)
        session.prompts.append(prompt)
        self._next(session, prompt, partial(_begin, session, prompt, self._next))
        return prompt.future

    def _next(self, session: AcpSession, prompt: PromptRequest, act: Callable[[], object]) -> None:
        """Do the next step towards the answer in the session's queue; a failure is the answer."""

        def on_done(future: Future[Any]) -> None:
            if (error := future.exception()) is not None:
                _end(session, prompt, lambda: _error_fields(error))

        self._sessions.serial.run(session.id, act).add_done_callback(on_done)

    def _cancel(self, params: Json) -> None:
        self._sessions.require_session(params).cancel()

    def _steer(self, params: Json, _context: RequestContext) -> Any:
        session, blocks = self._sessions.require_session(params), _blocks_in(params)

        def steer() -> Json:
            open_conversation = session.open_conversation
            if open_conversation.conversation.state.turn is None:
                return {"outcome": "promptRequired", "reason": "noRunningTurn"}
            open_conversation.conversation.send(
                _content(session, open_conversation, blocks), delivery="steer"
            )
            return {"outcome": "injected"}

        return self._sessions.serial.run(session.id, steer)


Next = Callable[[AcpSession, PromptRequest, Callable[[], object]], None]


def _begin(session: AcpSession, prompt: PromptRequest, next_step: Next) -> None:
    """Ask what still waits for an answer, then do what the prompt says."""
    open_conversation = session.open_conversation
    state, journal = open_conversation.conversation.state, open_conversation.conversation.journal
    act = partial(_act, session, prompt)
    with journal.condition:
        waits = bool(state.awaited_requests) and len(session.prompts) == 1
        if not waits or prompt.cancel.is_cancelled:
            answers = None
        else:
            answers = journal.await_record(lambda _record: None if state.awaited_requests else True)
    if answers is None:
        session.ask_again()
        act()
        return
    session.ask_again()
    forget = prompt.cancel.on_cancel(open_conversation.conversation.interrupt)
    answers.add_done_callback(lambda _future: forget())
    answers.add_done_callback(lambda _future: next_step(session, prompt, act))


def _act(session: AcpSession, prompt: PromptRequest) -> None:
    if prompt.cancel.is_cancelled:
        _end(session, prompt, lambda: {"stopReason": "cancelled"})
        return
    open_conversation = session.open_conversation
    conversation = open_conversation.conversation
    match _command_in(prompt.blocks):
        case ["continue", _]:
            _continue(session, prompt, conversation)
        case ["compact", answer]:
            turn_id = conversation.condense(answer or None)["turnId"]
            _await(session, prompt, conversation, turn_id)
        case _:
            _send(session, prompt, open_conversation)


def _send(session: AcpSession, prompt: PromptRequest, open_conversation: OpenConversation) -> None:
    conversation = open_conversation.conversation
    content = _content(session, open_conversation, prompt.blocks)
    is_behind = any(
        not earlier_prompt.cancel.is_cancelled
        for earlier_prompt in session.prompts
        if earlier_prompt is not prompt
    )
    with conversation.journal.condition:
        receipt = conversation.send(content, delivery="queue" if is_behind else "auto")
        message_id = receipt["messageId"]
        turn_future = turn_end(conversation.journal, message_id, receipt.get("turnId"))
    _follow(session, prompt, turn_future, partial(_withdraw, conversation, message_id))


def _continue(session: AcpSession, prompt: PromptRequest, conversation: Conversation) -> None:
    with conversation.journal.condition:
        state = conversation.state
        if state.turn is not None and not state.turn.is_paused:
            turn_id = state.turn.id
        elif may_resume(state):
            turn_id = ""
        else:
            session.say("There is nothing to go on with.")
            _end(session, prompt, lambda: {"stopReason": "end_turn"})
            return
        if not turn_id:
            turn_id = conversation.resume()["turnId"]
        _await(session, prompt, conversation, turn_id)


def _await(
    session: AcpSession, prompt: PromptRequest, conversation: Conversation, turn_id: str
) -> None:
    """Answer when this turn has ended or paused."""
    turn_future = turn_end(conversation.journal, "", turn_id)
    _follow(session, prompt, turn_future, conversation.interrupt)


def _follow(
    session: AcpSession,
    prompt: PromptRequest,
    turn_future: Future[plain.Turn],
    cancel: Callable[[], object],
) -> None:
    forget = prompt.cancel.on_cancel(cancel)

    def on_end(future: Future[plain.Turn]) -> None:
        forget()
        _end(session, prompt, partial(_answer, session, future))

    turn_future.add_done_callback(on_end)


def _withdraw(conversation: Conversation, message_id: str) -> None:
    """Take the message out of the queue or, if its turn has begun, interrupt that."""
    with conversation.journal.condition:
        if any(each["messageId"] == message_id for each in conversation.state.queue):
            conversation.delivery.remove_queued(message_id)
        else:
            conversation.interrupt()


def _end(session: AcpSession, prompt: PromptRequest, answer: Callable[[], Json]) -> None:
    """Answer the prompt after all updates so far, and after what `answer` adds to them."""

    def finish() -> None:
        if prompt not in session.prompts:
            return
        outcome: Future[Json] = Future()
        settle(outcome, answer)
        session.prompts.remove(prompt)
        session.in_order(lambda: settle(prompt.future, lambda: _outcome(prompt, outcome)))

    session.later(finish)


def _outcome(prompt: PromptRequest, outcome: Future[Json]) -> Json:
    return {"stopReason": "cancelled"} if prompt.cancel.is_cancelled else outcome.result()


def _answer(session: AcpSession, future: Future[plain.Turn]) -> Json:
    """Return the answer to a prompt, and tell what its turn has left to say."""
    turn = future.result()
    error = turn.get("error")
    if error is not None and error["kind"] == "authRequired":
        raise AuthRequiredError(error["message"], hint=_SIGN_IN)
    if turn["status"] == "paused":
        session.say(paused_for(session.open_conversation.conversation.state.status_reason))
        return {"stopReason": "end_turn"}
    reason, words = end_of(turn)
    if words:
        session.say(words, turn["id"])
    return {"stopReason": reason}


def _error_fields(error: BaseException) -> Json:
    raise error


# What was said


def _blocks_in(params: Json) -> list[Any]:
    blocks = list_in(params, "prompt")
    if not blocks:
        raise InvalidParamsError.at("prompt", "is empty", "missing")
    return blocks


def _command_in(blocks: Sequence[Any]) -> tuple[str, str] | None:
    """Return the command of ours that the prompt is, with the text after it."""
    if len(blocks) != 1 or field_in(blocks[0], "type") != "text":
        return None
    word, _, rest = str(field_in(blocks[0], "text")).strip().partition(" ")
    return (word[1:], rest.strip()) if word.startswith("/") else None


def _content(
    session: AcpSession, open_conversation: OpenConversation, blocks: Sequence[Any]
) -> Sequence[Part]:
    """Return the prompt as parts of a message. Raises `InvalidParamsError`."""
    try:
        parts = [part for n, block in enumerate(blocks) for part in _parts_of(n, block)]
    except (ValidationError, ValueError) as exc:
        what = problem_in(exc) if isinstance(exc, ValidationError) else str(exc)
        raise InvalidParamsError.at("prompt", what) from None
    resolver = Resolver(session.conversations, Attachments())
    return resolver.for_open_conversation(open_conversation, parts, session.folders)


def _parts_of(n: int, block: Any) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield typed_part(text)
        case {"type": "image", "mimeType": str(kind), "data": str(data)}:
            base64.b64decode(data, validate=True)
            yield ImagePart(mime_type=kind, data=data)
        case {
            "type": "resource",
            "resource": {"uri": str(uri), "mimeType": "application/pdf", "blob": str(data)},
        }:
            base64.b64decode(data, validate=True)
            yield DocumentPart(name=uri.rpartition("/")[2][:255] or None, data=data)
        case {"type": "resource_link", "uri": str(uri)}:
            name = block.get("name")
            yield ResourceLinkPart(uri=uri, name=name if isinstance(name, str) else None)
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text), **more}}:
            kind = more.get("mimeType")
            yield ResourcePart(
                uri=uri, text=text, mime_type=kind if isinstance(kind, str) else None
            )
        case _:
            what = f"content of type {field_in(block, 'type')!r}; send text, images, links"
            raise InvalidParamsError.at(f"prompt.{n}", what, "unknown")
