"""Runs the actions of one model answer: plan, settle consent, run, observe.

It depends on the state alone, so it continues after a pause, a restart or an answered approval as
if nothing had happened. An action is durable before its tool starts (a crash then leaves an unknown
outcome, never a second run). It is planned again before it runs, so what runs is what was shown.
"""

from __future__ import annotations

import logging
import threading
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.kernel.approval_requests import never_asks
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.dependent_calls import skip_reason
from oh_daemon.kernel.extension_points import Rejection
from oh_daemon.kernel.journal import TextStream, new_id
from oh_daemon.kernel.pending_changes import (
    OBSERVED,
    decided_at_start,
    is_own,
    own_item,
    unapplied_text,
)
from oh_daemon.kernel.ports import Footprint, Intent, Json, Tool, ToolContext, ToolResult, for_model
from oh_daemon.kernel.recovery import withdrawal_events
from oh_daemon.kernel.runtime import Runtime
from oh_daemon.kernel.state import merge_changes
from oh_daemon.kernel.tool_calls import plan, presentable, with_blobs, with_instructions
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.base import Contract
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.forms import ItemFields, ToolFields, item_with
from oh_daemon.protocol.items import CommandItem, FileChange, FileChangeItem

logger = logging.getLogger(__name__)

MAX_PARALLEL = 4
_SKIPPED = "Skipped: an earlier call of the same answer ended the turn."


class _Ready(Struct, frozen=True):
    """An action that may start now."""

    item: plain.ToolItem
    """The state's own, so that it has what the user edited."""
    tool: Tool
    intent: Intent


class _Batch(Struct):
    """What this run knows beyond the state: the actions on threads, and how the turn ends."""

    running_footprints: dict[str, Footprint] = field(default_factory=dict[str, Footprint])
    n_ended: int = 0
    ending: ToolResult | None = None
    failure: BaseException | None = None


