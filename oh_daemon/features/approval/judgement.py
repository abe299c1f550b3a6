"""What rules, hooks, earlier answers and the embedding program say about an action.

`Judge` gathers their opinions, and `policy.decide` weighs them. Nothing here asks, waits or logs an
event. If the program's own analyzer or policy breaks, the user is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.approval.policy import Verdict, decide
from oh_daemon.features.approval.rules import ruling_of
from oh_daemon.kernel.approval_requests import (
    EDITS,
    RISK_ORDER,
    Ruling,
    changed_files,
    is_edit,
    key_of,
)
from oh_daemon.kernel.extension_points import Gate
from oh_daemon.kernel.journal import Journal
from oh_daemon.kernel.pending_changes import TOOL as LANDING
from oh_daemon.kernel.ports import ApprovalPolicy, Intent, Question, RiskAnalyzer, ToolSpec
from oh_daemon.protocol import plain
from oh_daemon.protocol.rules_and_hooks import Rule

logger = logging.getLogger(__name__)


class Policy(Struct, frozen=True):
    """What decides from outside: gates, rules, grants kept for a folder, a user to ask."""

    gates: Callable[[ToolSpec, Intent], Sequence[Gate]]
    rules: Callable[[], Sequence[Rule]]
    analyzer: RiskAnalyzer | None
    decides: ApprovalPolicy | None
    grants: Callable[[], Collection[str]]
    """Returns the keys of lasting approvals for the folder, and of a parent conversation."""
    save_grant: Callable[[str], None]
    can_ask: Callable[[], bool]
    can_answer: Callable[[Question], bool]
    """Whether a client is there that can answer a question of the agent."""


NO_POLICY = Policy(
    gates=lambda _spec, _intent: (),
    rules=tuple,
    analyzer=None,
    decides=None,
    grants=tuple,
    save_grant=lambda _key: None,
    can_ask=lambda: False,
    can_answer=lambda _question: False,
)
"""No rule, gate or grant, and no user who could be asked."""


class Judge:
    """Judges the actions of one conversation."""

    def __init__(
        self, journal: Journal, policy: Policy, hook_rulings: Mapping[str, Ruling]
    ) -> None:
        """`hooked` has what hooks decided, by the id of the action."""
        self._journal = journal
        self._policy = policy
        self._hook_rulings = hook_rulings

    def rated(self, spec: ToolSpec, intent: Intent) -> Intent:
        """Return the intent with the rating of the program's own analyzer, if it has one."""
        analyzer = self._policy.analyzer
        if analyzer is None:
            return intent
        try:
            risk = analyzer(spec, intent)
            if risk in RISK_ORDER:
                return replace(intent, risk=risk, is_rated_by_program=True)
            problem = f"{risk!r} is not a risk"
        # The user must be asked about an action that could not be rated.
        except Exception as exc:
            logger.exception("the risk analyzer broke on %s", spec.name)
            problem = repr(exc)
        reasons = (f"the risk analyzer gave no rating: {problem}", *intent.reasons)
        return replace(intent, risk="high", reasons=reasons, is_rated_by_program=True)

    def verdict(self, item: plain.ToolItem, spec: ToolSpec, intent: Intent) -> Verdict:
        """Return what becomes of a rated action."""
        return decide(
            spec,
            intent,
            self._journal.state.options_now,
            self_rating=None if spec.name == LANDING else item.get("selfRating"),
            ruling=self._ruling(item, spec, intent) or _ruled(self._policy.decides, spec, intent),
        )

    def is_granted(self, key: str) -> bool:
        """Return whether the user allowed this for the turn or the conversation."""
        state = self._journal.state
        return key in state.grants or key in state.turn_grants

    def changed_files(self, intent: Intent) -> Sequence[str]:
        """Return the files that changed since the user allowed the same command."""
        return changed_files(intent.subject, self._grants())

    def _ruling(self, item: plain.ToolItem, spec: ToolSpec, intent: Intent) -> Ruling | None:
        """Return what rules and hooks say; a grant of the user allows what they do not restrict."""
        rules = self._policy.rules()
        ruling = ruling_of(rules, spec.names, intent.segments) if rules else None
        hook_ruling = self._hook_rulings.get(item["id"])
        for strict in (ruling, hook_ruling):
            if strict is not None and strict.effect != "allow":
                return strict
        grants = self._grants()
        if key_of(intent.subject) in grants:
            return Ruling("allow", "granted before", covers_high=True)
        if is_edit(intent.subject) and EDITS in grants:
            return hook_ruling or ruling or Ruling("allow", "edits granted before")
        return hook_ruling or ruling

    def _grants(self) -> Collection[str]:
        state = self._journal.state
        return {*state.grants, *state.turn_grants, *self._policy.grants()}


def _ruled(decides: ApprovalPolicy | None, spec: ToolSpec, intent: Intent) -> Ruling | None:
    """Return what the policy says, if there is one and it has an opinion."""
    if decides is None:
        return None
    try:
        effect = decides(spec, intent)
    except Exception as exc:
        logger.exception("the approval policy broke on %s", spec.name)
        return Ruling("ask", f"the approval policy broke: {exc!r}")
    if effect is None:
        return None
    if effect not in {"allow", "ask", "reject"}:
        return Ruling("ask", f"the approval policy gave no decision: {effect!r}")
    return Ruling(effect, "the program's approval policy", covers_high=True)
