"""The agent's loop: finish open actions, take in messages, ask the model, act on its answer, rest.

There is one `AgentLoop` per conversation, on its own thread. It keeps nothing that is not in the
log, so a new one on the same log continues where the old one stopped.
"""

from __future__ import annotations

import logging
import threading

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.kernel.actions import Actions
from oh_daemon.kernel.answer import Answering
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.notices import nudge_to_answer, warn
from oh_daemon.kernel.ports import Json, Model, ModelAnswer, ModelRequest, Tool
from oh_daemon.kernel.recovery import closing_events, ended_turn, stopping_events, without_hosts
from oh_daemon.kernel.runtime import Runtime
from oh_daemon.kernel.side_calls import SideQuestions
from oh_daemon.kernel.tool_calls import render_tool
from oh_daemon.kernel.turns import (
    TurnOutcome,
    rest_after_answer,
    rest_after_apply,
    rest_after_tool,
    rest_before_step,
    rest_when_stuck,
)
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import (
    ContextWindowExceededError,
    DaemonError,
    ModelError,
    NetworkError,
    OverloadedError,
    RateLimitError,
    StorageError,
)
from oh_daemon.protocol.forms import model_of
from oh_daemon.protocol.items import QueuedMessage
from oh_daemon.protocol.status import PauseReason

logger = logging.getLogger(__name__)

_PAUSING: dict[type[DaemonError], PauseReason] = {
    NetworkError: "network",
    RateLimitError: "rateLimit",
}
"""Failures of a model call that may pass with time: the turn is paused, not ended."""
_NO_THREAD = "no more threads can be started here; close some conversations or programs"


