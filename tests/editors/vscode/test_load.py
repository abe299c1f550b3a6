"""Long conversations: the end of a long log is there at once, the rest on demand."""

import psutil
from fake_llm import call, say
from long_log import grow
from playwright.async_api import expect
from window import Server, VSCode

N_EVENTS = 20_000


async def test_twenty_thousand_events_are_at_hand_and_the_conversation_goes_on(
    vscode: VSCode, server: Server
) -> None:
    vscode.script(call("terminal", command="echo one"), say("Ready."))
    # The model's view of so long a log is summarized before it is asked.
    vscode.script(say("A summary."), say("On we go."))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.say("begin")
    await expect(vscode.panel.locator(".agent")).to_have_text("Ready.")
    await vscode.expect_kept("conversationId")
    daemon = server.daemon()
    await vscode.page.goto("about:blank")
    psutil.wait_procs([daemon], timeout=60)
    [log] = (vscode.project / ".openhands/conversations").glob("*/events.jsonl")
    grow(log, N_EVENTS)

    await vscode.open()
    await expect(vscode.commands).to_have_count(200)
    await expect(vscode.commands.last).to_be_in_viewport()
    await vscode.panel.get_by_role("button", name="Show earlier messages").click()
    await expect(vscode.commands).to_have_count(400)
    await vscode.say("go on")
    await expect(vscode.panel.locator(".agent")).to_have_text("On we go.")
    await expect(vscode.panel.locator(".agent")).to_be_in_viewport()
