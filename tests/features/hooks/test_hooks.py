"""What hooks are told, and what their answers mean; tests with a daemon cover running them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oh_daemon.features.hooks.hooks import (
    HookOutcome,
    HookRun,
    combine_runs,
    matching,
    read_outcome,
    rewrite_args,
    tool_names,
)
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.rules_and_hooks import HookCommand, HookGroup, read_hooks


def _specific(**fields: Any) -> str:
    return json.dumps({"hookSpecificOutput": fields})


@pytest.mark.parametrize(
    ("event", "code", "stdout", "stderr", "expected"),
    [
        ("PreToolUse", 0, "", "", HookOutcome()),
        ("PreToolUse", 0, "all is well", "", HookOutcome()),
        ("PreToolUse", 2, "", "no pushes\n", HookOutcome("deny", "no pushes")),
        ("PreToolUse", 2, "", "", HookOutcome("deny", "the hook 'h' says no")),
        ("PreToolUse", 0, '{"decision": "block", "reason": "r"}', "", HookOutcome("deny", "r")),
        (
            "PreToolUse",
            0,
            _specific(permissionDecision="ask", permissionDecisionReason="look"),
            "",
            HookOutcome("ask", "look"),
        ),
        (
            "PreToolUse",
            0,
            _specific(updatedInput={"a": 1}, additionalContext="c"),
            "",
            HookOutcome(updated_input={"a": 1}, context="c"),
        ),
        ("Stop", 0, '{"continue": false, "stopReason": "enough"}', "", HookOutcome(stop="enough")),
        ("UserPromptSubmit", 0, "It is Friday.", "", HookOutcome(context="It is Friday.")),
        ("PostToolUse", 0, '{"systemMessage": "hi"}', "", HookOutcome(warnings=("hi",))),
        (
            "Stop",
            127,
            "",
            "bash: nope\nmore",
            HookOutcome(warnings=("The Stop hook 'h' ended with 127: bash: nope",)),
        ),
        ("Stop", None, "", "", HookOutcome(warnings=("The Stop hook 'h' took too long",))),
    ],
)
def test_what_an_answer_means(
    event: Any, code: Any, stdout: str, stderr: str, expected: HookOutcome
):
    assert read_outcome(event, HookRun("h", code, stdout, stderr)) == expected


def test_broken_json_is_a_warning():
    [warning] = read_outcome("Stop", HookRun("h", 0, "{oops", "")).warnings
    assert "gave no valid JSON" in warning


def _run_hooks(*answers: tuple[str, str]) -> HookOutcome:
    """Return the combined outcome of hooks, each given by its scope and its answer."""
    hooks = [(HookCommand(type="command", command=a), scope) for scope, a in answers]
    runs = [HookRun("h", 0, answer, "") for _, answer in answers]
    return combine_runs("PreToolUse", hooks, runs)  # type: ignore[arg-type]


ALLOW, ASK, DENY = (_specific(permissionDecision=word) for word in ("allow", "ask", "deny"))


def test_the_strictest_answer_counts_and_a_project_cannot_allow():
    assert _run_hooks(("user", ALLOW), ("project", ASK), ("user", ALLOW)).decision == "ask"
    assert _run_hooks(("user", ALLOW), ("project", DENY)).decision == "deny"
    assert _run_hooks(("user", ALLOW)).decision == "allow"
    assert _run_hooks(("project", ALLOW)).decision == ""


@pytest.mark.parametrize(
    ("tool", "args", "matcher", "fits"),
    [
        ("terminal", {}, "Bash", True),
        ("terminal", {}, "terminal", True),
        ("terminal", {}, "Ba", False),
        ("edit", {"command": "str_replace"}, "Edit|Write", True),
        ("edit", {"command": "create"}, "Write", True),
        ("edit", {"command": "view"}, "Edit|Write", False),
        ("shop__buy", {}, "mcp__shop__.*", True),
        ("grep", {}, "*", True),
        ("grep", {}, "", True),
    ],
)
def test_matchers_know_our_names_and_those_of_claude(
    tool: str, args: dict[str, Any], matcher: str, fits: bool
):
    hook = HookCommand(type="command", command="true")
    table = {"PreToolUse": (HookGroup(matcher=matcher, hooks=(hook,)),)}
    assert bool(matching(table, "PreToolUse", *tool_names(tool, args))) == fits


def test_input_may_be_rewritten_under_either_name():
    args = {"path": "/w/a", "old_text": "x", "new_text": "y"}
    fields = ["path", "old_text", "new_text"]
    shown_args = {**args, "file_path": "/w/a", "old_string": "x", "new_string": "y"}
    assert rewrite_args(args, {**shown_args, "file_path": "/w/b"}, fields) == {
        **args,
        "path": "/w/b",
    }
    assert rewrite_args(args, {**shown_args, "new_text": "z"}, fields) == {**args, "new_text": "z"}
    assert rewrite_args(args, {"file_path": "/w/b"}, fields) == {"path": "/w/b"}
    assert rewrite_args(args, {"file_path": "/w/a"}, fields) == {"path": "/w/a"}


def test_hooks_that_cannot_be_read_are_named_and_unknown_events_passed_over():
    good = {"hooks": [{"type": "command", "command": "true"}]}
    table, wrongs = read_hooks(
        {
            "Stop": [good, {"hooks": [{"type": "prompt", "prompt": "?"}]}],
            "PreToolUse": [{**good, "matcher": "("}],
            "Notification": [good],
        },
        "project",
    )
    assert [group.scope for group in table["Stop"]] == ["project"]
    assert list(table) == ["Stop"]
    problems = [render_problem(each) for each in wrongs]
    assert problems[0].startswith("project: hooks.Stop.1.hooks.0.type")
    assert "is not a regular expression" in problems[1]
    [not_a_table] = read_hooks([], "user")[1]
    assert render_problem(not_a_table) == "user: hooks must be an object with lists by event"
