"""MCP servers in the editor: their state and its reason; restart, switch off and on, sign in."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import mcp_server
import pytest
from common_window import set_up
from fake_llm import call, say
from mcp_world import browse, vault
from playwright.async_api import Locator, expect
from processes import argv
from window import VSCode, expect_ended

pytestmark = pytest.mark.one_window

SERVER = "mcp_server.py"


@pytest.fixture
def servers() -> Iterator[dict[str, Any]]:
    broken_server = {"command": "oh-no-such-program"}
    with vault() as far:
        yield {"shop": mcp_server.settings(), "broken": broken_server, "vault": far}


def row(vscode: VSCode, name: str) -> Locator:
    return vscode.page.locator(".quick-input-list .monaco-list-row", has_text=name)


@pytest.mark.full
async def test_mcp_servers_show_pictures_and_are_seen_with_their_reasons_and_switched(
    vscode: VSCode, servers: dict[str, Any]
) -> None:
    await vscode.open()
    await set_up(vscode, {"ohDaemon.mcpServers": servers})
    # Servers start with the first turn, which a slow one may miss.
    vscode.script(say("Hello."))
    await vscode.say("hello")
    await vscode.expect_answers("Hello.")
    await vscode.run_command("oh: MCP Servers")
    await expect(row(vscode, "shop")).to_contain_text("tools")
    await vscode.page.keyboard.press("Escape")
    vscode.script(
        call("shop__order", item="sun " * 500 + "\u202e"), call("shop__show"), say("A picture.")
    )
    await vscode.say("what do they sell?")
    exact_action = vscode.approval.locator(".exact")
    await expect(exact_action).to_contain_text(r"sun \u{202e}")
    assert await exact_action.evaluate("(shown) => shown.scrollHeight <= shown.clientHeight")
    await vscode.choose("mode", "full")
    await vscode.expect_answers("Hello.", "A picture.")
    await vscode.fold.click()
    await vscode.panel.locator("summary", has_text="show").click()
    await expect(vscode.panel.locator(".card img").first).to_be_visible()
    await expect(vscode.panel.locator(".card img").first).to_have_js_property("naturalWidth", 1)
    words = "(image: broken, or larger than 12 MiB)"
    output = vscode.panel.locator(".card", has_text="show").locator(".output")
    await expect(output).to_have_js_property("textContent", words)
    await vscode.run_command("oh: MCP Servers")
    await expect(row(vscode, "shop")).to_contain_text("tools")
    await expect(row(vscode, "broken")).to_contain_text("oh-no-such-program")
    await expect(row(vscode, "vault")).to_contain_text("wants you to sign in")
    for action, state_text in (("Disable", "disabled"), ("Enable", "tools")):
        await press(vscode, action)
        await expect(row(vscode, "shop")).to_contain_text(state_text)
    before = [each for each in vscode.server.daemon().children(True) if SERVER in str(argv(each))]
    assert before
    await press(vscode, "Restart")
    await expect_ended(*before)
    await expect(row(vscode, "shop")).to_contain_text("tools")
    async with vscode.page.context.expect_page() as page_info:
        await press(vscode, "Sign in", "vault")
    # Of a page on this machine, code-server shows the one behind its own proxy, which is off here.
    url = re.sub(r"/[^/]+/proxy/(\d+)/", r"/127.0.0.1:\1/", (await page_info.value).url)
    assert "go back to where you came from" in await asyncio.to_thread(browse, url)
    await expect(row(vscode, "vault")).to_contain_text("2 tools")
    await (await page_info.value).close()
    await vscode.page.locator('.quick-input-widget input[type="text"]').press("Escape")


async def press(vscode: VSCode, action: str, server: str = "shop") -> None:
    await row(vscode, server).hover()
    await row(vscode, server).get_by_role("button", name=action).click()
