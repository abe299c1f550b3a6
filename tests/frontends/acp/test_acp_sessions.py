"""Sessions of `oh-daemon acp`: begun, loaded again, listed, forked, changed and ended."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acp_client import AcpClient, wait_for_answer
from fake_llm import call, hang, hold_step, say
from long_log import repeat_turn
from world import World

Json = dict[str, Any]
Start = Callable[..., AcpClient]
Initialized = Callable[..., AcpClient]


def start_client(start: Start, **options: Any) -> AcpClient:
    client = start(**options)
    client.initialize()
    return client


def of(session: str, cwd: Path) -> Json:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


def test_the_approval_of_an_edit_shows_both_texts_also_after_a_restart(
    start: Start, world: World
) -> None:
    path = world.project / "a.py"
    path.write_text("x = 1\ny = 2\n")
    change = call("edit", command="replace", path="a.py", old_text="x = 1", new_text="x = 3")
    world.script(call("edit", command="view", path="a.py"), change, say("Done."))
    diff = {
        "type": "diff",
        "path": str(path),
        "oldText": "x = 1\ny = 2\n",
        "newText": "x = 3\ny = 2\n",
    }
    first = start_client(start)
    first.answer("session/request_permission", wait_for_answer)
    session = first.new(world.project)
    first.send_prompt(session, "Change it")
    permission_request = first.wait_for_request("session/request_permission")
    assert permission_request["toolCall"]["content"][0] == diff
    first.kill()

    second = start_client(start)
    second.allow()
    second.request("session/load", of(session, world.project))
    assert [each["content"]["text"] for each in second.updates("user_message_chunk")] == [
        "Change it"
    ]
    assert second.updates("tool_call")[-1]["content"] == [diff]
    assert second.prompt(session, "/continue") == {"stopReason": "end_turn"}
    [again] = second.requests_of("session/request_permission")
    assert again["toolCall"]["content"][0] == diff
    assert path.read_text() == "x = 3\ny = 2\n"
    assert second.text().endswith("Done.")


def test_what_waited_is_asked_again_before_the_next_prompt_is_sent(
    start: Start, world: World
) -> None:
    world.script(call("terminal", command="touch made"))
    first = start_client(start)
    first.answer("session/request_permission", wait_for_answer)
    session = first.new(world.project)
    first.send_prompt(session, "Make it")
    first.wait_for_request("session/request_permission")
    first.kill()

    world.script(say("It is made, and here is the rest."))
    second = start_client(start)
    second.allow()
    second.request("session/resume", of(session, world.project))
    assert second.updates("user_message_chunk", "tool_call") == []
    assert second.prompt(session, "And now?") == {"stopReason": "end_turn"}
    assert (world.project / "made").exists()
    texts = [m["content"] for m in world.llm.requests[-1].body["messages"] if m["role"] == "user"]
    assert "And now?" in str(texts[-1])
    assert second.prompt(session, "/continue") == {"stopReason": "end_turn"}
    assert second.text().endswith("There is nothing to go on with.")


def test_a_list_without_a_folder_knows_the_sessions_of_all_folders(
    start: Start, world: World, tmp_path: Path
) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    first = start_client(start)
    project_session, home_session, _silent_session = (
        first.new(each) for each in (world.project, other_folder, other_folder)
    )
    world.script(say("Hello."), say("Hello."))
    first.prompt(project_session, "Say hello here")
    first.prompt(home_session, "Say hello there")
    first.close()

    second = start_client(start)
    sessions = second.request("session/list")["sessions"]
    assert [(each["sessionId"], each["cwd"], each["title"]) for each in sessions] == [
        (home_session, str(other_folder), "Say hello there"),
        (project_session, str(world.project), "Say hello here"),
    ]
    [only] = second.request("session/list", {"cwd": str(other_folder)})["sessions"]
    assert only["sessionId"] == home_session
    assert second.error("session/list", {"cursor": "nonsense"}).code == -32602
    assert second.request("session/delete", {"sessionId": home_session}) == {}
    assert second.request("session/delete", {"sessionId": "no-such"}) == {}
    [session_left] = second.request("session/list")["sessions"]
    assert session_left["sessionId"] == project_session


def test_a_session_closes_in_the_middle_of_its_turn_and_loads_again(
    client: AcpClient, world: World
) -> None:
    world.script(hang(say("Half.")), say("Whole."))
    session = client.new(world.project)
    prompt = client.send_prompt(session, "Say it")
    client.wait_for_update("agent_message_chunk")
    assert client.request("session/close", {"sessionId": session}) == {}
    assert client.result_of(prompt) == {"stopReason": "cancelled"}
    assert client.error("session/prompt", {"sessionId": session, "prompt": []}).code == -32002
    client.request("session/load", of(session, world.project))
    assert client.prompt(session, "Again") == {"stopReason": "end_turn"}


def test_two_sessions_begin_at_once_and_work_side_by_side(client: AcpClient, world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(say("Slow."), gate))
    params = {"cwd": str(world.project)}  # Some clients send no `mcpServers`.
    requests = [client.send_request("session/new", params) for _ in range(2)]
    slow, fast = (client.result_of(each)["sessionId"] for each in requests)
    first = client.send_prompt(slow, "One")
    world.llm.wait_for_requests(1)
    world.script(say("Fast."))
    assert client.prompt(fast, "Two") == {"stopReason": "end_turn"}
    assert not client.has_answer(first)
    gate.set()
    assert client.result_of(first) == {"stopReason": "end_turn"}


def test_a_session_of_another_agent_says_who_has_it(start: Start, world: World) -> None:
    first, second = start_client(start), start_client(start)
    session = first.new(world.project)
    error = second.error("session/load", of(session, world.project))
    assert str(first.process.pid) in error.message
    assert second.error("session/load", of("no-such", world.project)).code == -32002
    first.request("session/close", {"sessionId": session})
    assert "modes" in second.request("session/load", of(session, world.project))


def test_an_open_session_loads_again_and_shows_all(client: AcpClient, world: World) -> None:
    world.script(say("Hello."))
    session = client.new(world.project)
    client.prompt(session, "Say hello")
    load_result = client.request("session/load", of(session, world.project))
    assert load_result["modes"]["currentModeId"] == "ask"
    assert client.text() == "Hello.Hello."


def test_load_replays_every_step_of_a_long_session(start: Start, world: World) -> None:
    world.script(call("terminal", command="echo said"), say("Done."))
    first = start_client(start)
    first.allow()
    session = first.new(world.project)
    first.prompt(session, "Say it")
    first.close()
    repeat_turn(world.log_of(session), n_events=3000)

    second = start_client(start)
    second.request("session/load", of(session, world.project))
    kinds = Counter(
        record["event"]["item"]["kind"]
        for record in world.records_of(session)
        if record["event"]["type"] == "item.completed"
    )
    assert kinds.total() > 500
    updates = second.updates("user_message_chunk", "tool_call", "agent_message_chunk")
    assert updates[0]["content"]["text"] == "Say it"
    assert Counter(each["sessionUpdate"] for each in updates) == {
        "user_message_chunk": kinds["userMessage"],
        "tool_call": kinds["command"],
        "agent_message_chunk": kinds["agentMessage"],
    }


def test_a_fork_goes_on_by_itself(start: Start, world: World) -> None:
    world.script(say("One."), say("Two."))
    client = start()
    able = client.initialize()["agentCapabilities"]["sessionCapabilities"]
    assert able["fork"] == {}
    session = client.new(world.project)
    client.prompt(session, "First")
    fork_result = client.request("session/fork", of(session, world.project))["sessionId"]
    client.prompt(fork_result, "Second")
    texts = [m["content"] for m in world.llm.requests[-1].body["messages"]]
    assert "One." in str(texts)
    assert len(client.request("session/list")["sessions"]) == 2


def test_modes_and_options_change_and_are_told(client: AcpClient, world: World) -> None:
    session = client.new(world.project)
    assert client.request("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    assert client.wait_for_update("current_mode_update")["currentModeId"] == "plan"
    params = {"sessionId": session, "configId": "approval", "value": "askAlways"}
    options = client.request("session/set_config_option", params)["configOptions"]
    now = {each["id"]: each["currentValue"] for each in options}
    assert now == {"mode": "plan", "approval": "askAlways", "model": "openai/fake"}
    wrong = {"sessionId": session, "modeId": "no-such"}
    assert client.error("session/set_mode", wrong).code == -32602


def test_commands_are_listed_and_compact_condenses(client: AcpClient, world: World) -> None:
    session = client.new(world.project)
    commands = client.wait_for_update("available_commands_update")["availableCommands"]
    assert {"fix", "review", "continue", "compact"} <= {each["name"] for each in commands}
    world.script(say("Hello."), say("A summary."))
    client.prompt(session, "Say hello")
    assert client.prompt(session, "/compact the greeting") == {"stopReason": "end_turn"}
