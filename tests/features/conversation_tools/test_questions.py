"""Questions of the agent to the user: asked once, durable, answered in one place."""

import json
from concurrent.futures import Future
from typing import Any

import pytest
from fake_llm import call, calls, say
from raw_client import RawClient
from world import KEY, World, content_of, items, text, wait_for_status

from oh_daemon.conformance.rpc_process import WITHIN_S, NoAnswer

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
PORT = call("ask", question="Which port?")
COLOUR = call("ask", question="Which colour?", choices=["red", "blue"])
OFFERED: Json = {"features": {"inputRequests": True}}


def asking(world: World, **values: Any) -> RawClient:
    """Start a client that leaves every question unanswered."""
    client = world.daemon(**{**OFFERED, **values})
    client.answer("input/request", keep_waiting)
    return client


def keep_waiting(_params: Json) -> None:
    raise NoAnswer


def question_of(client: RawClient, *, nth: int = 1) -> Json:
    """Return the nth question of this connection, once the conversation waits for it."""
    question = client.wait_for_event("input.requested", nth=nth)["event"]["input"]
    wait_for_status(client, "waiting", nth=nth)
    return question


def request_of(client: RawClient, *, nth: int = 1) -> Json:
    return client.wait_for(lambda m: m.get("method") == "input/request", nth=nth)


def respond(client: RawClient, question: Json, action: str, content: str | None = None) -> Json:
    params = {"inputId": question["id"], "action": action}
    return client.request("input/respond", {**params, **({"content": content} if content else {})})


def resolutions(client: RawClient) -> list[Json]:
    return [e["event"] for e in client.events if e["event"]["type"] == "input.resolved"]


def question_results(world: World) -> list[str]:
    """Return the results of tool calls in the last request to the model."""
    messages = world.llm.requests[-1].body["messages"]
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def test_a_question_waits_and_its_answer_reaches_the_model(world: World) -> None:
    world.script(PORT, say("Done."))
    client = asking(world)
    conversation = world.start(client)
    question = question_of(client)
    item = client.wait_for_event("item.started")["event"]["item"]
    assert (item["title"], item["toolKind"]) == ("Ask: Which port?", "other")
    assert question == {
        "id": question["id"],
        "conversationId": conversation,
        "turnId": question["turnId"],
        "itemId": item["id"],
        "kind": "text",
        "prompt": "Which port?",
        "createdAt": question["createdAt"],
    }
    assert request_of(client)["params"] == question
    open_result = client.request("conversation/open", {"conversationId": conversation})
    assert open_result["pending"] == [question]
    info = open_result["conversation"]
    assert (info["status"], info["pendingCount"]) == ("waiting", 1)
    assert client.request("approval/list")["pending"] == []
    assert respond(client, question, "accept", "8080") == {"resolved": True}
    assert world.turn(client)["finalText"] == "Done."
    assert question_results(world) == ["8080"]
    [answered_call] = items(client, "toolCall")
    assert (answered_call["status"], content_of(answered_call)) == ("completed", "8080")
    assert resolutions(client) == [
        {
            "type": "input.resolved",
            "inputId": question["id"],
            "action": "accept",
            "content": "8080",
            "by": "user",
        }
    ]


def test_answering_twice_changes_nothing_and_says_so(world: World) -> None:
    world.script(PORT, say("Done."))
    client = asking(world)
    world.start(client)
    question = question_of(client)
    assert client.error("approval/respond", {"approvalId": question["id"], "digest": ""}).code == (
        -31021
    )
    empty = {"inputId": question["id"], "action": "accept"}
    error = client.error("input/respond", empty)
    assert (error.code, error.data["errors"][0]["path"]) == (-32602, "content")
    long = client.error("input/respond", {**empty, "content": "x" * 65_537})
    assert (long.code, long.data["errors"][0]["path"]) == (-32602, "content")
    respond(client, question, "accept", "8080")
    again = respond(client, question, "accept", "9090")
    assert again == {"resolved": False, "alreadyResolved": {"by": "user", "action": "accept"}}
    unknown = client.error("input/respond", {**empty, "inputId": "nobody", "content": "x"})
    assert (unknown.code, unknown.data["kind"]) == (-31021, "approvalNotFound")
    world.turn(client)
    assert question_results(world) == ["8080"]


