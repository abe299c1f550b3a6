"""Turns and daemons end in the middle of something; what can be done right afterwards."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import psutil
import pytest
from fake_llm import call, calls, error, hang, hold_step, say
from leftovers import wait_until_gone
from raw_client import RawClient
from world import NO_SETTINGS, World, items, text, wait_for_status

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def test_a_message_sent_while_the_turn_is_being_stopped_starts_the_next_one(world: World) -> None:
    stubborn = "trap '' INT TERM; echo started; while true; do sleep 0.1; done"
    world.script(call("terminal", command=stubborn, timeout_s=600), say("Next."), say("Last."))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for(lambda m: "started" in (m.get("params") or {}).get("text", ""))
    params = {"conversationId": conversation}
    client.send_request("conversation/interrupt", params)
    receipt = [
        client.send_request("conversation/sendMessage", {**params, "content": text(words)})
        for words in ("first", "second")
    ]
    dispositions = [client.result_of(request)["disposition"] for request in receipt]
    assert dispositions == ["interruptedAndStarted"] * 2
    assert world.turn(client)["status"] == "interrupted"
    world.turn(client, nth=3)
    texts = [item["content"][0]["text"] for item in items(client, "userMessage")]
    assert texts == ["go", "first", "second"]


def test_waiting_for_a_message_that_is_removed_is_answered(world: World) -> None:
    world.script(hang())
    client = world.daemon()
    conversation = world.start(client)
    world.llm.wait_for_requests(1)
    params = {"conversationId": conversation}
    message = {**params, "content": text("later"), "delivery": "queue", "wait": "completed"}
    request = client.send_request("conversation/sendMessage", message)
    actual_message = client.wait_for_event("message.queued")["event"]["message"]
    removal = {**params, "op": "remove", "messageId": actual_message["messageId"]}
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
    params = {"conversationId": conversation}
    message = {**params, "content": text("go"), "wait": "completed"}
    first = client.send_request("conversation/sendMessage", message)
    world.llm.wait_for_requests(1)
    turn_id = client.wait_for_event("turn.started")["turnId"]
    interrupt_result = client.request("conversation/interrupt", {**params, "turnId": "another"})
    assert interrupt_result["status"] == "running"
    client.request("conversation/interrupt", {**params, "turnId": turn_id})
    assert client.result_of(first)["turn"]["status"] == "interrupted"
    second = client.send_request("conversation/sendMessage", message)
    world.llm.wait_for_requests(2)
    client.request("conversation/close", {**params, "ifRunning": "pause"})
    assert client.result_of(second)["turn"]["status"] == "interrupted"


def test_waiting_for_a_queued_message_is_answered_when_the_conversation_is_closed(
    world: World,
) -> None:
    world.script(hang())
    client = world.daemon()
    conversation = world.start(client)
    world.llm.wait_for_requests(1)
    params = {"conversationId": conversation}
    message = {**params, "content": text("later"), "delivery": "queue", "wait": "completed"}
    request = client.send_request("conversation/sendMessage", message)
    client.wait_for_event("message.queued")
    client.request("conversation/close", {**params, "ifRunning": "pause"})
    error = client.error_of(request)
    assert (error.code, error.data["kind"]) == (-31006, "invalidState")
    assert "closed" in error.message


def test_everybody_who_waits_is_answered_when_the_log_is_lost(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(call("think", thought="x"), gate))
    client = world.daemon()
    conversation = client.request("conversation/start")["conversation"]["id"]
    params = {"conversationId": conversation}
    message = {**params, "content": text("go"), "wait": "completed"}
    receipt = client.send_request("conversation/sendMessage", message)
    world.llm.wait_for_requests(1)
    sent_message = client.send_request("conversation/sendMessage", {**message, "delivery": "queue"})
    client.wait_for_event("message.queued")
    log = world.log_of(conversation)
    log.rename(log.with_name("away"))
    gate.set()
    for turn in (receipt, sent_message):
        error = client.error_of(turn)
        assert (error.code, error.data["kind"]) == (-31031, "storage")
    assert client.error("conversation/interrupt", params).data["kind"] == "storage"
    client.request("conversation/close", {**params, "ifRunning": "pause"})
    log.with_name("away").rename(log)
    client.request("conversation/open", params)


# Two processes that escape from their parent, their session and the tag in their environment; one
# of them is deaf to signals.
FUGITIVES = """
rest='echo $BASHPID >> pids; exec sleep 1000'
away() { (setsid nohup env -i PATH="$PATH" bash -c "$1; $rest" &); }
away true; away 'trap "" TERM HUP INT'
while [ "$(wc -l < pids)" -lt 2 ]; do read -t 0.01 < /dev/zero; done 2>/dev/null
echo started; sleep 300
"""
# The pipes belong to the test, so they stay open when this editor dies.
EDITOR = """
import subprocess, sys
daemon = subprocess.Popen(sys.argv[1:], stdin=0, stdout=1)
sys.stderr.write(f"pid {daemon.pid}\\n")
sys.stderr.flush()
daemon.wait()
"""


def end_of_input(client: RawClient, _daemon: int) -> None:
    client.close_stdin()


def exit_in_order(client: RawClient, _daemon: int) -> None:
    client.request("shutdown")
    client.notify("exit")


def sigterm(_client: RawClient, daemon: int) -> None:
    os.kill(daemon, signal.SIGTERM)


def sigkill(_client: RawClient, daemon: int) -> None:
    os.kill(daemon, signal.SIGKILL)


def editor_killed(client: RawClient, _daemon: int) -> None:
    client.process.kill()


ENDS = (end_of_input, exit_in_order, sigterm, sigkill, editor_killed)


@pytest.mark.parametrize("end", ENDS)
def test_a_daemon_that_ends_in_any_way_leaves_nothing_and_a_true_record(
    world: World, end: Callable[[RawClient, int], None]
) -> None:
    (world.project / "pids").touch()
    world.script(call("terminal", command=FUGITIVES, timeout_s=600))
    is_watched = end is editor_killed
    client = world.raw(prefix=(sys.executable, "-c", EDITOR) if is_watched else ())
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    block = {"features": {"approvalRequests": True}, "trust": trust}
    editor = {"processId": client.process.pid if is_watched else None}
    client.initialize([world.project], params=editor, **block)
    daemon = client.request("daemon/status")["pid"]
    conversation = world.start(client)
    client.wait_for(lambda m: "started" in (m.get("params") or {}).get("text", ""))
    child_pids = [child.pid for child in psutil.Process(daemon).children(recursive=True)]
    fugitives = [int(pid) for pid in (world.project / "pids").read_text().split()]
    assert set(fugitives) < set(child_pids)
    end(client, daemon)
    wait_until_gone([daemon, *child_pids])
    if end is sigkill:
        return
    events = [record["event"] for record in world.records_of(conversation)]
    turn_ends = [event for event in events if event["type"] == "turn.completed"]
    assert [event["turn"]["status"] for event in turn_ends] == ["interrupted"]
    [item] = [
        event["item"]
        for event in events
        if event["type"] == "item.completed" and event["item"]["kind"] == "command"
    ]
    assert item["status"] == "cancelled"
    if end is end_of_input:
        params = {"conversationId": conversation}
        info = world.daemon().request("conversation/open", params)["conversation"]
        assert (info["status"], info["statusReason"]) == ("paused", "daemonRestarted")


def test_a_daemon_with_a_broken_installation_says_so_and_ends(world: World) -> None:
    (world.project / "yaml.py").write_text("raise ImportError('half installed')\n")
    world.variables["PYTHONPATH"] = str(world.project)
    client = world.raw()
    client.request("initialize", {"capabilities": {}})
    assert client.exit_code() == 4
    assert "half installed" in client.stderr


def test_a_turn_stops_at_its_limit_of_steps_and_resume_goes_on(world: World) -> None:
    world.script(*(call("think", thought="x") for _ in range(2)), say("Done."))
    client = world.daemon()
    conversation = world.start(client, maxSteps=2)
    assert world.turn(client)["stopReason"] == "maxSteps"
    assert wait_for_status(client, "paused")["event"]["reason"] == "budget"
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client, nth=2)["finalText"] == "Done."


A, B = (call("terminal", command=f"echo {word}") for word in "ab")
LOST = [call("edit", command="replace", path="no", old_text=n, new_text="x") for n in "1234"]
CIRCLES = {
    "alternatingCalls": [*[A, B] * 3, A],
    "identicalCalls": [calls(A, B)] * 4,
    "sameError": LOST,
    "monologue": [say("I think.")] * 3,
}


@pytest.mark.parametrize("pattern", CIRCLES)
def test_an_agent_that_goes_in_circles_is_stopped_and_the_user_frees_it(
    world: World, pattern: str
) -> None:
    steps = CIRCLES[pattern]
    # An answer without a call ends the turn, unless a hook wants the agent to go on.
    goes_on = {"type": "command", "command": "echo Act. >&2; exit 2"}
    settings = {"hooks": {"Stop": [{"hooks": [goes_on]}]}} if pattern == "monologue" else {}
    world.script(*steps, call("finish", message="Something else."))
    client = world.daemon(settings={"titles": False, **settings})
    conversation = world.start(client)
    assert world.turn(client)["stopReason"] == "stuck"
    assert wait_for_status(client, "paused")["event"]["reason"] == "stuck"
    events = [e["event"] for e in client.events if e["event"]["type"] == "stuck.detected"]
    nudges = [(pattern, "nudged")] if pattern != "monologue" else []
    assert [(f["pattern"], f["outcome"]) for f in events] == [*nudges, (pattern, "stopped")]
    assert len(world.llm.requests) == len(steps)
    client.notify("workspace/didChangeConfiguration", {"settings": {"ohDaemon": NO_SETTINGS}})
    if pattern == "identicalCalls":
        client.request("conversation/resume", {"conversationId": conversation})
    else:
        world.send(client, conversation, "try another way")
    assert world.turn(client, nth=2)["finalText"] == "Something else."
    messages_text = json.dumps(world.llm.requests[-1].body["messages"])
    assert messages_text.count(items(client, "notice")[-1]["note"]) == len(events)


def test_what_never_fits_into_the_window_ends_the_turn_and_a_message_goes_on(world: World) -> None:
    too_long = error(400, "This model's maximum context length is 1000 tokens")
    steps = chain([A, B, A], repeat(too_long))
    world.llm.play(lambda _: next(steps))
    client = world.daemon()
    conversation = world.start(client)
    turn = world.turn(client)
    assert (turn["status"], turn["error"]["kind"]) == ("failed", "contextWindowExceeded")
    # Three answers, what does not fit, a summary, and what does not fit after it either.
    assert len(world.llm.requests) == 6
    world.llm.play([say("It fits now.")])
    world.send(client, conversation, "go on")
    assert world.turn(client, nth=2)["finalText"] == "It fits now."
