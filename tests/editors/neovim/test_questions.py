"""The agent asks, and waits for the answer: a choice, a text, a message, or none."""

from fake_llm import call, say
from neovim_workspace import Workspace

COLOR = {"question": "Which color?\nIt is for the button.", "choices": ["red", "blue"]}
PORT = {"question": "Which port?"}
# The last choice is to write an answer of one's own.
_CHOOSE = "vim.ui.select = function(items, _, choose) choose(items[{0}], {0}) end"
_WRITE = "vim.ui.input = function(_, answer) answer('8080') end"


def test_questions_are_shown_in_the_chat_and_answered_there(workspace: Workspace) -> None:
    workspace.script(
        call("ask", **COLOR),
        call("ask", **PORT),
        call("ask", **COLOR),
        call("ask", **PORT),
        say("Thank you."),
    )
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh paint the button")
    editor.wait_for_event("InputRequested")
    editor.wait_for_chat("? Which color?\nIt is for the button.\n- red\n- blue\n[a] answer")
    assert editor.nvim.current.buffer.name.endswith("calc.py"), "the cursor stays where it was"
    assert editor.lua("return require('oh').status()").endswith(", a question")
    editor.lua(_CHOOSE.format(2))
    editor.focus("oh-chat")
    editor.type("a")
    editor.wait_for_event("InputRequested", nth=2)
    assert "blue" in workspace.prompts()

    editor.command("Oh answer 8080, or 8081")
    editor.wait_for_event("InputRequested", nth=3)
    assert "8080, or 8081" in workspace.prompts()
    editor.lua(_CHOOSE.format(3))
    editor.lua(_WRITE)
    editor.command("Oh approve")
    editor.wait_for_event("InputRequested", nth=4)
    assert workspace.prompts().count("8080") == 2
    editor.type("r")
    editor.wait_for_chat("Thank you.")
    assert editor.wait_for_event("InputResolved", nth=4)["resolution"]["action"] == "decline"


def test_a_question_outlives_the_editor_and_a_message_answers_it(workspace: Workspace) -> None:
    workspace.script(call("ask", **PORT), say("So be it."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh serve it")
    editor.wait_for_event("InputRequested")
    editor.quit()

    editor = workspace.start()
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1], 1) end")
    editor.command("Oh conversations")
    editor.wait_for_chat("? Which port?")
    editor.command("Oh 8080, please")
    editor.wait_for_chat("So be it.")
    assert "8080, please" in workspace.prompts()


def test_a_prompt_closes_when_what_it_asks_about_is_decided_meanwhile(workspace: Workspace) -> None:
    workspace.script(
        call("ask", **COLOR),
        call("ask", **PORT),
        call("terminal", command="touch made", security_risk="medium"),
        say("Thank you."),
    )
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh serve it")
    editor.wait_for_chat("? Which color?")
    editor.focus("oh-chat")
    # A prompt of a plugin may be closed without an answer.
    editor.lua("_G.usual, vim.ui.select = vim.ui.select, function() end")
    editor.type("aa")
    editor.lua("vim.ui.select = _G.usual")
    kind, is_closed = "vim.fn.getcmdtype() == ...", "vim.fn.mode() == 'n'"
    editor.type("a")
    editor.wait(kind, "-")
    editor.command("Oh answer blue")
    editor.wait_for_chat("? Which port?")
    editor.wait(is_closed)

    editor.type("a80")
    editor.wait(kind, "@")
    editor.command("Oh answer 9090")
    editor.wait_for_event("ApprovalRequested")
    editor.wait(is_closed)
    assert editor.draft() == ["80 "], "what was being written is not lost"
    autocommands = editor.lua("return vim.api.nvim_get_autocmds({ pattern = 'OhInputResolved' })")
    assert autocommands == []

    editor.wait_for_chat("touch made")
    editor.type("r")
    editor.wait(kind, "@")
    editor.command("Oh approve")
    editor.wait_for_chat("Thank you.")
    editor.wait(is_closed)
    assert (workspace.project / "made").exists()
    assert "that was decided meanwhile" in editor.messages()
    editor.type(":Oh mode<CR>")
    editor.wait(kind, "-")
    editor.type("<C-c>")
    assert "Keyboard interrupt" not in editor.messages()


def test_a_question_is_told_where_no_chat_shows_it(workspace: Workspace) -> None:
    workspace.script(call("ask", **PORT), call("ask", question="Which port is " + "very " * 30))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh serve it")
    editor.command("Oh toggle")
    editor.wait_for_event("InputRequested")
    assert "oh: the agent asks: Which port? (`:Oh` shows it)" in editor.messages()
    editor.command("Oh answer 8080")
    editor.wait_for_event("InputRequested", nth=2)
    last_message = editor.messages().splitlines()[-1]
    assert last_message.endswith("very… (`:Oh` shows it)"), (
        "it fits a line, so no key has to be pressed"
    )
    assert len(last_message) < 90
