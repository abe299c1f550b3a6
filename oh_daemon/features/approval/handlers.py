"""Handlers of `approval/*` and `input/respond`: pending requests and the user's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.journal import Journal
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol import plain
from oh_daemon.protocol.approvals import Approval, Decision, InputRespondParams
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.forms import model_of


def approval_list(journals: Sequence[Journal]) -> m.ApprovalListResult:
    """List the pending approvals of these conversations."""
    pending: list[Approval] = []
    for journal in journals:
        with journal.condition:
            approvals = journal.state.approvals.values()
            pending.extend(model_of(Approval, approval) for approval in approvals)
    return m.ApprovalListResult(pending=tuple(pending))


def approval_respond(conversation: Conversation, params: m.ApprovalRespondParams) -> Json:
    with conversation.journal.condition:
        approval = conversation.state.approvals.get(params.approval_id)
        # If it is resolved already, this decision is not used: the answer holds the first one.
        decision = _decision(approval, params) if approval else Decision(effect="reject")
        return conversation.decisions.respond(
            params.approval_id,
            params.digest,
            decision,
            feedback=params.feedback,
            edited_subject=params.edited_subject,
        )


def input_respond(conversation: Conversation, params: InputRespondParams) -> Json:
    return conversation.decisions.answer(params.input_id, params.action, params.content)


def _decision(approval: plain.Approval, params: m.ApprovalRespondParams) -> Decision:
    """Return the chosen decision. Raises `InvalidParamsError` for one that was not offered."""
    options = approval["options"]
    decision = params.decision
    choices = {(option["effect"], option["scope"]) for option in options}
    if decision and (decision.effect == "reject" or (decision.effect, decision.scope) in choices):
        return decision
    option_id = chosen_option(approval, by="id", value=params.option_id)
    if option_id is None:
        names = ", ".join(option["id"] for option in options)
        what = f"the approval does not offer that; it is one of {names}"
        raise InvalidParamsError.at("optionId", what, "unknown")
    return option_id


def chosen_option(
    approval: plain.Approval, *, by: Literal["id", "label"], value: str | None
) -> Decision | None:
    """Return what the option with this `id` or `label` decides; None if none was offered."""
    for option in approval["options"]:
        if option[by] == value:
            return Decision(effect=option["effect"], scope=option["scope"])
    return None
