"""An instruction for lines: the agent changes them in place, in a conversation of its own."""

import threading

from fake_llm import call, hold_step, say
from neovim_editor import Json, Neovim
from neovim_workspace import CODE, Workspace

VIEW = {"command": "view", "path": "calc.py"}
FIX = {"command": "replace", "path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
MORE = {"command": "replace", "path": "calc.py", "old_text": "a + b", "new_text": "b + a"}
OTHER = {"command": "create", "path": "other.py", "text": "x = 1\n"}
_MARKS = """
local space = vim.api.nvim_get_namespaces()["oh.edit"]
local marks = vim.api.nvim_buf_get_extmarks(0, space, 0, -1, { details = true })
return vim.tbl_map(function(mark)
  return { mark[2], mark[4].end_row, mark[4].virt_text[1][1] }
end, marks)
"""


def test_lines_are_changed_as_told_and_only_more_than_that_is_asked(workspace: Workspace) -> None:
    workspace.script(
        say("Hello."), call("edit", **VIEW), call("edit", **FIX), call("edit", **OTHER)
    )
    workspace.script(call("edit", **MORE), say("It adds\nnow."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh hello")
    editor.wait_for_chat("Hello.")
    editor.wait_for_status("idle")
    editor.command("1,3Oh edit make it add")
    [[first, last, mark_text]] = editor.lua(_MARKS)
    assert (first, last) == (0, 3)
    assert "`:Oh stop` ends it" in mark_text
    editor.wait(f"(function() {_MARKS} end)()[1][3]:find('the agent asks you', 1, true)")
    assert "a + b" in editor.nvim.current.buffer[2], "that was the instruction"
    assert not (workspace.project / "other.py").exists()
    assert "make it add" not in editor.chat(), "the chat shows another conversation"
    titles = [r["data"]["approval"]["title"] for r in _events(editor, "OhApprovalRequested")]
    assert titles == ["Edit calc.py", "Create other.py"]

    editor.command("Oh visit")
    editor.wait_for_chat("? Allow: Create other.py")
    assert "make it add" in editor.chat()
    editor.lua("require('oh').conversation():set_option('approval', 'askAlways')")
    editor.wait("require('oh').conversation().options.approval == 'askAlways'")
    editor.command("Oh approve")
    editor.wait_for_chat("? Allow: Edit calc.py")
    editor.command("Oh reject")
    editor.wait_for_message("oh: It adds now.")
    assert editor.lua(_MARKS) == []
    editor.wait("(vim.b.oh_changes or {}).hunks == 1")
    editor.command("3")
    editor.lua("require('oh.inline').decide('undo', false)")
    editor.wait("vim.fn.getline(3):find('a - b', 1, true)")

    workspace.script(call("edit", **FIX), say("Again."))
    editor.wait_for_status("idle")
    editor.command("Oh once more")
    editor.wait("#require('oh').conversation().approvals == 1")
    assert "a - b" in editor.nvim.current.buffer[2], "the next message is asked about as ever"


def test_an_instruction_is_asked_for_and_stopped_in_its_buffer(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(hold_step(say("Never mind."), gate))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.type("ggVj:Oh edit<CR>make it add<CR>")
    editor.wait(f"#(function() {_MARKS} end)() == 1")
    editor.wait_for_event("TurnStarted")
    workspace.llm.wait_for_requests(1)  # Otherwise the next turn might get this answer.
    editor.command("Oh stop")
    editor.wait_for_message("oh: stopped")
    gate.set()
    assert editor.lua(_MARKS) == []
    assert "\n".join(editor.nvim.current.buffer[:]) + "\n" == CODE
    assert editor.windows() == ["calc.py"], "no chat is needed"

    workspace.script(call("edit", **VIEW), call("edit", **FIX), say("It adds now."))
    editor.command("messages clear")
    editor.command("execute '1,3Oh edit make it add' | Oh stop")
    editor.wait_for_message("oh: stopped")
    assert editor.lua(_MARKS) == []
    assert "\n".join(editor.nvim.current.buffer[:]) + "\n" == CODE

    answer = "vim.ui.input = function(_, answer) _G.answer = answer end"
    editor.lua(f"{answer}; vim.cmd('3Oh edit'); vim.cmd('3,$delete')")
    editor.lua("_G.answer('make it add')")
    editor.wait_for_message("oh: the lines are gone")


def _events(editor: Neovim, name: str) -> list[Json]:
    return [event for event in editor.lua("return _G.events") if event["name"] == name]
