"""From a message on: another conversation that begins there, or the way back to before it."""

from fake_llm import say
from playwright.async_api import expect
from window import VSCode


async def test_a_conversation_forks_before_a_message_which_is_changed_and_sent_there(
    vscode: VSCode,
) -> None:
    vscode.script(say("One."), say("Two."), say("Other."))
    await vscode.open()
    for text, answers in (("first", ["One."]), ("second", ["One.", "Two."])):
        await vscode.say(text)
        await expect(vscode.panel.locator(".agent")).to_have_text(answers)
    message = vscode.panel.locator(".user", has_text="second")
    await message.hover()
    await message.get_by_role("button", name="Fork").click()
    await expect(vscode.panel.locator(".agent")).to_have_text(["One."])
    await expect(vscode.input).to_have_value("second")
    await vscode.say("another way")
    await expect(vscode.panel.locator(".agent")).to_have_text(["One.", "Other."])
    assert "Two." not in str(vscode.llm.requests[-1].body["messages"])
