"""The list of conversations by keyboard, and where a message goes while the user goes elsewhere."""

import pytest
from fake_llm import call, calls, say
from places import TESTS
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

CHOOSE_AND_SAY = """([title, text]) => {
  [...document.querySelectorAll(".row")].find((row) => row.title === title).click();
  const input = document.querySelector("textarea.input");
  input.value = text;
  input.form.requestSubmit();
}"""
"""Sends a message faster than the daemon opens the conversation that was chosen."""


async def test_a_conversation_is_renamed_archived_and_deleted_with_the_keyboard(
    vscode: VSCode,
) -> None:
    create_calls = [call("edit", command="create", path=path, text="x\n") for path in ("a", "b")]
    vscode.script(calls(*create_calls), say("One."), say("Two."))
    await vscode.open()
    await vscode.choose("mode", "autoEdit")
    await vscode.hold(("first", "One."), ("second", "Two."))
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    titles = vscode.panel.locator(".row-title")
    await expect(titles).to_have_text(["second", "first"])
    files = [
        " · 2 files" in text for text in await vscode.panel.locator(".row-meta").all_inner_texts()
    ]
    assert files == [False, True]
    search = vscode.panel.get_by_label("Search conversations")
    await search.fill("two")
    await expect(titles).to_have_text(["second"])
    await expect(vscode.panel.locator(".row-match")).to_have_text("Two.")
    await expect(vscode.panel.locator(".row-match mark")).to_have_text("Two")
    await search.fill("")
    await expect(titles).to_have_text(["second", "first"])
    await expect(search).to_be_focused()
    press = vscode.page.keyboard.press

    await press("ArrowDown")
    await press("F2")
    await vscode.page.keyboard.insert_text("the second")
    await press("Enter")
    await expect(titles).to_have_text(["the second", "first"])
    await expect(vscode.panel.locator(".row").first).to_be_focused()

    await vscode.panel.get_by_role("button", name="Archive: the second").press("Enter")
    await expect(titles).to_have_text(["first"])
    archived_button = vscode.panel.get_by_role("button", name="Archived", exact=True)
    await archived_button.press("Enter")
    await expect(titles).to_have_text(["the second"])
    await vscode.panel.get_by_role("button", name="Unarchive: the second").press("Enter")
    await expect(titles).to_have_count(0)
    await archived_button.press("Enter")
    await expect(titles).to_have_text(["the second", "first"])

    await vscode.panel.locator(".row").first.focus()
    await press("Delete")
    await expect(vscode.panel.get_by_role("button", name="Keep")).to_be_focused()
    await press("Escape")
    await expect(vscode.panel.locator(".row").first).to_be_focused()
    await press("Delete")
    await vscode.panel.get_by_role("button", name="Delete", exact=True).press("Enter")
    await expect(titles).to_have_text(["first"])
    await expect(vscode.panel.locator(".row").first).to_be_focused()
    # The deleted conversation is no longer open behind the list.
    await press("Escape")
    await expect(vscode.panel.get_by_role("heading", name="What shall we do?")).to_be_visible()
    await expect(vscode.input).to_be_focused()


@pytest.mark.full
async def test_a_message_goes_where_the_user_wanted_to_be_last(vscode: VSCode) -> None:
    vscode.script(say("One."), say("Two."), say("Three."), say("Four."))
    await vscode.hold(("first", "One."), ("second", "Two."))
    titles = vscode.panel.locator(".row-title")
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await expect(titles).to_have_text(["second", "first"])
    await vscode.frame().evaluate(CHOOSE_AND_SAY, ["first", "more of it"])
    await vscode.expect_answers("One.", "Three.")

    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await expect(titles).to_have_text(["first", "second"])
    await vscode.frame().evaluate(CHOOSE_AND_SAY, ["second", "/new"])
    await vscode.say("third")
    await vscode.expect_answers("Four.")


