"""Calls that build on a change of the same answer which was not made."""

from __future__ import annotations

from typing import Any

import pytest

from oh_daemon.kernel.dependent_calls import skip_reason


def call_item(name: str, status: str = "pending", batch: str = "b", **args: Any) -> Any:
    kinds = {"edit": "edit", "apply_patch": "edit", "terminal": "execute"}
    item = {"kind": "toolCall", "tool": name, "toolKind": kinds.get(name, "other"), "args": args}
    call = {"id": "1", "batch": batch}
    return {**item, "id": f"{name}{args}{batch}", "status": status, "call": call, "title": "Edit a"}


PATCH = "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n-x\n*** End Patch"
BAD = call_item("edit", "failed", command="replace", path="src/a.py")
UNDO = call_item("edit", command="undo", path="/w/src/a.py")
TEST = call_item("terminal", command="pytest")


@pytest.mark.parametrize(
    ("earlier", "item", "is_skipped"),
    [
        (BAD, UNDO, True),
        (BAD, call_item("edit", command="insert", path="./src/a.py"), True),
        (BAD, call_item("edit", command="view", path="src/a.py"), False),
        (BAD, call_item("edit", command="undo", path="src/b.py"), False),
        (BAD, call_item("edit", command="undo", path="src/aa.py"), False),
        (BAD, call_item("apply_patch", input=PATCH), True),
        (BAD, TEST, True),
        (BAD, call_item("terminal", command="y", is_input=True), False),
        (BAD, call_item("finish", message="Done."), True),
        (BAD, call_item("grep", pattern="x"), False),
        ({**BAD, "status": "rejected"}, UNDO, True),
        ({**BAD, "status": "rejected"}, TEST, False),
        ({**BAD, "status": "completed"}, UNDO, False),
        (call_item("apply_patch", "failed", input=PATCH), UNDO, True),
        (call_item("apply_patch", "failed", input=PATCH), call_item("edit", path="src/b.py"), True),
        (call_item("edit", "failed", command="view", path="src/a.py"), UNDO, False),
        (call_item("terminal", "failed", command="make"), TEST, False),
        ({**BAD, "call": {"id": "1", "batch": "another"}}, TEST, False),
    ],
)
def test_a_call_is_skipped_when_it_builds_on_a_change_that_was_not_made(
    earlier: Any, item: Any, *, is_skipped: bool
) -> None:
    between = call_item("grep", "completed", pattern="y")
    reason = skip_reason(item, [earlier, between, item, call_item("grep", pattern="z")])
    assert (reason is not None) == is_skipped


def test_what_comes_before_the_failure_is_not_skipped() -> None:
    assert skip_reason(TEST, [TEST, BAD]) is None
