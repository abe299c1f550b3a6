"""What commands in a sandbox reach: hosts that are asked about, and ports that are opened."""

from fake_llm import call, say
from neovim_workspace import Workspace

VIEW = {"settings": {"sandbox": "overlay", "approval": "askRisky"}}
_CHOOSE_FIRST = "vim.ui.select = function(items, _, on_choice) on_choice(items[1]) end"


def test_a_host_is_asked_about_while_the_command_runs_and_can_be_rejected(
    workspace: Workspace,
) -> None:
    workspace.script(call("terminal", command="curl -sS http://192.0.2.1/"), say("Not reached."))
    editor = workspace.start(**VIEW)
    editor.edit(workspace.file)
    editor.command("Oh fetch it")
    editor.wait_for_event("ApprovalRequested")
    editor.wait_for_chat("? Allow: Let commands connect to 192.0.2.1?")
    assert "192.0.2.1:80" in editor.chat()
    editor.command("Oh reject")
    editor.wait_for_event("TurnFinished")
    assert "the user does not allow it" in workspace.prompts()


def test_ports_are_told_of_and_opened_in_the_browser(workspace: Workspace) -> None:
    serve = "exec python3 -m http.server 18766"
    workspace.script(call("terminal", command=serve, background=True), say("It runs."))
    editor = workspace.start(**VIEW)
    editor.edit(workspace.file)
    editor.command("Oh serve it")
    editor.wait_for_message("the agent listens on 18766; `:Oh ports` opens it")
    editor.lua("vim.ui.open = function(path) _G.opened = path end")
    editor.lua(_CHOOSE_FIRST)
    editor.command("Oh ports")
    editor.wait_for_message("port 18766 of the sandbox is open at 127.0.0.1:")
    assert editor.lua("return _G.opened").startswith("http://127.0.0.1:")
