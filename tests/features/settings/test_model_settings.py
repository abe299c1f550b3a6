"""Settings for the model, from every source, are in the request that the endpoint gets."""

import json
from typing import Any

import pytest
from command_line import end, environment, start
from fake_llm import Step, call, error, hang, raw, say, with_usage
from model_calls import anthropic_block, claude, thinking_chunk, thinking_sent, tool_use
from starts import SCRIPT
from world import KEY, World, items, text

pytestmark = pytest.mark.one_daemon

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
    first, versioned_request = world.llm.requests
    assert (first.path, first.body["model"]) == ("/v1/messages", "claude-next")
    assert first.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert versioned_request.path.endswith("/deployment/chat/completions?api-version=2024-10-21")


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


@pytest.mark.parametrize("setting", ["timeoutS", "firstTokenTimeoutS"])
def test_a_call_that_takes_longer_than_the_settings_allow_ends_its_request(
    world: World, setting: str
) -> None:
    world.script(hang())
    client = world.daemon(settings={"llm": {setting: 1, "maxAttempts": 1}})
    world.start(client)
    message = client.wait_for_event("error.raised")["event"]["error"]["message"]
    assert "1 s" in message
    assert client.wait_for_event("turn.paused")
    assert world.llm.requests[0].close_event.wait(60)


def test_an_image_of_a_message_is_in_the_request_and_in_every_one_after_it(world: World) -> None:
    world.script(call("think", thought="a cat"), say("A cat."))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    content = [*text("What is this?"), IMAGE]
    client.request("conversation/sendMessage", {"conversationId": conversation, "content": content})
    world.turn(client)
    url = {"url": "data:image/png;base64,iVBORw0KGgo="}
    content_text = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": url},
    ]
    assert [r.body["messages"][1]["content"] for r in world.llm.requests] == [
        content_text,
        content_text,
    ]


def test_a_profile_is_offered_chosen_for_one_turn_and_falls_back_in_the_open(world: World) -> None:
    world.llm.play(lambda r: error(503) if r["model"] == "down" else say(r["model"]))
    profiles = {
        "plain": {"model": "openai/plain"},
        "safe": {"model": "openai/down", "llm": {"maxAttempts": 1}, "fallbacks": ["plain"]},
    }
    routers = {"auto": {"models": ["plain"]}}
    client = world.daemon(settings={"profiles": profiles, "routers": routers})
    models = client.request("model/list")["models"]
    assert [model["id"] for model in models[:3]] == ["plain", "safe", "auto"]
    conversation = world.start(client, "one")
    assert world.turn(client)["finalText"] == "fake"
    overrides = {"options": {"model": "safe"}}
    world.send(client, conversation, "two", overrides=overrides)
    assert world.turn(client, nth=2)["finalText"] == "plain"
    retry = client.wait_for_event("retry.scheduled")["event"]
    assert (retry["model"], "503" in retry["error"]["message"]) == ("plain", True)
    world.send(client, conversation, "three")
    assert world.turn(client, nth=3)["finalText"] == "fake"
    params = {"conversationId": conversation, "optionId": "model", "value": "auto"}
    options = client.request("conversation/setOption", params)["options"]
    [picker] = [option for option in options if option["id"] == "model"]
    assert [choice["value"] for choice in picker["choices"]] == ["auto", "plain", "safe"]
    world.send(client, conversation, "four")
    assert world.turn(client, nth=4)["finalText"] == "plain"
    models_used = [
        e["event"]["model"] for e in client.events if e["event"]["type"] == "usage.updated"
    ]
    assert models_used == ["openai/fake", "openai/plain", "openai/fake", "openai/plain"]
    assert client.request("conversation/list")["conversations"][0]["model"] == "auto"


def test_routers_choose_by_image_size_cost_and_chance_and_lead_to_fallbacks(world: World) -> None:
    world.llm.play(lambda r: error(503) if r["model"] == "down" else say(r["model"]))
    profiles: Json = {
        "blind": {"model": "openai/gpt-audio"},
        "small": {"model": "openai/small", "llm": {"contextWindow": 16}},
        "large": {"model": "openai/large", "llm": {"inputCostPerToken": 1e-6}},
        "dear": {"model": "openai/dear", "llm": {"inputCostPerToken": 9e-6}},
        "safe": {"model": "openai/down", "llm": {"maxAttempts": 1}, "fallbacks": ["cheap"]},
    }
    routers: Json = {
        "seeing": {"models": ["blind", "large"]},
        "wide": {"models": ["small", "dear"]},
        "cheap": {"models": ["dear", "large"], "pick": "cheapest"},
        "any": {"models": ["dear", "large"], "pick": "random"},
        "top": {"models": ["safe"]},
    }
    client = world.daemon(settings={"profiles": profiles, "routers": routers})
    conversation = world.start(client, "Hello", options={"model": "seeing"})
    texts = [world.turn(client)["finalText"]]
    turns: list[tuple[str, list[Json]]] = [
        ("wide", text("Hello")),
        ("cheap", text("Hello")),
        ("any", text("Hello")),
        ("any", text("Hello")),
        ("top", text("Hello")),
        ("seeing", [*text("What is this?"), IMAGE]),
    ]
    for nth, (router, content) in enumerate(turns, 2):
        params = {"content": content, "overrides": {"options": {"model": router}}}
        client.request("conversation/sendMessage", {"conversationId": conversation, **params})
        texts.append(world.turn(client, nth=nth)["finalText"])
    by_chance = texts[3]
    assert by_chance in {"dear", "large"}
    assert texts == ["gpt-audio", "dear", "large", by_chance, by_chance, "large", "large"]


