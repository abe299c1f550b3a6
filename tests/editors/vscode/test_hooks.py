"""What hooks of a project say, when its folder is trusted for the first time."""

import json
import re

import pytest
from common_window import set_up
from fake_llm import call
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

REFUSE = "grep -q hunter2 && { echo 'it holds a password' >&2; exit 2; }; exit 0"
STOP = """echo '{"continue": false, "stopReason": "enough for today"}'"""
LISTED = re.compile("^May run without asking: 2 hooks of shop")


@pytest.mark.full
async def test_what_a_hook_refuses_or_stops_is_told_once_also_after_a_reload(
    vscode: VSCode,
) -> None:
    hooks = {"UserPromptSubmit": REFUSE, "PostToolUse": STOP}
    groups = {
        event: [{"hooks": [{"type": "command", "command": line}]}] for event, line in hooks.items()
    }
    (vscode.project / ".claude").mkdir()
    (vscode.project / ".claude/settings.json").write_text(json.dumps({"hooks": groups}))
    vscode.script(call("terminal", command="echo one"))
    await vscode.open()
    await set_up(vscode, {})
    await vscode.say("my password is hunter2")
    expected_texts: list[str | re.Pattern[str]] = [
        LISTED,
        "A hook refused the message: it holds a password",
    ]
    await expect(vscode.panel.locator(".notice")).to_have_text(expected_texts)
    await expect(vscode.panel.locator(".user")).to_have_attribute("data-status", "rejected")
    await vscode.expect_status("")
    await expect(vscode.panel.locator(".notice")).to_have_text(expected_texts)
    await vscode.say("print it")
    expected_texts.append("Stopped by a hook: enough for today")
    await expect(vscode.panel.locator(".notice")).to_have_text(expected_texts)
    await vscode.reload()
    await expect(vscode.panel.locator(".notice")).to_have_text(expected_texts)
