"""One daemon for several clients: what all see and do, and what a client that leaves ends."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

from approvals import ASK, keep_waiting, touch
from cli_runs import begin, run
from command_line import end
from editor import Editor
from fake_llm import Step, call, hold_step, say
from raw_client import RawClient
from tool_items import tool_items
from world import PRODUCT, Json, World, wait_for_status, wait_for_words

STRANGER = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
peer = socket.socket(socket.AF_UNIX)
peer.connect("serve.sock")
sys.stdout.write("let in" if peer.recv(1) else "closed")
"""


def join(world: World, conversation: str) -> RawClient:
    """Let one more client open the conversation."""
    client = world.daemon()
    client.request("conversation/open", {"conversationId": conversation, "replay": "none"})
    return client


def shown_messages(client: RawClient) -> list[tuple[int, str]]:
    return [(each["seq"], each["event"]["type"]) for each in client.events]


def test_two_clients_see_the_same_and_both_write(world: World) -> None:
    world.script(say("first"), say("second"))
    world.serve()
    one = world.daemon()
    conversation = world.start(one, "of one")
    wait_for_status(one, "idle")
    other_client = join(world, conversation)
    world.send(other_client, conversation, "of the other")
    wait_for_status(one, "idle", nth=2)
    wait_for_status(other_client, "idle")
    first_seq = shown_messages(other_client)[0][0]
    assert [each for each in shown_messages(one) if each[0] >= first_seq] == shown_messages(
        other_client
    )
    assert "of the other" in str(one.events)


def test_sender_of_a_message_decides_whose_trust_its_turn_has(world: World) -> None:
    names = ("by-one", "by-other", "by-one-again")
    steps = [step for n in names for step in (call("terminal", command=f"touch {n}"), say("Done."))]
    world.script(*steps)
    world.serve()
    one = world.daemon()
    conversation = world.start(one)
    world.turn(one)
    other = world.daemon(trust_value=False)
    other.request("conversation/open", {"conversationId": conversation, "replay": "none"})
    world.send(other, conversation, "of one who does not trust the folder")
    world.turn(one, nth=2)
    world.send(one, conversation, "of one who does")
    world.turn(one, nth=3)
    assert [name for name in names if (world.project / name).exists()] == ["by-one", "by-one-again"]


def test_an_approval_goes_to_all_and_the_first_answer_counts(world: World) -> None:
    world.script(touch("made"), say("Done."))
    world.serve()
    one = world.daemon()
    one.answer("approval/request", keep_waiting)
    answer: Future[Json] = Future()
    conversation = world.start(one, **ASK)
    wait_for_status(one, "waiting")
    other_client = world.daemon()
    other_client.answer("approval/request", lambda _params: answer)
    other_client.request("conversation/open", {"conversationId": conversation})
    other_client.wait_for(lambda message: message.get("method") == "approval/request")
    answer.set_result({"optionId": "allow-once"})
    world.turn(other_client)
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
    world.script(hold_step(touch("made"), gate), say("Done."))
    world.serve()
    one = world.daemon()
    conversation = world.start(one, **ASK)
    wait_for_status(one, "running")
    one.process.send_signal(signal.SIGKILL)
    one.exit_code()
    gate.set()
    other_client = world.daemon()
    other_client.answer("approval/request", lambda _params: {"optionId": "allow-once"})
    other_client.request("conversation/open", {"conversationId": conversation})
    assert world.turn(other_client)["status"] == "completed"
    assert (world.project / "made").exists()


def test_a_client_sees_only_conversations_of_folders_that_it_opened(
    world: World, tmp_path: Path
) -> None:
    world.script(say("first"))
    world.serve()
    one = world.daemon()
    other_folder = tmp_path / "elsewhere"
    other_folder.mkdir()
    other_client = world.daemon(folders=[other_folder])
    conversation = world.start(one, clientRequestId="mine")
    world.turn(one)
    params = {"conversationId": conversation}
    for method in ("open", "read", "subscribe", "close"):
        assert (
            other_client.error(f"conversation/{method}", params).data["kind"]
            == "conversationNotFound"
        )
    assert other_client.request("conversation/list")["conversations"] == []
    in_folder = {"folder": world.project.as_uri()}
    assert other_client.request("conversation/list", in_folder)["conversations"] == []
    assert other_client.request("daemon/status")["conversations"] == []
    assert other_client.error("conversation/start", {"clientRequestId": "mine"}).data["errors"]
    assert other_client.events == []
    assert other_client.notifications("conversation/changed") == []
    # What the client closes stays open while others take part in it.
    third = join(world, conversation)
    one.request("conversation/close", params)
    assert third.request("daemon/status")["conversations"][0]["id"] == conversation


