"""First steps: without a model, and through the walkthrough, in a workspace of two folders."""

import json
import re
import subprocess

import pytest
from code_server import EXTENSION, Server
from fake_llm import call, error, say
from looks import take_picture
from playwright.async_api import expect
from window import VSCode, expect_ended

KEY = "sk-test-abcdefghijklmnop123456"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())
COMMIT = ("-c", "user.name=x", "-c", "user.email=x@example.org", "commit")
N_SETTINGS = len(MANIFEST["contributes"]["configuration"]["properties"])


@pytest.mark.full
async def test_without_a_key_the_panel_asks_for_one_which_is_written_nowhere_and_outlives_restarts(
    server: Server, vscode_without_model: VSCode
) -> None:
    vscode = vscode_without_model
    await vscode.open()
    heading = vscode.panel.get_by_role("heading", name="First, a model")
    await expect(heading).to_be_visible()
    await vscode.panel.locator('select[data-option="mode"]').wait_for()
    await heading.hover()  # Away from the tab, which would show its name.
    await take_picture(vscode, "first-run")
    await vscode.say("hello")
    problem = vscode.panel.get_by_role("alert")
    await expect(problem.get_by_role("button", name="Use the demo")).to_be_visible()
    await problem.get_by_role("button", name="Set an API key").click()
    await give_a_key(vscode)
    await add_a_server(vscode)
    before = server.daemons()
    await vscode.run_command("oh: Restart the Daemon")
    await expect_ended(*before)
    # An answer now comes from the next daemon.
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await expect(vscode.panel.locator(".conversations")).to_have_text("No conversations yet.")
    await expect(vscode.model).to_have_attribute("data-value", re.compile("^qwen3 "))
    assert server.daemons()
    assert not [p for p in server.daemons() if KEY in str(p.environ())]
    # grep copes with files that come and go while the editor runs.
    search = ["grep", "-rlsa", KEY, str(server.home)]
    assert subprocess.run(search, check=False, capture_output=True, text=True).stdout == ""


async def give_a_key(vscode: VSCode) -> None:
    """It is tried before it is kept."""
    field = vscode.page.locator(".quick-input-widget input").first
    await field.fill("openai")
    await expect(vscode.page.locator(".quick-input-list .monaco-list-row")).to_have_count(1)
    await field.press("Enter")
    secret = vscode.page.locator('.quick-input-widget input[type="password"]')
    message = vscode.page.locator(".quick-input-message")
    await secret.fill("short")
    await expect(message).to_contain_text("longer")
    vscode.script(error(401, "Incorrect API key provided"), say("yes"))
    await secret.fill(f"{KEY}-and-more")
    await secret.press("Enter")
    await expect(message).to_contain_text("Incorrect API key provided")
    await secret.fill(KEY)
    await secret.press("Enter")
    success_text = vscode.page.get_by_text("OpenAI answers: the key works.")
    await expect(success_text.first).to_be_visible()
    await expect(vscode.model).to_have_attribute("data-value", "openai/gpt-6.1-sol")


async def add_a_server(vscode: VSCode) -> None:
    """The model of a server is found by its address, and chosen."""
    vscode.llm.models = [{"id": "other"}, {"id": "qwen3"}]
    vscode.script(say("yes"))
    await vscode.model.click()
    await vscode.panel.get_by_role("option", name="Add a server").click()
    field = vscode.page.locator(".quick-input-widget input").first
    title = vscode.page.locator(".quick-input-title")
    row = vscode.page.locator(".quick-input-list .monaco-list-row.focused")
    await expect(title).to_have_text("Which server?")
    await field.fill("another")
    await expect(row).to_contain_text("Another address")
    await field.press("Enter")
    await expect(title).to_have_text("The server's address")
    await field.fill(vscode.llm.url)
    await field.press("Enter")
    await expect(title).to_contain_text("Which model of")
    await field.fill("qwen")
    await expect(row).to_contain_text("qwen3")
    await field.press("Enter")
    host = vscode.llm.url.split("/")[2]
    await expect(vscode.model).to_have_attribute("data-value", f"qwen3 ({host})")
    assert vscode.llm.requests[-1].body["model"] == "qwen3"


