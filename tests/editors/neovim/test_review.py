"""The diff tab shows changes side by side; from there they are kept, reverted or allowed."""

from typing import Any

from fake_llm import Step, call, say
from neovim_editor import Neovim
from neovim_workspace import Workspace

LINES = [f"line {n}" for n in range(30)]
OTHER = {"command": "create", "path": "other.py", "text": "x = 1\n"}
# For each window of the tab: its bar, and its lines without those that only pad it.
_TAB = """
return vim.tbl_map(function(win)
  local bar = vim.api.nvim_eval_statusline(vim.wo[win].winbar, { winid = win, maxwidth = 80 }).str
  return { vim.trim(bar), vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false) }
end, vim.api.nvim_tabpage_list_wins(0))
"""


def _edit(*numbers: int) -> Step:
    edits = [{"old_text": f"line {n}\n", "new_text": f"agent {n}\n"} for n in numbers]
    return call("edit", command="replace", path="notes.txt", edits=edits)


def _patch(*numbers: int, more: tuple[str, ...] = ()) -> Step:
    changes = (each for n in numbers for each in ("@@", f"-line {n}", f"+agent {n}"))
    lines = ("*** Begin Patch", "*** Update File: notes.txt", *changes, *more, "*** End Patch")
    return call("apply_patch", input="\n".join(lines))


def _lines(**new_text: str) -> list[str]:
    return [new_text.get(f"l{n}", line) for n, line in enumerate(LINES)]


def _after_a_turn(workspace: Workspace, *steps: Step) -> tuple[Neovim, Any]:
    """Return an editor in which the agent has edited an open file, and the buffer of that file."""
    path = workspace.project / "notes.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    workspace.script(call("edit", command="view", path="notes.txt"), *steps, say("Done."))
    editor = workspace.start(settings={"mode": "autoEdit"})
    buffer = editor.edit(path)
    editor.command("Oh rename some lines")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_status("idle")
    return editor, buffer


def _wait_for_list(editor: Neovim, *rows: str) -> None:
    """Wait until the list of the tab has these rows, with runs of spaces reduced to one."""
    editor.wait(
        """(function(...)
          local win = vim.api.nvim_tabpage_list_wins(0)[1]
          local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false)
          return vim.deep_equal({ ... }, vim.tbl_map(function(line)
            return vim.trim((line:gsub("%s+", " ")))
          end, lines))
        end)(...)""",
        *rows,
    )


def test_hunks_and_files_are_kept_or_taken_back_around_the_users_own_changes(
    workspace: Workspace,
) -> None:
    editor, buffer = _after_a_turn(workspace, _edit(2, 12, 22), call("edit", **OTHER))
    editor.wait_for_chat(
        "\nDone.\n\n> Changed: notes.txt +3 -3, other.py +1 -0; `:Oh diff` reviews."
    )
    buffer[7] = "typed by the user"
    before_review = buffer[:]
    editor.command("Oh diff")
    _wait_for_list(editor, "● notes.txt +3 -3 to review", "● other.py +1 -0 to review")
    files, before, after = editor.lua(_TAB)
    assert files[0].startswith("2 to review")
    assert "a/r keep/undo  A/R the file" in files[0]
    assert before[1] == LINES
    assert after[1] == _lines(l2="agent 2", l12="agent 12", l22="agent 22")

    # The second change is reverted in one undo step of the buffer, and the user's line stays.
    editor.type("]cr")
    _wait_for_list(editor, "● notes.txt +2 -2 to review", "● other.py +1 -0 to review")
    assert buffer[12] == "line 12"
    assert (buffer[2], buffer[7], buffer[22]) == ("agent 2", "typed by the user", "agent 22")
    editor.lua("vim.api.nvim_buf_call(..., function() vim.cmd('silent undo') end)", buffer.number)
    assert buffer[:] == before_review
    editor.lua("vim.api.nvim_buf_call(..., function() vim.cmd('silent redo') end)", buffer.number)

    # The first change is kept. Then the user overwrites the last one, so it cannot be reverted.
    editor.type("gga")
    assert "no change under the cursor" in editor.messages()
    editor.type("]ca")
    _wait_for_list(editor, "● notes.txt +1 -1 to review", "● other.py +1 -0 to review")
    buffer[22] = "the user knows better"
    editor.type("]cr")
    editor.wait_for_message("stays as it is")
    assert "notes.txt stays as it is: the same lines were changed since" in editor.messages()
    assert buffer[22] == "the user knows better"

    editor.type("A")
    _wait_for_list(editor, "● other.py +1 -0 to review", "✓ notes.txt +0 -0 kept")
    editor.wait("vim.fn.getline(1) == 'x = 1'")
    editor.type("R")
    _wait_for_list(editor, "✓ notes.txt +0 -0 kept", "⊘ other.py +0 -0 undone")
    assert not (workspace.project / "other.py").exists()
    editor.wait(
        "vim.wo[vim.api.nvim_tabpage_list_wins(0)[1]].winbar:find('everything is reviewed')"
    )
    editor.command("tabonly")
    editor.type("q")
    window_options = editor.lua("return { vim.bo.filetype, vim.wo.winfixbuf, vim.wo.winfixheight }")
    assert window_options == ["text", False, False], "the last window is the user's"
    assert (buffer[2], buffer[7]) == ("agent 2", "typed by the user")
    windows_lua = (
        "#vim.tbl_filter(function(b) return vim.bo[b].filetype == 'oh-review' end, ...) == 0"
    )
    assert editor.lua(f"return {windows_lua}", editor.lua("return vim.api.nvim_list_bufs()"))


