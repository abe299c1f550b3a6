"""A conversation as a Markdown file, for editors that only speak LSP."""

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_llm import call, error, hold_step, say, tool_results
from plain_editor import CLIENTS, PlainEditor
from world import World


def editor_of(world: World, name: str = "helix") -> PlainEditor:
    return PlainEditor(world.raw(), world.project, CLIENTS[name])


def test_a_chat_is_written_in_a_file_and_the_answer_streams_into_it(world: World) -> None:
    gate = threading.Event()
    words = "First.\n\nSecond 😀.\n\n## You\n\nnot the user"
    world.script(hold_step(say(words, n_chunks=8), gate, after=6))
    editor = editor_of(world)
    editor.run("ohDaemon.chat", "fix")
    path = world.project / ".openhands/chat/fix.md"
    assert editor.wait_for_shown() == path
    editor.type(path, "Hello 😀")
    clicked = editor.click(editor.actions(path)["Send to the agent"])
    editor.wait_for(path, "Second")
    # What the user types while the answer comes is the next draft, also amid an edit.
    editor.type(path, "And ")
    editor.before_edit = lambda: editor.type(path, "this? ") if len(editor.refusals) < 3 else None
    gate.set()
    text = editor.wait_for(path, "*completed")
    assert len(editor.refusals) == 3
    answer, _, ending = text.partition("*completed")
    assert answer == (
        f"<!-- conversation {clicked['conversationId']} -->\n\n## You\n\nHello 😀\n\n"
        "## Agent\n\nFirst.\n\nSecond 😀.\n\n\\## You\n\nnot the user\n\n"
    )
    assert ending.partition("*\n\n")[2].startswith("## You\n\nAnd this? this? this? ")


def test_a_chat_that_is_not_open_is_written_on_the_disk_and_is_nobody_s_context(
    world: World,
) -> None:
    subprocess.run(["git", "init", "-q", world.project], check=True)
    (world.project / "a.py").write_text("x = 1\n")
    world.script(
        call("view", path=".openhands/chat/fix.md"),
        call("grep", pattern="secret"),
        call("edit", command="create", path="b.py", text="y = 2\n"),
        say("Done."),
    )
    editor = editor_of(world)
    path = world.project / ".openhands/chat/fix.md"
    path.parent.mkdir(parents=True)
    path.write_text("## You\n\nsecret words\n")
    editor.choose = lambda asked: asked["actions"][0]["title"]
    # A repository may bring a chat; only who has opened or named it sends what is in there.
    params = {"command": "ohDaemon.sendChat"}
    assert "open a chat" in editor.client.error("workspace/executeCommand", params).message

    def send(_text: str) -> None:
        editor.run("ohDaemon.sendChat", "fix")
        editor.client.wait_for(lambda m: m.get("method") == "window/showMessage")
        wait_until(path, "*completed")

    # An editor that reads the file before the answer, and says so after it, gets all of it.
    editor.while_opening = send
    editor.open(path)
    text = editor.wait_for(path, "*completed")
    assert text == path.read_text()
    assert "- `view .openhands/chat/fix.md` — " in text
    assert "- [b.py](../../b.py) +1 −0\n" in text
    results = tool_results(world.llm.requests[-1].body)
    assert "closed to tools" in results[0]
    assert "fix.md" not in results[1]
    command = ["git", "-C", world.project, "status", "--porcelain", "-uall"]
    assert "chat" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wait_until(path: Path, words: str, reload: Callable[[str], None] = lambda _text: None) -> str:
    """Wait until the words are in the file; return its text. Each text there is reloaded once."""
    deadline, before = time.monotonic() + 60, ""
    while words not in before and time.monotonic() < deadline:
        if (text := path.read_text()) != before:
            before = text
            reload(text)
        threading.Event().wait(0.05)
    assert words in before
    return before


