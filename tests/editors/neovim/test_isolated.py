"""An isolated conversation: it changes nothing in the folder until `:Oh apply`."""

from fake_llm import call, say
from neovim_workspace import Workspace


def test_an_isolated_conversation_is_reviewed_and_landed_by_file_and_as_a_whole(
    workspace: Workspace,
) -> None:
    before = workspace.file.read_text()
    workspace.script(
        call("terminal", command="sed -i s/-/+/ calc.py; echo x > new.txt; echo y > no.txt"),
        say("Done."),
    )
    editor = workspace.start(settings={"sandbox": "overlay"})
    editor.edit(workspace.file)
    editor.command("Oh new isolated")
    editor.command("Oh! send fix it")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_status("idle")
    assert workspace.file.read_text() == before
    assert not (workspace.project / "new.txt").exists()
    editor.command("Oh apply new.txt")
    editor.wait("vim.uv.fs_stat(...) ~= nil", str(workspace.project / "new.txt"))
    editor.command("Oh discard no.txt")
    editor.command("Oh apply")
    editor.wait("(vim.fn.readfile(...)[3] or ''):find('+', 1, true) ~= nil", str(workspace.file))
    assert not (workspace.project / "no.txt").exists()
