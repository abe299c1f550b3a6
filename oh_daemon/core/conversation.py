"""One conversation as its clients drive it: send, pause, resume, interrupt, respond.

Each request appends facts at once and returns; the worker (`core.agent`) wakes, reads the state and
acts on it. Nothing here waits for a model, a tool or a client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Literal

from oh_daemon.contract import events as e
from oh_daemon.contract import plain
from oh_daemon.contract.approvals import Subject
from oh_daemon.contract.base import Contract
from oh_daemon.contract.content import Part
from oh_daemon.contract.errors import (
    ApprovalNotFoundError,
    ApprovalStaleError,
    ConversationBusyError,
    IdempotencyConflictError,
    InvalidParamsError,
    InvalidStateError,
    StorageError,
    TurnMismatchError,
)
from oh_daemon.contract.inputs import InputAction
from oh_daemon.contract.items import Delivery, QueuedMessage
from oh_daemon.core.approval import require_editable
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.commands import written_out
from oh_daemon.core.delivery import BUSY, DELIVERED, may_resume, plan_delivery
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import Clock, EventLog, Json
from oh_daemon.core.recovery import answering_events, closing_events, dropped
from oh_daemon.core.secrets import Masker
from oh_daemon.core.state import State
from oh_daemon.core.turns import Turns

_PUT_DOWN_S = 2.0
"""How long the worker may take to notice that its turn was paused."""
_HALTS = BUSY - {"interrupting"}
"""Statuses in which a turn whose log could not be written waits to be resumed."""
MakeCause = Callable[[Json], e.Cause | None]
"""Makes the idempotency record of a request from its result."""


def _no_cause(_result: Json) -> None:
    return None


class Conversation(Turns):
    """What clients ask of a conversation. Thread-safe. `core.agent.AgentLoop` does the work."""

    def __init__(
        self, state: State, log: EventLog, *, epoch: str, clock: Clock, masker: Masker
    ) -> None:
        super().__init__(state, log, epoch=epoch, clock=clock, masker=masker)
        self.cancel = CancelToken()
        self.is_closing = False
        self.is_at_work = False
        """Whether the worker is in a turn, even one that was paused or ended a moment ago."""

    # Requests of clients. Each returns at once.

    def send(
        self,
        content: Sequence[Part],
        *,
        delivery: Delivery = "auto",
        client_message_id: str | None = None,
        run: bool = True,
        options: dict[str, str] | None = None,
        cause: MakeCause = _no_cause,
    ) -> Json:
        """Take a message: start a turn, steer the open one, or queue it.

        Returns {messageId, disposition, turnId?, queuePosition?}.
        """
        with self.changed:
            self.require_open()
            self._unhalt()
            disposition = plan_delivery(self.state, delivery, run=run, has_options=bool(options))
            message = QueuedMessage(
                message_id=new_id(),
                client_message_id=client_message_id,
                content=written_out(content, self.skill_kinds()),
                delivery=DELIVERED.get(disposition, delivery),
                held=None if run else True,
                options=options or None,
                created_at=self.clock.now(),
            )
            result: Json = {"messageId": message.message_id, "disposition": disposition}
            self._take(message, result, cause)
            return result

    def _take(self, message: QueuedMessage, result: Json, cause: MakeCause) -> None:
        """Append the events that deliver the message, and complete the result."""
        queued = e.MessageQueued(message=message)
        match result["disposition"]:
            case "started":
                self._supersede()
                result["turnId"] = new_id()
                self._start_with(message, result["turnId"], cause(result))
            case "steered":
                result["turnId"] = self.state.open_turn.id
                self._steer(queued, cause(result))
            case "interruptedAndStarted":
                self.append(queued, cause=cause(result))
                self._interrupt()
            case _:
                result["queuePosition"] = len(self.state.queue)
                self.append(queued, cause=cause(result))

    def pause(self, when: Literal["step", "now"], cause: MakeCause = _no_cause) -> Json:
        """Stop after the step under way, or cancel it (`now`); the turn stays open."""
        with self.changed:
            result: Json = {"turnId": self._require_running("pause"), "status": self.state.status}
            if self.halted is not None:
                result["status"] = "paused"
            elif self.state.status == "waiting":
                result["status"] = "paused"
                self.pause_turn("user", cause(result))
            elif self.state.pause_requested in {when, "now"}:
                pass  # It was asked for already.
            elif self.state.status in {"running", "pausing"}:
                result["status"] = "pausing"
                pausing = self.status_event("pausing")
                self.append(e.PauseRequested(when=when), pausing, cause=cause(result))
                if when == "now":
                    self.cancel.cancel()
            return result

    def resume(self, cause: MakeCause = _no_cause) -> Json:
        """Continue the open turn, or start one when the last ended early. Returns {turnId}."""
        with self.changed:
            self.require_open()
            self._unhalt()
            if not may_resume(self.state):
                raise InvalidStateError(
                    f"the conversation is {self.state.status}, not paused; send a message instead"
                )
            result: Json = {"turnId": self.state.turn_id or new_id()}
            if self.state.turn is not None:
                self._continue_turn(cause(result))
            else:
                self._start_turn(result["turnId"], cause(result), because="resume")
            return result

    def condense(self, instructions: str | None, cause: MakeCause = _no_cause) -> Json:
        """Condense at the next step boundary, or in a turn of its own. Returns {turnId}."""
        with self.changed:
            self.require_open()
            self._unhalt()
            wanted = e.CondensationRequested(instructions=instructions)
            result: Json = {"turnId": self.state.turn_id or new_id()}
            if self.state.turn is not None:
                self.append(wanted, cause=cause(result))
            else:
                self._start_turn(result["turnId"], cause(result), wanted, because="condense")
            return result

    # What the worker does with queued messages

    def halt(self, error: StorageError) -> None:
        """Stand still until a client resumes: the log cannot be written. Called by the worker."""
        with self.changed:
            self.halted = error
            for listener in tuple(self.listeners):
                listener.on_halted(self, error)
            # No event can report this, yet nobody must wait for a turn for ever.
            self.abandon_waiters(error)

    def _unhalt(self) -> None:
        """Try the log again; whatever was under way when it failed has an unknown outcome."""
        if self.halted is None:
            return
        now = self.clock.now()
        closing = closing_events(self.state, now, "outcomeUnknown", keep_waiting=True)
        recovered = e.Notice(severity="info", title="The log can be written again")
        stood_still: list[Contract] = []
        if self.state.status in _HALTS:
            # This could not be logged when it happened.
            paused = self.status_event("paused", "storage")
            stood_still = [e.TurnPaused(reason="storage"), paused]
        self.append(*closing, recovered, *stood_still)
        self.halted = None

    def interrupt(self, *, clear_queue: bool = False) -> Future[Json]:
        """Stop now; the future gives {turnId?, status} when the turn has ended."""
        with self.changed:
            if clear_queue:
                for message in list(self.state.queue):
                    self.remove_queued(message["messageId"])
            if self.state.turn is None:
                if left := dropped(self.state, self.clock.now()):
                    self.append(*left, self.status_event("idle"))
                done: Future[Json] = Future()
                done.set_result({"status": self.state.status})
                return done
            self._unhalt()
            turn_id = self.state.turn.id

            def read(record: plain.Record) -> Json | None:
                if record["event"]["type"] != "turn.completed" or record.get("turnId") != turn_id:
                    return None
                return {"turnId": turn_id, "status": "interrupted"}

            ended = self.await_record(read)
            self._interrupt()
            return ended

    def _interrupt(self) -> None:
        if self.state.status == "interrupting":
            return
        self.append(e.InterruptRequested(), self.status_event("interrupting"))
        self.cancel.cancel()

    def respond(
        self,
        approval_id: str,
        digest: str,
        decision: e.Decision,
        *,
        feedback: str | None = None,
        edited_subject: Subject | None = None,
        by: Literal["user", "noClient"] = "user",
    ) -> Json:
        """Answer an approval; the first answer wins.

        Raises `ApprovalNotFoundError`, or `ApprovalStaleError` when the digest is not that of the
        pending approval: the user must have seen something else.
        """
        with self.changed:
            approval = self.state.approvals.get(approval_id)
            if approval is None:
                return self._resolved_before(approval_id, "decision")
            if digest != approval["digest"]:
                raise ApprovalStaleError(
                    f"approval {approval_id!r} has another digest; show it again before answering"
                )
            if edited_subject is not None:
                require_editable(approval, edited_subject)
            self.append(
                e.ApprovalResolved(
                    approval_id=approval_id,
                    decision=decision,
                    by=by,
                    feedback=feedback,
                    edited_subject=edited_subject,
                )
            )
            return {"resolved": True}

    def answer(self, input_id: str, action: InputAction, content: str | None = None) -> Json:
        """Answer a question of the agent; the first answer wins. Action accept needs `content`.

        Raises `ApprovalNotFoundError`, or `InvalidParamsError` for an empty answer.
        """
        with self.changed:
            question = self.state.questions.get(input_id)
            if question is None:
                return self._resolved_before(input_id, "action")
            if action == "accept" and not (content or "").strip():
                raise InvalidParamsError.at("content", "is needed to accept: the answer", "missing")
            now = self.clock.now()
            self.append(*answering_events(self.state, question, now, action, content))
            return {"resolved": True}

    def _resolved_before(self, request_id: str, outcome: str) -> Json:
        earlier = self.state.resolutions.get(request_id)
        if earlier is None or outcome not in earlier:
            raise ApprovalNotFoundError(request_id)
        shown = {key: value for key, value in earlier.items() if key in {"by", outcome}}
        return {"resolved": False, "alreadyResolved": shown}

    # Queued messages. Each method raises `InvalidStateError` when the message is not queued

    def remove_queued(self, message_id: str) -> None:
        with self.changed:
            self._queued(message_id)
            self.append(e.MessageDequeued(message_id=message_id, outcome="removed"))

    def edit_queued(
        self, message_id: str, *, content: Sequence[Part] | None = None, position: int | None = None
    ) -> None:
        """Replace a queued message's content, or move it to another position."""
        with self.changed:
            message, place = self._queued(message_id)
            if content is not None:
                written = written_out(content, self.skill_kinds())
                message = message.model_copy(update={"content": written})
            place = place if position is None else min(position, len(self.state.queue) - 1)
            self.append(e.MessageEdited(message=message, position=place))

    def send_queued(self, message_id: str) -> None:
        """Deliver a queued message now, as if it came with delivery auto."""
        with self.changed:
            self.require_open()
            message, place = self._queued(message_id)
            self._unhalt()
            own = bool(message.options)
            disposition = plan_delivery(self.state, "auto", run=True, has_options=own)
            if disposition == "started":
                self.start_queued(message)
                return
            hurried = message.model_copy(update={"delivery": DELIVERED[disposition], "held": None})
            if disposition == "steered":
                self._steer(e.MessageEdited(message=hurried, position=place))
            else:
                self.append(e.MessageEdited(message=hurried, position=0))

    def _queued(self, message_id: str) -> tuple[QueuedMessage, int]:
        for place, message in enumerate(self.state.queue):
            if message["messageId"] == message_id:
                return QueuedMessage.model_validate(message), place
        raise InvalidStateError(
            f"no queued message {message_id!r}; conversation/queue op list has them"
        )

    def earlier_result(self, method: str, request_id: str, body_hash: str) -> Json | None:
        """Return this request's earlier result, or None. Raises when the body differs."""
        with self.changed:
            cause = self.state.causes.get((method, request_id))
            if cause is None:
                return None
            if cause["bodyHash"] != body_hash:
                raise IdempotencyConflictError(
                    f"{request_id!r} was used for another {method}; use a new clientRequestId"
                )
            return {**cause["result"], "duplicate": True}

    # Guards

    def require_open(self) -> None:
        if self.is_closing:
            raise InvalidStateError("the conversation is closed; open it again")

    def require_rest(self) -> None:
        """Raises `ConversationBusyError` while a turn is under way.

        Blocks until the worker has put down a turn that was just paused.
        """
        state = self.state
        with self.changed:
            self.changed.wait_for(lambda: state.status in BUSY or not self.is_at_work, _PUT_DOWN_S)
            if state.status in BUSY or self.is_at_work:
                status = state.status if state.status in BUSY else "still stopping"
                problem = f"the agent is {status} and may change files; interrupt first"
                raise ConversationBusyError(problem)

    def require_turn(self, expected: str | None) -> None:
        """Raises `TurnMismatchError` when another turn is open, or none."""
        running = self.state.turn_id
        if expected is not None and expected != running:
            raise TurnMismatchError(f"expected turn {expected!r}, but the open turn is {running!r}")

    def _require_running(self, verb: str) -> str:
        if self.state.turn is None:
            raise InvalidStateError(f"nothing is running, so there is nothing to {verb}")
        return self.state.turn.id
