"""The user reviews what the agent did to files: keeps it, reverts it, and loses nothing."""

import threading
from pathlib import Path
from typing import Any

import pytest
from editor import Buffer, Editor
from fake_llm import Step, call, say
from raw_client import RawClient
from world import World, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
LINES = [f"line {n}" for n in range(12)]


def text_of(**new_text: str) -> str:
    """Return the twelve lines, with replacements for lines that are named like `l3`."""
    return "".join(new_text.get(f"l{n}", line) + "\n" for n, line in enumerate(LINES))


def agent_edits(*numbers: int) -> list[Step]:
    edits = [{"old_text": f"line {n}\n", "new_text": f"agent {n}\n"} for n in numbers]
    change = call("edit", command="replace", path="a.txt", edits=edits)
    return [call("edit", command="view", path="a.txt"), change, say("Done.")]


def review_setup(world: World, client: RawClient, *steps: Step) -> Json:
    """Run a turn of these steps in a new conversation; return the params that name it."""
    world.script(*steps)
    conversation = world.start(client)
    assert world.turn(client)["status"] == "completed"
    return {"conversationId": conversation}


def states(client: RawClient, params: Json) -> dict[str, str]:
    files = client.request("changes/list", params)["files"]
    return {Path(file["uri"]).name: file["state"] for file in files}


