"""How turns and daemons end in the middle of something, and what can be done right after."""

import signal
from typing import Any

import pytest
from fake_llm import call, hang, say
from world import World, items, text, wait_for_status

Json = dict[str, Any]


def test_a_message_sent_while_the_turn_is_being_stopped_starts_the_next_one(world: World) -> None:
    stubborn = "trap '' INT TERM; echo started; while true; do sleep 0.1; done"
    world.script(call("terminal", command=stubborn, timeout_s=600), say("Next."), say("Last."))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for(lambda m: "started" in (m.get("params") or {}).get("text", ""))
    named = {"conversationId": conversation}
    client.send_request("conversation/interrupt", named)
    sent = [
        client.send_request("conversation/sendMessage", {**named, "content": text(words)})
        for words in ("first", "second")
    ]
    dispositions = [client.result_of(request)["disposition"] for request in sent]
    assert dispositions == ["interruptedAndStarted"] * 2
    assert world.turn(client)["status"] == "interrupted"
    world.turn(client, nth=3)
    said = [item["content"][0]["text"] for item in items(client, "userMessage")]
    assert said == ["go", "first", "second"]


def test_waiting_for_a_message_that_is_removed_is_answered(world: World) -> None:
    world.script(hang())
    client = world.daemon()
    conversation = world.start(client)
    world.llm.wait_for_requests(1)
    named = {"conversationId": conversation}
    message = {**named, "content": text("later"), "delivery": "queue", "wait": "completed"}
    request = client.send_request("conversation/sendMessage", message)
    queued = client.wait_for_event("message.queued")["event"]["message"]
    removal = {**named, "op": "remove", "messageId": queued["messageId"]}
    client.request("conversation/queue", removal)
    error = client.error_of(request)
    assert (error.code, error.data["kind"]) == (-31006, "invalidState")
    assert "taken from the queue" in error.message


def test_waiting_for_a_turn_that_is_interrupted_or_closed_is_answered_with_its_end(
    world: World,
) -> None:
    world.script(hang(), hang())
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    named = {"conversationId": conversation}
    message = {**named, "content": text("go"), "wait": "completed"}
    first = client.send_request("conversation/sendMessage", message)
    world.llm.wait_for_requests(1)
    turn_id = client.wait_for_event("turn.started")["turnId"]
    other = client.request("conversation/interrupt", {**named, "turnId": "another"})
    assert other["status"] == "running"
    client.request("conversation/interrupt", {**named, "turnId": turn_id})
    assert client.result_of(first)["turn"]["status"] == "interrupted"
    second = client.send_request("conversation/sendMessage", message)
    world.llm.wait_for_requests(2)
    client.request("conversation/close", {**named, "ifRunning": "pause"})
    assert client.result_of(second)["turn"]["status"] == "interrupted"


@pytest.mark.parametrize("end", ["eof", "exit", "SIGTERM", "SIGINT"])
def test_a_daemon_that_is_ended_records_what_it_stopped_and_leaves_nothing(
    world: World, end: str
) -> None:
    command = "(setsid sleep 300 &); echo started; sleep 300"
    world.script(call("terminal", command=command, timeout_s=600))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for(lambda m: "started" in (m.get("params") or {}).get("text", ""))
    match end:
        case "eof":
            client.close_stdin()
        case "exit":
            client.request("shutdown")
            client.notify("exit")
        case name:
            client.process.send_signal(signal.Signals[name])
    assert client.exit_code() == 0
    assert client.survivors() == []
    events = [record["event"] for record in world.records_of(conversation)]
    ended = [event for event in events if event["type"] == "turn.completed"]
    assert [event["turn"]["status"] for event in ended] == ["interrupted"]
    [item] = [
        event["item"]
        for event in events
        if event["type"] == "item.completed" and event["item"]["kind"] == "command"
    ]
    assert item["status"] == "cancelled"
    second = world.daemon()
    opened = second.request("conversation/open", {"conversationId": conversation})
    info = opened["conversation"]
    assert (info["status"], info["statusReason"]) == ("paused", "daemonRestarted")


def test_a_turn_stops_at_its_limit_of_steps_and_resume_goes_on(world: World) -> None:
    world.script(*(call("think", thought="x") for _ in range(2)), say("Done."))
    client = world.daemon()
    conversation = world.start(client, maxSteps=2)
    assert world.turn(client)["stopReason"] == "maxSteps"
    assert wait_for_status(client, "paused")["event"]["reason"] == "budget"
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client, nth=2)["finalText"] == "Done."
