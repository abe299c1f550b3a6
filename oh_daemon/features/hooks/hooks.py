"""Runs hooks on each message, around each call, before a condensation and at the end of a turn.

They are told, and answer, in Claude's format; a port runs them. What a hook adds or refuses becomes
a notice or a decision in the log. Invariant: a project's hook may deny, ask and rewrite, but never
allow. All methods but `after_tool` are called only on the thread of the conversation's worker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.plain_text import well_formed_data
from oh_daemon.features.skills.prompts import typed_words
from oh_daemon.kernel.approval_requests import Ruling
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.ports import Json, Tool, ToolResult
from oh_daemon.kernel.tool_calls import plan, schema_problem
from oh_daemon.kernel.turns import TurnOutcome
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.items import NoticeItem
from oh_daemon.protocol.rules_and_hooks import HookCommand, HookEvent, HookTable

Decision = Literal["", "allow", "ask", "deny"]
_STRICTNESS: tuple[Decision, ...] = ("", "allow", "ask", "deny")
_BLOCKED = 2
_GUARDS = {"PreToolUse", "UserPromptSubmit"}
"""Events whose hooks can deny what is about to happen."""
HOOKED = "A hook wants the agent to go on"
"""The title of the notice when that is so."""
_ENDS_BY_ITSELF = {"endTurn", "finished"}
_CLAUDE_TOOLS = {
    "terminal": ("Bash",),
    "edit": ("Edit", "Write", "MultiEdit", "Read"),
    "grep": ("Grep",),
    "glob": ("Glob",),
    "list": ("LS",),
    "todo": ("TodoWrite",),
    "delegate": ("Task",),
}
_EDIT_COMMANDS = {"view": "Read", "create": "Write"}
_CLAUDE_FIELDS = {
    "path": "file_path",
    "old_text": "old_string",
    "new_text": "new_string",
    "text": "content",
}
_CLAUDE_MODES = {"plan": "plan", "autoEdit": "acceptEdits", "full": "bypassPermissions"}


class HookRun(Struct, frozen=True):
    """How one hook ended; `exit_code` is None if it took too long or could not be started."""

    command: str
    exit_code: int | None
    stdout: str
    stderr: str


class HookOutcome(Struct, frozen=True):
    """The combined answer of an event's hooks: the strictest decision, and all that they add."""

    decision: Decision = ""
    reason: str = ""
    updated_input: Json | None = None
    context: str = ""
    """For the model."""
    stop: str | None = None
    """Why the turn must end, when a hook says so."""
    warnings: tuple[str, ...] = ()
    """For the user."""

    def join(self, other_outcome: HookOutcome) -> HookOutcome:
        is_stricter = _STRICTNESS.index(other_outcome.decision) > _STRICTNESS.index(self.decision)
        stricter = other_outcome if is_stricter else self
        return HookOutcome(
            stricter.decision,
            stricter.reason,
            other_outcome.updated_input if self.updated_input is None else self.updated_input,
            "\n".join(filter(None, (self.context, other_outcome.context))),
            other_outcome.stop if self.stop is None else self.stop,
            (*self.warnings, *other_outcome.warnings),
        )


Hook = tuple[HookCommand, Literal["user", "project"]]
RunHooks = Callable[[Sequence[Hook], str, CancelToken], Sequence[HookRun]]
"""Runs hooks in parallel, each with the text on its stdin. Raises `Cancelled`."""


class HookRunner(Struct, frozen=True):
    """The hooks of one journal, how they are run, and what each of them is told."""

    table: Callable[[], HookTable]
    run: RunHooks
    may_run: Callable[[str], bool | None]
    """What the user decided about a project's hook as it is now, None if nothing yet."""
    transcript: str
    cwd: str


NO_HOOKS = HookRunner(dict, lambda _hooks, _text, _cancel: (), lambda _command: None, "", "")


