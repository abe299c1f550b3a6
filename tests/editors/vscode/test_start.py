"""From nothing to a working agent: the daemon found, installed, restarted; keys; first steps."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import psutil
import pytest
from fake_llm import call, say
from playwright.async_api import expect
from window import Server, VSCode

KEY = "sk-test-abcdefghijklmnop123456"
INSTALL_MS = 600_000
"""Sixty packages from an index, on a slow machine."""


@pytest.fixture
def bare_machine(server: Server) -> None:
    """Nothing but the system's own programs: no setting, and no daemon on the PATH."""
    server.settings = {"oh.daemon.command": []}
    server.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"


@pytest.mark.usefixtures("bare_machine")
async def test_the_daemon_that_the_extension_brings_is_installed_when_the_user_agrees(
    vscode: VSCode, server: Server
) -> None:
    vscode.script(say("Here I am."))
    await vscode.open()
    problem = vscode.panel.get_by_role("alert")
    await expect(problem).to_contain_text("not installed")
    await problem.get_by_role("button", name="Install").click()
    await vscode.page.get_by_role("dialog").get_by_role("button", name="Install").click()
    await expect(vscode.panel.get_by_role("heading", name="What shall we do?")).to_be_visible(
        timeout=INSTALL_MS
    )
    await vscode.say("are you there?")
    await expect(vscode.panel.locator(".agent")).to_have_text("Here I am.")
    daemons = [process.exe() for process in daemons_of(server)]
    assert daemons
    made = [p.parent.name for p in server.home.rglob("complete") if "oh-daemon" in str(p)]
    assert len(made) == 1


@pytest.fixture
def starts(server: Server, tmp_path: Path) -> Path:
    """A pipe in which each daemon says its number before it begins."""
    os.mkfifo(tmp_path / "started")
    tells = f"echo $$ > {shlex.quote(str(tmp_path / 'started'))}"
    daemon = f"{tells}; exec {shlex.quote(sys.executable)} -m oh_daemon"
    server.settings = {"oh.daemon.command": ["bash", "-c", f'{daemon} "$@"', "daemon"]}
    return tmp_path / "started"


async def test_a_daemon_that_keeps_dying_is_restarted_three_times_then_the_user_is_told(
    starts: Path, vscode: VSCode
) -> None:
    opening = asyncio.create_task(vscode.open())
    for _ in range(4):
        pid = int(await asyncio.to_thread(starts.read_text))
        await opening
        # An answer from this daemon: it has started, and may be restarted.
        await vscode.page.get_by_role("button", name="Show Conversations").click()
        await expect(vscode.panel.locator(".conversations")).to_have_text("No conversations yet.")
        await vscode.panel.get_by_role("button", name="Back").press("Enter")
        psutil.Process(pid).kill()
    problem = vscode.panel.get_by_role("alert")
    await expect(problem).to_contain_text("ended 4 times within a minute")
    await expect(vscode.page.get_by_role("button", name="The daemon does not run")).to_be_visible()

    await problem.get_by_role("button", name="Try again").click()
    await asyncio.to_thread(starts.read_text)
    await expect(vscode.panel.get_by_role("heading", name="What shall we do?")).to_be_visible()


async def test_what_the_daemon_said_last_is_shown_when_it_cannot_start(
    server: Server, vscode_without_daemon: VSCode
) -> None:
    script = "import sys; sys.exit('no module named sunshine')"
    server.write_settings({"oh.daemon.command": [sys.executable, "-c", script]})
    await vscode_without_daemon.open()
    problem = vscode_without_daemon.panel.get_by_role("alert")
    await expect(problem.locator("pre")).to_have_text("no module named sunshine")
    await expect(problem.get_by_role("button", name="Log")).to_be_visible()


async def test_a_key_reaches_the_daemon_without_its_environment_and_again_after_a_restart(
    server: Server, vscode_without_model: VSCode
) -> None:
    vscode = vscode_without_model
    await vscode.open()
    await vscode.panel.get_by_role("button", name="Set an API key").click()
    await vscode.page.locator(".quick-input-widget input").first.fill("OPENAI")
    await expect(vscode.page.locator(".quick-input-list .monaco-list-row")).to_have_count(1)
    await vscode.page.locator(".quick-input-widget input").first.press("Enter")
    secret = vscode.page.locator('.quick-input-widget input[type="password"]')
    await secret.fill("short")
    await expect(vscode.page.locator(".quick-input-message")).to_contain_text("longer")
    await secret.fill(KEY)
    await secret.press("Enter")
    model = vscode.panel.locator('select[data-option="model"]')
    await expect(model).to_have_value("openai/gpt-5")
    before = daemons_of(server)
    await vscode.run_command("oh: Restart the Daemon")
    await asyncio.to_thread(psutil.wait_procs, before, 60)
    await expect(model).to_have_value("openai/gpt-5")
    assert daemons_of(server)
    assert not [p for p in daemons_of(server) if KEY in str(p.environ())]


async def test_the_walkthrough_ticks_off_each_step_that_is_done(vscode: VSCode) -> None:
    vscode.script(call("terminal", command="touch made", security_risk="low"), say("Made."))
    await vscode.open()
    await vscode.run_command("oh: Get Started")
    steps = vscode.page.locator(".getting-started-step")
    await expect(steps).to_have_count(4)
    done = vscode.page.locator(".getting-started-step .codicon-getting-started-step-checked")
    await vscode.say("make it")
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    await expect(done.and_(vscode.page.locator(":visible"))).to_have_count(4)


def daemons_of(server: Server) -> list[psutil.Process]:
    processes = psutil.Process(server.process.pid).children(recursive=True)
    return [each for each in processes if "oh_daemon" in each.cmdline()]
