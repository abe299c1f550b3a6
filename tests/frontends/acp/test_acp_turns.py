"""`oh-daemon acp`: from the first message to the end of input, as clients of all kinds see it."""

import json
import os
import select
import threading
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from acp_client import AcpClient, choose, texts_of, wait_for_answer
from fake_llm import call, calls, hang, hold_step, reason, say
from pdf_files import pdf
from world import World

from oh_daemon.frontends.acp.chunks import MAX_PRINTED_CHARS

Json = dict[str, Any]
Start = Callable[..., AcpClient]


def test_a_turn_streams_its_text_and_ends(client: AcpClient, world: World) -> None:
    world.script(reason("I think.", say("Hello from here.", n_chunks=4)))
    session = client.new(world.project)
    assert client.prompt(session, "Hi") == {"stopReason": "end_turn"}
    assert client.text() == "Hello from here."
    assert client.text("agent_thought_chunk") == "I think."
    assert client.updates("session_info_update")[0]["title"] == "Hi"
    assert client.updates("usage_update") == []
    assert client.close() == 0


@pytest.mark.parametrize("size", [{}, {"contextWindow": 100_000}])
def test_what_a_step_took_and_cost_is_told(start: Start, world: World, size: Json) -> None:
    price = {"inputCostPerToken": 0.01, "outputCostPerToken": 0.02}
    settings = world.home / "settings.json"
    settings.write_text(json.dumps({"llm": {**price, **size}}))
    world.script(say("Hello."))
    client = start()
    client.initialize()
    client.prompt(client.new(world.project), "Hi")
    [usage] = client.updates("usage_update")
    assert (usage["used"], usage["size"]) == (100, size.get("contextWindow", 0))
    assert usage["cost"] == {"amount": pytest.approx(1.2), "currency": "USD"}


def test_a_command_is_asked_about_and_its_output_comes_back(
    client: AcpClient, world: World
) -> None:
    world.script(call("terminal", command="touch made && echo ready"), say("Done."))
    client.allow()
    session = client.new(world.project)
    assert client.prompt(session, "Make it") == {"stopReason": "end_turn"}
    assert (world.project / "made").exists()
    [permission_request] = client.requests_of("session/request_permission")
    assert permission_request["toolCall"]["title"] == "Run touch made && echo ready"
    [call_update] = client.updates("tool_call")
    assert (call_update["kind"], call_update["name"]) == ("execute", "terminal")
    last = client.updates("tool_call_update")[-1]
    assert last["status"] == "completed"
    assert "ready" in "".join(texts_of(last))


def test_what_a_command_prints_is_shown_while_it_runs(client: AcpClient, world: World) -> None:
    gate = world.project / "gate"
    os.mkfifo(gate)
    world.script(call("terminal", command="seq 100000; echo ready; cat gate"), say("Done."))
    client.allow()
    session = client.new(world.project)
    prompt = client.send_prompt(session, "Count")
    client.wait_for(lambda m: in_progress(m) and "ready" in str(m["params"]["update"]))
    gate.write_text("more\n")
    assert client.result_of(prompt) == {"stopReason": "end_turn"}
    *running_texts, last = (texts_of(each) for each in client.updates("tool_call_update"))
    assert "100000\nready" in running_texts[-1][0]
    assert max(len(text) for texts in running_texts for text in texts) <= MAX_PRINTED_CHARS
    assert "ready\nmore" in last[0]


def test_what_is_rejected_does_not_run(client: AcpClient, world: World) -> None:
    world.script(call("terminal", command="touch made"), say("Well."))
    client.allow("reject_once")
    session = client.new(world.project)
    assert client.prompt(session, "Make it") == {"stopReason": "end_turn"}
    assert not (world.project / "made").exists()
    assert client.updates("tool_call_update")[-1]["status"] == "failed"


def test_a_prompt_is_cancelled_in_the_middle_of_its_answer(client: AcpClient, world: World) -> None:
    world.script(hang(say("Half an", n_chunks=1)), say("Whole."))
    session = client.new(world.project)
    first = client.send_prompt(session, "One")
    second = client.send_prompt(session, "Two")
    client.wait_for_update("agent_message_chunk")
    client.cancel(session)
    assert client.result_of(first) == client.result_of(second) == {"stopReason": "cancelled"}
    assert client.prompt(session, "Three") == {"stopReason": "end_turn"}
    assert client.text() == "Half anWhole."


def test_a_prompt_that_is_cancelled_at_once_is_always_cancelled(
    client: AcpClient, world: World
) -> None:
    world.llm.play(lambda _request: hang())
    session = client.new(world.project)
    for delay in range(40):
        prompt = client.send_prompt(session, "Go")
        # Each time at another moment of its way: waiting, being sent, begun.
        for _ in range(delay % 20):
            client.notify("unknown/notification", {})
        client.cancel(session)
        assert client.result_of(prompt) == {"stopReason": "cancelled"}


def test_a_permission_is_withdrawn_when_its_prompt_is_cancelled(
    client: AcpClient, world: World
) -> None:
    world.script(call("terminal", command="touch made"))
    client.answer("session/request_permission", wait_for_answer)
    session = client.new(world.project)
    prompt = client.send_prompt(session, "Make it")
    client.wait_for_request("session/request_permission")
    client.notify("$/cancel_request", {"requestId": prompt})
    assert client.result_of(prompt) == {"stopReason": "cancelled"}
    client.wait_for_request("$/cancel_request")
    assert client.updates("tool_call_update")[-1]["status"] == "failed"