@pytest.mark.full
async def test_a_message_arrives_once_though_the_user_looks_elsewhere_meanwhile(
    vscode: VSCode,
) -> None:
    vscode.script(say("One."), say("More."), say("Two."))
    await vscode.open()
    daemon = vscode.server.daemon()
    daemon.suspend()
    try:
        await vscode.say("first")
        await expect(vscode.panel.locator(".user")).to_have_text("first")
        await vscode.page.get_by_role("tab", name="Explorer").first.click()
        await expect(vscode.input).to_be_hidden()
        await vscode.show_agent()
    finally:
        daemon.resume()
    await vscode.expect_answers("One.")
    await expect(vscode.input).to_have_value("")
    daemon.suspend()
    try:
        await vscode.say("more")
        await expect(vscode.panel.locator(".user")).to_have_text(["first", "more"])
    finally:
        daemon.resume()
    await vscode.expect_answers("One.", "More.")
    await expect(vscode.panel.locator(".user")).to_have_text(["first", "more"])

    await vscode.start_anew()
    daemon.suspend()
    try:
        await vscode.say("second")
        await vscode.page.get_by_role("button", name="Show Conversations").click()
        await expect(vscode.panel.get_by_label("Search conversations")).to_be_focused()
    finally:
        daemon.resume()
    await vscode.panel.locator('.row[title="first"]').press("Enter")
    await vscode.expect_answers("One.", "More.")
    await expect(vscode.input).to_be_focused()


@pytest.mark.full
async def test_conversations_in_tabs_have_their_own_input_and_are_there_after_a_reload(
    vscode: VSCode,
) -> None:
    vscode.script(say("One."), say("Two."), say("More of one."))
    await vscode.hold(("first", "One."), ("second", "Two."))
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await vscode.panel.get_by_role("button", name="Open in an Editor: first").press("Enter")
    await expect(vscode.panel.locator("html")).to_have_attribute("data-place", "side")
    await expect(vscode.panel_in_tab.locator("html")).to_have_attribute("data-place", "editor")
    answers = vscode.panel_in_tab.locator(".agent")
    await expect(answers).to_have_text(["One."])
    titles = vscode.page.locator(".tab")
    await expect(titles).to_have_text(["first"])
    field = vscode.panel_in_tab.get_by_label("Message to the agent")
    await expect(field).to_be_focused()
    await field.fill("more")
    await field.press("Enter")
    await expect(answers).to_have_text(["One.", "More of one."])
    # The side bar still has the list, and behind it the other conversation.
    await vscode.panel.get_by_label("Search conversations").press("Escape")
    await vscode.expect_answers("Two.")

    await vscode.page.get_by_role("button", name="Open in an Editor").click()
    await expect(answers).to_have_text(["Two."])
    await field.fill("a draft in a tab")
    await expect(vscode.input).to_have_value("")
    await vscode.run_command("oh: Open in an Editor")
    await expect(titles).to_have_count(2)
    await vscode.expect_kept("a draft in a tab")

    await vscode.page.reload(wait_until="commit")
    await expect(titles).to_have_text(["first", "second"])
    await expect(answers).to_have_text(["Two."])
    await expect(field).to_have_value("a draft in a tab")
    await titles.first.click()
    await expect(answers).to_have_text(["One.", "More of one."])
    await expect(field).to_have_value("")
    await vscode.show_agent()
    await vscode.expect_answers("Two.")


async def test_a_log_of_a_later_release_shows_what_this_one_cannot(vscode: VSCode) -> None:
    log = vscode.project / ".openhands/conversations/aa08108da68a40159e0dbd488cd22e92"
    log.mkdir(parents=True)
    text = (TESTS / "golden/later/approvals.jsonl").read_text("utf-8")
    text = text.replace("file:///project", vscode.project.as_uri())
    (log / "events.jsonl").write_text(text, "utf-8")
    await vscode.open()
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await vscode.panel.locator(".row").first.click()
    await expect(vscode.panel.get_by_text("There is one file.")).to_be_visible()
    unknown = "Rehearse the deployment (rehearsal: this version cannot show it)"
    await expect(vscode.panel.get_by_text(unknown)).to_have_count(1)
    await expect(
        vscode.panel.get_by_text("(hologram: this version cannot show it)")
    ).to_be_visible()
