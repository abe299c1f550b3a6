"""What the agent asks for is shown exactly, runs only when allowed, and outlives the daemon."""

import json

from fake_llm import call, calls, say
from neovim_workspace import Workspace

OTHER = {"command": "create", "path": "other.py", "text": "x = 1\n"}
DELETE = {"command": "python3 calc.py && rm -rf build", "security_risk": "medium"}


def test_an_approval_shows_exactly_what_would_happen_and_nothing_happens_before(
    workspace: Workspace,
) -> None:
    last = call("finish", message="As you wish.\n\n- `build` stays")
    workspace.script(call("edit", **OTHER), call("terminal", **DELETE), last)
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh make another file")
    editor.wait_for_event("ApprovalRequested")
    editor.wait_for_chat("? Allow: Create other.py")
    assert "```diff\n@@ -0,0 +1 @@\n+x = 1\n```" in editor.chat()
    editor.wait_for_status("waiting")
    assert editor.lua("return require('oh').status()") == "oh: waiting, 1 to allow"
    assert not (workspace.project / "other.py").exists()

    editor.command("Oh approve")
    approval_event = editor.wait_for_event("ApprovalRequested", nth=2)
    assert (workspace.project / "other.py").read_text("utf-8") == "x = 1\n"
    assert editor.lua("return vim.fn.bufexists('other.py')") == 0, "no hidden buffer is left"
    editor.wait_for_chat(f"```sh\n{DELETE['command']}\n```")
    assert approval_event["approval"]["subject"]["command"] == DELETE["command"]

    editor.command("Oh reject it deletes my build")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("\n\nAs you wish.\n\n- `build` stays")
    head = "⊘ Run python3 calc.py && rm -rf build"
    editor.wait_for_chat(f"{head}  rejected: it deletes my build\n\nAs you wish.")
    assert "it deletes my build" in workspace.prompts()


