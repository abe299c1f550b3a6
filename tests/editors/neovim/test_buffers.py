"""The user's buffers: never clobbered, saved when allowed, reloaded when their file changed."""

from fake_llm import call, say
from neovim_workspace import CODE, Workspace

FIX = {"command": "replace", "path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
_APPLY = """
local client = vim.lsp.get_clients({ name = "oh" })[1]
local buf, version = ...
return client.handlers["editor/applyEdit"](nil, { label = "test", save = "never", edit = {
  documentChanges = { {
    textDocument = { uri = vim.uri_from_bufnr(buf), version = version },
    edits = { { range = { start = { line = 0, character = 0 },
                          ["end"] = { line = 0, character = 3 } }, newText = "DEF" } },
  } } } }, {})
"""


def test_buffers_are_edited_saved_and_reloaded_with_care(workspace: Workspace) -> None:
    notes = workspace.project / "notes.txt"
    notes.write_text("old\n", "utf-8")
    workspace.script(
        call("edit", command="view", path="calc.py"),
        call("edit", **FIX),
        call("terminal", command="echo new > notes.txt; cat calc.py", security_risk="medium"),
        say("Done."),
    )
    editor = workspace.start(settings={"mode": "autoEdit"})
    notes_buffer = editor.edit(notes)
    buffer = editor.edit(workspace.file)
    editor.type("Go# mine<Esc>")
    editor.command("Oh fix add()")
    save = editor.wait_for_event("ApprovalRequested")["approval"]
    assert save["subject"] == {"kind": "saveDocuments", "uris": [workspace.file.as_uri()]}
    editor.wait_for_chat("save calc.py")
    assert workspace.file.read_text("utf-8") == CODE
    editor.command("Oh approve")
    editor.wait_for_event("ApprovalRequested", nth=2)
    assert "# mine" in workspace.file.read_text("utf-8")
    assert "a + b" in workspace.file.read_text("utf-8")
    editor.command("Oh approve")
    editor.wait_for_event("TurnFinished")
    assert notes_buffer[:] == ["new"], "a clean buffer shows what the command wrote"

    # An edit for an earlier text is refused, and so is one of a read-only buffer.
    version = editor.lua("return vim.lsp.util.buf_versions[...]", buffer.number)
    assert editor.lua(_APPLY, buffer.number, version - 1) == {
        "applied": False,
        "failureReason": "stale",
    }
    buffer.options["readonly"] = True
    assert editor.lua(_APPLY, buffer.number, version)["failureReason"] == "readonly"
    buffer.options["readonly"] = False
    assert buffer[0] == "def add(a, b):"

    # An edit does not interrupt typing, and each of them is an undo step of its own.
    editor.lua("_G.apply = loadstring(...)", _APPLY)
    buffer.options["undolevels"] = 50
    buffer.options["buflisted"] = False
    editor.lua("""
    vim.keymap.set("i", "<F2>", function()
      local buf = vim.api.nvim_get_current_buf()
      _G.apply(buf, vim.lsp.util.buf_versions[buf])
    end)
    """)
    editor.type("Goone<F2>two<Esc>")
    assert (buffer[0], buffer[-1]) == ("DEF add(a, b):", "onetwo")
    editor.command("undo")
    assert (buffer[0], buffer[-1]) == ("DEF add(a, b):", "one")
    editor.command("undo")
    assert (buffer[0], buffer[-1]) == ("def add(a, b):", "one")
    assert editor.lua("return { vim.go.undolevels, vim.bo.undolevels }") == [1000, 50]
    assert buffer.options["buflisted"] is False


def test_a_file_that_is_not_open_is_edited_on_disk_and_stays_closed(workspace: Workspace) -> None:
    notes = workspace.project / "notes.txt"
    notes.write_text("old\n", "utf-8")
    change = {"command": "replace", "path": "notes.txt", "old_text": "old", "new_text": "new"}
    workspace.script(
        call("edit", command="view", path="notes.txt"), call("edit", **change), say("Done.")
    )
    editor = workspace.start(settings={"mode": "autoEdit"})
    editor.edit(workspace.file)
    editor.command(f"badd {notes}")
    editor.command("Oh change the notes")
    editor.wait_for_event("TurnFinished")
    assert notes.read_text("utf-8") == "new\n"
    files = editor.lua("""
    return vim.iter(vim.fn.getbufinfo()):map(function(info)
      local is_file = vim.bo[info.bufnr].buftype == ""
      return is_file and { vim.fs.basename(info.name), info.loaded, info.changed } or nil
    end):totable()
    """)
    assert sorted(files) == [["calc.py", 1, 0], ["notes.txt", 0, 0]]


def test_the_agent_does_not_see_buffers_that_are_disabled(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.command("autocmd BufNewFile private.py let b:oh_disable = v:true")
    editor.edit(workspace.file)
    editor.command("Oh toggle | wincmd t | stopinsert")
    editor.wait("(require('oh').status_table() or {}).status == 'ready'")
    is_seen = "return #vim.lsp.get_clients({ name = 'oh', bufnr = 0 }) == 1"
    assert editor.lua(is_seen)
    for name, global_value, expected in (
        ("private.py", False, False),
        ("one.py", True, False),
        ("two.py", False, True),
    ):
        editor.nvim.vars["oh_disable"] = global_value
        editor.edit(workspace.project / name)
        assert editor.lua(is_seen) is expected, name


def test_an_edit_waits_for_the_command_that_the_user_is_typing(workspace: Workspace) -> None:
    editor = workspace.start()
    buffer = editor.edit(workspace.file)
    editor.command("Oh toggle | Oh toggle | stopinsert")
    editor.wait("(require('oh').status_table() or {}).status == 'ready'")
    editor.lua("_G.apply = loadstring(...)", _APPLY)
    editor.lua("require('oh.editor').patience_ms = ...", 10**6)
    ask = """
    _G.answer = nil
    local version = vim.lsp.util.buf_versions[...]
    coroutine.wrap(function(buf) _G.answer = _G.apply(buf, version) end)(...)
    return _G.answer
    """
    lines = CODE.splitlines()
    # An operator or block knows by number where it began; a preview is in the buffer meanwhile.
    for keys, end, after in (
        ("3Gd", "d", [*lines[:2], *lines[3:]]),
        ("3Gd/pri", "<CR>", [*lines[:2], *lines[5:]]),
        (":3s/a/A", "<CR>", [*lines[:2], lines[2].replace("a", "A"), *lines[3:]]),
        (":3s/a/A", "<Esc>", lines),
        ("gg<C-v>jI# ", "<Esc>", [*(f"# {line}" for line in lines[:2]), *lines[2:]]),
    ):
        editor.type(keys)
        assert editor.lua(ask, buffer.number) is None, keys
        editor.type(end)
        answer = editor.wait("_G.answer")
        assert answer.get("failureReason") == ("stale" if after != lines else None), keys
        if after != lines:
            assert buffer[:] == after, keys
        editor.command("silent undo")
        assert buffer[:] == lines, keys
    editor.type(":w")
    assert editor.lua(ask, buffer.number)["applied"], "nothing is previewed"
    editor.type("<Esc>")


def test_files_that_come_and_go_while_they_are_open_are_followed_in_silence(
    workspace: Workspace,
) -> None:
    deleted_file, created_file = workspace.project / "gone.txt", workspace.project / "made.txt"
    deleted_file.write_text("still here\n", "utf-8")
    workspace.script(
        call("terminal", command="rm gone.txt; echo new > made.txt", security_risk="medium"),
        call("edit", command="view", path="named.py"),
        say("Done."),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    deletion, creation = editor.edit(deleted_file), editor.edit(created_file)
    picture = workspace.project / "picture.dat"
    picture.write_bytes(b"\xff\xfe\x00")
    editor.command(f"edit ++bin {picture}")
    buffer = editor.edit(workspace.file)
    editor.command("Oh toggle")
    editor.command("wincmd t | stopinsert | file named.py")
    editor.command("Oh make and remove files")
    editor.wait_for_event("TurnFinished")
    assert (deletion[:], creation[:], buffer[2]) == (["still here"], ["new"], "    return a - b")
    # Neovim halts for a second after this kind of warning.
    assert editor.lua("return vim.v.warningmsg") == ""
    assert "INVALID_SERVER_MESSAGE" not in editor.messages(), "bytes are not sent as text"
    assert "return a - b" in workspace.prompts(), "the agent knows the file by its new name"


def test_an_edit_of_lines_that_the_user_changed_since_is_refused_and_says_why(
    workspace: Workspace,
) -> None:
    workspace.script(
        call("edit", command="view", path="calc.py"),
        call("edit", **FIX),
        call("edit", command="replace", path="calc.py", old_text="(2, 3)", new_text="(2, 4)"),
        say("I look again."),
    )
    editor = workspace.start()
    buffer = editor.edit(workspace.file)
    editor.command("Oh fix add()")
    editor.wait_for_event("ApprovalRequested")
    buffer[2] = "    return b - a"
    editor.command("Oh approve")
    editor.wait_for_event("ApprovalRequested", nth=2)
    assert buffer[2] == "    return b - a", "what the user typed stays"
    editor.wait_for_chat("✗ Edit calc.py")
    assert "return b - a" in workspace.prompts(), "the agent is told what is there now"

    # If the user typed elsewhere in the file, the agent asks again, since what was shown is no
    # longer complete. Then both changes are kept, each as an undo step of its own.
    buffer[0] = "def add(a, b):  # typed"
    editor.command("Oh approve")
    again = editor.wait_for_event("ApprovalRequested", nth=3)["approval"]
    assert again["reason"] == "it changed after you allowed it"
    editor.command("Oh approve")
    editor.wait_for_event("TurnFinished")
    assert (buffer[0], buffer[5]) == ("def add(a, b):  # typed", "print(add(2, 4))")
    editor.command("undo")
    assert (buffer[0], buffer[5]) == ("def add(a, b):  # typed", "print(add(2, 3))")


def test_a_buffer_that_the_daemon_lost_track_of_is_read_again(workspace: Workspace) -> None:
    workspace.script(
        call("edit", command="view", path="calc.py"), call("edit", **FIX), say("There it is.")
    )
    editor = workspace.start(settings={"mode": "autoEdit"})
    buffer = editor.edit(workspace.file)
    buffer[0] = "def add(a, b):  # 😀 not saved"
    buffer.options["fileformat"] = "dos"
    before = buffer[:]
    editor.command("Oh toggle | wincmd t | stopinsert")
    editor.wait("(require('oh').status_table() or {}).status == 'ready'")
    editor.lua("""
    vim.lsp.get_clients({ name = "oh" })[1]:notify("textDocument/didChange", {
      textDocument = { uri = vim.uri_from_bufnr(0), version = 1000 },
      contentChanges = { { range = "a change that makes no sense", text = "" } },
    })
    """)
    editor.command("Oh fix add()")
    editor.wait_for_event("TurnFinished")
    assert "# 😀 not saved" in workspace.prompts()
    assert buffer[:] == [line.replace("a - b", "a + b") for line in before]
    assert workspace.file.read_text("utf-8") == CODE
    editor.command("undo")
    assert buffer[:] == before


def test_a_selection_becomes_a_mention_and_is_sent_as_the_editor_shows_it(
    workspace: Workspace,
) -> None:
    workspace.script(say("It subtracts."))
    editor = workspace.start()
    buffer = editor.edit(workspace.file)
    buffer[2] = "    return a - b  # unsaved"
    editor.command("2,3Oh")
    editor.wait("vim.bo.filetype == 'oh-input'")
    assert editor.nvim.current.buffer[:] == ["@calc.py:2-3 "]
    editor.type("what does it do?<Esc><CR>")
    editor.wait_for_event("TurnFinished")
    assert "# unsaved" in workspace.prompts()
    assert editor.nvim.current.buffer[:] == [""]
    editor.type("i<Up>")
    assert editor.nvim.current.buffer[:] == ["@calc.py:2-3 what does it do?"]


def test_a_shortened_output_is_shown_whole(workspace: Workspace) -> None:
    workspace.script(call("terminal", command="seq 20000"), say("Counted."))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh count")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("Counted.")
    editor.focus("oh-chat")
    editor.type("zR")
    editor.screen()
    editor.wait_for_chat("(shortened; `:Oh output` here shows all of it)")
    assert "\n10000\n" not in editor.chat()
    editor.command("Oh output")
    editor.wait("vim.fn.tabpagenr('$') == 2")
    editor.wait("vim.fn.line('$') >= 20000")
    assert editor.nvim.current.buffer[:][:20000] == [str(n) for n in range(1, 20001)]


def test_of_several_projects_the_one_that_has_a_document_is_asked_for_it(
    workspace: Workspace,
) -> None:
    other_folder = workspace.project.parent / "other"
    (other_folder / ".git").mkdir(parents=True)
    workspace.script(say("Here I am."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh where are you?")
    conversation = editor.wait_for_event("TurnFinished")["conversation"]
    editor.command(f"tabedit {other_folder}/other.py | lcd {other_folder} | Oh toggle")
    editor.wait_for_event("Started", nth=2)
    editor.command(f"tabedit oh-log:/{conversation}")
    editor.wait("vim.fn.search('Here I am.', 'nw') > 0")
    # By the time that each has refused another document, it would have refused this one too.
    editor.lua("""
    _G.n_refused = 0
    for _, daemon in ipairs(require("oh.daemon").all()) do
      local function refused() _G.n_refused = _G.n_refused + 1 end
      daemon:request("workspace/textDocumentContent", { uri = "oh-log:/none" }, refused, refused)
    end
    """)
    editor.wait("_G.n_refused == 2")
    assert "oh: " not in editor.messages()
