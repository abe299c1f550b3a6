"""Trouble with the log under a running daemon: a full or read-only disk, damage by others."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLLM, Step, call, say
from places import TESTS
from world import World, content_of, items, text

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
GOLDEN = TESTS / "golden/v2/plain.jsonl"
N_STEPS = 8


def in_mounts(script: str) -> tuple[str, ...]:
    """Return a prefix that runs the daemon in its own mount namespace, after `script`."""
    prefix = ("unshare", "-Urm", "sh", "-ec", f'{script}; exec "$@"', "sh")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounts in a namespace, also not for root")
    return prefix


def block(world: World) -> Json:
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    return {"features": {"approvalRequests": True}, "trust": trust}


def test_a_turn_survives_a_full_disk_and_nothing_shown_is_lost(world: World) -> None:
    n_asked = 0

    def step(_request: Json) -> Step:
        nonlocal n_asked
        n_asked += 1
        # Each thought differs, or else the daemon would take the repetition for a loop.
        thinking = f"{n_asked} " + "x" * 20_000
        return call("think", thought=thinking) if n_asked <= N_STEPS else say("Done.")

    world.llm = world.stack.enter_context(FakeLLM(step))
    home = world.project / ".openhands"
    home.mkdir()
    client = world.raw(prefix=in_mounts(f"mount -t tmpfs -o size=128k none '{home}'"))
    client.initialize([world.project], **block(world))
    conversation = world.start(client)
    request_params = {"conversationId": conversation}
    notification = client.wait_for(lambda m: m.get("method") == "daemon/statusChanged")["params"]
    assert "the disk is full; free some space, then resume" in notification["message"]
    open_result = client.request("conversation/open", {**request_params, "replay": "none"})
    info = open_result["conversation"]
    assert (info["status"], info["statusReason"]) == ("paused", "storage")
    other_conversation = world.start(client, "elsewhere", ephemeral=True)
    client.wait_for_event(
        lambda params: (
            params["conversationId"] == other_conversation
            and params["event"]["type"] == "item.completed"
        )
    )
    inside = ("nsenter", "-t", str(client.process.pid), "-U", "-m", "--preserve-credentials")
    subprocess.run([*inside, "mount", "-o", "remount,size=8m", str(home)], check=True)
    client.request("conversation/resume", request_params)
    client.wait_for_event(
        lambda params: (
            params["conversationId"] == conversation
            and params["event"]["type"] == "turn.completed"
            and params["event"]["turn"]["finalText"] == "Done."
        )
    )
    log = Path(f"/proc/{client.process.pid}/root{world.log_of(conversation)}")
    lines = [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]
    records = [line for line in lines if "seq" in line]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    for event in client.events:
        if event["conversationId"] == conversation:
            event_fields = {k: v for k, v in event.items() if k not in ("conversationId", "epoch")}
            assert event_fields == records[event["seq"] - 1]


def test_a_command_keeps_its_result_when_there_is_no_room_for_all_of_its_output(
    world: World,
) -> None:
    scratch = world.home / "tmp"
    scratch.mkdir(parents=True)
    world.variables["TMPDIR"] = str(scratch)
    # There is room for the output, but not for its masked copy as well.
    world.script(call("terminal", command="seq 9000", security_risk="low"), say("Done."))
    client = world.raw(prefix=in_mounts(f"mount -t tmpfs -o size=80k none '{scratch}'"))
    client.initialize([world.project], **block(world))
    world.start(client)
    assert world.turn(client)["stopReason"] == "endTurn"
    [command] = items(client, "command")
    assert (command["status"], command["exitCode"]) == ("completed", 0)
    assert "bytes cut; the middle was not kept" in content_of(command)


def test_a_slow_disk_holds_up_the_answers_that_promise_something_and_no_others(
    world: World,
) -> None:
    slow = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=200000")
    client = world.raw(prefix=("strace", "-f", "-qq", "-o", "/dev/null", *slow))
    client.initialize([world.project], **block(world))
    start_result = client.request("conversation/start")["conversation"]
    message = {"conversationId": start_result["id"], "content": text("later"), "run": False}
    receipt = client.send_request("conversation/sendMessage", message)
    status_request = client.send_request("daemon/status")
    client.result_of(receipt)
    answers = [message.get("id") for message in client.messages]
    assert answers.index(status_request) < answers.index(receipt)
    params = {"conversationId": start_result["id"]}
    for method in ("subscribe", "open", "interrupt", "close"):
        # Its events are held back until it is answered, and so is what tells of them.
        receipt = client.send_request("conversation/sendMessage", message)
        client.request(f"conversation/{method}", params)
        last_seq = client.events[-1]["seq"]
        assert (last_seq, method) == (world.records_of(start_result["id"])[-1]["seq"], method)
        assert client.n_answers(receipt)


def test_a_folder_that_cannot_be_written_starts_no_conversation(world: World) -> None:
    home = world.project / ".openhands"
    home.mkdir()
    client = world.raw(prefix=in_mounts(f"mount -t tmpfs -o ro none '{home}'"))
    client.initialize([world.project], **block(world))
    error = client.error("conversation/start")
    assert (error.code, error.data["kind"]) == (-31023, "readOnly")
    assert "make the folder writable for you, or open a folder that is" in error.message
    assert client.request("daemon/status")["conversations"] == []


def test_a_file_system_without_locks_starts_no_conversation_and_keeps_nothing(
    world: World,
) -> None:
    client = world.raw(prefix=("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock",
                               "-e", "inject=flock:error=ENOLCK"))  # fmt: skip
    client.initialize([world.project], **block(world))
    error = client.error("conversation/start", {"clientRequestId": "one"})
    assert error.data["kind"] == "readOnly"
    assert "open a folder on a local disk" in error.message
    assert list((world.project / ".openhands/conversations").iterdir()) == []


def test_a_start_that_was_killed_before_its_first_event_can_be_repeated(world: World) -> None:
    client = world.daemon()
    params = {"clientRequestId": "killed-early", "title": "Again"}
    conversation = client.request("conversation/start", params)["conversation"]["id"]
    client.close()
    log = world.log_of(conversation)
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0] + b'{"v":2,"se')
    (log.parent / "meta.json").unlink()
    client = world.daemon()
    [info] = client.request("conversation/list")["conversations"]
    assert (info["id"], info["title"]) == (conversation, "Damaged conversation")
    again = client.request("conversation/start", params)
    assert (again["conversation"]["id"], again.get("duplicate")) == (conversation, None)
    assert [record["seq"] for record in world.records_of(conversation)] == [1]


def test_log_of_version_1_is_refused_and_stays_as_it_is(world: World) -> None:
    log = plant(world, "old")
    content = log.read_bytes().replace(b'{"v":2,', b'{"v":1,')
    log.write_bytes(content)
    params = {"conversationId": "old"}
    client = world.daemon()
    for method in ("open", "read", "export", "fork"):
        error = client.error(f"conversation/{method}", params)
        assert (method, error.data["kind"]) == (method, "readOnly")
        assert "a release candidate before 1.0.0 wrote this log" in error.message
    assert log.read_bytes() == content
    client.request("conversation/delete", params)
    assert not log.exists()


@pytest.mark.parametrize("n_left", [0, 1], ids=["torn", "damaged"])
def test_without_its_first_event_a_log_opens_empty_says_so_and_is_listed(
    world: World, n_left: int
) -> None:
    world.script(say("Lost."), say("Heard."))
    client = world.daemon()
    conversation = world.start(client, options={"approval": "askNever"})
    world.turn(client)
    client.close()
    log = world.log_of(conversation)
    header, creation, *remaining = log.read_bytes().splitlines(keepends=True)
    lines_left = [creation[:-60], b"\n", *remaining] if n_left else [creation[:-60]]
    log.write_bytes(b"".join((header, *lines_left)))
    (log.parent / "meta.json").unlink()
    client = world.daemon()
    [info] = client.request("conversation/list")["conversations"]
    assert (info["id"], info["title"]) == (conversation, "Damaged conversation")
    params = {"conversationId": conversation}
    assert client.error("conversation/read", params).data["kind"] == "invalidState"
    open_result = client.request("conversation/open", params)
    assert any("first event of the log is damaged" in text for text in open_result["repaired"])
    [notice] = open_result["items"]
    assert (notice["kind"], notice["severity"]) == ("notice", "warning")
    assert open_result["conversation"]["folders"] == [world.project.as_uri()]
    assert open_result["conversation"]["options"]["approval"] == "askRisky"
    world.send(client, conversation, "go on")
    assert world.turn(client)["finalText"] == "Heard."
    assert "Lost." not in str(world.llm.requests[-1].body)
    fork_result = client.request("conversation/fork", params)["conversation"]
    client.request("conversation/close", params)
    conversations = client.request("conversation/list")["conversations"]
    assert {each["id"] for each in conversations} == {conversation, fork_result["id"]}
    assert client.request("conversation/open", params)["repaired"] == []
    read = client.request("conversation/read", params)["items"]
    assert [item["kind"] for item in read] == ["notice", "userMessage", "agentMessage"]


def plant(world: World, name: str, *more: bytes) -> Path:
    """Plant a log of an earlier version of the daemon, followed by these bytes."""
    log = world.log_of(name)
    log.parent.mkdir(parents=True)
    shutil.copy(GOLDEN, log)
    log.write_bytes(b"".join((log.read_bytes(), *more)))
    return log


def test_a_damaged_log_opens_with_what_is_whole_and_a_newer_one_can_be_read(world: World) -> None:
    lines = GOLDEN.read_bytes().splitlines(keepends=True)
    last = max(json.loads(line).get("seq", 0) for line in lines)

    def record(seq: int, **changes: Any) -> bytes:
        event = {"type": "weather.changed", "to": "rain"}
        full_record = {"v": 2, "seq": seq, "ts": "2026-01-02T03:04:05.678Z", "event": event}
        return json.dumps({**full_record, **changes}).encode() + b"\n"

    log_lines = (b"\0 no event {{\n", record(last + 1))
    damaged_log = plant(world, "a" * 32, *log_lines, record(last + 2)[:40])
    newer = plant(world, "b" * 32, record(last + 1, v=3))
    empty = plant(world, "c" * 32)
    empty.write_bytes(b"")
    contents = {log: log.read_bytes() for log in (damaged_log, newer, empty)}
    client = world.daemon()
    open_result = client.request("conversation/open", {"conversationId": "a" * 32})
    # There are two more events: the tools and, as for each foreign log, the options are new.
    assert open_result["lastSeq"] == last + 3
    *repairs, foreign = open_result["repaired"]
    assert "came with the folder" in foreign
    assert [text.split(" ", 1)[1] for text in repairs] == [
        f"bytes at byte {len(b''.join(lines))} are not an event; left out",
        f"last line was not finished; it was moved to torn-{len(b''.join((*lines, *log_lines)))}",
    ]
    [event] = client.request(
        "conversation/events", {"conversationId": "a" * 32, "afterSeq": last, "limit": 1}
    )["events"]
    assert event["event"] == {"type": "weather.changed", "to": "rain"}
    assert damaged_log.read_bytes().startswith(contents[damaged_log][:-40])
    error = client.error("conversation/open", {"conversationId": "b" * 32})
    assert (error.code, error.data["kind"]) == (-31023, "readOnly")
    assert client.request("conversation/read", {"conversationId": "b" * 32})["items"]
    error = client.error("conversation/open", {"conversationId": "c" * 32})
    assert error.data["kind"] == "conversationNotFound"
    conversations = client.request("conversation/list")["conversations"]
    assert {info["id"] for info in conversations} == {"a" * 32, "b" * 32}
    assert newer.read_bytes() == contents[newer]


def test_why_a_log_cannot_be_opened_is_said_before_anything_is_made_of_it(world: World) -> None:
    """Its events, of a later version, change items that are not there."""
    event = {"type": "item.updated", "status": "running"}
    record = {"v": 3, "seq": 1, "ts": "2026-01-02T03:04:05.678Z", "itemId": "x", "event": event}
    log = plant(world, "a" * 32)
    log.write_bytes(json.dumps(record).encode() + b"\n")
    error = world.daemon().error("conversation/open", {"conversationId": "a" * 32})
    assert error.data["kind"] == "readOnly"


def test_opening_removes_what_a_kill_inside_a_write_left_beside_the_file(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text("old\n")
    change = {"command": "replace", "path": "a.txt", "old_text": "old", "new_text": "new"}
    world.script(call("edit", command="view", path="a.txt"), call("edit", **change))
    inject = ("-e", "trace=renameat", "-e", "inject=renameat:signal=KILL")
    # Only what touches the project: at its start, the daemon keeps things of its own.
    inject += ("-P", str(world.project))
    client = world.raw(prefix=("strace", "-f", "-qq", "-o", "/dev/null", *inject))
    trust = [{"folder": world.project.as_uri(), "trusted": True}]
    client.initialize([world.project], trust=trust)
    conversation = world.start(client)
    client.exit_code()
    assert path.read_text() == "old\n"
    assert len(list(world.project.glob(".oh-*.tmp"))) == 1
    world.daemon().request("conversation/open", {"conversationId": conversation})
    assert list(world.project.glob(".oh-*.tmp")) == []
