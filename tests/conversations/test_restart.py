"""What a killed daemon leaves: a whole log, whole files, no process, and a way to go on."""

import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_llm import Step, call, calls, hold_step, reason, say
from partial_texts import wait_until_kept
from raw_client import RawClient
from world import World, content_of, items, text, wait_for_status

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
N_LINES = 500


def line(version: int) -> str:
    """Return a long line, since texts are compared line by line, but written byte by byte."""
    return f"version {version}. " + "x" * 100


class Agent:
    """A model that edits one file over and over, runs each command once, and talks."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._n = 0
        self.write(0)

    @property
    def file(self) -> Path:
        return self._project / "versions.txt"

    def write(self, version: int) -> None:
        self.file.write_text(f"{line(version)}\n" * N_LINES)

    def version(self) -> str:
        """Return the version that the whole file has; fail if versions are mixed."""
        versions = set(self.file.read_text().splitlines())
        assert len(versions) == 1, sorted(versions)
        assert len(self.file.read_text().splitlines()) == N_LINES
        return versions.pop()

    def step(self, _request: Json) -> Step:
        self._n += 1
        command = call("terminal", command=f"echo {self._n} >> ran.txt; sleep 0.02")
        match self._n % 4:
            case 0:
                return calls(say("I go on with it. " * 20, n_chunks=20), command)
            case 1:
                return call("edit", command="view", path="versions.txt", end_line=3)
            case 2:
                old = self.file.read_text().partition("\n")[0]
                args = {"old_text": old, "new_text": line(self._n), "replace_all": True}
                return call("edit", command="replace", path="versions.txt", **args)
            case _:
                return calls(command, call("think", thought="so far so good"))


@pytest.mark.parametrize("n_rounds", [4, pytest.param(200, marks=pytest.mark.full)])
def test_a_kill_at_any_moment_loses_nothing_that_was_shown(world: World, n_rounds: int) -> None:
    source = random.Random(os.environ["OH_TEST_SEED"])
    agent = Agent(world.project)
    world.llm.play(agent.step)
    conversation = ""
    for _ in range(n_rounds):
        client = world.daemon()
        if conversation:
            reopen_and_check(client, conversation)
            world.send(client, conversation, "go on")
        else:
            conversation = world.start(client, maxSteps=10_000)
        kill_after(client, source.randrange(1, 60))
        assert client.survivors() == []
        check_log(world, client, conversation)
        agent.version()
    client = world.daemon()
    reopen_and_check(client, conversation)
    names = {path.name for path in world.project.iterdir()} - {"ran.txt"}
    assert names == {".git", ".openhands", "versions.txt"}
    words = (world.project / "ran.txt").read_text().split()
    assert len(words) == len(set(words))


def kill_after(client: RawClient, n_messages: int) -> None:
    """Send SIGKILL when the model's first answer and `n_messages` more messages have come."""
    client.wait_for_event("item.started")
    n_before = len(client.messages)
    client.wait_for(lambda _message: len(client.messages) >= n_before + n_messages)
    client.kill()


def reopen_and_check(client: RawClient, conversation: str) -> None:
    open_result = client.request("conversation/open", {"conversationId": conversation})
    info = open_result["conversation"]
    assert (info["status"], info["statusReason"]) == ("paused", "daemonRestarted")
    open_states = {"pending", "awaitingApproval", "running"}
    assert not [item for item in open_result["items"] if item["status"] in open_states]
    assert "turnId" not in info


def check_log(world: World, client: RawClient, conversation: str) -> None:
    """Check that the log has every received event as it was sent, and all events before it."""
    lines = world.log_of(conversation).read_bytes().split(b"\n")[:-1]
    by_seq = {record["seq"]: line for line in lines if "seq" in (record := parse_line(line))}
    assert list(by_seq) == list(range(1, len(by_seq) + 1))
    for event, body in zip(client.events, client.event_bodies, strict=True):
        # What is on the wire is the line, with the conversation's id and epoch before it.
        assert body.endswith(by_seq[event["seq"]][1:] + b"}")


def parse_line(line: bytes) -> Json:
    """Parse a line of the log; return {} for what a kill tore and the next start set aside."""
    try:
        return json.loads(line)
    except ValueError:
        return {}