class HookPoints:
    """The hook points of one conversation."""

    def __init__(self, journal: Journal, hooks: HookRunner) -> None:
        self._journal = journal
        self._hooks = hooks
        self._n_read = 0
        self._last_id: str | None = None
        """The place and id of the item up to which messages were looked for."""
        self._message_ids = {message["id"] for message in self._new_messages()}
        """Ids of messages that were shown; a count would not do, as a rollback removes some."""
        self._has_begun = False
        self._continued_turn = ""
        """The turn that a hook last kept from ending."""
        self._commands_by_action: dict[str, set[str]] = {}
        """Hooks that have seen an action, by its id: planned again, it is still the same action."""
        self.rulings: dict[str, Ruling] = {}
        """What hooks decided about actions, by the actions' ids."""

    def take_messages(self, cancel: CancelToken) -> TurnOutcome | None:
        """Show new messages to hooks; a refused message ends the turn and never reaches a model."""
        new = [
            message for message in self._new_messages() if message["id"] not in self._message_ids
        ]
        if not self._has_begun:
            self._has_begun = True
            source = "resume" if self._message_ids else "startup"
            self._fire("SessionStart", {"source": source}, cancel, source)
        self._message_ids.update(item["id"] for item in new)
        for item in new:
            outcome = self._fire("UserPromptSubmit", {"prompt": _text_of(item)}, cancel)
            why = outcome.reason if outcome.decision == "deny" else outcome.stop
            if why is not None:
                self._journal.append(e.MessageRefused(reason=why), item_id=item["id"])
                self._notify(f"A hook refused the message: {why}")
                return TurnOutcome("hook", final_text=why)
        return None

    def _new_messages(self) -> list[plain.UserMessageItem]:
        """Return the messages since the last call; after a rollback, all that are left."""
        items, start = self._journal.state.items, self._n_read
        if start > len(items) or (start and items[start - 1]["id"] != self._last_id):
            start = 0
        self._n_read = len(items)
        self._last_id = items[-1]["id"] if items else None
        return [item for item in items[start:] if item["kind"] == "userMessage"]

    def lets_rest(self, rest: TurnOutcome, cancel: CancelToken) -> bool:
        """Return False when a hook wants the agent to go on."""
        state = self._journal.state
        turn_id = state.open_turn.id
        if rest.stop_reason not in _ENDS_BY_ITSELF or state.open_turn.only_applies:
            return True
        fields: Json = {"stop_hook_active": self._continued_turn == turn_id}
        if state.parent_id is None:
            outcome = self._fire("Stop", fields, cancel)
        else:
            agent = str(state.metadata.get("agent", ""))
            fields |= {"agent_id": state.conversation_id, "agent_type": agent}
            outcome = self._fire("SubagentStop", fields, cancel, agent)
        if outcome.decision != "deny" or outcome.stop is not None:
            return True
        self._continued_turn = turn_id
        self._notify(HOOKED, note=outcome.reason)
        return False

    def before_condensing(self, cancel: CancelToken) -> bool:
        """Return False when a hook wants the older steps kept as they are."""
        request = self._journal.state.condense_requested
        trigger = "auto" if request is None else "manual"
        instructions = (request or {}).get("instructions") or ""
        fields = {"trigger": trigger, "custom_instructions": instructions}
        outcome = self._fire("PreCompact", fields, cancel, trigger)
        if outcome.decision != "deny" and outcome.stop is None:
            return True
        self._notify(f"A hook kept older steps: {outcome.stop or outcome.reason}")
        return False

    def before_tool(self, item: plain.ToolItem, tool: Tool, cancel: CancelToken) -> HookOutcome:
        """Return what hooks say about an action, each asked once; log arguments they rewrite."""
        names = tool_names(tool.spec.name, item["args"])
        past_commands = self._commands_by_action.setdefault(item["id"], set())
        fields = {"tool_name": names[0], "tool_input": tool_input(item["args"])}
        outcome = self._fire("PreToolUse", fields, cancel, *names, past_commands=past_commands)
        if outcome.stop is not None:
            return replace(outcome, decision="deny", reason=outcome.stop)
        if outcome.decision in {"ask", "allow"}:
            effect = "ask" if outcome.decision == "ask" else "allow"
            rule = f"hook: {outcome.reason or outcome.decision}"
            self.rulings[item["id"]] = Ruling(effect, rule, covers_high=True)
        if outcome.updated_input is not None and outcome.decision != "deny":
            return self._rewrite(item, tool, outcome, outcome.updated_input)
        return outcome

    def _rewrite(
        self, item: plain.ToolItem, tool: Tool, outcome: HookOutcome, new_args: Json
    ) -> HookOutcome:
        args = rewrite_args(item["args"], new_args, list(tool.spec.input_schema["properties"]))
        problem = schema_problem(tool.spec, args)
        try:
            intent = None if problem else plan(tool, args)
        except ToolError as exc:
            intent, problem = None, str(exc)
        if intent is None:
            wrong = f"a hook rewrote the call, and it cannot run: {problem}"
            return replace(outcome, decision="deny", reason=wrong)
        update = e.ItemUpdated(
            status="pending",
            args=args,
            title=intent.title,
            command=intent.item_fields.get("command"),
            risk=intent.risk,
            summary="rewritten by a hook",
        )
        self._journal.append_to(item["id"], update)
        return outcome

    def after_tool(
        self, item: plain.ToolItem, result: ToolResult, cancel: CancelToken
    ) -> tuple[ToolResult, str | None]:
        """Return the result with what hooks add to it, and why the turn must end, if it must."""
        names = tool_names(item["tool"], item["args"])
        text = "\n".join(part.get("text", "") for part in result.content)
        fields = {
            "tool_name": names[0],
            "tool_input": tool_input(item["args"]),
            "tool_response": {"output": text},
        }
        outcome = self._fire("PostToolUse", fields, cancel, *names, notes=False)
        reasons = [outcome.reason] if outcome.decision == "deny" else []
        context = "\n".join(filter(None, [*reasons, outcome.context]))
        if context:
            part = {"type": "text", "text": f"[a hook says]\n{context}"}
            result = replace(result, content=(*result.content, part))
        return result, outcome.stop

    def _fire(
        self,
        event: HookEvent,
        fields: Mapping[str, object],
        cancel: CancelToken,
        *names: str,
        past_commands: set[str] | None = None,
        notes: bool = True,
    ) -> HookOutcome:
        """Run the hooks of an event that are not of `past_commands`, and log what they add."""
        past_commands = set() if past_commands is None else past_commands
        matches = matching(self._hooks.table(), event, *names)
        new = [hook for hook in matches if hook[0].command not in past_commands]
        hooks_and_consent = [
            (hook, hook[1] == "user" or self._hooks.may_run(hook[0].command)) for hook in new
        ]
        undecided_command = next(
            (hook.command for (hook, _), may_run in hooks_and_consent if may_run is None), None
        )
        if undecided_command is not None and event in _GUARDS:
            return HookOutcome(
                "deny", f"{undecided_command!r} is new or changed, and nobody said that it may run"
            )
        hooks = [hook for hook, may_run in hooks_and_consent if may_run]
        if not hooks:
            return HookOutcome()
        past_commands.update(hook.command for hook, _ in hooks)
        state = self._journal.state
        payload = {
            "session_id": state.conversation_id,
            "transcript_path": self._hooks.transcript,
            "cwd": self._hooks.cwd,
            "permission_mode": _CLAUDE_MODES.get(state.options.get("mode", ""), "default"),
            "hook_event_name": event,
            **fields,
        }
        text = json.dumps(payload, ensure_ascii=False)
        runs = self._hooks.run(hooks, text, cancel)
        outcome = combine_runs(event, hooks, runs)
        for warning in outcome.warnings:
            self._notify(warning)
        if outcome.context and notes:
            self._notify(f"A {event} hook added context", note=outcome.context)
        return outcome

    def _notify(self, title: str, note: str | None = None) -> None:
        severity = "info" if note else "warning"
        notice = NoticeItem(id=new_id(), severity=severity, title=title, note=note)
        self._journal.append(e.ItemCompleted(item=notice))