def test_a_second_one_does_not_take_the_address(world: World) -> None:
    world.serve()
    second = subprocess.run(
        [*PRODUCT[:-1], "serve"], env={**world.environment}, capture_output=True, check=False
    )
    assert second.returncode == 2
    assert b"another `oh-daemon serve`" in second.stderr


def test_edits_go_where_the_document_is_open_and_other_unsaved_text_is_asked_about(
    world: World,
) -> None:
    file, single_file = world.project / "a.txt", world.project / "b.txt"
    for path in (file, single_file):
        path.write_text("one\ntwo\n")
    world.serve()
    one, other_editor = Editor(world), Editor(world)
    one.open(file, typed_text="one\ntwo\nmine\n")
    other_editor.open(file)
    other_editor.open(single_file, typed_text="one\ntwo\ntheirs\n")

    def change(path: str, old: str) -> Step:
        return call("edit", command="replace", path=path, old_text=old, new_text="changed")

    def view(path: str) -> Step:
        return call("edit", command="view", path=path)

    steps = [view("a.txt"), change("a.txt", "one"), view("b.txt"), change("b.txt", "one")]
    world.script(*steps, say("Done."))
    conversation = world.start(one.client)
    world.turn(one.client)
    # The text of the client that sent the message counts; what only the other shows, it gets.
    assert one.buffers[file.as_uri()].text == "changed\ntwo\nmine\n"
    assert other_editor.buffers[file.as_uri()].text == "one\ntwo\n"
    assert other_editor.buffers[single_file.as_uri()].text == "changed\ntwo\ntheirs\n"
    other_editor.type(file, "one\ntwo\nnot mine\n")
    world.script(change("a.txt", "two"), say("Which one?"))
    # An answer shows that what was typed before is known.
    other_editor.client.request("daemon/status")
    world.send(one.client, conversation, "go on")
    world.turn(one.client, nth=2)
    [*_, refused_item] = tool_items(one)
    assert "Another editor of the user shows other unsaved text" in str(refused_item)
    assert one.buffers[file.as_uri()].text == "changed\ntwo\nmine\n"


def test_it_ends_after_the_last_client_when_nothing_runs(world: World) -> None:
    gate = threading.Event()
    world.script(hold_step(say("first"), gate))
    assert "ExecStart=" in run(world, "serve", "--systemd").out
    daemon = world.serve("--idle", "0")
    client = world.daemon()
    world.start(client)
    wait_for_status(client, "running")
    client.close()
    assert daemon.poll() is None
    gate.set()
    assert daemon.wait() == 0


def test_nobody_else_and_no_command_of_an_agent_can_connect(world: World) -> None:
    attach = f"{sys.executable} -P -m oh_daemon attach </dev/null"
    sandbox = [
        sys.executable,
        "-m",
        "oh_daemon",
        "sandbox",
        "--level",
        "landlock",
        "--",
        "sh",
        "-c",
    ]
    world.script(call("terminal", command=attach), say("Done."))
    world.serve()
    client = world.daemon()
    world.start(client)
    world.turn(client)
    inside = subprocess.run(
        [*sandbox, attach], env={**os.environ, **world.environment}, check=False, cwd=world.project
    )
    assert inside.returncode == 4, "the place is out of reach"
    place = world.home / "state/serve.sock"
    assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o077) == (0o600, 0)
    if os.geteuid() == 0:
        # Let another user get as far as to the socket.
        place.chmod(0o666)
        place.parent.chmod(0o711)
        stranger = subprocess.run(
            [sys.executable, "-c", STRANGER], cwd=place.parent, capture_output=True, check=True
        )
        assert stranger.stdout == b"closed"
        assert "it is of user 65534" in (world.home / "daemon.log").read_text()
    log = (world.home / "daemon.log").read_text()
    assert "was started by this daemon" in log


