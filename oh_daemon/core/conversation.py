"""One conversation as its clients drive it: send, pause, resume, interrupt, respond.

Each request appends facts at once and returns; the worker (`core.agent`) wakes, reads the state and
acts on it. Nothing here waits for a model, a tool or a client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Literal

from oh_daemon.contract import events as e
from oh_daemon.contract.errors import (
    ApprovalNotFoundError,
    ApprovalStaleError,
    IdempotencyConflictError,
    InvalidStateError,
    NotSteerableError,
    OverloadedError,
    StorageError,
    TurnMismatchError,
)
from oh_daemon.contract.items import (
    Delivery,
    Part,
    QueuedMessage,
    Subject,
)
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.journal import Journal, new_id
from oh_daemon.core.ports import Clock, EventLog, Json
from oh_daemon.core.recovery import closing_events, superseding_events
from oh_daemon.core.secrets import Masker
from oh_daemon.core.state import State

logger = logging.getLogger(__name__)

MAX_QUEUE = 32
_MAX_TITLE = 60
BUSY = frozenset({"running", "waiting", "pausing", "interrupting"})


class Conversation(Journal):
    """Thread-safe. `run_turn` is what the worker does; `Agent` in `core.agent` provides it."""

    def __init__(
        self, state: State, log: EventLog, *, epoch: str, clock: Clock, masker: Masker
    ) -> None:
        super().__init__(state, log, epoch=epoch, clock=clock, masker=masker)
        self.cancel = CancelToken()
        self.halted: StorageError | None = None
        """Set while the log cannot be written; only `resume` or a message clears it."""
        self.is_closing = False

    # What a client can ask. Each returns at once.

    def send(
        self,
        content: Sequence[Part],
        *,
        delivery: Delivery = "auto",
        client_message_id: str | None = None,
        expected_turn_id: str | None = None,
        run: bool = True,
        cause: Callable[[Json], e.Cause | None] = lambda _result: None,
    ) -> Json:
        """Take a message: start a turn, steer the running one, or queue it.

        Returns {messageId, disposition, turnId?, queuePosition?}. `cause` makes the idempotency
        record from that result.
        """
        with self.changed:
            self._require_open()
            self._require_turn(expected_turn_id)
            self._unhalt()
            message = QueuedMessage(
                message_id=new_id(),
                client_message_id=client_message_id,
                content=tuple(content),
                delivery=delivery,
                created_at=self.clock.now(),
            )
            result: Json = {"messageId": message.message_id}
            if not run or delivery == "queue" or self.state.status == "interrupting":
                return self._enqueue(message, result, cause, starts=run)
            if self.state.status in BUSY:
                return self._steer(message, result, cause)
            if self.state.status == "paused":
                return self._resume_with(message, result, cause)
            if delivery == "steer" and expected_turn_id is not None:
                raise NotSteerableError("no turn is running; send it with delivery auto")
            result |= {"disposition": "started", "turnId": new_id()}
            self._start_turn(result["turnId"], message, cause(result))
            return result

    def _enqueue(
        self,
        message: QueuedMessage,
        result: Json,
        cause: Callable[[Json], e.Cause | None],
        *,
        starts: bool,
    ) -> Json:
        if len(self.state.queue) >= MAX_QUEUE:
            raise OverloadedError(
                f"{MAX_QUEUE} messages are queued already; remove one with conversation/queue",
                retry_after_ms=1000,
            )
        if starts and self.state.status not in BUSY and self.state.status != "paused":
            result |= {"disposition": "started", "turnId": new_id()}
            self._start_turn(result["turnId"], message, cause(result))
            return result
        result |= {"disposition": "queued", "queuePosition": len(self.state.queue)}
        self.append(e.MessageQueued(message=message), cause=cause(result))
        return result

    def _steer(
        self, message: QueuedMessage, result: Json, cause: Callable[[Json], e.Cause | None]
    ) -> Json:
        turn_id = self.state.turn["id"] if self.state.turn else None
        if message.delivery == "interrupt":
            result |= {"disposition": "interruptedAndStarted"}
            self.append(e.MessageQueued(message=message), cause=cause(result))
            self._interrupt()
            return result
        self._supersede()
        steered = message.model_copy(update={"delivery": "steer"})
        result |= {"disposition": "steered", "turnId": turn_id}
        self.append(e.MessageQueued(message=steered), cause=cause(result))
        return result

    def _resume_with(
        self, message: QueuedMessage, result: Json, cause: Callable[[Json], e.Cause | None]
    ) -> Json:
        self._supersede()
        if self.state.turn is None:
            result |= {"disposition": "started", "turnId": new_id()}
            self._start_turn(result["turnId"], message, cause(result))
            return result
        steered = message.model_copy(update={"delivery": "steer"})
        result |= {"disposition": "steered", "turnId": self.state.turn["id"]}
        self.append(e.MessageQueued(message=steered), cause=cause(result))
        self._continue_turn()
        return result

    def _supersede(self) -> None:
        """A new message replaces the actions that still wait for an answer."""
        if self.state.approvals:
            self.append(*superseding_events(self.state, self.clock.now()))

    def _start_turn(self, turn_id: str, message: QueuedMessage, cause: e.Cause | None) -> None:
        if not self.state.title:
            self.append(e.ConversationUpdated(title=title_of(message.content)))
        self.append(
            e.TurnStarted(cause="message"),
            self.user_message(message),
            self.status_event("running"),
            turn_id=turn_id,
            cause=cause,
        )

    def pause(self, when: Literal["step", "now"], cause: e.Cause | None = None) -> Json:
        """Stop after the step under way, or cancel it (`now`); the turn stays open."""
        with self.changed:
            turn_id = self._require_running("pause")
            if self.state.status == "waiting":
                paused = self.status_event("paused", "user")
                self.append(e.TurnPaused(reason="user"), paused, cause=cause)
            elif self.state.status in {"running", "pausing"}:
                pausing = self.status_event("pausing")
                self.append(e.PauseRequested(when=when), pausing, cause=cause)
                if when == "now":
                    self.cancel.cancel()
            return {"status": self.state.status, "turnId": turn_id}

    def resume(self, cause: Callable[[Json], e.Cause | None] = lambda _result: None) -> Json:
        """Go on with the same turn, or start one when the last ended early. {turnId}."""
        with self.changed:
            self._require_open()
            if self.halted is not None:
                self._unhalt()
                return {"turnId": self._require_running("resume")}
            interrupted = (self.state.last_turn or {}).get("status") in {"interrupted", "failed"}
            if self.state.status != "paused" and not (
                self.state.status in {"idle", "error"} and interrupted
            ):
                raise InvalidStateError(
                    f"the conversation is {self.state.status}, not paused; send a message instead"
                )
            if self.state.turn is not None:
                result = {"turnId": self.state.turn["id"]}
                self._continue_turn(cause(result))
                return result
            result = {"turnId": new_id()}
            self.append(
                e.TurnStarted(cause="resume"),
                self.status_event("running"),
                turn_id=result["turnId"],
                cause=cause(result),
            )
            return result

    def _continue_turn(self, cause: e.Cause | None = None) -> None:
        status = self.status_event("waiting" if self.state.approvals else "running")
        self.append(e.TurnResumed(), status, cause=cause)

    def halt(self, error: StorageError) -> None:
        """The log takes nothing more: stand still until somebody resumes. Called by the worker."""
        with self.changed:
            self.halted = error
            for listener in tuple(self.listeners):
                listener.on_halted(self, error)
            # The log cannot take this event, yet whoever waits for the turn must not wait for ever.
            turn_id = self.state.turn["id"] if self.state.turn else None
            paused = {"type": "turn.paused", "reason": "storage"}
            self.tell_waiters({"ts": self.clock.now(), "turnId": turn_id, "event": paused})

    def _unhalt(self) -> None:
        """Try the log again; what was under way when it failed has no known outcome."""
        if self.halted is None:
            return
        closing = closing_events(self.state, self.clock.now(), "outcomeUnknown")
        recovered = e.Notice(severity="info", title="The log can be written again")
        self.append(*closing, recovered)
        self.halted = None

    def interrupt(self, *, clear_queue: bool = False) -> Future[Json]:
        """Stop now. The result ({turnId?, status, survivors}) comes when the turn has ended."""
        with self.changed:
            if clear_queue:
                for message in list(self.state.queue):
                    self.remove_queued(message["messageId"])
            done: Future[Json] = Future()
            turn = self.state.turn
            if turn is None:
                done.set_result({"status": self.state.status, "survivors": []})
                return done
            self._unhalt()
            self.when_turn_ends(
                turn["id"],
                lambda ended: done.set_result(
                    {"turnId": ended["id"], "status": "interrupted", "survivors": []}
                ),
            )
            self._interrupt()
            return done

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

        Raises `ApprovalNotFoundError`, or `ApprovalStaleError` when the digest is not what the
        user must have seen.
        """
        with self.changed:
            approval = self.state.approvals.get(approval_id)
            if approval is None:
                earlier = self.state.resolutions.get(approval_id)
                if earlier is None:
                    raise ApprovalNotFoundError(
                        f"no approval {approval_id!r}; approval/list has those that wait"
                    )
                shown = {"by": earlier["by"], "decision": earlier["decision"]}
                return {"resolved": False, "alreadyResolved": shown}
            if digest != approval["digest"]:
                raise ApprovalStaleError(
                    f"approval {approval_id!r} has another digest; show it again before answering"
                )
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

    def remove_queued(self, message_id: str) -> None:
        with self.changed:
            if not any(message["messageId"] == message_id for message in self.state.queue):
                raise InvalidStateError(
                    f"no queued message {message_id!r}; conversation/queue op list has them"
                )
            self.append(e.MessageDequeued(message_id=message_id, outcome="removed"))

    def earlier_result(self, method: str, request_id: str, body_hash: str) -> Json | None:
        """What this very request was answered before. Raises when the body differs."""
        with self.changed:
            cause = self.state.causes.get((method, request_id))
            if cause is None:
                return None
            if cause["bodyHash"] != body_hash:
                raise IdempotencyConflictError(
                    f"{request_id!r} was used for another {method}; use a new clientRequestId"
                )
            return {**cause["result"], "duplicate": True}

    # Waiting for an end

    def turn_ended(self, message_id: str, turn_id: str | None) -> Future[Json]:
        """Resolve with the turn that answers this message, once it has completed or paused."""
        done: Future[Json] = Future()
        with self.changed:
            if turn_id is not None:
                self.when_turn_ends(turn_id, done.set_result, or_pauses=True)
                return done

            def on_record(record: Json) -> bool:
                event = record["event"]
                if event["type"] == "item.completed":
                    if event["item"].get("messageId") != message_id:
                        return False
                    self.when_turn_ends(record["turnId"], done.set_result, or_pauses=True)
                    return True
                return event["type"] == "message.dequeued" and (
                    event["messageId"] == message_id
                    and event["outcome"] == "removed"
                    and done.cancel()
                )

            self.await_record(on_record)
        return done

    # Guards

    def _require_open(self) -> None:
        if self.is_closing:
            raise InvalidStateError("the conversation is closed; conversation/open opens it again")

    def _require_turn(self, expected: str | None) -> None:
        running = self.state.turn["id"] if self.state.turn else None
        if expected is not None and expected != running:
            raise TurnMismatchError(f"expected turn {expected!r}, but the open turn is {running!r}")

    def _require_running(self, verb: str) -> str:
        if self.state.turn is None:
            raise InvalidStateError(f"nothing is running, so there is nothing to {verb}")
        return self.state.turn["id"]


def title_of(content: Sequence[Part]) -> str:
    """The first line of a first message, shortened."""
    texts = (part.text for part in content if part.type == "text")
    line = next((line.strip() for text in texts for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1] + "…"
