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
BROKEN: Json = {"decision": "allow", "argv": ["rm"], "match": ["mv a b"]}


def test_rules_decide_before_anybody_is_asked_and_the_log_names_them(world: World) -> None:
    folder = world.project / ".openhands"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"rules": [PUSH, {**MAKE, "argv": ["rm"]}]}))
    world.script(
        call("terminal", command="touch made"),
        call("terminal", command="touch more && git push"),
        call("terminal", command="rm made"),
        say("Done."),
    )
    client = world.daemon(settings={"rules": [MAKE, BROKEN]})
    world.start(client, options={"approval": "askRisky"})
    asked = client.wait_for_event("approval.requested")["event"]["approval"]
    assert asked["title"] == "Run rm made"
    decided = [e["event"] for e in client.events if e["event"]["type"] == "action.decided"]
    assert [(d["effect"], d["rule"]) for d in decided] == [
        ("allow", "user rule: allow terminal touch"),
        ("reject", "project rule: deny terminal git push (CI does that)"),
    ]
    made, denied, *_ = items(client, "command")
    assert (made["status"], denied["status"]) == ("completed", "rejected")
    assert "deny terminal git push (CI does that)" in content_of(denied)
    assert not (world.project / "more").exists()
    problems = client.request("config/read")["problems"]
    assert any("a project cannot allow" in problem for problem in problems)
    assert any("does not meet its example 'mv a b'" in problem for problem in problems)