def _text_of(item: plain.UserMessageItem) -> str:
    return "\n".join(filter(None, map(typed_words, item["content"])))


def matching(table: HookTable, event: HookEvent, *names: str) -> list[Hook]:
    """Return the hooks whose matcher fits a name; without names, matchers do not count."""
    return [
        (hook, group.scope)
        for group in table.get(event, ())
        if not (group.matcher and names) or any(re.fullmatch(group.matcher, name) for name in names)
        for hook in group.hooks
    ]


def combine_runs(event: HookEvent, hooks: Sequence[Hook], runs: Sequence[HookRun]) -> HookOutcome:
    """Return what hooks say together, given how each of them ended."""
    outcome = HookOutcome()
    for (_, scope), run in zip(hooks, runs, strict=True):
        outcomes = read_outcome(event, run)
        if scope == "project" and outcomes.decision == "allow":
            outcomes = replace(outcomes, decision="", reason="")
        outcome = outcome.join(outcomes)
    return outcome


def read_outcome(event: HookEvent, run: HookRun) -> HookOutcome:
    """Return what the exit code and the output of one hook mean."""
    if run.exit_code == _BLOCKED:
        return HookOutcome("deny", run.stderr.strip() or f"the hook {run.command!r} says no")
    if run.exit_code != 0:
        why = "took too long" if run.exit_code is None else f"ended with {run.exit_code}"
        first_lines = run.stderr.strip().splitlines()[:1]
        warning = ": ".join([f"The {event} hook {run.command!r} {why}", *first_lines])
        return HookOutcome(warnings=(warning,))
    text = run.stdout.strip()
    if not text.startswith("{"):
        is_context = event in {"SessionStart", "UserPromptSubmit"}
        return HookOutcome(context=text if is_context else "")
    try:
        return _read_answer(well_formed_data(json.loads(text)))
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        return HookOutcome(
            warnings=(f"The {event} hook {run.command!r} gave no valid JSON: {exc}",)
        )


