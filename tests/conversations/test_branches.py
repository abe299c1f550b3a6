"""Conversations branch and go back: different continuations of the same beginning."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import end, environment, start
from editor import Editor
from fake_llm import call, say
from places import TESTS
from raw_client import RawClient
from starts import SCRIPT
from world import World, content_of, items, text

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def messages(world: World, nth: int) -> list[Json]:
    """Return role and text of the messages in the nth request, without the system prompt."""
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
    params = {"conversationId": world.start(client, "first")}
    world.turn(client)
    before = world.log_of(params["conversationId"]).read_bytes()
    [view] = items(client, "toolCall")
    fork_result = client.request(
        "conversation/fork", {**params, "atItemId": view["id"], "title": "B"}
    )
    info = fork_result["conversation"]
    assert (info["title"], info["status"], info["lock"]["mine"]) == ("B", "idle", True)
    assert info["forkedFrom"]["id"] == params["conversationId"]
    assert world.log_of(params["conversationId"]).read_bytes() == before
    world.send(client, info["id"], "and now")
    world.turn(client, nth=2)
    roles = [message["role"] for message in messages(world, -1)]
    assert roles == ["user", "assistant", "tool", "user"]
    conversations = client.request("conversation/list")["conversations"]
    assert {each["id"]: each["title"] for each in conversations} == {
        info["id"]: "B",
        params["conversationId"]: "first",
    }
    item_ids = [item["id"] for item in shown_items(client, params["conversationId"])]
    for n, at in enumerate(item_ids):
        branch = client.request("conversation/fork", {**params, "atItemId": at})["conversation"][
            "id"
        ]
        assert [item["id"] for item in shown_items(client, branch)] == item_ids[: n + 1]
    assert client.error("conversation/fork", {**params, "atItemId": "none"}).code == -32602
    ephemeral = client.request("conversation/start", {"ephemeral": True})["conversation"]["id"]
    assert client.error("conversation/fork", {"conversationId": ephemeral}).code == -31006


def test_one_that_runs_elsewhere_branches_without_its_open_call(world: World) -> None:
    world.script(call("terminal", command="sleep 600", timeout_s=600), say("Here."))
    owner, other_client = world.daemon(), world.daemon()
    conversation = world.start(owner)
    owner.wait_for_event(lambda e: e["event"].get("status") == "running")
    info = other_client.request("conversation/fork", {"conversationId": conversation})[
        "conversation"
    ]
    assert [item["kind"] for item in shown_items(other_client, info["id"])] == ["userMessage"]
    other_client.request("conversation/resume", {"conversationId": info["id"]})
    assert world.turn(other_client)["finalText"] == "Here."
    status = other_client.request("conversation/read", {"conversationId": conversation})[
        "conversation"
    ]
    assert status["status"] == "running"
    owner.request("conversation/interrupt", {"conversationId": conversation})


def shown_items(client: RawClient, conversation: str) -> list[Json]:
    open_result = client.request("conversation/open", {"conversationId": conversation})
    return open_result["items"]


def test_the_agent_of_a_branch_can_undo_what_the_original_did(world: World) -> None:
    path = world.project / "a.txt"
    world.script(call("edit", command="create", path="a.txt", text="new\n"), say("Done."))
    client = world.daemon()
    original = world.start(client)
    world.turn(client)
    client.close()
    env = environment(world.home, **world.environment)
    outcome = end(start([SCRIPT, "fork", original[:6], "--title", "Undo"], world.project, env))
    assert (outcome.code, outcome.err) == (0, "")
    branch = outcome.out.strip()
    blobs = [Path(world.log_of(each)).parent / "blobs" for each in (original, branch)]
    own_inodes, fork_inodes = (
        {file.name: file.stat().st_ino for file in folder.iterdir()} for folder in blobs
    )
    assert fork_inodes
    assert fork_inodes.items() <= own_inodes.items()
    client = world.daemon()
    client.request("conversation/open", {"conversationId": branch})
    world.script(call("edit", command="undo", path="a.txt"), say("Gone."))
    options = {"optionId": "approval", "value": "askNever"}
    client.request("conversation/setOption", {"conversationId": branch, **options})
    world.send(client, branch, "undo it")
    world.turn(client)
    assert not path.exists()
    assert "Deleted a.txt" in content_of(items(client, "fileChange")[-1])


# Back to before a message, with files


def git(world: World, *words: str) -> str:
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
    outcome = subprocess.run(
        ["git", *who, *words], cwd=world.project, check=True, capture_output=True, text=True
    )
    return outcome.stdout


def of_git(world: World) -> dict[Path, bytes]:
    """Return every file of the repository itself: index, HEAD, references, objects, settings."""
    return {
        path: path.read_bytes() for path in (world.project / ".git").rglob("*") if path.is_file()
    }


def texts(world: World) -> dict[str, bytes]:
    """Return every file of the project, without git's and ours."""
    paths = (path for path in world.project.rglob("*") if path.is_file())
    contents = {str(path.relative_to(world.project)): path.read_bytes() for path in paths}
    return {
        name: data for name, data in contents.items() if not name.startswith((".git/", ".open"))
    }


