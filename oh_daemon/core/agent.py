"""The loop: finish what is open, take in messages, ask the model, act on its answer, rest.

One `Agent` per conversation, on its own thread. It keeps nothing that the log does not hold; a new
one on the same log goes on where the old one stopped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from oh_daemon.contract import events as e
from oh_daemon.contract.errors import (
    DaemonError,
    ModelError,
    NetworkError,
    RateLimitError,
    StorageError,
)
from oh_daemon.contract.items import (
    ConversationState,
    NoticeItem,
    PauseReason,
    QueuedMessage,
    StopReason,
)
from oh_daemon.core.actions import Actions
from oh_daemon.core.answer import Answering
from oh_daemon.core.calls import render_tool
from oh_daemon.core.cancel import Cancelled, CancelToken
from oh_daemon.core.consent import Policy
from oh_daemon.core.context import View
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import Json, Model, ModelRequest, Tool
from oh_daemon.core.recovery import cancelled_approvals, closing_events, interrupted_turn
from oh_daemon.core.slots import Slots

logger = logging.getLogger(__name__)

MAX_NUDGES = 3
MAX_SAME_ERRORS = 3
_NUDGE = (
    "Your last answer held neither text nor a tool call. Go on with the task, or call finish when "
    "it is done."
)
_PAUSING: dict[type[DaemonError], PauseReason] = {
    NetworkError: "network",
    RateLimitError: "rateLimit",
}


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a conversation's agent works with, composed once by the wiring."""

    model_for: Callable[[str], Model]
    tools: Mapping[str, Tool]
    policy: Policy = field(default_factory=Policy)
    slots: Slots = field(default_factory=Slots)
    tool_choice: Literal["auto", "required"] = "auto"
    """`required` holds for the first request of a turn only."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """How a turn ends, and what the conversation is then."""

    stop_reason: StopReason
    status: ConversationState
    reason: PauseReason | None = None
    final_text: str | None = None


class Agent:
    """Start it once; it works whenever the conversation has something to do."""

    def __init__(self, conversation: Conversation, runtime: Runtime) -> None:
        self.conversation = conversation
        self._runtime = runtime
        self._actions = Actions(conversation, dict(runtime.tools), runtime.policy)
        self._view = View(conversation.state.agent["systemPrompt"])
        self._schemas = [render_tool(tool.spec) for tool in runtime.tools.values()]
        self._thread: threading.Thread | None = None
        self.on_idle: Callable[[], None] = lambda: None
        """Called on this thread, without a lock, whenever a turn has come to rest."""

    def start(self) -> None:
        """Begin to work; a second call changes nothing."""
        if self._thread is not None:
            return
        name = f"conversation-{self.conversation.id[:8]}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def close(self, deadline_s: float = 1.0) -> None:
        """Stop the worker; what is under way is recorded as interrupted, approvals stay."""
        conversation = self.conversation
        with conversation.changed:
            conversation.is_closing = True
            conversation.cancel.cancel()
            conversation.changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline_s)

    # The worker

    def _work(self) -> None:
        while self._wait_for_work():
            self._run_turn()
            self.on_idle()

    def _wait_for_work(self) -> bool:
        conversation = self.conversation
        with conversation.changed:
            conversation.changed.wait_for(lambda: conversation.is_closing or self._has_work())
            if conversation.is_closing:
                return False
            if conversation.cancel.is_cancelled and conversation.state.status != "interrupting":
                conversation.cancel = CancelToken()
            return True

    def _has_work(self) -> bool:
        conversation, state = self.conversation, self.conversation.state
        if conversation.halted is not None:
            return False
        if state.turn is not None:
            return not conversation.is_paused or state.status == "interrupting"
        return self._next_queued() is not None

    def _next_queued(self) -> Json | None:
        """The message to start a turn with: after an interrupt only one sent for that purpose."""
        state = self.conversation.state
        waiting = [message for message in state.queue if not message.get("held")]
        if not waiting:
            return None
        went_well = (state.last_turn or {}).get("status", "completed") == "completed"
        may_start = state.status in {"idle", "finished"} and went_well
        return waiting[0] if may_start or waiting[0]["delivery"] == "interrupt" else None

    def _run_turn(self) -> None:
        conversation = self.conversation
        cancel = conversation.cancel
        try:
            try:
                with self._runtime.slots.taken(cancel):
                    self._begin_queued_turn()
                    self._rest(self._steps(cancel))
            except Cancelled:
                self._stop_early()
            except ModelError as exc:
                self._give_up(exc)
            except StorageError:
                raise
            except Exception as exc:
                logger.exception("turn of conversation %s broke", conversation.id)
                self._give_up(DaemonError(f"internal error: {exc!r}; the daemon's log has more"))
        except StorageError as exc:
            logger.error("conversation %s: %s", conversation.id, exc)  # noqa: TRY400 - no bug.
            conversation.halt(exc)

    def _begin_queued_turn(self) -> None:
        conversation = self.conversation
        with conversation.changed:
            head = self._next_queued()
            if conversation.state.turn is not None or head is None:
                return
            message = QueuedMessage.model_validate(head)
            conversation.append(
                e.MessageDequeued(message_id=message.message_id, outcome="started"),
                e.TurnStarted(cause="message"),
                conversation.user_message(message),
                conversation.status_event("running"),
                turn_id=new_id(),
            )

    def _steps(self, cancel: CancelToken) -> _Rest | None:
        """Work until the turn rests; None when it was put on hold."""
        conversation, state = self.conversation, self.conversation.state
        while True:
            ending = self._actions.run_open(cancel)
            if ending is not None:
                text = "\n".join(part.get("text", "") for part in ending.content)
                return _Rest("finished", "finished", final_text=text)
            if conversation.is_paused:
                return None
            cancel.raise_if_cancelled()
            if state.pause_requested:
                conversation.pause_turn("user")
                return None
            self._take_in_messages()
            rest = self._limit() or self._gave_up_on_tools()
            if rest is not None:
                return rest
            rest = self._step(cancel)
            if rest is not None and not self._has_steering():
                return rest

    def _take_in_messages(self) -> None:
        conversation = self.conversation
        with conversation.changed:
            for message in list(conversation.state.queue):
                if message["delivery"] == "steer" or message.get("held"):
                    queued = QueuedMessage.model_validate(message)
                    conversation.append(
                        e.MessageDequeued(message_id=queued.message_id, outcome="steered"),
                        conversation.user_message(queued),
                    )

    def _has_steering(self) -> bool:
        with self.conversation.changed:
            return any(m["delivery"] == "steer" for m in self.conversation.state.queue)

    def _limit(self) -> _Rest | None:
        state = self.conversation.state
        turn = state.turn or {}
        if turn["nSteps"] >= state.max_steps:
            return _Rest("maxSteps", "paused", "budget")
        cost = turn["usage"].get("cost", {}).get("amount", 0.0)
        if state.max_cost_usd is not None and cost >= state.max_cost_usd:
            return _Rest("maxCostUsd", "paused", "budget")
        return None

    def _gave_up_on_tools(self) -> _Rest | None:
        """Three wrong calls of one kind in a row: more of the same will not help."""
        recent = [i for i in self.conversation.state.items[-MAX_SAME_ERRORS:] if i.get("call")]
        reasons = {item.get("reason") for item in recent}
        wrong = reasons in ({"unknownTool"}, {"invalidArguments"})
        if len(recent) < MAX_SAME_ERRORS or not wrong:
            return None
        return _Rest("toolErrors", "idle")

    def _step(self, cancel: CancelToken) -> _Rest | None:
        """One model call and what follows from it."""
        conversation, state = self.conversation, self.conversation.state
        model = self._runtime.model_for(state.options["model"])
        is_first = (state.turn or {})["nSteps"] == 0
        request = ModelRequest(
            messages=self._view.messages(state.items),
            tools=self._schemas,
            tool_choice=self._runtime.tool_choice if is_first else "auto",
            cache_key=conversation.id,
        )
        answering = Answering(conversation, self._runtime.tools, model)
        answer = answering.ask(request, cancel)
        cut = answer.finish_reason == "length"
        if answer.finish_reason == "content_filter":
            return _Rest("refusal", "idle", final_text=answer.text or None)
        if answer.tool_calls:
            answering.take_calls(answer, cut=cut)
            return None
        if cut:
            return _Rest("maxTokens", "idle", final_text=answer.text or None)
        if answer.text.strip():
            return _Rest("endTurn", "idle", final_text=answer.text)
        return self._nudge()

    def _nudge(self) -> _Rest | None:
        recent = self.conversation.state.items[-2 * MAX_NUDGES :]
        nudges = [item for item in recent if item.get("note") == _NUDGE]
        if len(nudges) >= MAX_NUDGES:
            return _Rest("noAnswer", "idle")
        notice = NoticeItem(
            id=new_id(),
            severity="warning",
            title="The model gave an empty answer and was asked to go on",
            note=_NUDGE,
        )
        self.conversation.append(e.ItemCompleted(item=notice))
        return None

    # Ends

    def _rest(self, rest: _Rest | None) -> None:
        if rest is not None:
            turn = self._ended_turn("completed", rest.stop_reason, final_text=rest.final_text)
            self._end(turn, rest.status, rest.reason)

    def _end(
        self, turn: e.Turn, status: ConversationState, reason: PauseReason | None = None
    ) -> None:
        conversation = self.conversation
        with conversation.changed:
            conversation.append(
                e.TurnCompleted(turn=turn), conversation.status_event(status, reason)
            )
        conversation.log.sync()

    def _ended_turn(
        self,
        status: Literal["completed", "failed"],
        stop_reason: StopReason,
        *,
        error: e.ErrorInfo | None = None,
        final_text: str | None = None,
    ) -> e.Turn:
        turn = self.conversation.state.turn or {}
        return e.Turn(
            id=turn["id"],
            status=status,
            stop_reason=stop_reason,
            started_at=turn["startedAt"],
            ended_at=self.conversation.clock.now(),
            n_steps=turn["nSteps"],
            usage=turn["usage"] or None,
            error=error,
            final_text=final_text,
        )

    def _stop_early(self) -> None:
        """Interrupted, paused at once, or closing: end what is open, keep the history whole."""
        conversation, state = self.conversation, self.conversation.state
        with conversation.changed:
            now = conversation.clock.now()
            if state.turn is None:
                return
            if conversation.is_closing:
                restarted = conversation.status_event("paused", "daemonRestarted")
                closing = closing_events(state, now, "interrupted", keep_approvals=True)
                conversation.append(*closing, interrupted_turn(state, now), restarted)
            elif state.pause_requested == "now" and state.status != "interrupting":
                conversation.append(*closing_events(state, now, "interrupted"))
                conversation.pause_turn("user")
            else:
                approvals = cancelled_approvals(state)
                closing = closing_events(state, now, "interrupted")
                idle = conversation.status_event("idle")
                conversation.append(*approvals, *closing, interrupted_turn(state, now), idle)
        conversation.log.sync()

    def _give_up(self, exc: DaemonError) -> None:
        """A call that no attempt saved: hold the turn when time may help, else fail it."""
        conversation = self.conversation
        error = e.ErrorInfo.of(exc)
        reason = _PAUSING.get(type(exc))
        conversation.append(e.ErrorRaised(error=error))
        if reason is not None:
            conversation.pause_turn(reason)
            return
        with conversation.changed:
            conversation.append(
                *closing_events(conversation.state, conversation.clock.now(), "interrupted")
            )
            self._end(self._ended_turn("failed", "error", error=error), "error")
