"""Long conversations: all of a long log is shown, and a fast stream arrives whole."""

import threading

import psutil
import pytest
from fake_llm import call, chunks, hold_step, say
from long_log import grow
from neovim_workspace import Workspace

N_EVENTS = 20_000


@pytest.mark.full
def test_twenty_thousand_events_are_shown_and_the_conversation_goes_on(
    workspace: Workspace,
) -> None:
    workspace.script(call("terminal", command="echo one; echo two"), say("Ready."))
    # Before the model is asked, its view of such a long log is summarized.
    workspace.script(say("A summary."), chunks(5000, "x "))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh begin")
    editor.wait_for_event("TurnFinished")
    processes = editor.processes()
    editor.quit()
    _, survivors = psutil.wait_procs(processes, timeout=60)
    assert survivors == []
    [log] = (workspace.project / ".openhands/conversations").glob("*/events.jsonl")
    grow(log, N_EVENTS)

    editor = workspace.start(settings={"approval": "askNever"}, chat={"folded": 0})
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end")
    editor.command("Oh conversations")
    editor.wait(f"(require('oh').conversation() or {{ seq = 0 }}).seq >= {N_EVENTS}")
    # The number of lines rather than the text: it is cheap enough to ask for all the time.
    n_lines = """
    (function()
      local buf = require("oh.chat").of(require("oh").conversation()).buf
      return vim.api.nvim_buf_line_count(buf) > 49000
    end)()
    """
    editor.wait(n_lines)
    assert editor.chat().count("\ntwo\n") > 9900
    screen = editor.screen()
    assert screen.count("✓ Run echo one; echo two  (2 lines)") > 10, "folded, a line each"

    editor.command("Oh go on")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat(("x " * 5000).rstrip())
    at_end = """
    local win = require("oh.windows").window_of("oh-chat")
    return vim.api.nvim_win_call(win, function() return vim.fn.line(".") == vim.fn.line("$") end)
    """
    assert editor.lua(at_end)


def test_deltas_that_come_within_a_frame_are_drawn_once(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(hold_step(say("Begun. Ended.", n_chunks=2), gate))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh write")
    editor.wait_for_chat("Begun")
    editor.lua("""
    local conversation = require("oh").conversation()
    local written = conversation.entries[#conversation.entries].item.id
    _G.n_drawn = 0
    vim.api.nvim_buf_attach(require("oh.chat").of(conversation).buf, false, {
      on_lines = function() _G.n_drawn = _G.n_drawn + 1 end,
    })
    local on_delta = vim.lsp.get_clients({ name = "oh" })[1].handlers["conversation/delta"]
    for n = 1, 100 do
      local delta = { itemId = written, channel = "text", offset = n, text = " word " .. n }
      on_delta(nil, vim.tbl_extend("error", delta, { conversationId = conversation.id }))
    end
    """)
    editor.wait_for_chat("word 1 word 2")
    editor.wait_for_chat("word 100")
    assert editor.lua("return _G.n_drawn") == 1
    gate.set()
    editor.wait_for_event("TurnFinished")