async def test_from_the_first_start_to_a_landed_change_no_mouse_is_needed(
    vscode_without_model: VSCode,
) -> None:
    """The model is that of a server on this machine; the change is made apart, and reviewed."""
    vscode, calc = vscode_without_model, vscode_without_model.project / "calc.py"
    for words in (["init", "-q"], ["add", "."], [*COMMIT, "-qm", "first"]):
        subprocess.run(["git", "-C", str(vscode.project), *words], check=True)
    vscode.llm.models = [{"id": "qwen3"}]
    await vscode.open(file="calc.py", is_agent_shown=False)
    await vscode.focus_agent()
    server = vscode.panel.get_by_role("button", name="Use Ollama on this machine")
    await expect(server).to_be_visible()
    await take_picture(vscode, "local-server")
    vscode.script(say("yes"))
    await vscode.tab_to(server)
    await vscode.page.keyboard.press("Enter")
    await expect(vscode.model).to_have_attribute("data-value", re.compile("^qwen3 "))
    await expect(vscode.input).to_be_focused()

    await vscode.page.keyboard.type("/isolated")
    await expect(vscode.panel.locator(".completion .label")).to_have_text(["/isolated"])
    await vscode.page.keyboard.press("Enter")
    await expect(vscode.panel.locator(".badge")).to_be_visible()
    vscode.script(call("terminal", command="sed -i s/-/+/ calc.py && cat calc.py"), say("Added."))
    await vscode.page.keyboard.type("make it add")
    await vscode.page.keyboard.press("Enter")
    await vscode.expect_answerable()
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await vscode.expect_answers("Added.")
    assert "a - b" in calc.read_text()

    card = vscode.panel.get_by_role("region", name="Isolated · 1 file changed")
    file = card.get_by_role("button", name="calc.py", exact=True)
    await vscode.tab_to(file)
    await vscode.page.keyboard.press("Enter")
    await expect(card.locator(".one-hunk .add")).to_contain_text("return a + b")
    await expect(file).to_be_focused()
    await vscode.tab_to(card.get_by_role("button", name="Review"))
    await vscode.page.keyboard.press("Enter")
    await expect(vscode.page.locator(".monaco-diff-editor").first).to_contain_text(
        "a\u00a0+\u00a0b"
    )
    await vscode.focus_agent()
    await vscode.tab_to(card.get_by_role("button", name="Apply all"))
    await vscode.page.keyboard.press("Enter")
    await expect(
        vscode.panel.get_by_role("region", name="Isolated · nothing to apply")
    ).to_be_visible()
    assert "a + b" in calc.read_text()
    await expect(vscode.input).to_be_focused()


@pytest.mark.full
async def test_all_folders_of_a_workspace_are_the_agents_and_the_walkthrough_ticks_off_its_steps(
    vscode: VSCode,
) -> None:
    other_folder = vscode.project.parent / "docs"
    other_folder.mkdir()
    (other_folder / "RULES.md").write_text("Be brief.\n")
    workspace = vscode.project.parent / "both.code-workspace"
    settings = {"ohDaemon.instructions": "Speak softly."}
    folders = [{"path": "shop"}, {"path": "docs"}]
    workspace.write_text(json.dumps({"folders": folders, "settings": settings}))
    await vscode.open_workspace(workspace, folder="docs")

    await vscode.run_command("oh: Get Started")
    steps = vscode.page.locator(".getting-started-step")
    await expect(steps).to_have_count(4)
    done_steps = vscode.page.locator(".getting-started-step .codicon-getting-started-step-checked")
    # The daemon runs already, and has a model.
    await expect(done_steps.and_(vscode.page.locator(":visible"))).to_have_count(2)
    vscode.script(call("terminal", command="touch made", security_risk="low"), say("Made."))
    await vscode.say("make it")
    await vscode.answer("allow-once")
    await vscode.expect_answers("Made.")
    await expect(done_steps.and_(vscode.page.locator(":visible"))).to_have_count(4)

    vscode.script(call("edit", command="view", path=str(other_folder / "RULES.md")), say("Read."))
    await vscode.say("what are the rules?")
    await vscode.expect_answers("Made.", "Read.")
    messages = vscode.llm.requests[-1].body["messages"]
    assert "Be brief." in str(messages[-1])
    assert "Speak softly." in str(messages[0])
    # A served window is a remote one, where most settings are those of the machine.
    await vscode.run_command("oh: Settings")
    count = vscode.page.locator(".settings-count-widget")
    await expect(count).to_have_text(f"{N_SETTINGS} Settings Found")
