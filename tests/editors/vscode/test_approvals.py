"""Questions in the panel: exact, inert at first, answered once, and never lost."""

import pytest
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

TOUCH = call("terminal", command="touch made", security_risk="low", summary="Make the file")
VIEW = call("edit", command="view", path="calc.py")
EDIT = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")
WATCH_BUTTONS = """() => {
  window.wasInert = new Promise((resolve) => {
    new MutationObserver(() => {
      const button = document.querySelector(".approval button[data-option]");
      if (button) resolve(button.disabled);
    }).observe(document.body, {subtree: true, childList: true});
  });
}"""
"""As it is drawn."""


async def test_a_command_is_shown_exactly_is_inert_at_first_and_runs_when_allowed(
    vscode: VSCode,
) -> None:
    vscode.script(TOUCH, say("Made."))
    await vscode.open()
    await vscode.frame().evaluate(WATCH_BUTTONS)
    await vscode.say("make it")
    await expect(vscode.approval.get_by_role("textbox", name="Command")).to_have_value("touch made")
    await expect(vscode.approval.locator(".risk")).to_have_text("medium risk")
    await expect(vscode.approval.locator(".why")).not_to_be_empty()
    assert await vscode.frame().evaluate("() => window.wasInert")
    await expect(
        vscode.page.get_by_role("button", name="An action waits for your approval.")
    ).to_be_visible()
    await expect(
        vscode.page.locator(".activitybar .badge-content", has_text="1").first
    ).to_be_attached()
    assert not (vscode.project / "made").exists()
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    await expect(vscode.approval).to_have_count(0)
    assert (vscode.project / "made").exists()


async def test_a_rejection_takes_a_note_along_and_an_edited_command_runs_as_edited(
    vscode: VSCode,
) -> None:
    vscode.script(TOUCH, say("Then not."), TOUCH, say("Made."))
    await vscode.open()
    await vscode.say("make it")
    await vscode.approval.get_by_label("Note to the agent").fill("use make test")
    await vscode.answer("reject")
    await expect(vscode.panel.locator(".agent")).to_have_text("Then not.")
    await expect(vscode.commands).to_have_attribute("data-status", "rejected")
    assert "use make test" in str(vscode.llm.requests[-1].body["messages"][-1])
    await vscode.say("again")
    await expect(vscode.approval.locator('[data-option="allow-once"]')).to_be_enabled()
    await vscode.approval.get_by_role("textbox", name="Command").fill("touch other")
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text(["Then not.", "Made."])
    assert (vscode.project / "other").exists()
    assert not (vscode.project / "made").exists()


async def test_an_edit_is_allowed_from_the_diff_editor_that_shows_it(vscode: VSCode) -> None:
    vscode.script(VIEW, EDIT, say("Fixed."))
    await vscode.open(file="calc.py")
    await vscode.say("fix")
    await expect(vscode.approval.locator(".add")).to_contain_text("return a + b")
    await vscode.approval.get_by_role("button", name="Open diff").click()
    await expect(vscode.page.locator(".monaco-diff-editor").first).to_be_visible()
    await vscode.page.get_by_role("button", name="Allow Once").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("Fixed.")
    assert "a + b" in (vscode.project / "calc.py").read_text()
