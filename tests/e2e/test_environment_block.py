"""What the model is told of where it works: in the prompt, and later only what changed."""

import threading
from typing import Any

import pytest
from fake_llm import call, held, say
from raw_client import RawClient
from test_prompt_cache import shares
from world import World

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def messages(world: World, nth: int, role: str) -> list[str]:
    sent: list[Json] = world.llm.requests[nth].body["messages"]
    return [message["content"] for message in sent if message["role"] == role]


def block(world: World, nth: int) -> dict[str, str]:
    """Return the rows of the block in the prompt of the nth request."""
    [prompt] = messages(world, nth, "system")
    rows = prompt.partition("# Environment\n")[2].splitlines()
    return dict(row.split(": ", 1) for row in rows)


def choose(client: RawClient, conversation: str, option: str, value: str) -> None:
    chosen = {"conversationId": conversation, "optionId": option, "value": value}
    client.request("conversation/setOption", chosen)


def test_the_prompt_says_where_it_works_and_a_change_is_a_note_behind_it(world: World) -> None:
    gate = threading.Event()
    world.script(
        held(call("think", thought="Well."), gate), say("Done."), say("So be it."), say("Yes.")
    )
    client = world.daemon()
    conversation = world.start(client, "one", options={"approval": "askRisky"})
    world.llm.wait_for_requests(1)
    choose(client, conversation, "mode", "plan")
    gate.set()
    world.turn(client)
    told = block(world, 0)
    assert {"date", "platform", "shell", "git", "python"} <= told.keys()
    assert (told["mode"], told["approval"], told["user"]) == ("ask", "askRisky", "is here")
    assert told["git"].endswith(", no commits yet")
    # Findings D6 and D19: the mode was learnt from refusals, the branch not at all.
    notes = [said for said in messages(world, 1, "user") if said.startswith("<note>")]
    assert [note.partition("; ")[0][:22] for note in notes] == ["<note>mode: plan: look"]
    choose(client, conversation, "mode", "ask")
    world.send(client, conversation, "two")
    world.turn(client, nth=2)
    world.send(client, conversation, "three")
    world.turn(client, nth=3)
    *_, second, third = messages(world, 3, "user")
    assert second == "two\n\n<environment>\nmode: ask\n</environment>"
    assert third == "three"
    assert min(shares(world.llm.requests)) > 0.9
    client.request("conversation/close", {"conversationId": conversation})
    client.request("conversation/open", {"conversationId": conversation})
    world.script(say("Still."))
    world.send(client, conversation, "four")
    world.turn(client, nth=4)
    assert messages(world, 4, "user")[:-1] == messages(world, 3, "user")
    assert messages(world, 4, "user")[-1] == "four"


def test_a_plain_client_says_by_its_documents_what_is_open_and_unsaved(world: World) -> None:
    saved, typed = world.project / "a.py", world.project / "b.py"
    client = world.daemon()
    for path in (saved, typed):
        path.write_text("x = 1\n")
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": "x = 1\n"}
        client.notify("textDocument/didOpen", {"textDocument": document})
    change = {"uri": typed.as_uri(), "version": 2}
    whole = [{"text": "x = 2\n"}]
    client.notify("textDocument/didChange", {"textDocument": change, "contentChanges": whole})
    world.script(say("Done."), say("Done."))
    conversation = world.start(client, "one")
    world.turn(client)
    assert messages(world, 0, "user") == [
        "one\n\n<editor>\nopen: a.py, b.py\nunsaved: b.py\n</editor>"
    ]
    client.notify("textDocument/didSave", {"textDocument": {"uri": typed.as_uri()}})
    world.send(client, conversation, "two")
    world.turn(client, nth=2)
    assert messages(world, 1, "user")[1] == "two\n\n<editor>\nunsaved: none\n</editor>"
