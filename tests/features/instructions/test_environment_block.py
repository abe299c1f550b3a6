"""What the model is told of where it works: in the prompt, and later only what changed."""

import threading
from typing import Any

import pytest
from fake_llm import call, hold_step, say
from prompt_prefixes import shares
from raw_client import RawClient
from world import World, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def messages(world: World, nth: int, role: str) -> list[str]:
    message_list: list[Json] = world.llm.requests[nth].body["messages"]
    return [message["content"] for message in message_list if message["role"] == role]


def block(world: World, nth: int) -> dict[str, str]:
    """Return the rows of the block in the prompt of the nth request."""
    [prompt] = messages(world, nth, "system")
    rows = prompt.partition("# Environment\n")[2].splitlines()
    return dict(row.split(": ", 1) for row in rows)


def choose(client: RawClient, conversation: str, option: str, value: str) -> None:
    params = {"conversationId": conversation, "optionId": option, "value": value}
    client.request("conversation/setOption", params)


def test_the_prompt_says_where_it_works_and_a_change_is_a_note_behind_it(world: World) -> None:
    gate = threading.Event()
    world.script(
        hold_step(call("think", thought="Well."), gate), say("Done."), say("So be it."), say("Yes.")
    )
    client = world.daemon()
    conversation = world.start(client, "one", options={"approval": "askRisky"})
    world.llm.wait_for_requests(1)
    choose(client, conversation, "mode", "plan")
    gate.set()
    world.turn(client)
    block_text = block(world, 0)
    assert {"date", "platform", "shell", "git", "python"} <= block_text.keys()
    assert (block_text["mode"], block_text["approval"], block_text["user"]) == (
        "ask",
        "askRisky",
        "is here",
    )
    assert block_text["git"].endswith(", no commits yet")
    # Findings D6 and D19: the mode was learnt from refusals, the branch not at all.
    notes = [message for message in messages(world, 1, "user") if message.startswith("<note>")]
    assert [note.partition("; ")[0][:22] for note in notes] == ["<note>mode: plan: look"]
    [notice] = items(client, "notice")
    assert (notice["title"], notice["description"][:10]) == ("The agent was told", "mode: plan")
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
    saved_file, unsaved_file = world.project / "a.py", world.project / "b.py"
    client = world.daemon()
    for path in (saved_file, unsaved_file):
        path.write_text("x = 1\n")
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": "x = 1\n"}
        client.notify("textDocument/didOpen", {"textDocument": document})
    change = {"uri": unsaved_file.as_uri(), "version": 2}
    full_change = [{"text": "x = 2\n"}]
    client.notify("textDocument/didChange", {"textDocument": change, "contentChanges": full_change})
    world.script(say("Done."), say("Done."))
    conversation = world.start(client, "one")
    world.turn(client)
    assert messages(world, 0, "user") == [
        "one\n\n<editor>\nopen: a.py, b.py\nunsaved: b.py\n</editor>"
    ]
    client.notify("textDocument/didSave", {"textDocument": {"uri": unsaved_file.as_uri()}})
    world.send(client, conversation, "two")
    world.turn(client, nth=2)
    assert messages(world, 1, "user")[1] == "two\n\n<editor>\nunsaved: none\n</editor>"


def test_a_command_that_reads_what_is_not_saved_is_told_so(world: World) -> None:
    """Finding D15: a command read the old text of a file that was open with unsaved changes."""
    path = world.project / "rules.md"
    path.write_text("old\n")
    client = world.daemon()
    document = {"uri": path.as_uri(), "languageId": "markdown", "version": 1, "text": "new\n"}
    client.notify("textDocument/didOpen", {"textDocument": document})
    cat = call("terminal", command="cat rules.md")
    world.script(*[call("terminal", command="echo hi")] * 2, cat, say("Done."))
    world.start(client)
    world.turn(client)
    first, second, read = messages(world, 3, "tool")
    note = "The user has unsaved changes of rules.md in the editor: commands see the older text"
    assert first.startswith(f"{note} on disk.\nhi\n")
    assert second.startswith("hi\n")
    assert read.startswith(f"{note} on disk.\nold\n")
    # People see in their editor what is not saved, and beside the command how it ended.
    content = items(client, "command")[0]["content"]
    assert [each.get("annotations") is None for each in content] == [False, True, False]


def offered_facts(world: World, nth: int) -> dict[str, list[str]]:
    """Return the tools in the nth request, and what `edit` can do there."""
    tools = (tool["function"] for tool in world.llm.requests[nth].body["tools"])
    properties = {tool["name"]: tool["parameters"]["properties"] for tool in tools}
    return {name: each.get("command", {}).get("enum", []) for name, each in properties.items()}


def test_the_mode_at_the_start_settles_the_tools_until_mode_plan_is_left(world: World) -> None:
    """Finding D6: in mode plan the prompt and the tools were those of any other mode."""
    edit, more = (call("edit", command="create", path=f"{n}.py", text="x") for n in ("new", "more"))
    mixed_call = call("terminal", command="grep -n x a.py | head; python3 -c 'print(1)'")
    world.script(mixed_call, say("Planned."), edit, say("Done."), more, say("No."))
    client = world.daemon()
    conversation = world.start(client, options={"mode": "plan", "approval": "askNever"})
    world.turn(client)
    assert block(world, 0)["mode"].startswith("plan: look and think only")
    assert offered_facts(world, 0)["edit"] == ["view"]
    assert "rename" not in offered_facts(world, 0)
    refusal = messages(world, 1, "tool")[-1]
    assert refusal.startswith(
        "Not allowed: mode plan is read-only. This is not: python -c may run code"
    )
    choose(client, conversation, "mode", "ask")
    world.send(client, conversation, "do it")
    world.turn(client, nth=2)
    assert "create" in offered_facts(world, 2)["edit"]
    assert (world.project / "new.py").exists()
    choose(client, conversation, "mode", "plan")
    world.send(client, conversation, "again")
    world.turn(client, nth=3)
    assert offered_facts(world, 4) == offered_facts(world, 2)
    assert "<environment>\nmode: plan: look" in messages(world, 4, "user")[-1]
    assert "mode plan is read-only" in messages(world, 5, "tool")[-1]