@pytest.mark.parametrize(
    ("name", "question"),
    [("helix", "closed"), ("vim-lsp", "unsupported"), ("kak-lsp", "Allow once")],
)
def test_a_task_with_an_approval_is_done_with_what_each_client_has(
    world: World, name: str, question: str
) -> None:
    """What older Helix and vim-lsp do with a message that has buttons; Kakoune has a menu."""
    world.script(
        call("edit", command="create", path="b.py", text="y = 2\n"),
        error(401, "no such key"),
    )
    editor = editor_of(world, name)
    editor.choose = lambda _asked: question if question != "closed" else None
    path = world.project / ".openhands/chat/fix.md"
    assert editor.run("ohDaemon.chat", "fix") == {"uri": path.as_uri()}
    if editor.shows_documents:
        editor.wait_for_shown()
    else:
        editor.client.wait_for(lambda m: str(path) in str(m.get("params")))
        editor.open(path)
    editor.type(path, "Go")
    if not editor.takes_edits:
        editor.save(path)

    def wait_for(words: str) -> str:
        if not editor.takes_edits:
            wait_until(path, words, lambda text: editor.put(path, text))
        return editor.wait_for(path, words)

    editor.click(editor.actions(path)["Send to the agent"])
    for kind in ("Trust /", "Create b.py"):
        wait_for(f"> **May it?** {kind}")
        answers = {t: a for t, a in editor.actions(path).items() if t.startswith("Trust this")}
        answers |= {t: a for t, a in editor.actions(path).items() if t.startswith("Allow once")}
        if kind in str(answers):
            [answer] = answers.values()
            editor.click(answer)
    text = wait_for("> **Error:** ")
    assert "- `Create b.py` — +1 −0" in text
    assert "no such key" in text
    assert (world.project / "b.py").read_text() == "y = 2\n"


def test_after_a_restart_the_last_conversation_opens_by_itself_and_asks_again(
    world: World,
) -> None:
    """Of an editor that cannot ask by message: what waits is in the file, and answered there."""
    world.script(say("Working on it."), call("terminal", command="touch made"), say("Made it."))
    editor = editor_of(world)
    editor.choose = lambda _asked: "unsupported"
    editor.run("ohDaemon.chat", "fix")
    path = editor.wait_for_shown()
    for words, answer in (("Hello", "Working on it."), ("Go on", "> **May it?** ")):
        editor.type(path, words)
        editor.run("ohDaemon.sendChat", {"uri": path.as_uri()})
        editor.wait_for(path, answer)
    editor.save(path)
    editor.client.kill()

    editor = editor_of(world)
    editor.choose = lambda _asked: "unsupported"
    editor.open(path)
    [approval] = editor.run("ohDaemon.approve")["pending"]
    assert approval["subject"]["kind"] == "trust"
    assert "change files there. Risk: " in path.read_text("utf-8")
    editor.click(editor.actions(path)[f"Trust this folder: {approval['title']}"])
    editor.wait_for(path, "> **May it?** Run touch made. ")
    editor.click(editor.actions(path)["Allow once: Run touch made"])
    text = editor.wait_for(path, "Made it.")
    assert (world.project / "made").exists()
    assert text.count("Working on it.") == 1
    assert text.count("## Agent") == 2
    assert text.endswith("## You\n\n")


@pytest.mark.parametrize(
    ("answer", "way"),
    [("Allow once", "message"), ("Allow once", "command"), ("red", "message")],
)
def test_answer_after_a_restart_carries_on_the_turn(world: World, answer: str, way: str) -> None:
    """No answer tells a plain client `needsResume`, so the daemon resumes the turn."""
    asking_call = (
        call("ask", question="Which color?", choices=["red", "blue"])
        if answer == "red"
        else call("edit", command="create", path="b.py", text="y = 2\n")
    )
    world.script(asking_call, say("Went on."))
    editor = editor_of(world)
    editor.choose = lambda request: "Trust this folder" if "Trust" in str(request) else None
    editor.run("ohDaemon.start", "go")
    editor.client.wait_for(lambda m: answer in str(m.get("params")))
    editor.client.kill()

    editor = editor_of(world)
    editor.choose = lambda _request: answer if way == "message" else None
    pending_approvals = editor.run("ohDaemon.approve")["pending"]
    if way == "command":
        [approval] = pending_approvals
        option_id = next(each["id"] for each in approval["options"] if each["label"] == answer)
        named_approval = {"approvalId": approval["id"], "digest": approval["digest"]}
        editor.run("ohDaemon.approve", {**named_approval, "optionId": option_id})
    editor.client.wait_for(lambda m: m.get("params", {}).get("message") == "Went on.")
    if answer == "red":
        assert tool_results(world.llm.requests[-1].body) == ["red"]
    else:
        assert (world.project / "b.py").read_text() == "y = 2\n"


