"""Models that are reached through litellm, which a child process of the daemon imports."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from acp_client import AcpClient
from fake_llm import hang, say
from processes import argv
from raw_client import RawClient
from world import World

Json = dict[str, Any]
WITHIN_S = 60
SETTINGS: Json = {"profiles": {"far": {"model": "openai/far", "llm": {"client": "litellm"}}}}
"""A model through litellm beside one that is asked directly."""
FAR: Json = {"options": {"approval": "askNever", "model": "far"}}
HELD_IMPORT = """
import sys
class Held:
    def find_spec(self, name, path=None, target=None):
        if name == "litellm" and "oh_daemon.features.models.litellm_child" in sys.orig_argv:
            open({fifo!r}).read()
sys.meta_path.insert(0, Held())
"""


def child_of(client: RawClient) -> psutil.Process:
    """Return the process in which litellm runs, or is to run."""
    children = psutil.Process(client.process.pid).children()
    [actual_child] = [
        child for child in children if "oh_daemon.features.models.litellm_child" in argv(child)
    ]
    return actual_child


@pytest.mark.full
def test_an_interrupt_and_another_conversation_do_not_wait_for_the_import(
    world: World, tmp_path: Path
) -> None:
    fifo = tmp_path / "may-import"
    os.mkfifo(fifo)
    (tmp_path / "sitecustomize.py").write_text(HELD_IMPORT.format(fifo=str(fifo)))
    world.variables["PYTHONPATH"] = str(tmp_path)
    world.llm.play(lambda request: say(request["model"]))
    client = world.daemon(settings=SETTINGS)
    interrupted_conversation = world.start(client, **FAR)
    with fifo.open("w"):  # Once the import has begun. It goes on when this is closed.
        child_held = child_of(client)
        world.start(client)
        assert world.turn(client)["finalText"] == "fake"
        client.request("conversation/interrupt", {"conversationId": interrupted_conversation})
        assert world.turn(client, nth=2)["status"] == "interrupted"
        world.start(client, **FAR)
    assert world.turn(client, nth=3)["finalText"] == "far"
    assert [request.body["model"] for request in world.llm.requests] == ["fake", "far"]
    assert child_of(client) == child_held


@pytest.mark.full
def test_what_an_acp_client_asks_meanwhile_does_not_wait_for_the_import_either(
    world: World, tmp_path: Path
) -> None:
    fifo = tmp_path / "may-import"
    os.mkfifo(fifo)
    (tmp_path / "sitecustomize.py").write_text(HELD_IMPORT.format(fifo=str(fifo)))
    (world.home / "settings.json").write_text(json.dumps({"llm": {"client": "litellm"}}))
    world.llm.play(lambda request: say(request["model"]))
    with AcpClient(world.project, {**world.environment, "PYTHONPATH": str(tmp_path)}) as client:
        client.initialize()
        session = client.new(world.project)
        prompt = client.send_prompt(session, "Hi")
        with fifo.open("w"):  # Once the import has begun. It goes on when this is closed.
            other_conversation = client.new(world.project)
            client.request("session/set_mode", {"sessionId": other_conversation, "modeId": "plan"})
            client.cancel(session)
            assert client.result_of(prompt) == {"stopReason": "cancelled"}
            prompt = client.send_prompt(other_conversation, "Hi")
        assert client.result_of(prompt) == {"stopReason": "end_turn"}
        assert client.text() == "fake"


@pytest.mark.full
def test_a_child_that_hangs_holds_up_no_interrupt_and_ends_with_a_daemon_that_is_killed(
    world: World,
) -> None:
    world.script(say("Done."))
    client = world.daemon(settings=SETTINGS)
    conversation = world.start(client, **FAR)
    assert world.turn(client)["finalText"] == "Done."
    child = child_of(client)
    child.send_signal(signal.SIGSTOP)
    world.send(client, conversation, "more than a pipe takes " * 10_000)
    client.wait_for_event("turn.started", nth=2)
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert world.turn(client, nth=2)["status"] == "interrupted"
    client.kill()
    psutil.wait_procs([child], timeout=WITHIN_S)
    assert not child.is_running()


def test_a_child_that_is_killed_costs_its_calls_another_attempt(world: World) -> None:
    world.script(hang(), say("Done."))
    client = world.daemon(settings=SETTINGS)
    world.start(client, **FAR)
    world.llm.wait_for_requests(1, WITHIN_S)
    child_killed = child_of(client)
    child_killed.kill()
    message = client.wait_for_event("retry.scheduled")["event"]["error"]["message"]
    assert message == "the process in which litellm runs ended with exit code -9"
    assert world.turn(client)["finalText"] == "Done."
    assert child_of(client) != child_killed