def test_what_a_model_can_do_is_up_to_the_user_then_the_endpoint_then_the_table(
    world: World,
) -> None:
    metadata = {"max_model_len": 90_000, "supported_parameters": ["temperature"]}
    world.llm.models = [{"id": name, **metadata} for name in ("gpt-4o-mini", "gpt-4.1")]
    world.llm.play(lambda _: say("Hi."))
    own = {"contextWindow": 70_000, "nativeToolCalling": True}
    profiles: Json = {
        "default": {"model": "openai/nobodys"},
        "table": {"model": "openai/gpt-4o"},
        "endpoint": {"model": "openai/gpt-4o-mini"},
        "user": {"model": "openai/gpt-4.1", "llm": own},
    }
    client = world.daemon(settings={"profiles": profiles})
    conversation = world.start(client, options={"model": "default"})
    world.turn(client)
    for nth, profile in enumerate(("table", "endpoint", "user"), 2):
        world.send(client, conversation, "go", overrides={"options": {"model": profile}})
        world.turn(client, nth=nth)
    usages = [e["event"] for e in client.events if e["event"]["type"] == "usage.updated"]
    sizes = [usage.get("contextSize") for usage in usages]
    calls_functions = ["tools" in request.body for request in world.llm.requests]
    assert sizes == [None, 128_000, 90_000, 70_000]
    assert calls_functions == [True, True, False, True]


def test_a_conversation_goes_to_a_model_without_function_calling_and_back(world: World) -> None:
    echoes = (
        {"name": "terminal", "arguments": {"command": f"echo {word}"}}
        for word in ("in-text", "beside")
    )
    in_one_answer = "\n".join(f"<tool_call>\n{json.dumps(e)}\n</tool_call>" for e in echoes)
    world.script(
        call("terminal", command="echo native"),
        say("One."),
        say(in_one_answer),
        say("Two."),
        say("Three."),
    )
    plain = {"model": "openai/plain", "llm": {"nativeToolCalling": False}}
    client = world.daemon(settings={"profiles": {"plain": plain}})
    conversation = world.start(client, "Begin")
    world.turn(client)
    overrides = {"options": {"model": "plain"}}
    world.send(client, conversation, "In text", overrides=overrides)
    assert world.turn(client, nth=2)["finalText"] == "Two."
    world.send(client, conversation, "And back")
    assert world.turn(client, nth=3)["finalText"] == "Three."
    bodies = [request.body for request in world.llm.requests]
    assert ["tools" in body for body in bodies] == [True, True, False, False, True]
    assert not any("tool_calls" in m or m["role"] == "tool" for m in bodies[3]["messages"])
    in_text = json.dumps(bodies[3]["messages"])
    words = ("native", "in-text", "beside")
    assert all(f'<tool_result of=\\"terminal\\">\\n{word}' in in_text for word in words)
    call_ids = [c["id"] for m in bodies[4]["messages"] for c in m.get("tool_calls", ())]
    answered_ids = [m["tool_call_id"] for m in bodies[4]["messages"] if m["role"] == "tool"]
    assert call_ids == answered_ids
    assert len(set(call_ids)) == 3


def test_signed_thinking_goes_back_unmodified(world: World) -> None:
    block = anthropic_block(
        0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
    )
    thinking = "Hm \u2028 <b>."
    world.script(
        claude(
            thinking_chunk(thinking), tool_use("toolu_1", "think", thought="x"), stop="tool_use"
        ),
        claude(block, stop="end_turn"),
    )
    llm = {"baseUrl": world.llm.url.removesuffix("/v1"), "reasoningEffort": "low", "apiKey": KEY}
    client = world.daemon(settings={"model": "anthropic/claude-sonnet-4-5", "llm": llm})
    world.start(client)
    assert world.turn(client)["finalText"] == "Done."
    actual_thinking = thinking_sent(world.llm.requests[-1].body)
    assert actual_thinking == [
        {"type": "thinking", "thinking": thinking, "signature": f"SIG({thinking})"}
    ]