def test_changes_are_kept_and_undone_by_hunk_where_they_are(world: World) -> None:
    source = world.project / "a.py"
    lines = [f"line {n}\n" for n in range(1, 31)]
    source.write_text("".join(lines))
    world.script(
        call("view", path="a.py"),
        call("edit", command="replace", path="a.py", old_text="line 3\n", new_text="line three\n"),
        call(
            "edit", command="replace", path="a.py", old_text="line 20\n", new_text="line twenty\n"
        ),
        say("Done."),
    )
    editor = editor_of(world)
    editor.choose = lambda asked: asked["actions"][0]["title"]
    editor.run("ohDaemon.start", "go")
    editor.client.wait_for(lambda m: m.get("method") == "window/showMessage")
    assert [each["state"] for each in editor.run("ohDaemon.review")["files"]] == ["pending"]
    # The review is in the chat, which the conversation did not have before, and begins here.
    assert editor.wait_for_shown() == source
    [chat] = (world.project / ".openhands/chat").glob("*.md")
    assert "+line three\n" in wait_until(chat, "```diff")
    # The user's own lines do not hide where the changes are.
    editor.put(source, "first\n" + editor.buffers[source])
    assert editor.problem_lines(source) == [2, 19]
    params = {"textDocument": {"uri": source.as_uri()}}
    lenses = editor.client.request("textDocument/codeLens", params)
    assert [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses] == [
        (3, "Keep"),
        (3, "Undo"),
        (20, "Keep"),
        (20, "Undo"),
    ]
    keep_command = lenses[0]["command"]
    editor.run("ohDaemon.keep", *keep_command["arguments"])
    # The daemon looks anew a moment after each change.
    deadline = time.monotonic() + 60
    while "Keep this change" in editor.actions(source, 3):
        assert time.monotonic() < deadline
    assert editor.actions(source, 20)["Undo this change"]["command"] == "ohDaemon.undo"
    editor.run("ohDaemon.undo")
    editor.client.wait_for(lambda m: "Undone: a.py" in str(m))
    text_kept = "".join(lines).replace("line 3\n", "line three\n")
    assert editor.buffers[source] == "first\n" + text_kept


def test_in_a_view_a_clean_buffer_is_edited_in_the_editor_which_cannot_save(world: World) -> None:
    """Commands see the edit although the file has not got it."""
    source = world.project / "a.py"
    source.write_text("x = 1\n")
    world.variables["OH_DAEMON_SANDBOX"] = "overlay"
    world.script(
        call("edit", command="view", path="a.py"),
        call("edit", command="replace", path="a.py", old_text="1", new_text="2"),
        call("terminal", command="cat a.py"),
        say("Done."),
    )
    editor = editor_of(world)
    editor.open(source)
    editor.choose = lambda asked: asked["actions"][0]["title"]
    editor.run("ohDaemon.start", "Make it two")
    editor.client.wait_for(lambda m: m.get("params", {}).get("message") == "Done.")
    [edit] = editor.edits
    assert source.as_uri() in str(edit["edit"])
    assert (editor.buffers[source], source.read_text()) == ("x = 2\n", "x = 1\n")
    assert tool_results(world.llm.requests[-1].body)[-1].startswith("x = 2\n")