COMMAND = """set -e
sed -i 's/one/ONE/' a.txt
rm b.txt
printf 'new\\n' > c.txt
printf '\\000\\001' > image
chmod +x run.sh
mkdir -p build && echo x > build/ignored
"""


def committed_files(world: World) -> dict[str, bytes]:
    """Commit files of several kinds to a repository, and return what they hold."""
    files = {
        "a.txt": b"one\r\ntwo\r\n",
        "b.txt": b"\xef\xbb\xbfb\n",
        "image": b"\0\xff",
        "run.sh": b"",
        ".gitignore": b"build/\n",
        ".gitattributes": b"* text=auto\n",
    }
    for name, data in files.items():
        (world.project / name).write_bytes(data)
    git(world, "add", ".")
    git(world, "commit", "-qm", "start")
    return files


def test_a_rollback_takes_back_commands_and_edits_and_leaves_git_alone(world: World) -> None:
    before = committed_files(world)
    (world.project / "staged").write_text("by the user\n")
    git(world, "add", "staged")
    repository = of_git(world)
    world.script(
        say("Hello."),
        call("terminal", command=COMMAND),
        call("edit", command="create", path="d.txt", text="d\n"),
        say("Changed."),
        say("Again."),
    )
    client = world.daemon()
    request_params = {"conversationId": world.start(client, "first")}
    world.turn(client)
    world.send(client, request_params["conversationId"], "second")
    world.turn(client, nth=2)
    assert (world.project / "c.txt").exists()
    checkpoints = client.request("checkpoint/list", request_params)["checkpoints"]
    assert [each["nFiles"] for each in checkpoints] == [5, 1]
    second = items(client, "userMessage")[1]["id"]
    params = {**request_params, "toItemId": second, "files": "restore"}
    preview = client.request("conversation/rollback", {**params, "dryRun": True})
    names = sorted(uri.rpartition("/")[2] for uri in preview["restored"])
    assert names == ["a.txt", "b.txt", "c.txt", "d.txt", "image", "run.sh"]
    assert (world.project / "c.txt").exists()
    rollback_result = client.request("conversation/rollback", params)
    assert (rollback_result["restored"], rollback_result["conflicts"]) == (preview["restored"], [])
    user_files = {"staged": b"by the user\n", "build/ignored": b"x\n"}
    assert texts(world) == {**before, **user_files}
    assert not os.access(world.project / "run.sh", os.X_OK) or os.geteuid() == 0
    assert (world.project / "run.sh").stat().st_mode & 0o111 == 0
    assert of_git(world) == repository
    rolled_back = client.wait_for_event("conversation.rolledBack")["event"]
    assert (rolled_back["toItemId"], rolled_back["files"]) == (second, "restore")

    # The conversation goes on as if that had not been said, and still does when opened again.
    assert rollback_result["conversation"]["messageCount"] == 2
    client.request("conversation/close", request_params)
    kinds = [i["kind"] for i in shown_items(client, request_params["conversationId"])]
    # What a slow git says of the repository comes after the message, as a notice.
    assert [each for each in kinds if each != "notice"] == ["userMessage", "agentMessage"]
    world.send(client, request_params["conversationId"], "third")
    world.turn(client, nth=3)
    # A busy machine tells of git in the first message or after it, not known at the start.
    text_list = [message["content"].partition("\n\n<env")[0] for message in messages(world, -1)]
    assert [each for each in text_list if not each.startswith("<note>git")] == [
        "first",
        "Hello.",
        "third",
    ]
    records = world.records_of(request_params["conversationId"])
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))


