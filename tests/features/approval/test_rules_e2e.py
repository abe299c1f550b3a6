"""Rules of the user and of the project in a real daemon: who is asked, and why not."""

import json
from typing import Any

import pytest
from fake_llm import call, say
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]

MAKE: Json = {"decision": "allow", "argv": ["touch"], "match": ["touch x"]}
PUSH: Json = {
    "decision": "deny",
    "argv": ["git", "push"],
    "match": ["git push"],
    "reason": "CI does that",
}
SEARCH: Json = {"decision": "ask", "tool": "gr*"}
BROKEN: Json = {"decision": "allow", "argv": ["rm"], "match": ["mv a b"]}
STRICT: Json = {**BROKEN, "decision": "deny", "argv": ["ln"]}
TOUCHES = "touch creates, changes or deletes files"


def test_rules_decide_before_anybody_is_asked_and_the_log_names_them(world: World) -> None:
    folder = world.project / ".openhands"
    folder.mkdir()
    project_values = {"rules": [PUSH, {**MAKE, "argv": ["rm"]}], "mode": "full"}
    (folder / "settings.json").write_text(json.dumps(project_values))
    world.script(
        call("terminal", command="touch made"),
        call("terminal", command="touch more && git push"),
        call("terminal", command="ln made linked"),
        call("terminal", command="rm made"),
        call("terminal", command="touch ../outside"),
        call("grep", pattern="x"),
        say("Done."),
    )
    client = world.daemon(settings={"rules": [MAKE, SEARCH, BROKEN, STRICT]})
    client.answer("approval/request", lambda _asked: {"optionId": "reject"})
    world.start(client, options={"approval": "askRisky"})
    world.turn(client)
    events = [e["event"] for e in client.events]
    approvals = [e["approval"] for e in events if e["type"] == "approval.requested"]
    assert [(a["title"], a["risk"], a["reason"]) for a in approvals] == [
        ("Run rm made", "medium", "rm creates, changes or deletes files"),
        (
            "Run touch ../outside",
            "high",
            f"it changes ../outside, which is outside the workspace; {TOUCHES}",
        ),
        ("Grep 'x' in the open folders", "low", "user rule: ask gr*"),
    ]
    # A lasting answer would not count against a rule.
    assert [option["scope"] for option in approvals[-1]["options"]] == ["once", "once"]
    decisions = [e for e in events if e["type"] == "action.decided"]
    assert [(d["effect"], d["rule"]) for d in decisions] == [
        ("allow", "user rule: allow terminal touch"),
        ("reject", "project rule: deny terminal git push (CI does that)"),
        ("reject", "user rule: deny terminal ln"),
    ]
    made_command, denied, *_ = items(client, "command")
    assert (made_command["status"], denied["status"]) == ("completed", "rejected")
    assert "deny terminal git push (CI does that)" in content_of(denied)
    assert not (world.project / "more").exists()
    problems = client.request("config/read")["problems"]
    assert any("a project cannot allow" in problem for problem in problems)
    assert any("mode 'full' would loosen 'ask'" in problem for problem in problems)
    wrong = [problem for problem in problems if "does not meet its example 'mv a b'" in problem]
    assert [problem.rpartition("; ")[2] for problem in wrong] == ["it does not count", "it counts"]
