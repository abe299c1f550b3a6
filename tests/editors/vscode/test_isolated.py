"""An isolated conversation: what waits is shown above the input, and landed from there."""

import pytest
from code_server import Server
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode


@pytest.fixture
def in_a_view(server: Server) -> None:
    server.settings = {"ohDaemon.sandbox": "view"}


@pytest.mark.usefixtures("in_a_view")
async def test_an_isolated_conversation_shows_what_waits_and_lands_it(vscode: VSCode) -> None:
    (vscode.project / "a.txt").write_text("one\n")
    vscode.script(
        call("terminal", command="echo two >> a.txt; echo x > b.txt; echo y > c.txt"),
        say("Done."),
    )
    await vscode.open(file="a.txt")
    await vscode.run_command("oh: New Isolated Conversation")
    await expect(vscode.panel.locator(".badge")).to_be_visible()
    await vscode.say("Add lines")
    card = vscode.panel.get_by_role("region", name="Isolated · 3 files changed")
    await expect(card).to_be_visible()
    assert (vscode.project / "a.txt").read_text() == "one\n"
    await card.get_by_role("button", name="Discard c.txt").click()
    card = vscode.panel.get_by_role("region", name="Isolated · 2 files changed")
    await card.get_by_role("button", name="Land all").click()
    await expect(
        vscode.panel.get_by_role("region", name="Isolated · nothing to land")
    ).to_be_visible()
    assert (vscode.project / "a.txt").read_text() == "one\ntwo\n"
    assert (vscode.project / "b.txt").read_text() == "x\n"
    assert not (vscode.project / "c.txt").exists()
