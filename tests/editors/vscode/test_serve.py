"""Windows that attach to `oh-daemon serve`."""

import os
import subprocess
import sys
from collections.abc import Generator

import pytest
from code_server import Server
from fake_llm import say
from playwright.async_api import expect
from window import VSCode


@pytest.fixture
def served(server: Server) -> Generator[None]:
    server.settings = {"oh.attach": "auto"}
    argv = (sys.executable, "-m", "oh_daemon", "serve")
    environment = {**os.environ, **server.environment}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"serves clients" in process.stdout.readline()
        yield
        process.terminate()


@pytest.mark.full
@pytest.mark.usefixtures("served")
async def test_two_windows_work_on_one_conversation(vscode: VSCode) -> None:
    vscode.script(say("One."), say("Two."))
    await vscode.hold(("from the first", "One."))
    other_window = await vscode.another_window()
    await other_window.open()
    await other_window.page.get_by_role("button", name="Show Conversations").click()
    await other_window.panel.locator(".row").click()
    await other_window.say("from the other")
    for window in (vscode, other_window):
        await window.expect_answers("One.", "Two.")
        await expect(window.panel.locator(".user")).to_have_text(
            ["from the first", "from the other"]
        )