@pytest.mark.parametrize(
    ("action", "status", "expected_text"),
    [("decline", "rejected", "Skipped by the user"), ("cancel", "cancelled", "Closed by the user")],
)
def test_who_does_not_answer_lets_the_agent_go_on(
    world: World, action: str, status: str, expected_text: str
) -> None:
    world.script(PORT, say("Done."))
    client = asking(world)
    world.start(client)
    question_of(client)
    request = request_of(client)
    client.send({"jsonrpc": "2.0", "id": request["id"], "result": {"action": action}})
    assert world.turn(client)["finalText"] == "Done."
    assert items(client, "toolCall")[0]["status"] == status
    assert expected_text in question_results(world)[0]


def test_only_an_answer_with_an_action_counts_and_any_text_answers_a_choice(world: World) -> None:
    world.script(COLOUR, say("Done."))
    client = asking(world)
    params = {"conversationId": world.start(client)}
    question = question_of(client)
    assert (question["kind"], question["choices"]) == ("choice", ["red", "blue"])
    no_answers = ({}, None, [], {"action": "accept"}, {"action": "maybe", "content": "red"})
    for n, answer in enumerate(no_answers, 1):
        request = request_of(client, nth=n)
        client.send({"jsonrpc": "2.0", "id": request["id"], "result": answer})
        # Nothing is decided, so a client that subscribes again is asked again.
        client.request("conversation/subscribe", params)
    last = request_of(client, nth=len(no_answers) + 1)
    answer = {"action": "accept", "content": "green"}
    client.send({"jsonrpc": "2.0", "id": last["id"], "result": answer})
    world.turn(client)
    assert question_results(world) == ["green"]


def test_a_question_that_was_answered_elsewhere_is_withdrawn(world: World) -> None:
    world.script(PORT, say("Done."))
    client = asking(world)
    world.start(client)
    question = question_of(client)
    request = request_of(client)
    respond(client, question, "accept", "8080")
    taken_back = client.wait_for(lambda m: m.get("method") == "$/cancelRequest")
    assert taken_back["params"]["id"] == request["id"]
    world.turn(client)


@pytest.mark.parametrize("delivery", ["auto", "steer"])
def test_a_message_typed_into_the_chat_is_the_answer(world: World, delivery: str) -> None:
    world.script(calls(PORT, call("terminal", command="touch made")), say("Done."))
    client = asking(world)
    conversation = world.start(client)
    question = question_of(client)
    receipt = world.send(client, conversation, "8080, please", delivery=delivery)
    assert (receipt["disposition"], receipt["turnId"]) == ("steered", question["turnId"])
    assert world.turn(client)["finalText"] == "Done."
    by = [(r["action"], r["by"]) for r in resolutions(client)]
    assert by == [("accept", "message")]
    assert question_results(world)[0] == "Answered by the message that follows."
    # What the model wanted to do before it knew the answer is not done.
    assert "Not run" in question_results(world)[1]
    assert not (world.project / "made").exists()
    assert world.llm.requests[-1].body["messages"][-1] == {
        "role": "user",
        "content": "8080, please",
    }
    assert [item["content"] for item in items(client, "userMessage")][1:] == [text("8080, please")]


def test_an_interrupt_takes_the_question_back(world: World) -> None:
    world.script(PORT, PORT, say("As you like."))
    client = asking(world)
    conversation = world.start(client)
    question_of(client)
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert world.turn(client)["status"] == "interrupted"
    world.send(client, conversation, "go on")
    question_of(client, nth=2)
    world.send(client, conversation, "no questions", delivery="interrupt")
    assert world.turn(client, nth=3)["finalText"] == "As you like."
    by = [(r["action"], r["by"]) for r in resolutions(client)]
    assert by == [("cancel", "interrupted")] * 2
    assert all("Not run" in each for each in question_results(world))


