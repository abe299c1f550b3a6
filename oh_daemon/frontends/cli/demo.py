"""`oh-daemon demo`: the real agent at work on a small project with a failing test.

All of it is what an editor's user gets: a daemon on stdio, open buffers, real commands. If no
model is set up, a script answers in its place, and every surface says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path

from rich.console import Console
from rich.text import Text

from oh_daemon.features.export.event_lines import EventPrinter, render_usage
from oh_daemon.features.models.logins import Logins
from oh_daemon.features.models.models import Models
from oh_daemon.features.settings.places import Places
from oh_daemon.features.settings.sources import SettingsSources
from oh_daemon.frontends.cli.demo_editor import DemoEditor
from oh_daemon.kernel.ports import Json
from oh_daemon.protocol.errors import InvalidParamsError
from oh_daemon.system.spawner import Spawner

_TASK = (
    "The test of this project fails. Make it pass: the code must follow RULES.md, which I am just "
    "editing. Run the tests with `python3 run_tests.py`, before and after."
)
_OLD_RULE, _NEW_RULE = "10 % off", "15 % off"


def run_demo(target_folder: Path | None) -> int:
    """Return 0 when in the end the test is green and both buffers are as they should be."""
    console = Console(highlight=False)
    folder = (target_folder or Path(tempfile.mkdtemp(prefix="oh-daemon-demo-")) / "shop").absolute()
    _copy_project(folder)
    return _play(folder, console)


def _copy_project(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as exc:
        message = f"cannot make {str(folder)!r}: {exc.strerror}; --keep takes a new folder"
        raise InvalidParamsError(message) from exc
    with as_file(files("oh_daemon.frontends.cli").joinpath("demo_project")) as project:
        for source in project.iterdir():
            if source.is_file():
                shutil.copyfile(source, folder / source.name)


def _play(folder: Path, console: Console) -> int:
    environment = dict(os.environ)
    places = Places(environment)
    sources, logins = SettingsSources(environment, places.settings_file), Logins(places.logins_file)
    models = Models(lambda: sources.merged().settings, environment, logins=logins)
    model = models.default_name() or "demo"
    editor = DemoEditor(folder, environment)
    _introduce(console, folder, model, is_paid=not models.costs_nothing(model))
    editor.start()
    code = editor.open(folder / "prices.py")
    rules = folder / "RULES.md"
    unsaved_text = rules.read_text("utf-8").replace(_OLD_RULE, _NEW_RULE)
    rule = editor.open(rules, text=unsaved_text)
    conversation, turn = _run_task(editor, model, console)
    with closing(Spawner()) as spawner:
        test_run = spawner.run(["python3", "run_tests.py"], cwd=folder, timeout_s=60)
    checks = {
        "the test is green": test_run.exit_code == 0,
        "prices.py is saved as the editor shows it": code.is_saved,
        "RULES.md still has your unsaved change": rule.text == unsaved_text and not rule.is_saved,
        "the daemon ended cleanly": editor.daemon.close(),
    }
    console.print()
    for check_title, is_met in checks.items():
        console.print(
            Text("✓ " if is_met else "✗ ", "green" if is_met else "red").append(check_title, "")
        )
    _say_where(console, folder, conversation, turn)
    return 0 if all(checks.values()) else 1


def _introduce(console: Console, folder: Path, model: str, *, is_paid: bool) -> None:
    console.print(Text("oh-daemon demo", "bold"))
    console.print(f"Project: {folder}, a new folder", markup=False, soft_wrap=True)
    cost = "costs money; the sum is shown at the end" if is_paid else "costs nothing"
    about_model = (
        "demo model: a script, no AI. Everything else is real."
        if model == "demo"
        else f"{model}, since it is set up on this machine. This run {cost}. "
        "For the script without AI: OH_DAEMON_MODEL=demo oh-daemon demo"
    )
    about_files = (
        "prices.py open, and RULES.md with a change that is not saved: the rule now says "
        f"{_NEW_RULE}, on disk it says {_OLD_RULE}."
    )
    for text in (
        f"Model: {about_model}",
        "Approvals: the demo answers yes to each one, and commands run with your permissions.",
        f"Your editor has {about_files}",
    ):
        console.print(text, markup=False, soft_wrap=not console.is_terminal)


def _run_task(editor: DemoEditor, model: str, console: Console) -> tuple[str, Json]:
    """Send the task and print what happens; returns the conversation's id and the ended turn."""
    content = [{"type": "text", "text": _TASK}]
    params = {"content": content, "options": {"model": model}}
    conversation_id = editor.daemon.request("conversation/start", params)["conversation"]["id"]
    printer = EventPrinter(console)
    for params in editor.daemon.events():
        printer.print(params)
        event = params["event"]
        if event["type"] in {"turn.completed", "turn.paused"}:
            return conversation_id, event.get("turn", {"nSteps": 0})
    return conversation_id, {"nSteps": 0}


def _say_where(console: Console, folder: Path, conversation: str, turn: Json) -> None:
    log = folder / ".openhands" / "conversations" / conversation / "events.jsonl"
    show = shlex.join([*_program(), "log", conversation[:12], "-w", str(folder)])
    for line in (f"\nUsed:   {render_usage(turn)}", f"Log:    {log}", f"Show:   {show}"):
        console.print(line, markup=False, soft_wrap=True)


def _program() -> list[str]:
    """Return the command that starts this program again, from any folder."""
    script = Path(sys.argv[0]).absolute()
    if script.name != "oh-daemon":
        return [sys.executable, "-P", "-m", "oh_daemon"]
    return [script.name if shutil.which(script.name) == str(script) else str(script)]
