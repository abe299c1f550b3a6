"""What the agent learns from the editor around it, and where the editor offers the agent."""

import contextlib
import json
import re
import subprocess

import pytest
from code_server import WAIT_MS
from common_window import CALC
from fake_llm import call, calls, say
from playwright.async_api import Locator, expect
from window import N_TRIES, VSCode

pytestmark = pytest.mark.one_window

APP = """/** Adds two numbers. */
export function add(a: number, b: number): number {
  return a + b;
}

add("one", 2);
"""
GIT = ("git", "-c", "user.name=Ana", "-c", "user.email=ana@example.com")
DROP = """(uri) => {
  const data = new DataTransfer();
  data.setData("text/uri-list", uri);
  const event = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
  document.querySelector("textarea.input").dispatchEvent(event);
}"""
ASKED = calls(
    call("diagnostics", path="app.ts"),
    call("lookup", operation="definition", path="app.ts", line=6, symbol="add"),
    call("lookup", operation="references", path="app.ts", line=2, symbol="add"),
    call("lookup", operation="hover", path="app.ts", line=6, symbol="add"),
    call("lookup", operation="symbols", path="app.ts"),
    call("lookup", operation="symbols", query="add"),
)


async def test_the_agent_asks_the_language_extensions_of_the_window(vscode: VSCode) -> None:
    (vscode.project / "app.ts").write_text(APP)
    vscode.script(ASKED, say("Understood."))
    await vscode.open(file="app.ts")
    # The squiggle appears once the language's extension has understood the file.
    await expect(vscode.page.locator(".squiggly-error").first).to_be_attached()
    await vscode.say("what is wrong here?")
    await expect(vscode.panel.locator(".agent")).to_have_text("Understood.")
    texts = [m["content"] for m in vscode.llm.requests[-1].body["messages"] if m["role"] == "tool"]
    problem, definition, references, hover, outline, search_result = texts
    assert re.search(r"app\.ts:6:5 error .*not assignable.* \[ts 2345\]", problem)
    assert "app.ts:2: export function add" in definition
    assert "app.ts:2: export function add" in references
    assert 'app.ts:6: add("one", 2);' in references
    assert "Adds two numbers." in hover
    assert re.search("function add", outline)
    assert "app.ts:2" in search_result


@pytest.mark.full
async def test_after_an_edit_the_agent_is_told_what_it_broke(vscode: VSCode) -> None:
    (vscode.project / "app.ts").write_text(APP)
    view = call("edit", command="view", path="app.ts")
    old, new = "add(a: number, b: number)", "sum(a: number, b: number)"
    edit = call("edit", command="replace", path="app.ts", old_text=old, new_text=new)
    vscode.script(view, edit, say("I see."))
    await vscode.open(file="app.ts")
    await expect(vscode.page.locator(".squiggly-error").first).to_be_attached()
    await vscode.choose("mode", "full")
    await vscode.say("call it sum")
    await vscode.expect_answers("I see.")
    content = vscode.llm.requests[-1].body["messages"][-1]["content"]
    assert "new problems since this edit:\napp.ts:6:1 error Cannot find name 'add'" in content
    # The problem that was there before is not repeated.
    assert "not assignable" not in content


@pytest.mark.full
async def test_the_agent_renames_by_what_the_language_extension_says(vscode: VSCode) -> None:
    (vscode.project / "app.ts").write_text(APP)
    rename = call("rename", path="app.ts", line=2, symbol="add", new_name="plus")
    vscode.script(rename, say("Renamed."))
    await vscode.open(file="app.ts")
    await expect(vscode.page.locator(".squiggly-error").first).to_be_attached()
    await vscode.say("call it plus")
    await expect(vscode.approval.locator(".add")).to_have_count(2)
    await vscode.answer("allow-once")
    await vscode.expect_answers("Renamed.")
    await vscode.expect_editor("function plus(")
    await vscode.expect_editor('plus("one", 2);')