def kill_when(world: World, until: Callable[[RawClient, str], object]) -> str:
    """Run a conversation until this moment and kill its daemon; return the conversation's id."""
    client = world.daemon()
    conversation = world.start(client)
    until(client, conversation)
    client.kill()
    assert client.survivors() == []
    return conversation


def test_a_command_under_way_is_never_run_again_and_the_queue_is_kept(world: World) -> None:
    command = "echo ran >> ran.txt; echo started; sleep 300"
    world.script(call("terminal", command=command, timeout_s=600))

    def until(client: RawClient, conversation: str) -> None:
        client.wait_for(lambda m: "started" in (m.get("params") or {}).get("text", ""))
        wait_until_kept(world.project, "started\n")
        world.send(client, conversation, "and then this", delivery="queue")

    conversation = kill_when(world, until)
    client = world.daemon()
    open_result = client.request("conversation/open", {"conversationId": conversation})
    info = open_result["conversation"]
    assert (info["status"], info["statusReason"]) == ("paused", "daemonRestarted")
    [item] = [item for item in open_result["items"] if item["kind"] == "command"]
    assert (item["status"], item["reason"]) == ("cancelled", "outcomeUnknown")
    assert content_of(item).endswith("Check before you repeat it.\nstarted\n")
    assert [message["content"] for message in open_result["queue"]] == [text("and then this")]
    world.script(say("I looked."), say("Then this."))
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client)["finalText"] == "I looked."
    assert world.turn(client, nth=2)["finalText"] == "Then this."
    tool_messages = [m for m in world.llm.requests[1].body["messages"] if m["role"] == "tool"]
    assert "outcome is unknown" in str(tool_messages[0]["content"])
    assert (world.project / "ran.txt").read_text().split() == ["ran"]


def test_what_was_said_before_a_kill_stands_there_and_the_model_knows_that_it_was_cut(
    world: World,
) -> None:
    gate = threading.Event()
    steps = calls(reason("Hm, a story."), say("Half of it. The rest.", n_chunks=2))
    world.script(hold_step(steps, gate, after=2), say("The other half."), say("Yes."))

    def until(client: RawClient, _conversation: str) -> None:
        client.wait_for(lambda m: "Half of" in (m.get("params") or {}).get("text", ""))
        wait_until_kept(world.project, "Half of it.", "Hm, a story.")

    conversation = kill_when(world, until)
    gate.set()
    client = world.daemon()
    open_result = client.request("conversation/open", {"conversationId": conversation})
    outcomes = ("cancelled", "outcomeUnknown")
    assert [(i["kind"], i["text"], i["status"], i["reason"]) for i in open_result["items"][1:]] == [
        ("reasoning", "Hm, a story.", *outcomes),
        ("agentMessage", "Half of it.", *outcomes),
    ]
    client.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(client)["finalText"] == "The other half."
    answer, note = world.llm.requests[1].body["messages"][-2:]
    assert answer == {"role": "assistant", "content": "Half of it."}
    assert "was cut off" in note["content"]
    assert not list(world.log_of(conversation).parent.glob("partial-*"))


