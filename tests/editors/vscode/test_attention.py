"""How a question finds the user: a notification while the panel is hidden, never the focus."""

import threading

import pytest
from fake_llm import call, held, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

TOUCH = call("terminal", command="touch made", security_risk="low", summary="Make the file")


async def test_a_question_while_the_panel_is_hidden_is_told_and_takes_no_focus(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(held(TOUCH, gate), say("Made."))
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
    asked = vscode.page.get_by_role("button", name="An action waits for your approval.")
    await expect(asked).to_be_visible()
    await expect(vscode.page.locator(".notification-toast")).to_have_count(0)
    await vscode.start_anew()
    await vscode.say("something else")
    await expect(vscode.panel.locator(".agent")).to_have_text("Nothing to do.")
    elsewhere = vscode.panel.locator(".elsewhere")
    await expect(elsewhere).to_contain_text("“make it” waits for you")
    await expect(vscode.input).to_be_focused()
    # A hidden panel loses its page; the next one knows what waits too.
    await vscode.page.get_by_role("tab", name="Explorer").first.click()
    await expect(elsewhere).to_be_hidden()
    await vscode.show_agent()
    await expect(elsewhere).to_contain_text("“make it” waits for you")

    await vscode.page.keyboard.press("Control+Alt+Enter")
    await vscode.expect_answerable()
    await expect(elsewhere).to_be_hidden()
    assert not (vscode.project / "made").exists()
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    assert (vscode.project / "made").exists()
