"""One conversation as its clients drive it: send, pause, resume, interrupt, respond.

Each request appends facts at once and returns; the worker (`agent`) wakes, reads the state and
acts on it. Nothing here waits for a model, a tool or a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.kernel.approval_requests import require_editable
from oh_daemon.kernel.delivery import DELIVERED, Delivery, MakeCause, plan_delivery
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Clock, EventLog, Json, MessageContext
from oh_daemon.kernel.recovery import answering_events, drop_events
from oh_daemon.kernel.state import State
from oh_daemon.kernel.turns import BUSY, Turns, may_resume
from oh_daemon.protocol import events as e
from oh_daemon.protocol import items, plain
from oh_daemon.protocol.approvals import Decision, InputAction, Subject
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import (
    ApprovalNotFoundError,
    ApprovalStaleError,
    ConversationBusyError,
    IdempotencyConflictError,
    InvalidParamsError,
    InvalidStateError,
    TurnMismatchError,
)
from oh_daemon.protocol.items import QueuedMessage

_PUT_DOWN_S = 2.0
"""How long the worker may take to notice that its turn was paused."""


def _no_cause(_result: Json) -> None:
    return None


class Conversation:
    """What clients ask of a conversation. Thread-safe. `kernel.agent.AgentLoop` does the work."""

    def __init__(
        self,
        state: State,
        log: EventLog,
        context: MessageContext,
        *,
        epoch: str,
        clock: Clock,
        masker: Masker,
    ) -> None:
        self.id = state.conversation_id
        self.state = state
        self.journal = Journal(state, log, epoch=epoch, clock=clock, masker=masker)
        self.turns = Turns(self.journal)
        self.delivery = Delivery(self.journal, self.turns, context)
        self._context = context
        self.decisions = Decisions(self.journal)
        self.cancel = CancelToken()
        self._n_reconsidered = 0
        self.is_at_work = False
        """Whether the worker is in a turn, even one that was paused or ended a moment ago."""

    def send(
        self,
        content: Sequence[Part],
        *,
        delivery: items.Delivery = "auto",
        client_message_id: str | None = None,
        run: bool = True,
        options: dict[str, str] | None = None,
        cause: MakeCause = _no_cause,
    ) -> Json:
        """Take a message: start a turn, steer the open one, or queue it.

        Returns {messageId, disposition, turnId?, queuePosition?}.
        """
        with self.journal.condition:
            self.journal.require_open()
            self.turns.unhalt()
            disposition = plan_delivery(self.state, delivery, run=run, has_options=bool(options))
            message = QueuedMessage(
                message_id=new_id(),
                client_message_id=client_message_id,
                content=self._context.written_out(content),
                delivery=DELIVERED.get(disposition, delivery),
                held=None if run else True,
                options=options or None,
                created_at=self.journal.clock.now(),
            )
            result = self.delivery.take(message, disposition, cause)
            if disposition == "interruptedAndStarted":
                self._interrupt()
            return result

    def pause(self, when: Literal["step", "now"], cause: MakeCause = _no_cause) -> Json:
        """Stop after the step under way, or cancel it (`now`); the turn stays open."""
        with self.journal.condition:
            result: Json = {"turnId": self._require_running("pause"), "status": self.state.status}
            if self.journal.storage_error is not None:
                result["status"] = "paused"
            elif self.state.status == "waiting":
                result["status"] = "paused"
                self.turns.pause("user", cause(result))
            elif self.state.pause_requested in {when, "now"}:
                pass  # It was asked for already.
            elif self.state.status in {"running", "pausing"}:
                result["status"] = "pausing"
                pausing = self.turns.status_event("pausing")
                self.journal.append(e.PauseRequested(when=when), pausing, cause=cause(result))
                if when == "now":
                    self.cancel.cancel()
            return result

    def resume(self, cause: MakeCause = _no_cause) -> Json:
        """Continue the open turn, or start one when the last ended early. Returns {turnId}."""
        with self.journal.condition:
            self.journal.require_open()
            self.turns.unhalt()
            if not may_resume(self.state):
                raise InvalidStateError(
                    f"the conversation is {self.state.status}, not paused; send a message instead"
                )
            result: Json = {"turnId": self.state.turn_id or new_id()}
            if self.state.turn is not None:
                self.turns.resume(cause(result))
            else:
                self.turns.start(result["turnId"], cause(result), because="resume")
            return result

    def condense(self, instructions: str | None, cause: MakeCause = _no_cause) -> Json:
        """Condense at the next step boundary, or in a turn of its own. Returns {turnId}."""
        with self.journal.condition:
            self.journal.require_open()
            self.turns.unhalt()
            event = e.CondensationRequested(instructions=instructions)
            result: Json = {"turnId": self.state.turn_id or new_id()}
            if self.state.turn is not None:
                self.journal.append(event, cause=cause(result))
            else:
                self.turns.start(result["turnId"], cause(result), event, because="condense")
            return result

    def interrupt(self, *, clear_queue: bool = False) -> Future[Json]:
        """Stop now; the future gives {turnId?, status} when the turn has ended."""
        with self.journal.condition:
            if clear_queue:
                for message in list(self.state.queue):
                    self.delivery.remove_queued(message["messageId"])
            if self.state.turn is None:
                if events := drop_events(self.state, self.journal.clock.now()):
                    self.journal.append(*events, self.turns.status_event("idle"))
                future: Future[Json] = Future()
                future.set_result({"status": self.state.status})
                return future
            self.turns.unhalt()
            turn_id = self.state.turn.id

            def read(record: plain.Record) -> Json | None:
                if record["event"]["type"] != "turn.completed" or record.get("turnId") != turn_id:
                    return None
                return {"turnId": turn_id, "status": "interrupted"}

            record_future = self.journal.await_record(read)
            self._interrupt()
            return record_future

    def _interrupt(self) -> None:
        if self.state.status == "interrupting":
            return
        self.journal.append(e.InterruptRequested(), self.turns.status_event("interrupting"))
        self.cancel.cancel()

    @property
    def policy_version(self) -> object:
        """What decides about actions, beside themselves; when it is new, what waits may run."""
        with self.journal.condition:
            n_grants = len(self.state.grants), len(self.state.turn_grants)
            return self.state.options_now, n_grants, self._n_reconsidered

    def reconsider(self) -> None:
        """Let the worker decide again about what waits: trust or settings are new."""
        with self.journal.condition:
            self._n_reconsidered += 1
            self.journal.wake()

    def earlier_result(self, method: str, request_id: str, body_hash: str) -> Json | None:
        """Return this request's earlier result, or None. Raises when the body differs."""
        with self.journal.condition:
            cause = self.state.causes.get((method, request_id))
            if cause is None:
                return None
            if cause["bodyHash"] != body_hash:
                raise IdempotencyConflictError(
                    f"{request_id!r} was used for another {method}; use a new clientRequestId"
                )
            return {**cause["result"], "duplicate": True}

    def require_rest(self) -> None:
        """Raises `ConversationBusyError` while a turn is under way.

        Blocks until the worker has put down a turn that was just paused.
        """
        state = self.state
        with self.journal.condition:
            self.journal.condition.wait_for(
                lambda: state.status in BUSY or not self.is_at_work, _PUT_DOWN_S
            )
            if state.status in BUSY or self.is_at_work:
                status = state.status if state.status in BUSY else "still stopping"
                problem = f"the agent is {status} and may change files; interrupt first"
                raise ConversationBusyError(problem)

    def require_turn(self, expected: str | None) -> None:
        """Raises `TurnMismatchError` when another turn is open, or none."""
        turn_id = self.state.turn_id
        if expected is not None and expected != turn_id:
            raise TurnMismatchError(f"expected turn {expected!r}, but the open turn is {turn_id!r}")

    def _require_running(self, verb: str) -> str:
        if self.state.turn is None:
            raise InvalidStateError(f"nothing is running, so there is nothing to {verb}")
        return self.state.turn.id


