"""Sending, steering, queueing, pausing, resuming and interrupting, through the real daemon."""

from fake_llm import call, calls, hang, say
from world import World, content_of, items, text


def test_a_message_runs_a_turn_to_its_end(world: World) -> None:
    world.script(call("terminal", command="echo from-the-shell"), say("Done."))
    client = world.daemon()
    conversation = world.start(client, "Say hello")
    turn = world.turn(client)
    assert (turn["status"], turn["stopReason"], turn["finalText"]) == (
        "completed",
        "endTurn",
        "Done.",
    )
    [command] = items(client, "command")
    assert "from-the-shell" in content_of(command)
    assert command["exitCode"] == 0
    info = client.request("conversation/list")["conversations"]
    assert [(i["id"], i["status"], i["title"]) for i in info] == [
        (conversation, "idle", "Say hello")
    ]


def test_finish_ends_the_turn_and_skips_what_comes_after_it(world: World) -> None:
    world.script(calls(call("finish", message="All good"), call("terminal", command="touch never")))
    client = world.daemon()
    world.start(client)
    turn = world.turn(client)
    assert (turn["stopReason"], turn["finalText"]) == ("finished", "All good")
    assert not (world.project / "never").exists()
    skipped = [i for i in items(client, "toolCall") if i["tool"] == "terminal"]
    assert [i["reason"] for i in skipped] == ["skipped"]


def test_interrupt_ends_a_command_and_its_processes(world: World) -> None:
    world.script(call("terminal", command="sleep 300", timeout_s=600))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for_event(lambda p: p["event"].get("status") == "running")
    result = client.request("conversation/interrupt", {"conversationId": conversation})
    assert result["status"] == "interrupted"
    assert world.turn(client)["status"] == "interrupted"
    [command] = items(client, "command")
    assert (command["status"], command["reason"]) == ("cancelled", "interrupted")


def test_interrupt_closes_the_socket_of_a_model_that_hangs(world: World) -> None:
    world.script(hang())
    client = world.daemon()
    conversation = world.start(client)
    [request] = world.llm.wait_for_requests(1)
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert request.closed.wait(10)


def test_a_message_while_running_steers_the_turn(world: World) -> None:
    world.script(call("terminal", command="read line; echo got-$line", timeout_s=0.2), say("Yes."))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for_event(lambda p: p["event"].get("status") == "running")
    params = {"conversationId": conversation, "content": text("and be quick")}
    assert client.request("conversation/sendMessage", params)["disposition"] == "steered"
    world.turn(client)
    last = world.llm.requests[-1].body["messages"]
    assert any(m["role"] == "user" and "and be quick" in str(m["content"]) for m in last)
    assert len([e for e in client.events if e["event"]["type"] == "turn.started"]) == 1
