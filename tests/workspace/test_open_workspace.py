"""The workspace as the editor shows it, with an editor that is slow, that refuses and that lies."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from editor import OURS, Editor, late, pretend, refuse, typing
from fake_llm import Step, call, calls, say, tool_results
from tool_items import Json, tool_items
from world import World, content_of, items

from oh_daemon.frontends.lsp.sync import MAX_DOCUMENT_BYTES

pytestmark = pytest.mark.one_daemon
LSP_EDITS: Json = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}


def view(path: str = "a.txt") -> Step:
    return call("edit", command="view", path=path)


def replace(old: str, new: str, path: str = "a.txt") -> Step:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


def file(world: World, data: str | bytes, name: str = "a.txt") -> Path:
    path = world.project / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def run(world: World, editor: Editor, *steps: Step, **params: Any) -> list[Json]:
    """Run one turn of these steps; return the edits and views that ended, in order."""
    world.script(*steps, say("Done."))
    n_before, n_ended = len(tool_items(editor)), n_turns(editor)
    world.start(editor.client, **params)
    editor.client.wait_for_event("turn.completed", nth=n_ended + 1)
    return tool_items(editor)[n_before:]


def n_turns(editor: Editor) -> int:
    return sum(event["event"]["type"] == "turn.completed" for event in editor.client.events)


def test_unsaved_text_is_read_and_edited_in_one_step_and_the_disk_stays(world: World) -> None:
    path = file(world, "one\ntwo\nthree\n")
    editor = Editor(world)
    buffer = editor.open(path, typed_text="one\nTWO, typed\nthree\n")
    edits = [
        {"old_text": "one", "new_text": "1"},
        {"old_text": "three", "new_text": "3"},
    ]
    view_item, edit_item = run(
        world, editor, view(), call("edit", command="replace", path="a.txt", edits=edits)
    )
    assert "TWO, typed" in content_of(view_item)
    assert buffer.text == "1\nTWO, typed\n3\n"
    assert buffer.undo == ["one\nTWO, typed\nthree\n"]
    assert path.read_text() == "one\ntwo\nthree\n"
    [edit_request] = editor.edits()
    assert edit_request["edit"]["documentChanges"][0]["textDocument"]["version"] == 2
    assert len(edit_request["label"]) <= 40
    assert (edit_item["route"], edit_item["status"]) == ("editor", "completed")
    assert "unsaved" in content_of(edit_item)
    [change] = edit_item["changes"]
    assert (change["op"], change["added"], change["removed"]) == ("modify", 2, 2)


def test_a_clean_document_is_edited_and_saved_by_the_editor(world: World) -> None:
    path = file(world, "one\n")
    editor = Editor(world)
    editor.open(path)
    _, edit_item = run(world, editor, view(), replace("one", "two"))
    assert editor.edits()[0]["save"] == "ifWasClean"
    assert (edit_item["route"], path.read_text()) == ("editor", "two\n")


def test_the_agent_goes_on_with_what_a_formatter_made_of_its_edit(world: World) -> None:
    path = file(world, "one\n")
    editor = Editor(world)
    buffer = editor.open(path)
    editor.formatter = lambda text: text.replace("a=", "a = ")
    steps = (view(), replace("one", "a=2"), replace("a = 2", "a = 3"))
    _, first, second = run(world, editor, *steps)
    assert [item["status"] for item in (first, second)] == ["completed"] * 2
    assert "-a=2\n+a = 2" in content_of(first)
    assert "formatter" not in content_of(second)
    assert buffer.text == path.read_text() == "a = 3\n"
    assert len(editor.edits()) == 2


@pytest.mark.parametrize("saves", [True, False])
def test_before_a_command_the_user_is_asked_to_save_what_the_agent_changed(
    world: World, *, saves: bool
) -> None:
    path = file(world, "one\n")
    editor = Editor(world)
    editor.open(path, typed_text="one, typed\n")
    steps = (view(), replace("one", "two"), call("terminal", command="cat a.txt"), say("Done."))
    world.script(*steps)
    world.start(editor.client, options={"mode": "autoEdit"})
    approval = editor.client.wait_for_event("approval.requested")["event"]["approval"]
    assert approval["subject"] == {"kind": "saveDocuments", "uris": [path.as_uri()]}
    actual_answer = "allow-once" if saves else "reject"
    answer = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": actual_answer}
    editor.client.request("approval/respond", answer)
    world.turn(editor.client)
    [command] = items(editor.client, "command")
    output = content_of(command)
    assert ("two, typed" in output) == saves
    assert ("not saved" in output) == (not saves)
    assert path.read_text() == ("two, typed\n" if saves else "one\n")


def test_nobody_is_asked_to_let_an_editor_save_that_cannot(world: World) -> None:
    path = file(world, "one\n")
    editor = Editor(world, features={"applyEdit2": True})
    editor.open(path, typed_text="one, typed\n")
    steps = (view(), replace("one", "two"), call("terminal", command="cat a.txt"), say("Done."))
    world.script(*steps)
    world.start(editor.client, options={"mode": "autoEdit"})
    world.turn(editor.client)
    assert not [p for p in editor.client.events if p["event"]["type"] == "approval.requested"]
    assert "not saved" in content_of(items(editor.client, "command")[0])


def test_an_edit_counts_only_when_the_text_shows_it(world: World) -> None:
    path = file(world, "one\n")
    editor = Editor(world)
    buffer = editor.open(path, typed_text="one, typed\n")
    editor.habits = [pretend, pretend, refuse("readonly"), refuse("a form\u202e is open\nmore")]
    edit = replace("one", "two")
    _, pretended_item, readonly, rejected_item = run(world, editor, view(), edit, edit, edit)
    assert [i["status"] for i in (pretended_item, readonly, rejected_item)] == ["failed"] * 3
    assert "readonly" in content_of(readonly)
    assert content_of(rejected_item).endswith(": a form\\u{202e} is open")
    assert len(editor.edits()) == 4
    assert (buffer.text, path.read_text()) == ("one, typed\n", "one\n")


def test_an_edit_that_the_user_overtakes_is_made_again_or_refused_with_the_new_text(
    world: World,
) -> None:
    path = file(world, "one\ntwo\n")
    editor = Editor(world)
    buffer = editor.open(path, typed_text="one\ntwo\n\n")
    editor.habits = [typing(editor, lambda t: "zero\n" + t)]
    _, again = run(world, editor, view(), replace("two", "2"))
    assert (again["status"], buffer.text) == ("completed", "zero\none\n2\n\n")
    editor.habits = [typing(editor, lambda t: t.replace("one", "ONE"))]
    _, refused_item = run(world, editor, view(), replace("one", "1"))
    assert refused_item["status"] == "failed"
    assert "ONE" in content_of(refused_item)
    assert buffer.text == "zero\nONE\n2\n\n"


def test_a_buffer_that_moved_between_view_and_edit_is_rebased_or_stale(world: World) -> None:
    path = file(world, "one\ntwo\n")
    editor = Editor(world)
    buffer = editor.open(path)
    world.script(view(), say("Seen."), replace("two", "2"), say("Done."))
    conversation = world.start(editor.client)
    world.turn(editor.client)
    editor.type(path, "one, typed\ntwo\n")
    world.send(editor.client, conversation, "go on", wait="completed")
    assert buffer.text == "one, typed\n2\n"
    assert "changed since you read it" in content_of(tool_items(editor)[-1])
    editor.type(path, "one, typed\n3\n")
    world.script(replace("2\n", "4\n"), say("Stale."))
    world.send(editor.client, conversation, "again", wait="completed")
    stale_item = tool_items(editor)[-1]
    assert stale_item["status"] == "failed"
    assert "3" in content_of(stale_item)
    assert buffer.text == "one, typed\n3\n"


def test_a_file_must_be_seen_before_it_is_changed_and_a_refusal_shows_it(world: World) -> None:
    path = file(world, "one\n")
    insert = call("edit", command="insert", path="a.txt", insert_line=1, text="two\n")
    editor = Editor(world)
    refused_item, done_item = run(world, editor, insert, insert)
    assert (refused_item["status"], done_item["status"]) == ("failed", "completed")
    assert "you have not read it" in content_of(refused_item)
    assert "one" in content_of(refused_item)
    assert path.read_text() == "one\ntwo\n"


def test_what_builds_on_a_failed_edit_of_the_same_answer_is_not_done(world: World) -> None:
    path = file(world, "one\n")
    good = call("edit", command="replace", path="a.txt", old_text="one\n", new_text="two\n")
    bad = call("edit", command="replace", path="a.txt", old_text="no such line\n", new_text="x\n")
    undo = call("edit", command="undo", path="a.txt")
    run_it, end = call("terminal", command="touch ran"), call("finish", message="Done.")
    world.script(good, calls(bad, undo, run_it, end), say("I see."))
    client = world.daemon()
    world.start(client)
    assert world.turn(client)["finalText"] == "I see."
    assert path.read_text() == "two\n"
    assert not (world.project / "ran").exists()
    results = tool_results(world.llm.requests[-1].body)
    assert [
        text.startswith("Skipped: it builds on 'edit a.txt' of the same") for text in results
    ] == [
        *(False, False),
        *(True, True, True),
    ]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-3.5-turbo"])
def test_a_model_that_sees_images_sees_those_of_the_workspace(world: World, model: str) -> None:
    file(world, b"\x89PNG\r\n\x1a\n\0\0", "a.png")
    world.script(view("a.png"), say("A picture."))
    client = world.daemon(settings={"model": f"openai/{model}"})
    world.start(client)
    world.turn(client)
    messages_text = json.dumps(world.llm.requests[-1].body["messages"])
    assert "[a.png: image/png, 10 bytes]" in messages_text
    assert ("data:image/png;base64,iVBORw0KGgoAAA==" in messages_text) == (model == "gpt-4o")
    assert ("this model does not see images" in messages_text) == (model != "gpt-4o")


def test_a_change_that_is_told_late_or_never_still_counts_once(world: World) -> None:
    path = file(world, "one\ntwo\n")
    editor = Editor(world)
    buffer = editor.open(path, typed_text="one\ntwo\n\n")
    editor.habits = [late(editor)]
    _, first = run(world, editor, view(), replace("one", "1"))
    assert first["status"] == "completed"
    editor.telling.join()
    editor.is_silent = True
    _, second, last_item = run(world, editor, view(), replace("two", "2"), view())
    assert second["status"] == "completed"
    assert ("editor/readDocument", {"uri": path.as_uri()}) in editor.requests
    assert "2" in content_of(last_item)
    assert buffer.text == "1\n2\n\n"
    assert len(editor.edits()) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_count_in_the_units_of_the_client(world: World, encoding: str) -> None:
    line = "👩‍🚀 漢字 e\u0301 = 'x'; y = 'x'  # ümlaut 👍🏽\r\n"
    path = file(world, line * 3)
    editor = Editor(world, encoding=encoding)
    buffer = editor.open(path, typed_text=line * 2 + "last 👍🏽 x")
    _, middle = run(world, editor, view(), replace("👍🏽 x", "👎 y"))
    assert middle["status"] == "completed"
    assert buffer.text == line * 2 + "last 👎 y"
    assert path.read_bytes() == (line * 3).encode()


def test_a_file_that_is_not_open_is_written_byte_for_byte(world: World) -> None:
    data = b"\xef\xbb\xbfone\r\ntwo\r\nthree"
    path = file(world, data)
    path.chmod(0o750)
    (world.project / "link.txt").symlink_to("a.txt")
    editor = Editor(world)
    _, edit_item = run(world, editor, view("link.txt"), replace("two\n", "2\nto\n", "link.txt"))
    assert (edit_item["route"], editor.edits()) == ("disk", [])
    assert path.read_bytes() == data.replace(b"two\r\n", b"2\r\nto\r\n")
    assert path.stat().st_mode & 0o777 == 0o750
    assert (world.project / "link.txt").is_symlink()
    [create_item] = run(world, editor, call("edit", command="create", path="new/b.txt", text="b\n"))
    assert create_item["changes"][0]["op"] == "add"
    assert (world.project / "new/b.txt").read_text() == "b\n"
    names_left = {path.name for path in world.project.iterdir()}
    assert names_left == {".git", ".openhands", "a.txt", "link.txt", "new"}


@pytest.mark.parametrize("is_versioned", [True, False])
def test_a_plain_lsp_client_gets_its_own_edits_and_a_clean_file_goes_to_disk(
    world: World, *, is_versioned: bool
) -> None:
    capabilities = LSP_EDITS if is_versioned else {"workspace": {"applyEdit": True}}
    dirty, clean = file(world, "one\n"), file(world, "one\n", "b.txt")
    editor = Editor(world, features={}, capabilities=capabilities)
    buffer = editor.open(dirty, typed_text="one, typed\n")
    editor.open(clean)
    editor.habits = [typing(editor, lambda t: t + "more\n")] if is_versioned else []
    _, first, _, second = run(
        world, editor, view(), replace("one", "two"), view("b.txt"), replace("one", "2", "b.txt")
    )
    assert (first["status"], first["route"]) == ("completed", "editor")
    assert buffer.text == ("two, typed\nmore\n" if is_versioned else "two, typed\n")
    assert dirty.read_text() == "one\n"
    assert ("documentChanges" in editor.edits()[0]["edit"]) == is_versioned
    assert (second["route"], clean.read_text()) == ("disk", "2\n")


def test_unsaved_text_is_safe_from_an_edit_that_its_editor_cannot_take(world: World) -> None:
    path = file(world, "one\n")
    editor = Editor(world, features={})
    buffer = editor.open(path, typed_text="one, typed\n")
    _, edit_item = run(world, editor, view(), replace("one", "two"))
    assert edit_item["status"] == "failed"
    assert "save" in content_of(edit_item)
    assert (buffer.text, path.read_text()) == ("one, typed\n", "one\n")


_LARGE = "one\n2\n3\n4\n5\n" + "x" * MAX_DOCUMENT_BYTES + "\n"
"""A text above the size that is followed, in few lines, which are compared soon."""


@pytest.mark.parametrize("way", ["opened large", "grown large", "broken change"])
@pytest.mark.parametrize("features", [OURS, {"applyEdit2": True}], ids=["reads", "never reads"])
def test_unsaved_text_that_is_not_followed_is_read_or_asked_about(
    world: World, features: Json, way: str
) -> None:
    is_large = way != "broken change"
    path = file(world, _LARGE if way == "opened large" else "one\n")
    editor = Editor(world, features=features)
    buffer = editor.open(path)
    buffer.text = f"typed\n{_LARGE if is_large else 'one'}"
    buffer.version += 1
    change = {"text": buffer.text} if is_large else {"range": {}, "text": ""}
    document = {"uri": path.as_uri(), "version": buffer.version}
    params = {"textDocument": document, "contentChanges": [change]}
    editor.client.notify("textDocument/didChange", params)
    on_disk, steps = path.read_bytes(), (view(), replace("one", "two"))
    if "readDocument" in features:
        _, edit_item = run(world, editor, *steps)
        assert (edit_item["status"], edit_item["route"]) == ("completed", "editor")
        assert buffer.text.startswith("typed\ntwo")
    else:
        view_item, edit_item = run(world, editor, *steps, options={"mode": "full"})
        assert "it may hold other, unsaved text. This is the disk's.]" in content_of(view_item)
        assert edit_item["status"] == "rejected"
        world.script(replace("one", "two"), say("Refused."))
        world.start(editor.client, options={"mode": "autoEdit"})
        approvals = [e for e in editor.client.events if e["event"]["type"] == "approval.requested"]
        requested = editor.client.wait_for_event("approval.requested", nth=len(approvals) + 1)
        approval = requested["event"]["approval"]
        why = "your editor may hold unsaved text of 'a.txt', which this does not include"
        assert approval["reason"] == why
        assert why in content_of(edit_item)
        answer = {"approvalId": approval["id"], "digest": approval["digest"]}
        editor.client.request("approval/respond", {**answer, "optionId": "reject"})
        editor.client.wait_for_event("turn.completed", nth=n_turns(editor) + 1)
    assert path.read_bytes() == on_disk


def test_undo_takes_back_the_agents_edit_but_never_the_users(world: World) -> None:
    path = file(world, "one\n")
    editor = Editor(world)
    buffer = editor.open(path)
    undo = call("edit", command="undo", path="a.txt")
    run(world, editor, view(), replace("one", "two"), undo)
    assert (buffer.text, path.read_text()) == ("one\n", "one\n")
    world.script(view(), replace("one", "two"), say("Done."), undo, say("Refused."))
    conversation = world.start(editor.client)
    editor.client.wait_for_event("turn.completed", nth=2)
    editor.type(path, "two, typed\n")
    world.send(editor.client, conversation, "undo", wait="completed")
    assert tool_items(editor)[-1]["status"] == "failed"
    assert buffer.text == "two, typed\n"


def test_nothing_outside_the_folders_is_read_or_written(world: World) -> None:
    outside = world.home / "secret.txt"
    outside.write_text("secret\n")
    (world.project / "out").symlink_to(world.home)
    ways = [str(outside), "../home/secret.txt", "out/secret.txt", f"/proc/self/root{outside}"]
    client = world.daemon()
    world.script(*(view(way) for way in ways), *(replace("secret", "x", way) for way in ways))
    world.script(call("edit", command="create", path="out/new.txt", text="x"))
    world.script(call("grep", pattern="secret", path="out"), call("list", path=".."), say("No."))
    world.start(client)
    world.turn(client)
    events_ended = [e["event"] for e in client.events if e["event"]["type"] == "item.completed"]
    tools = [event["item"] for event in events_ended if "call" in event["item"]]
    assert [item["status"] for item in tools] == ["failed"] * len(tools)
    assert len(tools) == 11
    assert not any("secret\n" in content_of(item) for item in tools)
    assert outside.read_text() == "secret\n"
    assert not (world.home / "new.txt").exists()


def test_protected_places_are_asked_for_in_every_mode_and_never_for_good(world: World) -> None:
    (world.project / ".vscode").mkdir()
    settings = file(world, "{}\n", ".vscode/settings.json")
    hook = call("edit", command="create", path=".git/hooks/pre-commit", text="#!/bin/sh\n")
    edit = replace("{}", '{"a": 1}', "./.vscode/../.vscode/settings.json")
    view_call = view(".vscode/settings.json")
    client = world.daemon()
    world.script(view_call, edit, hook, say("Refused."), edit, say("Done."))
    conversation = world.start(client, options={"mode": "full"})
    assert world.turn(client)["finalText"] == "Refused."
    [change] = items(client, "fileChange")
    assert change["status"] == "rejected"
    assert not (world.project / ".git/hooks/pre-commit").exists()
    assert settings.read_text() == "{}\n"
    params = {"conversationId": conversation, "optionId": "mode", "value": "autoEdit"}
    client.request("conversation/setOption", params)
    client.request(
        "conversation/setOption", {**params, "optionId": "approval", "value": "askRisky"}
    )
    world.send(client, conversation, "again")
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    assert approval["risk"] == "high"
    assert {option["scope"] for option in approval["options"]} == {"once"}
    answer = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": "reject"}
    client.request("approval/respond", answer)
    world.turn(client, nth=2)
    assert settings.read_text() == "{}\n"


def test_what_is_no_regular_file_is_refused_at_once(world: World) -> None:
    os.mkfifo(world.project / "pipe")
    (world.project / "zero").symlink_to("/dev/zero")
    (world.project / "folder").mkdir()
    client = world.daemon()
    world.script(view("pipe"), view("zero"), view("folder"), call("grep", pattern="x"), say("No."))
    world.start(client)
    world.turn(client)
    events_ended = [e["event"] for e in client.events if e["event"]["type"] == "item.completed"]
    tools = [event["item"] for event in events_ended if "call" in event["item"]]
    assert [item["status"] for item in tools] == ["failed", "failed", "failed", "completed"]
