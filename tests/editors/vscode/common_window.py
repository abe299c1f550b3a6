"""One window for all tests of a worker; each test finds it as if it had just been opened.

What a test leaves is cleared after it. If a test closed the window, failed, or left something
that cannot be cleared, the next test gets a new window, so that none suffers from another.
A test that needs other settings, or leaves rules or answers with the daemon, calls `set_up` and
gets a daemon with a home of its own. A test that leaves something that this module does not clear
(a key, another folder) belongs in a module without the mark.

The daemons of this window are forked; those of all other windows start as a user's do.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import forked_daemons
from code_server import (
    CLEAR_KEY,
    CLEARED_KEY,
    N_CHANGES,
    WAIT_MS,
    Server,
    install_extension,
)
from fake_llm import FakeLLM
from playwright.async_api import Locator, expect
from window import VSCode, opened_window

CALC = "def add(a, b):\n    return a - b\n"
FIRST_OPTIONS = {"model": "openai/fake", "mode": "ask", "approval": "askRisky"}
PATCHES = "a-model-that-edits-by-patch"
"""A model that is offered `apply_patch`, for a conversation that has started."""
MODEL_OF_PATCHES = {"model": "openai/fake", "llm": {"editsByPatch": True}}
PRICED = "a-model-with-a-price"
MODEL_WITH_PRICE = {
    "model": "openai/fake",
    "llm": {"contextWindow": 10_000, "inputCostPerToken": 0.001, "outputCostPerToken": 0.001},
}
THINKING = "a-model-that-thinks"
MODEL_WITH_EFFORTS = {"model": "openai/gpt-5.1"}
COMMAND = "oh.daemon.command"
PYTHON_CHOSEN = "chosen-python"
"""A file in the server's home: the Python that the window's Python extension says is chosen."""
NAME_OF_NONE = "no-conversation-has-this-name"
PROFILES = {PATCHES: MODEL_OF_PATCHES, PRICED: MODEL_WITH_PRICE, THINKING: MODEL_WITH_EFFORTS}
N_CLEARINGS = 30
_marks = map(str, itertools.count())


@dataclass
class CommonWindow:
    """Opening a window with its daemon takes ten seconds, clearing it takes one."""

    make_folder: Callable[[], Path]
    extensions: Path
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    vscode: VSCode | None = None
    width: float = 0
    """The width of the side bar when the window opened."""

    async def lend(self) -> VSCode:
        if self.vscode is None:
            folder = self.make_folder()
            llm = self.stack.enter_context(FakeLLM())
            server = Server.with_model(folder / "home", self.extensions, llm.url)
            install_python(server)
            server.settings = {
                "ohDaemon.profiles": PROFILES,
                COMMAND: forked_daemons.command(),
                "oh.notify": "system",
            }
            window = opened_window(server, make_project(folder), llm)
            self.vscode = await self.stack.enter_async_context(window)
            await self.vscode.open()
            self.width = await self.vscode.width()
        return self.vscode

    async def take_back(self, *, has_passed: bool) -> None:
        is_clear = False
        try:
            if has_passed and self.vscode:
                await self.vscode.open()
                await clear(self.vscode)
                await restore_settings(self.vscode)
                await restore_looks(self.vscode, self.width)
                is_clear = not self.vscode.complaints
        finally:
            if not is_clear:
                await self.close()

    async def close(self) -> None:
        self.vscode = None
        await self.stack.aclose()


PYTHON_EXTENSION = {
    "name": "python",
    "publisher": "ms-python",
    "version": "2026.1.0",
    "engines": {"vscode": "^1.91.0"},
    "main": "./extension.js",
    "contributes": {"commands": [{"command": "python.fail", "title": "Python: Fail or Forget"}]},
}
PYTHON_API = """exports.activate = () => {
  require("vscode").commands.registerCommand("python.fail", failOrForget);
  return {environments: {getActiveEnvironmentPath: () => ({
    id: "env", path: require("node:fs").readFileSync(%s, "utf-8"),
  })}};
};
let controller;
function failOrForget() {
  if (controller) {
    controller.dispose();
    controller = undefined;
    return;
  }
  const {tests, workspace, Location, Range, TestMessage, TestRunRequest, Uri} = require("vscode");
  controller = tests.createTestController("python", "Python");
  const uri = Uri.joinPath(workspace.workspaceFolders[0].uri, "calc.py");
  const [file, test] = [["calc", "test_calc"], ["add", "test_add"]].map(([id, label]) =>
    controller.createTestItem(id, label, uri));
  test.range = new Range(1, 0, 1, 16);
  controller.items.add(file);
  file.children.add(test);
  const run = controller.createTestRun(new TestRunRequest([test]));
  run.failed(test, [1, 2].map((n) => {
    const message = TestMessage.diff(`assert add(${n}, ${n}) == ${2 * n}`, `${2 * n}`, "0");
    message.location = new Location(uri, test.range);
    return message;
  }));
  run.end();
}"""


NOTIFIER = """#!/bin/sh
printf '%s\\n' "$@" > "$HOME/notices"
"""


def install_python(server: Server) -> None:
    """Install a Python extension, a notifier, and a shell that has our PATH."""
    notifier = server.home / "bin/notify-send"
    notifier.parent.mkdir(parents=True)
    notifier.write_text(NOTIFIER)
    notifier.chmod(0o755)
    server.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    # VS Code goes by what a person's shell says.
    path = f'export PATH="{notifier.parent}:$PATH:{Path(sys.executable).parent}"\n'
    (server.home / ".profile").write_text(path)
    interpreter_file = server.home / PYTHON_CHOSEN
    interpreter_file.touch()
    package = server.home.with_name("python.vsix")
    with zipfile.ZipFile(package, "w") as file:
        file.writestr("extension/package.json", json.dumps(PYTHON_EXTENSION))
        file.writestr("extension/extension.js", PYTHON_API % json.dumps(str(interpreter_file)))
    extensions = server.home.with_name("extensions")
    shutil.copytree(server.extensions, extensions)
    server.extensions = extensions
    install_extension(server.home, extensions, package)


def make_project(folder: Path) -> Path:
    project = folder / "shop"
    project.mkdir()
    (project / "calc.py").write_text(CALC)
    return project


async def set_up(vscode: VSCode, settings: Mapping[str, object], *environment: str) -> None:
    """Replace the daemon by one that has these settings, and a home where nothing is known yet.

    The environment is for `env`, which starts it.
    """
    mark = next(_marks)
    home = f"OH_DAEMON_HOME={vscode.server.home / 'oh'}-{mark}"
    command = ["env", home, *environment, *forked_daemons.marked_pids(mark)]
    await _change(vscode, mark, {**vscode.server.settings, **settings, COMMAND: command})


async def restore_settings(vscode: VSCode) -> None:
    """Go back to the daemon that has the window's own settings and home, if the test left it."""
    server = vscode.server
    if server.written[COMMAND] != server.settings[COMMAND]:
        mark = next(_marks)
        server.settings[COMMAND] = forked_daemons.marked_pids(mark)
        await _change(vscode, mark, server.settings)