def _read_answer(answer: Json) -> HookOutcome:
    specific = cast("Json", answer.get("hookSpecificOutput") or {})
    old = {"block": "deny", "approve": "allow"}.get(answer.get("decision", ""), "")
    decision = specific.get("permissionDecision") or old
    new_input = cast("Json | None", specific.get("updatedInput"))
    message = answer.get("systemMessage")
    goes_on = answer.get("continue", True)
    return HookOutcome(
        decision if decision in _STRICTNESS else "",
        str(specific.get("permissionDecisionReason") or answer.get("reason") or ""),
        new_input if isinstance(new_input, dict) else None,
        str(specific.get("additionalContext") or ""),
        None if goes_on else str(answer.get("stopReason") or "a hook stopped the turn"),
        (str(message),) if message else (),
    )


def tool_names(tool: str, args: Json) -> tuple[str, ...]:
    """Return the names by which matchers know a call, the one that hooks are told first."""
    if tool == "apply_patch":
        # It lacks the fields of an edit, so hooks are not told that it is one.
        return (tool, "Edit", "Write", "MultiEdit", "edit")
    if tool == "edit":
        return (_EDIT_COMMANDS.get(args.get("command", ""), "Edit"), tool)
    server, mark, tool_part = tool.partition("__")
    names = _CLAUDE_TOOLS.get(tool, (f"mcp__{server}__{tool_part}",) if mark else ())
    return (*names, tool)


def tool_input(args: Json) -> Json:
    """Return the arguments, also under the names that Claude gives them."""
    return {**args, **{_CLAUDE_FIELDS[key]: args[key] for key in _CLAUDE_FIELDS if key in args}}


def rewrite_args(args: Json, new_input: Json, known_fields: Sequence[str]) -> Json:
    """Return our arguments after a hook replaced them, under either of their names."""
    shown_input = tool_input(args)
    result: dict[str, Any] = {key: new_input[key] for key in known_fields if key in new_input}
    for own_name, claude_name in _CLAUDE_FIELDS.items():
        if own_name not in known_fields or claude_name not in new_input:
            continue
        # A hook that gives both names has changed the one that differs from what it was told.
        if own_name not in new_input or new_input[claude_name] != shown_input.get(claude_name):
            result[own_name] = new_input[claude_name]
    return result
