"""Two windows on one project: the second follows what the first does, and takes over after it."""

import threading

from fake_llm import call, calls, held, say
from playwright.async_api import expect
from window import VSCode, new_page


async def test_a_second_window_follows_live_and_takes_over_when_the_first_is_closed(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(
        held(calls(say("Step one."), call("think", thought="hm")), gate), say("Step two.")
    )
    vscode.script(say("Taken over."))
    await vscode.open()
    await vscode.say("go")
    await expect(vscode.panel.locator(".agent")).to_have_text(["Step one."])
    browser = vscode.page.context.browser
    assert browser
    page = await new_page(browser, vscode.complaints, width=1200, height=900)
    second = VSCode(vscode.project, vscode.llm, vscode.address, page)
    await second.open()
    await page.get_by_role("button", name="Show Conversations").click()
    await second.panel.locator(".row").click()
    follows = second.panel.locator(".follow")
    await expect(follows).to_contain_text("Another window works on this conversation")
    await expect(second.input).to_be_hidden()
    gate.set()
    await expect(second.panel.locator(".agent")).to_have_text(["Step one.", "Step two."])

    await vscode.page.goto("about:blank")
    await expect(follows).to_be_hidden()
    await second.say("and now you")
    await expect(second.panel.locator(".agent").last).to_have_text("Taken over.")