@pytest.mark.full
async def test_the_agent_is_told_what_the_user_looks_at(vscode: VSCode) -> None:
    (vscode.project / "app.ts").write_text(APP)
    vscode.script(say("One."), say("Two."))
    await vscode.open(file="app.ts")
    await expect(vscode.page.locator(".squiggly-error").first).to_be_attached()
    await vscode.input.fill("what is this?")
    await vscode.page.locator(".editor-instance .view-line").nth(1).click(click_count=3)
    await expect(vscode.page.locator(".statusbar")).to_contain_text("selected")
    await vscode.input.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("One.")
    last_message = json.dumps(vscode.llm.requests[0].body["messages"][-1])
    assert "app.ts lines 2-3" in last_message
    assert "export function add" in last_message
    assert "errors 1, warnings 0" in last_message
    daemon = vscode.server.daemon()
    without = vscode.panel.locator(".composer:not(:has(.looking))")
    settings = {"oh.shareEditor": False, "oh.daemon.other": "no other command"}
    await vscode.server.change_settings(settings, without)
    await vscode.say("and this?")
    await vscode.expect_answers("One.", "Two.")
    last_message = json.dumps(vscode.llm.requests[1].body["messages"][-1])
    assert ("and this?" in last_message, "app.ts" in last_message, "errors" in last_message) == (
        True,
        False,
        False,
    )
    assert vscode.server.daemon() == daemon
    await vscode.server.change_settings({}, vscode.panel.locator(".looking"))


@pytest.mark.full
async def test_the_light_bulb_offers_the_agent_and_the_panel_shows_what_it_does(
    vscode: VSCode,
) -> None:
    (vscode.project / "app.ts").write_text(APP)
    vscode.script(say("I will mend it."), say("It adds."))
    await vscode.open(file="app.ts")
    await expect(vscode.panel.get_by_role("heading", name="What shall we do?")).to_be_visible()
    await expect(vscode.page.locator(".squiggly-error").first).to_be_attached()
    await vscode.page.locator(".editor-instance .view-line").nth(5).click(click_count=3)
    await vscode.page.locator(".lightBulbWidget").click()
    await vscode.page.locator(".action-widget").get_by_text("Fix with agent").hover()
    await vscode.page.keyboard.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("I will mend it.")
    assert "not assignable" in json.dumps(vscode.llm.requests[0].body["messages"])
    # More is offered on request. VS Code asks for the bulb's sake 250 ms after each move of the
    # cursor, and drops a slow request that it overtakes: so wait until the bulb has moved.
    line = vscode.page.locator(".editor-instance .view-line")
    bulb = vscode.page.locator(".lightBulbWidget")
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+End")
    await expect(bulb).to_be_hidden()
    await line.filter(has_text="return").click(click_count=3)
    await expect(bulb).to_be_visible()
    action_menu = vscode.page.locator(".action-widget", has_text="Explain")
    for _ in range(N_TRIES):
        # VS Code drops what is asked while the answer for the bulb is on its way.
        await vscode.page.keyboard.press("Control+.")
        with contextlib.suppress(AssertionError):
            await expect(action_menu).to_be_visible(timeout=WAIT_MS / N_TRIES)
            break
    await expect(action_menu).to_contain_text("Write a test")
    await action_menu.get_by_text("Explain", exact=True).hover()
    await vscode.page.keyboard.press("Enter")
    await vscode.expect_answers("I will mend it.", "It adds.")
    assert "return a + b" in json.dumps(vscode.llm.requests[1].body["messages"][-1])


