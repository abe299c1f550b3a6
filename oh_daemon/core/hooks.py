"""What hooks are told and what their answers mean, in Claude's format.

A port runs them. Invariant: a project's hook may deny, ask and rewrite, but never allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from oh_daemon.contract.hooks import HookCommand, HookEvent, HookTable
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.plain_text import well_formed_data
from oh_daemon.core.ports import Json
from oh_daemon.core.state import State

Decision = Literal["", "allow", "ask", "deny"]
_STRICTNESS: tuple[Decision, ...] = ("", "allow", "ask", "deny")
_BLOCKED = 2
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


@dataclass(frozen=True, slots=True)
class HookRun:
    """How one hook ended; `exit_code` is None if it took too long or could not be started."""

    command: str
    exit_code: int | None
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Outcome:
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

    def joined(self, other: Outcome) -> Outcome:
        is_stricter = _STRICTNESS.index(other.decision) > _STRICTNESS.index(self.decision)
        decided = other if is_stricter else self
        return Outcome(
            decided.decision,
            decided.reason,
            other.updated_input if self.updated_input is None else self.updated_input,
            "\n".join(filter(None, (self.context, other.context))),
            other.stop if self.stop is None else self.stop,
            (*self.warnings, *other.warnings),
        )


NOTHING = Outcome()
Hook = tuple[HookCommand, Literal["user", "project"]]
RunHooks = Callable[[Sequence[HookCommand], str, CancelToken], Sequence[HookRun]]
"""Runs commands in parallel, each with the text on its stdin. Raises `Cancelled`."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one conversation, and how they are run."""

    table: Callable[[], HookTable] = dict
    run: RunHooks = lambda _commands, _text, _cancel: ()
    transcript: str = ""
    cwd: str = ""

    def matching(self, event: HookEvent, *names: str) -> tuple[Hook, ...]:
        """Return the hooks whose matcher fits a name; without names, matchers do not count."""
        groups = self.table().get(event, ())
        fitting = (
            group
            for group in groups
            if not (group.matcher and names)
            or any(re.fullmatch(group.matcher, name) for name in names)
        )
        return tuple((hook, group.scope) for group in fitting for hook in group.hooks)

    def fire(
        self,
        hooks: Sequence[Hook],
        event: HookEvent,
        state: State,
        fields: Mapping[str, object],
        cancel: CancelToken,
    ) -> Outcome:
        """Run the hooks and return their combined outcome."""
        if not hooks:
            return NOTHING
        told = {
            "session_id": state.conversation_id,
            "transcript_path": self.transcript,
            "cwd": self.cwd,
            "permission_mode": _CLAUDE_MODES.get(state.options.get("mode", ""), "default"),
            "hook_event_name": event,
            **fields,
        }
        text = json.dumps(told, ensure_ascii=False)
        outcome = NOTHING
        ran = self.run([hook for hook, _ in hooks], text, cancel)
        for (_, scope), run in zip(hooks, ran, strict=True):
            found = read_outcome(event, run)
            if scope == "project" and found.decision == "allow":
                found = replace(found, decision="", reason="")
            outcome = outcome.joined(found)
        return outcome


def read_outcome(event: HookEvent, run: HookRun) -> Outcome:
    """Return what the exit code and the output of one hook mean."""
    if run.exit_code == _BLOCKED:
        return Outcome("deny", run.stderr.strip() or f"the hook {run.command!r} says no")
    if run.exit_code != 0:
        why = "took too long" if run.exit_code is None else f"ended with {run.exit_code}"
        said = run.stderr.strip().splitlines()[:1]
        warning = ": ".join([f"The {event} hook {run.command!r} {why}", *said])
        return Outcome(warnings=(warning,))
    text = run.stdout.strip()
    if not text.startswith("{"):
        is_context = event in {"SessionStart", "UserPromptSubmit"}
        return Outcome(context=text if is_context else "")
    try:
        return _read_answer(well_formed_data(json.loads(text)))
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        return Outcome(warnings=(f"The {event} hook {run.command!r} gave no valid JSON: {exc}",))


def _read_answer(answer: Json) -> Outcome:
    specific = cast("Json", answer.get("hookSpecificOutput") or {})
    old = {"block": "deny", "approve": "allow"}.get(answer.get("decision", ""), "")
    decision = specific.get("permissionDecision") or old
    updated = cast("Json | None", specific.get("updatedInput"))
    message = answer.get("systemMessage")
    goes_on = answer.get("continue", True)
    return Outcome(
        decision if decision in _STRICTNESS else "",
        str(specific.get("permissionDecisionReason") or answer.get("reason") or ""),
        updated if isinstance(updated, dict) else None,
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
    server, mark, rest = tool.partition("__")
    known = _CLAUDE_TOOLS.get(tool, (f"mcp__{server}__{rest}",) if mark else ())
    return (*known, tool)


def tool_input(args: Json) -> Json:
    """Return the arguments, also under the names that Claude gives them."""
    return {**args, **{_CLAUDE_FIELDS[key]: args[key] for key in _CLAUDE_FIELDS if key in args}}


def rewritten(args: Json, updated: Json, known: Sequence[str]) -> Json:
    """Return our arguments after a hook replaced them, under either of their names."""
    shown = tool_input(args)
    result: dict[str, Any] = {key: updated[key] for key in known if key in updated}
    for ours, theirs in _CLAUDE_FIELDS.items():
        if ours not in known or theirs not in updated:
            continue
        # A hook that gives both names has changed the one that differs from what it was told.
        if ours not in updated or updated[theirs] != shown.get(theirs):
            result[ours] = updated[theirs]
    return result
