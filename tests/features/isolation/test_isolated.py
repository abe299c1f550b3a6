"""Isolated conversations: edits and commands stay apart until the user lands them."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from command_line import PLAIN, Ran, end, environment, start
from editor import Editor
from fake_llm import call, say
from raw_client import RawClient
from starts import SCRIPT
from world import KEY, World, content_of, items

from oh_daemon import LLM, Agent, Conversation, Workspace

Json = dict[str, Any]
VIEW = {"sandbox": "overlay"}
ASKS = {"approval": "askRisky"}


def project_of(world: World) -> None:
    lines = "".join(f"{n}\n" for n in range(1, 21))
    for name, text in {"a.txt": "one\n", "c.txt": "gone\n", "long.txt": lines}.items():
        (world.project / name).write_text(text)


def files_of(world: World) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(world.project.glob("*.txt"))}


def edit(path: str, old: str, new: str) -> Any:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


def view(path: str) -> Any:
    return call("edit", command="view", path=path)


def of(conversation: str, **more: Any) -> Json:
    return {"conversationId": conversation, **more}


def uri(world: World, name: str) -> str:
    return (world.project / name).as_uri()


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    argv = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def pending_by_uri(client: RawClient, conversation: str) -> dict[str, Json]:
    """Return what waits, by the name of the file."""
    files = client.request("changes/list", of(conversation))["files"]
    return {file["uri"].rpartition("/")[2]: file for file in files}


def test_edits_and_commands_see_each_other_and_the_disk_stays_until_all_is_landed(
    world: World,
) -> None:
    project_of(world)
    before = files_of(world)
    world.script(
        call("terminal", command="cat a.txt; echo two >> a.txt; echo new > b.txt; rm c.txt"),
        view("a.txt"),
        edit("a.txt", "two", "three"),
        call("edit", command="create", path="sub/d.py", text="x = 1\n"),
        call("terminal", command="cat a.txt sub/d.py; ls -1"),
        call("grep", pattern="three|x = 1"),
        call("glob", pattern="**/*"),
        say("Done."),
    )
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS, isolated=True)
    world.turn(client)
    actual_before, after = (content_of(item) for item in items(client, "command"))
    assert actual_before.startswith("one\n")
    assert after.startswith("one\nthree\nx = 1\na.txt\nb.txt\nlong.txt\nsub\n")
    texts = "\n".join(content_of(item) for item in items(client, "toolCall"))
    assert "sub/d.py" in texts
    assert "three" in texts
    assert not any(e["event"]["type"] == "approval.requested" for e in client.events)
    assert files_of(world) == before
    assert {name: file["op"] for name, file in pending_by_uri(client, conversation).items()} == {
        "a.txt": "modify",
        "b.txt": "add",
        "c.txt": "delete",
        "d.py": "add",
    }
    review_result = client.request("changes/apply", of(conversation))
    assert (len(review_result["done"]), review_result["conflicts"]) == (4, [])
    assert {k: v for k, v in files_of(world).items() if k != "long.txt"} == {
        "a.txt": "one\nthree\n",
        "b.txt": "new\n",
    }
    assert (world.project / "sub/d.py").read_text() == "x = 1\n"
    assert pending_by_uri(client, conversation) == {}


def test_two_of_them_on_one_folder_do_not_see_each_other(world: World) -> None:
    project_of(world)
    before = files_of(world)
    client = world.daemon(settings=VIEW)
    conversations: list[str] = []
    for nth, name in enumerate(("first", "second"), 1):
        world.script(call("terminal", command=f"cat a.txt; echo {name} >> a.txt"), say("Done."))
        conversations.append(world.start(client, name, options=ASKS, isolated=True))
        world.turn(client, nth=nth)
    assert files_of(world) == before
    assert [content_of(item).partition("[")[0] for item in items(client, "command")] == [
        "one\n"
    ] * 2
    for conversation in conversations:
        assert [*pending_by_uri(client, conversation)] == ["a.txt"]
    client.request("changes/apply", of(conversations[0]))
    review_result = client.request("changes/apply", of(conversations[1]))
    assert "the same lines were changed outside" in review_result["conflicts"][0]["reason"]
    assert files_of(world) == {**before, "a.txt": "one\nfirst\n"}
    assert pending_by_uri(client, conversations[1])["a.txt"]["state"] == "conflict"
    client.request("changes/discard", of(conversations[1]))
    assert pending_by_uri(client, conversations[1]) == {}
    world.script(view("a.txt"), say("I see."))
    world.send(client, conversations[1], "look")
    world.turn(client, nth=3)
    assert "first" in content_of(items(client, "toolCall")[-1])


def test_one_file_or_one_change_lands_around_what_the_user_typed_meanwhile(world: World) -> None:
    project_of(world)
    command = "sed -i 's/^2$/two/; s/^10$/ten/; s/^19$/nineteen/' long.txt; echo x > b.txt"
    world.script(call("terminal", command=command), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS, isolated=True)
    world.turn(client)
    long = world.project / "long.txt"
    long.write_text(long.read_text().replace("5\n", "five\n", 1))
    uri = long.as_uri()
    hunks = client.request("changes/diff", of(conversation, uri=uri))["hunks"]
    assert len(hunks) == 3
    hunk_params = {**hunks[1], "uri": uri}
    assert client.request("changes/apply", of(conversation, hunks=[hunk_params]))["done"] == [uri]
    lines = long.read_text().split("\n")
    assert (lines[1], lines[4], lines[9], lines[18]) == ("2", "five", "ten", "19")
    diff = client.request("changes/diff", of(conversation, uri=uri))["hunks"]
    assert len(diff) == 2
    refused_hunk = {**diff[0], "uri": uri}
    client.request("changes/discard", of(conversation, hunks=[refused_hunk]))
    client.request("changes/apply", of(conversation, uris=[uri]))
    lines = long.read_text().split("\n")
    assert (lines[1], lines[4], lines[9], lines[18]) == ("2", "five", "ten", "nineteen")
    assert [*pending_by_uri(client, conversation)] == ["b.txt"]
    assert not (world.project / "b.txt").exists()


def test_the_layer_outlives_a_killed_daemon_and_goes_with_the_conversation(world: World) -> None:
    project_of(world)
    before = files_of(world)
    world.script(call("terminal", command="echo two >> a.txt; sleep 300 &"), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS, isolated=True)
    world.turn(client)
    os.kill(client.process.pid, signal.SIGKILL)
    client.process.wait()
    world.script(view("a.txt"), call("terminal", command="cat a.txt"), say("Still there."))
    again = world.daemon(settings=VIEW)
    open_result = again.request("conversation/open", of(conversation))["conversation"]
    assert open_result["isolated"] == "overlay"
    (world.project / "a.txt").write_text("zero\none\n")
    assert [*pending_by_uri(again, conversation)] == ["a.txt"]
    world.send(again, conversation, "go on")
    world.turn(again)
    assert content_of(items(again, "command")[0]).startswith("one\ntwo\n")
    [kept_folder] = (world.home / "state/views").glob("kept-*")
    again.request("changes/apply", of(conversation))
    assert files_of(world) == {**before, "a.txt": "zero\none\ntwo\n"}
    again.request("conversation/delete", of(conversation))
    assert not kept_folder.exists()


def test_the_unsaved_text_is_there_from_the_start_and_changes_of_it_land_in_the_buffer(
    world: World,
) -> None:
    project_of(world)
    world.script(
        view("a.txt"), call("terminal", command="sed -i s/typed/landed/ a.txt"), say("Done.")
    )
    editor = Editor(world, settings=VIEW)
    buffer = editor.open(world.project / "a.txt", "one\ntyped\n")
    conversation = world.start(editor.client, options=ASKS, isolated=True)
    world.turn(editor.client)
    assert "typed" in content_of(items(editor.client, "toolCall")[0])
    assert buffer.text == "one\ntyped\n"
    assert [*pending_by_uri(editor.client, conversation)] == ["a.txt"]
    editor.client.request("changes/apply", of(conversation))
    assert buffer.text == "one\nlanded\n"
    assert (world.project / "a.txt").read_text() == "one\n"
    assert pending_by_uri(editor.client, conversation) == {}


def test_what_is_protected_lands_only_by_name_and_a_link_leads_nowhere(world: World) -> None:
    project_of(world)
    victim = world.home / "victim"
    victim.mkdir()
    (victim / "x.txt").write_text("safe")
    command = (
        "mkdir .vscode && echo '{}' > .vscode/settings.json; git init -q inner; chmod +x a.txt;"
        f" ln -s {victim} out; printf '\\000' > x.bin"
    )
    world.script(
        call("terminal", command=command),
        call("edit", command="view", path="out/x.txt"),
        call("edit", command="create", path="out/y.txt", text="no"),
        call("edit", command="create", path=".github/workflows/ci.yml", text="on: push\n"),
        say("Done."),
    )
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options={"approval": "askNever"}, isolated=True)
    world.turn(client)
    assert [path.name for path in victim.iterdir()] == ["x.txt"]
    assert not any("safe" in content_of(item) for item in items(client, "toolCall"))
    changes = client.request("changes/list", of(conversation))
    assert [each["repository"].rpartition("/")[2] for each in changes["git"]] == ["inner"]
    review_result = client.request("changes/apply", of(conversation))
    # What git did lands once no file waits.
    workflow, conflict, repository = review_result["conflicts"]
    assert workflow["uri"].endswith("/.github/workflows/ci.yml")
    assert conflict["uri"].endswith("/.vscode/settings.json")
    assert repository["uri"].endswith("/inner")
    assert os.access(world.project / "a.txt", os.X_OK)
    assert (world.project / "x.bin").read_bytes() == b"\0"
    uris = [workflow["uri"], conflict["uri"]]
    assert client.request("changes/apply", of(conversation, uris=uris))["done"] == uris
    assert (world.project / ".github/workflows/ci.yml").read_text() == "on: push\n"
    assert (world.project / ".vscode/settings.json").exists()
    client.request("changes/discard", of(conversation))
    assert client.request("changes/list", of(conversation)) == {"files": []}


def test_without_a_view_a_worktree_isolates_and_says_what_it_lacks(world: World) -> None:
    project_of(world)
    git(world.project, "init", "-qb", "main")
    git(world.project, "add", ".")
    git(world.project, "commit", "-qm", "first")
    (world.project / "a.txt").write_text("one\nuncommitted\n")
    before = files_of(world)
    world.script(
        view("a.txt"),
        edit("a.txt", "uncommitted", "edited"),
        call("terminal", command="cat a.txt; echo new > b.txt; rm c.txt"),
        call("grep", pattern="edited"),
        say("Done."),
    )
    client = world.daemon(settings={"sandbox": "off"})
    conversation = world.start(client, isolated=True)
    world.turn(client)
    [notice] = items(client, "notice")
    assert notice["title"].startswith("Isolated in a git worktree, branch oh/")
    assert content_of(items(client, "command")[0]).startswith("one\nedited\n")
    assert "1 matching line " in content_of(items(client, "toolCall")[-1])
    assert files_of(world) == before
    assert {*pending_by_uri(client, conversation)} == {"a.txt", "b.txt", "c.txt"}
    review_result = client.request("changes/apply", of(conversation, uris=[uri(world, "b.txt")]))
    assert review_result["done"] == [uri(world, "b.txt")]
    client.request("changes/discard", of(conversation, uris=[uri(world, "c.txt")]))
    assert client.request("changes/apply", of(conversation))["conflicts"] == []
    assert pending_by_uri(client, conversation) == {}
    assert files_of(world) == {**before, "a.txt": "one\nedited\n", "b.txt": "new\n"}
    client.request("conversation/delete", of(conversation))
    assert git(world.project, "worktree", "list").count("\n") == 1
    assert "oh/" not in git(world.project, "branch")


def test_where_nothing_can_isolate_the_start_is_refused_with_the_way_out(world: World) -> None:
    client = world.daemon(settings={"sandbox": "off"})
    problem = client.error("conversation/start", {"isolated": True})
    assert "for a git worktree each folder must be in a repository" in str(problem)


def shell(world: World, *words: str, **variables: str) -> Ran:
    env = environment(world.home, **{"OH_DAEMON_SANDBOX": "overlay", **variables})
    return end(start([SCRIPT, *words], world.project, env))


def test_the_users_shell_joins_the_view_while_it_runs_and_when_it_does_not(world: World) -> None:
    project_of(world)
    world.script(call("terminal", command="echo two >> a.txt; sleep 300 &"), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, options=ASKS, isolated=True)
    world.turn(client)
    command = "cat a.txt; echo $$; ls /proc | grep -c '^[0-9]*$'; echo three >> a.txt"
    shell_process = shell(world, "sandbox", "--join", conversation[:8], "--", "sh", "-c", command)
    assert (shell_process.code, shell_process.err) == (0, "")
    text, number, count = shell_process.out.rstrip("\n").rsplit("\n", 2)
    assert (text, int(number) < 100, int(count) < 15) == ("one\ntwo", True, True)
    assert (world.project / "a.txt").read_text() == "one\n"
    client.request("conversation/close", of(conversation))
    again = shell(world, "sandbox", "--join", conversation[:8], "--", "cat", "a.txt")
    assert (again.code, again.out) == (0, "one\ntwo\nthree\n")


def test_a_run_can_be_isolated_and_landed_from_the_command_line(world: World) -> None:
    project_of(world)
    command = "echo two >> a.txt; echo new > b.txt; rm c.txt"
    world.script(call("terminal", command=command), say("Done."))
    variables = {**world.environment, **PLAIN, "OH_DAEMON_SANDBOX": "overlay"}
    argv = [SCRIPT, "run", "go", "--isolated", "--ask", "never"]
    outcome = end(start(argv, world.project, environment(world.home, **variables)))
    assert outcome.code == 0
    assert "modify a.txt (+1 -0)" in outcome.err
    assert "nothing of this is in the folder yet; oh-daemon apply " in outcome.err
    assert (world.project / "a.txt").read_text() == "one\n"
    [log] = (world.project / ".openhands/conversations").iterdir()
    assert "add b.txt" in shell(world, "apply", log.name, "--dry-run").out
    assert shell(world, "apply", log.name, "a.txt").out == "applied: a.txt\n"
    assert shell(world, "apply", log.name, "c.txt", "--discard").out == "discarded: c.txt\n"
    off = shell(world, "apply", log.name, OH_DAEMON_SANDBOX="off")
    assert "there is none now (the setting `sandbox` is 'off'): what it changed waits" in off.err
    assert shell(world, "apply", log.name).out == "applied: b.txt\n"
    assert shell(world, "apply", log.name).out == ""
    assert {**files_of(world), "long.txt": ""} == {
        "a.txt": "one\ntwo\n",
        "b.txt": "new\n",
        "c.txt": "gone\n",
        "long.txt": "",
    }


def test_commits_land_once_no_file_waits_unless_the_branch_has_moved(world: World) -> None:
    project_of(world)
    git(world.project, "init", "-q")
    git(world.project, "symbolic-ref", "HEAD", "refs/heads/main")
    git(world.project, "config", "user.name", "Somebody")
    git(world.project, "config", "user.email", "somebody@example.org")
    git(world.project, "add", "a.txt", "c.txt", "long.txt")
    git(world.project, "commit", "-qm", "First")
    commit = "echo two >> a.txt; echo new > b.txt; git add *.txt; git commit -qm 'Fix it'"
    world.script(call("terminal", command=commit), say("Done."))
    client = world.daemon(settings=VIEW)
    conversation = world.start(client, isolated=True, options=ASKS)
    world.turn(client)
    [waits] = client.request("changes/list", of(conversation))["git"]
    assert waits["title"] == "commit on main: Fix it"
    everything = of(conversation, uris=[waits["repository"], uri(world, "a.txt")])
    review_result = client.request("changes/apply", everything)
    assert review_result["done"] == [uri(world, "a.txt")]
    assert review_result["conflicts"] == [
        {"uri": world.project.as_uri(), "reason": "b.txt is not applied"}
    ]
    review_result = client.request("changes/apply", of(conversation))
    assert review_result == {"done": [uri(world, "b.txt"), world.project.as_uri()], "conflicts": []}
    assert git(world.project, "log", "-2", "--format=%s") == "Fix it\nFirst\n"
    assert git(world.project, "status", "--porcelain", "a.txt", "b.txt") == ""
    assert client.request("changes/list", of(conversation)) == {"files": []}

    world.script(call("terminal", command="git commit -q --allow-empty -m Theirs"), say("Done."))
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    git(world.project, "commit", "-q", "--allow-empty", "-m", "Mine")
    [conflict] = client.request("changes/apply", of(conversation))["conflicts"]
    assert "main was moved by somebody else meanwhile" in conflict["reason"]
    assert git(world.project, "log", "-1", "--format=%s") == "Mine\n"
    client.request("changes/discard", of(conversation))
    assert client.request("changes/list", of(conversation)) == {"files": []}


def test_subfolder_of_a_repository_applies_commits_and_refuses_files_outside(world: World) -> None:
    main, folder = world.home / "main", world.home / "main/lib"
    folder.mkdir(parents=True)
    git(main, "init", "-qb", "main")
    for name, value in (("name", "Somebody"), ("email", "somebody@example.org")):
        git(main, "config", f"user.{name}", value)
    for place in (main, folder):
        (place / "a.txt").write_text("one\n")
    git(main, "add", ".")
    git(main, "commit", "-qm", "First")
    world.script(call("terminal", command="echo two >> a.txt; git commit -qam Two"), say("Done."))
    client = world.daemon(settings=VIEW, folders=[folder])
    client.request("workspace/setTrust", {"folder": folder.as_uri(), "trusted": "full"})
    conversation = world.start(client, isolated=True, options=ASKS)
    world.turn(client)
    assert client.request("changes/apply", of(conversation))["conflicts"] == []
    assert git(main, "log", "--format=%s") == "Two\nFirst\n"
    assert git(main, "status", "--porcelain") == ""
    reset = "git rm -q ../a.txt; echo three >> a.txt; git commit -qam Three"
    world.script(call("terminal", command=reset), say("Done."))
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    reasons = {*client.request("changes/list", of(conversation))["omitted"].values()}
    assert len(reasons) == 2
    assert all(f"open the repository's root, {main}, for that" in reason for reason in reasons)
    client.request("changes/discard", of(conversation))
    assert client.request("changes/list", of(conversation)) == {"files": []}
    assert git(main, "status", "--porcelain") == ""


def test_a_program_lands_what_it_wants(world: World) -> None:
    project_of(world)
    world.script(call("terminal", command="echo two >> a.txt; echo x > b.txt"), say("Done."))
    llm = LLM(model="openai/fake", base_url=world.llm.url, api_key=KEY)
    env = {**os.environ, "OH_DAEMON_HOME": str(world.home)}
    place = Workspace(world.project, env)
    with place, Conversation(Agent(llm=llm), place, is_isolated=True) as conversation:
        conversation.run("go")
        first, second = conversation.isolated_changes.list()
        assert "+two" in (first.patch or "")
        assert second.op == "add"
        assert (world.project / "a.txt").read_text() == "one\n"
        assert len(conversation.isolated_changes.apply(["a.txt"]).done) == 1
        assert len(conversation.isolated_changes.discard().done) == 1
        assert conversation.isolated_changes.list() == ()
    assert (world.project / "a.txt").read_text() == "one\ntwo\n"
    assert not (world.project / "b.txt").exists()


def test_a_program_is_isolated_in_a_worktree_where_there_is_no_view(world: World) -> None:
    project_of(world)
    git(world.project, "init", "-qb", "main")
    git(world.project, "add", ".")
    git(world.project, "commit", "-qm", "first")
    world.script(call("terminal", command="echo two >> a.txt"), say("Done."))
    llm = LLM(model="openai/fake", base_url=world.llm.url, api_key=KEY)
    env = {**os.environ, "OH_DAEMON_HOME": str(world.home)}
    place = Workspace(world.project, env, sandbox="off")
    with place, Conversation(Agent(llm=llm), place, is_isolated=True) as conversation:
        conversation.run("go")
        assert (world.project / "a.txt").read_text() == "one\n"
        conversation.isolated_changes.apply()
    assert (world.project / "a.txt").read_text() == "one\ntwo\n"
