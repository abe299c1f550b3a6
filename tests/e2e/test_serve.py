"""One daemon for several clients: what all see and do, and what a client that leaves ends."""

import signal
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path

from fake_llm import held, say
from raw_client import RawClient
from test_approvals import ASK, keep_waiting, touch
from world import PRODUCT, Json, World, wait_for_status


def joined(world: World, conversation: str) -> RawClient:
    """Let one more client open the conversation."""
    client = world.daemon()
    client.request("conversation/open", {"conversationId": conversation, "replay": "none"})
    return client


def spoken(client: RawClient) -> list[tuple[int, str]]:
    return [(each["seq"], each["event"]["type"]) for each in client.events]


def test_two_clients_see_the_same_and_both_write(world: World) -> None:
    world.script(say("first"), say("second"))
    world.serve()
    one = world.daemon()
    conversation = world.start(one, "of one")
    world.turn(one)
    other = joined(world, conversation)
    world.send(other, conversation, "of the other")
    world.turn(one, nth=2)
    world.turn(other)
    first_seq = spoken(other)[0][0]
    assert [each for each in spoken(one) if each[0] >= first_seq] == spoken(other)
    assert "of the other" in str(one.events)


def test_an_approval_goes_to_all_and_the_first_answer_counts(world: World) -> None:
    world.script(touch("made"), say("Done."))
    world.serve()
    one = world.daemon()
    one.answer("approval/request", keep_waiting)
    answer: Future[Json] = Future()
    conversation = world.start(one, **ASK)
    wait_for_status(one, "waiting")
    other = world.daemon()
    other.answer("approval/request", lambda _params: answer)
    other.request("conversation/open", {"conversationId": conversation})
    other.wait_for(lambda message: message.get("method") == "approval/request")
    answer.set_result({"optionId": "allow-once"})
    world.turn(other)
    # What waited with the other client is withdrawn there.
    request = one.wait_for(lambda message: message.get("method") == "approval/request")
    one.wait_for(
        lambda m: m.get("method") == "$/cancelRequest" and m["params"]["id"] == request["id"]
    )
    assert (world.project / "made").exists()


def test_a_client_that_leaves_ends_nothing_and_what_it_began_waits_for_the_next(
    world: World,
) -> None:
    gate = threading.Event()
    world.script(held(touch("made"), gate), say("Done."))
    world.serve()
    one = world.daemon()
    conversation = world.start(one, **ASK)
    wait_for_status(one, "running")
    one.process.send_signal(signal.SIGKILL)
    one.exit_code()
    gate.set()
    other = world.daemon()
    other.answer("approval/request", lambda _params: {"optionId": "allow-once"})
    other.request("conversation/open", {"conversationId": conversation})
    assert world.turn(other)["status"] == "completed"
    assert (world.project / "made").exists()


def test_a_client_sees_only_conversations_of_folders_that_it_opened(
    world: World, tmp_path: Path
) -> None:
    world.script(say("first"))
    world.serve()
    one = world.daemon()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = world.daemon(folders=[elsewhere])
    conversation = world.start(one, clientRequestId="mine")
    world.turn(one)
    named = {"conversationId": conversation}
    for method in ("open", "read", "subscribe", "close"):
        assert other.error(f"conversation/{method}", named).data["kind"] == "conversationNotFound"
    assert other.request("conversation/list")["conversations"] == []
    in_folder = {"folder": world.project.as_uri()}
    assert other.request("conversation/list", in_folder)["conversations"] == []
    assert other.request("daemon/status")["conversations"] == []
    assert other.error("conversation/start", {"clientRequestId": "mine"}).data["errors"]
    assert other.events == []
    assert other.notifications("conversation/changed") == []
    # What the client closes stays open while others take part in it.
    third = joined(world, conversation)
    one.request("conversation/close", named)
    assert third.request("daemon/status")["conversations"][0]["id"] == conversation


def test_a_second_one_does_not_take_the_address(world: World) -> None:
    world.serve()
    second = subprocess.run(
        [*PRODUCT[:-1], "serve"], env={**world.environment}, capture_output=True, check=False
    )
    assert second.returncode == 2
    assert b"another `oh-daemon serve`" in second.stderr
