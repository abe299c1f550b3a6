"""Faults from outside that a working daemon survives: odd bytes, pauses, no descriptors."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_llm import call, calls, error, raw_call, say
from world import World, content_of, items, text

from oh_daemon.conformance.connection import frame

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def request_body(request_id: int, conversation: str, words: str) -> bytes:
    """Return a message whose text is written as given, including escapes."""
    params = {"conversationId": conversation, "content": text("WORDS")}
    body = {"jsonrpc": "2.0", "id": request_id, "method": "conversation/sendMessage"}
    return json.dumps({**body, "params": params}).replace("WORDS", words).encode()


@pytest.mark.parametrize(
    ("words", "expected_text"),
    [
        ("a\\u0000b", "a\0b"),
        ("a\\u2028\\ufffe", "a\u2028\ufffe"),
        ("\\ud83d\\ude00", "😀"),
        # JavaScript sends half of a surrogate pair when a text is cut inside it.
        ("a\\ud800b\\udc00", "a\ufffdb\ufffd"),
    ],
)
def test_any_text_reaches_the_model_as_valid_text(
    world: World, words: str, expected_text: str
) -> None:
    world.script(say("One."), say("Two."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    client.send(request_body(900, conversation, words))
    client.result_of(900)
    assert world.turn(client, nth=2)["finalText"] == "Two."
    content = world.llm.requests[-1].body["messages"][-1]["content"]
    assert expected_text in (content if isinstance(content, str) else content[0]["text"])


def test_bytes_that_are_no_text_are_refused_and_half_pairs_of_a_model_are_mended(
    world: World,
) -> None:
    """Either would make the log and every later request invalid."""
    arguments = '{"command": "printf %s a\\ud800b | wc -m"}'
    world.script(say("One."), raw_call("terminal", arguments), say("Two."), say("Three."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    for n, words in enumerate((b"a\xffb", b"a\xed\xa0\x80b")):
        body = request_body(900 + n, conversation, "WORDS").replace(b"WORDS", words)
        client.expect(None)
        client.send_raw(frame(body))
        assert client.error_of(None, nth=n + 1).code == -32700
    world.send(client, conversation, "go on")
    assert world.turn(client, nth=2)["finalText"] == "Two."
    [command] = items(client, "command")
    assert command["command"] == "printf %s a\ufffdb | wc -m"
    assert content_of(command).startswith("3")
    world.send(client, conversation, "and on")
    assert world.turn(client, nth=3)["finalText"] == "Three."
    # The fake parses strictly; encoding what it parsed fails if any part is not valid text.
    json.dumps(world.llm.requests[-1].body, ensure_ascii=False).encode()


def test_a_message_may_come_in_pieces_with_seconds_between_them(world: World) -> None:
    world.script(
        call("terminal", command="for n in 1 2; do sleep 3; echo tick$n; done"), say("Ok.")
    )
    client = world.daemon()
    conversation = world.start(client)
    body = {"jsonrpc": "2.0", "id": "é😀", "method": "conversation/read"}
    params = {"conversationId": conversation}
    data = frame(json.dumps({**body, "params": params}, ensure_ascii=False).encode())
    in_header, in_character = 9, data.index("😀".encode()) + 2
    client.expect("é😀")
    client.send_raw(data[:in_header])
    client.wait_for(lambda m: "tick1" in m.get("params", {}).get("text", ""))
    client.send_raw(data[in_header:in_character])
    assert world.turn(client)["finalText"] == "Ok."
    client.send_raw(data[in_character:])
    assert client.result_of("é😀")["conversation"]["id"] == conversation


def test_an_interrupt_ends_the_wait_for_the_next_attempt(world: World) -> None:
    world.script(error(503, "busy", headers={"retry-after": "60"}), say("Never."))
    client = world.daemon()
    conversation = world.start(client)
    retry = client.wait_for_event("retry.scheduled")["event"]
    assert retry["delayMs"] > 50_000
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert world.turn(client)["status"] == "interrupted"
    assert len(world.llm.requests) == 1
    world.llm.play([say("Here again.")])
    world.send(client, conversation, "again")
    assert world.turn(client, nth=2)["finalText"] == "Here again."


def test_a_limit_too_low_for_a_terminal_is_said(world: World) -> None:
    client = world.raw(prefix=("bash", "-c", 'ulimit -n 96; exec "$@"', "bash"))
    client.initialize([world.project], trust=[{"folder": world.project.as_uri(), "trusted": True}])
    world.script(call("terminal", command="echo never"), say("Alive."))
    world.start(client)
    assert world.turn(client)["finalText"] == "Alive."
    [refused_command] = items(client, "command")
    assert "raise it with `ulimit -n 1024`" in content_of(refused_command)


@pytest.mark.full
def test_without_descriptors_everything_is_refused_by_name_and_nothing_leaks(
    world: World,
) -> None:
    client = world.raw(prefix=("bash", "-c", 'ulimit -n 256; exec "$@"', "bash"))
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    client.initialize([world.project], trust=trust)
    fds = Path(f"/proc/{client.process.pid}/fd")
    world.script(call("terminal", command="echo first"), say("Ready."))
    first = world.start(client)
    world.turn(client)
    threads = fds.with_name("task")
    n_base, n_threads = len([*fds.iterdir()]), len([*threads.iterdir()])
    uris: list[str] = []
    for _ in range(200):
        request_id = client.send_request("conversation/start")
        answer = client.answer_to(request_id)
        if "error" in answer:
            assert "too many files are open; close some conversations" in answer["error"]["message"]
            break
        uris.append(answer["result"]["conversation"]["id"])
    else:
        pytest.fail("nothing was refused")
    world.script(
        call("terminal", command="echo more", terminal_id="another"),
        call("terminal", command="echo still"),
        say("Alive."),
    )
    world.send(client, first, "go on")
    assert world.turn(client, nth=2)["finalText"] == "Alive."
    _, refused_command, last_command = items(client, "command")
    assert "too many files are open" in content_of(refused_command)
    assert "still" in content_of(last_command)
    for conversation in uris:
        client.request("conversation/close", {"conversationId": conversation})
    assert len([*fds.iterdir()]) <= n_base + 3
    assert len([*threads.iterdir()]) <= n_threads + 1
    world.script(say("As before."))
    world.send(client, first, "go on")
    assert world.turn(client, nth=3)["finalText"] == "As before."


@contextmanager
def without_new_threads(pid: int) -> Generator[None]:
    """Let every start of a thread or process in this one fail, as at the user's limit for them."""
    starts = "clone,clone3,fork,vfork"
    argv = ("strace", "-f", "-p", str(pid), "-e", f"trace={starts}")
    inject = ("-e", f"inject={starts}:error=EAGAIN")
    with subprocess.Popen([*argv, *inject], stderr=subprocess.PIPE) as strace:
        assert strace.stderr is not None
        assert b"attached" in strace.stderr.readline()
        yield
        strace.terminate()


