"""Answers to an approval in ACP's form."""

from typing import Any

from oh_daemon.frontends.acp.permission import options_of
from oh_daemon.kernel.approval_requests import approval_options
from oh_daemon.protocol.approvals import ToolSubject


def test_trust_in_marks_is_offered_beyond_one_option_of_each_kind() -> None:
    subject = ToolSubject(tool="shop__price", args={})
    options = approval_options(subject, "medium", floor=False, has_marks=True)
    approval: Any = {"options": [each.model_dump() for each in options]}
    assert [(each["optionId"], each["kind"]) for each in options_of(approval)] == [
        ("allow-once", "allow_once"),
        ("allow-conversation", "allow_always"),
        ("allow-server", "allow_always"),
        ("reject", "reject_once"),
    ]
    high = approval_options(subject, "high", floor=False, has_marks=True)
    assert "allow-server" not in [each.id for each in high]
