"""The turns of a conversation: how a message begins one or joins it, how one pauses and ends.

Requests of clients (`core.conversation`) and the worker (`core.agent`) are made of these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from oh_daemon.contract import events as e
from oh_daemon.contract import plain
from oh_daemon.contract.base import Contract
from oh_daemon.contract.errors import InvalidStateError
from oh_daemon.contract.items import QueuedMessage, TurnCause, UserMessageItem
from oh_daemon.contract.skills import SkillKind
from oh_daemon.contract.status import ConversationState, PauseReason
from oh_daemon.core.context import NOTHING, told_of_editor
from oh_daemon.core.delivery import title_of
from oh_daemon.core.journal import Journal, new_id
from oh_daemon.core.ports import Clock, EventLog
from oh_daemon.core.recovery import superseding_events
from oh_daemon.core.secrets import Masker
from oh_daemon.core.state import OpenTurn, State


class Turns(Journal):
    """A journal that knows what begins, pauses and ends a turn. Thread-safe."""

    def __init__(
        self, state: State, log: EventLog, *, epoch: str, clock: Clock, masker: Masker
    ) -> None:
        super().__init__(state, log, epoch=epoch, clock=clock, masker=masker)
        self.seen_in_editor: Callable[[], dict[str, str]] = dict[str, str]
        """Returns what the user's editor shows, as `core.context` renders it; must not wait."""
        self.skill_kinds: Callable[[], Mapping[str, SkillKind]] = dict[str, SkillKind]
        """Returns the skills that a message may name; must not wait."""

    def start_landing(self) -> None:
        """Start a turn for what a job has changed, unless one is under way."""
        if self.state.turn is None:
            self._start_turn(new_id(), None, because="landing")

    def start_queued(self, message: QueuedMessage) -> None:
        """Start a turn with a message of the queue."""
        dequeued = e.MessageDequeued(message_id=message.message_id, outcome="started")
        self._start_with(message, new_id(), None, dequeued)

    def take_in_steering(self) -> None:
        """Move messages that are meant for the open turn from the queue into it."""
        with self.changed:
            for waiting in self._steering():
                message = QueuedMessage.model_validate(waiting)
                dequeued = e.MessageDequeued(message_id=message.message_id, outcome="steered")
                self.append(dequeued, self._user_message(message))

    def has_steering(self) -> bool:
        """Return whether a message waits for the open turn, other than those with `run: false`."""
        with self.changed:
            return any(not message.get("held") for message in self._steering())

    def _steering(self) -> list[plain.QueuedMessage]:
        return [m for m in self.state.queue if m["delivery"] == "steer" or m.get("held")]

    def _start_with(
        self, message: QueuedMessage, turn_id: str, cause: e.Cause | None, *events: Contract
    ) -> None:
        if not self.state.title:
            self.append(e.ConversationUpdated(title=title_of(message.content, self.masker.mask)))
        taken = self._user_message(message)
        self._start_turn(turn_id, cause, *events, taken, because="message", own=message.options)

    def _start_turn(
        self,
        turn_id: str,
        cause: e.Cause | None,
        *events: Contract,
        because: TurnCause,
        own: dict[str, str] | None = None,
    ) -> None:
        started = e.TurnStarted(cause=because, options=own)
        running = self.status_event("running")
        self.append(started, *events, running, turn_id=turn_id, cause=cause)

    def _steer(self, waiting: Contract, cause: e.Cause | None = None) -> None:
        self._supersede()
        self.append(waiting, cause=cause)
        if self.state.status == "paused":
            self._continue_turn(None)

    def _supersede(self) -> None:
        """A new message replaces the actions that still wait for an answer."""
        if self.state.awaited:
            self.append(*superseding_events(self.state, self.clock.now()))

    def _continue_turn(self, cause: e.Cause | None) -> None:
        status = self.status_event("waiting" if self.state.awaited else "running")
        self.append(e.TurnResumed(), status, cause=cause)

    def _user_message(self, message: QueuedMessage) -> e.ItemCompleted:
        item = UserMessageItem(
            id=new_id(),
            message_id=message.message_id,
            client_message_id=message.client_message_id,
            content=message.content,
            delivery=message.delivery,
            editor=self._news_of_editor(message) or None,
            ended_at=self.clock.now(),
        )
        return e.ItemCompleted(item=item)

    def _news_of_editor(self, message: QueuedMessage) -> dict[str, str]:
        shown = {key: self.masker.mask(value) for key, value in self.seen_in_editor().items()}
        if any(part.type == "selection" for part in message.content):
            shown.pop("selection", None)  # The user chose a selection to send.
        told = told_of_editor(self.state.items)
        return {key: value for key, value in shown.items() if told.get(key, NOTHING) != value}

    def status_event(self, to: ConversationState, reason: PauseReason | None = None) -> Contract:
        return e.StatusChanged(from_=self.state.status, to=to, reason=reason)

    @property
    def is_paused(self) -> bool:
        """Whether the open turn is paused, until `resume` or a message."""
        turn = self.state.turn
        return turn is not None and turn.is_paused

    def pause_turn(self, reason: PauseReason, cause: e.Cause | None = None) -> None:
        """Pause the open turn, with nothing under way in it, unless it is being interrupted."""
        with self.changed:
            if self.state.status == "interrupting":
                return
            paused = self.status_event("paused", reason)
            self.append(e.TurnPaused(reason=reason), paused, cause=cause)

    def turn_ended(self, message_id: str, turn_id: str | None) -> Future[plain.Turn]:
        """Resolve with the turn that answers this message, once it has completed or paused.

        `turn_id` is the turn that the message was meant for; if that one completes without having
        seen it, the message starts the next turn.
        """

        def read(record: plain.Record) -> plain.Turn | None:
            nonlocal turn_id
            event = record["event"]
            match event["type"]:
                case "item.completed" if event["item"].get("messageId") == message_id:
                    turn_id = record.get("turnId")
                case "message.dequeued" if event["messageId"] == message_id:
                    if event["outcome"] == "removed":
                        raise InvalidStateError(f"message {message_id!r} was taken from the queue")
                case "turn.completed" if record.get("turnId") == turn_id:
                    if not self._begins_a_turn(message_id, event["turn"]):
                        return event["turn"]
                case "turn.paused" if record.get("turnId") == turn_id:
                    return _paused(self.state.open_turn)
                case _:
                    pass
            return None

        with self.changed:
            return self.await_record(read)

    def _begins_a_turn(self, message_id: str, last_turn: plain.Turn) -> bool:
        """Return whether the message is still queued, and the queue goes on after this turn."""
        goes_on = last_turn["status"] == "completed" and self.state.status in {"idle", "finished"}
        return goes_on and any(m["messageId"] == message_id for m in self.state.queue)


def _paused(turn: OpenTurn) -> plain.Turn:
    paused: plain.Turn = {
        "id": turn.id,
        "status": "paused",
        "startedAt": turn.started_at,
        "nSteps": turn.n_steps,
    }
    return paused if turn.usage is None else {**paused, "usage": turn.usage}
