"""The list, and the way back to an older conversation."""

import re

import pytest
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

HASH = re.compile("^[0-9a-f]{64}$")


async def test_an_older_conversation_is_found_and_comes_back_with_its_history(
    vscode: VSCode,
) -> None:
    long = call("terminal", command="seq 20000", security_risk="low")
    vscode.script(
        say("First answer."), say("Second answer."), long, say("Third answer."), say("It counted.")
    )
    await vscode.hold(("the first task", "First answer."), ("another one", "Second answer."))

    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await expect(vscode.panel.locator(".row-title")).to_have_text(["another one", "the first task"])
    await vscode.panel.get_by_label("Search conversations").fill("first")
    await expect(vscode.panel.locator(".row-title")).to_have_text(["the first task"])
    await vscode.panel.locator(".row").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("First answer.")
    await vscode.choose("mode", "full")
    await vscode.input.press_sequentially("go on with @anot")
    await expect(vscode.panel.locator(".completion .label").first).to_have_text("another one")
    await vscode.input.press("Enter")
    await vscode.input.press("Enter")
    await vscode.expect_answers("First answer.", "Third answer.")
    await expect(vscode.panel.locator(".usage")).to_contain_text("330 tokens")
    messages_text = str(vscode.llm.requests[-1].body["messages"])
    assert "First answer." in messages_text
    assert "Second answer." in messages_text

    # Both open beside the panel: the conversation that was mentioned, and the output as a whole.
    await vscode.panel.locator(".user .chip").click()
    await vscode.expect_editor("Second answer.")
    await vscode.panel.get_by_role("button", name="Open the whole output").click()
    await expect(vscode.page.locator(".tab.active")).to_have_attribute("data-resource-name", HASH)
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+End")
    await expect(vscode.page.locator(".line-numbers", has_text="20000")).to_be_visible()

    await vscode.run_command("oh: Export the Conversation")
    await vscode.page.locator(".quick-input-list .monaco-list-row", has_text="Markdown").click()
    await expect(vscode.page.locator(".tab.active")).to_have_attribute(
        "data-resource-name", re.compile("Untitled")
    )
    await vscode.expect_editor("First answer.")
    await vscode.run_command("oh: Export the Conversation")
    await vscode.page.locator(".quick-input-list .monaco-list-row", has_text="Web Page").click()
    place = vscode.page.locator('.quick-input-widget input[type="text"]')
    await expect(place).to_have_value(re.compile(r"/conversation-\w+\.html$"))
    await place.press("Enter")
    await expect(vscode.page.locator(".notification-toast")).to_contain_text("Exported to conv")
    [page] = vscode.project.glob("conversation-*.html")
    assert "First answer." in page.read_text()

    await vscode.run_command("oh: Summarize Earlier Messages")
    await vscode.panel.locator("summary", has_text="Summarized for the model").click()
    await expect(vscode.panel.get_by_text("It counted.")).to_be_visible()
