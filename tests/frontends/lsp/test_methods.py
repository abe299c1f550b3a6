"""Every public method has an end-to-end test; those without a file of their own are here."""

import re
import threading
import time
from typing import Any

import pytest
from fake_llm import call, calls, error, hang, hold_step, say
from language_server import FEATURES
from places import TESTS
from raw_client import RawClient
from world import KEY, PRODUCT, World, content_of, items, text, wait_for_status, wait_for_words

from oh_daemon.conformance.rpc_process import WITHIN_S
from oh_daemon.protocol.base import FIELD_CODES
from oh_daemon.protocol.methods import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    COMMANDS,
    LIMITS,
    NOTIFICATIONS,
    REQUESTS,
)

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def test_every_public_method_is_used_with_success_by_a_test() -> None:
    """A `request` that passes was answered with a result; a list of what is refused is no use."""
    sources = "".join(path.read_text() for path in TESTS.rglob("*.py"))
    notification_names = [method.name for method in CLIENT_NOTIFICATIONS]
    uses = {
        ".request(": [*(method.name for method in REQUESTS), "workspace/executeCommand"],
        ".notify(": [*notification_names, "$/cancelRequest", "window/workDoneProgress/cancel"],
        ".answer(": [method.name for method in CLIENT_REQUESTS],
        "run(": COMMANDS,
    }
    calls = {use: re.findall(rf'{re.escape(use)}\s*"([^"]+)"', sources) for use in uses}
    method_names = re.findall(r'(?:notifications\(|== )"([^"]+)"', sources)
    assert [name for use, names in uses.items() for name in names if name not in calls[use]] == []
    assert {"$/progress", *(method.name for method in NOTIFICATIONS)} <= set(method_names)


def test_the_daemon_tells_about_itself_its_tools_models_and_settings(world: World) -> None:
    (world.project / ".openhands").mkdir()
    (world.project / ".openhands/settings.json").write_text('{"approval": "askNever"}')
    client = world.daemon(settings={"llm": {"apiKey": KEY}, "maxSteps": 7, "nonsense": 1})
    status = client.request("daemon/status")
    assert (status["pid"], status["conversations"]) == (client.process.pid, [])
    assert status["rssBytes"] > 1 << 20
    tools = client.request("tool/list")["tools"]
    names = {tool["name"] for tool in tools}
    assert names == {
        *("terminal", "edit", "grep", "glob", "list", "ask", "todo", "think", "finish"),
        "delegate",
        "memory",
    }
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools)
    changing = {t["name"] for t in tools if not t["annotations"]["readOnlyHint"]}
    assert changing == {"terminal", "edit", "memory"}
    models = client.request("model/list")
    assert models["default"] == "openai/fake"
    models_by_id = {model["id"]: model for model in models["models"]}
    assert models_by_id["openai/fake"]["available"] is True
    assert "ANTHROPIC_API_KEY" in models_by_id["anthropic/claude-sonnet-5-5"]["reason"]
    config = client.request("config/read")
    assert config["value"]["maxSteps"] == 7
    assert config["sources"]["maxSteps"] == "client"
    assert config["value"]["approval"] == "askRisky"
    assert any("loosen" in problem for problem in config["problems"])
    assert any("nonsense" in problem for problem in config["problems"])
    assert KEY not in str(config)
    assert client.request("config/read", {"section": "mode"})["value"] == {"mode": "ask"}


def test_a_key_and_a_server_are_tried_before_they_are_used(world: World) -> None:
    """A key for one address is not told to another, which may be anybody's."""
    client, url = world.daemon(settings={"llm": {"extraHeaders": {"x-key": KEY}}}), world.llm.url
    world.script(say("yes"), error(401, f"Incorrect API key provided: {KEY}"), say("yes"))
    assert client.request("model/check") == {"model": "openai/fake"}
    refusal = client.error("model/check", {"model": "openai/fake"})
    assert refusal.data["kind"] == "authRequired"
    assert "Incorrect" in refusal.message
    world.llm.models = [{"id": "qwen3"}, {"id": "gpt-oss"}]
    world.llm.lookups.clear()
    models = client.request("model/discover", {"baseUrl": f"{url}/"})
    assert models == {"baseUrl": url, "models": ["qwen3", "gpt-oss"]}
    check_params = {"model": "hosted_vllm/qwen3", "baseUrl": url}
    assert client.request("model/check", check_params)["model"] == "hosted_vllm/qwen3"
    assert [request.body["model"] for request in world.llm.requests] == ["fake", "fake", "qwen3"]
    assert KEY in str(world.llm.requests[0].headers)
    assert KEY not in str([each.headers for each in (*world.llm.lookups, world.llm.requests[-1])])
    assert world.llm.lookups
    secret_params = {"name": "HOSTED_VLLM_API_KEY", "value": "sk-of-ones-own-0123456789"}
    client.request("secret/set", secret_params)
    world.script(say("yes"))
    client.request("model/check", check_params)
    assert world.llm.requests[-1].headers["authorization"] == f"Bearer {secret_params['value']}"
    other_error = client.error("model/discover", {"baseUrl": "http://127.0.0.1:9"})
    assert other_error.message == "http://127.0.0.1:9 lists no models"


