"""The keys of our own buffers, and the maps that users put on keys of their own."""

from fake_llm import call, say
from neovim_editor import Neovim
from neovim_workspace import Workspace


def _commands(*commands: str) -> list[dict[str, object]]:
    return [{"command": each, "security_risk": "medium", "timeout_s": 600} for each in commands]


def _line(editor: Neovim) -> str:
    return editor.lua("return vim.fn.getline(vim.fn.line('.') + 2)")


def _press_ctrl_c(editor: Neovim) -> None:
    """Press it as a typed key: as input it would interrupt a Neovim that is just busy."""
    editor.lua("vim.api.nvim_feedkeys(vim.keycode('<C-c>'), 'mt', false)")


def test_the_keys_of_the_chat_do_what_its_help_says(workspace: Workspace) -> None:
    first, again, sleep = _commands("seq 20000", "seq 20000", "echo begun; sleep 300")
    workspace.script(call("terminal", **first), say("One."), call("terminal", **again), say("Two."))
    workspace.script(call("terminal", **sleep))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh first")
    editor.wait_for_chat("[a] allow once  [A] longer")
    editor.focus("oh-chat")
    editor.lua("""
    vim.ui.select = function(items, options, choose)
      _G.offered = vim.tbl_map(options.format_item, items)
      choose(vim.iter(items):find(function(item) return item.scope == "conversation" end))
    end
    """)
    editor.type("A")
    editor.wait_for_event("TurnFinished")
    assert "Allow this command in this conversation" in editor.lua("return _G.offered")
    assert editor.wait_for_event("ApprovalResolved")["resolution"]["decision"] == {
        "effect": "allow",
        "scope": "conversation",
    }
    editor.wait_for_status("idle")
    editor.command("Oh second")
    editor.wait_for_chat("Two.")
    assert len(editor.lua("return require('oh').conversation().approvals")) == 0
    editor.wait_for_status("idle")

    editor.type("gg]]")
    assert (editor.nvim.current.line, _line(editor)) == ("## Oh", "✓ Run seq 20000  (3001 lines)")
    editor.type("]]")
    assert (editor.nvim.current.line, _line(editor)) == ("## You", "second")
    editor.type("[[[[")
    assert (editor.nvim.current.line, _line(editor)) == ("## You", "first")
    n_lines = "vim.fn.line('$')"
    assert editor.lua(f"return {n_lines}") < 60, "a long output is not in the buffer"
    editor.type("]]jjzo")
    editor.screen()
    editor.wait(f"{n_lines} > 3000 and vim.fn.foldclosed('.') < 0")
    assert editor.lua("return vim.fn.getline(vim.fn.line('.') + 2)") == "1", "until it is looked at"
    editor.type("gO")
    editor.wait("vim.fn.line('$') >= 20000")
    editor.command("tabclose")
    editor.type("g?")
    assert {"a        allow what is asked; answer", "]]       next message"} <= set(
        editor.wait_for_float().splitlines()
    )

    editor.type("<Esc>i")
    assert editor.nvim.api.get_mode()["mode"] == "i"
    assert editor.lua("return vim.bo.filetype") == "oh-input"
    editor.type("third<Esc><CR>")
    editor.wait_for_chat("? Allow: Run echo begun")
    editor.focus("oh-chat")
    editor.type("a")
    editor.wait_for_chat("```console\nbegun")
    _press_ctrl_c(editor)
    editor.wait_for_chat("> Interrupted.")
    editor.type("q")
    assert editor.windows() == ["calc.py"]


def test_the_keys_of_the_input_stop_hide_and_explain(workspace: Workspace) -> None:
    [sleep] = _commands("echo begun; sleep 300")
    workspace.script(call("terminal", **sleep))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh")
    editor.type("wait<C-s>")
    editor.wait_for_chat("```console\nbegun")
    editor.type("<Esc>")
    editor.wait("vim.fn.mode() == 'n'")
    _press_ctrl_c(editor)
    editor.wait_for_chat("> Interrupted.")
    editor.type("g?")
    assert "<Down>   newer message, on the last line" in editor.wait_for_float()
    editor.type("qq")
    editor.wait("#vim.api.nvim_tabpage_list_wins(0) == 1")
    assert editor.windows() == ["calc.py"]


def test_a_message_of_several_lines_is_sent_and_recalled_as_it_was_typed(
    workspace: Workspace,
) -> None:
    workspace.script(say("Both."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh")
    editor.type("the first line<CR>and the second<Esc><CR>")
    editor.wait_for_chat("## You\n\nthe first line\nand the second\n\n## Oh\n\nBoth.")
    assert "the first line\\nand the second" in workspace.prompts()
    assert editor.draft() == [""]
    editor.type("i<Up>")
    assert editor.draft() == ["the first line", "and the second"]
    editor.type("<Up>, longer<Down>!")
    assert editor.draft() == ["the first line, longer", "and the second!"]


def test_every_plug_map_does_what_its_command_does(workspace: Workspace) -> None:
    made_command, rejected_command, sleep = _commands(
        "touch made", "touch other", "echo begun; sleep 300"
    )
    create = {"command": "create", "path": "new.py", "text": "x = 1\n"}
    workspace.script(
        call("terminal", **made_command),
        call("terminal", **rejected_command),
        call("edit", **create),
    )
    workspace.script(say("Done."), call("terminal", **sleep))
    editor = workspace.start()
    editor.edit(workspace.file)
    names = ("approve", "reject", "diff", "stop", "conversations", "new")
    for number, name in enumerate(names, start=1):
        editor.command(f"map <F{number}> <Plug>(oh-{name})")
    editor.command("Oh make them")
    editor.wait_for_event("ApprovalRequested")
    editor.type("<F1>")
    editor.wait_for_event("ApprovalRequested", nth=2)
    assert (workspace.project / "made").exists()
    editor.type("<F2>")
    editor.wait_for_event("ApprovalRequested", nth=3)
    assert not (workspace.project / "other").exists()
    editor.type("<F3>")
    editor.wait("vim.fn.tabpagenr('$') == 2 and vim.fn.getline(1) == 'x = 1'")
    editor.type("A")
    editor.wait_for_chat("Done.")
    editor.type("q")
    editor.wait_for_status("idle")
    editor.command("Oh sleep")
    editor.wait_for_event("ApprovalRequested", nth=4)
    editor.type("<F1>")
    editor.wait_for_chat("```console\nbegun")
    editor.type("<F4>")
    editor.wait_for_chat("> Interrupted.")
    editor.lua("vim.ui.select = function(items) _G.listed = items end")
    editor.type("<F5>")
    editor.wait("_G.listed and _G.listed[1].title == 'make them'")
    editor.type("<F6>")
    editor.wait("require('oh').conversation() == nil")


def test_other_keys_are_used_and_named_and_keys_that_are_off_are_not_mapped(
    workspace: Workspace,
) -> None:
    [made_command] = _commands("touch made")
    workspace.script(call("terminal", **made_command), say("Made."))
    editor = workspace.start(keys={"chat": {"approve": "<F9>", "hide": False}})
    editor.edit(workspace.file)
    editor.command("Oh make it")
    editor.wait_for_chat("[<F9>] allow once")
    editor.focus("oh-chat")
    assert editor.lua("return { vim.fn.mapcheck('a', 'n'), vim.fn.mapcheck('q', 'n') }") == ["", ""]
    editor.type("<F9>")
    editor.wait_for_chat("Made.")
    assert (workspace.project / "made").exists()
