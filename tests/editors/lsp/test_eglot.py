"""Emacs with eglot and nothing but the recipe of docs/lsp.md."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

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


def open_when(path: Path, gate: threading.Event) -> None:
    """Open the gate as soon as there is such a file."""
    while not path.exists():
        threading.Event().wait(0.02)
    gate.set()
