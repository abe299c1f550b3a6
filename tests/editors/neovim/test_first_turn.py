"""From `:Oh {message}` to an edit in the open buffer."""

from fake_llm import call, calls, say
from neovim_editor import DAEMON
from neovim_workspace import CODE, Workspace

FIX = {"command": "replace", "path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
VIEW = {"command": "view", "path": "calc.py"}
_SAYS = "vim.fn.execute('messages'):find(..., 1, true) ~= nil"


def test_a_message_starts_the_daemon_and_edits_the_unsaved_buffer_as_one_undo_step(
    workspace: Workspace,
) -> None:
    workspace.script(
        calls(say("Let me look.", n_chunks=3), call("edit", **VIEW)),
        call("edit", **FIX),
        say("The sign in `add` is mended.", n_chunks=5),
    )
    editor = workspace.start(cmd=DAEMON)
    buffer = editor.edit(workspace.file)
    editor.command("Oh mode autoEdit")
    editor.type("Go# ünsaved 🙂<Esc>3G^i🙂; ü; <Esc>gg")
    before = buffer[:]

    editor.lua("""
    _G.progress = {}
    vim.api.nvim_create_autocmd("LspProgress", { callback = function(args)
      table.insert(_G.progress, args.data.params.value.kind)
    end })
    """)
    editor.command("Oh fix add()")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("The sign in `add` is mended.")
    chat = editor.chat()
    assert "## You\n\nfix add()\n\n## Oh\n\nLet me look." in chat
    assert "✓ Edit calc.py  +1 -1" in chat
    assert "-    🙂; ü; return a - b\n+    🙂; ü; return a + b" in chat
    assert editor.windows() == ["calc.py", "oh-chat", "oh-input"]
    assert editor.nvim.current.buffer == buffer, "the cursor stays where it was"

    editor.wait("_G.progress[#_G.progress] == 'end'")
    assert editor.lua("return _G.progress")[0] == "begin"

    edit_event = editor.wait_for_event("EditApplied")
    assert (edit_event["uri"], edit_event["saved"]) == (workspace.file.as_uri(), False)
    [change] = editor.wait_for_event("FileChanged")["changes"]
    assert (change["uri"], change["added"], change["removed"]) == (workspace.file.as_uri(), 1, 1)
    for name in ("Started", "StateChanged", "TurnStarted", "Event"):
        editor.wait_for_event(name)

    assert buffer[2] == "    🙂; ü; return a + b"
    assert buffer[:] == [line.replace("a - b", "a + b") for line in before]
    assert workspace.file.read_text("utf-8") == CODE, "what the user has not saved stays unsaved"
    assert "# ünsaved 🙂" in workspace.prompts()
    editor.command("undo")
    assert buffer[:] == before


def test_a_secret_is_lent_to_commands_and_taken_back(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.type(":Oh secret SHOP_TOKEN<CR>a-token-of-the-shop<CR>")
    editor.wait(_SAYS, "exposed to commands that name it: SHOP_TOKEN")
    workspace.script(
        call("terminal", command='echo "$SHOP_TOKEN"; wc -c <<< "$SHOP_TOKEN"'), say("Ok.")
    )
    editor.command("Oh print it")
    editor.wait_for_event("ApprovalRequested")
    editor.wait_for_chat("it gets the secret SHOP_TOKEN")
    editor.command("Oh approve")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("<secret hidden>\n20")
    for key in ("<Esc>", "<C-c>"):
        editor.type(f":Oh secret SHOP_TOKEN<CR>{key}")
    editor.command("messages clear")
    editor.command("Oh secret")
    editor.wait(_SAYS, "name it: SHOP_TOKEN")
    editor.type(":Oh secret SHOP_TOKEN<CR><CR>")
    editor.wait(_SAYS, "no secret is exposed")
