"""What the embedding program's own analyzer and policy say about an action.

Whatever breaks in them, the user is asked.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from oh_daemon.kernel.approval_requests import RISK_ORDER, Ruling
from oh_daemon.kernel.ports import ApprovalPolicy, Intent, RiskAnalyzer, ToolSpec

logger = logging.getLogger(__name__)


def rated(analyzer: RiskAnalyzer | None, spec: ToolSpec, intent: Intent) -> Intent:
    """Return the intent with the analyzer's rating, if there is an analyzer."""
    if analyzer is None:
        return intent
    try:
        risk = analyzer(spec, intent)
        if risk in RISK_ORDER:
            return replace(intent, risk=risk)
        problem = f"{risk!r} is not a risk"
    # The user must be asked about an action that could not be rated.
    except Exception as exc:
        logger.exception("the risk analyzer broke on %s", spec.name)
        problem = repr(exc)
    reasons = (f"the risk analyzer gave no rating: {problem}", *intent.reasons)
    return replace(intent, risk="high", reasons=reasons)


def ruled(decides: ApprovalPolicy | None, spec: ToolSpec, intent: Intent) -> Ruling | None:
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
