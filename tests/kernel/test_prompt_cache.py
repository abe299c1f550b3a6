"""What providers can cache of a prompt: each request begins with the bytes of the one before."""

from pathlib import Path
from typing import Any

import pytest
from fake_llm import call, reason, say
from prompt_prefixes import rendered_prefix, shares
from world import World

pytestmark = pytest.mark.one_daemon


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_more_than_95_percent_of_a_prompt_was_in_the_one_before_it(world: World, api: str) -> None:
    (world.project / "AGENTS.md").write_text("Say please.\n" * 4)
    (world.project / "src").mkdir()
    (world.project / "src/AGENTS.md").write_text("Only here: tabs.\n")
    (world.project / "src/main.py").write_text("x = 1\n")
    world.script(
        reason("Look first.", call("edit", command="view", path="AGENTS.md")),
        reason("Then there.", call("edit", command="view", path="src/main.py")),
        call("terminal", command="echo done"),
        call("think", thought="So it is."),
        say("Done."),
        call("glob", pattern="**/*.py"),
        say("One file."),
    )
    client = world.daemon(settings={"llm": {"api": api, "baseUrl": world.llm.url}})
    look_at(client, world.project / "src/main.py")
    conversation = world.start(client, "What is here?")
    world.turn(client)
    look_at(client, world.project / "AGENTS.md")
    world.send(client, conversation, "And Python?")
    world.turn(client, nth=2)
    requests = [r for r in world.llm.requests if r.body.get("tools")]
    assert len(requests) == 7
    assert min(shares(requests)) > 0.95
    assert {request.body["prompt_cache_key"] for request in requests} == {conversation}
    assert requests[0].path == ("/v1/responses" if api == "responses" else "/v1/chat/completions")
    last = rendered_prefix(requests[-1]).decode()
    sealed_parts = [m.get("encrypted_content") for m in requests[-1].body.get("input", ())]
    thoughts = ["sealed:Look first.", "sealed:Then there."] if api == "responses" else []
    assert [each for each in sealed_parts if each] == thoughts
    assert all(words in last for words in ("Say please.", "Only here: tabs.", "active: AGENTS.md"))


def look_at(client: Any, path: Path) -> None:
    client.notify("editor/contextChanged", {"activeUri": path.as_uri()})
