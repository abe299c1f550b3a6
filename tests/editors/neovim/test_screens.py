"""The screens in docs/img are what Neovim shows. OH_TEST_UPDATE=1 writes them; check the result."""

import os
import re

import pytest
from fake_llm import call, calls, reason, say
from neovim_editor import ROOT, Neovim
from neovim_workspace import Workspace

FIX = {"command": "replace", "path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
TASKS = [{"text": "Fix the sign", "status": "in_progress"}, {"text": "Run the tests"}]


def _compare(editor: Neovim, name: str) -> None:
    picture = ROOT / f"docs/img/neovim-{name}.txt"
    screen = re.sub(r"Worked \d+ s", "Worked 5 s", editor.screen().rstrip() + "\n")
    if os.environ.get("OH_TEST_UPDATE") == "1":
        picture.write_text(screen, "utf-8")
    assert screen == picture.read_text("utf-8")


def test_the_page_shows_the_kept_screen() -> None:
    picture_text = (ROOT / "docs/img/neovim-approval.txt").read_text("utf-8")
    page = (ROOT / "docs/neovim.md").read_text("utf-8")
    assert f"<!-- screen: neovim-approval -->\n```\n{picture_text}```\n<!-- end: screen -->" in page


def test_the_screens_are_those_of_the_documentation(workspace: Workspace) -> None:
    workspace.script(
        reason(
            "The sign is wrong.",
            calls(say("I look at `add` first."), call("edit", command="view", path="calc.py")),
        ),
        calls(
            call("todo", tasks=[{"status": "pending", **task} for task in TASKS]),
            call("edit", **FIX),
        ),
        say("`add` adds now. Shall I write a test for it?"),
    )
    editor = workspace.start(input={"height": 3})
    if not editor.lua("return vim.version.eq({ 0, 11, 4 }, vim.version())"):
        pytest.skip("the screens are those of Neovim 0.11.4")
    editor.set(columns=100, lines=28, laststatus=3, showtabline=0)
    editor.set(statusline=" %t %m", ruler=False)
    editor.edit(workspace.file)
    editor.type("Go# not saved yet<Esc>gg")
    editor.command("Oh toggle")
    editor.wait_for_event("Started")
    editor.type("<Esc>")
    editor.command("wincmd t")
    _compare(editor, "start")
    editor.command("Oh fix add()")
    editor.wait_for_chat("[a] allow once")
    editor.wait_for_status("waiting")
    editor.wait("vim.b.oh_changes ~= nil")
    _compare(editor, "approval")
    editor.command("Oh diff")
    editor.wait("vim.fn.tabpagenr('$') == 2 and vim.fn.getline('.'):find('a + b', 1, true)")
    _compare(editor, "diff")
    editor.type("q")
    editor.command("Oh approve")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_status("idle")
    # The chat folds the turn and says what has changed after the status is known.
    editor.wait_for_chat("`:Oh diff` reviews.")
    editor.wait("require('oh').status() == 'oh: idle, +1 -1 to review'")
    editor.wait("vim.b.oh_changes ~= nil")
    _compare(editor, "done")