@pytest.mark.parametrize("change_comes", ["late", "never"])
def test_edit_that_the_editor_applied_never_fails(world: World, change_comes: str) -> None:
    """The editor answers `applied: true`; its `didChange` comes after the turn or not at all."""
    source = world.project / "a.py"
    source.write_text("x = 1\n")
    edit_call = call("edit", command="replace", path="a.py", old_text="1", new_text="2")
    world.script(call("view", path="a.py"), edit_call, call("view", path="a.py"), say("Done."))
    editor = editor_of(world)
    editor.open(source)
    editor.type(source, "# unsaved\n")
    editor.choose = lambda request: request["actions"][0]["title"]
    editor.reports_edits = False
    editor.run("ohDaemon.start", "Make it two")
    editor.client.wait_for(lambda m: m.get("params", {}).get("message") == "Done.")
    assert len(editor.edits) == 1
    assert editor.buffers[source] == "x = 2\n# unsaved\n"
    _, edit_result, view_result = tool_results(world.llm.requests[-1].body)
    assert "has not sent" in edit_result
    assert "x = 2" in view_result
    if change_comes == "never":
        assert editor.run("ohDaemon.keep")["done"] == [source.as_uri()]
        return
    editor.reports_edits = True
    editor.type(source, "# more\n")
    assert editor.run("ohDaemon.undo")["done"] == [source.as_uri()]
    editor.wait_for(source, "x = 1\n# unsaved\n# more\n")


def test_changes_of_an_isolated_conversation_are_applied_and_discarded(world: World) -> None:
    world.variables["OH_DAEMON_SANDBOX"] = "overlay"
    world.script(call("terminal", command="echo 1 > a.txt; echo 2 > b.txt"), say("Done."))
    editor = editor_of(world)
    editor.choose = lambda question: question["actions"][0]["title"]
    content = [{"type": "text", "text": "Write both"}]
    editor.run("ohDaemon.start", {"content": content, "isolated": True})
    editor.client.wait_for(lambda m: m.get("params", {}).get("message") == "Done.")
    command = {"command": "ohDaemon.keep", "arguments": [{}]}
    error = editor.client.error("workspace/executeCommand", command)
    assert (error.code, "send changes/apply or changes/discard" in error.message) == (-31006, True)
    first, second = ((world.project / name).as_uri() for name in ("a.txt", "b.txt"))
    assert editor.run("ohDaemon.apply", first)["done"] == [first]
    assert editor.run("ohDaemon.discard", second)["done"] == [second]
    assert (world.project / "a.txt").read_text() == "1\n"
    assert not (world.project / "b.txt").exists()


def test_options_history_and_going_back_need_no_id_and_ask_for_what_they_lack(
    world: World,
) -> None:
    world.script(say("One."), say("Two."))
    editor = editor_of(world)
    editor.run("ohDaemon.start", "first words")
    editor.client.wait_for(lambda m: m.get("params", {}).get("message") == "One.")
    assert editor.run("ohDaemon.options", "plan")["options"][0]["value"] == "plan"
    editor.choose = lambda asked: "Mode: Edit freely" if "Mode: plan" in str(asked) else None
    editor.run("ohDaemon.options")
    # The conversation that began elsewhere gets a file with all that was.
    editor.run("ohDaemon.history")
    path = editor.wait_for_shown()
    assert path.stat().st_mode & 0o077 == 0
    text = editor.wait_for(path, "*completed")
    assert "## You said\n\n> first words\n\n## Agent\n\nOne.\n" in text
    editor.type(path, "second words")
    editor.run("ohDaemon.sendChat", {"uri": path.as_uri()})
    editor.wait_for(path, "Two.\n\n*completed")
    editor.choose = lambda asked: "Take back" if "second words" in asked["message"] else None
    editor.run("ohDaemon.rollback")
    editor.wait_for(path, "> **Taken back:** ")
    assert len(editor.run("ohDaemon.list")["conversations"]) == 1
    assert editor.run("ohDaemon.options")["options"][0]["value"] == "autoEdit"
