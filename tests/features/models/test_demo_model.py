"""The demo's model reports what it saw, even when the files are not as its script expects."""

import pytest

from oh_daemon.common.cancel import CancelToken
from oh_daemon.features.models.demo_model import DemoModel
from oh_daemon.kernel.ports import Json, ModelAnswer, ModelRequest, Progress

TASK = {"role": "user", "content": "Make the test pass by RULES.md."}
NOTE = "[The editor shows unsaved changes, and so does this.]"


def answer_after(*results: str) -> ModelAnswer:
    messages: list[Json] = [TASK, *({"role": "tool", "content": text} for text in results)]
    return DemoModel().complete(ModelRequest(messages=messages), Progress(CancelToken()))


@pytest.mark.parametrize(("last_run", "says"), [("1 passed", True), ("1 failed", False)])
def test_it_claims_success_only_when_the_last_run_passed(last_run: str, says: bool) -> None:
    results = ["planned", "1 failed", f"15 % off {NOTE}", "cents * 90 // 100", "edited", last_run]
    text = answer_after(*results).text
    message = answer_after(*results, "planned").tool_calls[0].arguments
    assert ("All of it is done" in text, "The tests pass" in message) == (says, says)
    assert ("unsaved" in message) == says


def test_it_calls_unsaved_only_what_the_tool_showed_as_unsaved() -> None:
    marks = ["planned", "1 failed", "15 % off", "cents * 90 // 100"]
    assert "unsaved" not in answer_after(*marks).text
    marks[2] += NOTE
    assert "15 % off, unsaved as it is; the code keeps 90 %" in answer_after(*marks).text