class AgentLoop:
    """Start it once; it works whenever the conversation has something to do."""

    def __init__(self, conversation: Conversation, runtime: Runtime) -> None:
        self.conversation = conversation
        self._journal = conversation.journal
        self._runtime = runtime
        self._actions = Actions(conversation, runtime)
        self.side_questions = SideQuestions(self._journal, self._model)
        self._rendered_for: tuple[list[Tool], list[Json]] = [], []
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the worker; further calls, from any thread, change nothing.

        Raises `OverloadedError` when the system has no thread to give.
        """
        with self._journal.condition:
            if self._thread is None:
                name = f"conversation-{self.conversation.id[:8]}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as exc:
                    raise OverloadedError(_NO_THREAD, retry_after_ms=1000) from exc
                self._thread = thread

    def close(self, deadline_s: float = 1.0) -> None:
        """Stop the worker; what is under way is logged as interrupted, approvals stay open."""
        conversation = self.conversation
        with self._journal.condition:
            self._journal.is_closing = True
            conversation.cancel.cancel()
            self.side_questions.close()
            self._journal.condition.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline_s)

    def ask(self, question: str, cancel: CancelToken) -> ModelAnswer:
        """Answer a question outside the turns, see `SideQuestions.ask`. Blocks; for any thread."""
        return self.side_questions.ask(question, self._rendered_tools(), cancel)

    # The worker

    def _work(self) -> None:
        while self._wait_for_work():
            self._run_turn()
            with self._journal.condition:
                self.conversation.is_at_work = False
                self._journal.condition.notify_all()
            self._runtime.on_idle()

    def _wait_for_work(self) -> bool:
        conversation = self.conversation
        with self._journal.condition:
            self._journal.condition.wait_for(lambda: self._journal.is_closing or self._has_work())
            if self._journal.is_closing:
                return False
            if conversation.cancel.is_cancelled and conversation.state.status != "interrupting":
                conversation.cancel = CancelToken()
            conversation.is_at_work = True
            return True

    def _has_work(self) -> bool:
        conversation, state = self.conversation, self.conversation.state
        if self._journal.storage_error is not None:
            return False
        if any(each.are_answered for each in self._runtime.questions):
            return True
        if state.turn is not None:
            return not conversation.turns.is_paused or state.status == "interrupting"
        return self._job_has_ended or self._next_queued() is not None

    @property
    def _job_has_ended(self) -> bool:
        """Whether a job has ended whose changes may land."""
        command_changes, options = (
            self._runtime.command_changes,
            self.conversation.state.options_now,
        )
        return (
            command_changes is not None and options["mode"] != "plan" and command_changes.has_news
        )

    def _next_queued(self) -> plain.QueuedMessage | None:
        """Return the message to start a turn with; after a turn cut short, only an interrupt."""
        state = self.conversation.state
        head = next((message for message in state.queue if not message.get("held")), None)
        if head is None or head["delivery"] == "interrupt":
            return head
        went_well = state.last_turn is None or state.last_turn["status"] == "completed"
        return head if went_well and state.status in {"idle", "finished"} else None

    def _run_turn(self) -> None:
        conversation = self.conversation
        cancel = conversation.cancel
        try:
            try:
                with self._runtime.slots.take(cancel):
                    outcome = self._rest_of_turn(cancel)
                    if outcome is not None:
                        self._forget_plan()
                        self._end_turn(outcome)
            except Cancelled:
                self._forget_plan()
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
            self._journal.halt(exc)

    def _rest_of_turn(self, cancel: CancelToken) -> TurnOutcome | None:
        """Act on answers and ended jobs, and work on the turn, if one can go on."""
        self._settle_questions()
        if self.conversation.state.turn is None and self._job_has_ended:
            self._actions.begin_apply(ends_turn=False)
        if not self._has_work():
            return None
        self._begin_queued_turn()
        return self._through_hooks(cancel)

    def _begin_queued_turn(self) -> None:
        conversation = self.conversation
        with self._journal.condition:
            head = self._next_queued()
            if conversation.state.turn is None and head is not None:
                conversation.delivery.start_queued(model_of(QueuedMessage, head))

    def _through_hooks(self, cancel: CancelToken) -> TurnOutcome | None:
        """Run steps until the turn comes to rest and no hook wants the agent to go on."""
        while True:
            outcome = self._steps(cancel)
            if outcome is None:
                return None
            if self._runtime.hooks.lets_rest(outcome, cancel) and not self._apply_rest(cancel):
                return None if self.conversation.turns.is_paused else outcome

    def _apply_rest(self, cancel: CancelToken) -> bool:
        """Land what is left of the turn; return whether the user said more meanwhile."""
        if self._actions.begin_apply(ends_turn=True):
            self._actions.run_open(cancel)
            if not self.conversation.turns.is_paused and self.conversation.delivery.has_steering():
                return True
        for questions in self._runtime.questions:
            questions.ask_at_rest()
        return False

    def _settle_questions(self) -> None:
        for questions in self._runtime.questions:
            questions.settle()

    def _steps(self, cancel: CancelToken) -> TurnOutcome | None:
        """Work until the turn comes to rest and return how; None when it was paused already."""
        conversation, state = self.conversation, self.conversation.state
        while True:
            ending = self._actions.run_open(cancel)
            if ending is not None:
                return rest_after_tool(ending)
            if conversation.turns.is_paused:
                return None
            cancel.raise_if_cancelled()
            self._settle_questions()
            if state.pause_requested:
                conversation.turns.pause("user")
                return None
            has_message = conversation.delivery.has_steering()
            conversation.delivery.take_in_steering()
            outcome = (
                (None if has_message else rest_after_apply(state))
                or self._runtime.hooks.take_messages(cancel)
                or self._condense_by_hand(cancel)
                or rest_before_step(state)
                or self._rest_of_features()
                or self._unstick()
            )
            if outcome is not None:
                return outcome
            answer = self._ask(cancel)
            outcome = rest_after_answer(answer, state.items)
            if outcome is not None and not conversation.delivery.has_steering():
                return outcome
            if outcome is None and not answer.tool_calls:
                nudge_to_answer(self._journal, answer)

    def _rest_of_features(self) -> TurnOutcome | None:
        state = self.conversation.state
        rests = (feature.rest_before_step(state) for feature in self._runtime.features)
        return next(filter(None, rests), None)

    def _condense_by_hand(self, cancel: CancelToken) -> TurnOutcome | None:
        """Condense if the user asked for it; a turn that was started just for that ends here."""
        conversation, state = self.conversation, self.conversation.state
        if state.condense_requested is None:
            return None
        self._runtime.condenser.by_hand(self._model(), cancel)
        is_own_turn = state.open_turn.cause == "condense"
        return (
            TurnOutcome("endTurn")
            if is_own_turn and not conversation.delivery.has_steering()
            else None
        )

    def _unstick(self) -> TurnOutcome | None:
        """Nudge a model that goes in circles, or end the turn."""
        stuck = self._runtime.find_stuck(self.conversation.state.items)
        if stuck is None:
            return None
        outcome = "nudged" if stuck.stop_reason is None else "stopped"
        self._journal.append(
            e.StuckDetected(pattern=stuck.pattern, outcome=outcome),
            e.ItemCompleted(item=stuck.notice),
        )
        return None if stuck.stop_reason is None else rest_when_stuck(stuck.stop_reason)

    def _ask(self, cancel: CancelToken) -> ModelAnswer:
        """Make one model call, and log its answer, tool calls as open actions."""
        if self._runtime.titles:
            self.side_questions.begin_title()
        model = self._model()
        self._runtime.toolbox.refresh(cancel)
        for caveat in model.traits.caveats:
            warn(self._journal, caveat)
        for is_last in (False, True):
            try:
                return self._call(model, cancel)
            except ContextWindowExceededError:
                if not self._runtime.condenser.make_room(model, cancel, is_last=is_last):
                    raise
        return self._call(model, cancel)

    def _call(self, model: Model, cancel: CancelToken) -> ModelAnswer:
        conversation = self.conversation
        is_first = conversation.state.open_turn.n_steps == 0
        tools = self._rendered_tools()
        request = ModelRequest(
            messages=self._runtime.condenser.messages(model, tools, cancel),
            tools=tools,
            tool_choice=self._runtime.tool_choice if is_first else "auto",
            cache_key=conversation.state.cache_key,
            effort=conversation.state.options_now.get("effort"),
            history=conversation,
        )
        answer = Answering(self._journal, self._runtime.toolbox.tools, model).ask(request, cancel)
        self._runtime.condenser.count()
        return answer

    def _rendered_tools(self) -> list[Json]:
        """Return the tools as the model gets them, rendered again only when they have changed."""
        all_tools = self._runtime.toolbox.tools.values()
        tools = [tool for tool in all_tools if tool.spec.access != "onDemand"]
        earlier, rendered_tools = self._rendered_for
        if tools != earlier:
            rendered_tools = [render_tool(tool.spec) for tool in tools]
            self._rendered_for = tools, rendered_tools
        return rendered_tools

    def _model(self) -> Model:
        return self._runtime.model_for(self.conversation.state.options_now["model"])

    # Ends

    def _end_turn(self, outcome: TurnOutcome) -> None:
        conversation = self.conversation
        with self._journal.condition:
            now = self._journal.clock.now()
            turn = ended_turn(
                conversation.state,
                now,
                "completed",
                outcome.stop_reason,
                final_text=outcome.final_text,
                result=outcome.result,
            )
            request = conversation.state.condense_requested
            leftover_events = without_hosts(conversation.state)
            self._journal.append(
                *leftover_events,
                turn,
                conversation.turns.status_event(outcome.status, outcome.reason),
            )
            if request is not None and not self._journal.is_closing:
                # It was requested during the last step, and no further step carried it out.
                conversation.condense(request.get("instructions"))
        self._journal.log.sync()

    def _forget_plan(self) -> None:
        """Take back the changes of commands, before a turn that only plans ends."""
        state, command_changes = self.conversation.state, self._runtime.command_changes
        if command_changes is not None and state.options_now["mode"] == "plan":
            command_changes.drop()

    def _stop_early(self) -> None:
        """End what is open after an interrupt, a pause at once or a close; keep history whole."""
        conversation = self.conversation
        with self._journal.condition:
            if conversation.state.turn is not None:
                now, is_closing = self._journal.clock.now(), self._journal.is_closing
                self._journal.append(
                    *stopping_events(conversation.state, now, is_closing=is_closing)
                )
        self._journal.log.sync()

    def _give_up(self, exc: DaemonError) -> None:
        """Pause the turn if the error may pass with time, else fail it."""
        conversation, state = self.conversation, self.conversation.state
        error = e.ErrorInfo.of(exc)
        reason = _PAUSING.get(type(exc))
        with self._journal.condition:
            now = self._journal.clock.now()
            # An item left open, such as a condensation, would hide all that comes after it.
            closing = closing_events(state, now, "interrupted", keep_waiting=reason is not None)
            closing += without_hosts(state)
            self._journal.append(e.ErrorRaised(error=error), *closing)
            if reason is not None:
                conversation.turns.pause(reason)
                return
            self._journal.append(
                ended_turn(state, now, "failed", "error", error=error),
                conversation.turns.status_event("error"),
            )
        self._journal.log.sync()
