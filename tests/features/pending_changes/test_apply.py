"""Commands run in an overlay of the editor; their changes are applied, or not."""

import os
import signal

import pytest
from applying import (
    ADDS,
    ASKS,
    VIEW,
    allowed_after_a_kill,
    answer,
    files_of,
    project_of,
    wait_for_approval,
)
from editor import Buffer, Editor
from fake_llm import call, say
from world import World, content_of, items

from oh_daemon.conformance.rpc_process import NoAnswer

pytestmark = pytest.mark.one_daemon


def test_what_a_command_changed_is_asked_about_once_with_the_diff_and_then_lands(
    world: World,
) -> None:
    project_of(world)
    world.script(call("terminal", command=ADDS), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    approval = wait_for_approval(client)
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}
    assert approval["title"] == "Keep changes to 3 files"
    changes = approval["subject"]["changes"]
    assert {c["uri"].rpartition("/")[2]: c["op"] for c in changes} == {
        "a.txt": "modify",
        "b.txt": "add",
        "c.txt": "delete",
    }
    assert "+two" in changes[0]["patch"]
    answer(client, approval, "allow-once")
    world.turn(client)
    assert files_of(world) == {"a.txt": "one\ntwo\n", "b.txt": "new\n"}
    [item] = items(client, "command")
    assert (item["status"], item["exitCode"], len(item["changes"])) == ("completed", 0, 3)
    content = content_of(item)
    assert "[exit code 0" in content
    assert "Edited a.txt: +1 -0 lines." in content
    assert not any(e["event"]["type"] == "checkpoint.created" for e in client.events)


def test_new_folders_without_files_land_unasked(world: World) -> None:
    world.script(call("terminal", command="mkdir -p build/out"), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    assert world.turn(client)["status"] == "completed"
    assert (world.project / "build/out").is_dir()


OMISSIONS = (
    "echo good > good.txt; mkdir sub; mkfifo $'p\\xff' $'sub/n\\n\\e]0;t' sub/same same"
    "; git init -q sub/r; mkfifo $'sub/r/.git/hooks/h\\xff'; for n in {1..50}; do mkfifo q$n; done"
)


def test_omissions_are_listed_in_full_and_escaped(world: World) -> None:
    world.script(call("terminal", command=OMISSIONS), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options={"mode": "autoEdit"})
    assert world.turn(client)["status"] == "completed"
    assert files_of(world) == {"good.txt": "good\n"}
    [item] = items(client, "command")
    why = "it is a pipe, a socket or a device"
    lines = content_of(item).splitlines()
    names = ("p\\udcff", "sub/n\\n\\x1b]0;t", "sub/same", "same", *(f"q{n}" for n in range(1, 51)))
    assert {f"Left as it was: {name}: {why}." for name in names} <= {*lines}
    assert any("hooks/h\\udcff" in line for line in lines)


MODES = (
    "chmod 6755 a.txt; echo two >> c.txt; chmod 4755 c.txt; printf '\\0' > tool; chmod 6777 tool"
    "; echo > s.sh; chmod 4755 s.sh; mkdir -m 3777 n inherits/n; chmod 1755 inherits"
)


@pytest.mark.parametrize("mode", ["autoEdit", "full"])
def test_modes_are_applied_without_setuid_setgid_and_sticky(world: World, mode: str) -> None:
    project_of(world)
    (world.project / "c.txt").chmod(0o4755)
    (world.project / "inherits").mkdir()
    (world.project / "inherits").chmod(0o2755)
    world.script(call("terminal", command=MODES), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options={"mode": mode})
    world.turn(client)
    names = ("a.txt", "c.txt", "tool", "s.sh", "n", "inherits", "inherits/n")
    modes = [oct((world.project / name).stat().st_mode & 0o7777) for name in names]
    assert modes == ["0o755", "0o755", "0o777", "0o755", "0o777", "0o2755", "0o2777"]


def test_what_is_refused_is_as_before_in_the_view_too_and_the_model_is_told(world: World) -> None:
    project_of(world)
    world.script(
        call("terminal", command=ADDS), call("terminal", command="cat *.txt"), say("I see.")
    )
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    answer(client, wait_for_approval(client), "reject", feedback="not now")
    world.turn(client)
    first, second = items(client, "command")
    assert first["status"] == "completed"
    assert "[not kept: a.txt, b.txt, c.txt] The user rejected this: not now" in content_of(first)
    assert content_of(second).startswith("one\ngone\n")
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}


def test_changes_that_nobody_can_approve_are_not_said_to_be_a_command_that_did_not_run(
    world: World,
) -> None:
    world.script(call("terminal", command="echo ran; echo x > new.txt"), say("I see."))
    client = world.daemon(settings=VIEW, features={"approvalRequests": False})
    world.start(client, options=ASKS)
    world.turn(client)
    [command] = items(client, "command")
    output, not_kept = content_of(command).split("[not kept: ")
    assert output.startswith("ran\n")
    assert not_kept.startswith("new.txt] They were not approved: the user cannot be asked")


