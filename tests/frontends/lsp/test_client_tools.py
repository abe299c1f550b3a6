"""Tools that the client provides: offered, asked about, called there, and what goes wrong."""

from typing import Any

import pytest
from fake_llm import Step, call, say, tool_results
from raw_client import RawClient
from world import World, content_of, items

from oh_daemon.conformance.rpc_process import NoAnswer, RpcError

Json = dict[str, Any]
pytestmark = pytest.mark.one_daemon

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
READ: Json = {
    "name": "ticket_read",
    "description": "A ticket by its number.",
    "inputSchema": SCHEMA,
    "annotations": {"readOnlyHint": True},
}
CLOSE: Json = {"name": "ticket_close", "inputSchema": SCHEMA}
BRIEF: Json = {"name": "ticket_wait", "inputSchema": SCHEMA, "timeoutS": 0.2}
ASKED = {"approval": "askRisky"}


def run(world: World, client: RawClient, *steps: Step, **params: Any) -> list[Json]:
    """Run one conversation with all tools; return its tool calls that ended."""
    world.script(*steps, say("Done."))
    world.start(client, clientTools=[READ, CLOSE, BRIEF], **params)
    world.turn(client)
    return items(client, "toolCall")


def calls_of(client: RawClient) -> list[Json]:
    return [m["params"] for m in client.messages if m.get("method") == "tool/call"]


def text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def hang(_params: Json) -> Json:
    raise NoAnswer


def test_a_call_goes_to_the_client_and_its_result_to_the_model(world: World) -> None:
    client = world.daemon()
    client.answer("tool/call", lambda params: text(f"ticket {params['arguments']['id']}: open"))
    [read] = run(world, client, call("ticket_read", id=7), options=ASKED)
    assert (read["status"], content_of(read)) == ("completed", "ticket 7: open")
    [tool_request] = calls_of(client)
    names = ("name", "arguments", "itemId")
    assert [tool_request[name] for name in names] == ["ticket_read", {"id": 7}, read["id"]]
    tools = {t["function"]["name"]: t["function"] for t in world.llm.requests[0].body["tools"]}
    assert tools["ticket_read"]["parameters"] == SCHEMA
    assert tools["ticket_read"]["description"].startswith("A ticket by its number.\n")
    results = tool_results(world.llm.requests[-1].body)
    assert results == ["ticket 7: open"]


def test_what_may_change_something_is_asked_about_and_plan_refuses_it(world: World) -> None:
    client = world.daemon()
    client.answer("approval/request", lambda params: {"optionId": params["options"][-1]["id"]})
    close = call("ticket_close", id=7)
    [rejected_call] = run(world, client, close, options=ASKED)
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    assert (approval["risk"], approval["subject"]["tool"]) == ("medium", "ticket_close")
    assert rejected_call["status"] == "rejected"
    world.script(close, say("No."))
    world.start(client, clientTools=[CLOSE], options={"mode": "plan"})
    world.turn(client, nth=2)
    assert "plan" in content_of(items(client, "toolCall")[-1])
    assert calls_of(client) == []


def test_an_argument_that_is_called_like_a_word_of_ours_reaches_the_client(world: World) -> None:
    client = world.daemon()
    client.answer("tool/call", lambda _params: text("made"))
    title: Json = {"type": "object", "properties": {"summary": {}}, "required": ["summary"]}
    world.script(call("ticket_new", summary="It broke", security_risk="low"), say("Done."))
    world.start(client, clientTools=[{"name": "ticket_new", "inputSchema": title}])
    world.turn(client)
    [tool_request] = calls_of(client)
    assert tool_request["arguments"] == {"summary": "It broke"}


def test_whatever_the_client_does_the_model_gets_one_result(world: World) -> None:
    client = world.daemon()

    def fail(_params: Json) -> Json:
        raise RpcError({"code": -32000, "message": "no network"})

    answers = [
        (lambda _: {**text("no such ticket"), "isError": True}, "no such ticket"),
        (lambda _: {"structuredContent": {"open": True}}, '{"open": true}'),
        (lambda _: {"content": "words"}, "is not a tool result: content"),
        (lambda _: [1], "is not a tool result: the result"),
        (fail, "the client did not run ticket_close: no network"),
        (hang, "no answer to tool/call in 0.2 s; ticket_wait may still be at work"),
    ]
    client.answer("tool/call", lambda params: answers[params["arguments"]["id"]][0](params))
    tools = [*["ticket_close"] * (len(answers) - 1), "ticket_wait"]
    items_ended = run(world, client, *(call(name, id=n) for n, name in enumerate(tools)))
    for item, (_, expected) in zip(items_ended, answers, strict=True):
        assert expected in content_of(item)
    assert [item["status"] for item in items_ended] == ["failed", "completed", *["failed"] * 4]


