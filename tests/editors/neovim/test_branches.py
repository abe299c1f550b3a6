"""What the user does with a conversation as a whole, and what is shown beside it."""

import os
from pathlib import Path

import mcp_server
import pytest
from fake_llm import call, calls, first_user_text, say, script_by_key, with_usage
from mcp_world import browse, vault
from neovim_editor import Neovim
from neovim_workspace import Workspace

# Chooses the first entry that shows the next wanted text.
_CHOOSE_WANTED = """
_G.wanted = { ... }
vim.ui.select = function(items, options, choose)
  local wanted = table.remove(_G.wanted, 1)
  choose(vim.iter(items):find(function(item)
    local shown = options.format_item and options.format_item(item) or item
    return shown:find(wanted, 1, true)
  end))
end
"""


def cursor_on(editor: Neovim, text: str) -> None:
    """Put the cursor on the last line of the chat that shows this text."""
    editor.lua("""
    local win = require("oh.windows").window_of("oh-chat")
    vim.api.nvim_set_current_win(win)
    vim.fn.cursor(vim.fn.line("$"), 1)
    vim.fn.search(vim.fn.escape(..., "\\\\"), "bcW")
    """, text)  # fmt: skip


def test_a_conversation_branches_where_the_cursor_is_and_is_given_away_as_text(
    workspace: Workspace,
) -> None:
    workspace.script(say("It subtracts."), say("Bye."), say("It adds now."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh what is wrong?")
    editor.wait_for_event("TurnFinished")
    editor.command("Oh never mind")
    editor.wait_for_event("TurnFinished", nth=2)
    editor.wait_for_chat("Bye.")
    first = editor.lua("return require('oh').conversation().id")
    cursor_on(editor, "It subtracts.")
    editor.command("Oh! fork The other way")
    editor.wait("require('oh').conversation().title == 'The other way'")
    editor.wait_for_chat("It subtracts.")
    assert "never mind" not in editor.chat()
    editor.command("Oh mend it")
    editor.wait_for_chat("It adds now.")
    editor.wait_for_status("idle")
    texts = [
        str(m["content"])
        for m in workspace.llm.requests[-1].body["messages"]
        if m["role"] == "user"
    ]
    assert ["wrong" in texts[0], "mend it" in texts[-1], len(texts)] == [True, True, 2]
    assert editor.lua("return require('oh').conversation().id") != first

    editor.command("Oh export")
    editor.wait("vim.bo.filetype == 'markdown'")
    assert "It adds now." in "\n".join(editor.nvim.current.buffer[:])
    editor.command("tabclose")
    editor.lua("vim.ui.open = function(path) _G.opened = path end")
    editor.command("Oh export html")
    page = Path(editor.wait("_G.opened"))
    assert "It adds now." in page.read_text("utf-8")


def test_the_user_goes_back_to_before_a_message_and_the_files_too(workspace: Workspace) -> None:
    was, notes, gate = (
        workspace.file.read_text("utf-8"),
        workspace.project / "notes.txt",
        workspace.project.parent / "gate",
    )
    notes.write_text("one\n", "utf-8")
    os.mkfifo(gate)
    workspace.script(
        say("Hello."),
        call("edit", command="view", path="calc.py"),
        call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b"),
        call("terminal", command=f"touch begun; cat '{gate}'; echo agent >> notes.txt"),
        say("Mended."),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh hello")
    editor.wait_for_event("TurnFinished")
    editor.command("Oh mend it")
    editor.wait("vim.uv.fs_stat(...)", str(workspace.project / "begun"))
    with gate.open("w"):  # The gate opens when the command does, and lets it go on.
        editor.edit(notes)
        editor.nvim.current.buffer[:] = ["mine"]
        editor.command("write")
        # Once it answers, the daemon has heard of the change.
        ask = "request_sync('daemon/status', vim.empty_dict(), 30000)"
        assert editor.lua(f"return vim.lsp.get_clients({{ name = 'oh' }})[1]:{ask}")["result"]
    editor.wait_for_chat("Mended.")
    editor.wait_for_status("idle")
    assert notes.read_text("utf-8") == "mine\nagent\n"
    editor.lua(_CHOOSE_WANTED, "files too")
    editor.command("Oh rollback")
    editor.wait_for_message("files go back")
    assert "Hello." in editor.chat()
    editor.wait("not _G.chat_text():find('Mended.', 1, true)")
    assert workspace.file.read_text("utf-8") == was
    assert notes.read_text("utf-8") == "mine\n", "what the user saved meanwhile is theirs"
    assert not (workspace.project / "begun").exists()
    assert editor.draft() == ["mend it "]


def test_files_go_back_to_a_moment_that_is_chosen_around_what_the_user_changed(
    workspace: Workspace,
) -> None:
    was = workspace.file.read_text("utf-8")
    workspace.script(
        call("edit", command="view", path="calc.py"),
        call("edit", command="create", path="other.py", text="x = 1\n"),
        call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b"),
        say("Mended."),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh mend it")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_status("idle")
    other_file = workspace.project / "other.py"
    other_file.write_text("x = 'mine'\n", "utf-8")
    editor.lua(_CHOOSE_WANTED, "Create other.py  1 file", "Leave the files")
    editor.lua("""
    local select = vim.ui.select
    vim.ui.select = function(items, options, choose)
      _G.prompt = options.prompt
      select(items, options, choose)
    end
    """)
    editor.command("Oh checkpoints")
    editor.wait("#_G.wanted == 0")
    prompt = editor.lua("return _G.prompt")
    assert 'Before "Create other.py": files go back: calc.py; left alone: other.py (' in prompt
    assert "a + b" in workspace.file.read_text("utf-8")

    editor.lua("_G.wanted = { ... }", "Edit calc.py  1 file", "Take it back")
    editor.lua("vim.cmd('messages clear')")
    editor.command("Oh checkpoints")
    editor.wait_for_message("files go back")
    assert workspace.file.read_text("utf-8") == was
    assert other_file.read_text("utf-8") == "x = 'mine'\n"
    assert "Mended." in editor.chat(), "the conversation goes on"


def test_a_sub_agents_conversation_is_shown_and_left_again(workspace: Workspace) -> None:
    task = {"task": "look around", "title": "Look", "agent": "explore"}
    steps = {
        "go": [calls(say("Sending one."), call("delegate", tasks=[task])), say("Thanks.")],
        "look": [say("A calculator.")],
    }
    workspace.llm.play(script_by_key(lambda request: first_user_text(request).split()[0], steps))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh go")
    editor.wait_for_chat("Thanks.")
    assert "✓ explore: Look" in editor.chat()
    editor.command("Oh agent")
    editor.wait_for_chat("look around")
    assert "A calculator." in editor.chat()
    assert "Thanks." not in editor.chat()
    editor.command("Oh agent")
    editor.wait_for_chat("Thanks.")


def test_a_question_beside_the_conversation_is_answered_and_leaves_no_trace(
    workspace: Workspace,
) -> None:
    workspace.script(say("Done."), say("Because of **the sign**."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh mend it")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("Done.")
    before = editor.chat()
    editor.command("Oh! ask why?")
    assert "the sign" in editor.wait_for_float()
    assert editor.chat() == before


def test_what_a_conversation_took_is_shown(workspace: Workspace) -> None:
    actual_usage = {"prompt_tokens_details": {"cached_tokens": 1500}}
    usage = {"prompt_tokens": 2000, "completion_tokens": 10, "total_tokens": 2010, **actual_usage}
    workspace.script(with_usage(say("Done."), usage))
    editor = workspace.start(settings={"llm": {"inputCostPerToken": 1e-5, "outputCostPerToken": 0}})
    editor.edit(workspace.file)
    editor.command("Oh go")
    editor.wait_for_event("TurnFinished")
    editor.command("Oh usage")
    heads, own, today, *_ = editor.wait_for_float().splitlines()
    assert heads.split() == ["tokens", "read", "cached", "written", "calls", "cost"]
    assert own.split()[2:] == ["2000", "75", "%", "10", "1", "$0.020"]
    assert today.split()[-1] == "$0.020"


def test_older_steps_are_condensed_when_the_user_says_so(workspace: Workspace) -> None:
    workspace.script(say("One."), say("Two."), say("The user counts."))
    editor = workspace.start()
    editor.edit(workspace.file)
    for n, words in enumerate(("first", "second"), start=1):
        editor.command(f"Oh {words}")
        editor.wait_for_event("TurnFinished", nth=n)
    editor.command("Oh! condense the numbers")
    editor.wait_for_chat("✓ Summarized what came before")
    editor.command("Oh! condense")
    editor.wait_for_chat("✓ Kept what came before")
    assert " 0 tokens" not in editor.chat()
    assert "The user counts." in editor.chat()
    assert "the numbers" in workspace.prompts()


@pytest.mark.full
def test_mcp_servers_are_looked_at_turned_off_and_on_and_signed_in_to(workspace: Workspace) -> None:
    workspace.script(say("Hello."))
    with vault() as far:
        servers = {"shop": mcp_server.settings(), "vault": far}
        editor = workspace.start(settings={"mcpServers": servers})
        editor.edit(workspace.file)
        editor.command("Oh hello")
        editor.wait_for_event("TurnFinished")
        editor.lua(_CHOOSE_WANTED, "shop", "Show its tools")
        editor.command("Oh servers")
        editor.wait_for_message("shop__price")
        for action, status in (("Turn it off", "disabled"), ("Turn it on", "starting")):
            editor.lua(_CHOOSE_WANTED, "shop", action)
            editor.command("Oh servers")
            editor.wait_for_message(f"shop  · {status}")
        editor.lua("vim.ui.open = function(path) _G.opened = path end")
        editor.lua(_CHOOSE_WANTED, "vault", "Sign in with the browser")
        editor.command("Oh servers")
        editor.wait_for_message("vault  · authRequired")
        assert "go back to where you came from" in browse(editor.lua("return _G.opened"))
