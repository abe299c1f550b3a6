"""The daemon is found, restarted when it dies, and the user is told when it cannot start."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import forked_daemons
import psutil
import pytest
import pytest_asyncio
from code_server import RESTART_KEY, WAIT_MS
from common_window import COMMAND, PYTHON_CHOSEN
from fake_llm import say
from playwright.async_api import Locator, expect
from processes import argv
from window import VSCode

pytestmark = pytest.mark.one_window


@pytest_asyncio.fixture(loop_scope="session")
async def starts(vscode: VSCode, tmp_path: Path) -> AsyncGenerator[asyncio.StreamReader]:
    """Yield a pipe to which each daemon writes its process id before it starts."""
    pipe = tmp_path / "started"
    os.mkfifo(pipe)
    await vscode.open()
    await be_without_daemon(vscode)
    lines = asyncio.StreamReader()
    # Opened for reading and writing, so that the pipe does not end between two writers.
    with os.fdopen(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), file
        )
        # Forked, since only daemons that end within a minute are said to keep dying.
        start = f'echo $$ > {shlex.quote(str(pipe))}; exec "$@"'
        command = ["bash", "-c", start, "daemon", *forked_daemons.command()]
        vscode.server.write_settings({**vscode.server.settings, COMMAND: command})
        yield lines
        transport.close()


async def read_start(starts: asyncio.StreamReader) -> int:
    return int(await asyncio.wait_for(starts.readline(), WAIT_MS / 1000))


@pytest.mark.full
async def test_a_daemon_that_keeps_dying_is_restarted_three_times_then_the_user_is_told(
    starts: asyncio.StreamReader, vscode: VSCode
) -> None:
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    answers = {"nothing": "Nothing found.", "": "No conversations yet."}
    for query in [*answers, *answers]:
        pid = await read_start(starts)
        # An answer from this daemon: it has started, and may now be killed and restarted.
        await vscode.panel.get_by_label("Search conversations").fill(query)
        await expect(vscode.panel.locator(".conversations")).to_have_text(answers[query])
        psutil.Process(pid).kill()
    problem = vscode.panel.get_by_role("alert")
    await expect(problem).to_contain_text("ended 4 times in a row")
    await expect(
        vscode.page.get_by_role("button", name="The daemon is not running")
    ).to_be_visible()
    await expect(vscode.page.locator(".notification-toast")).to_have_count(0)

    await problem.get_by_role("button", name="Try again").click()
    await read_start(starts)
    await expect(problem).to_have_count(0)
    await vscode.start_anew()


@pytest.mark.full
async def test_a_daemon_that_cannot_start_says_so_and_starts_after_the_setting_is_mended(
    vscode: VSCode,
) -> None:
    await vscode.open()
    await be_without_daemon(vscode)
    problem = vscode.panel.get_by_role("alert")

    # A child that outlives the daemon writes when its pipe closes, after the daemon's end was seen.
    late = "import sys; sys.stdin.read(); sys.exit('no module named sunshine')"
    run = f"subprocess.Popen([sys.executable, '-c', {late!r}], stdin=pipe[0], stdout=-3)"
    script = f"import os, subprocess, sys; pipe = os.pipe(); {run}"
    last_words = problem.locator("pre", has_text=re.compile("^no module named sunshine$"))
    await vscode.server.change_settings({COMMAND: [sys.executable, "-c", script]}, last_words)
    await expect(problem.get_by_role("button", name="Log")).to_be_visible()

    await vscode.server.change_settings({}, welcome(vscode))
    await expect(problem).to_have_count(0)

    # Starts that overtake each other are no failure either.
    for _ in range(3):
        await vscode.page.keyboard.press(RESTART_KEY)
    vscode.script(say("Here."))
    await vscode.say("Are you there?")
    await vscode.expect_answers("Here.")


@pytest.mark.full
async def test_a_daemon_that_is_there_already_is_found_without_a_setting(vscode: VSCode) -> None:
    """By the Python extension, the Python of the window, and the PATH of the user's shell."""
    await vscode.open()
    # A folder's own modules are not the daemon, and do not run.
    impostor = vscode.project / "oh_daemon.py"
    impostor.write_text("raise SystemExit('I am the project.')\n")
    module, script = ["-P", "-m", "oh_daemon"], [str(Path(sys.executable).with_name("oh-daemon"))]
    window = {"python.defaultInterpreterPath": sys.executable}
    for interpreter, settings, actual_module in (
        (sys.executable, {}, module),
        ("", window, module),
        ("", {}, script),
    ):
        await be_without_daemon(vscode)
        (vscode.server.home / PYTHON_CHOSEN).write_text(interpreter)
        await vscode.server.change_settings({COMMAND: [], **settings}, welcome(vscode))
        assert argv(vscode.server.daemon())[1:] == [*actual_module, "--stdio"]
    impostor.unlink()
    await be_without_daemon(vscode)
    await vscode.server.change_settings({}, welcome(vscode))


@pytest.mark.full
async def test_the_agent_is_opened_on_another_machine_and_here_again(vscode: VSCode) -> None:
    await vscode.open()
    command = [sys.executable, "-m", "oh_daemon"]
    await vscode.server.change_settings({COMMAND: command}, welcome(vscode))
    path = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
    target = f"cmd:unshare --user --map-root-user --pid --fork --kill-child env {path}"
    for place, answer in ((target, "I am there."), ("", "I am here.")):
        await vscode.run_command("oh: Open Agent in Container or on Another Machine…")
        await vscode.page.get_by_placeholder("docker://CONTAINER").fill(place)
        await vscode.page.keyboard.press("Enter")
        vscode.script(say(answer))
        await vscode.say("Where are you?")
        await vscode.expect_answers(answer)
        above = [each.name() for each in vscode.server.daemon().parents()]
        assert ("unshare" in above) == bool(place)
        await vscode.start_anew()
    await vscode.server.change_settings({}, welcome(vscode))


async def be_without_daemon(vscode: VSCode) -> None:
    problem = vscode.panel.get_by_role("alert").filter(has_text="could not start")
    await vscode.server.change_settings({COMMAND: [str(vscode.project / "missing")]}, problem)


def welcome(vscode: VSCode) -> Locator:
    return vscode.panel.get_by_role("heading", name="What shall we do?")