async def _change(vscode: VSCode, mark: str, settings: dict[str, object]) -> None:
    """Write settings until the daemon starts that they name: VS Code may miss a change."""
    for _ in range(N_CHANGES):
        vscode.server.write_settings(settings)
        within_s = WAIT_MS / N_CHANGES / 1000
        if await asyncio.to_thread(forked_daemons.has_started, mark, within_s):
            return
    raise AssertionError(f"VS Code did not hear of {settings}")


async def clear(vscode: VSCode) -> None:
    await clear_workbench(vscode)
    await vscode.show_agent()
    await stop_turn(vscode)
    await hide_usage(vscode)
    await delete_conversations(vscode)
    await clear_draft(vscode)
    restore_files(vscode.project)
    vscode.llm.forget()


async def clear_workbench(vscode: VSCode) -> None:
    """Close all editors, terminals and notifications, whatever VS Code itself has shown."""
    await expect(vscode.page.locator(".quick-input-widget")).to_be_hidden()
    leftovers = vscode.page.locator(".tab, .xterm, .notification-toast")
    if await leftovers.count() == 0:
        return
    await vscode.page.keyboard.press(CLEAR_KEY)
    await vscode.page.locator(".tab", has_text="keybindings.json").wait_for()
    for _ in range(N_CLEARINGS):
        await vscode.page.keyboard.press(CLEARED_KEY)
        with contextlib.suppress(AssertionError):
            await expect(leftovers).to_have_count(0, timeout=WAIT_MS / N_CLEARINGS)
            return
    raise AssertionError(f"still there: {await leftovers.all_text_contents()}")