class Decisions:
    """What waits for the user in one conversation. Thread-safe."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def respond(
        self,
        approval_id: str,
        digest: str,
        decision: Decision,
        *,
        feedback: str | None = None,
        edited_subject: Subject | None = None,
        by: Literal["user", "noClient"] = "user",
    ) -> Json:
        """Answer an approval; the first answer wins.

        Raises `ApprovalNotFoundError`, or `ApprovalStaleError` when the digest is not that of the
        pending approval: the user must have seen something else.
        """
        with self._journal.condition:
            approval = self._journal.state.approvals.get(approval_id)
            if approval is None:
                return _resolved_before(self._journal.state, approval_id, "decision")
            if digest != approval["digest"]:
                raise ApprovalStaleError(
                    f"approval {approval_id!r} has another digest; show it again before answering"
                )
            if edited_subject is not None:
                require_editable(approval, edited_subject)
            answer = self._answer_again(approval_id)
            self._journal.append(
                e.ApprovalResolved(
                    approval_id=approval_id,
                    decision=decision,
                    by=by,
                    feedback=feedback,
                    edited_subject=edited_subject,
                )
            )
            return answer

    def _answer_again(self, request_id: str) -> Json:
        """Return what to answer to the one whose answer is taken."""
        state = self._journal.state
        is_paused = state.status == "paused" and request_id in state.awaited_requests
        return {"resolved": True, **({"needsResume": True} if is_paused else {})}

    def answer(self, input_id: str, action: InputAction, content: str | None = None) -> Json:
        """Answer a question of the agent; the first answer wins. Action accept needs `content`.

        Raises `ApprovalNotFoundError`, or `InvalidParamsError` for an empty answer.
        """
        with self._journal.condition:
            question = self._journal.state.questions.get(input_id)
            if question is None:
                return _resolved_before(self._journal.state, input_id, "action")
            if action == "accept" and not (content or "").strip():
                raise InvalidParamsError.at("content", "is needed to accept: the answer", "missing")
            now, input_answer = self._journal.clock.now(), self._answer_again(input_id)
            self._journal.append(
                *answering_events(self._journal.state, question, now, action, content)
            )
            return input_answer


def _resolved_before(state: State, request_id: str, outcome: str) -> Json:
    earlier = state.resolutions.get(request_id)
    if earlier is None or outcome not in earlier:
        raise ApprovalNotFoundError(request_id)
    outcome_fields = {key: value for key, value in earlier.items() if key in {"by", outcome}}
    return {"resolved": False, "alreadyResolved": outcome_fields}
