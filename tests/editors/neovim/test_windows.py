"""Windows come and go as the user likes; the chat goes on."""

import threading

from fake_llm import hold_step, say
from neovim_workspace import Workspace

# A floating window, like that of a plugin that shows messages.
_FLOAT = """
local buf = vim.api.nvim_create_buf(false, true)
vim.api.nvim_buf_set_name(buf, "float")
local place = { relative = "editor", row = 0, col = 0, width = 9, height = 1 }
vim.api.nvim_open_win(buf, false, place)
"""


def test_the_chat_survives_whatever_happens_to_its_windows(workspace: Workspace) -> None:
    workspace.script(*(say(f"Answer {number}.") for number in range(1, 7)))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh")
    assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]
    editor.command("wincmd t")
    editor.command("Oh one")
    editor.wait_for_chat("Answer 1.")

    editor.command("only")
    assert editor.windows() == ["calc.py"]
    editor.command("Oh two")
    editor.wait_for_chat("Answer 2.")
    assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]

    chat = editor.lua("return vim.api.nvim_win_get_buf(require('oh.windows').window_of('oh-chat'))")
    editor.command(f"bdelete! {chat}")
    editor.command("Oh three")
    editor.wait_for_chat("Answer 3.")
    assert "Answer 1." in editor.chat()

    editor.command("tabnew")
    editor.command("Oh four")
    editor.wait_for_chat("Answer 4.")
    assert [w for w in editor.windows() if w.startswith("oh")] == ["oh-chat", "oh-input"]
    editor.command("tabclose")

    # A file that is opened from the chat does not take over its window, and the last window can
    # still be left.
    editor.focus("oh-chat")
    assert not editor.lua("return (pcall(vim.cmd.edit, 'calc.py'))")
    editor.command("only")
    editor.lua(_FLOAT)
    editor.command("Oh toggle")
    assert editor.windows() == ["", "float"]
    editor.command("edit calc.py")
    editor.command("Oh five")
    editor.wait_for_chat("Answer 5.")
    assert editor.windows() == ["calc.py", "float", "oh-chat", "oh-input"]
    editor.command("Oh new")
    editor.command("Oh six")
    editor.wait_for_chat("Answer 6.")
    buffer_lua = "vim.api.nvim_win_get_buf(require('oh.windows').window_of('oh-chat'))"
    assert editor.lua(f"return vim.fn.bufname({buffer_lua})") == "oh://chat", "it does not count up"


def test_what_a_session_says_of_our_windows_is_dropped(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh")
    editor.command("mksession session.vim")
    editor.quit()
    editor = workspace.start()
    editor.command("source session.vim")
    assert editor.windows() == ["calc.py"]
    editor.command("Oh")
    assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]
    name = editor.lua(
        "return vim.fn.bufname(require('oh.input').buffer(...))", str(workspace.project)
    )
    assert name == "oh://message"


