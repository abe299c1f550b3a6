"""Runs hooks on each message, around each call, before a condensation and at the end of a turn.

What a hook adds or refuses becomes a notice or a decision in the log. All methods but `after_tool`
are called only on the thread of the conversation's worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oh_daemon.contract import events as e
from oh_daemon.contract.errors import ToolError
from oh_daemon.contract.hooks import HookEvent
from oh_daemon.contract.items import NoticeItem
from oh_daemon.core.approval import Ruling
from oh_daemon.core.calls import plan, schema_problem
from oh_daemon.core.cancel import CancelToken
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.endings import Rest
from oh_daemon.core.hooks import Hooks, Outcome, rewritten, tool_input, tool_names
from oh_daemon.core.journal import new_id
from oh_daemon.core.ports import Json, Tool, ToolResult

_ENDS_BY_ITSELF = {"endTurn", "finished"}


class HookPoints:
    """The hook points of one conversation."""

    def __init__(self, conversation: Conversation, hooks: Hooks) -> None:
        self._conversation = conversation
        self._hooks = hooks
        self._seen = {item["id"] for item in conversation.state.items}
        """Ids of the items that were shown; a count would not do, as a rollback removes items."""
        self._has_begun = False
        self._continued_turn = ""
        """The turn that a hook last kept from ending."""
        self._asked: dict[str, set[str]] = {}
        """Hooks that have seen an action, by its id: planned again, it is still the same action."""
        self.rulings: dict[str, Ruling] = {}
        """What hooks decided about actions, by the actions' ids."""

    def take_messages(self, cancel: CancelToken) -> Rest | None:
        """Show new messages to hooks; a refused message ends the turn and never reaches a model."""
        messages = (i for i in self._conversation.state.items if i["kind"] == "userMessage")
        new = [item for item in messages if item["id"] not in self._seen]
        if not self._has_begun:
            self._has_begun = True
            source = "resume" if self._seen else "startup"
            self._fire("SessionStart", {"source": source}, cancel, source)
        self._seen.update(item["id"] for item in new)
        for item in new:
            outcome = self._fire("UserPromptSubmit", {"prompt": _text_of(item)}, cancel)
            why = outcome.reason if outcome.decision == "deny" else outcome.stop
            if why is not None:
                self._conversation.append(e.MessageRefused(reason=why), item_id=item["id"])
                self._say(f"A hook refused the message: {why}")
                return Rest("hook", final_text=why)
        return None

    def lets_rest(self, rest: Rest, cancel: CancelToken) -> bool:
        """Return False when a hook wants the agent to go on."""
        state = self._conversation.state
        turn_id = (state.turn or {})["id"]
        if rest.stop_reason not in _ENDS_BY_ITSELF:
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
        self._say("A hook wants the agent to go on", note=outcome.reason)
        return False

    def before_condensing(self, cancel: CancelToken) -> bool:
        """Return False when a hook wants the older steps kept as they are."""
        wanted = self._conversation.state.condense_requested
        trigger = "auto" if wanted is None else "manual"
        asked = (wanted or {}).get("instructions") or ""
        fields = {"trigger": trigger, "custom_instructions": asked}
        outcome = self._fire("PreCompact", fields, cancel, trigger)
        if outcome.decision != "deny" and outcome.stop is None:
            return True
        self._say(f"A hook kept older steps: {outcome.stop or outcome.reason}")
        return False

    def before_tool(self, item: Json, tool: Tool, cancel: CancelToken) -> Outcome:
        """Return what hooks say about an action, each asked once; log arguments they rewrite."""
        names = tool_names(tool.spec.name, item["args"])
        seen = self._asked.setdefault(item["id"], set())
        fields = {"tool_name": names[0], "tool_input": tool_input(item["args"])}
        outcome = self._fire("PreToolUse", fields, cancel, *names, seen=seen)
        if outcome.stop is not None:
            return replace(outcome, decision="deny", reason=outcome.stop)
        if outcome.decision in {"ask", "allow"}:
            effect = "ask" if outcome.decision == "ask" else "allow"
            rule = f"hook: {outcome.reason or outcome.decision}"
            self.rulings[item["id"]] = Ruling(effect, rule, covers_high=True)
        if outcome.updated_input is not None and outcome.decision != "deny":
            return self._rewrite(item, tool, outcome, outcome.updated_input)
        return outcome

    def _rewrite(self, item: Json, tool: Tool, outcome: Outcome, updated: Json) -> Outcome:
        args = rewritten(item["args"], updated, list(tool.spec.input_schema["properties"]))
        problem = schema_problem(tool.spec, args)
        try:
            intent = None if problem else plan(tool, args)
        except ToolError as exc:
            intent, problem = None, str(exc)
        if intent is None:
            wrong = f"a hook rewrote the call, and it cannot run: {problem}"
            return replace(outcome, decision="deny", reason=wrong)
        changed = e.ItemUpdated(
            status="pending",
            args=args,
            title=intent.title,
            command=intent.item_fields.get("command"),
            risk=intent.risk,
            summary="rewritten by a hook",
        )
        self._conversation.append_to(item["id"], changed)
        return outcome

    def after_tool(
        self, item: Json, result: ToolResult, cancel: CancelToken
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
        said = [outcome.reason] if outcome.decision == "deny" else []
        added = "\n".join(filter(None, [*said, outcome.context]))
        if added:
            part = {"type": "text", "text": f"[a hook says]\n{added}"}
            result = replace(result, content=(*result.content, part))
        return result, outcome.stop

    def _fire(
        self,
        event: HookEvent,
        fields: Mapping[str, object],
        cancel: CancelToken,
        *names: str,
        seen: set[str] | None = None,
        notes: bool = True,
    ) -> Outcome:
        """Run the hooks of an event whose commands are not in `seen`, and log what they add."""
        seen = set() if seen is None else seen
        found = self._hooks.matching(event, *names)
        hooks = [hook for hook in found if hook[0].command not in seen]
        seen.update(hook.command for hook, _ in hooks)
        outcome = self._hooks.fire(hooks, event, self._conversation.state, fields, cancel)
        for warning in outcome.warnings:
            self._say(warning)
        if outcome.context and notes:
            self._say(f"A {event} hook added context", note=outcome.context)
        return outcome

    def _say(self, title: str, note: str | None = None) -> None:
        severity = "info" if note else "warning"
        notice = NoticeItem(id=new_id(), severity=severity, title=title, note=note)
        self._conversation.append(e.ItemCompleted(item=notice))


def _text_of(item: Json) -> str:
    return "\n".join(part["text"] for part in item["content"] if part["type"] == "text")
