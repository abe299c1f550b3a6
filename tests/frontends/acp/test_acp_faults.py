"""`oh-daemon acp` when something goes wrong: the provider, a server, or a client that stops."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_server
from acp_client import AcpClient
from fake_llm import call, cut_step, error, first_user_text, say, script_by_key
from world import World

from oh_daemon.jsonrpc.outbox import STALL_ABOVE_BYTES

Json = dict[str, Any]
Start = Callable[..., AcpClient]


def test_a_refused_key_is_one_error_that_says_where_keys_come_from(
    client: AcpClient, world: World
) -> None:
    world.script(error(401, "Incorrect API key provided"))
    session = client.new(world.project)
    actual_error = client.error_of(client.send_prompt(session, "Hi"))
    assert actual_error.code == -32000
    assert "start it again" in actual_error.data["hint"]
    assert client.text() == ""
    assert client.request("authenticate", {"methodId": "environment"}) == {}
    assert client.error("authenticate", {"methodId": "no-such"}).code == -32602
    assert client.request("logout") == {}


def test_without_a_model_the_client_is_told_to_sign_in(start: Start, world: World) -> None:
    world.variables["OH_DAEMON_MODEL"] = ""
    client = start()
    client.initialize()
    params = {"cwd": str(world.project), "mcpServers": []}
    assert client.error("session/new", params).code == -32000
    assert client.error("authenticate", {"methodId": "environment"}).code == -32000


def test_an_answer_that_breaks_off_and_comes_again_is_told_apart(
    client: AcpClient, world: World
) -> None:
    full_answer = say("A whole answer.", n_chunks=3)
    world.script(cut_step(full_answer, 700), full_answer)
    session = client.new(world.project)
    assert client.prompt(session, "Hi") == {"stopReason": "end_turn"}
    first_part, mark, again = client.text().partition("[The answer broke off; here it is")
    assert mark
    assert first_part.strip() == "" or "A whole answer.".startswith(first_part.strip())
    assert again.endswith("A whole answer.")


def test_a_failure_of_the_provider_is_told_and_the_session_goes_on(
    client: AcpClient, world: World
) -> None:
    world.script(error(400, "the context is wrong"), say("Better."))
    session = client.new(world.project)
    assert client.prompt(session, "Hi") == {"stopReason": "end_turn"}
    assert "the context is wrong" in client.text()
    assert client.prompt(session, "/continue") == {"stopReason": "end_turn"}
    assert client.text().endswith("Better.")


def test_what_a_sub_agent_asks_is_asked_in_the_session(client: AcpClient, world: World) -> None:
    task = {"task": "child makes it", "title": "Make it", "agent": "general"}
    scripts = {
        "parent": [call("delegate", tasks=[task]), say("All done.")],
        "child": [call("terminal", command="touch made"), say("Made.")],
    }
    world.llm.play(script_by_key(lambda request: first_user_text(request).split()[0], scripts))
    client.allow()
    session = client.new(world.project)
    assert client.prompt(session, "parent") == {"stopReason": "end_turn"}
    [permission_request] = client.requests_of("session/request_permission")
    assert permission_request["sessionId"] == session
    assert (world.project / "made").exists()
    assert client.text().endswith("All done.")
    status = {each["toolCallId"]: each.get("status") for each in client.updates("tool_call_update")}
    assert set(status.values()) == {"completed"}


def test_servers_of_the_client_are_the_session_s_own_and_their_secrets_stay_hidden(
    client: AcpClient, world: World
) -> None:
    secret = "planted-8d2f61c09a7b"
    env = [{"name": "SHOP_TOKEN", "value": secret}]
    server = {"name": "shop", "command": sys.executable, "args": [mcp_server.__file__], "env": env}
    broken_server = {"name": "broken", "command": "/no/such/program", "args": [secret], "env": []}
    with_it = client.new(world.project, mcpServers=[server, broken_server])
    without = client.new(world.project)
    world.script(say("One."), say("Two."))
    client.prompt(with_it, f"Use {secret}")
    client.prompt(without, "Use nothing")
    first, second = (
        {tool["function"]["name"] for tool in request.body["tools"]}
        for request in world.llm.requests
    )
    assert {name for name in first - second if name.startswith("shop__")}
    client.close()
    paths = [path for path in world.home.rglob("*") if path.is_file()]
    logs = [path for path in world.project.rglob("*") if path.is_file()]
    assert [path for path in [*paths, *logs] if secret.encode() in path.read_bytes()] == []
    assert secret not in str(client.messages)


def test_a_client_that_stops_reading_costs_bounded_memory_and_no_answer(
    client: AcpClient, world: World
) -> None:
    long = "0123456789abcdef" * (STALL_ABOVE_BYTES // 16 + 1)
    world.script(say(long, n_chunks=40), say(long, n_chunks=40), say("Short."))
    session = client.new(world.project)
    client.wait_for_update("available_commands_update")
    client.stop_reading()
    prompts = [client.send_prompt(session, word) for word in ("One", "Two", "Three")]
    world.llm.wait_for_requests(3)
    status = Path(f"/proc/{client.process.pid}/status").read_text()
    [peak] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    assert int(peak) < 600_000  # kB
    client.read_on()
    for prompt in prompts:
        assert client.result_of(prompt) == {"stopReason": "end_turn"}
    assert "was left out" in client.text()
    assert client.text().startswith(long)
