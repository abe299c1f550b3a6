"""Two windows on one project: one works, the other follows and can go on when the first is gone."""

import threading

import pytest
from fake_llm import calls, held, say
from playwright.async_api import expect
from window import VSCode, expect_ended

pytestmark = pytest.mark.one_window


async def test_a_second_window_follows_live_and_takes_over_when_the_first_is_closed(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(held(calls(say("Half of it. "), say("The rest.")), gate), say("Mine now."))
    await vscode.open()
    await vscode.say("tell me")
    await expect(vscode.panel.locator(".agent")).to_have_text("Half of it.")
    daemon = vscode.server.daemon()

    other = await vscode.another_window()
    await other.open()
    await other.page.get_by_role("button", name="Show Conversations").click()
    await other.panel.locator(".row").click()
    await expect(other.panel.locator(".user")).to_have_text("tell me")
    await expect(other.panel.locator(".strip:not(.full)")).to_contain_text(
        "Another window works on this"
    )
    await expect(other.input).to_be_hidden()
    gate.set()
    await expect(other.panel.locator(".agent")).to_have_text("Half of it. The rest.")

    await vscode.expect_answers("Half of it. The rest.")
    await vscode.page.goto("about:blank")
    await expect_ended(daemon)
    await expect(other.panel.locator(".strip:not(.full)")).to_be_hidden()
    await other.say("go on")
    await expect(other.panel.locator(".agent")).to_have_text(["Half of it. The rest.", "Mine now."])
