"""The plugin in a real terminal, with real keys: tmux is the screen."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from fake_llm import call, hold_step, say
from neovim_editor import DAEMON, PLUGIN, QUICK_START, find_nvim
from neovim_workspace import Workspace

_DEADLINE_S = 180


class Terminal:
    """A tmux server of its own with Neovim in its only pane."""

    def __init__(self, workspace: Workspace, socket: Path, init: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        variables = [f"{name}={value}" for name, value in workspace.environment.items()]
        start = [str(find_nvim()), *QUICK_START, "-u", str(init), "calc.py"]
        nvim = ["env", *variables, *start]
        size = ["-x", "100", "-y", "30", "-c", str(workspace.project)]
        self._run("new-session", "-d", *size, *nvim)
        [server] = self._run("display-message", "-p", "#{pid}").split()
        self.process = psutil.Process(int(server))

    def keys(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(lines))

    def wait_for_end(self) -> None:
        """Wait for tmux's server, which ends with Neovim, its only program."""
        self.process.wait(_DEADLINE_S)

    def wait_for(self, text: str) -> str:
        """Wait until the screen shows this text; return the screen."""
        return self.wait_until(lambda screen: text in screen, text)

    def wait_until(self, condition: Callable[[str], bool], meaning: str) -> str:
        deadline = time.monotonic() + _DEADLINE_S
        screen = ""
        while time.monotonic() < deadline:
            screen = self._run("capture-pane", "-p")
            if condition(screen):
                return screen
        raise AssertionError(f"never came: {meaning}\n{screen}")

    def _run(self, *arguments: str) -> str:
        outcome = subprocess.run(
            [*self._tmux, *arguments], check=True, capture_output=True, text=True
        )
        return outcome.stdout


def separators(screen: str) -> set[int]:
    return {line.index("│") for line in screen.splitlines() if "│" in line}


@pytest.fixture
def terminal(workspace: Workspace, tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    init = tmp_path / "init.lua"
    command = "{" + ", ".join(f"[[{word}]]" for word in DAEMON) + "}"
    options = f"vim.g.oh = {{ cmd = {command}, trust = true, chat = {{ inert_ms = 0 }} }}"
    init.write_text(f"vim.opt.rtp:prepend([[{PLUGIN}]])\n{options}\n", "utf-8")
    terminal = Terminal(workspace, tmp_path / "tmux", init)
    yield terminal
    if terminal.process.is_running():
        terminal.process.terminate()
        terminal.process.wait(20)


def test_a_change_is_typed_allowed_by_key_and_left_behind_cleanly(
    workspace: Workspace, terminal: Terminal
) -> None:
    workspace.script(
        call("edit", command="create", path="other.py", text="x = 1\n"),
        say("There it is."),
        call("terminal", command="echo begun; sleep 300", security_risk="medium", timeout_s=600),
    )
    terminal.wait_for("def add(a, b):")
    terminal.keys(":Oh", "Enter")
    terminal.wait_for("Write what you want done below.")
    terminal.keys("make another file", "Escape", "Enter")
    terminal.wait_for("? Allow: Create other.py")
    terminal.wait_for("1 to allow")
    terminal.keys("C-w", "k", "a")
    assert "✓ Create other.py" in terminal.wait_for("There it is.")
    assert (workspace.project / "other.py").read_text("utf-8") == "x = 1\n"

    terminal.keys("i", "and sleep", "C-s")
    terminal.wait_for("? Allow: Run echo begun")
    terminal.keys("Escape", ":Oh approve", "Enter")
    terminal.wait_for("● Run echo begun")
    terminal.wait_until(lambda screen: ":Oh approve" not in screen, "no command any more")
    left_behind = [terminal.process, *terminal.process.children(recursive=True)]
    assert len(left_behind) > 3
    terminal.keys(":qa!", "Enter")
    _, survivors = psutil.wait_procs(left_behind, timeout=60)
    assert survivors == []


def test_the_chat_keeps_its_part_of_a_screen_that_becomes_smaller(
    workspace: Workspace, terminal: Terminal
) -> None:
    gate = threading.Event()
    workspace.script(
        hold_step(say("one two three four five six seven eight nine ten", n_chunks=10), gate)
    )
    terminal.wait_for("def add(a, b):")
    terminal.keys(":Oh count", "Enter")
    terminal.wait_for("running")
    terminal.resize(60, 20)
    terminal.wait_until(lambda screen: separators(screen) == {60 - 30 - 1}, "the smaller chat")
    gate.set()
    screen = terminal.wait_for("ten")
    assert "def add(a, b):" in screen, "the code is still there"
    assert separators(screen) == {60 - 30 - 1}
    # A message that does not fit is cut, so that Neovim does not wait for a key.
    # Without a line for messages, it covers the status line, and Neovim does not wait either.
    for cmdheight in (1, 0):
        terminal.keys(f":set cmdheight={cmdheight}", "Enter")
        terminal.wait_until(lambda screen: "oh: the" not in screen, "no message")
        terminal.keys(":Oh diff", "Enter")
        screen = terminal.wait_until(lambda screen: "…" in screen.splitlines()[-1], "the message")
        assert screen.splitlines()[-1].startswith("oh: the agent has edited no file")
    terminal.keys(":qa", "Enter")
    terminal.wait_for_end()
