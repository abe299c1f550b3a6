"""What the user sets for the model is in the request that the endpoint gets, from every source."""

import json
from typing import Any

from command_line import SCRIPT, end, environment, start
from fake_llm import call, raw, say, with_usage
from world import KEY, World, text

Json = dict[str, Any]
SAMPLING = {"temperature": 0.25, "topP": 0.5, "topK": 7, "reasoningEffort": "low"}
BODY = {"temperature": 0.25, "top_p": 0.5, "top_k": 7, "reasoning_effort": "low"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}


def test_every_parameter_of_a_settings_file_is_in_the_request(world: World) -> None:
    llm = {
        **SAMPLING,
        "baseUrl": world.llm.url,
        "maxOutputTokens": 99,
        "extraHeaders": {"x-team": "blue"},
        "extraBody": {"seed": 3},
    }
    settings = {"model": "openai/from-file", "llm": llm}
    (world.home / "mine.json").write_text(json.dumps(settings))
    world.script(say("Done."))
    args = [SCRIPT, "run", "Do it", "--settings", str(world.home / "mine.json")]
    env = environment(world.home, OH_DAEMON_API_KEY=KEY)
    assert end(start(args, world.project, env)).code == 0
    [request] = world.llm.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "blue"
    expected = {**BODY, "model": "from-file", "max_tokens": 99, "seed": 3}
    assert {name: request.body[name] for name in expected} == expected


def test_a_dialect_an_address_and_a_version_come_from_the_client(world: World) -> None:
    world.script(raw(b""), say("Done."))
    url = world.llm.url.removesuffix("/v1")
    llm: Json = {"baseUrl": url, "customLlmProvider": "anthropic", "maxAttempts": 1}
    client = world.daemon(settings={"model": "claude-next", "llm": llm})
    world.start(client)
    client.wait_for_event("turn.paused")
    client.close()
    azure = {**llm, "apiVersion": "2024-10-21", "customLlmProvider": "azure"}
    second = world.daemon(settings={"model": "deployment", "llm": azure})
    world.start(second)
    world.turn(second)
    first, versioned = world.llm.requests
    assert (first.path, first.body["model"]) == ("/v1/messages", "claude-next")
    assert first.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert versioned.path.endswith("/deployment/chat/completions?api-version=2024-10-21")


def test_a_providers_own_variable_for_the_address_counts_when_no_setting_names_one(
    world: World,
) -> None:
    world.variables |= {"OH_DAEMON_BASE_URL": "", "OPENAI_BASE_URL": world.llm.url}
    (world.project / ".openhands").mkdir()
    repository = {"llm": {"baseUrl": "http://127.0.0.1:9/"}}
    (world.project / ".openhands/settings.json").write_text(json.dumps(repository))
    world.script(say("Done."))
    client = world.daemon()
    world.start(client)
    assert world.turn(client)["finalText"] == "Done."
    assert world.llm.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_image_of_a_message_is_in_the_request_and_in_every_one_after_it(world: World) -> None:
    world.script(call("think", thought="a cat"), say("A cat."))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    content = [*text("What is this?"), IMAGE]
    client.request("conversation/sendMessage", {"conversationId": conversation, "content": content})
    world.turn(client)
    url = {"url": "data:image/png;base64,iVBORw0KGgo="}
    sent = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": url},
    ]
    assert [r.body["messages"][1]["content"] for r in world.llm.requests] == [sent, sent]


def test_usage_and_cost_are_told_per_call_turn_and_conversation(world: World) -> None:
    used = {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.5}
    steps = [call("think", thought="x"), say("One."), say("Two.")]
    world.script(*(with_usage(step, used) for step in steps))
    client = world.daemon()
    conversation = world.start(client)
    first = world.turn(client)
    world.send(client, conversation, "more")
    second = world.turn(client, nth=2)
    calls = [e["event"] for e in client.events if e["event"]["type"] == "usage.updated"]
    assert [(c["usage"]["inputTokens"], c["usage"]["cost"]["amount"]) for c in calls] == [
        (100, 0.5)
    ] * 3
    assert all(c["model"] == "openai/fake" and c["latencyMs"] >= 0 for c in calls)
    sums = [
        first["usage"],
        second["usage"],
        client.request("conversation/read", {"conversationId": conversation})["conversation"][
            "usage"
        ],
    ]
    assert [(s["requests"], s["outputTokens"], s["cost"]["amount"]) for s in sums] == [
        (2, 20, 1.0),
        (1, 10, 0.5),
        (3, 30, 1.5),
    ]
