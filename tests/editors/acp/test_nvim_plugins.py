"""CodeCompanion and agentic.nvim in a real Neovim, set up as docs/acp.md has it.

Each does a task with questions, is stopped in the middle of an answer, and loads the session again
in a new Neovim. What the user has typed and not saved is there at the end.
"""

import os
import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import forked_daemons
import pynvim
import pytest
from fake_llm import Step, call, hang, say
from neovim_editor import QUICK_START, find_nvim
from neovim_workspace import Workspace, workspace_in
from recipes import block_of

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.full
PLUGINS = Path(os.environ["OH_TEST_NVIM_PLUGINS"])
TYPED = "Rule: 25 %"
UNTIL = """
local filetype, words = ...
local function text()
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if vim.bo[buf].filetype == filetype then
      return table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, false), "\\n")
    end
  end
  return ""
end
vim.wait(60000, function() return text():find(words, 1, true) ~= nil end, 20)
return text()
"""
"""Waits until the chat has these words, and returns its text."""
TO_CHAT = """
local filetype = ...
for _, win in ipairs(vim.api.nvim_list_wins()) do
  if vim.bo[vim.api.nvim_win_get_buf(win)].filetype == filetype then
    vim.api.nvim_set_current_win(win)
  end
end
vim.cmd.stopinsert()
"""
CONNECTED = """
return vim.wait(60000, function()
  local connection = require("codecompanion").buf_get_chat(0).acp_connection
  return connection ~= nil and connection:is_connected()
end, 20)
"""
RESUME = """
_G.offered = {}
vim.ui.select = function(items, _, on_choice)
  _G.offered = items
  on_choice(items[1], 1)
end
local chat = require("codecompanion").buf_get_chat(0)
local builtin = "codecompanion.interactions.chat.slash_commands.builtin.resume"
require(builtin).new({ Chat = chat, config = {}, context = {} }):execute()
return _G.offered
"""
"""What `/resume` does once it is chosen."""
AGENT = "local agent = require('agentic.acp.agent_instance').instances.oh\n"
SESSION = f"{AGENT} return next(agent.subscribers)"
STOP = f"{AGENT} agent:_send_notification('session/cancel', {{ sessionId = ... }})"
"""What it sends when its chat is closed for good, which is its only way to stop."""
LOAD = f"""{AGENT}
local _, handlers = next(agent.subscribers)
agent:load_session(..., vim.fn.getcwd(), {{}}, handlers)
"""
"""The plugin can load a session, but has no command for it yet."""
MESSAGES = "return vim.api.nvim_exec2('messages', { output = true }).output"
BUFFER = """
local buf = vim.fn.bufnr("rule.md")
return { vim.api.nvim_buf_get_lines(buf, 0, -1, false), vim.bo[buf].modified }
"""

Start = Callable[..., AbstractContextManager[pynvim.Nvim]]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with workspace_in(tmp_path) as workspace:
        (workspace.project / "rule.md").write_text("Rule: 10 %\n")
        yield workspace


