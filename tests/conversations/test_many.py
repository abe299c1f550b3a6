"""Many conversations at once: none blocks another or the protocol, and none are mixed up."""

import threading
import time
from concurrent.futures import Future

import pytest
from fake_llm import call, first_user_text, hang, hold_step, say, script_by_key
from raw_client import RawClient
from world import World, wait_for_status

pytestmark = pytest.mark.one_daemon

N = 20


@pytest.mark.full
def test_conversations_run_side_by_side_with_their_own_shells_and_logs(world: World) -> None:
    scripts = {
        f"number {n}": [
            call("terminal", command=f"mine={n}; mkdir -p d{n} && cd d{n}"),
            call("terminal", command="echo $mine > ${PWD##*/}.txt"),
            say(f"I am {n}."),
        ]
        for n in range(N)
    }
    world.llm.play(script_by_key(first_user_text, scripts))
    client = world.daemon()
    start = {"options": {"approval": "askNever"}}
    requests = {
        client.send_request(
            "conversation/start",
            {"content": [{"type": "text", "text": words}], **start},
        ): words
        for words in scripts
    }
    ids = {client.result_of(r)["conversation"]["id"]: words for r, words in requests.items()}
    client.wait_for_event("turn.completed", nth=N)
    ends = {
        ids[event["conversationId"]]: event["event"]["turn"]["finalText"]
        for event in client.events
        if event["event"]["type"] == "turn.completed"
    }
    assert ends == {f"number {n}": f"I am {n}." for n in range(N)}
    for n in range(N):
        assert (world.project / f"d{n}/d{n}.txt").read_text() == f"{n}\n"
    for conversation, words in ids.items():
        records = world.records_of(conversation)
        assert records[0]["event"]["title"] == words
        assert [record["seq"] for record in records] == list(range(1, len(records) + 1))


def test_one_that_hangs_holds_up_neither_the_others_nor_the_protocol(world: World) -> None:
    gate = threading.Event()
    scripts = {
        "slow model": [hold_step(say("Late."), gate)],
        "slow command": [call("terminal", command="sleep 300", timeout_s=600)],
        "asks": [call("terminal", command="touch asked")],
        "quick": [say("Quick."), say("Quick again.")],
    }
    world.llm.play(script_by_key(first_user_text, scripts))
    client = world.daemon()
    slow = [world.start(client, words) for words in ("slow model", "slow command")]
    world.start(client, "asks", options={"approval": "askAlways"})
    wait_for_status(client, "waiting")
    client.wait_for_event(lambda params: params["event"].get("status") == "running")
    world.llm.wait_for_requests(3)
    quick = world.start(client, "quick")
    assert world.turn(client)["finalText"] == "Quick."
    again = world.send(client, quick, "again", wait="completed")
    assert again["finalText"] == "Quick again."
    wait_for_status(client, "idle", nth=2)
    status = client.request("daemon/status")
    assert len(status["conversations"]) == 4
    assert sorted(load["status"] for load in status["conversations"]) == [
        "idle",
        "running",
        "running",
        "waiting",
    ]
    client.request("conversation/interrupt", {"conversationId": slow[1]})
    gate.set()
    end_event = client.wait_for_event(
        lambda params: (
            params["conversationId"] == slow[0] and params["event"]["type"] == "turn.completed"
        )
    )
    assert end_event["event"]["turn"]["finalText"] == "Late."


def test_a_conversation_answers_at_once_while_its_model_hangs_and_while_its_command_runs(
    world: World,
) -> None:
    """No request would be answered here if a lock were held during the model call or the tool."""
    command = call("terminal", command="echo begun; sleep 1000", timeout_s=600)
    world.script(hang(), command)
    client = world.daemon()
    conversation = world.start(client)
    world.llm.wait_for_requests(1)
    answer_everything(world, client, conversation)
    client.request("conversation/resume", {"conversationId": conversation})
    client.wait_for(lambda m: "begun" in (m.get("params") or {}).get("text", ""))
    answer_everything(world, client, conversation)


def answer_everything(world: World, client: RawClient, conversation: str) -> None:
    request_params = {"conversationId": conversation}
    for method in ("read", "events"):
        assert client.request(f"conversation/{method}", request_params)
    client.request("tool/list", request_params)
    client.request(
        "conversation/setOption", {**request_params, "optionId": "mode", "value": "autoEdit"}
    )
    receipt = world.send(client, conversation, "later", delivery="queue")
    params = {**request_params, "op": "remove", "messageId": receipt["messageId"]}
    client.request("conversation/queue", params)
    assert world.send(client, conversation, "left")["disposition"] == "steered"
    assert client.request("conversation/pause", {**request_params, "when": "step"})["turnId"]
    assert client.request("conversation/interrupt", request_params)["status"] == "interrupted"


def test_the_status_of_the_daemon_waits_for_no_worker(world: World) -> None:
    client = world.daemon(features={"languageRequests": True})
    client.request("daemon/status")  # The first one may wait for the self-test of the sandbox.
    gate: Future[object] = Future()
    client.answer("editor/languageRequest", lambda _params: gate)
    symbol_params = {"query": "price", "kinds": ["symbol"]}
    searches = [client.send_request("context/search", symbol_params) for _ in range(8)]
    client.wait_for(lambda m: m.get("method") == "editor/languageRequest", nth=4)
    assert client.request("daemon/status")["conversations"] == []
    gate.set_result({"result": []})
    for search in searches:
        assert client.result_of(search) == {"items": []}


@pytest.mark.own_daemon
def test_no_more_turns_run_at_once_than_the_settings_allow(world: World) -> None:
    gate = threading.Event()
    scripts = {"first": [hold_step(say("One."), gate)], "second": [say("Two.")]}
    world.llm.play(script_by_key(first_user_text, scripts))
    client = world.daemon(settings={"maxRunningTurns": 1})
    world.start(client, "first")
    world.llm.wait_for_requests(1)
    world.start(client, "second")
    client.request("daemon/status")
    start_s = time.monotonic()
    gate.set()
    client.wait_for_event("turn.completed", nth=2)
    [_, second] = world.llm.requests
    assert second.arrived_s > start_s
