"""How messages reach the agent: at once, into the open turn, or through the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from oh_daemon.common.plain_text import clip_line, first_line
from oh_daemon.kernel.context import NOTHING, last_reported
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Json, MessageContext
from oh_daemon.kernel.prompt import render_rows
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import BUSY, Turns
from oh_daemon.protocol import events as e
from oh_daemon.protocol import items, plain
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.content import CommandPart, Part, SkillPart
from oh_daemon.protocol.errors import InvalidStateError, OverloadedError
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import NoticeItem, QueuedMessage, UserMessageItem

MAX_QUEUE = 32
MAX_TITLE = 60

Disposition = Literal["started", "steered", "queued", "interruptedAndStarted"]
DELIVERED: dict[Disposition, items.Delivery] = {
    "steered": "steer",
    "interruptedAndStarted": "interrupt",
}
MakeCause = Callable[[Json], e.Cause | None]
"""Makes the idempotency record of a request from its result."""


class Delivery:
    """The messages of a conversation. Thread-safe."""

    def __init__(self, journal: Journal, turns: Turns, context: MessageContext) -> None:
        self._journal = journal
        self._turns = turns
        self._context = context
        self._last_facts: Mapping[str, str] = {}

    def take(self, message: QueuedMessage, disposition: Disposition, cause: MakeCause) -> Json:
        """Deliver a message that has just arrived; the caller interrupts if that was decided.

        Returns {messageId, disposition, turnId?, queuePosition?}.
        """
        result: Json = {"messageId": message.message_id, "disposition": disposition}
        event = e.MessageQueued(message=message)
        match disposition:
            case "started":
                self._turns.supersede()
                result["turnId"] = new_id()
                self._start_turn(message, result["turnId"], cause(result))
            case "steered":
                result["turnId"] = self._journal.state.open_turn.id
                self._steer(event, cause(result))
            case "interruptedAndStarted":
                self._journal.append(event, cause=cause(result))
            case "queued":
                result["queuePosition"] = len(self._journal.state.queue)
                self._journal.append(event, cause=cause(result))
        return result

    # What the worker does with queued messages

    def start_queued(self, message: QueuedMessage) -> None:
        """Start a turn with a message of the queue."""
        event = e.MessageDequeued(message_id=message.message_id, outcome="started")
        self._start_turn(message, new_id(), None, event)

    def take_in_steering(self) -> None:
        """Move messages that are meant for the open turn from the queue into it."""
        with self._journal.condition:
            for queued_message in self._steering():
                message = model_of(QueuedMessage, queued_message)
                event = e.MessageDequeued(message_id=message.message_id, outcome="steered")
                self._journal.append(event, self._user_message(message))

    def has_steering(self) -> bool:
        """Return whether a message waits for the open turn, other than those with `run: false`."""
        with self._journal.condition:
            return any(not message.get("held") for message in self._steering())

    def _steering(self) -> list[plain.QueuedMessage]:
        queue = self._journal.state.queue
        return [m for m in queue if m["delivery"] == "steer" or m.get("held")]

    def _start_turn(
        self, message: QueuedMessage, turn_id: str, cause: e.Cause | None, *events: Contract
    ) -> None:
        journal = self._journal
        if not journal.state.title:
            title = title_of(message.content, journal.masker.mask)
            journal.append(e.ConversationUpdated(title=title))
        messages = self._user_message(message)
        own = message.options
        self._turns.start(turn_id, cause, *events, messages, because="message", own=own)

    def _steer(self, message: Contract, cause: e.Cause | None = None) -> None:
        self._turns.supersede()
        self._journal.append(message, cause=cause)
        if self._journal.state.status == "paused":
            self._turns.resume()

    def _user_message(self, message: QueuedMessage) -> e.ItemCompleted:
        item = UserMessageItem(
            id=new_id(),
            message_id=message.message_id,
            client_message_id=message.client_message_id,
            content=message.content,
            delivery=message.delivery,
            editor=self._news_of_editor(message) or None,
            environment=self._news_of_environment(message.options or {}) or None,
            ended_at=self._journal.clock.now(),
        )
        return e.ItemCompleted(item=item)

    def _news_of_editor(self, message: QueuedMessage) -> dict[str, str]:
        mask = self._journal.masker.mask
        context = {key: mask(value) for key, value in self._context.seen_in_editor().items()}
        if any(part.type == "selection" for part in message.content):
            context.pop("selection", None)  # The user chose a selection to send.
        return self._new_facts(context)

    def _news_of_environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return what the model was not told yet, under a turn's `own` options."""
        mask = self._journal.masker.mask
        facts = self._context.environment({**self._journal.state.options_now, **own})
        return self._new_facts({key: mask(value) for key, value in facts.items()})

    def _new_facts(self, facts: Mapping[str, str]) -> dict[str, str]:
        notes = self.facts_reported()
        return {key: value for key, value in facts.items() if notes.get(key, NOTHING) != value}

    def facts_reported(self) -> dict[str, str]:
        """Return what the model was told of the editor and its environment and still gets."""
        state = self._journal.state
        return state.agent.get("environment", {}) | last_reported(state.items)

    def report_news(self) -> None:
        """Tell the model, between two steps, what it does not know of its environment."""
        with self._journal.condition:
            facts = self._context.environment(self._journal.state.options_now)
            # What the model knows is in all items together, which takes long to read.
            if facts == self._last_facts:
                return
            self._last_facts = facts
            if news := self._news_of_environment({}):
                notice = NoticeItem(
                    id=new_id(),
                    title="The agent was told",
                    description=render_rows(news),
                    note=render_rows(news),
                    environment=news,
                )
                self._journal.append(e.ItemCompleted(item=notice))

    # Queued messages. Each method raises `InvalidStateError` when the message is not queued

    def remove_queued(self, message_id: str) -> None:
        with self._journal.condition:
            self._queued_message(message_id)
            self._journal.append(e.MessageDequeued(message_id=message_id, outcome="removed"))

    def edit_queued(
        self, message_id: str, *, content: Sequence[Part] | None = None, position: int | None = None
    ) -> None:
        """Replace a queued message's content, or move it to another position."""
        with self._journal.condition:
            message, place = self._queued_message(message_id)
            if content is not None:
                message = message.model_copy(update={"content": self._context.written_out(content)})
            last = len(self._journal.state.queue) - 1
            place = place if position is None else min(position, last)
            self._journal.append(e.MessageEdited(message=message, position=place))

    def send_queued(self, message_id: str) -> None:
        """Deliver a queued message now, as if it came with delivery auto."""
        with self._journal.condition:
            self._journal.require_open()
            message, place = self._queued_message(message_id)
            self._turns.unhalt()
            own = bool(message.options)
            disposition = plan_delivery(self._journal.state, "auto", run=True, has_options=own)
            if disposition == "started":
                self.start_queued(message)
                return
            urgent_message = message.model_copy(
                update={"delivery": DELIVERED[disposition], "held": None}
            )
            if disposition == "steered":
                self._steer(e.MessageEdited(message=urgent_message, position=place))
            else:
                self._journal.append(e.MessageEdited(message=urgent_message, position=0))

    def _queued_message(self, message_id: str) -> tuple[QueuedMessage, int]:
        for place, message in enumerate(self._journal.state.queue):
            if message["messageId"] == message_id:
                return model_of(QueuedMessage, message), place
        raise InvalidStateError(
            f"no queued message {message_id!r}; conversation/queue op list has them"
        )