def test_several_are_allowed_at_once_but_for_what_has_a_high_risk(workspace: Workspace) -> None:
    files = [call("edit", command="create", path=f"{n}.py", text="x\n") for n in range(3)]
    danger = call("terminal", command="rm -rf build", security_risk="high")
    workspace.script(calls(*files), danger, say("Made."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh make them")
    editor.chat()
    editor.wait("select(2, _G.chat_text():gsub('%[ga%] allow all 3 once', '')) == 3")
    editor.focus("oh-chat")
    editor.type("ga")
    editor.wait_for_chat("? Allow: Run rm -rf build")
    assert "[ga]" not in editor.chat()
    editor.type("ga")
    editor.wait_for_message(
        "oh: what waits has a high risk, or is no single action; answer it itself"
    )
    assert sorted(p.name for p in workspace.project.glob("?.py")) == ["0.py", "1.py", "2.py"]
    editor.command("Oh approve")
    editor.wait_for_chat("Made.")


def test_no_key_allows_what_has_just_appeared(workspace: Workspace) -> None:
    workspace.script(
        call("edit", **OTHER),
        call("terminal", command="touch made", security_risk="medium"),
        say("Made."),
    )
    forever = {"inert_ms": 1_000_000_000}
    editor = workspace.start(chat=forever)
    editor.edit(workspace.file)
    editor.command("Oh make it")
    editor.wait_for_chat("[d] see it side by side")
    editor.focus("oh-chat")
    editor.type("a")
    editor.wait_for_message("asked just now")
    editor.command("messages clear")
    editor.type("d")
    editor.wait("vim.fn.tabpagenr('$') == 2 and vim.fn.getline(1) == 'x = 1'")
    editor.type("A")
    editor.wait_for_message("asked just now")
    assert not (workspace.project / "other.py").exists()
    editor.options(chat={"inert_ms": 0})
    editor.type("A")
    editor.wait_for_event("ApprovalRequested", nth=2)
    assert (workspace.project / "other.py").exists()

    # The delay does not apply to a typed command: whoever types it has read what it is about.
    editor.options(chat=forever)
    editor.command("Oh approve")
    editor.wait_for_chat("Made.")


def test_an_approval_outlives_a_killed_daemon(workspace: Workspace) -> None:
    workspace.script(
        call("terminal", command="touch made", security_risk="medium"),
        say("Made."),
        say("Nothing more."),
    )
    hook = {"hooks": [{"type": "command", "command": "echo a hook"}]}
    (workspace.project / ".openhands").mkdir()
    (workspace.project / ".openhands/hooks.json").write_text(
        json.dumps({"hooks": {"Stop": [hook]}})
    )
    editor = workspace.start(trust=None)
    editor.edit(workspace.file)
    editor.command("Oh make it")
    trust = editor.wait_for_event("ApprovalRequested")
    assert trust["approval"]["subject"]["kind"] == "trust", (
        "a folder nobody has judged is asked for"
    )
    editor.wait_for_chat("echo a hook")
    assert "hook, in .openhands/hooks.json:" in editor.chat()
    editor.command("Oh approve folder")
    before = editor.wait_for_event("ApprovalRequested", nth=2)["approval"]

    editor.daemon().kill()
    editor.wait_for_event("Exit")
    editor.wait_for_chat("waiting for `:Oh restart`")
    assert "the daemon ended (signal 9); `:Oh restart` goes on" in editor.messages()
    assert editor.lua("return require('oh').status()") == "oh: stopped, 1 to allow"
    editor.command("Oh approve")
    assert "`:Oh restart` first, then it is asked again" in editor.messages()

    editor.command("Oh restart")
    editor.wait_for_status("paused")
    editor.wait_for_chat("? Allow: Run touch made")
    [after] = editor.lua("return require('oh').conversation().approvals")
    assert (after["id"], after["digest"]) == (before["id"], before["digest"])
    assert not (workspace.project / "made").exists()
    editor.command("Oh approve")
    editor.wait_for_chat("Made.")
    editor.wait_for_status("idle")
    assert (workspace.project / "made").exists()

    # A message alone restarts the daemon too.
    editor.daemon().kill()
    editor.wait_for_event("Exit", nth=2)
    editor.command("Oh and now?")
    editor.wait_for_chat("Nothing more.")


def test_a_command_is_edited_before_it_is_allowed(workspace: Workspace) -> None:
    arguments = {"command": "touch wrong", "security_risk": "medium"}
    workspace.script(call("edit", **OTHER), call("terminal", **arguments), say("Made."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh make it")
    editor.wait_for_event("ApprovalRequested")
    editor.command("Oh edit")
    assert "`:Oh diff` shows an edit" in editor.messages()
    editor.command("Oh approve")
    editor.wait_for_chat("[c] edit it first")
    editor.focus("oh-chat")
    editor.type("c")
    assert editor.nvim.current.buffer[:] == ["touch wrong"]
    editor.focus("oh-chat")
    editor.command("Oh edit")
    assert editor.nvim.current.buffer[:] == ["touch wrong"], "the window that is there"
    editor.command("quit!")
    editor.wait("vim.bo.filetype == 'oh-chat'")
    height = "vim.api.nvim_win_get_height(require('oh.windows').window_of('oh-input'))"
    editor.wait(f"{height} == 6")
    assert not (workspace.project / "wrong").exists(), "leaving the buffer decides nothing"
    editor.command("windo resize 1")
    editor.set(lines=7)
    editor.command("Oh edit")
    assert "no room for the window" in editor.messages()
    editor.set(lines=30)
    editor.focus("oh-chat")
    editor.command("Oh edit")
    editor.type("ccecho 'to be\nsure' && touch right<Esc>")
    editor.command("write | wincmd t")
    editor.wait_for_event("TurnFinished")
    assert (workspace.project / "right").exists()
    assert editor.nvim.current.buffer.name == str(workspace.file), (
        "the cursor stays where the user is"
    )
    assert not (workspace.project / "wrong").exists()
    assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]
    editor.wait_for_chat("&& touch right")


def test_an_approval_outlives_the_editor_and_is_answered_in_the_next_one(
    workspace: Workspace,
) -> None:
    workspace.script(call("terminal", command="touch made", security_risk="medium"), say("Made."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh make it")
    before = editor.wait_for_event("ApprovalRequested")["approval"]
    editor.quit()

    editor = workspace.start()
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end")
    editor.command("Oh conversations")
    after = editor.wait_for_event("ApprovalRequested")["approval"]
    assert (after["id"], after["digest"]) == (before["id"], before["digest"])
    assert not (workspace.project / "made").exists()
    editor.command("Oh approve")
    editor.wait_for_chat("Made.")
    assert (workspace.project / "made").exists()


def test_what_a_sub_agent_asks_is_shown_and_answered_in_the_chat_of_its_parent(
    workspace: Workspace,
) -> None:
    task = {"task": "make it", "title": "Make the file", "agent": "general"}
    workspace.script(
        call("delegate", tasks=[task]),
        call("terminal", command="touch made", security_risk="medium"),
        say("It is there."),
        say("All done."),
    )
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh make it")
    editor.wait_for_event("ApprovalRequested")
    editor.wait_for_chat("```sh\ntouch made\n```")
    editor.command("Oh approve")
    editor.wait_for_chat("All done.")
    assert (workspace.project / "made").exists()
    assert "general: Make the file" in editor.chat()
    assert "touch made\n```" not in editor.chat(), "what is answered is asked no more"
