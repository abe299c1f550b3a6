"""A patch of several files: which models are offered it, what is asked, how it is undone."""

from pathlib import Path
from typing import Any

import pytest
from editor import Editor, ignore
from fake_llm import call, say, tool_results
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]
CRLF = b"\xef\xbb\xbfone\r\ntwo\r\n"
PATCH = """*** Begin Patch
*** Update File: open.py
@@
-two
+2
*** Add File: new/made.py
+made
*** Delete File: gone.py
*** Update File: old.py
*** Move to: new/old.py
@@
-one
+1
*** End Patch"""
GPT = {"model": "openai/gpt-5", "approval": "askRisky"}


def offered_tools(world: World, nth: int = -1) -> dict[str, Json]:
    """Return the tools in the nth request to the model."""
    tools = (tool["function"] for tool in world.llm.requests[nth].body["tools"])
    return {tool["name"]: tool["parameters"]["properties"] for tool in tools}


def view(*names: str) -> list[Any]:
    return [call("edit", command="view", path=name) for name in names]


def test_a_patch_is_asked_about_once_done_reviewed_and_taken_back(world: World) -> None:
    (world.project / "open.py").write_bytes(b"one\ntwo\n")
    for name in ("gone.py", "old.py"):
        (world.project / name).write_bytes(CRLF)
    (world.project / "gone.py").chmod(0o755)
    before = files(world)
    editor = Editor(world)
    buffer = editor.open(world.project / "open.py", typed_text="one\ntwo\ntyped\n")
    client = editor.client
    world.script(*view("open.py", "gone.py", "old.py"), call("apply_patch", input=PATCH))
    world.script(say("Done."))
    conversation = world.start(client, options=GPT)
    approval = client.wait_for_event("approval.requested")["event"]["approval"]
    assert approval["title"] == "Patch 5 files"
    changes = {c["uri"].rpartition("/")[2]: c for c in approval["subject"]["changes"][:4]}
    assert "-two\n+2\n typed\n" in changes["open.py"]["patch"]
    assert "rename from old.py\nrename to new/old.py\n" in changes["old.py"]["patch"]
    assert files(world) == before
    answer = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**answer, "optionId": "allow-once"})
    world.turn(client)
    params = {"conversationId": conversation, "format": "html"}
    page = client.request("conversation/export", params)["text"]
    names = ("open.py", "made.py", "gone.py", "old.py")
    assert all(f'<p class="file">{name}</p>' in page for name in names)
    [patch_item] = items(client, "fileChange")
    assert "Deleted gone.py" in content_of(patch_item)
    assert buffer.text == "one\n2\ntyped\n"
    after = {"open.py": b"one\ntwo\n", "new/made.py": b"made\n"}
    assert files(world) == {**after, "new/old.py": CRLF.replace(b"one", b"1")}
    request_params = {"conversationId": conversation}
    actual_files = client.request("changes/list", request_params)["files"]
    assert [file["state"] for file in actual_files] == ["pending"] * 5
    deleted_uri = (world.project / "gone.py").as_uri()
    assert client.request("changes/undo", {**request_params, "uris": [deleted_uri]})["done"] == [
        deleted_uri
    ]
    assert (world.project / "gone.py").read_bytes() == CRLF
    assert (world.project / "gone.py").stat().st_mode & 0o777 == 0o755
    message = items(client, "userMessage")[0]["id"]
    back = {**request_params, "toItemId": message, "files": "restore"}
    assert client.request("conversation/rollback", back)["conflicts"] == []
    assert files(world) == before
    assert buffer.text == "one\ntwo\ntyped\n"


def files(world: World) -> dict[str, bytes]:
    paths = (path for path in world.project.rglob("*") if path.is_file())
    names = {path.relative_to(world.project).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if name[0] != "."}


