"""Conversations branch, and go back: other ways from the same beginning."""

from pathlib import Path
from typing import Any

from command_line import SCRIPT, end, environment, start
from fake_llm import call, say
from raw_client import RawClient
from world import World, content_of, items

Json = dict[str, Any]


def messages(world: World, nth: int) -> list[Json]:
    """Of the nth request to the model: role and text of each but the system prompt."""
    return world.llm.requests[nth].body["messages"][1:]


def test_a_branch_goes_its_own_way_and_the_original_stays(world: World) -> None:
    (world.project / "a.txt").write_text("one\n")
    world.script(
        call("edit", command="view", path="a.txt"),
        call("edit", command="replace", path="a.txt", old_text="one", new_text="two"),
        say("Two it is."),
        say("The other way."),
    )
    client = world.daemon()
    named = {"conversationId": world.start(client, "first")}
    world.turn(client)
    before = world.log_of(named["conversationId"]).read_bytes()
    [view] = items(client, "toolCall")
    forked = client.request("conversation/fork", {**named, "atItemId": view["id"], "title": "B"})
    info = forked["conversation"]
    assert (info["title"], info["status"], info["lock"]["mine"]) == ("B", "idle", True)
    assert info["forkedFrom"]["id"] == named["conversationId"]
    assert world.log_of(named["conversationId"]).read_bytes() == before
    world.send(client, info["id"], "and now")
    world.turn(client, nth=2)
    roles = [message["role"] for message in messages(world, -1)]
    assert roles == ["user", "assistant", "tool", "user"]
    listed = client.request("conversation/list")["conversations"]
    assert {each["id"]: each["title"] for each in listed} == {
        info["id"]: "B",
        named["conversationId"]: "first",
    }
    assert client.error("conversation/fork", {**named, "atItemId": "none"}).code == -32602
    ephemeral = client.request("conversation/start", {"ephemeral": True})["conversation"]["id"]
    assert client.error("conversation/fork", {"conversationId": ephemeral}).code == -31006


def test_one_that_runs_elsewhere_branches_without_its_open_call(world: World) -> None:
    world.script(call("terminal", command="sleep 600", timeout_s=600), say("Here."))
    owner, other = world.daemon(), world.daemon()
    running = world.start(owner)
    owner.wait_for_event(lambda e: e["event"].get("status") == "running")
    info = other.request("conversation/fork", {"conversationId": running})["conversation"]
    assert [item["kind"] for item in shown(other, info["id"])] == ["userMessage"]
    other.request("conversation/resume", {"conversationId": info["id"]})
    assert world.turn(other)["finalText"] == "Here."
    status = other.request("conversation/read", {"conversationId": running})["conversation"]
    assert status["status"] == "running"
    owner.request("conversation/interrupt", {"conversationId": running})


def shown(client: RawClient, conversation: str) -> list[Json]:
    opened = client.request("conversation/open", {"conversationId": conversation})
    return opened["items"]


def test_the_agent_of_a_branch_can_undo_what_the_original_did(world: World) -> None:
    path = world.project / "a.txt"
    world.script(call("edit", command="create", path="a.txt", text="new\n"), say("Done."))
    client = world.daemon()
    original = world.start(client)
    world.turn(client)
    client.close()
    env = environment(world.home, **world.environment)
    ran = end(start([SCRIPT, "fork", original[:6], "--title", "Undo"], world.project, env))
    assert (ran.code, ran.err) == (0, "")
    branch = ran.out.strip()
    blobs = [Path(world.log_of(each)).parent / "blobs" for each in (original, branch)]
    ours, theirs = (
        {file.name: file.stat().st_ino for file in folder.iterdir()} for folder in blobs
    )
    assert theirs
    assert theirs.items() <= ours.items()
    client = world.daemon()
    client.request("conversation/open", {"conversationId": branch})
    world.script(call("edit", command="undo", path="a.txt"), say("Gone."))
    options = {"optionId": "approval", "value": "askNever"}
    client.request("conversation/setOption", {"conversationId": branch, **options})
    world.send(client, branch, "undo it")
    world.turn(client)
    assert not path.exists()
    assert "Deleted a.txt" in content_of(items(client, "fileChange")[-1])