def test_the_windows_come_and_go_from_any_mode(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.set(statuscolumn="%l!", winhighlight="Normal:ErrorMsg")
    editor.lua("""
    vim.keymap.set({ "n", "i" }, "<F2>", "<Cmd>Oh<CR>")
    vim.keymap.set("n", "<F3>", function() vim.cmd.Oh() return "" end, { expr = true })
    """)
    editor.type("<F2>")
    assert editor.nvim.api.get_mode()["mode"] == "i"
    assert "!" not in editor.screen().splitlines()[1].split("│")[1], "only of the code"
    assert "message  Ctrl-S sends, Enter: new line" in editor.screen()
    editor.type("<Esc>")
    assert "message          Enter sends, g? helps" in editor.screen(), "as the keys of each mode"
    editor.options(keys={"input": {"send_insert": "<CR>", "send": False}})
    editor.type("i")
    assert " Enter sends\n" in editor.screen()
    editor.type("draft<F2>")
    assert (editor.windows(), editor.nvim.api.get_mode()["mode"]) == (["calc.py"], "n")
    editor.type("q:")
    editor.command("Oh toggle")
    assert "the command-line window" in editor.messages()
    # Neovim closes that window when it comes back to its own loop, which keys make it do.
    editor.type(":quit<CR>")
    assert editor.windows() == ["calc.py"]
    editor.type("<F3>")
    editor.wait("require('oh.windows').window_of('oh-input')")
    assert (editor.draft(), "E565" in editor.messages()) == (["draft"], False)
    editor.command("%bdelete!")
    assert editor.draft() == ["draft"], "what the user wrote outlives its buffer"


def test_on_a_tiny_screen_what_has_room_is_shown(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    for lines in range(3, 9):
        editor.set(lines=lines)
        editor.command("Oh")
        assert ("oh-input" in editor.windows()) == (lines > 4), lines
        editor.command("Oh")
        assert editor.windows() == ["calc.py"]
    messages = set(editor.messages().splitlines())
    assert messages == {'oh: there is no room for the window "message"; make the screen larger'}
    editor.set(lines=4)
    editor.command("Oh")
    editor.focus("oh-chat")
    editor.type("g?")
    assert "]]       next message" in editor.messages()


def test_the_input_keeps_its_height_when_another_window_closes(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh")
    heights = """
    local windows = require("oh.windows")
    return vim.tbl_map(function(filetype)
      return vim.api.nvim_win_get_height(windows.window_of(filetype))
    end, { "oh-chat", "oh-input" })
    """
    before = editor.lua(heights)
    # The plugin sets the height only after Neovim has given the room to other windows.
    set_height = "vim.deep_equal({ ... }, (function() " + heights + " end)())"
    for command in ("botright copen", "topleft help", "botright split"):
        editor.command(command)
        editor.command("close")
        editor.wait(set_height, *before)
    editor.lua("vim.api.nvim_win_set_height(require('oh.windows').window_of('oh-input'), 9)")
    heights_shown = editor.lua(heights)
    editor.command("botright 3split | close")
    editor.wait(set_height, *heights_shown)

    # In a column of its own, the input is as high as the other windows, and Neovim's command line
    # keeps its height.
    editor.focus("oh-input")
    editor.command("wincmd L")
    single_height = editor.lua(heights)
    editor.command("botright copen | cclose")
    # What the plugin does after the window has closed is done before this.
    editor.lua("vim.schedule(function() _G.is_done = true end)")
    editor.wait("_G.is_done")
    assert (editor.lua(heights), editor.nvim.options["cmdheight"]) == (single_height, 1)


def test_a_layout_plugin_puts_the_windows_where_it_likes(workspace: Workspace) -> None:
    workspace.script(say("One."), say("Two."))
    editor = workspace.start()
    editor.edit(workspace.file)
    # Places each window by file type, as soon as it shows the buffer.
    editor.lua("""
    vim.api.nvim_create_autocmd("BufWinEnter", { callback = function(args)
      local side = ({ ["oh-chat"] = "H", ["oh-input"] = "J" })[vim.bo[args.buf].filetype]
      vim.schedule(function()
        for _, win in ipairs(side and vim.fn.win_findbuf(args.buf) or {}) do
          vim.api.nvim_win_call(win, function() vim.cmd.wincmd(side) end)
        end
      end)
    end })
    """)
    column = "vim.api.nvim_win_get_position(require('oh.windows').window_of(...))[2]"
    for message, answer in (("one", "One."), ("two", "Two.")):
        editor.command(f"Oh {message}")
        editor.wait_for_chat(answer)
        assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]
        editor.wait(f"{column} == 0", "oh-chat")
        editor.command("botright copen | cclose")
        editor.wait_for_status("idle")
        editor.command("Oh toggle")
        assert editor.windows() == ["calc.py"]
    assert "Error" not in editor.messages()
    assert editor.nvim.options["cmdheight"] == 1


def test_the_chat_follows_its_end_only_where_the_cursor_is(workspace: Workspace) -> None:
    lines = "\n".join(f"line {number}" for number in range(60))
    gate = threading.Event()
    workspace.script(say(lines, n_chunks=10), hold_step(say(lines, n_chunks=10), gate))
    editor = workspace.start()
    editor.edit(workspace.file)
    where = """
    local win = require("oh.windows").window_of("oh-chat")
    local buf = vim.api.nvim_win_get_buf(win)
    return { vim.api.nvim_win_get_cursor(win)[1], vim.api.nvim_buf_line_count(buf) }
    """
    editor.command("Oh write")
    editor.wait_for_chat("line 59")
    editor.wait_for_status("idle")
    at, end = editor.lua(where)
    assert at == end
    go_up = "vim.api.nvim_win_set_cursor(require('oh.windows').window_of('oh-chat'), { 10, 0 })"
    editor.lua(go_up)
    editor.command("Oh again")
    editor.wait_for_chat("## You\n\nagain")
    at, end = editor.lua(where)
    assert at == end, "what is sent is seen"
    editor.lua(go_up)
    gate.set()
    editor.wait_for_event("TurnFinished", nth=2)
    editor.wait("select(2, _G.chat_text():gsub('line 59', '')) == 2")
    at, end = editor.lua(where)
    assert (at, end > 120) == (10, True)