@pytest.mark.parametrize("by_patch", [False, True])
def test_an_argument_that_a_tool_does_not_know_is_named_with_those_it_knows(
    world: World, by_patch: bool
) -> None:
    """If it were silently ignored, a `cwd` would let a command run in another folder."""
    client = world.daemon(features=FEATURES, settings={"llm": {"editsByPatch": by_patch}})
    conversation = client.request("conversation/start", {})["conversation"]["id"]
    actual_tools = client.request("tool/list", {"conversationId": conversation})["tools"]
    tools = {tool["name"]: tool["inputSchema"] for tool in actual_tools}
    assert {"rename", "lookup", "diagnostics", "memory"} <= tools.keys()
    assert ("apply_patch" in tools) == by_patch
    world.script(calls(*(call(name, cwd="sub") for name in tools)), say("I see."))
    world.send(client, conversation, "go")
    world.turn(client)
    content_by_tool = {
        i["tool"]: content_of(i) for i in items(client, "toolCall") if i["status"] == "failed"
    }
    assert content_by_tool.keys() == tools.keys()
    for name, schema in tools.items():
        assert "'cwd' was unexpected" in content_by_tool[name]
        assert f"It takes: {', '.join(schema['properties'])}." in content_by_tool[name]


def test_a_key_that_the_editor_lends_is_used_and_shown_nowhere(world: World) -> None:
    secret = "lent-key-0123456789"
    world.script(error(401, "no key"), say(f"It is {secret}, is it?"))
    environment = {**world.environment, "OH_DAEMON_API_KEY": "", "OPENAI_API_KEY": ""}
    client = world.stack.enter_context(RawClient.start(PRODUCT, world.project, environment))
    client.initialize([world.project])
    params = {"conversationId": world.start(client)}
    assert world.turn(client)["error"]["kind"] == "authRequired"
    for wrong in ({"name": "a b", "value": secret}, {"name": "OPENAI_API_KEY", "value": "brief"}):
        refusal = client.error("secret/set", wrong)
        assert (refusal.code, refusal.data["kind"]) == (-32602, "invalidParams")
        assert wrong["value"] not in str(refusal)
    names = client.request("secret/set", {"name": "OPENAI_API_KEY", "value": secret})["names"]
    assert names == client.request("secret/list")["names"] == ["OPENAI_API_KEY"]
    client.request("conversation/resume", params)
    assert world.turn(client, nth=2)["status"] == "completed"
    assert world.llm.requests[-1].headers["authorization"] == f"Bearer {secret}"
    files = [path for root in (world.home, world.project) for path in root.rglob("*")]
    assert [path for path in files if path.is_file() and secret.encode() in path.read_bytes()] == []
    assert secret not in str(client.events)
    assert client.request("secret/remove", {"name": "OPENAI_API_KEY"})["names"] == []


def test_settings_are_checked_before_they_are_kept(world: World) -> None:
    client = world.daemon()
    assert client.request("config/validate", {"settings": {"maxSteps": 7}})["problems"] == []
    wrong = {"maxSteps": 0, "modle": "x", "llm": {"temperature": 9}}
    problems = client.request("config/validate", {"settings": wrong})["problems"]
    expected = ("maxSteps: must be 1 or more", "'modle'", "temperature: must be 2 or less")
    assert [part in text for part, text in zip(expected, problems, strict=True)] == [True] * 3
    loose = {"settings": {"approval": "askNever"}, "source": "project"}
    assert "loosen" in str(client.request("config/validate", loose)["problems"])


