"""From a message, the user forks another conversation or goes back to before it."""

import asyncio
import threading

import pytest
from fake_llm import call, hold_step, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

VIEW = call("edit", command="view", path="calc.py")
EDIT = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")
NOTE_ANSWER = """() => {
  window.answered = new Promise((resolve) =>
    window.addEventListener("message", ({data}) => data.type === "answer" && resolve()));
}"""


@pytest.mark.full
async def test_a_late_answer_to_a_side_question_is_not_taken_for_that_to_the_next(
    vscode: VSCode,
) -> None:
    """A panel that was hidden and is shown again does all anew, also its requests."""
    gates = [threading.Event(), threading.Event()]
    vscode.script(
        say("One."), hold_step(say("Late."), gates[0]), hold_step(say("Right."), gates[1])
    )
    await vscode.open()
    await vscode.say("first")
    await vscode.expect_answers("One.")
    side_question = vscode.panel.get_by_role("region", name="Side question")
    for n in range(len(gates)):
        await vscode.page.get_by_role("tab", name="Explorer").first.click()
        await expect(vscode.input).to_be_hidden()
        await vscode.show_agent()
        await vscode.expect_answers("One.")
        await vscode.say(f"/ask why {n}?")
        await expect(side_question).to_contain_text(f"why {n}?")
        await asyncio.to_thread(vscode.llm.wait_for_requests, n + 2)
    await vscode.frame().evaluate(NOTE_ANSWER)
    gates[0].set()
    await vscode.frame().evaluate("() => window.answered")
    gates[1].set()
    await expect(side_question).to_contain_text("Right.")


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
    side_question = vscode.panel.get_by_role("region", name="Side question")
    await expect(side_question).to_contain_text("Because.")
    await side_question.get_by_role("button", name="Close").click()
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
    await expect(vscode.panel.locator(".log .changes")).to_have_count(1)
