"""What providers can cache of a prompt: each request begins with the bytes of the one before."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fake_llm import Recorded, call, reason, say
from world import World

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def rendered(request: Recorded) -> bytes:
    """Return the prompt in the order in which providers read it: tools, system prompt, the rest."""
    body = request.body
    messages: list[Json] = body["messages"] if "messages" in body else body["input"]
    prompt = [body.get("tools"), body.get("instructions"), *messages]
    return b"\n".join(json.dumps(part, ensure_ascii=False).encode() for part in prompt)


def shares(requests: list[Recorded]) -> list[float]:
    """Return which share of each later prompt repeats the beginning of the one before it."""
    prompts = [rendered(request) for request in requests]
    return [
        next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before)
        )
        / len(after)
        for before, after in pairwise(prompts)
    ]


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
    last = rendered(requests[-1]).decode()
    sealed = [m.get("encrypted_content") for m in requests[-1].body.get("input", ())]
    thoughts = ["sealed:Look first.", "sealed:Then there."] if api == "responses" else []
    assert [each for each in sealed if each] == thoughts
    assert all(words in last for words in ("Say please.", "Only here: tabs.", "active: AGENTS.md"))


def look_at(client: Any, path: Path) -> None:
    client.notify("editor/contextChanged", {"activeUri": path.as_uri()})