def test_settings_are_asked_from_a_client_that_can_be_asked_and_may_be_taken_back(
    world: World,
) -> None:
    settings_given: list[Json] = [{"maxSteps": 7, "approval": "askNever"}]
    requests: list[Json] = []

    def answer(params: Json) -> list[Json]:
        requests.append(params)
        return settings_given

    client = world.raw()
    client.answer("workspace/configuration", answer)
    client.initialize(
        [world.project], params={"capabilities": {"workspace": {"configuration": True}}}
    )

    def wait_for_steps_and_approval(n_steps: int, approval: str) -> None:
        deadline, paths = time.monotonic() + WITHIN_S, ()
        while paths != (n_steps, approval):
            assert time.monotonic() < deadline, paths
            value = client.request("config/read")["value"]
            paths = (value["maxSteps"], value["approval"])

    wait_for_steps_and_approval(7, "askNever")
    assert requests == [{"items": [{"section": "ohDaemon"}]}]
    settings_given[0] = {"maxSteps": 8}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    wait_for_steps_and_approval(8, "askRisky")
    settings_given[0] = {}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    wait_for_steps_and_approval(100, "askRisky")


def test_a_long_output_is_read_in_pieces(world: World) -> None:
    world.script(call("terminal", command="seq 1 30000"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    [command] = items(client, "command")
    assert command["truncated"] is True
    full_text = "".join(f"{n}\n" for n in range(1, 30001))
    params: Json = {"conversationId": conversation, "outputRef": command["outputRef"]}
    text_made, offset = "", 0
    while True:
        piece = client.request("output/read", {**params, "offset": offset, "limit": 100_000})
        text_made, offset = text_made + piece["text"], piece["nextOffset"]
        if offset == piece["total"]:
            break
    assert text_made.replace("\r\n", "\n") == full_text
    error = client.error("output/read", {**params, "outputRef": "0" * 64})
    assert (error.code, error.data["kind"]) == (-32803, "requestFailed")
    assert "0" * 64 in error.message


def test_no_limit_cuts_a_character_of_an_output_in_two(world: World) -> None:
    world.script(call("terminal", command="for n in $(seq 5000); do echo é€😀; done"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    [command] = items(client, "command")
    params: Json = {"conversationId": conversation, "outputRef": command["outputRef"]}
    full_text, offset = "", 0
    for limit in (1, 2, 3, 4, 5, 6, 7, 8, 262_144):
        piece = client.request("output/read", {**params, "offset": offset, "limit": limit})
        full_text, offset = full_text + piece["text"], piece["nextOffset"]
    assert full_text.replace("\r\n", "\n") == "é€😀\n" * 5000
    assert offset == piece["total"]
    past = client.request("output/read", {**params, "offset": offset + 9})
    assert past == {"text": "", "nextOffset": offset, "total": offset}


def test_an_option_counts_from_the_next_step_on(world: World) -> None:
    world.script(call("terminal", command="touch made"), say("Planned."))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    params = {"conversationId": conversation, "optionId": "mode", "value": "plan"}
    options = client.request("conversation/setOption", params)["options"]
    assert {option["id"]: option["value"] for option in options}["mode"] == "plan"
    world.send(client, conversation, "go")
    world.turn(client)
    assert not (world.project / "made").exists()
    [command] = items(client, "command")
    assert command["status"] == "rejected"
    for wrong in ({"optionId": "color"}, {"value": "wild"}):
        error = client.error("conversation/setOption", {**params, **wrong})
        assert (error.code, error.data["kind"]) == (-32602, "invalidParams")


def test_how_much_a_model_thinks_is_an_option_where_it_knows_levels(world: World) -> None:
    world.script(say("Thought."), say("As usual."))
    client = world.daemon(settings={"models": ["openai/gpt-5.1"]})
    models = client.request("model/list")["models"]
    efforts_by_id = {model["id"]: model.get("efforts") for model in models}
    plain = client.request("conversation/start")
    assert [option["id"] for option in plain["options"]] == ["mode", "approval", "model"]
    start_result = client.request("conversation/start", {"options": {"model": "openai/gpt-5.1"}})
    effort = start_result["options"][-1]
    assert (effort["id"], effort["value"]) == ("effort", "default")
    levels = ["default", "none", "low", "medium", "high"]
    assert [choice["value"] for choice in effort["choices"]] == levels
    assert (efforts_by_id["openai/gpt-5.1"], efforts_by_id["openai/fake"]) == (levels[1:], None)
    params = {"conversationId": start_result["conversation"]["id"], "optionId": "effort"}
    wrong = client.error("conversation/setOption", {**params, "value": "xhigh"})
    assert (wrong.code, "default, none, low" in wrong.message) == (-32602, True)
    for value in ("high", "default"):
        options = client.request("conversation/setOption", {**params, "value": value})["options"]
        assert options[-1]["value"] == value
        world.send(client, start_result["conversation"]["id"], "go", wait="completed")
    efforts = [request.body.get("reasoning_effort") for request in world.llm.requests]
    assert efforts == ["high", None]


def test_unsubscribing_stops_events_and_subscribing_starts_them_where_it_says(
    world: World,
) -> None:
    world.script(say("Unheard."), say("Heard."))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    params = {"conversationId": conversation}
    client.wait_for_event("conversation.created")
    client.request("conversation/unsubscribe", params)
    n_before = len(client.events)
    world.send(client, conversation, "one", wait="completed")
    assert len(client.events) == n_before
    client.wait_for(
        lambda message: (
            message.get("method") == "conversation/changed"
            and message["params"]["conversation"]["status"] == "idle"
            and message["params"]["conversation"]["messageCount"] == 2
        )
    )
    subscription = client.request("conversation/subscribe", params)
    world.send(client, conversation, "two", wait="completed")
    assert client.events[n_before]["seq"] == subscription["lastSeq"] + 1
    assert world.turn(client)["finalText"] == "Heard."


def test_events_deltas_and_lists_are_told(world: World) -> None:
    world.script(say("Hello, world.", n_chunks=4))
    client = world.daemon()
    conversation = world.start(client)
    wait_for_status(client, "idle")
    [answer] = items(client, "agentMessage")
    deltas = [
        delta
        for delta in client.notifications("conversation/delta")
        if delta["itemId"] == answer["id"]
    ]
    assert "".join(delta["text"] for delta in deltas) == answer["text"]
    changes = client.notifications("conversation/changed")
    assert changes[0]["change"] == "created"
    assert {change["conversation"]["id"] for change in changes} == {conversation}
    assert client.notifications("conversation/event") == [
        {"conversationId": conversation, "epoch": client.events[0]["epoch"], **record}
        for record in world.records_of(conversation)[: len(client.events)]
    ]


def test_a_log_that_cannot_be_written_is_told_and_resume_goes_on_when_it_can(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(call("think", thought="x"), gate), say("Done."), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    world.llm.wait_for_requests(1)
    log = world.log_of(conversation)
    log.rename(log.with_name("away"))
    gate.set()
    notification = client.wait_for(lambda m: m.get("method") == "daemon/statusChanged")["params"]
    assert (notification["conversationId"], notification["kind"]) == (conversation, "error")
    assert notification["error"]["kind"] == "storage"
    client.wait_for(lambda m: "storage" in str(m.get("params", {}).get("conversation")))
    [info] = client.request("conversation/list")["conversations"]
    assert (info["status"], info["statusReason"]) == ("paused", "storage")
    assert client.request("conversation/read", params)["conversation"]["status"] == "paused"
    for method in ("conversation/resume", "conversation/pause"):
        assert client.error(method, params).data["kind"] == "storage"
    log.with_name("away").rename(log)
    client.request("conversation/resume", params)
    assert world.turn(client)["finalText"] == "Done."
    # The status is idle twice: when the conversation began, and now.
    client.wait_for(
        lambda m: m.get("params", {}).get("conversation", {}).get("status") == "idle", nth=2
    )
    summaries = [c["conversation"] for c in client.notifications("conversation/changed")]
    assert [(c["status"], c.get("statusReason")) for c in summaries[-3:]] == [
        ("paused", "storage"),
        ("running", None),
        ("idle", None),
    ]
    log.unlink()
    client.request("conversation/close", params)
    assert client.request("daemon/status")["conversations"] == []


def test_progress_is_shown_per_turn_and_its_cancel_interrupts(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(call("terminal", command="true"), gate, after=0), hang())
    client = world.raw()
    client.answer("window/workDoneProgress/create", lambda _params: None)
    client.initialize(
        [world.project],
        params={
            "capabilities": {"window": {"workDoneProgress": True}},
            "initializationOptions": {
                "ohDaemon": {"trust": [{"folder": world.project.as_uri(), "trusted": True}]}
            },
        },
    )
    world.start(client, "Do it")
    notification = client.wait_for(lambda message: message.get("method") == "$/progress")["params"]
    gate.set()
    world.llm.wait_for_requests(2)
    assert (notification["value"]["kind"], notification["value"]["title"]) == ("begin", "Do it")
    assert notification["value"]["cancellable"] is True
    client.notify("window/workDoneProgress/cancel", {"token": notification["token"]})
    assert world.turn(client)["status"] == "interrupted"
    client.wait_for(
        lambda message: (
            message.get("method") == "$/progress" and message["params"]["value"]["kind"] == "end"
        )
    )
    reports = [progress["value"] for progress in client.notifications("$/progress")]
    assert {"kind": "report", "message": "Run true"} in reports


def test_commands_mirror_the_methods(world: World) -> None:
    world.script(hang(), hang(), hang(), call("terminal", command="touch made"), say("Done."))
    client = world.daemon()

    def run(command: str, *arguments: Any) -> Any:
        return client.request(
            "workspace/executeCommand", {"command": command, "arguments": list(arguments)}
        )

    for command in ("ohDaemon.send", "ohDaemon.pause"):
        error = client.error("workspace/executeCommand", {"command": command, "arguments": ["x"]})
        assert (error.code, "ohDaemon.start" in error.message) == (-31006, True)
    start_result = run("ohDaemon.start", "hello")
    world.llm.wait_for_requests(1)
    assert run("ohDaemon.pause", {"when": "now"})["turnId"] == start_result["turnId"]
    client.wait_for_event("turn.paused")
    run("ohDaemon.resume")
    world.llm.wait_for_requests(2)
    assert run("ohDaemon.send", "to the left")["disposition"] == "steered"
    assert run("ohDaemon.interrupt")["status"] == "interrupted"
    run("ohDaemon.send", {"content": text("once more")})
    world.llm.wait_for_requests(3)
    run("ohDaemon.interrupt")
    run("ohDaemon.send", "make it")
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    answer = {
        "approvalId": approval["id"],
        "digest": approval["digest"],
        "optionId": "allow-once",
    }
    assert run("ohDaemon.approve", answer)["resolved"] is True
    assert world.turn(client, nth=3)["finalText"] == "Done."
    assert (world.project / "made").exists()
    error = client.error("workspace/executeCommand", {"command": "ohDaemon.dance"})
    assert (error.code, error.data["errors"][0]["path"]) == (-32602, "command")


BAD: list[tuple[str, Json, str]] = [
    ("conversation/start", {"maxSteps": 0}, "maxSteps"),
    ("conversation/start", {"options": {"approval": "perhaps"}}, "options.approval"),
    ("conversation/start", {"folders": ["no/such"]}, "folders"),
    ("conversation/start", {"folders": ["/no/such/folder"]}, "folders"),
    ("conversation/start", {"content": []}, "content"),
    ("conversation/start", {"content": [{"type": "song"}]}, "content.0"),
    ("conversation/open", {}, "conversationId"),
    ("conversation/open", {"conversationId": "c", "replay": "all"}, "replay"),
    ("conversation/close", {"conversationId": 7}, "conversationId"),
    ("conversation/list", {"limit": 1000}, "limit"),
    ("conversation/update", {"conversationId": "c", "title": ""}, "title"),
    ("conversation/delete", {"conversationId": "c", "permanent": "soon"}, "permanent"),
    ("conversation/read", {"conversationId": ""}, "conversationId"),
    ("conversation/events", {"conversationId": "c", "afterSeq": -1}, "afterSeq"),
    ("conversation/sendMessage", {"conversationId": "c"}, "content"),
    ("conversation/pause", {"conversationId": "c", "when": "soon"}, "when"),
    ("conversation/resume", {"conversationId": "c", "message": "text"}, "message"),
    ("conversation/interrupt", {}, "conversationId"),
    ("conversation/queue", {"conversationId": "c", "op": "shuffle"}, "op"),
    ("conversation/setOption", {"conversationId": "c", "optionId": "mode"}, "value"),
    ("conversation/subscribe", {}, "conversationId"),
    ("conversation/unsubscribe", {}, "conversationId"),
    ("approval/list", {"conversationId": []}, "conversationId"),
    ("approval/respond", {"approvalId": "a"}, "digest"),
    ("changes/list", {}, "conversationId"),
    ("changes/diff", {"conversationId": "c"}, "uri"),
    ("changes/keep", {"conversationId": "c", "hunks": [{"uri": "u"}]}, "hunks.0.oldStart"),
    ("changes/undo", {"conversationId": "c", "uris": "u"}, "uris"),
    ("output/read", {"conversationId": "c", "outputRef": "../../etc"}, "outputRef"),
    ("tool/list", {"conversationId": {}}, "conversationId"),
    ("config/read", {"section": "colour"}, "section"),
    ("config/validate", {"settings": []}, "settings"),
    ("conversation/start", {"ephemeral": "no"}, "ephemeral"),
    ("conversation/start", {"maxSteps": "3"}, "maxSteps"),
    ("conversation/list", {"limit": True}, "limit"),
    ("conversation/start", {"content": [{"type": "text", "text": " "}]}, "content"),
    ("workspace/executeCommand", {}, "command"),
    ("secret/set", {"name": "KEY"}, "value"),
    ("secret/set", {"name": "KEY", "value": "short"}, "value"),
    ("secret/remove", {}, "name"),
    ("workspace/setTrust", {"folder": "/x", "trusted": "maybe"}, "trusted"),
    ("workspace/setTrust", {"folder": "x", "trusted": "full"}, "folder"),
]
UNKNOWN = [
    ("conversation/open", -31002),
    ("conversation/close", -31002),
    ("conversation/read", -31002),
    ("conversation/update", -31002),
    ("conversation/events", -31002),
    ("conversation/pause", -31002),
    ("conversation/resume", -31002),
    ("conversation/interrupt", -31002),
    ("conversation/queue", -31002),
    ("conversation/subscribe", -31002),
    ("tool/list", -31002),
    ("changes/list", -31002),
    ("changes/undo", -31002),
    ("approval/list", -31002),
]


def test_bad_params_are_refused_by_name_with_the_way_out(world: World) -> None:
    client = world.daemon()
    answers = [client.send_request(method, params) for method, params, _ in BAD]
    for request, (method, params, field) in zip(answers, BAD, strict=True):
        error = client.error_of(request)
        assert (method, params, error.code) == (method, params, -32602), error
        assert field in {problem["path"] for problem in error.data["errors"]}, (method, error)
        assert any(part in error.message for part in (field, field.split(".")[-1])), error
        assert {problem["code"] for problem in error.data["errors"]} <= FIELD_CODES.keys(), error
    for method, code in UNKNOWN:
        error = client.error(method, {"conversationId": "nowhere"})
        assert (method, error.code) == (method, code), error
        assert "conversation/list" in error.data["hint"]
    request_params = {"approvalId": "none", "digest": "d", "optionId": "allow-once"}
    error = client.error("approval/respond", request_params)
    assert (error.code, error.data["kind"]) == (-31021, "approvalNotFound")
    assert client.request("daemon/status")["conversations"] == []


def test_the_path_of_a_wrong_field_is_that_of_the_params(world: World) -> None:
    client = world.daemon()
    request_params = {"conversationId": client.request("conversation/start")["conversation"]["id"]}
    words = {"content": [{"type": "text", "text": "go"}]}
    command = [{"type": "command", "name": "nope"}]
    for method, params, path in (
        ("conversation/setOption", {"optionId": "mode", "value": "yolo"}, "value"),
        ("conversation/setOption", {"optionId": "colour", "value": "red"}, "optionId"),
        (
            "conversation/sendMessage",
            {**words, "overrides": {"options": {"mode": "yolo"}}},
            "overrides.options.mode",
        ),
        ("conversation/resume", {"message": command}, "message.0.name"),
    ):
        [problem] = client.error(method, {**request_params, **params}).data["errors"]
        assert (method, problem["path"], problem["code"]) == (method, path, "unknown")


@pytest.mark.own_daemon
def test_initialize_says_which_features_and_settings_it_has_understood(world: World) -> None:
    features = {"approvalRequests": True, "aplyEdit2": True, "diagnostics": False}
    client = world.daemon(features=features, settings={"maxStep": 5, "titles": False})
    assert client.capabilities["experimental"]["ohDaemon"]["understood"] == {
        "features": ["approvalRequests"],
        "unknown": ["features.aplyEdit2", "settings.maxStep"],
    }
    again = world.raw()
    block = {"features": {"diagnostics": "yes"}}
    error = again.error("initialize", {"initializationOptions": {"ohDaemon": block}})
    [problem] = error.data["errors"]
    assert problem["path"] == "initializationOptions.ohDaemon.features.diagnostics"
    assert problem["code"] == "wrong_type"


@pytest.mark.own_daemon
def test_what_vendors_add_is_neither_refused_nor_reported_nor_heeded(world: World) -> None:
    """Rules X1 to X3 of docs/protocol/extensions.md."""
    server = {"command": "true", "enabled": False, "_acmeColor": "red"}
    settings = {"_acmeTheme": 1, "llm": {"_meta": {}}, "mcpServers": {"shop": server}}
    client = world.daemon(features={"_acmeTickets": True}, settings=settings, _meta={"a": 1})
    block = client.capabilities["experimental"]["ohDaemon"]
    assert block["understood"]["unknown"] == []
    assert client.request("config/read")["problems"] == []
    assert client.request("config/validate", {"settings": settings}) == {"problems": []}
    start_result = client.request(
        "conversation/start",
        {
            "content": [{"type": "text", "text": "go", "_meta": {"span": 7}}],
            "tools": {"deny": ["fetch"], "_meta": None},
            "_meta": {"trace": "00-1"},
            "_acmeTicket": {"id": 7},
        },
    )
    assert start_result["conversation"]["metadata"] == {}
    client.notify("_acme/seen", {"ticket": 7})
    assert client.error("_acme/ticket", {"id": 7}).code == -32601
    first = {"clientRequestId": "r-1", "optionId": "mode", "value": "plan"}
    params = {**first, "conversationId": start_result["conversation"]["id"]}
    client.request("conversation/setOption", {**params, "_meta": {"trace": "00-2"}})
    client.wait_for_event("options.changed")
    again = client.request("conversation/setOption", {**params, "_meta": {"trace": "00-3"}})
    assert again["duplicate"] is True


@pytest.mark.own_daemon
def test_a_client_is_told_what_holds_commands_and_why_it_is_not_more(world: World) -> None:
    def sandbox_report(client: RawClient) -> tuple[Any, Any]:
        early = client.capabilities["experimental"]["ohDaemon"].get("sandbox")
        return early, client.request("daemon/status")["sandbox"]

    world.variables["OH_DAEMON_SANDBOX"] = ""
    first, level_report = sandbox_report(world.daemon())
    assert level_report == {"level": "overlay", "setting": "auto"}
    assert first in (
        None,
        level_report,
    )  # The first start waits a moment only; the next need not wait.
    assert sandbox_report(world.daemon()) == (level_report, level_report)
    off = {"level": "off", "setting": "off"}
    assert sandbox_report(world.daemon(settings={"sandbox": "off"})) == (off, off)


@pytest.mark.own_daemon
def test_a_result_from_another_machine_or_of_nonsense_is_not_told(world: World) -> None:
    world.daemon().request("daemon/status")
    [cache_file] = world.home.rglob("sandbox.json")
    cache_file.write_text(cache_file.read_text("utf-8").replace("true", "false"), "utf-8")
    client = world.daemon(settings={"sandbox": "landlock"})
    notification = client.wait_for(lambda message: message.get("method") == "daemon/statusChanged")
    assert notification["params"]["message"] == "what holds commands that run unasked: landlock"
    cache_file.write_text('{"machine": []}')
    again = world.daemon(settings={"sandbox": "landlock"})
    assert again.request("daemon/status")["sandbox"]["level"] == "landlock"


def test_the_limits_that_are_announced_hold(world: World) -> None:
    client = world.daemon()
    assert client.capabilities["experimental"]["ohDaemon"]["limits"] == LIMITS
    conversation = client.request("conversation/start")["conversation"]["id"]
    request_params = {"conversationId": conversation}

    def wrong(method: str, **params: Any) -> str:
        error = client.error(method, {**request_params, **params})
        assert error.code == -32602
        return error.data["errors"][0]["path"]

    send, image = "conversation/sendMessage", {"type": "image", "mimeType": "image/png"}
    assert wrong(send, content=text("x" * (LIMITS["textPartBytes"] + 1))) == "content.0.text.text"
    assert wrong(send, content=text("x") * (LIMITS["partsPerMessage"] + 1)) == "content"
    images = [{**image, "data": "eA=="}] * (LIMITS["imagesPerMessage"] + 1)
    assert wrong(send, content=images) == "content"
    assert wrong("conversation/events", limit=LIMITS["eventsPerPage"] + 1) == "limit"
    assert wrong("conversation/list", limit=LIMITS["conversationsPerPage"] + 1) == "limit"
    for _ in range(LIMITS["queuedMessages"]):
        world.send(client, conversation, "later", run=False)
    error = client.error(send, {**request_params, "content": text("one more"), "run": False})
    assert (error.code, error.data["retryable"]) == (-31013, True)
    assert (
        len(client.request("conversation/queue", {**request_params, "op": "list"})["queue"]) == 32
    )


def test_output_of_a_running_command_is_streamed(world: World) -> None:
    world.script(call("terminal", command="echo early; read line", timeout_s=600), say("Done."))
    client = world.daemon()
    world.start(client)
    world.turn(client)
    [command] = items(client, "command")
    deltas = [
        delta["text"]
        for delta in client.notifications("conversation/delta")
        if (delta["itemId"], delta["channel"]) == (command["id"], "output")
    ]
    assert "early" in "".join(deltas)
    assert "early" in content_of(command)


@pytest.mark.own_daemon
def test_a_client_that_does_not_read_is_told_the_gap_and_finds_all_in_the_log(world: World) -> None:
    client = world.raw(reading=False)
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    block = {"ohDaemon": {"features": {"approvalRequests": True}, "trust": trust}}
    folders = [{"uri": world.project.as_uri(), "name": "project"}]
    params = {"capabilities": {}, "workspaceFolders": folders, "initializationOptions": block}
    client.send_request("initialize", {"processId": None, **params})
    client.notify("initialized")
    start_result = client.send_request("conversation/start", {"clientRequestId": "one"})
    message = {"content": text("x" * (1 << 20)), "run": False}
    send = {"command": "ohDaemon.send", "arguments": [message]}
    requests = [client.send_request("workspace/executeCommand", send) for _ in range(14)]
    wait_for_words(world.home / "daemon.log", b"events wait", 1)
    [log] = world.project.glob(".openhands/conversations/*/events.jsonl")
    wait_for_words(log, b'"message.queued"', 14)
    client.read_on()
    client.result_of(requests[-1])
    gap = client.wait_for(lambda m: m.get("method") == "conversation/gap")["params"]
    request_params = {"conversationId": client.result_of(start_result)["conversation"]["id"]}
    assert gap["conversationId"] == request_params["conversationId"]
    numbers: list[int] = []
    while not numbers or numbers[-1] < gap["toSeq"]:
        after = numbers[-1] if numbers else gap["fromSeq"] - 1
        page = client.request("conversation/events", {**request_params, "afterSeq": after})
        numbers += [event["seq"] for event in page["events"]]
    assert numbers[: gap["toSeq"] - gap["fromSeq"] + 1] == list(
        range(gap["fromSeq"], gap["toSeq"] + 1)
    )


def test_a_panel_shows_questions_itself_and_gets_no_events_it_does_not_want(world: World) -> None:
    world.script(call("terminal", command="touch made"), say("Done."))
    client = world.daemon(
        client={"name": "own", "kind": "panel"},
        features={"approvalRequests": False},
        events={"optOut": ["usage.updated", "item.updated"]},
    )
    requests: list[Json] = []
    client.answer("approval/request", requests.append)
    world.start(client, options={"approval": "askRisky"})
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    wait_for_status(client, "waiting")
    answer = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**answer, "optionId": "allow-once"})
    world.turn(client)
    assert (world.project / "made").exists()
    assert requests == []
    assert not {"usage.updated", "item.updated"} & {e["event"]["type"] for e in client.events}


@pytest.mark.own_daemon
def test_settings_limit_the_open_conversations_and_choose_the_log_level(world: World) -> None:
    client = world.daemon(settings={"maxOpenConversations": 1, "logLevel": "DEBUG"})
    first = client.request("conversation/start")["conversation"]["id"]
    error = client.error("conversation/start")
    assert (error.code, error.data["kind"]) == (-31013, "overloaded")
    client.request("conversation/close", {"conversationId": first})
    client.request("conversation/start")
    client.notify("editor/unknown", {})
    client.close_stdin()
    client.exit_code()
    assert "DEBUG" in (world.home / "daemon.log").read_text()


def test_encoding_of_a_file_is_asked_from_a_client_with_settings(world: World) -> None:
    path = world.project / "odd.txt"
    path.write_bytes("x = 'щи'\n".encode("cp1251"))
    requests: list[Json] = []

    def answer(params: Json) -> list[Any]:
        requests.append(params)
        return [
            "windows1251" if item["section"] == "files.encoding" else {} for item in params["items"]
        ]

    world.script(call("edit", command="view", path="odd.txt"), say("Done."))
    client = world.raw()
    client.answer("workspace/configuration", answer)
    client.initialize(
        [world.project], params={"capabilities": {"workspace": {"configuration": True}}}
    )
    world.start(client)
    world.turn(client)
    assert "Read as cp1251, which the user's editor has" in content_of(items(client, "toolCall")[0])
    assert {"items": [{"scopeUri": path.as_uri(), "section": "files.encoding"}]} in requests
