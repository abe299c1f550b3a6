"""Runs a conversation once more from its log and compares; the first difference ends it.

The model's answers are the logged ones, and so is what tools returned: nothing runs, and nothing
but the log is read. What the core makes of it is new, in a log in memory: items, requests,
condensations, and how turns end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import orjson
from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.approval.consent import Consent
from oh_daemon.features.approval.judgement import NO_POLICY
from oh_daemon.features.condensation.condensation import Condensation
from oh_daemon.features.hooks.hooks import NO_HOOKS, HookPoints
from oh_daemon.features.replay.compare import (
    Comparison,
    ReplayDifference,
    ReplayReport,
    comparable,
    comparable_turn,
    is_compared,
    name_of,
    requests_differ,
)
from oh_daemon.features.replay.recorded_answers import (
    CUT,
    RecordedAnswers,
    RecordedCall,
    ReplayModel,
)
from oh_daemon.features.replay.recordings import (
    RecordedTurn,
    Script,
    queued_message,
    sub_agents_of,
    without_questions,
)
from oh_daemon.features.stuck.stuck import find_stuck
from oh_daemon.kernel.agent import AgentLoop
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.ports import (
    Footprint,
    Intent,
    Json,
    ModelRequest,
    Tool,
    ToolContext,
    ToolResult,
    ToolSpec,
)
from oh_daemon.kernel.runtime import Runtime, Slots
from oh_daemon.kernel.state import ENDED, State, is_tool_item
from oh_daemon.kernel.turns import TurnOutcome, turn_end
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import ToolSubject
from oh_daemon.protocol.content import Part
from oh_daemon.protocol.errors import InvalidStateError, ModelError
from oh_daemon.protocol.events import CondensationRequested, MessageQueued
from oh_daemon.protocol.log_version import LOG_VERSION
from oh_daemon.protocol.settings import LIMITS
from oh_daemon.storage.blobs import Blobs
from oh_daemon.storage.completions import read_requests
from oh_daemon.storage.log_scan import read_log
from oh_daemon.storage.memory_log import MemoryLog

_PATIENCE_S = 60.0
_DAMAGES = (LookupError, TypeError, AttributeError, ValueError)
_ENDS = {"finished": "finish", "needsInput": "ask", "hook": ""}
"""Why a turn ended that a tool ended, and which tool; for a hook, any."""


def replay(place: Path, *, is_strict: bool = False) -> ReplayReport:
    """Replay the log in this folder, and those of its sub-agents.

    Raises `InvalidStateError` for a log that cannot be replayed, `OSError` and `ReadOnlyError`.
    """
    report = ReplayReport()
    for each in (place, *sub_agents_of(place, read_log(place))):
        own = _replay_one(each, is_strict=is_strict)
        report.n_steps += own.n_steps
        report.n_requests += own.n_requests
        report.left_out = report.left_out or own.left_out
        if own.difference is not None:
            whose = "" if each == place else f"sub-agent {each.name[:12]}, "
            where = f"{whose}step {own.n_steps}: {own.difference.where}"
            report.difference = replace(own.difference, where=where)
            break
    return report


def _replay_one(place: Path, *, is_strict: bool) -> ReplayReport:
    try:
        return _Replay(place, read_log(place), is_strict=is_strict).run()
    except _DAMAGES as exc:
        raise InvalidStateError(f"the log in {str(place)!r} cannot be replayed: {exc!r}") from exc


class _Log(MemoryLog):
    """A new log that has the blobs of the old one."""

    def __init__(self, blobs: Path) -> None:
        super().__init__()
        self._recorded_blobs = Blobs(blobs)

    def read_blob(self, sha256: str, offset: int = 0, limit: int = -1) -> bytes:
        return self._recorded_blobs.read(sha256, offset, limit)


class _Clock(Struct):
    """The time of the recording."""

    time: str

    def now(self) -> str:
        return self.time

    def monotonic(self) -> float:
        return 0.0


class _LoggedTool(Struct, frozen=True):
    """A tool of the log, whose calls are observed as they were."""

    spec: ToolSpec
    observe: Callable[[ToolContext], ToolResult]

    def plan(self, args: Json) -> Intent:
        is_last = self.spec.name in {"finish", "delegate"}
        footprint = Footprint(writes=not self.spec.read_only, comes_last=is_last)
        subject = ToolSubject(tool=self.spec.name, args=args)
        return Intent(self.spec.name, subject, "low", footprint=footprint)

    def run(self, args: Json, context: ToolContext) -> ToolResult:  # noqa: ARG002 - the port's shape.
        return self.observe(context)


class _RecordedLimits(Feature):
    """Ends a turn where a limit ended it that only the surroundings know."""

    def __init__(self, turn: Callable[[], RecordedTurn]) -> None:
        self._turn = turn

    def rest_before_step(self, state: State) -> TurnOutcome | None:
        outcome = self._turn().outcome
        reason = outcome.get("stopReason") if outcome else None
        if outcome is None or reason not in LIMITS or state.open_turn.n_steps < outcome["nSteps"]:
            return None
        return TurnOutcome(reason, "paused", "budget")


class _Replay:
    """One replay of one log: the kernel's `MessageContext` and `Toolbox`. Call `run` once."""

    def __init__(
        self,
        place: Path,
        records: Sequence[plain.Record],
        *,
        is_strict: bool,
    ) -> None:
        self.report = ReplayReport()
        recording = RecordedAnswers(records, read_requests(place))
        self._script, self._steps = Script(records), recording.steps
        self._comparison = Comparison(is_strict)
        self._turn = RecordedTurn(0, {"type": "turn.started", "cause": "message"})
        self._n_checked_items = 0
        self._ids: dict[str, str] = {}
        """Ids of the recording by our own."""
        self._expected = self._script.items
        self._clock = _Clock(records[0]["ts"])
        log = _Log(place / "blobs")
        self._conversation = Conversation(
            State(place.name), log, self, epoch="", clock=self._clock, masker=Masker()
        )
        for record in self._script.head:
            self._copy(without_questions(record))
        self._n_before = len(self._user_messages())
        interrupt = self._conversation.interrupt
        model = ReplayModel("replay", [recording], self._before_answer, interrupt)
        self._tools: tuple[object, dict[str, Tool]] = None, {}
        journal = self._conversation.journal
        hooks = HookPoints(journal, NO_HOOKS)
        self._agent = AgentLoop(
            self._conversation,
            Runtime(
                model_for=lambda _name: model,
                toolbox=self,
                features=(_RecordedLimits(lambda: self._turn),),
                approval=Consent(self._conversation, NO_POLICY, hooks),
                hooks=hooks,
                questions=(),
                condenser=Condensation(journal, "pipeline", hooks.before_condensing),
                find_stuck=find_stuck,
                command_changes=None,
                watch_files=None,
                slots=Slots(),
                tool_choice="auto",
                titles=False,
                on_idle=lambda: None,
            ),
        )

    def run(self) -> ReplayReport:
        """Replay all turns, or those before the first difference."""
        self._agent.start()
        try:
            for turn in self._script.turns:
                self._turn = turn
                if turn.skip_reason:
                    self.report.left_out = turn.skip_reason
                    break
                self._copy_around(turn.first_seq)
                if turn.start_event["cause"] != "apply":
                    self._run_turn(turn)
                if self.report.difference or self.report.left_out:
                    break
        finally:
            self._agent.close()
        return self.report

    def _run_turn(self, turn: RecordedTurn) -> None:
        conversation = self._conversation
        with conversation.journal.condition:
            start_event = self._begin(turn)
            turn_future = turn_end(
                conversation.journal, start_event.get("messageId", ""), start_event["turnId"]
            )
        outcome = _wait(turn_future)
        while outcome["status"] == "paused" and self._next_seq() < turn.last_seq:
            with conversation.journal.condition:
                self._take_wishes(self._next_seq(), is_paused=True)
                if conversation.state.status == "paused":
                    conversation.resume()
                turn_future = turn_end(conversation.journal, "", start_event["turnId"])
            outcome = _wait(turn_future)
        if turn.outcome is None:
            self.report.left_out = self.report.left_out or "the log ends within a turn"
        elif not (self.report.difference or self.report.left_out):
            self._check_end(turn.outcome, outcome)

    def _begin(self, turn: RecordedTurn) -> Json:
        conversation = self._conversation
        if turn.message is not None:
            message = queued_message(turn.message, turn.start_event.get("options"))
            return conversation.delivery.take(message, "started", lambda _result: None)
        if turn.request is not None:
            return conversation.condense(turn.request.get("instructions"))
        return conversation.resume()

    # On the conversation's worker

    def _before_answer(self, call: RecordedCall, request: ModelRequest) -> None:
        self._clock.time = call.ts
        self.report.n_steps += 1
        self._check_items()
        self._check_request(call, request)
        if self.report.difference is not None:
            raise ModelError("the replay differs")
        if not call.is_interrupted:
            self._take_wishes(self._next_seq())

    def _next_seq(self) -> int:
        """Return where in the log the next answer ends, or the turn if there is none in it."""
        n = self.report.n_steps
        next_seq = self._steps[n].seq if n < len(self._steps) else self._turn.last_seq
        return min(next_seq, self._turn.last_seq)

    def _copy_around(self, before_seq: int) -> None:
        around = self._script.around
        while around and around[0]["seq"] < before_seq:
            self._copy(around.popleft())

    def _take_wishes(self, before_seq: int, *, is_paused: bool = False) -> None:
        """Let the user say what was said before this point of the log."""
        conversation, wishes = self._conversation, self._script.wishes
        while wishes and wishes[0]["seq"] < before_seq:
            event = wishes.popleft()["event"]
            if event["type"] == "condensation.requested":
                wish = CondensationRequested(instructions=event.get("instructions"))
                conversation.journal.append(wish)
            elif event["type"] == "item.completed" and event["item"]["kind"] == "userMessage":
                message = queued_message(event["item"])
                if is_paused:
                    conversation.delivery.take(message, "steered", lambda _result: None)
                else:
                    conversation.journal.append(MessageQueued(message=message))

    def _copy(self, record: plain.Record | Json) -> None:
        journal = self._conversation.journal
        with journal.condition:
            line = orjson.dumps({**record, "seq": journal.state.seq + 1})
            journal.log.append(line + b"\n")
            journal.take_in([line])

    def _user_messages(self) -> list[plain.Item]:
        items = self._conversation.state.items
        return [item for item in items if item["kind"] == "userMessage"]

    def _next_message(self) -> Mapping[str, dict[str, str]]:
        """Return the message of the log that becomes an item next."""
        messages = self._script.messages[len(self._user_messages()) - self._n_before :]
        facts: Json = dict(messages[0]) if messages else {}
        return facts

    def seen_in_editor(self) -> dict[str, str]:
        return self._next_message().get("editor", {})

    def environment(self, _options: Mapping[str, str]) -> dict[str, str]:
        return self._next_message().get("environment", {})

    def written_out(self, content: Sequence[Part]) -> tuple[Part, ...]:
        return tuple(content)

    def refresh(self, _cancel: CancelToken) -> None:
        self._copy_around(self._next_seq())

    @property
    def tools(self) -> Mapping[str, Tool]:
        infos = self._conversation.state.agent["tools"]
        if infos is not self._tools[0]:
            self._tools = infos, {info["name"]: self._tool(info) for info in infos}
        return self._tools[1]

    def _tool(self, info: Json) -> Tool:
        is_read_only = bool(info.get("annotations", {}).get("readOnlyHint"))
        name, schema = info["name"], info["inputSchema"]
        access = info.get("_meta", {}).get("access", "direct")
        spec = ToolSpec(name, info["description"], schema, read_only=is_read_only, access=access)
        return _LoggedTool(spec, self._observe)

    def _observe(self, context: ToolContext) -> ToolResult:
        """Log for a call the observation that it had."""
        conversation, turn = self._conversation, self._turn
        item = conversation.state.item(context.item_id)
        call_id = item["call"]["id"] if is_tool_item(item) else ""
        seq, logged_item = self._script.observations.get(call_id, (0, None))
        if logged_item is None or seq > turn.last_seq:
            self.report.left_out = "an action had no result when its turn ended"
        reason = logged_item.get("reason") if logged_item else "interrupted"
        is_cut = reason in CUT and turn.outcome and turn.outcome["status"] == "interrupted"
        if logged_item is None or is_cut or self.report.left_out:
            conversation.interrupt()
            raise Cancelled
        if reason == "skipped":
            return ToolResult.of("it would have run")
        self._copy_observation(item, logged_item)
        return self._result(logged_item)

    def _copy_observation(self, item: plain.Item, logged_item: plain.ToolItem) -> None:
        own = {"id", "startedAt", "call"}
        if logged_item["id"] not in self._script.edited_ids:
            own |= {"args", "summary", "selfRating"}
        update: Json = {key: value for key, value in logged_item.items() if key not in own}
        update |= {key: value for key, value in item.items() if key in own}
        event: Json = {"type": "item.completed", "item": update}
        state = self._conversation.state
        of: Json = {"turnId": state.turn_id, "itemId": item["id"], "ts": self._clock.now()}
        self._copy({"v": LOG_VERSION, "seq": 0, **of, "event": event})

    def _result(self, logged_item: plain.ToolItem) -> ToolResult:
        """Return the result, which ends the turn if it did so in the log."""
        outcome = self._turn.outcome
        reason = outcome.get("stopReason") if outcome else None
        is_last = self._next_seq() == self._turn.last_seq
        ends = is_last and _ENDS.get(reason or "") in {logged_item["tool"], ""}
        return ToolResult(
            tuple(logged_item["content"]),
            is_error=logged_item["status"] != "completed",
            ends_turn=reason if ends else None,
            value=outcome.get("result") if outcome else None,
        )

    # Comparing

    def _check_items(self) -> None:
        items = [item for item in self._conversation.state.items if is_compared(item)]
        for item in items[self._n_checked_items :]:
            if item["status"] not in ENDED or self.report.difference:
                return
            recorded_items = self._expected[self._n_checked_items : self._n_checked_items + 1]
            if recorded_items:
                self._ids[item["id"]] = recorded_items[0]["id"]
            before = [comparable(each, {}) for each in recorded_items]
            self._compare(name_of(item), before, [comparable(item, self._ids)])
            self._n_checked_items += 1

    def _check_request(self, call: RecordedCall, request: ModelRequest) -> None:
        if call.request is not None and self.report.difference is None:
            self.report.n_requests += 1
            is_strict = self._comparison.is_strict
            self._note(requests_differ(call.request, request, is_strict=is_strict))

    def _check_end(self, recorded_turn: plain.Turn, replayed_turn: plain.Turn) -> None:
        self._check_items()
        missing_items = self._expected[self._n_checked_items : self._turn.n_items]
        if missing_items and not self.report.difference:
            self._compare(
                name_of(missing_items[0]), [comparable(each, {}) for each in missing_items], []
            )
        self._compare(
            "the end of the turn", comparable_turn(recorded_turn), comparable_turn(replayed_turn)
        )

    def _compare(self, what: str, recorded_value: object, replayed_value: object) -> None:
        self._note(self._comparison.difference(what, recorded_value, replayed_value))

    def _note(self, difference: ReplayDifference | None) -> None:
        self.report.difference = self.report.difference or difference


def _wait(turn_future: Future[plain.Turn]) -> plain.Turn:
    try:
        return turn_future.result(_PATIENCE_S)
    except TimeoutError:
        raise InvalidStateError(
            "the agent waits for something that the log does not have"
        ) from None