def test_hunks_are_kept_and_reverted_around_what_the_user_changed(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text(text_of())
    client = world.daemon()
    params = review_setup(world, client, *agent_edits(1, 5, 9))
    in_file = {**params, "uri": path.as_uri()}
    diff = client.request("changes/diff", in_file)
    assert diff["oldText"] == text_of()
    assert diff["newText"] == path.read_text() == text_of(l1="agent 1", l5="agent 5", l9="agent 9")
    first, second, third = diff["hunks"]
    assert first == {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1}
    hunk = {"uri": path.as_uri(), **first}
    result = {"done": [path.as_uri()], "conflicts": []}
    assert client.request("changes/keep", {**params, "hunks": [hunk]}) == result
    error = client.error("changes/apply", params)
    assert (error.code, "send changes/keep or changes/undo" in error.message) == (-31006, True)
    users = "line 3, by the user"
    path.write_text(text_of(l1="agent 1", l3=users, l5="agent 5", l9="the user again"))
    hunk = {"uri": path.as_uri(), **second}
    assert client.request("changes/undo", {**params, "hunks": [hunk]}) == result
    text_kept = text_of(l1="agent 1", l3=users, l9="the user again")
    assert path.read_text() == text_kept
    [conflict] = client.request("changes/undo", params)["conflicts"]
    assert "same lines" in conflict["reason"]
    assert path.read_text() == text_kept
    assert states(client, params) == {"a.txt": "conflict"}
    [conflict] = client.request("changes/keep", {**params, "hunks": [hunk]})["conflicts"]
    assert "older" in conflict["reason"]
    client.request("conversation/close", params)
    client.request("conversation/open", params)
    assert client.request("changes/diff", in_file)["hunks"] == [third]
    assert client.request("changes/keep", params) == result
    assert states(client, params) == {"a.txt": "kept"}
    assert client.error("changes/diff", {**params, "uri": "file:///else"}).code == -32602


def test_what_one_turn_changed_is_shown_whatever_became_of_it(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text(text_of())
    client = world.daemon()
    params = review_setup(world, client, *agent_edits(1))
    client.request("changes/keep", params)
    world.script(*agent_edits(5))
    world.send(client, params["conversationId"], "more")
    world.turn(client, nth=2)
    first, second = (
        event["event"]["turn"]["id"]
        for event in client.events
        if event["event"]["type"] == "turn.completed"
    )
    turn, in_file = {**params, "turnId": first}, {"uri": path.as_uri()}
    [file] = client.request("changes/list", turn)["files"]
    assert (file["uri"], file["added"], file["state"]) == (path.as_uri(), 1, "pending")
    diff = client.request("changes/diff", {**turn, **in_file})
    assert (diff["oldText"], diff["newText"]) == (text_of(), text_of(l1="agent 1"))
    assert diff["hunks"] == []
    later = client.request("changes/diff", {**params, **in_file, "turnId": second})
    assert later["newText"] == text_of(l1="agent 1", l5="agent 5")
    client.request("conversation/close", params)
    client.request("conversation/open", params)
    assert client.request("changes/diff", {**turn, **in_file}) == diff
    other_params = {**params, "turnId": "another"}
    assert client.request("changes/list", other_params) == {"files": []}
    assert client.error("changes/diff", {**other_params, **in_file}).code == -32602


def test_a_file_that_came_back_is_no_change_of_the_turn(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text(text_of())
    client = world.daemon()
    back = {"old_text": "agent 1\n", "new_text": "line 1\n"}
    steps = [*agent_edits(1)[:2], call("edit", command="replace", path="a.txt", edits=[back])]
    create = call("edit", command="create", path="new.txt", text="x\n")
    params = review_setup(
        world, client, *steps, create, call("edit", command="undo", path="new.txt"), say("Done.")
    )
    assert path.read_text() == text_of()
    updates = [
        e["event"]["files"] for e in client.events if e["event"]["type"] == "changes.updated"
    ]
    names = [[Path(file["uri"]).name for file in files] for files in updates]
    assert names == [["a.txt"], [], ["new.txt"], []]
    assert states(client, params) == {"a.txt": "kept", "new.txt": "kept"}


def test_what_the_user_changed_between_two_edits_is_not_part_of_the_review(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text(text_of())
    client = world.daemon()
    params = review_setup(world, client, *agent_edits(1))
    path.write_text(text_of(l1="agent 1", l5="by the user"))
    world.script(*agent_edits(9))
    world.send(client, params["conversationId"], "more")
    world.turn(client, nth=2)
    diff = client.request("changes/diff", {**params, "uri": path.as_uri()})
    assert diff["oldText"] == text_of(l5="by the user")
    client.request("changes/undo", {**params, "uris": [path.as_uri()]})
    assert path.read_text() == text_of(l5="by the user")
    assert states(client, params) == {"a.txt": "undone"}


def test_an_open_document_is_reverted_by_the_editor_as_one_undo_step(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text(text_of())
    editor = Editor(world)
    buffer = editor.open(path, typed_text=text_of(l11="typed"))
    params = review_setup(world, editor.client, *agent_edits(1, 5))
    edited_text = text_of(l1="agent 1", l5="agent 5", l11="typed")
    assert buffer.text == edited_text
    assert editor.client.request("changes/undo", params)["done"] == [path.as_uri()]
    assert buffer.text == text_of(l11="typed")
    assert buffer.undo[-1] == edited_text
    assert path.read_text() == text_of()


def test_nothing_else_changes_the_files_while_a_review_does(world: World) -> None:
    path, other_file = world.project / "a.txt", world.project / "other"
    path.write_text(text_of())
    editor = Editor(world)
    buffer = editor.open(path)
    create = call("edit", command="create", path="other", text="x\n")
    params = review_setup(world, editor.client, create, *agent_edits(1))
    has_begun, gate = threading.Event(), threading.Event()

    def wait(_buffer: Buffer) -> None:
        has_begun.set()
        assert gate.wait(60)

    editor.habits.append(wait)
    client = editor.client
    revert = client.send_request("changes/undo", {**params, "uris": [path.as_uri()]})
    assert has_begun.wait(60)
    [message] = items(client, "userMessage")
    back = {**params, "toItemId": message["id"], "files": "restore"}
    rollback = client.send_request("conversation/rollback", back)
    # Another conversation changes files meanwhile, so there was time enough.
    world.script(call("terminal", command="touch elsewhere"), say("Done."))
    world.start(client)
    world.turn(client, nth=2)
    assert (client.n_answers(rollback), other_file.exists()) == (0, True)
    gate.set()
    assert client.result_of(revert) == {"done": [path.as_uri()], "conflicts": []}
    assert client.result_of(rollback)["restored"] == [other_file.as_uri()]
    assert (buffer.text, other_file.exists()) == (text_of(), False)


def test_a_new_file_is_taken_away_unless_the_user_changed_it(world: World) -> None:
    client = world.daemon()
    steps = [call("edit", command="create", path=name, text="new\n") for name in ("b", "c")]
    params = review_setup(world, client, *steps, say("Done."))
    (world.project / "c").write_text("new\nmine\n")
    result = client.request("changes/undo", params)
    assert [Path(uri).name for uri in result["done"]] == ["b"]
    assert [Path(conflict["uri"]).name for conflict in result["conflicts"]] == ["c"]
    assert not (world.project / "b").exists()
    assert (world.project / "c").read_text() == "new\nmine\n"
    assert states(client, params) == {"b": "undone", "c": "conflict"}


@pytest.mark.parametrize("is_gone", [False, True], ids=["damaged", "gone"])
def test_a_file_whose_kept_text_is_lost_holds_up_no_other(world: World, *, is_gone: bool) -> None:
    for name in "ab":
        (world.project / name).write_text(f"{name}\n")
    edits = [
        call("edit", command="replace", path=name, old_text=name, new_text="agent") for name in "ab"
    ]
    views = [call("edit", command="view", path=name) for name in "ab"]
    client = world.daemon()
    request_params = review_setup(world, client, *views, *edits, say("Done."))
    [before] = [c["sha256Before"] for i in items(client, "fileChange")[:1] for c in i["changes"]]
    blob = world.log_of(request_params["conversationId"]).parent / "blobs" / before
    blob.unlink() if is_gone else blob.write_bytes(b"not what the user had\n")
    assert states(client, request_params) == {"a": "conflict", "b": "pending"}
    turn = {**request_params, "turnId": client.wait_for_event("turn.started")["turnId"]}
    assert states(client, turn) == {"a": "conflict", "b": "pending"}
    [lost_uri, other_uri] = [(world.project / name).as_uri() for name in "ab"]
    reason = "its earlier text can no longer be read"
    assert reason in client.error("changes/diff", {**request_params, "uri": lost_uri}).message
    params = {"done": [other_uri], "conflicts": [{"uri": lost_uri, "reason": reason}]}
    assert client.request("changes/undo", request_params) == params
    assert (world.project / "a").read_text() == "agent\n"
    assert (world.project / "b").read_text() == "b\n"
    assert client.request("changes/keep", request_params) == {"done": [lost_uri], "conflicts": []}
    assert states(client, request_params) == {"a": "kept", "b": "undone"}


def test_a_file_that_became_a_way_out_of_the_folder_holds_up_no_other(world: World) -> None:
    client = world.daemon()
    steps = [call("edit", command="create", path=name, text="new\n") for name in "ab"]
    params = review_setup(world, client, *steps, say("Done."))
    [link, other_file] = [world.project / name for name in "ab"]
    link.unlink()
    link.symlink_to("/etc/hostname")
    assert states(client, params) == {"a": "conflict", "b": "pending"}
    assert client.request("changes/diff", {**params, "uri": link.as_uri()})["newText"] == "new\n"
    result = client.request("changes/undo", params)
    assert result["done"] == [other_file.as_uri()]
    assert [conflict["uri"] for conflict in result["conflicts"]] == [link.as_uri()]
    assert "outside the open folders" in result["conflicts"][0]["reason"]
    assert client.request("changes/keep", params)["done"] == [link.as_uri()]
