"""Two windows on one project: one works, the other follows and can go on when the first is gone."""

import threading

import pytest
from fake_llm import call, calls, hold_step, say
from playwright.async_api import expect
from window import VSCode, expect_ended

pytestmark = pytest.mark.one_window


@pytest.mark.full
async def test_a_second_window_follows_live_and_takes_over_when_the_first_is_closed(
    vscode: VSCode,
) -> None:
    """The one that is closed leaves no process of a command that still ran."""
    gate = threading.Event()
    vscode.script(hold_step(calls(say("Half of it. "), say("The rest.")), gate))
    # The process leaves its session before it prints.
    away = "setsid bash -c 'echo begun; exec sleep 1234' & sleep 300"
    vscode.script(call("terminal", command=away), say("Mine now."))
    await vscode.open()
    await vscode.choose("mode", "full")
    daemon = vscode.server.daemon()
    # It opens before the turn begins: a model that says nothing for two minutes is asked again.
    other_window = await vscode.another_window()
    await other_window.open()
    await vscode.say("tell me")
    await expect(vscode.panel.locator(".agent")).to_have_text("Half of it.")

    await other_window.page.get_by_role("button", name="Show Conversations").click()
    await other_window.panel.locator(".row").click()
    await expect(other_window.panel.locator(".user")).to_have_text("tell me")
    await expect(other_window.panel.locator(".strip:not(.full)")).to_contain_text(
        "Another window works on this"
    )
    await expect(other_window.input).to_be_hidden()
    gate.set()
    await expect(other_window.panel.locator(".agent")).to_have_text("Half of it. The rest.")

    await vscode.expect_answers("Half of it. The rest.")
    await vscode.say("wait")
    await expect(vscode.commands.locator(".output")).to_have_text("begun")
    processes = [daemon, *daemon.children(recursive=True)]
    assert len(processes) > 3
    await vscode.page.goto("about:blank")
    await expect_ended(*processes)
    await expect(other_window.panel.locator(".strip:not(.full)")).to_be_hidden()
    await other_window.say("go on")
    await expect(other_window.panel.locator(".agent")).to_have_text(
        ["Half of it. The rest.", "Mine now."]
    )
    daemon = vscode.server.daemon()
    await other_window.page.context.close()
    await expect_ended(daemon)