class Actions:
    """One per conversation; `run_open` is called by its worker only."""

    def __init__(self, conversation: Conversation, runtime: Runtime) -> None:
        self._conversation = conversation
        self._journal = conversation.journal
        self._runtime = runtime
        self._policy_version: object = None
        """Those under which the open actions were settled last."""

    def run_open(self, cancel: CancelToken) -> ToolResult | None:
        """Bring every open action to its observation, and ask about what is new in the project.

        Returns the result that ends the turn, if one did. Returns early when the turn is paused
        while it waits for an approval. Raises `Cancelled` when interrupted.
        """
        batch = _Batch()
        with cancel.notifying(self._journal.condition):
            while self._has_work(batch, cancel):
                mark = self._mark(batch)
                ready = self._settle(batch)
                if len(ready) == 1 and not batch.running_footprints:
                    self._run_one(batch, ready[0], cancel)
                    continue
                for action in ready[: MAX_PARALLEL - len(batch.running_footprints)]:
                    self._start_thread(batch, action, cancel)
                self._wait(batch, mark, cancel)
        return batch.ending

    def _has_work(self, batch: _Batch, cancel: CancelToken) -> bool:
        if batch.running_footprints:
            return True
        if batch.failure is not None:
            raise batch.failure
        cancel.raise_if_cancelled()
        if self._conversation.turns.is_paused:
            return False
        with self._journal.condition:
            has_actions = bool(self._journal.state.open_tool_items())
        if has_actions or batch.ending is not None:
            return has_actions
        return self._is_held() or self.begin_apply(ends_turn=False)

    def _is_held(self) -> bool:
        """Return whether the user must answer a question before any action runs."""
        return any(questions.hold() for questions in self._runtime.questions)

    def _mark(self, batch: _Batch) -> object:
        """Return a mark that changes with each answer, each action that ends, and the terms."""
        with self._journal.condition:
            n_answers = len(self._journal.state.resolutions)
            return n_answers, batch.n_ended, self._conversation.policy_version

    def _wait(self, batch: _Batch, mark: object, cancel: CancelToken) -> None:
        """Wait until the mark is no longer `mark`, taken before the actions were settled."""
        journal, turns = self._journal, self._conversation.turns
        state, condition = journal.state, journal.condition
        with condition:
            if batch.running_footprints:
                condition.wait_for(lambda: self._mark(batch) != mark)
                return
            if cancel.is_cancelled or self._mark(batch) != mark or not state.awaited_requests:
                return
            if state.pause_requested:
                turns.pause("user")
                return
            if state.status != "waiting":  # A turn that was resumed is so already.
                journal.append(turns.status_event("waiting"))
            condition.wait_for(
                lambda: cancel.is_cancelled or self._mark(batch) != mark or turns.is_paused
            )
            if state.status == "waiting":
                journal.append(turns.status_event("running"))

    def _settle(self, batch: _Batch) -> list[_Ready]:
        """Plan the open actions in order; ask, reject, or return those that may start."""
        ready: list[_Ready] = []
        # A hook that guards an action counts, so what has changed in it is decided first.
        if self._is_held():
            return ready
        policy_version = self._conversation.policy_version
        again, self._policy_version = policy_version != self._policy_version, policy_version
        with self._journal.condition:
            open_items = self._journal.state.open_tool_items()
            earlier = list(batch.running_footprints.values())
            # A snapshot: an action that ends after this is not planned again.
            pending_items = [
                item for item in open_items if item["id"] not in batch.running_footprints
            ]
        for item in pending_items:
            why = _SKIPPED if batch.ending is not None else self._skip_reason(item)
            if why is not None:
                self._finish(item, ToolResult.of(why), status="cancelled", reason="skipped")
                continue
            tool = self._tool_for(item)
            if tool is None:
                message = f"The tool {item['tool']!r} is no longer offered."
                self._finish(item, ToolResult.of(message, is_error=True))
                continue
            try:
                intent = plan(tool, item["args"])
            except ToolError as exc:
                if earlier:
                    break  # It may need what an earlier action is about to create.
                self._finish(item, result_of(exc, self._journal.masker))
                continue
            if not any(
                intent.footprint.conflicts_with(earlier_footprint) for earlier_footprint in earlier
            ):
                ready.extend(self._settle_consent(item, tool, intent, again=again))
            earlier.append(intent.footprint)
        return ready

    def _skip_reason(self, item: plain.ToolItem) -> str | None:
        with self._journal.condition:
            return skip_reason(item, self._journal.state.items)

    def _tool_for(self, item: plain.ToolItem) -> Tool | None:
        """Return what does the next part of an action: its tool, or what lands its changes."""
        state, command_changes = self._journal.state, self._runtime.command_changes
        planned_changes = state.planned_changes.get(item["id"])
        if planned_changes is None or command_changes is None:
            return self._runtime.toolbox.tools.get(item["tool"])
        return command_changes.tool(planned_changes, asks=not never_asks(state.options_now))

    def _settle_consent(
        self, item: plain.ToolItem, tool: Tool, intent: Intent, *, again: bool
    ) -> list[_Ready]:
        try:
            answer = self._runtime.approval.settle(item, tool, intent, again=again)
        except ToolError as exc:
            self._finish(item, result_of(exc, self._journal.masker))
            return []
        if isinstance(answer, Rejection):
            self._reject(item, answer)
            return []
        if answer is None:
            return []
        return [_Ready(item, tool, answer)]

    def _reject(self, item: plain.ToolItem, answer: Rejection) -> None:
        planned_changes = self._journal.state.planned_changes.get(item["id"])
        if planned_changes is None:
            rejection_result = ToolResult.of(answer.text, is_error=True)
            if answer.is_for_model:
                rejection_result = replace(rejection_result, content=(for_model(answer.text),))
            self._finish(item, rejection_result, status="rejected")
            return
        result, status = unapplied_text(planned_changes, answer.text), "completed"
        if is_own(item):
            status = "rejected"
        self._finish(item, result, status=status, fields=result.item_fields)

    def _start_thread(self, batch: _Batch, action: _Ready, cancel: CancelToken) -> None:
        batch.running_footprints[action.item["id"]] = action.intent.footprint

        def run() -> None:
            try:
                self._run_one(batch, action, cancel)
            except BaseException as exc:  # noqa: BLE001 - handed to the worker, which raises it.
                batch.failure = exc
            with self._journal.condition:
                del batch.running_footprints[action.item["id"]]
                batch.n_ended += 1
                self._journal.condition.notify_all()

        name = f"tool-{action.item['id'][:8]}"
        try:
            threading.Thread(target=run, name=name, daemon=True).start()
        except RuntimeError:
            run()  # The system has no more threads to give: one after the other will do.

    def _run_one(self, batch: _Batch, action: _Ready, cancel: CancelToken) -> None:
        journal, item_id = self._journal, action.item["id"]
        cancel.raise_if_cancelled()
        watch = self._runtime.watch_files if _may_touch_any_file(action.intent) else None
        look_again = watch and watch(cancel)
        if not self._begins(action):
            return
        start_s = journal.clock.monotonic()
        output = TextStream(journal, item_id, "output")
        masker, confinement = journal.masker, action.intent.confinement
        context = ToolContext(journal.id, item_id, cancel, output.write, masker, confinement)
        result = run_tool(action.tool, action.item["args"], context)
        output.close()
        elapsed_ms = int((journal.clock.monotonic() - start_s) * 1000)
        if action.intent.confinement and self._apply_changes(action, result, elapsed_ms, cancel):
            return
        result, ending = self._complete_item(action, result, cancel)
        if look_again and (checkpoint := look_again()) is not None:
            with journal.condition:
                files = self._files_of_turn(checkpoint.changes)
                journal.append(checkpoint, *files, item_id=item_id)
        self._observe(action, result, elapsed_ms, is_cancelled=cancel.is_cancelled)
        batch.ending = ending or batch.ending

    def _apply_changes(
        self, action: _Ready, result: ToolResult, elapsed_ms: int, cancel: CancelToken
    ) -> bool:
        """Log the changes of a command, for the next round; return whether there are any."""
        command_changes, journal = self._runtime.command_changes, self._journal
        if command_changes is None or journal.state.options_now["mode"] == "plan":
            return False
        if cancel.is_cancelled:
            command_changes.drop()
            return False
        content = with_blobs(result, journal.log.put_blob).content
        item_id = action.item["id"]

        def keep(plan_event: e.ChangesPlanned) -> bool:
            is_wanted = journal.append_to(item_id, plan_event)
            journal.log.sync()
            return is_wanted

        update: Json = {**result.item_fields, "durationMs": elapsed_ms, "content": [*content]}
        return command_changes.collect(update, keep)

    def begin_apply(self, *, ends_turn: bool) -> bool:
        """Begin to apply changes of no command (`CommandChanges`); return whether there are any."""
        command_changes, journal = self._runtime.command_changes, self._journal
        if command_changes is None or journal.state.options_now["mode"] == "plan":
            return False

        def keep(plan_event: e.ChangesPlanned) -> bool:
            item = own_item(new_id(), journal.clock.now())
            with journal.condition:
                self._conversation.turns.start_apply()
                journal.append(e.ItemStarted(item=item), plan_event, item_id=item.id)
            journal.log.sync()
            return True

        return command_changes.collect_rest(OBSERVED, keep, ends_turn=ends_turn)

    def _complete_item(
        self, action: _Ready, result: ToolResult, cancel: CancelToken
    ) -> tuple[ToolResult, ToolResult | None]:
        """Return the result with what hooks and the project add to it, and what ends the turn."""
        result = with_blobs(result, self._journal.log.put_blob)
        if result.is_error:
            return result, None
        stop = None
        if not (cancel.is_cancelled or is_own(action.item)):
            result, stop = self._runtime.hooks.after_tool(action.item, result, cancel)
        features, locations = self._runtime.features, action.intent.locations
        texts = [text for each in features for text in each.texts_for(locations, cancel)]
        result = with_instructions(result, texts)
        if result.ends_turn or stop is None:
            return result, result if result.ends_turn else None
        return result, ToolResult(({"type": "text", "text": stop},), ends_turn="hook")

    def _observe(
        self, action: _Ready, result: ToolResult, elapsed_ms: int, *, is_cancelled: bool
    ) -> None:
        fields: ToolFields = {"durationMs": elapsed_ms, **action.intent.item_fields}
        fields |= result.item_fields
        status, reason = ("failed" if result.is_error else "completed"), None
        # A change that was made counts as made, even if the rest of the action was cut off.
        if is_cancelled and not result.item_fields.get("changes"):
            status, reason = "cancelled", "interrupted"
            who = "The daemon closed" if self._journal.is_closing else "The user interrupted"
            words = {"type": "text", "text": f"[{who} this.]"}
            result = replace(result, content=(words, *result.content))
        self._finish(action.item, result, status=status, reason=reason, fields=fields)

    def _begins(self, action: _Ready) -> bool:
        """Log that the action runs; False if a message of the user took its place meanwhile."""
        events: list[Contract] = [e.ItemUpdated(status="running")]
        if action.item["id"] in self._journal.state.planned_changes:
            events.append(decided_at_start(action.intent))
        begins = self._journal.append_to(action.item["id"], *events)
        if begins and action.intent.footprint.writes:
            self._journal.log.sync()
        return begins

    def _finish(
        self,
        item: plain.ToolItem,
        result: ToolResult,
        *,
        status: Literal["completed", "failed", "rejected", "cancelled"] = "failed",
        reason: str | None = None,
        fields: ToolFields | None = None,
    ) -> None:
        """Append the observation, and with it the turn's changed files."""
        journal = self._journal
        outcome: ItemFields = {**(fields or {}), "status": status, "reason": reason}
        outcome |= {"endedAt": journal.clock.now(), "content": result.content}
        outcome["meta"] = dict(result.meta) or None
        observation = e.ItemCompleted(item=item_with(item, outcome))
        with journal.condition:
            if item["id"] not in journal.state.open_items:
                return
            # What an approval shows can no longer run, so nobody needs to answer it.
            events = withdrawal_events(journal.state, "changed", item["id"])
            completed_item = observation.item
            changes = (
                completed_item.changes
                if isinstance(completed_item, FileChangeItem | CommandItem)
                else None
            )
            files = self._files_of_turn(changes if status == "completed" else None)
            journal.append(*events, observation, *files)

    def _files_of_turn(self, changes: tuple[FileChange, ...] | None) -> list[e.ChangesUpdated]:
        """Return the event that adds these changes to the turn's; none if nothing has changed."""
        before = self._journal.state.changes
        return [e.ChangesUpdated(files=merge_changes(before, changes))] if changes else []


def _may_touch_any_file(intent: Intent) -> bool:
    """Return whether to watch the folders; a change of known files keeps their texts itself."""
    writes_anywhere = intent.footprint.writes and intent.footprint.paths is None
    return writes_anywhere and intent.confinement is None


def run_tool(tool: Tool, args: Json, context: ToolContext) -> ToolResult:
    """Run the tool; whatever goes wrong in it becomes an observation, and the loop goes on."""
    name = tool.spec.name
    try:
        return presentable(tool.run(args, context), context.masker)
    except Cancelled:
        return ToolResult.of("It was cut off and may have had effects.", is_error=True)
    except ToolError as exc:
        return result_of(exc, context.masker)
    except BaseException as exc:  # A tool that calls `sys.exit` ends itself only.
        logger.exception("tool %s broke in conversation %s", name, context.conversation_id)
        text = f"{name} broke: {exc!r}. Its effects are unknown; try another way."
        return presentable(ToolResult.of(text, is_error=True), context.masker)


def result_of(error: ToolError, masker: Masker) -> ToolResult:
    """Return the failure as the model reads it; a text shown in it counts as seen from now on."""
    if error.on_shown is not None:
        error.on_shown()
    return presentable(ToolResult.of(str(error), is_error=True), masker)
