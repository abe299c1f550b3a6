"""Sub-agents in the panel: what each does, its questions, the way to its work and back."""

import pytest
from fake_llm import call, first_user_text, say, script_by_key
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

TASK = {"task": "child: make it", "title": "Make the file", "agent": "general"}


@pytest.mark.full
async def test_a_sub_agent_asks_in_its_parent_and_its_work_is_a_click_away(vscode: VSCode) -> None:
    parent = [call("delegate", tasks=[TASK]), call("finish", message="All **done**.")]
    child = [call("terminal", command="touch made", security_risk="low"), say("Made it.")]
    scripts = {"parent:": parent, "child:": child}
    vscode.llm.play(script_by_key(lambda request: first_user_text(request).split()[0], scripts))
    await vscode.open()
    await vscode.say("parent: get it made")
    await expect(vscode.approval).to_contain_text("Asked by the sub-agent general: Make the file")
    card = vscode.panel.locator(".subagent")
    await expect(card.locator(".doing")).to_contain_text("touch made")
    # It is also shown to a user who comes back, when the panel has not heard how it began.
    await vscode.start_anew()
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await vscode.panel.get_by_label("Search conversations").fill("parent:")
    await vscode.panel.locator(".row-title").first.click()
    await expect(card.locator(".doing")).to_contain_text("touch made")
    # No other card repeats what this one says.
    await expect(vscode.panel.locator(".card")).to_have_count(1)
    await vscode.expect_answerable()
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent").last).to_have_text("All done.")
    await expect(card.locator(".doing")).to_have_text("done")
    assert (vscode.project / "made").exists()

    await card.click()
    await expect(vscode.panel.locator(".agent")).to_have_text("Made it.")
    await vscode.panel.get_by_role("button", name="Back", exact=True).click()
    await expect(vscode.panel.locator(".agent").last).to_have_text("All done.")