def test_an_edit_is_seen_side_by_side_before_it_is_written(workspace: Workspace) -> None:
    path = workspace.project / "notes.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    view = call("edit", command="view", path="notes.txt")
    workspace.script(view, _edit(3, 20), call("edit", **OTHER), say("As you wish."))
    editor = workspace.start()
    buffer = editor.edit(path)
    buffer[0] = "not saved"
    editor.command("Oh rename two lines")
    editor.wait_for_chat("[d] see it side by side")
    editor.focus("oh-chat")
    editor.type("d")
    _wait_for_list(editor, "? notes.txt +2 -2 to allow")
    files, before, after = editor.lua(_TAB)
    editor.type("g?")
    assert editor.wait_for_float().splitlines()[:3] == [
        "a        allow the change under the cursor",
        "r        reject the change under the cursor",
        "A        allow the file",
    ]
    editor.type("q")
    assert editor.lua(_TAB)[0] == files, "it closes the help, which has the focus, and not the tab"
    assert "1 to allow" in files[0]
    assert "a/r allow/reject  A/R the file" in files[0]
    assert before[1] == buffer[:] == _lines(l0="not saved")
    assert after[1] == _lines(l0="not saved", l3="agent 3", l20="agent 20")

    # One change is left out of the edit and taken in again, then the other one is left out.
    editor.type("]c[cr")
    assert editor.lua(_TAB)[2][1] == _lines(l0="not saved", l20="agent 20")
    assert "1 of 2 changes left out" in editor.lua(_TAB)[2][0]
    editor.wait_for_chat("[d] see it side by side (1 of 2 changes left out)")
    editor.type("a]cr")
    _wait_for_list(editor, "? other.py +1 -0 to allow", "● notes.txt +1 -1 to review")
    assert buffer[:] == _lines(l0="not saved", l3="agent 3")
    assert path.read_text("utf-8") == "\n".join(LINES) + "\n"
    editor.lua("vim.ui.input = function(_, answer) answer('no other file, please') end")
    # The tab shows the other file by itself if both have come into the list at once.
    editor.lua("if vim.fn.getline(1) ~= 'x = 1' then vim.api.nvim_input('[f') end")
    editor.wait("vim.fn.getline(1) == 'x = 1'")
    editor.type("R")
    editor.wait_for_event("TurnFinished")
    _wait_for_list(editor, "● notes.txt +1 -1 to review")
    editor.wait_for_chat("✓ Edit notes.txt  1 of 2 left out · +1 -1 · unsaved")
    assert "The user left this out of your edit" in workspace.prompts()
    assert "-line 20\\n+agent 20" in workspace.prompts()
    assert "no other file, please" in workspace.prompts()
    assert not (workspace.project / "other.py").exists()


def test_an_edit_that_no_longer_fits_is_shown_as_the_diff_has_it_and_refused(
    workspace: Workspace,
) -> None:
    path = workspace.project / "notes.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    workspace.script(call("edit", command="view", path="notes.txt"), _edit(3, 20), say("I see."))
    editor = workspace.start()
    buffer = editor.edit(path)
    editor.command("Oh rename a line")
    editor.wait_for_event("ApprovalRequested")
    buffer[3] = "the user was faster"
    editor.command("Oh diff")
    _wait_for_list(editor, "? notes.txt +2 -2 to allow")
    files, before, after = editor.lua(_TAB)
    assert "A/R" not in files[0], "it is decided as a whole"
    assert after[0].endswith("only the lines of the diff")
    assert before[1] == LINES[:7] + LINES[17:24]
    assert after[1] == (_lines(l3="agent 3")[:7] + _lines(l20="agent 20")[17:24])
    editor.type("a")
    editor.wait_for_event("TurnFinished")
    assert buffer[:] == _lines(l3="the user was faster")
    assert "it changed since you read it" in workspace.prompts()