def test_an_interrupt_withdraws_the_call(world: World) -> None:
    client = world.daemon()

    client.answer("tool/call", hang)
    world.script(call("ticket_read", id=7))
    conversation = world.start(client, clientTools=[READ])
    tool_request = client.wait_for(lambda m: m.get("method") == "tool/call")
    client.request("conversation/interrupt", {"conversationId": conversation})
    cancel_params = {"id": tool_request["id"]}
    client.wait_for(lambda m: m.get("params") == cancel_params and m["method"] == "$/cancelRequest")
    [item] = items(client, "toolCall")
    assert item["status"] == "cancelled"


def test_a_client_that_goes_away_ends_the_turn_and_the_model_is_told(world: World) -> None:
    first = world.daemon(features={})
    first.answer("tool/call", hang)
    world.script(call("ticket_read", id=7))
    conversation = world.start(first, clientTools=[READ])
    first.wait_for(lambda m: m.get("method") == "tool/call")
    assert first.close() == 0
    client = world.daemon()
    params = {"conversationId": conversation}
    open_result = client.request("conversation/open", {**params, "clientTools": [READ]})
    [item] = [item for item in open_result["items"] if item["kind"] == "toolCall"]
    assert (item["status"], item["reason"]) == ("cancelled", "interrupted")
    assert len(world.llm.requests) == 1
    client.answer("tool/call", lambda _params: text("open"))
    world.script(call("ticket_read", id=7), say("Done."))
    client.request("conversation/resume", params)
    world.turn(client)
    results = tool_results(world.llm.requests[-1].body)
    cut_off = "[The daemon closed this.]\nIt was cut off and may have had effects."
    assert results == [cut_off, "open"]


def test_a_conversation_that_is_opened_again_gets_the_tools_again(world: World) -> None:
    first = world.daemon(features={})
    world.script(call("ticket_close", id=7))
    conversation = world.start(first, clientTools=[CLOSE], options=ASKED)
    first.wait_for_event(lambda e: e["event"].get("to") == "waiting")
    first.kill()
    client = world.daemon()
    client.answer("tool/call", lambda _params: text("closed"))
    params = {"conversationId": conversation}
    open_result = client.request("conversation/open", {**params, "clientTools": [CLOSE]})
    world.script(say("Done."))
    client.request("conversation/resume", params)
    [approval] = open_result["pending"]
    answer = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**answer, "optionId": approval["options"][0]["id"]})
    world.turn(client)
    assert content_of(items(client, "toolCall")[-1]) == "closed"
    client.request("conversation/open", {**params, "clientTools": []})
    world.script(call("ticket_close", id=8), say("Gone."))
    world.send(client, conversation, "and the other")
    world.turn(client, nth=2)
    assert "There is no tool 'ticket_close'" in content_of(items(client, "toolCall")[-1])


def test_a_tool_that_cannot_be_offered_is_refused_with_the_reason(world: World) -> None:
    client = world.daemon()
    wrong: list[tuple[list[Json], str]] = [
        ([{**READ, "name": "edit"}], "the daemon has a tool of this name"),
        ([READ, READ], "it is given twice"),
        ([{**READ, "inputSchema": {"type": "nonsense"}}], "must be that of an object"),
        ([{**READ, "inputSchema": {"properties": 1}}], "its input schema is none"),
        ([{**READ, "name": "server__tool"}], "wrong_form"),
    ]
    for tools, why in wrong:
        error = client.error("conversation/start", {"clientTools": tools})
        assert error.code == -32602
        assert why in str(error.data), error.data
    start_result = client.request("conversation/start", {"clientTools": [READ]})["conversation"][
        "id"
    ]
    actual_tools = client.request("tool/list", {"conversationId": start_result})["tools"]
    [own] = [tool for tool in actual_tools if tool["name"] == "ticket_read"]
    assert own["annotations"] == {"readOnlyHint": True}
