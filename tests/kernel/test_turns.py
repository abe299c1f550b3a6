"""Sending, steering, queueing, pausing, resuming and interrupting, through the real daemon."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fake_llm import Step, call, calls, hang, hold_step, reason, say
from raw_client import RawClient
from world import World, content_of, items, text, wait_for_status

from oh_daemon.conformance.rpc_process import WITHIN_S

pytestmark = pytest.mark.one_daemon

STUBBORN = call(
    "terminal", command="trap '' INT TERM; echo ready; sleep 300; sleep 300", timeout_s=600
)
"""A shell and a sleep that no gentle signal ends: an interrupt takes a while."""


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


def test_a_thought_ends_when_the_answer_begins(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(reason("Hm.", say("Done.", n_chunks=2)), gate, after=3))
    client = world.daemon()
    world.start(client)
    answering = client.wait_for_event(
        lambda p: p["event"].get("item", {}).get("kind") == "agentMessage"
    )["event"]["item"]
    started_at = datetime.fromisoformat(answering["startedAt"])
    while datetime.now(UTC) - started_at < timedelta(milliseconds=1):
        pass  # The log does not tell times apart that are closer.
    gate.set()
    world.turn(client)
    [reasoning_item], [answer] = items(client, "reasoning"), items(client, "agentMessage")
    assert (
        reasoning_item["startedAt"]
        <= reasoning_item["endedAt"]
        == answer["startedAt"]
        < answer["endedAt"]
    )


def test_finish_ends_the_turn_and_skips_what_comes_after_it(world: World) -> None:
    world.script(calls(call("finish", message="All good"), call("terminal", command="touch never")))
    client = world.daemon()
    world.start(client)
    turn = world.turn(client)
    assert (turn["stopReason"], turn["finalText"]) == ("finished", "All good")
    assert not (world.project / "never").exists()
    [skipped_command] = items(client, "command")
    assert (skipped_command["status"], skipped_command["reason"]) == ("cancelled", "skipped")


def test_finish_gives_the_result_that_was_asked_for_also_after_the_log_is_opened_again(
    world: World,
) -> None:
    right = {"passed": 3, "files": ["a.py"]}
    world.script(
        call("finish", message="Done."),
        call("finish", message="Done.", result={"passed": "three", "files": []}),
        call("finish", message="Done.", result=right),
        call("finish", message="Again."),
        say("I have no number."),
    )
    client = world.daemon()
    counts = {"type": "object", "properties": {"passed": {"$ref": "#/$defs/n"}}}
    schema = {**counts, "$defs": {"n": {"type": "integer"}}, "required": ["passed"]}
    conversation = world.start(client, resultSchema=schema)
    turn = world.turn(client)
    assert (turn["finalText"], turn["result"], turn["nSteps"]) == ("Done.", right, 3)
    contents = [content_of(item) for item in items(client, "toolCall")[:2]]
    assert "'result' is a required property" in contents[0]
    assert "result.passed: 'three' is not of type 'integer'" in contents[1]

    client.request("conversation/close", {"conversationId": conversation})
    client.request("conversation/open", {"conversationId": conversation})
    world.send(client, conversation, "And now?")
    turn = world.turn(client, nth=2)
    assert (turn["stopReason"], turn.get("result"), turn["nSteps"]) == ("endTurn", None, 2)


def test_a_schema_of_a_result_that_is_none_is_refused_and_nothing_is_left(world: World) -> None:
    client = world.daemon()
    params = {"content": text("Go"), "resultSchema": {"type": "nonsense"}}
    error = client.error("conversation/start", params)
    assert error.code == -32602
    assert "resultSchema" in error.message
    assert client.request("conversation/list")["conversations"] == []


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
    assert request.close_event.wait(WITHIN_S)


def test_a_message_while_running_steers_the_turn(world: World) -> None:
    wait_command = "until [ -e steered ]; do sleep 0.05; done"
    world.script(call("terminal", command=wait_command, timeout_s=600), say("Yes."))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for_event(lambda p: p["event"].get("status") == "running")
    params = {"conversationId": conversation, "content": text("and be quick")}
    assert client.request("conversation/sendMessage", params)["disposition"] == "steered"
    (world.project / "steered").touch()
    world.turn(client)
    last = world.llm.requests[-1].body["messages"]
    assert any(m["role"] == "user" and "and be quick" in str(m["content"]) for m in last)
    assert len([e for e in client.events if e["event"]["type"] == "turn.started"]) == 1


def gate_steps(world: World, *after: Step) -> threading.Event:
    """Let the first model call of a turn wait for the returned event."""
    gate = threading.Event()
    world.script(hold_step(call("think", thought="first"), gate), *after)
    return gate


def user_texts(world: World) -> list[str]:
    """Return the user's messages in the last request to the model."""
    messages = world.llm.requests[-1].body["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "user"]


def test_queued_messages_start_turns_of_their_own_and_can_be_removed(world: World) -> None:
    gate = gate_steps(world, say("One."), say("Two."))
    client = world.daemon()
    conversation = world.start(client, "one")
    params = {"conversationId": conversation}
    world.llm.wait_for_requests(1)
    two = world.send(client, conversation, "two", delivery="queue")
    three = world.send(client, conversation, "three", delivery="queue")
    assert (two["disposition"], two["queuePosition"]) == ("queued", 0)
    assert three["queuePosition"] == 1
    queue = client.request("conversation/queue", params)["queue"]
    assert [message["messageId"] for message in queue] == [two["messageId"], three["messageId"]]
    removal = {**params, "op": "remove", "messageId": three["messageId"]}
    queue_left = client.request("conversation/queue", removal)["queue"]
    assert [message["messageId"] for message in queue_left] == [two["messageId"]]
    error = client.error("conversation/queue", removal)
    assert (error.code, error.data["kind"]) == (-31006, "invalidState")
    gate.set()
    assert world.turn(client)["finalText"] == "One."
    assert world.turn(client, nth=2)["finalText"] == "Two."
    assert [item["content"][0]["text"] for item in items(client, "userMessage")] == ["one", "two"]


def test_waiting_messages_are_edited_moved_and_sent_now(world: World) -> None:
    gate = gate_steps(world, say("One."), say("Both."))
    client = world.daemon()
    conversation = world.start(client, "one")
    request_params = {"conversationId": conversation}
    world.llm.wait_for_requests(1)
    ids = [
        world.send(client, conversation, words, delivery="queue")["messageId"]
        for words in ("two", "three", "four")
    ]

    def change(op: str, message_id: str, **more: Any) -> list[str]:
        params = {**request_params, "op": op, "messageId": message_id, **more}
        queue = client.request("conversation/queue", params)["queue"]
        return [message["content"][0]["text"] for message in queue]

    assert change("edit", ids[1], content=text("III")) == ["two", "III", "four"]
    assert change("move", ids[2], position=0) == ["four", "two", "III"]
    assert change("move", ids[0], position=9) == ["four", "III", "two"]
    assert change("remove", ids[2]) == ["III", "two"]
    assert change("sendNow", ids[0]) == ["III", "two"]
    for wrong in ({"op": "edit"}, {"op": "move", "messageId": ids[0]}):
        error = client.error("conversation/queue", {**request_params, **wrong})
        assert (error.code, error.data["kind"]) == (-32602, "invalidParams")
    gate.set()
    world.turn(client, nth=2)
    turns = [
        (e["turnId"], e["event"]["item"]["content"][0]["text"])
        for e in client.events
        if e["event"].get("item", {}).get("kind") == "userMessage"
    ]
    assert [words for _, words in turns] == ["one", "two", "III"]
    assert turns[0][0] == turns[1][0] != turns[2][0]


def test_a_message_that_was_kept_back_is_sent_when_the_user_says_so(world: World) -> None:
    world.script(say("Now."))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    receipt = world.send(client, conversation, "later", run=False)
    params = {"conversationId": conversation, "op": "sendNow", "messageId": receipt["messageId"]}
    assert client.request("conversation/queue", params)["queue"] == []
    assert world.turn(client)["finalText"] == "Now."


def test_a_message_that_interrupts_ends_the_turn_and_starts_the_next(world: World) -> None:
    world.script(hang(), say("New."))
    client = world.daemon()
    conversation = world.start(client, "old")
    world.llm.wait_for_requests(1)
    receipt = world.send(client, conversation, "new", delivery="interrupt", clientMessageId="m-1")
    assert receipt["disposition"] == "interruptedAndStarted"
    assert world.turn(client)["status"] == "interrupted"
    assert world.turn(client, nth=2)["finalText"] == "New."
    again = world.send(client, conversation, "new", delivery="interrupt", clientMessageId="m-1")
    assert (again["duplicate"], again["messageId"]) == (True, receipt["messageId"])
    assert len(items(client, "userMessage")) == 2


def test_steering_needs_the_turn_that_was_meant(world: World) -> None:
    gate = gate_steps(world, say("Done."), say("Later."))
    client = world.daemon()
    conversation = world.start(client)
    turn_id = client.wait_for_event("turn.started")["turnId"]
    world.llm.wait_for_requests(1)
    wrong = {"conversationId": conversation, "content": text("x"), "expectedTurnId": "t0"}
    error = client.error("conversation/sendMessage", wrong)
    assert (error.code, error.data["kind"]) == (-31005, "turnMismatch")
    receipt = world.send(client, conversation, "this way", delivery="steer", expectedTurnId=turn_id)
    assert (receipt["disposition"], receipt["turnId"]) == ("steered", turn_id)
    gate.set()
    world.turn(client)
    assert user_texts(world) == ["go", "this way"]
    sent_message = world.send(client, conversation, "nothing runs", delivery="steer")
    assert sent_message["disposition"] == "started"
    assert world.turn(client, nth=2)["finalText"] == "Later."


def test_pause_after_the_step_holds_the_turn_and_resume_goes_on(world: World) -> None:
    gate = gate_steps(world, say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    world.llm.wait_for_requests(1)
    pause_result = client.request("conversation/pause", params)
    assert pause_result["status"] == "pausing"
    assert client.request("conversation/pause", params) == pause_result
    gate.set()
    event = wait_for_status(client, "paused")
    assert event["event"]["reason"] == "user"
    assert [item["args"]["thought"] for item in items(client, "toolCall")] == ["first"]
    resume_result = client.request("conversation/resume", params)
    assert resume_result["turnId"] == pause_result["turnId"]
    assert world.turn(client)["finalText"] == "Done."
    event_types = [e["event"]["type"] for e in client.events]
    assert (event_types.count("turn.started"), event_types.count("pause.requested")) == (1, 1)
    error = client.error("conversation/resume", params)
    assert (error.code, error.data["kind"]) == (-31006, "invalidState")
    assert client.error("conversation/pause", params).code == -31006


def test_pause_now_cancels_the_step_and_a_message_resumes_the_turn(world: World) -> None:
    world.script(call("terminal", command="sleep 300", timeout_s=600), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for_event(lambda params: params["event"].get("status") == "running")
    client.request("conversation/pause", {"conversationId": conversation, "when": "now"})
    wait_for_status(client, "paused")
    [command] = items(client, "command")
    assert (command["status"], command["reason"]) == ("cancelled", "interrupted")
    receipt = world.send(client, conversation, "go on without it")
    assert receipt["disposition"] == "steered"
    assert world.turn(client)["finalText"] == "Done."
    assert user_texts(world) == ["go", "go on without it"]


def test_resume_continues_after_an_interrupted_turn(world: World) -> None:
    world.script(hang(), say("Back."))
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    world.llm.wait_for_requests(1)
    world.send(client, conversation, "later", delivery="queue")
    client.request("conversation/interrupt", {**params, "clearQueue": True})
    assert client.request("conversation/queue", params)["queue"] == []
    assert client.request("conversation/interrupt", params)["status"] == "idle"
    client.request("conversation/resume", params)
    assert world.turn(client, nth=2)["finalText"] == "Back."


def test_a_message_to_a_turn_that_is_being_interrupted_starts_the_next_one(world: World) -> None:
    world.script(STUBBORN, say("Next."))
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    client.wait_for(lambda m: "ready" in str(m.get("params", {}).get("text")))
    interrupt = client.send_request("conversation/interrupt", params)
    resume = {**params, "message": text("instead do this"), "clientRequestId": "resume-1"}
    resume_request = client.send_request("conversation/resume", resume)
    assert client.result_of(resume_request) == {}
    assert client.result_of(interrupt)["status"] == "interrupted"
    assert world.turn(client, nth=2)["finalText"] == "Next."
    assert user_texts(world) == ["go", "instead do this"]
    assert client.request("conversation/resume", resume) == {"duplicate": True}


def test_a_held_message_waits_for_the_next_turn(world: World) -> None:
    world.script(say("Both."))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    held_back = world.send(client, conversation, "context first", run=False)
    assert held_back["disposition"] == "queued"
    world.send(client, conversation, "now go")
    world.turn(client)
    assert sorted(user_texts(world)) == ["context first", "now go"]
    assert len(world.llm.requests) == 1


def test_waiting_for_completion_answers_with_the_turn_and_cancelling_interrupts(
    world: World,
) -> None:
    world.script(say("Done."), hang())
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    receipt = world.send(client, conversation, "go", wait="completed")
    assert (receipt["turn"]["status"], receipt["finalText"]) == ("completed", "Done.")
    params = {"conversationId": conversation, "content": text("again"), "wait": "completed"}
    request = client.send_request("conversation/sendMessage", params)
    world.llm.wait_for_requests(2)
    client.notify("$/cancelRequest", {"id": request})
    assert client.error_of(request).code == -32800
    assert world.turn(client, nth=2)["status"] == "interrupted"
    assert_idle(client, conversation)


def assert_idle(client: RawClient, conversation: str) -> None:
    wait_for_status(client, "idle", nth=2)
    [info] = client.request("conversation/list")["conversations"]
    assert (info["id"], info["status"]) == (conversation, "idle")


def test_close_while_running_needs_a_word_what_to_do(world: World) -> None:
    world.script(hang(), hang())
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    world.llm.wait_for_requests(1)
    error = client.error("conversation/close", params)
    assert (error.code, error.data["kind"]) == (-31003, "conversationBusy")
    assert "ifRunning" in error.message
    client.request("conversation/close", {**params, "ifRunning": "interrupt"})
    open_result = client.request("conversation/open", params)
    assert open_result["conversation"]["status"] == "idle"
    client.request("conversation/resume", params)
    world.llm.wait_for_requests(2)
    client.request("conversation/close", {**params, "ifRunning": "pause"})
    assert client.request("conversation/open", params)["conversation"]["status"] == "paused"


def test_requests_wait_until_a_conversation_is_closed_with_its_turn(world: World) -> None:
    world.script(STUBBORN, say("Again."))
    client = world.daemon()
    conversation = world.start(client)
    params = {"conversationId": conversation}
    client.wait_for(lambda m: "ready" in str(m.get("params", {}).get("text")))
    close_request = client.send_request("conversation/close", {**params, "ifRunning": "interrupt"})
    open_result = client.send_request("conversation/open", params)
    message = {**params, "content": text("go on"), "wait": "completed"}
    receipt = client.send_request("conversation/sendMessage", message)
    assert client.result_of(close_request) == {}
    assert client.result_of(open_result)["conversation"]["status"] == "idle"
    assert client.result_of(receipt)["finalText"] == "Again."


def test_what_is_known_of_a_model_is_said_once_to_the_client(world: World) -> None:
    call_text = '<tool_call>{"name": "think", "arguments": {"thought": "hm"}}</tool_call>'
    world.script(say(call_text), say("One."), say("Two."))
    client = world.daemon()
    conversation = world.start(client, options={"model": "openai/ollama/codellama"})
    assert world.turn(client)["finalText"] == "One."
    assert [item["tool"] for item in items(client, "toolCall")] == ["think"]
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    [notice] = items(client, "notice")
    assert notice["severity"] == "warning"
    assert "openai/ollama/codellama is not known to call functions" in notice["title"]


def test_a_conversation_is_condensed_on_request_and_goes_on_with_the_summary(world: World) -> None:
    calls_made = [call("terminal", command=f"echo {n}") for n in range(6)]
    world.script(*calls_made, say("Done."), say("Six lines were echoed."), say("Six."))
    client = world.daemon()
    conversation = world.start(client, "Echo six numbers")
    world.turn(client)
    params = {"conversationId": conversation, "instructions": "Keep it.", "clientRequestId": "r1"}
    condense_result = client.request("conversation/condense", params)
    assert world.turn(client, nth=2)["id"] == condense_result["turnId"]
    assert client.request("conversation/condense", params) == {**condense_result, "duplicate": True}
    [item] = items(client, "condensation")
    assert (item["summary"], item["reason"]) == ("Six lines were echoed.", "requested")
    world.send(client, conversation, "How many?")
    assert world.turn(client, nth=3)["finalText"] == "Six."
    messages = world.llm.requests[-1].body["messages"]
    assert messages[1]["content"] == "Echo six numbers"
    assert "Six lines were echoed." in messages[2]["content"]
    assert messages[-1]["content"] == "How many?"