async def test_the_changes_of_the_agent_are_shown_and_settled_in_the_editors_own_diff(
    vscode: VSCode,
) -> None:
    view = call("edit", command="view", path="calc.py")
    edit = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")
    vscode.script(view, edit, say("Fixed."), view, edit, say("Again."))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.say("fix")
    await vscode.expect_answers("Fixed.")
    await vscode.run_command("oh: Show the Agent's Changes")
    diff = vscode.page.locator(".monaco-diff-editor").first
    await expect(diff).to_contain_text(re.compile(r"return\sa\s-\sb"))
    await expect(diff).to_contain_text(re.compile(r"return\sa\s\+\sb"))
    tabs = vscode.page.locator(".tab")
    await vscode.page.get_by_role("button", name="Undo the Agent's Changes of This File").click()
    await expect(tabs).to_have_count(0)
    assert "a - b" in (vscode.project / "calc.py").read_text()

    await vscode.say("again")
    await vscode.expect_answers("Fixed.", "Again.")
    await vscode.fold.last.click()
    await vscode.panel.get_by_role("button", name="Open diff").last.click()
    keep_button = vscode.page.get_by_role("button", name="Keep the Agent's Changes of This File")
    await expect(keep_button).to_be_visible()
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(tabs).to_have_count(0)
    await expect(vscode.panel.locator(".file").last).to_have_attribute("data-state", "kept")
    assert "a + b" in (vscode.project / "calc.py").read_text()


@pytest.mark.full
async def test_files_selections_and_terminal_text_are_added_from_context_menus(
    vscode: VSCode,
) -> None:
    context = vscode.page.context
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await vscode.open(file="calc.py")
    await vscode.page.get_by_role("tab", name=re.compile("Explorer")).click()
    await vscode.page.get_by_role("treeitem", name="calc.py").click(button="right")
    await choose_in_menu(vscode)
    await expect(chips(vscode)).to_have_text(["calc.py"])
    await vscode.panel.get_by_role("button", name="Remove").click()
    await vscode.tab("calc.py").click(button="right")
    await choose_in_menu(vscode)
    await expect(chips(vscode)).to_have_text(["calc.py"])

    line = vscode.page.locator(".editor-instance .view-line").nth(1)
    await line.click(click_count=3)
    await line.click(button="right")
    await choose_in_menu(vscode)
    await expect(chips(vscode)).to_have_text(["calc.py", "calc.py:2–3"])

    await vscode.run_command("Terminal: Create New Terminal")
    await vscode.page.locator(".xterm.focus").wait_for()
    await vscode.page.keyboard.type("echo out''put")
    await vscode.page.keyboard.press("Enter")
    # Output of the shell clears the selection, so wait for all of it, including the next prompt.
    await expect(vscode.page.locator(".xterm-rows")).to_have_text(re.compile(r"output.*[#$]", re.S))
    await vscode.run_command("Terminal: Select All")
    await vscode.page.locator(".xterm-screen").click(button="right")
    await choose_in_menu(vscode)
    await expect(chips(vscode)).to_have_count(3)

    # Mentions and drops attach as well.
    await vscode.input.press_sequentially("@term")
    await expect(vscode.panel.locator(".completion .label")).to_have_text(["Terminal"])
    await vscode.input.press("Enter")
    await expect(chips(vscode)).to_have_count(4)
    await vscode.frame().evaluate(DROP, f"vscode-remote://{vscode.address}{vscode.project}/b.txt")
    await expect(chips(vscode).last).to_have_text("b.txt")
    # A byte of a name need not be UTF-8.
    await vscode.frame().evaluate(DROP, "file:///tmp/caf%E9.txt")
    await expect(chips(vscode).last).to_have_text("caf%E9.txt")
    await vscode.panel.get_by_role("button", name="Remove").last.click()

    vscode.script(say("Read."))
    await vscode.say("look")
    await expect(vscode.panel.locator(".agent")).to_have_text("Read.")
    messages_text = json.dumps(vscode.llm.requests[0].body["messages"])
    assert "return a - b" in messages_text
    assert "echo out" in messages_text
    assert messages_text.count("terminal:/") == 2
    assert "b.txt" in messages_text


