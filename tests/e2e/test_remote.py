"""A daemon on another machine: carried stdio, models from here, and how it ends.

The other machine is a namespace with its own processes, no network, and a home of its own.
"""

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from editor import Editor
from fake_llm import call, chunks, error, hang, say
from world import KEY, World, content_of, items

Json = dict[str, Any]
BIN = Path(sys.executable).parent
NAMESPACE = "unshare --user --map-root-user --pid --net --mount-proc --fork"


def elsewhere(world: World, tmp_path: Path, *options: str, ending: str = "--kill-child") -> Path:
    """Let the world's daemons run in a namespace; return a file with all that they are sent."""
    home, sent = tmp_path / "there", tmp_path / "sent"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntee {sent} | oh-daemon "$@"\n')
    program.chmod(0o755)
    greeting = "sh -c 'echo Welcome; exec \"$@\"' sh"
    there = f"env HOME={home} OH_DAEMON_HOME={home} OH_DAEMON_MODEL=nobody/none {greeting}"
    options = ("--program", str(program), *options)
    target = f"cmd:{NAMESPACE} {ending} {there}"
    world.product = (sys.executable, "-m", "oh_daemon", "remote", target, *options)
    world.variables["PATH"] = f"{BIN}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return sent


def test_a_turn_there_sees_unsaved_text_and_asks_the_model_from_here(
    world: World, tmp_path: Path
) -> None:
    sent = elsewhere(world, tmp_path)
    file = world.project / "a.txt"
    file.write_text("saved\n")
    command = "tr '\\0' ' ' < /proc/1/cmdline; cat /proc/[0-9]*/environ | grep -c sk-test-"
    world.script(
        call("edit", command="view", path="a.txt"),
        call("terminal", command=command),
        call("edit", command="replace", path="a.txt", old_text="typed", new_text="done"),
        chunks(3, "Done. "),
    )
    editor = Editor(world, settings={"llm": {"apiKey": "sk-test-of-the-editor"}})
    client = editor.client
    client.request("secret/set", {"name": "GROQ_API_KEY", "value": "sk-test-lent-by-it"})
    editor.open(file, "typed\n")
    client.request("workspace/setTrust", {"folder": world.project.as_uri(), "trusted": "full"})
    conversation = world.start(client)
    turn = world.turn(client)
    assert (turn["status"], turn["finalText"]) == ("completed", "Done. Done. Done. ")
    assert editor.buffers[file.as_uri()].text == "done\n"
    # The first process there is the daemon's shell, and no process there has the key.
    [ran] = items(client, "command")
    assert "/program --stdio 0\n" in content_of(ran)
    # The text came in pieces, and the key with the request from here.
    deltas = client.notifications("conversation/delta")
    assert "".join(d["text"] for d in deltas if d["channel"] == "text") == "Done. Done. Done. "
    headers = {request.headers["authorization"] for request in world.llm.requests}
    assert headers == {"Bearer sk-test-of-the-editor"}
    told = sent.read_bytes() + world.log_of(conversation).read_bytes()
    assert b"typed" in told
    assert not any(key in told for key in (KEY.encode(), b"sk-test-of", b"sk-test-lent"))
    assert b'"trusted":true' not in told.replace(b" ", b"")


def test_a_connection_that_is_cut_leaves_nothing_there_and_the_conversation_goes_on(
    world: World, tmp_path: Path
) -> None:
    elsewhere(world, tmp_path, ending="")
    world.script(call("terminal", command="sleep 1000", timeout_s=600), say("Done."))
    client = world.daemon()
    client.request("workspace/setTrust", {"folder": world.project.as_uri(), "trusted": "full"})
    conversation = world.start(client)
    client.wait_for_event(lambda params: params["event"].get("status") == "running")
    [carrier] = [
        child
        for child in psutil.Process(client.process.pid).children(recursive=True)
        if child.name() == "unshare"
    ]
    carrier.kill()
    assert client.exit_code() == 1
    assert "ended (exit code -9)" in client.stderr
    assert client.survivors() == []
    again = world.daemon()
    opened = again.request("conversation/open", {"conversationId": conversation})["conversation"]
    assert (opened["status"], opened["statusReason"]) == ("paused", "daemonRestarted")
    again.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(again)["finalText"] == "Done."
    again.process.kill()
    assert again.survivors() == []


def test_an_interrupt_ends_the_call_to_the_model_and_what_the_model_refuses_is_told(
    world: World, tmp_path: Path
) -> None:
    elsewhere(world, tmp_path)
    world.script(hang(chunks(1, "Well")), error(401, "no such key"))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for(lambda m: m.get("method") == "conversation/delta")
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert world.turn(client)["status"] == "interrupted"
    world.send(client, conversation, "again")
    refused = world.turn(client, nth=2)["error"]
    assert (refused["kind"], "oh-daemon login" in refused["hint"]) == ("authRequired", True)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("cmd:false", "(exit code 1)", "without a question: false sh -c true"),
        ("cmd:sh -c 'echo no route >&2; exit 9'", "(exit code 9): no route", "without a question"),
        ("cmd:env HOME=/nowhere PATH=/bin", "there is no program oh-daemon", "install it there"),
    ],
)
def test_where_no_daemon_can_be_reached_initialize_says_what_to_try(
    world: World, words: str, message: str, hint: str
) -> None:
    world.product = (sys.executable, "-m", "oh_daemon", "remote", words)
    client = world.raw()
    refused = client.error("initialize", {"processId": None, "capabilities": {}})
    assert message in refused.message
    assert hint in refused.data["hint"]
    assert client.exit_code() == 4
    assert hint in client.stderr
