"""`approval/list` and `approval/respond` as plain functions."""

from typing import Any

import pytest
from core_world import NoContext

from oh_daemon.common.masking import Masker
from oh_daemon.conversations.services import SystemClock
from oh_daemon.features.approval.handlers import approval_list, approval_respond
from oh_daemon.kernel.approval_requests import approval_options, new_approval
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.ports import Intent
from oh_daemon.kernel.state import State
from oh_daemon.protocol.approvals import CommandSubject
from oh_daemon.protocol.daemon_messages import ApprovalRespondParams
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.protocol.events import ApprovalRequested
from oh_daemon.storage.memory_log import MemoryLog


def waiting(conversation_id: str) -> Conversation:
    """Return a conversation in which a command of high risk waits for approval."""
    state = State(conversation_id, created_at="2026-01-01T00:00:00Z")
    clock, masker = SystemClock(), Masker()
    conversation = Conversation(
        state, MemoryLog(), NoContext(), epoch="1", clock=clock, masker=masker
    )
    intent = Intent("rm -rf .", CommandSubject(command="rm -rf .", cwd="/p"), "high")
    options = approval_options(intent.subject, intent.risk, floor=False)
    approval = new_approval(state, "2026-01-01T00:00:00.000Z", "i1", intent, options)
    conversation.journal.append(ApprovalRequested(approval=approval))
    return conversation


@pytest.mark.parametrize(
    ("answer", "resolved"),
    [
        ({"option_id": "allow-once"}, {"effect": "allow", "scope": "once"}),
        ({"decision": {"effect": "allow", "scope": "once"}}, {"effect": "allow", "scope": "once"}),
        # A rejection needs no option: whoever rejects more than was offered does no harm.
        (
            {"decision": {"effect": "reject", "scope": "user"}},
            {"effect": "reject", "scope": "user"},
        ),
        ({"decision": {"effect": "allow", "scope": "user"}}, None),
        ({"option_id": "allow-user"}, None),
        ({}, None),
    ],
)
def test_only_an_offered_decision_allows(
    answer: dict[str, Any], resolved: dict[str, Any] | None
) -> None:
    conversation = waiting("c1")
    [approval] = approval_list([conversation.journal]).pending
    named = {"approval_id": approval.id, "digest": approval.digest}
    params = ApprovalRespondParams.model_validate({**named, **answer}, by_name=True)
    if resolved is None:
        with pytest.raises(InvalidParamsError, match="it is one of allow-once, "):
            approval_respond(conversation, params)
        assert len(approval_list([conversation.journal]).pending) == 1
    else:
        assert approval_respond(conversation, params) == {"resolved": True}
        resolution = conversation.state.resolutions[approval.id]
        assert resolution["type"] == "approval.resolved"
        assert resolution["decision"] == resolved
        assert approval_list([conversation.journal]).pending == ()


def test_pending_approvals_of_all_conversations_are_listed_in_their_order() -> None:
    conversations = [waiting("c1"), waiting("c2")]
    listed = approval_list([each.journal for each in conversations]).pending
    assert [each.conversation_id for each in listed] == ["c1", "c2"]