def test_who_patches_is_offered_patches_and_a_switch_changes_that(world: World) -> None:
    (world.project / "a.py").write_bytes(b"one\n")
    patch = "*** Begin Patch\n*** Delete File: a.py\n*** End Patch"
    refused_call = call("apply_patch", input=patch)
    replace = call("edit", command="replace", path="a.py", old_text="one", new_text="two")
    world.script(*view("a.py"), say("Seen."), refused_call, say("No."), replace, say("Edited."))
    client = world.daemon()
    conversation = world.start(client, options=GPT)
    world.turn(client)
    params = {"conversationId": conversation}
    client.request("conversation/setOption", {**params, "optionId": "mode", "value": "plan"})
    world.send(client, conversation, "only plan")
    world.turn(client, nth=2)
    tools = offered_tools(world)
    assert tools["edit"]["command"]["enum"] == ["view", "undo"]
    assert set(tools["apply_patch"]) == {"input", "security_risk", "summary"}
    prompt = world.llm.requests[0].body["messages"][0]["content"]
    assert "View files with `edit`, and change them with `apply_patch`" in prompt
    [_, rejected_call] = items(client, "toolCall") + items(client, "fileChange")
    assert (rejected_call["status"], "plan" in content_of(rejected_call)) == ("rejected", True)
    for option, value in (("model", "openai/fake"), ("mode", "full")):
        client.request("conversation/setOption", {**params, "optionId": option, "value": value})
    world.send(client, conversation, "edit it")
    world.turn(client, nth=3)
    assert "apply_patch" not in offered_tools(world)
    assert "replace" in offered_tools(world)["edit"]["command"]["enum"]
    assert Path(world.project / "a.py").read_bytes() == b"two\n"
    world.script(say("Neither."))
    world.start(client, "no edits", options=GPT, tools={"deny": ["edit"]})
    world.turn(client, nth=4)
    assert not {"apply_patch", "edit"} & set(offered_tools(world))


def test_a_kill_in_the_middle_leaves_each_file_old_or_new_and_says_which(world: World) -> None:
    names = ("a.py", "b.py", "c.py")
    for name in names:
        (world.project / name).write_bytes(CRLF)
    hunks = "".join(f"*** Update File: {name}\n@@\n-one\n+1\n" for name in names)
    patch = f"*** Begin Patch\n{hunks}*** Delete File: gone.py\n*** End Patch"
    (world.project / "gone.py").write_bytes(CRLF)
    before = files(world)
    editor = Editor(world)
    editor.open(world.project / "b.py", typed_text="one\ntyped\n")
    editor.habits.append(ignore)
    world.script(*view(*names, "gone.py"), call("apply_patch", input=patch))
    options = {**GPT, "approval": "askNever"}
    conversation = world.start(editor.client, options=options)
    editor.client.wait_for(lambda m: m.get("method") == "editor/applyEdit")
    editor.client.kill()
    assert files(world) == {**before, "a.py": CRLF.replace(b"one", b"1")}
    again = Editor(world)
    again.open(world.project / "b.py", typed_text="one\ntyped\n")
    params = {"conversationId": conversation}
    open_result = again.client.request("conversation/open", params)
    [item] = [item for item in open_result["items"] if item["kind"] == "fileChange"]
    assert (item["status"], item["reason"]) == ("cancelled", "outcomeUnknown")
    assert [change["uri"] for change in item["changes"]] == [(world.project / "a.py").as_uri()]
    world.script(say("I look."))
    again.client.request("conversation/resume", params)
    world.turn(again.client)
    results = tool_results(world.llm.requests[-1].body)
    assert "outcome is unknown" in results[-1]
    assert "Of 4 files these are as the edit wanted them: a.py." in results[-1]


def test_a_choice_of_hunks_that_no_longer_fits_is_told_to_the_model(world: World) -> None:
    """The text changes after the patch was planned again and before the chosen part is."""
    first, second = (world.project / name for name in ("a.py", "b.py"))
    for path in (first, second):
        path.write_bytes(b"one\ntwo\n")
    editor = Editor(world)
    editor.open(first)
    editor.open(second)
    hunks = "".join(f"*** Update File: {name}\n@@\n-one\n+1\n" for name in ("a.py", "b.py"))
    patch = f"*** Begin Patch\n{hunks}*** End Patch"
    world.script(*view("a.py", "b.py"), call("apply_patch", input=patch), say("I look again."))
    client = editor.client
    world.start(client, options=GPT)
    approval = client.wait_for_event("approval.requested")["event"]["approval"]

    def type_first(_params: Json) -> Json:
        editor.type(first, "typed\n")
        return {"text": "one\ntwo\n", "version": 2, "dirty": False}

    # A change that cannot be read: from now on the daemon asks for the text of the second file.
    client.answer("editor/readDocument", type_first)
    params = {"uri": second.as_uri(), "version": 2}
    broken_change = {"textDocument": params, "contentChanges": [{"range": {}, "text": ""}]}
    client.notify("textDocument/didChange", broken_change)
    subject = {**approval["subject"], "hunks": approval["subject"]["hunks"][:1]}
    answer = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": "allow-once"}
    client.request("approval/respond", {**answer, "editedSubject": subject})
    assert world.turn(client)["finalText"] == "I look again."
    [failed_call] = items(client, "toolCall")[2:] + items(client, "fileChange")
    assert failed_call["status"] == "failed"
    assert "typed" in content_of(failed_call)
    assert second.read_bytes() == b"one\ntwo\n"
