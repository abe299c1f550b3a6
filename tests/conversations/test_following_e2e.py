"""A second window on the same project follows what the agent of the first one does."""

import shutil
import threading
from dataclasses import replace
from typing import Any

import pytest
from fake_llm import Step, call, say
from raw_client import RawClient
from world import World, content_of, text, wait_for_status

from oh_daemon.conformance.rpc_process import NoAnswer

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def gate_step(step: Step) -> tuple[Step, threading.Event]:
    """Return the step, and the event that must be set before it begins."""
    gate = threading.Event()
    return replace(step, gate=gate), gate


def wait_until_freed(client: RawClient, conversation: str) -> None:
    """Wait until the client is told that the other process has released the conversation."""

    def is_free(message: Json) -> bool:
        info = (message.get("params") or {}).get("conversation", {})
        is_change = message.get("method") == "conversation/changed"
        return is_change and (info["id"], info["lock"]) == (conversation, {"mine": False})

    client.wait_for(is_free)


def test_a_second_window_sees_every_event_live_once_and_in_order(world: World) -> None:
    last, gate = gate_step(say("Done.", n_chunks=5))
    world.script(call("think", thought="hm"), call("terminal", command="seq 20000"), last)
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    first.wait_for_event(lambda e: e["event"].get("item", {}).get("exitCode") == 0)
    params = {"conversationId": conversation}
    open_result = second.request("conversation/open", {**params, "replay": "events", "afterSeq": 0})
    info = open_result["conversation"]
    assert (info["lock"], info["status"]) == (
        {"mine": False, "pid": first.process.pid},
        "running",
    )
    seqs = [record["seq"] for record in open_result["events"]]
    assert seqs == list(range(1, open_result["lastSeq"] + 1))
    again = second.request("conversation/open", params)
    assert [item["kind"] for item in again["items"]][-1] == "command"
    gate.set()
    for client in (first, second):
        assert world.turn(client)["finalText"] == "Done."
        wait_for_status(client, "idle")
    assert second.events == first.events[open_result["lastSeq"] :]
    assert not second.notifications("conversation/delta")
    ref = next(item for item in again["items"] if item["kind"] == "command")["outputRef"]
    output = second.request("output/read", {**params, "outputRef": ref, "limit": 10})
    assert output["text"] == "1\n2\n3\n4\n5\n"
    second.wait_for(lambda message: message.get("method") == "conversation/changed")
    changes = second.notifications("conversation/changed")
    assert [each["conversation"]["status"] for each in changes] == ["idle"]


def test_what_would_change_it_is_refused_with_the_way_out(world: World) -> None:
    world.script(call("terminal", command="touch made"), say("Done."))
    first, second = world.daemon(), world.daemon()
    for client in (first, second):
        client.answer("approval/request", keep_waiting)
    conversation = world.start(first, options={"approval": "askAlways"})
    wait_for_status(first, "waiting")
    request_params = {"conversationId": conversation}
    open_result = second.request("conversation/open", request_params)
    [approval] = open_result["pending"]
    answer = {"digest": approval["digest"], "optionId": "allow-once"}
    for method, params in {
        "conversation/sendMessage": {"content": text("no")},
        "conversation/pause": {},
        "conversation/resume": {},
        "conversation/interrupt": {},
        "conversation/queue": {},
        "conversation/setOption": {"optionId": "mode", "value": "full"},
        "conversation/update": {"title": "mine"},
        "conversation/delete": {},
        "changes/undo": {},
        "approval/respond": {"approvalId": approval["id"], **answer},
    }.items():
        error = second.error(method, {**request_params, **params})
        assert (method, error.code) == (method, -31004)
        assert f"process {first.process.pid}" in error.message
        assert "close it there" in error.message
    # The other window asks; the answer that it gets is seen here.
    assert not [m for m in second.messages if m.get("method") == "approval/request"]
    first.request("approval/respond", {"approvalId": approval["id"], **answer})
    assert world.turn(second)["finalText"] == "Done."
    assert (world.project / "made").exists()


def keep_waiting(_params: Json) -> None:
    raise NoAnswer


def test_who_closes_it_here_hears_no_more_of_it(world: World) -> None:
    world.script(say("One."), say("Two."), say("Three."))
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    wait_for_status(first, "idle")
    params = {"conversationId": conversation}
    second.request("conversation/open", params)
    assert second.request("conversation/close", params) == {}
    assert second.error("conversation/close", params).code == -31002
    world.send(first, conversation, "more", wait="completed")
    wait_for_status(first, "idle", nth=2)
    last = second.request("conversation/open", params)["lastSeq"]
    world.send(first, conversation, "and more", wait="completed")
    world.turn(second)
    assert second.events[0]["seq"] == last + 1
    # None of this changes which process owns it.
    assert first.request("conversation/open", params)["conversation"]["lock"] == {"mine": True}


