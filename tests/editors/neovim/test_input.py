"""The input: commands and mentions are completed, older messages come back."""

from pathlib import Path

from fake_llm import call, say
from neovim_workspace import Workspace


def test_commands_and_files_are_offered_while_a_message_is_written(workspace: Workspace) -> None:
    workspace.script(say("The sign was wrong."), say("Yes."), say("Released."))
    skill = Path(workspace.environment["HOME"], ".agents/skills/release/SKILL.md")
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: How we release\n---\nTag it first.\n")
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh")
    editor.wait("#vim.lsp.get_clients({ name = 'oh' }) == 1")
    words = "vim.tbl_map(function(i) return i.word end, vim.fn.complete_info({ 'items' }).items)"
    editor.type("/fi")
    editor.wait(f"vim.deep_equal({words}, {{ 'fix' }})")
    editor.type("<C-n> the sign in @ca")
    editor.wait(f"vim.deep_equal({words}, {{ 'calc.py' }})")
    editor.type("<Down>")
    assert editor.nvim.current.buffer[:] == ["/fix the sign in @calc.py"]
    editor.type("<C-s>")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("## You\n\n/fix the sign in @calc.py\n")
    assert "Find the cause before you change anything" in workspace.prompts()
    assert "calc.py" in workspace.prompts()

    # Text that only looks like a command is sent as a message.
    editor.type("<Esc>cc/tmp is full, /fix it<Esc><CR>")
    editor.wait_for_event("TurnFinished", nth=2)
    assert "/tmp is full, /fix it" in workspace.prompts()

    editor.type("<Esc>ccas in @rel")
    editor.wait(f"vim.deep_equal({words}, {{ 'release' }})")
    editor.type("<Down>")
    assert editor.nvim.current.buffer[:] == ["as in @release"]
    editor.type("<C-s>")
    editor.wait_for_event("TurnFinished", nth=3)
    assert "Tag it first." in workspace.prompts()


def test_older_messages_come_back_also_in_another_editor(workspace: Workspace) -> None:
    workspace.script(say("One."), say("Two."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh first message")
    editor.wait_for_chat("One.")
    editor.command("Oh")
    editor.command("Oh")
    editor.type("second message<Esc><CR>")
    editor.wait_for_chat("Two.")
    editor.wait_for_status("idle")
    editor.quit()

    editor = workspace.start()
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end")
    editor.command("Oh conversations")
    editor.wait_for_chat("Two.")
    editor.lua("require('oh.windows').focus_input()")
    editor.type("a draft<Up>")
    buffer = editor.nvim.current.buffer
    assert buffer[:] == ["second message"]
    editor.type("<Up>")
    assert buffer[:] == ["first message"]
    editor.type("<Up>")
    assert buffer[:] == ["first message"], "there is no older one"
    editor.type("<Down><Down>")
    assert buffer[:] == ["a draft"]


def test_an_earlier_conversation_is_mentioned_by_its_title(workspace: Workspace) -> None:
    workspace.script(say("Hello."), say("I have read it."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh greet the world")
    editor.wait_for_event("TurnFinished")
    editor.command("Oh new")
    editor.type("as in @gre")
    editor.wait("vim.tbl_count(vim.fn.complete_info({ 'items' }).items) > 0")
    editor.type("<C-n><C-y>, please<Esc><CR>")
    editor.wait_for_event("TurnFinished", nth=2)
    assert "as in @greet_the_world, please" in workspace.prompts()
    assert "oh-log:/" in workspace.prompts()


def test_a_sentence_that_begins_like_a_sub_command_is_a_message(workspace: Workspace) -> None:
    sentences = (
        "model the data as a tree",
        "mode of transport is a column",
        "approve only names in ASCII",
        "reject empty names",
        "answer in French",
        "queue the jobs",
        "fork the repository into two",
        "condense this function",
        "resume the work on the parser",
    )
    workspace.script(*(say(f"Answer {n}.") for n in range(len(sentences))))
    editor = workspace.start()
    editor.edit(workspace.file)
    for n, sentence in enumerate(sentences):
        editor.command(f"Oh {sentence}")
        editor.wait_for_chat(f"Answer {n}.")
        editor.wait_for_status("idle")
        assert sentence in workspace.prompts()
    assert "that was a message; `:Oh! resume {message}` is the sub-command" in editor.messages()

    workspace.script(call("ask", question="Which port?"), say("Thank you."))
    editor.command("Oh! send stop")
    editor.wait_for_event("InputRequested")
    assert "'stop'" in workspace.prompts()
    editor.command("Oh answer in French, 8080")
    editor.wait_for_chat("Thank you.")
    assert "answer in French, 8080" not in workspace.prompts(), "now it is the answer"
    assert "in French, 8080" in workspace.prompts()
