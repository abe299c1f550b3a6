"""How a question finds the user: a notification while the panel is hidden, never the focus."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from code_server import WAIT_MS
from fake_llm import call, hold_step, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

TOUCH = call("terminal", command="touch made", security_risk="low", summary="Make the file")

BEHIND = """(isBehind) => {
  if (isBehind) document.hasFocus = () => false;
  else delete document.hasFocus;
  window.dispatchEvent(new Event(isBehind ? "blur" : "focus"));
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""A browser without a screen has no window that another one could be in front of."""


async def test_a_question_while_the_panel_is_hidden_is_told_and_takes_no_focus(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(hold_step(TOUCH, gate), say("Made."))
    await vscode.open(file="calc.py")
    await vscode.say("make it")
    await vscode.expect_status("Working")
    await vscode.page.get_by_role("tab", name="Explorer").first.click()
    await vscode.type_in_editor("# one")
    gate.set()
    toast = vscode.page.locator(".notification-toast")
    await expect(toast).to_contain_text("The agent asks: Run touch made")
    await toast.hover()  # The toast stays while the pointer is on it.
    await vscode.page.keyboard.insert_text(" two")
    await vscode.expect_editor("# one two")
    await toast.get_by_role("button", name="Review").click()
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")


async def test_a_key_answers_only_what_the_panel_shows(vscode: VSCode) -> None:
    vscode.script(TOUCH, say("Nothing to do."), say("Made."))
    await vscode.open()
    await vscode.say("make it")
    await vscode.expect_status("Waits for you")
    # No notification repeats what is in sight.
    pending_button = vscode.page.get_by_role("button", name="An action waits for your approval.")
    await expect(pending_button).to_be_visible()
    await expect(vscode.page.locator(".notification-toast")).to_have_count(0)
    await vscode.start_anew()
    await vscode.say("something else")
    await expect(vscode.panel.locator(".agent")).to_have_text("Nothing to do.")
    elsewhere_notice = vscode.panel.locator(".elsewhere")
    await expect(elsewhere_notice).to_contain_text("“make it” waits for you")
    await expect(vscode.input).to_be_focused()
    # A hidden panel loses its page; the next one knows what waits too.
    await vscode.page.get_by_role("tab", name="Explorer").first.click()
    await expect(elsewhere_notice).to_be_hidden()
    await vscode.show_agent()
    await expect(elsewhere_notice).to_contain_text("“make it” waits for you")

    await vscode.page.keyboard.press("Control+Alt+Enter")
    await vscode.expect_answerable()
    await expect(elsewhere_notice).to_be_hidden()
    assert not (vscode.project / "made").exists()
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    assert (vscode.project / "made").exists()


@pytest.mark.full
async def test_the_system_tells_of_an_end_and_a_question_while_another_window_is_in_front(
    vscode: VSCode,
) -> None:
    vscode.script(say("All of it."), TOUCH, say("Well then."))
    pipe = vscode.server.home / "notices"
    os.mkfifo(pipe)
    await vscode.open()
    behind = vscode.page.locator(".part.titlebar.inactive")
    await vscode.page.evaluate(BEHIND, arg=True)
    await behind.wait_for()
    await vscode.say("one <b>")
    assert (await read_lines(pipe))[-2:] == ["The agent is done", "one &lt;b&gt;"]
    await vscode.start_anew()
    await vscode.say("make it")
    assert (await read_lines(pipe))[-2:] == ["The agent asks", "Run touch made"]
    await vscode.page.evaluate(BEHIND, arg=False)
    await expect(behind).to_be_hidden()
    await vscode.start_anew()
    await vscode.page.keyboard.press("Control+Alt+w")
    await vscode.answer("reject")
    await vscode.expect_answers("Well then.")
    pipe.unlink()


async def read_lines(pipe: Path) -> list[str]:
    """Wait until a program has written into a named pipe."""
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    loop, has_come = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(end, has_come.set)
    try:
        await asyncio.wait_for(has_come.wait(), WAIT_MS / 1000)
        return os.read(end, 4096).decode().splitlines()
    finally:
        loop.remove_reader(end)
        os.close(end)