@pytest.fixture
def start(workspace: Workspace, tmp_path: Path) -> Start:
    """Start Neovim with plugins and the settings of docs/acp.md; `oh-daemon` is in its PATH."""
    program = tmp_path / "bin/oh-daemon"
    program.parent.mkdir()
    # One of the plugins starts agents without any variable but the PATH.
    actual_variables = {
        k: v for k, v in {**os.environ, **workspace.environment}.items() if k.startswith("OH_")
    }
    command = ["env", *(f"{k}={v}" for k, v in actual_variables.items()), *forked_daemons.REAL]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    program.chmod(0o755)
    variables = {**workspace.environment, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    (Path(variables["XDG_CACHE_HOME"]) / "nvim").mkdir(parents=True)
    nvim = find_nvim()
    assert nvim is not None

    @contextmanager
    def begin(config: str, *plugins: str) -> Generator[pynvim.Nvim]:
        paths = ",".join(str(PLUGINS / each) for each in plugins)
        argv = ["env", "-u", "NVIM", "-C", str(workspace.project)]
        argv += [*(f"{k}={v}" for k, v in variables.items()), nvim, "--embed", *QUICK_START]
        editor = pynvim.attach("child", argv=[*argv, "--headless", "--cmd", f"set rtp^={paths}"])
        try:
            # A message that does not fit would wait for a key, and with it all that the test asks.
            editor.command("set lines=60 cmdheight=20")
            # When Neovim asks about a file that was edited on the disk, the user keeps the buffer.
            editor.command("autocmd FileChangedShell * let v:fcs_choice = ''")
            editor.exec_lua(block_of(ROOT / "docs/acp.md", config))
            yield editor
        finally:
            with suppress(OSError, EOFError):
                editor.command("qa!")
            editor.close()

    return begin


def task(workspace: Workspace, *more: Step) -> None:
    workspace.script(
        call("edit", command="view", path="rule.md"),
        call("edit", command="view", path="calc.py"),
        call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b"),
        call("edit", command="replace", path="rule.md", old_text="10 %", new_text="30 %"),
        *more,
        call("terminal", command="touch made\necho ready"),
        say("It is mended."),
        hang(say("Never", n_chunks=1)),
        say("I am here."),
        say("Still here."),
    )


def wait_for_text(editor: pynvim.Nvim, filetype: str, words: str) -> str:
    """Wait until the chat shows this, and return all of it."""
    text = str(editor.exec_lua(UNTIL, filetype, words))
    assert words in text, f"{words!r} is not in {text}\n{editor.exec_lua(MESSAGES)}"
    return text


def is_done(workspace: Workspace) -> bool:
    return "a + b" in workspace.file.read_text() and (workspace.project / "made").exists()


def test_codecompanion_does_a_whole_task(workspace: Workspace, start: Start) -> None:
    task(workspace)
    plugins = ("codecompanion", "plenary.nvim", "codecompanion.nvim")

    def send(words: str) -> None:
        editor.exec_lua("vim.wait(60000, function() return vim.bo.modifiable end, 20)")
        editor.command(f"normal! Go{words}")
        editor.input("<CR>")

    with start(*plugins) as editor:
        editor.command("edit rule.md")
        editor.command(f"normal! o{TYPED}")
        editor.command("CodeCompanionChat")
        assert editor.exec_lua(CONNECTED)
        send("Mend it")
        # The folder, an edit of each file, and the command.
        for prompt_start in (
            "Edit: Trust ",
            "edits for `calc.py`",
            "edits for `rule.md`",
            "Execute: Run ",
        ):
            wait_for_text(editor, "codecompanion", prompt_start)
            editor.input("g2")
        wait_for_text(editor, "codecompanion", "It is mended.")
        assert is_done(workspace)
        # It reads the disk and writes the buffer, so the daemon leaves its buffers alone.
        assert (workspace.project / "rule.md").read_text() == "Rule: 30 %\n"
        assert editor.exec_lua(BUFFER) == [["Rule: 10 %", TYPED], True]
        send("And more")
        wait_for_text(editor, "codecompanion", "Never")
        editor.input("q")
        send("Are you there?")
        wait_for_text(editor, "codecompanion", "I am here.")

    with start(*plugins) as editor:
        editor.command("CodeCompanionChat")
        assert editor.exec_lua(CONNECTED)
        assert len(editor.exec_lua(RESUME)) == 1
        wait_for_text(editor, "codecompanion", "It is mended.")
        send("And now?")
        wait_for_text(editor, "codecompanion", "Still here.")


def test_agentic_does_a_whole_task(workspace: Workspace, start: Start) -> None:
    twice = {"path": "calc.py", "old_text": "Add two", "new_text": "Sum two"}
    task(workspace, call("edit", command="replace", **twice))

    def send(words: str) -> None:
        editor.exec_lua(TO_CHAT, "AgenticInput")
        editor.input(f"<Esc>i{words}<C-s>")

    with start("agentic", "agentic.nvim") as editor:
        editor.command("edit rule.md")
        editor.command(f"normal! o{TYPED}")
        # Nothing makes this Neovim reload what is edited in the meantime.
        editor.command("split calc.py")
        editor.exec_lua("require('agentic').open()")
        wait_for_text(editor, "AgenticChat", "# Agentic")
        session = editor.exec_lua(SESSION)
        send("Mend it")
        # The folder, the edits and the command; the file with unsaved text is not edited at all.
        for prompt_start, key in (("Trust for now", "1"), ("Allow once", "2"), ("Run touch", "1")):
            wait_for_text(editor, "AgenticChat", prompt_start)
            wait_for_text(editor, "AgenticChat", "Waiting for your response")
            editor.exec_lua(TO_CHAT, "AgenticChat")
            editor.input(f"<Esc>{key}")
        wait_for_text(editor, "AgenticChat", "It is mended.")
        assert is_done(workspace)
        assert "Sum two" in workspace.file.read_text()
        assert TYPED in str(workspace.llm.requests[1].body["messages"][-1]["content"])
        assert (workspace.project / "rule.md").read_text() == "Rule: 10 %\n"
        assert editor.exec_lua(BUFFER) == [["Rule: 10 %", TYPED], True]
        send("And more")
        wait_for_text(editor, "AgenticChat", "Never")
        editor.exec_lua(STOP, session)
        send("Are you there?")
        wait_for_text(editor, "AgenticChat", "I am here.")

    with start("agentic", "agentic.nvim") as editor:
        editor.exec_lua("require('agentic').open()")
        wait_for_text(editor, "AgenticChat", "# Agentic")
        editor.exec_lua(LOAD, session)
        wait_for_text(editor, "AgenticChat", "It is mended.")
        wait_for_text(editor, "AgenticChat", "Never")