def test_rejecting_all_changes_of_a_patch_rejects_it_and_of_files_some_are_left_out(
    workspace: Workspace,
) -> None:
    path = workspace.project / "notes.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    two, three = _patch(3, 20), _patch(3, 20, more=("*** Add File: other.py", "+x = 1"))
    workspace.script(call("edit", command="view", path="notes.txt"), two, three, say("I see."))
    editor = workspace.start(settings={"llm": {"editsByPatch": True}})
    buffer = editor.edit(path)
    editor.command("Oh rename two lines")
    editor.wait_for_event("ApprovalRequested")
    editor.command("Oh diff")
    _wait_for_list(editor, "? notes.txt +2 -2 to allow")
    editor.lua("vim.ui.input = function(_, answer) _G.answer = answer end")
    editor.type("r]cr")
    editor.wait("_G.answer ~= nil")
    editor.type("A")
    assert "every change of it is left out" in editor.messages()
    assert path.read_text("utf-8") == "\n".join(LINES) + "\n"
    editor.lua("_G.answer('not here')")

    # The next patch has one more file; the choice in one file stays while the other is shown.
    _wait_for_list(editor, "? notes.txt +2 -2 to allow", "? other.py +1 -0 to allow")
    assert "The user rejected this: not here" in workspace.prompts()
    assert path.read_text("utf-8") == "\n".join(LINES) + "\n"
    editor.type("]cr]f")
    editor.wait("vim.fn.getline(1) == 'x = 1'")
    editor.type("r")
    editor.wait("vim.fn.getline(1) ~= 'x = 1'")
    editor.type("[f")
    editor.wait("vim.fn.getline(4) == 'agent 3'")
    assert "2 of 3 changes left out" in editor.lua(_TAB)[2][0]
    editor.type("A")
    editor.wait_for_event("TurnFinished")
    assert buffer[:] == _lines(l3="agent 3")
    assert not (workspace.project / "other.py").exists()
    assert "-line 20\\n+agent 20" in workspace.prompts()
    assert "+x = 1" in workspace.prompts()
    editor.wait_for_chat("2 of 3 left out")


def test_the_changed_places_go_to_the_quickfix_list(workspace: Workspace) -> None:
    editor, _ = _after_a_turn(workspace, _edit(2, 22), call("edit", **OTHER))
    editor.command("Oh changes")
    editor.wait("#vim.fn.getqflist() == 3")
    places = editor.lua("""
    return vim.tbl_map(function(item)
      return { vim.fn.bufname(item.bufnr), item.lnum, item.text }
    end, vim.fn.getqflist())
    """)
    assert places == [
        ["notes.txt", 3, "+1 -1  agent 2"],
        ["notes.txt", 23, "+1 -1  agent 22"],
        ["other.py", 1, "+1 -0  x = 1"],
    ]
    editor.command("Oh diff")
    _wait_for_list(editor, "● notes.txt +2 -2 to review", "● other.py +1 -0 to review")
    editor.type("]cgf")
    editor.wait("vim.fn.expand('%:t') == 'notes.txt'")
    assert editor.nvim.current.window.cursor[0] == 23


def test_an_older_answer_does_not_take_the_place_of_a_newer_one(workspace: Workspace) -> None:
    editor, _ = _after_a_turn(workspace, _edit(2), call("edit", **OTHER))
    editor.command("Oh diff")
    _wait_for_list(editor, "● notes.txt +1 -1 to review", "● other.py +1 -0 to review")
    editor.delay("changes/list")
    editor.lua("""
    local data = { conversation = require("oh").conversation().id }
    data.event = { type = "changes.reviewed" }
    vim.api.nvim_exec_autocmds("User", { pattern = "OhEvent", data = data })
    """)
    editor.wait("_G.arrive ~= nil")
    editor.type("A")
    rows = ("● other.py +1 -0 to review", "✓ notes.txt +0 -0 kept")
    _wait_for_list(editor, *rows)
    editor.lua("_G.arrive()")
    # Whatever the plugin asked because of it has been answered once this is.
    editor.command("Oh changes")
    editor.wait("#vim.fn.getqflist() == 1")
    _wait_for_list(editor, *rows)


