"""A program's own risk analyzer and approval policy: if one raises or errs, the user is asked."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import at_work, tool
from fake_llm import call, say
from msgspec.structs import replace

from oh_daemon.features.approval.judgement import NO_POLICY, Policy

# litellm's own use of pydantic causes these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]

ECHO = tool("echo", lambda words: words, words={"type": "string"})


def _raise(*_arguments: object) -> Any:
    raise RuntimeError("no idea")


def _wrong(*_arguments: object) -> Any:
    return "no idea"


@pytest.mark.parametrize(
    ("policy", "risk"),
    [
        (replace(NO_POLICY, analyzer=_raise), "high"),
        (replace(NO_POLICY, analyzer=_wrong), "high"),
        (replace(NO_POLICY, decides=_raise), "medium"),
        (replace(NO_POLICY, decides=_wrong), "medium"),
    ],
)
def test_what_breaks_is_asked_about(policy: Policy, risk: str):
    options = {"mode": "ask", "approval": "askRisky", "model": "fake"}
    with at_work(
        [call("echo", words="a"), say("Done.")], ECHO, policy=policy, options=options
    ) as w:
        w.run()
        approval = w.heard.event("approval.requested")["approval"]
    assert approval["risk"] == risk
    assert "no idea" in approval["reason"]