def test_a_command_that_changes_nothing_asks_nothing_whatever_it_is(world: World) -> None:
    outside = world.home / "victim"
    outside.write_text("safe")
    connect = "{ : </dev/tcp/192.0.2.1/80; } 2>/dev/null"
    hidden_command = f"true [[ a =~ x;rm -rf {outside} ]]; {connect} || echo no network"
    world.script(call("terminal", command=hidden_command), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options=ASKS)
    world.turn(client)
    assert outside.read_text() == "safe"
    assert "no network" in content_of(items(client, "command")[0])
    assert not any(e["event"]["type"] == "approval.requested" for e in client.events)


def test_commands_see_the_unsaved_text_and_their_edits_of_it_land_in_the_buffer(
    world: World,
) -> None:
    project_of(world)
    world.script(
        call("terminal", command="cat a.txt && sed -i s/typed/landed/ a.txt"), say("Done.")
    )
    editor = Editor(world, settings=VIEW)
    buffer = editor.open(world.project / "a.txt", "one\ntyped\n")
    world.start(editor.client, options={"mode": "autoEdit"})
    world.turn(editor.client)
    assert content_of(items(editor.client, "command")[0]).startswith("one\ntyped\n")
    assert buffer.text == "one\nlanded\n"
    assert (world.project / "a.txt").read_text() == "one\n"


def test_in_plan_commands_run_and_what_they_changed_is_gone_after_the_turn(world: World) -> None:
    project_of(world)
    world.script(
        call("terminal", command=ADDS),
        call("terminal", command="cat a.txt b.txt"),
        say("Planned."),
    )
    world.script(call("terminal", command="cat a.txt; ls -1 *.txt"), say("As before."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"mode": "plan"})
    world.turn(client)
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    _, output, after = (content_of(item) for item in items(client, "command"))
    assert output.startswith("one\ntwo\nnew\n")
    assert after.startswith("one\na.txt\nc.txt\n")
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}


def test_unasked_everything_lands_but_protected_files(world: World) -> None:
    project_of(world)
    command = "echo x > b.txt; mkdir -p .vscode; echo '{}' > .vscode/settings.json; chmod +x a.txt"
    world.script(call("terminal", command=command), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options={"approval": "askNever"})
    world.turn(client)
    assert (world.project / "b.txt").read_text() == "x\n"
    assert not (world.project / ".vscode").exists()
    assert os.access(world.project / "a.txt", os.X_OK)
    content = content_of(items(client, "command")[0])
    assert "Left as it was: .vscode/settings.json:" in content


def test_changes_that_wait_outlive_a_killed_daemon_and_land_after_it(world: World) -> None:
    project_of(world)
    world.script(call("terminal", command=ADDS), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS)
    wait_for_approval(client)
    again = allowed_after_a_kill(world, client, conversation)
    assert files_of(world) == {"a.txt": "one\ntwo\n", "b.txt": "new\n"}
    [item] = items(again, "command")
    assert (item["status"], item["exitCode"]) == ("completed", 0)


def test_a_rollback_takes_back_what_a_command_changed(world: World) -> None:
    project_of(world)
    (world.project / "logo.bin").write_bytes(b"\0\1")
    command = ADDS + "; printf '\\000\\002' > logo.bin"
    world.script(call("terminal", command=command), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"approval": "askNever"})
    world.turn(client)
    assert (world.project / "logo.bin").read_bytes() == b"\0\2"
    [message] = items(client, "userMessage")
    params = {"conversationId": conversation, "toItemId": message["id"], "files": "restore"}
    client.request("conversation/rollback", params)
    assert files_of(world) == {"a.txt": "one\n", "c.txt": "gone\n"}
    assert (world.project / "logo.bin").read_bytes() == b"\0\1"


def test_no_way_writes_a_file_under_text_that_the_editor_does_not_return(world: World) -> None:
    path = world.project / "a.txt"
    path.write_text("one\n")
    edit = call("edit", command="replace", path="a.txt", old_text="one", new_text="two")
    view = call("edit", command="view", path="a.txt")
    world.script(view, edit, say("Edited."))
    editor = Editor(world, features={"applyEdit2": True}, settings=VIEW)
    client = editor.client
    conversation = world.start(client, options={"approval": "askNever"})
    world.turn(client)
    editor.open(path)
    document = {"uri": path.as_uri(), "version": 2}
    unreadable = {"textDocument": document, "contentChanges": [{"range": {}, "text": "typed"}]}
    client.notify("textDocument/didChange", unreadable)
    why = "your editor may hold unsaved text of 'a.txt', which this does not include"
    [message] = items(client, "userMessage")
    way_out = f"{why}; save or close it there first"
    conflict = {"uri": path.as_uri(), "reason": way_out}
    params = {"conversationId": conversation}
    assert client.request("changes/undo", params) == {"done": [], "conflicts": [conflict]}
    params = {**params, "toItemId": message["id"], "files": "restore"}
    for more in ({"dryRun": True}, {}):
        result = client.request("conversation/rollback", {**params, **more})
        assert (result["restored"], result["conflicts"]) == ([], [conflict])
    world.script(call("terminal", command="echo 3 >> a.txt"), say("Left."))
    world.start(client)
    world.turn(client, nth=2)
    assert f"Left as it was: a.txt: {why}" in content_of(items(client, "command")[-1])
    world.script(call("terminal", command="printf '\\0' >> a.txt"), say("Rejected."))
    world.start(client, options=ASKS)
    approval = wait_for_approval(client)
    assert approval["reason"] == why
    answer(client, approval, "reject")
    world.turn(client, nth=3)
    assert path.read_text() == "two\n"