async def stop_turn(vscode: VSCode) -> None:
    await vscode.input.press("Escape")
    await expect(vscode.panel.get_by_label("Stop", exact=True)).to_be_hidden()


async def hide_usage(vscode: VSCode) -> None:
    usage = vscode.panel.get_by_role("group", name="What this conversation took")
    if await usage.is_visible():
        await vscode.panel.locator(".usage").click()
        await expect(usage).to_be_hidden()


async def delete_conversations(vscode: VSCode) -> None:
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    # The rows may be out of date until the list has answered twice.
    search = vscode.panel.get_by_label("Search conversations")
    conversation_list = vscode.panel.locator(".conversations")
    await search.fill(NAME_OF_NONE)
    await expect(conversation_list).to_have_text("Nothing found.")
    await search.fill("")
    await expect(conversation_list).not_to_have_text("Nothing found.")
    rows = vscode.panel.locator(".conversation")
    for position in reversed(range(await rows.count())):
        await delete_first(vscode, rows, position)
    await expect(conversation_list).to_have_text("No conversations yet.")
    idle = vscode.page.get_by_role("button", name="Open the agent panel.")
    await expect(idle).to_be_visible()


async def delete_first(vscode: VSCode, rows: Locator, n_left: int) -> None:
    """Delete the first of the rows, also if the daemon from before a reload still holds it."""
    for _ in range(N_CLEARINGS):
        await rows.first.locator(".row").press("Delete")
        await vscode.panel.get_by_role("button", name="Delete", exact=True).press("Enter")
        with contextlib.suppress(AssertionError):
            await expect(rows).to_have_count(n_left, timeout=WAIT_MS / N_CLEARINGS)
            return
    raise AssertionError(f"still there: {await rows.all_text_contents()}")


async def clear_draft(vscode: VSCode) -> None:
    await vscode.start_anew()
    for option, value in FIRST_OPTIONS.items():
        option_button = vscode.panel.locator(f'[data-option="{option}"]')
        if await option_button.get_attribute("data-value") != value:
            await vscode.choose(option, value)
    attachments = vscode.panel.locator(".attached").get_by_role("button", name="Remove", exact=True)
    for position in reversed(range(await attachments.count())):
        await attachments.first.click()
        await expect(attachments).to_have_count(position)
    await vscode.input.fill("")


async def restore_looks(vscode: VSCode, width: float) -> None:
    dark = vscode.panel.locator('body[data-vscode-theme-kind="vscode-dark"]')
    if not await dark.is_visible():
        await vscode.server.change_settings(vscode.server.settings, dark)
    if abs(await vscode.width() - width) > 1:
        await vscode.set_width(width)


def restore_files(project: Path) -> None:
    """Restore all but the agent's own folder, which its daemon is using."""
    for each in project.iterdir():
        if each.is_dir() and each.name != ".openhands":
            shutil.rmtree(each)
        elif each.is_file() and each.name != "calc.py":
            each.unlink()
    calc = project / "calc.py"
    if not calc.exists() or calc.read_text() != CALC:
        calc.write_text(CALC)
