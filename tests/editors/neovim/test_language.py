"""The agent asks the language servers and the diagnostics of this Neovim."""

import sys
from pathlib import Path

from fake_llm import call, say
from neovim_editor import Neovim
from neovim_workspace import Workspace

USES = '# unsaved\nx = "😀😀"; y = add(2, 3) + oops\n'

_ASK_AND_WIPE = """
vim.cmd("edit calc.py")
vim.api.nvim_buf_set_lines(0, 0, 1, false, { "def add(a, b):  # typed" })
local answer = vim.lsp.get_clients({ name = "oh" })[1].handlers["editor/diagnostics"]
local uri = vim.uri_from_bufnr(0)
coroutine.wrap(function() _G.answer = answer(nil, { uris = { uri } }, {}) end)()
vim.cmd("bwipeout!")
"""


_LOADING = "require('oh.language').loading_servers()"


def _with_server(workspace: Workspace, **options: object) -> Neovim:
    """Start an editor whose user has set up a language server for Python."""
    editor = workspace.start(**options)
    editor.lua(
        """
        vim.lsp.config("toy", {
          cmd = { ... },
          filetypes = { "python" },
          capabilities = { general = { positionEncodings = { "utf-16" } } },
        })
        vim.lsp.enable("toy")
        """,
        sys.executable,
        str(Path(__file__).with_name("toy_server.py")),
    )
    return editor


def test_the_agent_learns_what_the_language_servers_of_the_user_know(workspace: Workspace) -> None:
    (workspace.project / "uses.py").write_text("old text of the disk\n", "utf-8")
    use = {"path": "uses.py", "line": 2, "symbol": "add"}
    workspace.script(
        call("diagnostics", path="uses.py"),
        call("lookup", operation="references", **use),
        call("lookup", operation="hover", **use),
        call("lookup", operation="hover", path="calc.py", symbol="add", line=1),
        say("I see."),
    )
    editor = _with_server(workspace)
    buffer = editor.edit(workspace.project / "uses.py")
    buffer[:] = USES.splitlines()
    editor.wait("#vim.diagnostic.get(0) == 1")
    editor.command("Oh what is wrong?")
    editor.wait_for_event("TurnFinished")
    problems, references, hover, hover_when_closed = workspace.tool_results()
    assert "uses.py:2:27 error 'oops' is not defined" in problems
    assert "uses.py:2: " in references
    assert "y = add(2, 3)" in references
    assert hover == "`add`, a name"
    assert hover_when_closed == "`add`, a name", "a file that is not open is shown to it meanwhile"
    assert editor.lua("return vim.fn.bufloaded('calc.py')") == 0


def test_symbols_are_found_and_renamed_where_the_users_server_says(workspace: Workspace) -> None:
    place = {"path": "calc.py", "symbol": "add"}
    workspace.script(
        call("lookup", operation="definition", line=6, **place),
        call("lookup", operation="symbols", path="calc.py"),
        call("lookup", operation="symbols", query="ad"),
        call("rename", new_name="plus", line=6, **place),
        say("Renamed."),
    )
    editor = _with_server(workspace)
    buffer = editor.edit(workspace.file)
    buffer[5] = 'x = "😀😀"; print(add(2, 3))'
    before = buffer[:]
    editor.wait("#vim.lsp.get_clients({ name = 'toy', bufnr = 0 }) == 1")
    editor.command("Oh call it plus")
    editor.wait_for_event("ApprovalRequested")
    definition, outline, search_result = workspace.tool_results()
    assert "calc.py:1: def add(a, b):" in definition
    assert "function add" in outline
    assert "calc.py:1" in search_result
    editor.command("Oh approve")
    editor.wait_for_event("TurnFinished")
    assert (buffer[0], buffer[5]) == ("def plus(a, b):", 'x = "😀😀"; print(plus(2, 3))')
    editor.command("undo")
    assert buffer[:] == before


def test_diagnostics_are_those_of_the_text_after_the_edit(workspace: Workspace) -> None:
    workspace.script(
        call("edit", command="view", path="calc.py"),
        call("edit", command="replace", path="calc.py", old_text="a - b", new_text="oops"),
        call("diagnostics", path="calc.py"),
        say("I made it worse."),
    )
    editor = _with_server(workspace, settings={"mode": "autoEdit"})
    editor.edit(workspace.file)
    editor.wait("#vim.lsp.get_clients({ name = 'toy', bufnr = 0 }) == 1")
    editor.command("Oh break it")
    editor.wait_for_event("TurnFinished")
    assert "calc.py:3:12 error 'oops' is not defined" in workspace.prompts()

    toy = "vim.lsp.get_clients({ name = 'toy' })[1]"
    editor.lua(f"{toy}:notify('toy/beginIndexing', {{}})")
    assert editor.wait(_LOADING) == ["toy"]
    editor.lua(f"{toy}:notify('toy/endIndexing', {{}})")
    editor.wait(f"{_LOADING} == nil")

    # An answer comes also when the user wipes the buffer meanwhile.
    editor.lua(_ASK_AND_WIPE)
    assert editor.wait("_G.answer")["items"][0]["diagnostics"] == []


