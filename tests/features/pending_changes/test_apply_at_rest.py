"""What no command's end collects, such as the changes of a job, lands when the turn ends."""

from typing import Any

import pytest
from applying import VIEW, answer, files_of, project_of, wait_for_approval
from fake_llm import call, say
from raw_client import RawClient
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
JOB = "exec 3>>a.txt; echo two >&3; echo new > b.txt; echo up; read word; echo $word >&3; read word"


def job(world: World, *, mode: str = "autoEdit") -> tuple[RawClient, str]:
    """Start a job that writes into a file which it keeps open, and let the turn end."""
    project_of(world)
    world.script(call("terminal", command=JOB, background=True, terminal_id="job"), say("It runs."))
    client = world.daemon(settings=VIEW)
    return client, world.start(client, options={"mode": mode})


def write(client: RawClient, conversation: str, data: str) -> None:
    params = {"conversationId": conversation, "terminalId": "job"}
    client.request("terminal/write", {**params, "data": data})


def test_changes_of_a_job_land_before_its_turn_ends_and_the_model_hears_of_it(
    world: World,
) -> None:
    client, conversation = job(world)
    world.turn(client)
    assert files_of(world) == {"a.txt": "one\ntwo\n", "b.txt": "new\n", "c.txt": "gone\n"}
    [item] = items(client, "fileChange")
    assert (item["status"], item["origin"], len(item["changes"])) == ("completed", "command", 2)
    world.script(say("I see."))
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    [note] = [
        m for m in world.llm.requests[-1].body["messages"][1:] if "<note>" in str(m.get("content"))
    ]
    assert "Edited a.txt: +1 -0 lines." in note["content"]
    assert len(items(client, "fileChange")) == 1


def test_what_a_job_goes_on_writing_lands_again_with_the_next_turn(world: World) -> None:
    client, conversation = job(world)
    world.turn(client)
    write(client, conversation, "three\n")
    world.script(
        call("terminal", command="until grep three a.txt; do read -t 0.05 < /dev/ptmx; done"),
        say("Done."),
    )
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    assert files_of(world)["a.txt"] == "one\ntwo\nthree\n"


def test_the_user_is_asked_about_changes_of_a_job_and_what_is_refused_is_gone(
    world: World,
) -> None:
    client, conversation = job(world, mode="ask")
    answer(client, wait_for_approval(client), "reject")
    world.turn(client)
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}
    [item] = items(client, "fileChange")
    assert item["status"] == "rejected"
    world.script(call("terminal", command="ls -1"), say("Done."))
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    assert content_of(items(client, "command")[-1]).startswith("a.txt\nc.txt\n")


def test_a_message_takes_the_place_of_the_question_about_a_job(world: World) -> None:
    client, conversation = job(world, mode="ask")
    wait_for_approval(client)
    world.script(say("I hear."))
    world.send(client, conversation, "something else")
    turn = world.turn(client)
    assert turn["finalText"] == "I hear."
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}


def test_what_a_job_changed_is_asked_about_when_it_ends_though_no_turn_runs(world: World) -> None:
    project_of(world)
    waits = "read word; echo two >> a.txt; touch d.txt"
    world.script(call("terminal", command=waits, background=True, terminal_id="job"), say("Runs."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"mode": "ask"})
    world.turn(client)
    assert not items(client, "fileChange")
    write(client, conversation, "now\n")
    answer(client, wait_for_approval(client), "allow-once")
    assert world.turn(client, nth=2)["nSteps"] == 0
    assert files_of(world)["a.txt"] == "one\ntwo\n"
    world.script(call("edit", command="view", path="a.txt"), say("I see."))
    world.send(client, conversation, "look")
    world.turn(client, nth=3)
    [item_seen] = [item for item in items(client, "toolCall") if item["tool"] == "edit"]
    assert "two" in content_of(item_seen)


def test_in_plan_the_changes_of_a_job_are_dropped(world: World) -> None:
    client, _ = job(world, mode="plan")
    world.turn(client)
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}
    assert not items(client, "fileChange")


def test_where_a_file_was_saved_while_the_job_ran_the_question_shows_both(world: World) -> None:
    project_of(world)
    waits = "read word; echo job > a.txt"
    world.script(call("terminal", command=waits, background=True, terminal_id="job"), say("Runs."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"mode": "ask"})
    world.turn(client)
    (world.project / "a.txt").write_text("saved\n")
    write(client, conversation, "now\n")
    approval = wait_for_approval(client)
    [change] = approval["subject"]["changes"]
    assert "-saved\n+job\n" in change["patch"]
    assert "meanwhile" in approval["reason"]
    answer(client, approval, "reject")
    world.turn(client, nth=2)
    assert files_of(world)["a.txt"] == "saved\n"