def test_what_was_seen_before_a_restart_need_not_be_seen_again(world: World) -> None:
    names = ("viewed", "edited", "changed")
    for name in names:
        (world.project / name).write_bytes(b"one\r\ntwo\r\n")
    edit = call("edit", command="replace", path="edited", old_text="wo", new_text="WO")
    world.script(calls(*(call("edit", command="view", path=n) for n in names), edit), say("Seen."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    client.close()
    (world.project / "changed").write_text("else\n")
    inserts = (call("edit", command="insert", path=n, insert_line=1, text="x\n") for n in names)
    world.script(calls(*inserts), say("Done."))
    client = world.daemon()
    client.request("conversation/open", {"conversationId": conversation})
    world.send(client, conversation, "go on")
    world.turn(client)
    view_item, edit_item = items(client, "fileChange")[-2:]
    [failed_call] = [each for each in items(client, "toolCall") if each["status"] == "failed"]
    assert "since you read it" not in content_of(view_item) + content_of(edit_item)
    assert "it changed since you read it" in content_of(failed_call)
    assert (world.project / "edited").read_bytes() == b"one\r\nx\r\ntWO\r\n"


def cut_after(log: Path, is_expected: Callable[[Json], bool], torn: bytes = b"") -> None:
    """Leave the log as a kill right after this event would."""
    lines = log.read_bytes().splitlines(keepends=True)
    [end] = [n for n, line in enumerate(lines) if is_expected(json.loads(line).get("event", {}))]
    log.write_bytes(b"".join(lines[: end + 1]) + torn)


def test_an_action_that_was_allowed_and_not_begun_runs_once_after_the_restart(
    world: World,
) -> None:
    """The answer is in the log, the start of the command is not."""
    world.script(call("terminal", command="echo ran >> ran.txt"), say("Done."))
    client = world.daemon()
    conversation = world.start(client, options={"approval": "askRisky"})
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    answer = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**answer, "optionId": "allow-once"})
    world.turn(client)
    client.kill()
    (world.project / "ran.txt").unlink()
    cut_after(world.log_of(conversation), lambda event: event.get("type") == "approval.resolved")
    again = world.daemon()
    open_result = again.request("conversation/open", {"conversationId": conversation})
    assert (open_result["conversation"]["status"], open_result["pending"]) == ("paused", [])
    assert not (world.project / "ran.txt").exists()
    world.script(say("Gone on."))
    again.request("conversation/resume", {"conversationId": conversation})
    turn = again.wait_for_event("turn.completed")["event"]["turn"]
    assert (turn["status"], turn["finalText"]) == ("completed", "Gone on.")
    assert (world.project / "ran.txt").read_text() == "ran\n"


def test_a_torn_last_line_is_cut_and_reported_and_the_conversation_goes_on(world: World) -> None:
    world.script(say("One."), say("Two."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    client.kill()
    with world.log_of(conversation).open("ab") as log:
        log.write(b'{"v":2,"seq":99,"event":{"type":"item.st')
    again = world.daemon()
    open_result = again.request("conversation/open", {"conversationId": conversation})
    assert any("torn" in note or "cut" in note for note in open_result["repaired"]), open_result[
        "repaired"
    ]
    world.send(again, conversation, "go on")
    assert world.turn(again)["finalText"] == "Two."
    seqs = [record["seq"] for record in world.records_of(conversation)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_start_is_repeated_safely_after_the_daemon_died(world: World) -> None:
    world.script(say("Once."))
    params: Json = {"content": text("go"), "clientRequestId": "repeated"}
    first = world.daemon()
    start_result = first.request("conversation/start", params)
    conversation = start_result["conversation"]["id"]
    world.turn(first)
    wait_for_status(first, "idle")
    first.kill()
    second = world.daemon()
    again = second.request("conversation/start", params)
    assert (again["duplicate"], again["conversation"]["id"]) == (True, conversation)
    assert (again["messageId"], again["turnId"]) == (
        start_result["messageId"],
        start_result["turnId"],
    )
    assert len(world.llm.requests) == 1
    request_params = {
        "conversationId": conversation,
        "content": text("more"),
        "clientMessageId": "m-1",
    }
    world.script(say("Twice."))
    answer = second.request("conversation/sendMessage", request_params)
    world.turn(second)
    second.kill()
    third = world.daemon()
    third.request("conversation/open", {"conversationId": conversation})
    second_receipt = third.request("conversation/sendMessage", request_params)
    assert second_receipt == {**answer, "duplicate": True}
    assert items(third, "userMessage") == []


def test_a_repeated_start_sends_the_message_that_a_kill_cut_off(world: World) -> None:
    world.script(say("Lost."), say("Heard."))
    params: Json = {"content": text("go"), "clientRequestId": "cut-off"}
    first = world.daemon()
    conversation = first.request("conversation/start", params)["conversation"]["id"]
    world.turn(first)
    first.kill()
    # What a kill between the two writes of a start leaves: the conversation, and no message.
    log = world.log_of(conversation)
    header, creation, *_ = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(header + creation)
    second = world.daemon()
    again = second.request("conversation/start", params)
    assert (again["conversation"]["id"], again.get("duplicate")) == (conversation, None)
    assert world.turn(second)["finalText"] == "Heard."
    start_result = second.request("conversation/start", params)
    assert (start_result["duplicate"], start_result["turnId"]) == (True, again["turnId"])