def test_without_a_language_server_the_agent_is_told_so(workspace: Workspace) -> None:
    workspace.script(call("lookup", operation="symbols", path="calc.py"), say("I search then."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh what is in there?")
    editor.wait_for_event("TurnFinished")
    assert "no language server answers textDocument/documentSymbol here" in workspace.prompts()


def test_the_agent_is_told_what_the_user_looks_at(workspace: Workspace) -> None:
    (workspace.project / "more.py").write_text("\n" * 9 + 'x = "ü😀"\n', "utf-8")
    workspace.script(say("I see."), say("I see that too."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.edit(workspace.project / "more.py")
    editor.command("Oh what is this?")
    editor.wait_for_event("TurnFinished")
    assert "more.py, cursor in line 1, lines 1-10 on screen" in workspace.prompts()
    assert "calc.py, more.py" in workspace.prompts()

    editor.wait_for_status("idle")
    editor.lua("vim.keymap.set('x', '<F2>', '<Cmd>Oh and this?<CR>')")
    # The keys are sent at once: the message is about what is selected at that moment.
    editor.type("G0v5l<F2>")
    editor.wait_for_event("TurnFinished", nth=2)
    assert "more.py lines 10-10" in workspace.prompts()
    selection = "(require('oh.daemon').known().context.selection)"
    assert editor.lua(f"return {selection}.text") == 'x = "ü'
    span = {"start": {"line": 9, "character": 0}, "end": {"line": 9, "character": 7}}
    assert editor.lua(f"return {selection}.range") == span

    editor.type("<Esc>")
    editor.set(selection="exclusive")
    editor.type("G0v5l")
    editor.wait(f"{selection}.text == ...", 'x = "')
    span["end"]["character"] = 5
    assert editor.lua(f"return {selection}.range") == span


def test_code_actions_are_in_the_menu_and_start_a_conversation(workspace: Workspace) -> None:
    workspace.script(say("I fix it."), say("It adds."))
    editor = _with_server(workspace)
    buffer = editor.edit(workspace.file)
    buffer[2] = "    return oops"
    editor.command("Oh toggle")
    editor.type("<Esc>")
    editor.command("wincmd t")
    editor.wait_for_event("Started")
    editor.wait("#vim.diagnostic.get(0) == 1")
    editor.lua("""
    vim.ui.select = function(items, options, choose)
      _G.offered = vim.tbl_map(options.format_item, items)
      _G.choose = function(nth) choose(items[nth], nth) end
    end
    """)
    editor.type("3Ggra")
    editor.wait("_G.offered and #_G.offered >= 3")
    titles = editor.lua("return _G.offered")
    assert [title.partition(" [")[0] for title in titles[:3]] == [
        "Fix with agent",
        "Explain",
        "Write a test",
    ]
    editor.lua("_G.choose(1)")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("I fix it.")
    assert "'oops' is not defined" in workspace.prompts()

    # A conversation at rest goes on with the next code action.
    editor.wait_for_status("idle")
    editor.type("1Ggra")
    editor.wait("_G.offered and #_G.offered == 2")
    editor.lua("_G.choose(1)")
    editor.wait_for_chat("It adds.")


def test_changes_are_shown_where_a_command_asks_for_them(workspace: Workspace) -> None:
    workspace.script(
        call("edit", command="view", path="calc.py"),
        call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b"),
        say("Done."),
    )
    editor = workspace.start(settings={"mode": "autoEdit"})
    editor.edit(workspace.file)
    editor.command("Oh fix it")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_status("idle")
    editor.lua("""
    local conversation = require("oh").conversation()
    vim.lsp.get_clients({ name = "oh" })[1]:exec_cmd({
      title = "show", command = "ohDaemon.showChanges",
      arguments = { { conversationId = conversation.id } },
    })
    """)
    editor.wait("vim.fn.tabpagenr('$') == 2")
    line = "vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 2, 3, false)[1]"
    buffers_lua = f"vim.tbl_map(function(win) return {line} end, vim.api.nvim_tabpage_list_wins(0))"
    editor.wait(f"vim.deep_equal({buffers_lua}, {{ '    return a - b', '    return a + b' }})")
    assert editor.lua("return vim.bo.modified") is False
    count_lua = "#vim.fn.getbufinfo({ buflisted = 1 })"
    assert editor.lua(f"return {count_lua}") == 1, "the tab leaves no buffer without a name behind"