def test_a_queued_message_and_a_pause_leave_the_question_open(world: World) -> None:
    world.script(PORT, say("Done."), say("Next."))
    client = asking(world)
    conversation = world.start(client)
    question = question_of(client)
    world.send(client, conversation, "later", delivery="queue")
    client.request("conversation/pause", {"conversationId": conversation})
    wait_for_status(client, "paused")
    open_result = client.request("conversation/open", {"conversationId": conversation})
    assert open_result["pending"] == [question]
    respond(client, question, "accept", "8080")
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client, nth=2)["finalText"] == "Next."
    assert question_results(world) == ["8080"]


@pytest.mark.parametrize("end", ["close", "kill"])
@pytest.mark.parametrize("by_message", [False, True], ids=["answer", "message"])
def test_a_question_outlives_the_daemon(world: World, end: str, *, by_message: bool) -> None:
    world.script(PORT, say("Done."))
    first = asking(world)
    conversation = world.start(first)
    question = question_of(first)
    first.kill() if end == "kill" else first.close()
    second = world.daemon(**OFFERED)
    request_future: Future[Json] = Future()

    def on_asked(params: Json) -> None:
        request_future.set_result(params)
        raise NoAnswer

    second.answer("input/request", on_asked)
    request_params = {"conversationId": conversation}
    open_result = second.request("conversation/open", request_params)
    assert open_result["pending"] == [question]
    assert open_result["conversation"]["status"] == "paused"
    assert request_future.result(WITHIN_S) == question
    if by_message:
        world.send(second, conversation, "8080")
    else:
        assert respond(second, question, "accept", "8080") == {
            "resolved": True,
            "needsResume": True,
        }
        second.request("conversation/resume", request_params)
    assert world.turn(second)["finalText"] == "Done."
    assert question_results(world) == [
        "Answered by the message that follows." if by_message else "8080"
    ]


def test_a_closed_conversation_takes_its_question_back_and_asks_when_opened(world: World) -> None:
    world.script(PORT, say("Done."))
    client = asking(world)
    params = {"conversationId": world.start(client)}
    question = question_of(client)
    first = request_of(client)
    client.request("conversation/close", {**params, "ifRunning": "pause"})
    taken_back = client.wait_for(lambda m: m.get("method") == "$/cancelRequest")
    assert taken_back["params"]["id"] == first["id"]
    # An answer to a withdrawn question decides nothing.
    late = {"action": "accept", "content": "late"}
    client.send({"jsonrpc": "2.0", "id": first["id"], "result": late})
    assert client.request("conversation/open", params)["pending"] == [question]
    second = request_of(client, nth=2)
    assert second["params"] == question
    answer = {"action": "accept", "content": "8080"}
    client.send({"jsonrpc": "2.0", "id": second["id"], "result": answer})
    client.wait_for_event("input.resolved")
    client.request("conversation/resume", params)
    assert world.turn(client, nth=2)["finalText"] == "Done."
    assert question_results(world) == ["8080"]


def test_an_answer_that_was_taken_is_kept_when_the_daemon_dies(world: World) -> None:
    world.script(PORT)
    first = asking(world)
    conversation = world.start(first)
    question = question_of(first)
    first.request("conversation/pause", {"conversationId": conversation})
    respond(first, question, "accept", "8080")
    first.kill()
    world.script(say("Done."))
    second = asking(world)
    open_result = second.request("conversation/open", {"conversationId": conversation})
    assert open_result["pending"] == []
    assert content_of(open_result["items"][-1]) == "8080"
    second.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(second, nth=1)["finalText"] == "Done."
    assert question_results(world) == ["8080"]


def test_questions_are_asked_one_after_the_other(world: World) -> None:
    """Whatever comes after a question may depend on its answer."""
    world.script(calls(PORT, COLOUR, call("terminal", command="touch made")), say("Done."))
    client = asking(world)
    world.start(client)
    first = question_of(client)
    assert not (world.project / "made").exists()
    respond(client, first, "accept", "8080")
    second = question_of(client, nth=2)
    assert second["prompt"] == "Which colour?"
    assert not (world.project / "made").exists()
    respond(client, second, "accept", "blue")
    world.turn(client)
    assert question_results(world)[:2] == ["8080", "blue"]
    assert (world.project / "made").exists()


