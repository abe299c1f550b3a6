"""From a message on: another conversation that begins there, or the way back to before it."""

from fake_llm import say
from playwright.async_api import expect
from window import VSCode


async def test_a_conversation_forks_before_a_message_which_is_changed_and_sent_there(
    vscode: VSCode,
) -> None:
    vscode.script(say("One."), say("Because."), say("Two."), say("Other."))
    await vscode.open()
    await vscode.say("first")
    await expect(vscode.panel.locator(".agent")).to_have_text(["One."])
    # A side question is answered, and leaves nothing behind.
    await vscode.say("/ask why one?")
    aside = vscode.panel.get_by_role("region", name="Side question")
    await expect(aside).to_contain_text("Because.")
    await aside.get_by_role("button", name="Close").click()
    await vscode.say("second")
    await expect(vscode.panel.locator(".agent")).to_have_text(["One.", "Two."])
    assert "why one?" not in str(vscode.llm.requests[-1].body["messages"])
    message = vscode.panel.locator(".user", has_text="second")
    await message.hover()
    await message.get_by_role("button", name="Fork").click()
    await expect(vscode.panel.locator(".agent")).to_have_text(["One."])
    await expect(vscode.input).to_have_value("second")
    await vscode.say("another way")
    await expect(vscode.panel.locator(".agent")).to_have_text(["One.", "Other."])
    assert "Two." not in str(vscode.llm.requests[-1].body["messages"])