def test_what_the_user_changed_since_stays_and_is_named(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text("1\n2\n3\n4\n5\n6\n")
    (world.project / "b.txt").write_text("b\n")
    (world.project / "c.txt").write_text("c\n")
    world.script(
        call("terminal", command="sed -i s/1/one/ a.txt; echo agent > b.txt; rm c.txt"),
        say("Done."),
    )
    client = world.daemon()
    request_params = {"conversationId": world.start(client)}
    world.turn(client)
    path.write_text("one\n2\n3\n4\n5\nsix\n")
    (world.project / "b.txt").write_text("the user's\n")
    (world.project / "c.txt").write_text("new\n")
    [message] = items(client, "userMessage")
    params = {**request_params, "toItemId": message["id"], "files": "restore"}
    rollback_result = client.request("conversation/rollback", params)
    assert [uri.rpartition("/")[2] for uri in rollback_result["restored"]] == ["a.txt"]
    reasons = {c["uri"].rpartition("/")[2]: c["reason"] for c in rollback_result["conflicts"]}
    assert reasons.keys() == {"b.txt", "c.txt"}
    assert "same lines" in reasons["b.txt"]
    assert path.read_text() == "1\n2\n3\n4\n5\nsix\n"
    assert (world.project / "b.txt").read_text() == "the user's\n"
    assert (world.project / "c.txt").read_text() == "new\n"
    assert client.error("conversation/rollback", params).code == -32602


def test_a_file_whose_kept_text_is_damaged_stays_alone(world: World) -> None:
    for name in "ab":
        (world.project / name).write_text("one\n")
    world.script(
        *(call("edit", command="create", path=name, text="x\n") for name in "cd"),
        *(call("terminal", command=f"echo two > {name}") for name in "ab"),
        call("edit", command="view", path="a"),
        call("edit", command="replace", path="a", old_text="two", new_text="three"),
        say("Done."),
    )
    client = world.daemon()
    request_params = {"conversationId": world.start(client)}
    world.turn(client)
    blobs = world.log_of(request_params["conversationId"]).parent / "blobs"
    edited_change = next(
        c for i in items(client, "fileChange") for c in i["changes"] if c["removed"]
    )
    (blobs / edited_change["sha256Before"]).write_bytes(b"not what the agent saw\n")
    [message] = items(client, "userMessage")
    params = {**request_params, "toItemId": message["id"], "files": "restore"}
    rollback_result = client.request("conversation/rollback", params)
    assert sorted(uri.rpartition("/")[2] for uri in rollback_result["restored"]) == ["b", "c", "d"]
    reason = "its earlier text can no longer be read"
    assert rollback_result["conflicts"] == [
        {"uri": (world.project / "a").as_uri(), "reason": reason}
    ]
    assert texts(world) == {"a": b"three\n", "b": b"one\n"}


def test_what_the_user_saves_while_a_command_runs_stays_theirs(world: World) -> None:
    own_file, both, gate = (
        world.project / "mine.txt",
        world.project / "both.txt",
        world.home / "gate",
    )
    own_file.write_text("1\n")
    both.write_text("1\n2\n3\n4\n")
    os.mkfifo(gate)
    agents = "sed -i s/4/four/ both.txt; echo x > x"
    world.script(call("terminal", command=f"echo begun; cat '{gate}'; {agents}"), say("Done."))
    editor = Editor(world)
    params = {"conversationId": world.start(editor.client)}
    editor.client.wait_for(lambda m: "begun" in (m.get("params") or {}).get("text", ""))
    with gate.open("w"):  # The gate opens when the command does, and lets it go on.
        for path, new_text in ((own_file, "one\n"), (both, "one\n2\n3\n4\n")):
            editor.open(path, typed_text=new_text)
            editor.save(path)
        editor.client.request("daemon/status")  # It has heard of the changes when it answers.
    world.turn(editor.client)
    editor.open(both)  # The buffer takes up what the command wrote.
    [command] = editor.client.request("checkpoint/list", params)["checkpoints"]
    assert command["nFiles"] == 2
    back = {**params, "checkpointId": command["id"]}
    restore_result = editor.client.request("checkpoint/restore", back)
    uris = [path.as_uri() for path in (both, world.project / "x")]
    assert (sorted(restore_result["restored"]), restore_result["conflicts"]) == (uris, [])
    assert own_file.read_text() == "one\n"
    assert both.read_text() == "one\n2\n3\n4\n"


def test_a_checkpoint_is_restored_in_the_open_buffer_and_the_agent_is_told(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text("1\n2\n3\n4\n5\n6\n")
    editor = Editor(world)
    buffer = editor.open(path, typed_text="1\n2\n3\n4\n5\nsix, typed\n")
    edits = [{"old_text": "2\n", "new_text": "two\n"}]
    world.script(
        call("edit", command="view", path="a.txt"),
        call("edit", command="replace", path="a.txt", edits=edits),
        call("terminal", command="echo x > x"),
        say("Done."),
        say("I see."),
    )
    client = editor.client
    request_params = {"conversationId": world.start(client)}
    world.turn(client)
    edited_text = "1\ntwo\n3\n4\n5\nsix, typed\n"
    assert buffer.text == edited_text
    edit, command = client.request("checkpoint/list", request_params)["checkpoints"]
    params = {**request_params, "checkpointId": edit["id"]}
    preview = client.request("checkpoint/restore", {**params, "dryRun": True})
    assert (buffer.text, (world.project / "x").exists()) == (edited_text, True)
    restore_result = client.request("checkpoint/restore", params)
    assert (restore_result, len(restore_result["restored"])) == (preview, 2)
    assert buffer.text == "1\n2\n3\n4\n5\nsix, typed\n"
    assert buffer.undo[-1] == edited_text
    assert not (world.project / "x").exists()
    again = client.request("checkpoint/restore", params)
    assert again == {"restored": [], "conflicts": []}
    assert client.request("changes/list", request_params)["files"][0]["state"] == "undone"
    later = client.request("checkpoint/restore", {**request_params, "checkpointId": command["id"]})
    assert later == {"restored": [path.as_uri()], "conflicts": []}
    assert buffer.text == edited_text
    assert client.request("changes/list", request_params)["files"][0]["state"] == "pending"
    world.send(client, request_params["conversationId"], "so?")
    world.turn(client, nth=2)
    assert "took back" in messages(world, -1)[-2]["content"]
    assert (
        client.error("checkpoint/restore", {**request_params, "checkpointId": "none"}).code
        == -32602
    )


def test_in_a_folder_without_git_and_while_the_agent_works(world: World) -> None:
    shutil.rmtree(world.project / ".git")
    (world.project / "a.txt").write_text("a\n")
    world.script(call("terminal", command="echo b > a.txt; touch b"), say("Done."))
    client = world.daemon()
    request_params = {"conversationId": world.start(client)}
    world.turn(client)
    world.script(call("terminal", command="sleep 600", timeout_s=600))
    world.send(client, request_params["conversationId"], "more")
    client.wait_for_event(lambda e: e["event"].get("item", {}).get("title") == "Run sleep 600")
    first, second = items(client, "userMessage")
    params = {**request_params, "toItemId": first["id"], "files": "restore"}
    assert client.error("conversation/rollback", params).code == -31003
    client.request("conversation/pause", {**request_params, "when": "now"})
    client.wait_for_event("turn.paused")
    rollback_result = client.request("conversation/rollback", {**params, "toItemId": second["id"]})
    assert rollback_result["restored"] == []
    assert "turnId" not in client.wait_for_event("conversation.rolledBack")
    branch = client.request("conversation/fork", request_params)["conversation"]
    assert (branch["title"], branch["messageCount"]) == ("go (fork)", 2)
    rollback_result = client.request("conversation/rollback", params)
    assert (len(rollback_result["restored"]), rollback_result["conflicts"]) == (2, [])
    assert texts(world) == {"a.txt": b"a\n"}
    assert not (world.project / ".git").exists()


def test_without_git_installed_edits_still_have_checkpoints(world: World) -> None:
    shutil.rmtree(world.project / ".git")
    tools = world.home / "bin"
    tools.mkdir()
    for name in ("bash", "touch", "cat"):
        (tools / name).symlink_to(shutil.which(name) or name)
    world.variables["PATH"] = str(tools)
    world.script(
        call("terminal", command="touch made"),
        call("edit", command="create", path="a.txt", text="a\n"),
        say("Done."),
    )
    client = world.daemon()
    request_params = {"conversationId": world.start(client)}
    world.turn(client)
    checkpoints = client.request("checkpoint/list", request_params)
    assert "git" in checkpoints["problem"]
    assert [each["title"] for each in checkpoints["checkpoints"]] == ["Create a.txt"]
    [notice] = items(client, "notice")
    assert notice["title"] == "Commands leave no checkpoints here"
    assert notice["description"] == checkpoints["problem"]
    [message] = items(client, "userMessage")
    params = {**request_params, "toItemId": message["id"], "files": "restore"}
    rollback_result = client.request("conversation/rollback", params)
    assert len(rollback_result["restored"]) == 1
    stays = {"uri": world.project.as_uri(), "reason": notice["description"]}
    assert rollback_result["conflicts"] == [stays], "nobody may believe that the command is undone"
    assert texts(world) == {"made": b""}


def test_a_rollback_right_after_a_pause_finds_the_agent_at_rest(world: World) -> None:
    client = world.daemon()
    for n in range(1, 21):
        world.script(call("terminal", command="touch a"))
        params = {"conversationId": world.start(client, options={"approval": "askAlways"})}
        client.wait_for_event(lambda p: p["event"].get("to") == "waiting", nth=n)
        message = items(client, "userMessage")[-1]
        client.send_request("conversation/pause", params)
        back = {**params, "toItemId": message["id"], "files": "keep"}
        rollback = client.send_request("conversation/rollback", back)
        assert client.result_of(rollback)["conversation"]["status"] == "idle"
        world.script(say("Done."))
        more = {**params, "content": text("more"), "wait": "completed"}
        assert client.request("conversation/sendMessage", more)["turn"]["status"] == "completed"


def test_the_log_of_a_later_release_opens_and_branches_unchanged(world: World) -> None:
    conversation_id = "aa08108da68a40159e0dbd488cd22e92"
    log = world.project / ".openhands/conversations" / conversation_id / "events.jsonl"
    log.parent.mkdir(parents=True)
    later_text = (TESTS / "golden/later/approvals.jsonl").read_text("utf-8")
    log.write_text(later_text.replace("file:///project", world.project.as_uri()), "utf-8")
    records = world.records_of(conversation_id)
    items = [record["event"]["item"] for record in records if is_end_of_item(record)]
    client = world.daemon()
    params = {"conversationId": conversation_id}
    assert shown_items(client, conversation_id) == items
    branch = client.request("conversation/fork", params)["conversation"]["id"]
    branch_records = [record for record in world.records_of(branch) if is_end_of_item(record)]
    assert [record["event"]["item"] for record in branch_records] == items
    assert "mood" in world.records_of(branch)[0]["event"]
    # An event of an unknown type may grant something, so it stays behind like an approval.
    assert "hologram.shown" not in {r["event"]["type"] for r in world.records_of(branch)}
    assert log.read_text("utf-8").count("hologram.shown") == 1


def is_end_of_item(record: Json) -> bool:
    return record.get("event", {}).get("type") == "item.completed"