def test_when_the_other_process_is_killed_this_one_is_told_and_takes_it_over(
    world: World,
) -> None:
    world.script(call("terminal", command="echo begun; sleep 300", timeout_s=600))
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    params = {"conversationId": conversation}
    first.wait_for(lambda m: "begun" in (m.get("params") or {}).get("text", ""))
    assert not second.request("conversation/open", params)["conversation"]["lock"]["mine"]
    first.kill()
    wait_until_freed(second, conversation)
    open_result = second.request("conversation/open", params)
    info = open_result["conversation"]
    assert (info["lock"], info["status"], info["statusReason"]) == (
        {"mine": True},
        "paused",
        "daemonRestarted",
    )
    assert open_result["items"][-1]["reason"] == "outcomeUnknown"
    world.script(say("Gone on."))
    second.request("conversation/resume", params)
    assert world.turn(second)["finalText"] == "Gone on."
    seqs = [record["seq"] for record in world.records_of(conversation)]
    assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("way", ["close", "exit"])
def test_when_the_other_window_is_done_with_it_this_one_may_open_it(world: World, way: str) -> None:
    world.script(say("Hi."), say("Again."))
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    wait_for_status(first, "idle")
    params = {"conversationId": conversation}
    second.request("conversation/open", params)
    [summary] = second.request("conversation/list")["conversations"]
    assert summary["lock"] == {"mine": False, "pid": first.process.pid}
    if way == "close":
        first.request("conversation/close", params)
    else:
        first.close()
    wait_until_freed(second, conversation)
    [summary] = second.request("conversation/list")["conversations"]
    assert summary["lock"] == {"mine": False}
    event_types = [e["event"]["type"] for e in second.events]
    assert event_types == (["conversation.closed"] if way == "close" else [])
    open_result = second.request("conversation/open", params)
    assert open_result["conversation"]["lock"] == {"mine": True}
    assert content_of(open_result["items"][0]) == "go"
    world.send(second, conversation, "more")
    assert world.turn(second)["finalText"] == "Again."


def test_lists_say_which_conversations_another_window_has_open(world: World) -> None:
    world.script(say("Hi."))
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    wait_for_status(first, "idle")
    locks = [{"mine": False, "pid": first.process.pid}, {"mine": False}]
    for lock in locks:
        [summary] = second.request("conversation/list")["conversations"]
        assert (summary["id"], summary["lock"]) == (conversation, lock)
        first.kill()


def test_when_the_log_is_deleted_this_one_is_told(world: World) -> None:
    world.script(say("Hi."))
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    wait_for_status(first, "idle")
    params = {"conversationId": conversation}
    second.request("conversation/open", params)
    folder = world.log_of(conversation).parent
    # The first daemon may just be writing something beside the log.
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    wait_until_freed(second, conversation)
    assert second.error("conversation/open", params).code == -31002


def test_where_nothing_tells_of_changes_it_is_read_anew_and_taken_over(world: World) -> None:
    world.script(say("One."), say("Two."))
    first = world.daemon()
    conversation = world.start(first)
    wait_for_status(first, "idle")
    inject = ("-e", "trace=inotify_init1", "-e", "inject=inotify_init1:error=EMFILE")
    second = world.raw(prefix=("strace", "-f", "-qq", "-o", "/dev/null", *inject))
    second.initialize([world.project])
    params = {"conversationId": conversation}
    before = second.request("conversation/open", params)
    assert before["conversation"]["lock"]["mine"] is False
    world.send(first, conversation, "more", wait="completed")
    wait_for_status(first, "idle", nth=2)
    after = second.request("conversation/open", params)
    assert [item["text"] for item in after["items"][1::2]] == ["One.", "Two."]
    assert (second.events, after["lastSeq"] > before["lastSeq"]) == ([], True)
    first.kill()
    assert second.request("conversation/open", params)["conversation"]["lock"] == {"mine": True}


def test_many_events_of_another_window_arrive_whole(world: World) -> None:
    world.script(*[call("think", thought=f"{n} " + "x" * 5000) for n in range(60)], say("Done."))
    first, second = world.daemon(), world.daemon()
    conversation = world.start(first)
    first.wait_for_event("item.completed", nth=2)
    last = second.request("conversation/open", {"conversationId": conversation})["lastSeq"]
    for client in (first, second):
        wait_for_status(client, "idle")
    assert second.events == first.events[last:]