@pytest.mark.full
async def test_the_status_bar_tells_what_was_used_and_a_link_opens_a_conversation(
    vscode: VSCode,
) -> None:
    vscode.script(say("First answer."), say("Second answer."))
    await vscode.open()
    await vscode.say("the first task")
    await vscode.expect_answers("First answer.")
    await vscode.page.get_by_role("button", name="Open the agent panel.").hover()
    hover = vscode.page.locator(".monaco-hover")
    await expect(hover).to_contain_text("the first task: 110 tokens")
    logs = vscode.project.glob(".openhands/conversations/*/events.jsonl")
    conversation_id = next(logs).parent.name

    await vscode.start_anew()
    await vscode.run_command("Developer: Open URL")
    field = vscode.page.locator('.quick-input-widget input[type="text"]')
    await field.fill(f"code-oss://oh-daemon.oh-daemon/resume?id={conversation_id}")
    await field.press("Enter")
    await vscode.page.get_by_role("dialog").get_by_role("button", name="Open").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("First answer.")


@pytest.mark.full
async def test_the_agent_writes_the_commit_message_and_mends_a_failing_test(vscode: VSCode) -> None:
    for words in (["init", "-q"], ["add", "calc.py"], ["commit", "-qm", "Begin to calculate"]):
        subprocess.run([*GIT, *words], cwd=vscode.project, check=True)
    (vscode.project / "calc.py").write_text(CALC.replace("a - b", "a + b"))
    vscode.script(say("```\nAdd instead of subtracting\n```"), say("It passes now."))
    await vscode.open(file="calc.py")
    page = vscode.page
    await page.get_by_role("tab", name=re.compile("Source Control")).click()
    await vscode.server.change_settings({"git.enabled": True}, page.locator(".scm-input"))
    await page.get_by_role("button", name="Changes Section").hover()
    await page.get_by_role("button", name="Write the Commit Message").click()
    await expect(page.locator(".scm-input .view-lines")).to_contain_text(
        shown_name("Add instead of")
    )
    [request] = vscode.llm.requests
    messages_text = json.dumps(request.body["messages"])
    assert "- Begin to calculate" in messages_text
    assert "+    return a + b" in messages_text
    assert not request.body.get("tools")
    vscode.server.write_settings(vscode.server.settings)

    await vscode.run_command("Python: Fail or Forget")
    await page.get_by_role("tab", name="Testing").click()
    rows = page.locator(".test-explorer .monaco-list-row")
    await rows.filter(has_text="test_calc").click()
    test = rows.filter(has_text="test_add")
    await test.hover()
    await test.get_by_role("button", name="Fix with the Agent").click()
    await vscode.expect_answers("It passes now.")
    actual_messages_text = json.dumps(vscode.llm.requests[-1].body["messages"])
    assert "test_calc \\u203a test_add" in actual_messages_text
    vscode.script(say("It passes."))
    await vscode.run_command("Test Results: Focus on Test Results View")
    results = page.locator(".part.panel").get_by_role("treeitem")
    await results.filter(has_text="test_add").click()
    await page.keyboard.press("ArrowRight")
    message = results.filter(has_text="assert add(2, 2)")
    await message.hover()
    await message.get_by_role("button", name="Fix with the Agent").click()
    await vscode.expect_answers("It passes.")
    actual_messages_text = json.dumps(vscode.llm.requests[-1].body["messages"])
    assert "assert add(2, 2) == 4\\nExpected: 4\\nActual: 0" in actual_messages_text
    await vscode.run_command("Python: Fail or Forget")


def shown_name(text: str) -> str:
    """Return a text as VS Code renders it."""
    return text.replace(" ", "\u00a0")


def chips(vscode: VSCode) -> Locator:
    return vscode.panel.locator(".attached .chip")


async def choose_in_menu(vscode: VSCode) -> None:
    """Choose by key, since a menu takes no click in its first moments."""
    await vscode.page.get_by_role("menuitem", name="Add to Conversation").hover()
    await vscode.page.keyboard.press("Enter")
