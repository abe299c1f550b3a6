"""Emacs with eglot and nothing but the recipe of docs/lsp.md."""

import os
import pty
import select
import shutil
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import forked_daemons
import pytest
from fake_llm import call, calls, hold_step, say
from neovim_workspace import workspace_in
from recipes import recipe

EMACS = ("emacs", "--batch", "-f", "package-initialize", "-l", "eglot")
TASK = Path(__file__).with_name("task.el")
PLAN = [
    {"text": "Look", "status": "completed"},
    {"text": "Mend", "status": "in_progress"},
]


def test_a_task_with_approval_and_review_is_done_in_emacs(tmp_path: Path) -> None:
    if shutil.which("emacs") is None or subprocess.run(EMACS, check=False).returncode:
        pytest.skip("no Emacs with eglot: Debian has emacs-nox and elpa-eglot")
    daemon = [*forked_daemons.command(), "--stdio"]
    gate = threading.Event()
    with workspace_in(tmp_path, daemon) as workspace:
        init = tmp_path / "init.el"
        init.write_text(recipe("eglot", daemon), "utf-8")
        edit = {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
        workspace.script(
            calls(
                say("Let me look.\n\n"),
                call("edit", command="view", path="calc.py"),
                call("todo", tasks=PLAN),
            ),
            hold_step(call("edit", command="replace", **edit), gate),
            say("It is mended."),
        )
        emacs = subprocess.Popen(
            [*EMACS, "-l", str(init), "-l", str(TASK)],
            cwd=workspace.project,
            env={**os.environ, **workspace.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        answers = "Trust this folder\nAllow once\nKeep this change\n"
        threading.Thread(
            target=open_when, args=(workspace.project / "typed", gate), daemon=True
        ).start()
        output, _ = emacs.communicate(answers, timeout=180)
        assert emacs.returncode == 0, output
        chat = (workspace.project / "chat.txt").read_text("utf-8")
        review = (workspace.project / "review.txt").read_text("utf-8")
    assert "Let me look.\n\n- " in chat, chat
    assert "- `View calc.py`\n" in chat, chat
    assert "- [x] Look\n- [-] Mend\n" in chat
    assert "> **May it?** " in chat
    assert "It is mended.\n\n- [calc.py](../../calc.py) +1 −1\n\n*completed" in chat
    assert chat.endswith("## You\n\nThanks"), chat
    assert "a + b" in workspace.file.read_text("utf-8")
    assert "kept" in review


@pytest.mark.parametrize("reports_at_once", [True, pytest.param(False, marks=pytest.mark.full)])
def test_edit_approved_with_enter_in_a_terminal_never_fails(
    tmp_path: Path, *, reports_at_once: bool
) -> None:
    """After an answer Emacs mostly does not count as idle, so eglot's timer sends no change."""
    if shutil.which("emacs") is None or subprocess.run(EMACS, check=False).returncode:
        pytest.skip("no Emacs with eglot: Debian has emacs-nox and elpa-eglot")
    daemon = [*forked_daemons.command(), "--stdio"]
    with workspace_in(tmp_path, daemon) as project:
        init = tmp_path / "init.el"
        without = "(advice-remove 'eglot--apply-workspace-edit #'oh-report-changes)"
        init.write_text(
            recipe("eglot", daemon)
            + "(setq make-backup-files nil create-lockfiles nil eglot-connect-timeout 120)\n"
            + ("" if reports_at_once else without),
            "utf-8",
        )
        edit = {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
        project.script(
            call("edit", command="view", path="calc.py"),
            call("edit", command="replace", **edit),
            say("It is mended."),
        )
        with TerminalEmacs(project.project, project.environment, init) as emacs:
            emacs.type("# not saved\r")
            emacs.type("\033xeglot\r", "Connected")
            emacs.type("\033xoh-chat\r", "## You")
            emacs.type("Fix it\033xoh-send\r", "Trust for now")
            emacs.type("\r", "Allow once")
            emacs.idle()
            emacs.type("\r")
            project.llm.wait_for_requests(3)
        result = project.tool_results()[1]
    assert result.startswith("Edited calc.py"), result
    assert not (reports_at_once and "has not sent" in result)


class TerminalEmacs:
    """Emacs in a terminal, with real timers; whatever it shows is only searched for words."""

    def __init__(self, folder: Path, environment: Mapping[str, str], init: Path) -> None:
        self._terminal, emacs_end = pty.openpty()
        tty.setraw(emacs_end)
        termios.tcsetwinsize(emacs_end, (40, 120))
        self._screen = ""
        self._process = subprocess.Popen(
            # Emacs opens its controlling terminal.
            ["setsid", "--ctty", "emacs", "-nw", "-q", *EMACS[2:], "-l", str(init), "calc.py"],
            cwd=folder,
            env={**os.environ, **environment, "TERM": "xterm"},
            stdin=emacs_end,
            stdout=emacs_end,
            stderr=emacs_end,
        )
        os.close(emacs_end)

    def __enter__(self) -> Self:
        try:
            self._read_until("calc.py")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def type(self, keys: str, answer: str = "") -> None:
        """Type keys, and wait until these words are shown."""
        self._screen = ""
        os.write(self._terminal, keys.encode())
        self._read_until(answer)

    def idle(self) -> None:
        """Type nothing for longer than the 0.5 s after which eglot's user counts as idle."""
        deadline = time.monotonic() + 1.0
        while (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left_s)[0]:
                os.read(self._terminal, 1 << 16)

    def _read_until(self, words: str) -> None:
        deadline = time.monotonic() + 120
        while words not in self._screen:
            left_s = deadline - time.monotonic()
            assert select.select([self._terminal], [], [], max(0, left_s))[0], self._screen
            self._screen += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")


def open_when(path: Path, gate: threading.Event) -> None:
    """Open the gate as soon as there is such a file."""
    while not path.exists():
        threading.Event().wait(0.02)
    gate.set()
