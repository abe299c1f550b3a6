"""Commands in a sandbox ask for hosts and ports; an isolated conversation is applied."""

import pytest
from common_window import set_up
from fake_llm import Json, call, say, script_by_key
from looks import overflow, violations
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window


@pytest.mark.full
async def test_in_a_view_hosts_are_asked_about_ports_opened_and_isolated_changes_landed(
    vscode: VSCode,
) -> None:
    (vscode.project / "a.txt").write_text("one\n")
    await vscode.open(file="a.txt")
    await set_up(vscode, {"ohDaemon.sandbox": "overlay"})
    await reject_a_host_and_open_a_port(vscode)
    await land_isolated_changes(vscode)
    await try_it_several_ways(vscode)


async def reject_a_host_and_open_a_port(vscode: VSCode) -> None:
    """What commands in a sandbox reach: hosts that are asked about, ports that are opened."""
    serve = "curl -sS http://192.0.2.1/; exec python3 -m http.server 18767"
    vscode.script(call("terminal", command=serve, background=True), say("It runs."))
    await vscode.say("serve it")
    await expect(vscode.approval).to_contain_text("Let commands connect to 192.0.2.1?")
    await expect(vscode.approval.locator(".exact")).to_have_text("192.0.2.1:80")
    allow = vscode.approval.locator('[data-option="allow-once"]')
    await expect(allow).to_contain_text("Allow for this turn")
    await vscode.answer("reject")
    ports = vscode.panel.locator(".ports")
    await expect(ports).to_contain_text("A command listens on port 18767")
    await ports.locator('[data-port="18767"]').click()
    await expect(ports).to_contain_text("open at 127.0.0.1:")
    await vscode.expect_answers("It runs.")


async def land_isolated_changes(vscode: VSCode) -> None:
    """What waits in an isolated conversation is shown above the input, and landed from there."""
    vscode.script(
        call("terminal", command="echo two >> a.txt; echo x > b.txt; echo y > c.txt"),
        say("Done."),
    )
    await vscode.run_command("oh: New Isolated Conversation")
    await expect(vscode.panel.locator(".badge")).to_be_visible()
    await vscode.say("Add lines")
    card = vscode.panel.get_by_role("region", name="Isolated · 3 files changed")
    await expect(card).to_be_visible()
    assert (vscode.project / "a.txt").read_text() == "one\n"
    await card.get_by_role("button", name="Discard c.txt").click()
    card = vscode.panel.get_by_role("region", name="Isolated · 2 files changed")
    await card.get_by_role("button", name="Apply all").click()
    await expect(
        vscode.panel.get_by_role("region", name="Isolated · nothing to apply")
    ).to_be_visible()
    assert (vscode.project / "a.txt").read_text() == "one\ntwo\n"
    assert (vscode.project / "b.txt").read_text() == "x\n"
    assert not (vscode.project / "c.txt").exists()


def way_of(request: Json) -> str:
    return "by a tool" if "by a tool" in request["messages"][0]["content"] else "by hand"


async def try_it_several_ways(vscode: VSCode) -> None:
    """Attempts are compared by what they change and by a check, and one of them lands."""
    check = "grep -q two a.txt"
    scripts = {
        way: (
            call("terminal", command=f"echo {text} > a.txt"),
            call("terminal", command=check),
            say(f"It says {text}."),
        )
        for way, text in (("by hand", "two again"), ("by a tool", "three"))
    }
    vscode.llm.play(script_by_key(way_of, scripts))
    await vscode.say("/ways Rewrite a.txt")
    await vscode.page.get_by_placeholder("Which models?").press("Enter")
    field = vscode.page.locator('.quick-input-widget input[type="text"]')
    for prompt, prompt_text in (
        ("What differs?", "by hand | by a tool"),
        ("Which command says", check),
    ):
        await expect(vscode.page.locator(".quick-input-widget")).to_contain_text(prompt)
        await field.fill(prompt_text)
        await field.press("Enter")
    attempts = vscode.panel.get_by_role("region", name="Attempts")
    rows = attempts.get_by_role("listitem")
    await expect(rows).to_have_count(2)
    await expect(rows.filter(has_text="exit 0")).to_have_count(1)
    await expect(rows.filter(has_text="exit 1")).to_have_count(1)
    assert await violations(vscode) == []
    assert await overflow(vscode) == 0
    assert (vscode.project / "a.txt").read_text() == "one\ntwo\n"
    good = rows.filter(has_text="exit 0")
    await good.get_by_role("button", name="Apply").click()
    await expect(good).to_contain_text("applied")
    await expect(good.get_by_role("button", name="Apply")).to_have_count(0)
    assert (vscode.project / "a.txt").read_text() == "two again\n"
    await attempts.get_by_role("button", name="Discard the others").click()
    await expect(rows.filter(has_text="discarded")).to_have_count(1)
