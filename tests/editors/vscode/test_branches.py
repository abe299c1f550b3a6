"""From a message, the user forks another conversation or goes back to before it."""

import pytest
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

VIEW = call("edit", command="view", path="calc.py")
EDIT = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")


async def test_a_conversation_forks_before_a_message_and_goes_back_with_its_files(
    vscode: VSCode,
) -> None:
    vscode.script(say("One."), say("Because."), say("Two."), say("Other."))
    vscode.script(VIEW, EDIT, say("Fixed."), VIEW, EDIT, say("Again."))
    await vscode.open()
    await vscode.say("first")
    await vscode.expect_answers("One.")
    # A side question is answered, and leaves nothing behind.
    await vscode.say("/ask why one?")
    aside = vscode.panel.get_by_role("region", name="Side question")
    await expect(aside).to_contain_text("Because.")
    await aside.get_by_role("button", name="Close").click()
    await vscode.say("second")
    await vscode.expect_answers("One.", "Two.")
    assert "why one?" not in str(vscode.llm.requests[-1].body["messages"])
    message = vscode.panel.locator(".user", has_text="second")
    await message.hover()
    await message.get_by_role("button", name="Fork").click()
    await expect(vscode.panel.locator(".agent")).to_have_text(["One."])
    await expect(vscode.input).to_have_value("second")
    await vscode.say("another way")
    await vscode.expect_answers("One.", "Other.")
    assert "Two." not in str(vscode.llm.requests[-1].body["messages"])

    await vscode.choose("mode", "full")
    await vscode.say("fix it")
    await vscode.expect_answers("One.", "Other.", "Fixed.")
    assert "a + b" in (vscode.project / "calc.py").read_text()
    # Only the files go back: the words stay, and the agent is told.
    await vscode.run_command("oh: Restore a Checkpoint")
    rows = vscode.page.locator(".quick-input-list .monaco-list-row")
    await expect(rows).to_contain_text(["Edit calc.py"])
    await expect(rows).to_contain_text(["just now · 1 file"])
    await rows.click()
    question = vscode.page.get_by_role("dialog")
    await expect(question).to_contain_text("calc.py")
    await question.get_by_role("button", name="Put Back 1 File").click()
    await expect(vscode.panel.locator(".notice")).to_have_text("Files are as before: Edit calc.py")
    assert "a - b" in (vscode.project / "calc.py").read_text()
    await vscode.say("mend it")
    await vscode.expect_answers("One.", "Other.", "Fixed.", "Again.")
    assert "took back your changes" in str(vscode.llm.requests[-1].body["messages"])

    message = vscode.panel.locator(".user", has_text="mend it")
    await message.hover()
    await message.get_by_role("button", name="Go back").click()
    question = vscode.page.get_by_role("dialog", name="Go back to before this message?")
    await expect(question).to_contain_text("calc.py")
    await question.get_by_role("button", name="Go Back and Put Back 1 File").click()
    await expect(vscode.panel.locator(".agent")).to_have_text(["One.", "Other.", "Fixed."])
    await expect(vscode.input).to_have_value("mend it")
    await expect(vscode.input).to_be_focused()
    assert "a - b" in (vscode.project / "calc.py").read_text()
    # The turn that was taken out of the conversation took its changes along.
    await expect(vscode.panel.locator(".changes")).to_have_count(1)