def test_a_second_prompt_waits_for_its_own_turn(client: AcpClient, world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(say("First."), gate), say("Second."))
    session = client.new(world.project)
    first = client.send_prompt(session, "One")
    world.llm.wait_for_requests(1)
    second = client.send_prompt(session, "Two")
    gate.set()
    assert client.result_of(first) == client.result_of(second) == {"stopReason": "end_turn"}
    assert client.text() == "First.Second."


def test_a_prompt_may_have_links_texts_and_a_skill_but_no_sound(
    client: AcpClient, world: World
) -> None:
    (world.project / "a.py").write_text("x = 1\n")
    world.script(say("Seen."))
    session = client.new(world.project)
    link = {"type": "resource_link", "uri": (world.project / "a.py").as_uri(), "name": "a.py"}
    page = {"uri": "https://example.org/page", "text": "The page says yes."}
    bill = {"uri": "file:///bill.pdf", "mimeType": "application/pdf"}
    bill["blob"] = b64encode(pdf("Total: 12 EUR")).decode()
    resources = [{"type": "resource", "resource": each} for each in (page, bill)]
    prompt_id = client.send_prompt(session, "Look", link, *resources)
    assert client.result_of(prompt_id) == {"stopReason": "end_turn"}
    last_message = str(world.llm.requests[0].body["messages"][-1]["content"])
    assert "a.py" in last_message
    assert "The page says yes." in last_message
    assert "<document name='bill.pdf'>" in last_message
    assert "Total: 12 EUR" in last_message
    sound = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    assert client.error_of(client.send_prompt(session, "Listen", sound)).code == -32602
    broken_image = {"type": "image", "data": "no base64!", "mimeType": "image/png"}
    assert client.error_of(client.send_prompt(session, "See", broken_image)).code == -32602
    assert client.error_of(client.send_prompt("no-such", "Hi")).code == -32002


def test_a_message_steers_the_running_turn(client: AcpClient, world: World) -> None:
    gate = threading.Event()
    step = calls(say("Working."), call("think", thought="Hm."))
    world.script(hold_step(step, gate), say("I heard you."))
    session = client.new(world.project)
    steering = {"sessionId": session, "prompt": [{"type": "text", "text": "Look left"}]}
    idle = client.request("_session/steering", steering)
    assert idle == {"outcome": "promptRequired", "reason": "noRunningTurn"}
    prompt = client.send_prompt(session, "Go")
    world.llm.wait_for_requests(1)
    assert client.request("_session/steering", steering) == {"outcome": "injected"}
    gate.set()
    assert client.result_of(prompt) == {"stopReason": "end_turn"}
    assert "Look left" in str(world.llm.requests[-1].body["messages"][-1]["content"])


def test_the_end_of_input_ends_a_running_command(client: AcpClient, world: World) -> None:
    world.script(call("terminal", command="echo $$ > pid && sleep 1000"))
    client.allow()
    session = client.new(world.project)
    client.send_prompt(session, "Wait")
    pid = world.project / "pid"
    client.wait_for(lambda message: in_progress(message) and wait_for_file(pid))
    command = os.pidfd_open(int(pid.read_text()))
    assert client.close(is_busy=True) == 0
    assert select.select([command], [], [], 90)[0] == [command]
    os.close(command)


def in_progress(message: Json) -> bool:
    return message.get("params", {}).get("update", {}).get("status") == "in_progress"


def wait_for_file(path: Path) -> bool:
    while not (path.exists() and path.read_text().strip()):
        os.sched_yield()
    return True


def test_a_client_without_any_capability_sees_questions_and_final_texts(
    start: Start, world: World
) -> None:
    plan = call("todo", tasks=[{"text": "Look", "status": "in_progress"}])
    world.script(
        calls(plan, call("ask", question="Which one?")), call("finish", message="All done.")
    )
    client = start()
    client.initialize(name="")
    session = client.new(world.project)
    assert client.prompt(session, "Choose") == {"stopReason": "end_turn"}
    assert "Which one?" in client.text()
    assert client.prompt(session, "The first") == {"stopReason": "end_turn"}
    assert client.text().endswith("All done.")
    assert client.updates("tool_call") == []
    [plan_update] = client.updates("plan")
    assert plan_update["entries"] == [
        {"content": "Look", "priority": "medium", "status": "in_progress"}
    ]


def test_a_question_is_a_form_for_a_client_that_shows_forms(start: Start, world: World) -> None:
    world.script(call("ask", question="Which one?", choices=["red", "blue"]), say("Blue then."))
    client = start()
    client.initialize(elicitation={"form": {}})
    client.answer(
        "elicitation/create", lambda _params: {"action": "accept", "content": {"answer": "blue"}}
    )
    session = client.new(world.project)
    assert client.prompt(session, "Choose") == {"stopReason": "end_turn"}
    [elicitation] = client.requests_of("elicitation/create")
    assert elicitation["requestedSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
    last_message = world.llm.requests[-1].body["messages"][-1]
    assert "blue" in last_message["content"]


def test_a_folder_is_asked_about_once_in_a_session(start: Start, world: World) -> None:
    def decide(params: Json) -> Json:
        is_trust = params["toolCall"]["title"].startswith("Trust")
        return choose(params, "reject_once" if is_trust else "allow_once")

    command = call("terminal", command="touch made")
    world.script(command, command, say("No."), command, command, say("Yes."))
    client = start(is_trusted=False)
    client.initialize()
    client.answer("session/request_permission", decide)
    client.prompt(client.new(world.project), "Make it")
    assert len(client.requests_of("session/request_permission")) == 1
    client.allow()
    client.prompt(client.new(world.project), "Make it")
    titles = [
        each["toolCall"]["title"] for each in client.requests_of("session/request_permission")
    ]
    assert [title.partition(" ")[0] for title in titles] == ["Trust", "Trust", "Run", "Run"]
    assert (world.project / "made").exists()