def plan_delivery(
    state: State, delivery: items.Delivery, *, run: bool, has_options: bool = False
) -> Disposition:
    """Decide how a message that arrives now is delivered.

    Raises `OverloadedError` when the queue is full, and `InvalidStateError` for a message with
    options of its own that would join another turn.
    """
    if has_options and (not run or _plan(state, delivery, run=run) == "steered"):
        raise InvalidStateError(
            "a message with overrides needs a turn of its own; send it with delivery queue or "
            "interrupt"
        )
    return _plan(state, delivery, run=run)


def _plan(state: State, delivery: items.Delivery, *, run: bool) -> Disposition:
    is_busy = state.status in BUSY
    waits = delivery == "queue" and (is_busy or state.status == "paused")
    if not run or waits:
        if len(state.queue) < MAX_QUEUE:
            return "queued"
        raise OverloadedError(
            f"{MAX_QUEUE} messages are queued already; remove one with conversation/queue",
            retry_after_ms=1000,
        )
    if (is_busy and delivery == "interrupt") or state.status == "interrupting":
        return "interruptedAndStarted"
    return "steered" if state.turn is not None else "started"


def title_of(content: Sequence[Part], mask: Callable[[str], str] = str) -> str:
    """Return a message's first line, shortened; masked before, or half a secret would stay."""
    return clip_line(mask(first_line("\n".join(map(_part_text, content)))), MAX_TITLE)


def _part_text(part: Part) -> str:
    """Return what the user typed."""
    if isinstance(part, CommandPart | SkillPart):
        return f"/{part.name} {part.args or ''}"
    return part.text if part.type == "text" else ""