def test_without_new_threads_everything_is_refused_by_name_and_nothing_hangs(world: World) -> None:
    world.script(call("terminal", command="echo first"), say("Ready."), say("Closed."))
    client = world.raw()
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    client.initialize([world.project], trust=trust)
    fds = Path(f"/proc/{client.process.pid}/fd")
    first = world.start(client)
    world.turn(client)
    request_params = {"conversationId": world.start(client)}
    world.turn(client, nth=2)
    client.request("conversation/close", request_params)
    n_base = len([*fds.iterdir()])
    looks = calls(call("glob", pattern="*"), call("list"))
    world.script(looks, call("terminal", command="echo", terminal_id="another"), say("Alive."))
    with without_new_threads(client.process.pid):
        for method, params in (("conversation/start", {}), ("conversation/open", request_params)):
            refusal = client.error(method, params)
            assert refusal.data["kind"] == "overloaded"
            assert "no more threads can be started" in refusal.message
        world.send(client, first, "go on")
        assert world.turn(client, nth=3)["finalText"] == "Alive."
    tools = [item["status"] for item in items(client, "toolCall")]
    assert tools == ["completed", "completed"]
    assert "no more processes can be started" in content_of(items(client, "command")[-1])
    assert len([*fds.iterdir()]) <= n_base + 3
    world.script(say("As before."))
    client.request("conversation/open", request_params)
    world.send(client, request_params["conversationId"], "go on")
    assert world.turn(client, nth=4)["finalText"] == "As before."
