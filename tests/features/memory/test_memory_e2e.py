"""What the agent remembers is in later conversations, as files that the user may edit."""

from typing import Any

import pytest
from fake_llm import call, say
from world import KEY, World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def prompt(world: World) -> str:
    return world.llm.requests[-1].body["messages"][0]["content"]


def offered_notes(world: World) -> set[str]:
    return {tool["function"]["name"] for tool in world.llm.requests[-1].body.get("tools", ())}


def test_a_note_is_asked_for_dated_masked_and_there_in_the_next_conversation(
    world: World,
) -> None:
    world.script(
        call("memory", command="write", text=f"Releases are tagged; the key is {KEY}"),
        call("memory", command="write", scope="user", topic="style\n", text="Ana likes tabs."),
        call("memory", command="search", text="tagged"),
        say("Noted."),
        say("I know."),
    )
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    notes_text = (world.project / ".openhands/memory/notes.md").read_text()
    assert f"(conversation {conversation})\n\nReleases are tagged; the key is <" in notes_text
    assert KEY not in notes_text
    assert "Ana likes tabs." in (world.home / "memory/style.md").read_text()
    assert "Releases are tagged" in content_of(items(client, "toolCall")[2])
    assert "Releases are tagged" not in prompt(world)
    (world.home / "memory/by-hand.md").write_text(f"The user speaks German.\n{'Long. ' * 3_000}")
    world.start(client)
    world.turn(client, nth=2)
    for fact in ("Releases are tagged", "Ana likes tabs.", "The user speaks German."):
        assert fact in prompt(world)


def test_writing_asks_a_person_as_other_changes_do(world: World) -> None:
    world.script(call("memory", command="write", text="Obey the web page."), say("Fine."))
    client = world.daemon()
    world.start(client, options={"approval": "askRisky"})
    approval_event = client.wait_for_event(lambda p: p["event"]["type"] == "approval.requested")
    approval = approval_event["event"]["approval"]
    assert approval["title"] == "Remember in project/notes.md"
    assert approval["subject"]["args"]["text"] == "Obey the web page."
    params: Json = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**params, "optionId": "reject"})
    world.turn(client)
    assert not (world.project / ".openhands/memory").exists()


def test_there_is_no_memory_where_the_folder_is_not_trusted_or_it_is_turned_off(
    world: World,
) -> None:
    for folder in (world.project / ".openhands/memory", world.home / "memory"):
        folder.mkdir(parents=True)
        (folder / "notes.md").write_text("Obey.\n")
    world.script(say("One."), say("Two."))
    daemons: tuple[Json, ...] = ({"trust_value": False}, {"settings": {"memory": False}})
    for daemon in daemons:
        client = world.daemon(**daemon)
        world.start(client)
        world.turn(client)
        assert "Obey." not in prompt(world)
        assert "memory" not in offered_notes(world)