def test_clients_that_say_nothing_or_read_nothing_hold_nobody_up(world: World) -> None:
    world.script(say("x" * 100_000, n_chunks=1000), say("second"))
    world.serve()
    one = world.daemon()
    address = str(world.home / "state/serve.sock")
    silent_sockets = [world.stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(61)]
    for each in silent_sockets:
        each.connect(address)
        each.sendall(b"Content-Length: 100\r\n\r\n{")
    deaf = world.daemon()
    conversation = world.start(one, "talk")
    deaf.request("conversation/open", {"conversationId": conversation})
    deaf.stop_reading()
    assert world.turn(one)["status"] == "completed"
    # One place is left: the one after it is closed at once.
    last, too_many = (socket.socket(socket.AF_UNIX) for _ in range(2))
    with last, too_many:
        last.connect(address)
        too_many.connect(address)
        assert too_many.recv(1) == b""
    deaf.kill()
    world.send(one, conversation, "again")
    world.turn(one, nth=2)


def test_who_comes_while_no_more_files_can_be_opened_is_let_in_later(world: World) -> None:
    daemon = world.serve()
    log = world.home / "daemon.log"
    limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    # Not 0: poll(2) takes no more descriptors than the limit, and two are waited for.
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    with socket.socket(socket.AF_UNIX) as early:
        early.connect(str(world.home / "state/serve.sock"))
        wait_for_words(log, b"Too many open files", 1)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, limits)
    assert world.daemon().request("daemon/status")["conversations"] == []


def test_commands_take_part_with_attach(world: World) -> None:
    world.script(call("terminal", command="touch made"), say("It is made."), say("Because."))
    ask_result = run(world, "ask", "a1", "Why?", "--attach")
    assert (ask_result.code, "no daemon serves" in ask_result.err) == (2, True)
    world.serve()
    client = world.daemon()
    outcome = run(world, "run", "Make it", "--ask", "never", "--attach")
    assert (outcome.code, "It is made." in outcome.out + outcome.err) == (0, True)
    assert (world.project / "made").exists()
    [summary] = client.request("conversation/list")["conversations"]
    assert summary["lock"]["mine"], "it stays open where others may go on with it"
    actual_ask_result = run(world, "ask", summary["id"][:8], "Why?", "--attach")
    assert (actual_ask_result.code, actual_ask_result.out) == (0, "Because.\n")
    log = begin(world, "log", summary["id"], "--follow", "--json", "--attach")
    world.script(say("Once more."))
    assert log.stdout is not None
    assert json.loads(log.stdout.readline())["seq"] == 1
    client.request("conversation/open", {"conversationId": summary["id"], "replay": "none"})
    world.send(client, summary["id"], "again")
    assert any("Once more." in line for line in iter(log.stdout.readline, ""))
    assert end(log, signal.SIGINT).code == 130


def test_an_editor_that_would_attach_is_served_alone_when_no_daemon_serves(world: World) -> None:
    world.product = (*PRODUCT[:-1], "attach", "--or-alone", "--stdio")
    client = world.daemon()
    assert client.request("daemon/status")["pid"] == client.process.pid
    daemon = world.serve()
    world.product = (*PRODUCT[:-1], "attach", "--or-alone", "--stdio")
    assert world.daemon().request("daemon/status")["pid"] == daemon.pid


def test_the_first_client_starts_the_daemon_if_it_is_told_to(world: World) -> None:
    world.product = (*PRODUCT[:-1], "attach", "--start")
    one, other_client = world.daemon(), world.daemon()
    pids = [each.request("daemon/status")["pid"] for each in (one, other_client)]
    assert pids[0] == pids[1] not in {one.process.pid, other_client.process.pid}
    os.kill(pids[0], signal.SIGTERM)
    assert (one.exit_code(), other_client.exit_code()) == (0, 0)