def test_a_plain_client_is_shown_the_choices_as_a_message(world: World) -> None:
    world.script(COLOUR, say("Done."))
    client = world.raw()
    shown_future: Future[Json] = Future()

    def answer(params: Json) -> Json:
        shown_future.set_result(params)
        return {"title": "blue"}

    client.answer("window/showMessageRequest", answer)
    capabilities = {"window": {"showMessage": {"messageActionItem": {}}}}
    client.initialize([world.project], params={"capabilities": capabilities})
    world.start(client)
    world.turn(client)
    assert question_results(world) == ["blue"]
    actions = [{"title": "red"}, {"title": "blue"}]
    assert shown_future.result(0) == {"type": 3, "message": "Which colour?", "actions": actions}


def test_a_plain_client_without_choices_is_shown_the_question_and_answers_by_a_message(
    world: World,
) -> None:
    world.script(COLOUR, say("Done."))
    client = world.raw()
    client.initialize([world.project])
    world.start(client)
    actual_message = client.wait_for(lambda message: message.get("method") == "window/showMessage")
    question = "Which colour?\n- red\n- blue\nSend a message to answer."
    assert actual_message["params"] == {"type": 3, "message": question}
    answer = {"command": "ohDaemon.send", "arguments": ["green"]}
    client.request("workspace/executeCommand", answer)
    world.turn(client)
    assert world.llm.requests[-1].body["messages"][-1] == {"role": "user", "content": "green"}


def test_a_panel_without_the_feature_sees_the_event_and_may_answer(world: World) -> None:
    world.script(PORT, say("Done."))
    client = world.daemon(client={"kind": "panel"})
    world.start(client)
    respond(client, question_of(client), "accept", "8080")
    world.turn(client)
    assert question_results(world) == ["8080"]
    assert not [m for m in client.messages if m.get("method") == "input/request"]


def test_where_nobody_can_answer_the_question_ends_the_turn_and_a_message_answers(
    world: World,
) -> None:
    world.script(calls(COLOUR, call("terminal", command="touch never")), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    turn = world.turn(client)
    assert (turn["status"], turn["stopReason"]) == ("completed", "needsInput")
    assert turn["finalText"] == "Which colour?\n- red\n- blue"
    assert not (world.project / "never").exists()
    [skipped_command] = items(client, "command")
    assert (skipped_command["status"], skipped_command["reason"]) == ("cancelled", "skipped")
    wait_for_status(client, "idle")
    world.send(client, conversation, "blue")
    assert world.turn(client, nth=2)["finalText"] == "Done."
    assert world.llm.requests[-1].body["messages"][-1] == {"role": "user", "content": "blue"}


@pytest.mark.parametrize(
    ("wrong", "wrong_name"),
    [
        ({"question": "x" * 4001}, "question"),
        ({"question": "Which?", "choices": ["one"]}, "choices"),
        ({"question": "Which?", "choices": ["same", "same"]}, "choices"),
        ({"question": "Which?", "choices": ["x" * 201, "b"]}, "choices.0"),
        ({"question": "Which?", "choices": [str(n) for n in range(11)]}, "choices"),
    ],
)
def test_a_question_beyond_the_limits_is_an_error_for_the_model(
    world: World, wrong: Json, wrong_name: str
) -> None:
    world.script(call("ask", **wrong), say("Done."))
    client = asking(world)
    world.start(client)
    world.turn(client)
    assert f"do not fit its schema: {wrong_name}" in question_results(world)[0]


def test_a_secret_in_a_question_and_in_its_answer_is_masked(world: World) -> None:
    world.script(call("ask", question=f"Is {KEY} it?", choices=[KEY, "no"]), say("Done."))
    client = asking(world)
    conversation = world.start(client)
    respond(client, question_of(client), "accept", f"yes, {KEY}")
    world.turn(client)
    assert KEY not in json.dumps(client.messages)
    assert KEY.encode() not in world.log_of(conversation).read_bytes()
