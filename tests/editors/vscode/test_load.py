"""Long conversations: the end of a long log is there at once, the rest on demand."""

from pathlib import Path

import pytest
from fake_llm import call, say
from long_log import grow
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

N_EVENTS = 20_000
IS_PAINTED = "(element) => element.checkVisibility({contentVisibilityAuto: true})"


def grow_and_damage(log: Path, n_events: int) -> None:
    grow(log, n_events)
    with log.open("a") as file:
        file.write("no event\n")


@pytest.mark.full
async def test_twenty_thousand_events_are_at_hand_and_the_conversation_goes_on(
    vscode: VSCode,
) -> None:
    tasks = [{"text": "Count", "status": "in_progress"}]
    vscode.script(call("todo", tasks=tasks), call("terminal", command="echo one"), say("Ready."))
    # Before the model is asked, its view of such a long log is summarized.
    vscode.script(say("A summary."), say("On we go."))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.say("begin")
    await vscode.expect_answers("Ready.")
    await vscode.close_and_grow(vscode.server.daemon(), N_EVENTS, grow_and_damage)

    await vscode.open()
    await expect(vscode.panel.locator(".notice")).to_contain_text("are not an event; left out")
    await expect(vscode.commands).to_have_count(200)
    await expect(vscode.panel.locator(".plan-box")).to_contain_text("Count")
    await expect(vscode.commands.last).to_be_in_viewport()
    await vscode.fold.click()
    await vscode.panel.get_by_role("button", name="To the newest").click()
    await expect(vscode.commands.last).to_be_in_viewport()
    # The browser neither lays out nor paints what is far from sight.
    assert not await vscode.commands.first.evaluate(IS_PAINTED)
    assert await vscode.commands.last.evaluate(IS_PAINTED)
    await vscode.panel.get_by_role("button", name="Show earlier messages").click()
    await expect(vscode.commands).to_have_count(400)
    in_order = "(all) => all.map((each) => Number(each.dataset.item.slice('item-'.length)))"
    items = await vscode.commands.evaluate_all(in_order)
    assert items == list(range(items[0], items[0] + 400))

    # What the user reads stays in sight while the panel is hidden, and over a reload.
    item = await vscode.commands.nth(100).get_attribute("data-item")
    assert item
    await vscode.commands.nth(100).evaluate("(each) => each.scrollIntoView({block: 'start'})")
    await expect(vscode.panel.get_by_role("button", name="To the newest")).to_be_visible()
    await vscode.expect_kept(item)
    await vscode.page.get_by_role("tab", name="Search").click()
    await vscode.input.wait_for(state="detached")
    await vscode.show_agent()
    place = vscode.panel.locator(f'[data-item="{item}"]')
    await expect(place).to_be_in_viewport()
    await vscode.reload()
    await expect(place).to_be_in_viewport()
    await expect(vscode.commands).to_have_count(400)

    await vscode.say("go on")
    await expect(vscode.panel.locator(".agent")).to_have_text("On we go.")
    await expect(vscode.panel.locator(".agent")).to_be_in_viewport()

    await vscode.panel.locator(".usage").click()
    usage_group = vscode.panel.get_by_role("group", name="What this conversation took")
    await expect(usage_group).to_contain_text("All today")
    await expect(usage_group.get_by_role("button", name="Summarize now")).to_be_visible()
    await vscode.page.keyboard.press("Escape")
    await expect(usage_group).to_be_hidden()