def test_running_outside_is_asked_each_time_with_the_reason(world: World) -> None:
    outside = {"command": "echo out > o.txt", "outside": "it needs the disk"}
    world.script(call("terminal", **outside), call("terminal", **outside), say("Done."))
    client = world.daemon(settings=VIEW)
    world.start(client, options={"approval": "askNever"})
    for nth in (1, 2):
        approval = wait_for_approval(client, nth)
        assert approval["subject"]["outside"] == "it needs the disk"
        assert [option["id"] for option in approval["options"]] == ["allow-once", "reject"]
        answer(client, approval, "allow-once")
    world.turn(client)
    assert (world.project / "o.txt").read_text() == "out\n"


def test_without_a_view_what_seems_to_read_runs_where_it_can_only_read(world: World) -> None:
    project_of(world)
    (world.project / "sub").mkdir()
    hidden_command = "true [[ a =~ x;touch pwned.txt ]]"
    world.script(
        call("terminal", command="cd sub"),
        call("terminal", command=f"{hidden_command}; sed -n 1p ../a.txt"),
        call("terminal", command="pwd"),
        say("Done."),
    )
    client = world.daemon(settings={"sandbox": "landlock"})
    world.start(client, options=ASKS)
    world.turn(client)
    assert not any(e["event"]["type"] == "approval.requested" for e in client.events)
    _, hid, where = items(client, "command")
    assert "Permission denied" in content_of(hid)
    assert "one\n" in content_of(hid)
    assert hid["terminalId"] == "reading"
    assert content_of(where).startswith(f"{world.project}/sub\n")
    assert "pwned.txt" not in {path.name for path in world.project.rglob("*")}


def test_a_landing_that_a_kill_cut_short_goes_on_without_asking_again(world: World) -> None:
    project_of(world)
    world.script(call("terminal", command="sed -i s/typed/landed/ *.txt; rm c.txt"), say("Done."))
    editor = Editor(world, settings=VIEW)
    first = editor.open(world.project / "a.txt", "one\ntyped\n")
    second = editor.open(world.project / "b.txt", "two\ntyped\n")
    process = editor.client.process

    def kill_daemon(_buffer: Buffer) -> None:
        os.kill(process.pid, signal.SIGKILL)
        raise NoAnswer

    editor.habits = [lambda _buffer: None, kill_daemon]
    conversation = world.start(editor.client, options=ASKS)
    answer(editor.client, wait_for_approval(editor.client), "allow-once")
    process.wait()
    assert (first.text, second.text) == ("one\nlanded\n", "two\ntyped\n")
    assert (world.project / "c.txt").exists()
    again = Editor(world, settings=VIEW)
    buffers = [again.open(each.path, each.text) for each in (first, second)]
    again.client.request("conversation/open", {"conversationId": conversation})
    again.client.request("conversation/resume", {"conversationId": conversation})
    world.turn(again.client)
    assert [buffer.text for buffer in buffers] == ["one\nlanded\n", "two\nlanded\n"]
    assert not (world.project / "c.txt").exists()
    [item] = items(again.client, "command")
    assert (item["status"], len(item["changes"])) == ("completed", 3)
    assert len(again.edits()) == 1


def test_where_the_user_typed_in_the_same_lines_the_question_shows_both(world: World) -> None:
    (world.project / "a.txt").write_text("one\nkept\nlast\n")
    world.script(call("terminal", command="sed -i s/one/landed/ a.txt; echo x > d.txt"), say("Ok."))
    editor = Editor(world, settings=VIEW)
    buffer = editor.open(world.project / "a.txt")
    world.start(editor.client, options=ASKS)
    first = wait_for_approval(editor.client)
    editor.type(buffer.path, "mine\nkept\nLAST\n")
    answer(editor.client, first, "allow-once")
    second = wait_for_approval(editor.client, 2)
    patch = second["subject"]["changes"][0]["patch"]
    assert "-mine\n" in patch
    assert "+landed\n" in patch
    assert "you changed the same lines meanwhile" in second["reason"]
    answer(editor.client, second, "allow-once")
    world.turn(editor.client)
    assert buffer.text == "landed\nkept\nLAST\n"