def test_a_request_that_does_not_fit_is_condensed_and_the_log_keeps_everything(
    world: World,
) -> None:
    too_long = error(400, "This model's maximum context length is 1000 tokens")
    looks = [call("terminal", command=f"echo line-{n}") for n in range(6)]
    world.script(*looks, too_long, error(429, "too fast"))
    client = world.daemon(settings={"condenser": "summarize", "llm": {"maxAttempts": 1}})
    conversation = world.start(client, "Echo six lines")
    client.wait_for_event(lambda p: p["event"].get("to") == "paused")
    world.script(too_long, say("Six lines were echoed."), say("Done."), say("Now."))
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client)["finalText"] == "Done."
    world.send(client, conversation, "And now?")
    world.turn(client, nth=2)
    messages_text = json.dumps(world.llm.requests[-1].body["messages"])
    assert "Six lines were echoed." in messages_text
    assert "And now?" in messages_text
    cut_off, item = items(client, "condensation")
    assert (cut_off["status"], item["reason"]) == ("cancelled", "overflow")
    assert "echo line-0" not in messages_text
    assert "echo line-0" in world.log_of(conversation).read_text()
    assert not [e for e in client.events if e["event"]["type"] == "retry.scheduled"]


@pytest.mark.parametrize(
    ("condenser", "blocks"),
    [
        ("none", []),
        ("window", [("windowFull", None, 0)]),
        ("prune", [("windowFull", None, 2)]),
        ("summarize", [("windowFull", "Two looks.", 0)]),
        ("pipeline", [("windowFull", None, 2)]),
    ],
)
def test_a_window_that_fills_is_condensed_before_it_overflows_as_the_setting_says(
    world: World, condenser: str, blocks: list[Json]
) -> None:
    looks = iter([call("terminal", command="seq 1000 3999")] * 3)

    def answer(request: Json) -> Step:
        if "tools" not in request:
            return say("Two looks.")
        n_tokens = len(json.dumps(request["messages"])) // 4
        usage = {"prompt_tokens": n_tokens, "completion_tokens": 5, "total_tokens": n_tokens + 5}
        return with_usage(next(looks, say("Done.")), usage)

    world.llm.play(answer)
    client = world.daemon(settings={"condenser": condenser, "llm": {"contextWindow": 16_000}})
    world.start(client, "Look three times")
    assert world.turn(client)["finalText"] == "Done."
    condensations = items(client, "condensation")
    assert [
        (item["reason"], item.get("summary"), len(item.get("pruned", ()))) for item in condensations
    ] == blocks
    last = json.dumps(world.llm.requests[-1].body["messages"])
    assert "Look three times" in last
    assert (len(last) < 45_000) == bool(blocks)


def test_a_message_with_overrides_that_would_join_another_turn_is_refused(world: World) -> None:
    world.script(hang())
    client = world.daemon()
    conversation = world.start(client)
    world.llm.wait_for_requests(1)
    params = {
        "conversationId": conversation,
        "content": text("x"),
        "overrides": {"options": {"mode": "plan"}},
    }
    refusal = client.error("conversation/sendMessage", params)
    assert (refusal.code, "queue or interrupt" in refusal.message) == (-31006, True)
    queue_result = client.request("conversation/sendMessage", {**params, "delivery": "queue"})
    assert queue_result["disposition"] == "queued"
    wrong = {**params, "overrides": {"options": {"mode": "wild"}}, "delivery": "queue"}
    assert client.error("conversation/sendMessage", wrong).code == -32602


@pytest.mark.own_daemon
def test_a_side_question_is_answered_billed_and_kept_where_the_user_wants_it(world: World) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.5}
    steps = [call("think", thought="x"), say("Done."), say("Because."), hang()]
    world.script(*(with_usage(step, usage) for step in steps))
    client = world.daemon(settings={"logCompletions": True})
    conversation = world.start(client)
    world.turn(client)
    params = {"conversationId": conversation, "question": "Why?"}
    answer = client.request("conversation/ask", params)
    assert (answer["text"], answer["usage"]["cost"]["amount"]) == ("Because.", 0.5)
    read = client.request("usage/read")
    assert (read["usage"]["requests"], read["usage"]["cost"]["amount"]) == (3, 1.5)
    assert [(each["model"], each["usage"]["requests"]) for each in read["byModel"]] == [
        ("openai/fake", 3)
    ]
    assert sum(day["usage"]["requests"] for day in read["byDay"]) == 3
    own = {"conversationId": conversation, "since": "2999-01-01"}
    assert client.request("usage/read", own)["byModel"] == []
    completion_files = sorted((world.log_of(conversation).parent / "completions").iterdir())
    assert [path.stem.rpartition("-")[2] for path in completion_files] == ["step", "step", "ask"]
    ask_request = client.send_request("conversation/ask", params)
    world.llm.wait_for_requests(4)
    client.notify("$/cancelRequest", {"id": ask_request})
    assert client.error_of(ask_request).code == -32800


def test_usage_and_cost_are_told_per_call_turn_and_conversation(world: World) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.5}
    steps = [call("think", thought="x"), say("One."), say("Two.")]
    world.script(*(with_usage(step, usage) for step in steps))
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