# Every mark of ours in this buffer: its first and last row, the colour, the virtual lines and text.
_MARKS = """
local found = {}
for name, space in pairs(vim.api.nvim_get_namespaces()) do
  if vim.startswith(name, "oh.inline.") then
    local marks = vim.api.nvim_buf_get_extmarks(..., space, 0, -1, { details = true })
    for _, mark in ipairs(marks) do
      local how = mark[4]
      local lines = vim.tbl_map(function(line) return line[1][1] end, how.virt_lines or {})
      local said = how.virt_text and how.virt_text[1][1] or ""
      table.insert(found, { mark[2], how.end_row or -1, how.hl_group or "", lines, said })
    end
  end
end
return found
"""
_PLUGS = """
local plugs = { ["]h"] = "next-change", ["[h"] = "previous-change", gk = "keep", gu = "undo" }
for key, name in pairs(plugs) do
  vim.keymap.set("n", key, ("<Plug>(oh-%s)"):format(name))
end
"""


def _wait_for_marks(editor: Neovim, buffer: Any, *marks: list[Any]) -> None:
    editor.wait(f"vim.deep_equal({{ ... }}, (function(...) {_MARKS} end)({buffer.number}))", *marks)


def test_what_the_agent_changed_is_seen_kept_and_undone_in_the_file_itself(
    workspace: Workspace,
) -> None:
    editor, buffer = _after_a_turn(workspace, _edit(2, 12, 22))
    editor.lua(_PLUGS)
    marks = [[n, n + 1, "OhInlineChange", [f"line {n}"], ""] for n in (2, 12, 22)]
    _wait_for_marks(editor, buffer, *marks)
    assert buffer[:] == _lines(l2="agent 2", l12="agent 12", l22="agent 22"), "and nothing else"
    assert editor.lua("return require('oh').status()") == "oh: idle, +3 -3 to review"
    assert editor.lua("return vim.b[...].oh_changes", buffer.number) == {
        "hunks": 3,
        "added": 3,
        "removed": 3,
    }
    editor.command("wincmd t")
    rows = [line.partition("│")[0].strip() for line in editor.screen().splitlines()]
    assert rows[1:5] == ["line 1", "line 2", "agent 2", "line 3"], "what was there is above"

    # The user types above; the marks move along, and each change is decided where it is.
    buffer.append("typed by the user", 5)
    editor.type("gg]h]h")
    assert editor.nvim.current.line == "agent 12"
    editor.type("gu")
    moved_marks = [[2, 3, *marks[0][2:]], [23, 24, *marks[2][2:]]]
    _wait_for_marks(editor, buffer, *moved_marks)
    assert (buffer[5], buffer[13], buffer[23]) == ("typed by the user", "line 12", "agent 22")
    editor.type("]hgk")
    _wait_for_marks(editor, buffer, moved_marks[0])
    editor.type("gu")
    assert "no change of the agent under the cursor" in editor.messages()
    editor.type("[hgk")
    _wait_for_marks(editor, buffer)
    assert editor.lua("return require('oh').status()") == "oh: idle"
    assert (buffer[2], buffer[13], buffer[23]) == ("agent 2", "line 12", "agent 22")


def test_an_edit_that_waits_is_seen_in_the_file_before_it_is_written(workspace: Workspace) -> None:
    path = workspace.project / "notes.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    workspace.script(
        call("edit", command="view", path="notes.txt"), _edit(3, 20), say("As you wish.")
    )
    editor = workspace.start()
    buffer = editor.edit(path)
    editor.lua(_PLUGS)
    editor.command("Oh rename two lines")
    three = [[3, -1, "", ["agent 3"], ""], [3, 4, "OhInlineDelete", [], "? to allow"]]
    twenty = [[20, -1, "", ["agent 20"], ""], [20, 21, "OhInlineDelete", [], "? to allow"]]
    _wait_for_marks(editor, buffer, *three, *twenty)
    assert buffer[:] == LINES, "nothing of it is in the buffer"
    editor.command("wincmd t")
    editor.type("gg]hgu")
    editor.wait_for_chat("(1 of 2 changes left out)")
    left_out = [3, 4, "", [], "⊘ left out"]
    _wait_for_marks(editor, buffer, left_out, *twenty)
    editor.type("]hgk")
    editor.wait_for_event("TurnFinished")
    assert buffer[:] == _lines(l20="agent 20")
    _wait_for_marks(editor, buffer, [20, 21, "OhInlineChange", ["line 20"], ""])
