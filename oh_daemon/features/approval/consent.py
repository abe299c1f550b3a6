"""Decides whether an open action may run: asks, rejects or lets it pass, and logs why.

`judgement` says what becomes of an action; this module asks, waits and logs. Only the
conversation's worker calls it. A decision holds for one digest: if the action has changed since,
the user is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.approval.judgement import Judge, Policy
from oh_daemon.features.approval.policy import Verdict, advice
from oh_daemon.features.hooks.hooks import HookPoints
from oh_daemon.kernel.approval_requests import (
    RISK_ORDER,
    approval_options,
    editable_part,
    key_of,
    new_approval,
)
from oh_daemon.kernel.conversation import Conversation, Decisions
from oh_daemon.kernel.extension_points import Gate, Rejection
from oh_daemon.kernel.journal import Journal, new_id
from oh_daemon.kernel.pending_changes import BEGUN
from oh_daemon.kernel.pending_changes import TOOL as LANDING
from oh_daemon.kernel.ports import (
    Intent,
    Json,
    Question,
    Tool,
)
from oh_daemon.kernel.state import DecisionMade
from oh_daemon.kernel.tool_calls import plan
from oh_daemon.protocol import events as e
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Decision, InputRequest
from oh_daemon.protocol.items import Risk


class _Answers(Struct, frozen=True):
    """A snapshot of what was decided about one action: an answer may come at any time."""

    decisions: Mapping[str, DecisionMade]
    """By the digest of what was decided about."""
    request: plain.Approval | None
    """What the user is being asked about it."""


class Consent:
    """Implements `kernel.extension_points.Approval` for one conversation."""

    def __init__(self, conversation: Conversation, policy: Policy, hooks: HookPoints) -> None:
        self._conversation = conversation
        self._journal = conversation.journal
        self._policy = policy
        self._hooks = hooks
        self._judge = Judge(conversation.journal, policy, hooks.rulings)

    def settle(
        self, item: plain.ToolItem, tool: Tool, intent: Intent, *, again: bool = False
    ) -> Intent | Rejection | None:
        """See `Approval`. Each step returns the intent if the action may go on to the next one."""
        if intent.question is not None:
            return self._ask_question(item, intent, intent.question)
        answers = self._answers(item)
        if BEGUN in answers.decisions and not intent.clashes:
            return intent
        verdict = self._pass_hooks_and_gates(item, tool, intent, answers)
        if not isinstance(verdict, Intent):
            return verdict
        if (decision := answers.decisions.get(intent.digest)) is not None:
            return self._obey(item, tool, intent, decision)
        if (request := answers.request) is None:
            return self._judge_new(item, tool, intent)
        if not again:
            return None
        if request["subject"]["kind"] == intent.subject.kind:
            return self._judge_pending(item, tool, intent, request)
        # The request was for a gate that is open by now, such as trust in the folder.
        self._withdraw(request)
        verdict = self._ask_hooks(item, tool, intent)
        return self._judge_new(item, tool, intent) if isinstance(verdict, Intent) else verdict

    def _judge_new(
        self, item: plain.ToolItem, tool: Tool, intent: Intent
    ) -> Intent | Rejection | None:
        """Decide about an action that nobody was asked about."""
        intent = self._judge.rated(tool.spec, intent)
        verdict = self._judge.verdict(item, tool.spec, intent)
        if verdict.effect == "ask":
            shown_intent = self._with_change(item, intent, verdict)
            # A lasting answer would not count against a rule.
            self._ask(item, intent, shown_intent, with_lasting_options=verdict.code != "ruling")
            return None
        self._log_decision(item, verdict, intent.digest)
        if verdict.effect == "allow":
            return intent
        is_main = self._journal.state.parent_id is None
        return Rejection(f"Not allowed: {verdict.rule}.{advice(verdict, intent, is_main=is_main)}")

    def _judge_pending(
        self, item: plain.ToolItem, tool: Tool, intent: Intent, request: plain.Approval
    ) -> Intent | Rejection | None:
        """Run what waits if it may run by now, exactly as it was shown; else it goes on waiting."""
        intent = self._judge.rated(tool.spec, intent)
        is_same = request["digest"] == intent.digest
        if not is_same or self._judge.verdict(item, tool.spec, intent).effect != "allow":
            return None
        # After a restart, hooks have not been asked yet; what they say counts in the verdict.
        hook_ruling = self._ask_hooks(item, tool, intent)
        if not isinstance(hook_ruling, Intent):
            return hook_ruling
        verdict = self._judge.verdict(item, tool.spec, intent)
        decision = Decision(effect="allow")
        answer = e.ApprovalResolved(approval_id=request["id"], decision=decision, by="policy")
        with self._journal.condition:  # The user may be faster.
            if verdict.effect != "allow" or request["id"] not in self._journal.state.approvals:
                return None
            self._log_decision(item, verdict, intent.digest, answer)
        return intent

    def _answers(self, item: plain.ToolItem) -> _Answers:
        with self._journal.condition:
            state = self._journal.state
            of_item = (each for each in state.approvals.values() if each["itemId"] == item["id"])
            approvals = (each for each in of_item if not state.is_of_program(each))
            return _Answers(dict(state.decisions.get(item["id"], {})), next(approvals, None))

    def _withdraw(self, request: plain.Approval) -> None:
        decision = Decision(effect="reject")
        answer = e.ApprovalResolved(approval_id=request["id"], decision=decision, by="changed")
        with self._journal.condition:  # The user may be faster.
            if request["id"] in self._journal.state.approvals:
                self._journal.append(answer)

    def _ask_hooks(
        self, item: plain.ToolItem, tool: Tool, intent: Intent
    ) -> Intent | Rejection | None:
        """Return None when a hook rewrote the action, which must then be planned again."""
        if tool.spec.name == LANDING:
            return intent  # Hooks were asked about its command.
        outcome = self._hooks.before_tool(item, tool, self._conversation.cancel)
        if outcome.decision == "deny":
            denied = Verdict("reject", "hook", f"hook: {outcome.reason}", intent.risk)
            self._log_decision(item, denied, intent.digest)
            return Rejection(f"Not allowed by a hook: {outcome.reason}")
        return intent if outcome.updated_input is None else self._rewrite_call(item, tool, intent)

    def _rewrite_call(self, item: plain.ToolItem, tool: Tool, before: Intent) -> Rejection | None:
        """Withdraw what was asked about the action before; what the user rejected stays so."""
        if plan(tool, item["args"]).digest == before.digest:
            return None
        with self._journal.condition:
            answers = self._answers(item)
            decision = answers.decisions.get(before.digest)
            if decision is not None and decision.effect == "reject":
                return _rejection(decision)
            if answers.request is not None:
                self._withdraw(answers.request)
        return None

    def _ask_question(
        self, item: plain.ToolItem, intent: Intent, question: Question
    ) -> Intent | None:
        """Put a question to the user once; the answer ends the item. With no client, it runs."""
        with self._journal.condition:
            questions = self._journal.state.questions.values()
            if any(each["itemId"] == item["id"] for each in questions):
                return None
        if not self._policy.can_answer(question):
            return intent
        journal = self._journal
        request = InputRequest(
            id=new_id(),
            conversation_id=journal.id,
            turn_id=journal.state.turn_id or "",
            item_id=item["id"],
            kind="choice" if question.choices else "text",
            prompt=question.prompt,
            choices=question.choices or None,
            created_at=journal.clock.now(),
        )
        if journal.append_to(item["id"], e.InputRequested(input=request)):
            journal.log.sync()
        return None

    def _pass_hooks_and_gates(
        self, item: plain.ToolItem, tool: Tool, intent: Intent, answers: _Answers
    ) -> Intent | Rejection | None:
        # Hooks come before anybody is asked: what a hook denies needs no answer.
        if intent.digest not in answers.decisions and answers.request is None:
            hook_ruling = self._ask_hooks(item, tool, intent)
            if not isinstance(hook_ruling, Intent):
                return hook_ruling
        gates = self._policy.gates(tool.spec, intent)
        for gate in gates:
            result = self._pass_gate(item, gate, answers, intent)
            if not isinstance(result, Intent):
                return result
        # A folder that is trusted only now may have hooks for this action.
        return self._ask_hooks(item, tool, intent) if gates else intent

    def _pass_gate(
        self, item: plain.ToolItem, gate: Gate, answers: _Answers, intent: Intent
    ) -> Intent | Rejection | None:
        if gate.refusal is not None:
            verdict = Verdict("reject", "gate", gate.refusal, intent.risk, intent.reasons)
            self._log_decision(item, verdict, intent.digest)
            return Rejection(gate.refusal)
        gate_intent = Intent(gate.title, gate.subject, "medium")
        decision = answers.decisions.get(gate_intent.digest)
        if decision is None and self._judge.is_granted(key_of(gate.subject)):
            gate.on_allow("conversation")
            return intent
        if decision is None:
            if answers.request is None:
                gate_intent = replace(
                    gate_intent, outside_floor=intent.outside_floor, leaves=intent.leaves
                )
                self._ask(item, gate_intent, Verdict("ask", "gate", "gate", "medium"))
            return None
        if decision.effect == "allow":
            gate.on_allow(decision.scope)
            return intent
        return _rejection(decision) if gate.is_required else intent

    def _with_change(self, item: plain.ToolItem, intent: Intent, verdict: Verdict) -> Verdict:
        """Add, if so, that the action changed since it was allowed; allowing a gate is not that."""
        if files := self._judge.changed_files(intent):
            why = f"{' and '.join(files)} changed since you allowed this command"
            return replace(verdict, reasons=(why, *verdict.reasons))
        earlier = self._journal.state.decisions.get(item["id"], {}).values()
        subjects = (
            d.approval["subject"]["kind"] for d in earlier if d.approval and d.effect == "allow"
        )
        if intent.subject.kind not in subjects:
            return verdict
        return replace(verdict, reasons=("it changed after you allowed it", *verdict.reasons))

    def _log_decision(
        self, item: plain.ToolItem, verdict: Verdict, digest: str, *more: e.ApprovalResolved
    ) -> None:
        event = e.ActionDecided(
            effect="allow" if verdict.effect == "allow" else "reject",
            code=verdict.code,
            rule=verdict.rule,
            risk=verdict.risk,
            reasons=verdict.reasons,
            digest=digest,
        )
        self._journal.append_to(item["id"], event, *more)

    def _obey(
        self, item: plain.ToolItem, tool: Tool, intent: Intent, decision: DecisionMade
    ) -> Intent | Rejection | None:
        if decision.effect == "reject":
            return _rejection(decision, is_apply=tool.spec.name == LANDING)
        approval, answer = decision.approval, decision.answer
        if approval is not None and answer is not None and "editedSubject" in answer:
            return self._accept_edit(item, tool, answer["editedSubject"], approval["risk"])
        if decision.scope in {"folder", "user"}:
            self._policy.save_grant(key_of(intent.subject))
        if decision.scope == "server" and intent.trust_marks is not None:
            intent.trust_marks()
        return intent

    def _accept_edit(
        self, item: plain.ToolItem, tool: Tool, subject: plain.Subject, shown_risk: Risk
    ) -> Intent | None:
        """Take the user's own version; when it is riskier than what was shown, ask again."""
        part = editable_part(subject)
        args: Json = {**item["args"], **part}
        intent = self._judge.rated(tool.spec, plan(tool, args))
        update = e.ItemUpdated(status="awaitingApproval", args=args)
        if tool.spec.name != LANDING:
            fields = {"title": intent.title, "command": part.get("command"), "risk": intent.risk}
            update = update.model_copy(update={**fields, "summary": "edited by the user"})
        self._journal.append_to(item["id"], update)
        if RISK_ORDER[intent.risk] > RISK_ORDER[shown_risk]:
            riskier = ("your version is riskier than what you were shown", *intent.reasons)
            riskier_now = Verdict("ask", "edited", "edited", intent.risk, riskier)
            self._ask(item, intent, riskier_now)
            return None
        verdict = Verdict("allow", "edited", "edited by the user", intent.risk)
        self._log_decision(item, verdict, intent.digest)
        return intent

    def _ask(
        self,
        item: plain.ToolItem,
        intent: Intent,
        verdict: Verdict,
        *,
        with_lasting_options: bool = True,
    ) -> None:
        journal = self._journal
        is_once = intent.outside_floor or intent.leaves or not with_lasting_options
        asked_intent = replace(intent, risk=verdict.risk, reasons=verdict.reasons)
        has_marks = intent.trust_marks is not None
        options = approval_options(intent.subject, verdict.risk, floor=is_once, has_marks=has_marks)
        now, summary = journal.clock.now(), item.get("summary")
        for text in intent.texts:
            journal.log.put_blob(text.encode("utf-8", "surrogatepass"))
        approval = new_approval(journal.state, now, item["id"], asked_intent, options, summary)
        events = e.ItemUpdated(status="awaitingApproval"), e.ApprovalRequested(approval=approval)
        if not journal.append_to(item["id"], *events):
            return  # A message of the user took the action's place.
        journal.log.sync()
        if not self._policy.can_ask():
            reject_unattended(journal, approval.id, approval.digest)


NOBODY_THERE = "the user cannot be asked: no connected client can answer"


def reject_unattended(
    journal: Journal, approval_id: str, digest: str, why: str = NOBODY_THERE
) -> None:
    """Reject a pending approval because there is nobody to ask, or for another reason."""
    decision = Decision(effect="reject")
    Decisions(journal).respond(approval_id, digest, decision, feedback=why, by="noClient")


def _rejection(decision: DecisionMade, *, is_apply: bool = False) -> Rejection:
    """`is_apply`: a command ran, and its changes were rejected."""
    answer = decision.answer
    refusal = "They were not approved" if is_apply else "This was not run"
    who = "The user rejected this" if answer and answer["by"] == "user" else refusal
    why = answer.get("feedback") if answer else None
    if why:
        return Rejection(f"{who}: {why}")
    message = f"{who}. Ask what to do, or try another way."
    # The users know what they did.
    return Rejection(message, is_for_model=bool(answer and answer["by"] == "user"))
