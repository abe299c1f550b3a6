"""Answers that last: for this conversation, and for this folder also after a restart."""

import pytest
from common_window import set_up
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode, expect_ended

pytestmark = pytest.mark.one_window

TOUCH = call("terminal", command="touch made", security_risk="low")


@pytest.fixture
def task(vscode: VSCode) -> VSCode:
    vscode.script(*[step for n in range(1, 7) for step in (TOUCH, say(f"Made {n}."))])
    return vscode


@pytest.mark.full
async def test_an_answer_for_the_conversation_or_the_folder_is_not_asked_for_again(
    task: VSCode,
) -> None:
    vscode = task
    await vscode.open()
    await set_up(vscode, {})
    await vscode.say("one")
    lasting_option = vscode.approval.locator('[data-option="allow-conversation"]')
    # It says what exactly is allowed.
    await expect(lasting_option).to_have_text("Allow this command in this conversation")
    await expect(lasting_option).to_be_hidden()
    await vscode.answer("allow-conversation")
    await vscode.expect_answers("Made 1.")
    await vscode.say("two")
    await vscode.expect_answers("Made 1.", "Made 2.")

    # In another conversation, the agent asks again.
    await vscode.start_anew()
    await vscode.say("three")
    await vscode.answer("allow-folder")
    await vscode.expect_answers("Made 3.")
    await vscode.start_anew()
    await vscode.say("four")
    await vscode.expect_answers("Made 4.")

    before = vscode.server.daemons()
    await vscode.run_command("oh: Restart the Daemon")
    await expect_ended(*before)
    await vscode.start_anew()
    await vscode.say("five")
    await vscode.expect_answers("Made 5.")
