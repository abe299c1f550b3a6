"""Questions in the panel: exact, inert at first, answered once, and never lost."""

import json

import pytest
from common_window import PATCHES
from fake_llm import call, calls, say
from looks import take_picture
from playwright.async_api import Locator, expect
from window import VSCode

pytestmark = pytest.mark.one_window

TOUCH = call("terminal", command="touch made", security_risk="low", summary="Make the file")
VIEW = call("edit", command="view", path="calc.py")
EDIT = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")
LINES = "".join(f"line {n}\n" for n in range(1, 31))
VIEW_LINES = call("edit", command="view", path="lines.txt")
PATCH = """*** Begin Patch
*** Update File: lines.txt
@@
-line 5
+agent 5
@@
-line 20
+agent 20
*** Add File: made.txt
+made
*** End Patch"""
WATCH_BUTTONS = """() => {
  const keepBusy = (ms) => {
    const until = performance.now() + ms;
    while (performance.now() < until);
    return performance.now();
  };
  let since;
  window.inertMs = new Promise((resolve) => {
    new MutationObserver(() => {
      const button = document.querySelector(".approval button[data-option]");
      if (!button) return;
      since ??= keepBusy(500);
      if (!button.disabled) resolve(performance.now() - since);
    }).observe(document.body, {subtree: true, childList: true, attributes: true});
  });
}"""
"""Keeps the page too busy to paint the buttons, and notes how long they are inert after that."""


async def test_a_command_is_shown_exactly_is_inert_at_first_and_runs_when_allowed(
    vscode: VSCode,
) -> None:
    vscode.script(TOUCH, say("Made."))
    await vscode.open()
    await vscode.frame().evaluate(WATCH_BUTTONS)
    await vscode.say("make it")
    await expect(vscode.approval.get_by_role("textbox", name="Command")).to_have_value("touch made")
    await expect(vscode.approval.locator(".risk")).to_have_text("medium risk")
    await expect(vscode.approval.locator(".why")).not_to_be_empty()
    assert await vscode.frame().evaluate("() => window.inertMs") > 390
    await expect(
        vscode.page.get_by_role("button", name="An action waits for your approval.")
    ).to_be_visible()
    badge = vscode.page.locator(".activitybar .badge-content", has_text="1")
    await expect(badge.first).to_be_attached()
    assert not (vscode.project / "made").exists()
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    await expect(vscode.approval).to_have_count(0)
    await expect(badge).to_have_count(0)
    assert (vscode.project / "made").exists()


async def test_a_rejection_takes_a_note_along_and_an_edited_command_runs_as_edited(
    vscode: VSCode,
) -> None:
    vscode.script(TOUCH, say("Then not."), TOUCH, say("Made."))
    await vscode.open()
    await vscode.say("make it")
    note = vscode.approval.get_by_label("Note to the agent")
    await expect(note).to_be_hidden()
    await vscode.answer("note")
    await note.fill("use make test")
    await note.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Then not.")
    await expect(vscode.commands).to_have_attribute("data-status", "rejected")
    assert "use make test" in str(vscode.llm.requests[-1].body["messages"][-1])
    await vscode.say("again")
    await vscode.expect_answerable()
    await vscode.approval.get_by_role("textbox", name="Command").fill("touch other")
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text(["Then not.", "Made."])
    assert (vscode.project / "other").exists()
    assert not (vscode.project / "made").exists()


@pytest.mark.full
async def test_a_tool_that_reads_says_what_it_would_read(vscode: VSCode) -> None:
    vscode.script(VIEW, say("Read."))
    await vscode.open()
    await vscode.choose("approval", "askAlways")
    await vscode.say("look")
    await expect(vscode.approval.get_by_role("heading")).to_have_text("View calc.py?")
    await vscode.answer("allow-once")
    await vscode.expect_answers("Read.")


async def test_an_edit_is_allowed_from_the_diff_editor_that_shows_it(vscode: VSCode) -> None:
    vscode.script(VIEW, EDIT, say("Fixed."))
    await vscode.open(file="calc.py")
    await vscode.say("fix")
    await expect(vscode.approval.locator(".add")).to_contain_text("return a + b")
    # Its lines are marked in the file itself, where a lens has the answers.
    await expect(lens(vscode)).to_have_text("Proposed +1 −1 | Allow | Reject | Review")
    await take_picture(vscode, "proposed", ("dark",))
    await lens(vscode).get_by_role("button", name="Review").click()
    await expect(vscode.page.locator(".monaco-diff-editor").first).to_be_visible()
    await vscode.expect_answerable()
    await vscode.page.get_by_role("button", name="Allow Once").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("Fixed.")
    assert "a + b" in (vscode.project / "calc.py").read_text()


@pytest.mark.full
async def test_an_edit_is_rejected_from_the_diff_editor_and_by_key(vscode: VSCode) -> None:
    vscode.script(VIEW, EDIT, say("Then not."), EDIT, say("I see."), EDIT, say("Fixed."))
    await vscode.open(file="calc.py")
    await vscode.say("fix")
    await vscode.approval.get_by_role("button", name="Open diff").click()
    await expect(vscode.page.locator(".monaco-diff-editor").first).to_be_visible()
    await vscode.expect_answerable()
    await vscode.page.get_by_role("button", name="Reject (Ctrl+Alt+Backspace)").click()
    await vscode.expect_answers("Then not.")
    await expect(vscode.page.locator(".monaco-diff-editor")).to_have_count(0)
    await vscode.say("really?")
    await vscode.expect_answerable()
    await vscode.page.keyboard.press("Control+Alt+Backspace")
    await vscode.expect_answers("Then not.", "I see.")
    assert "a - b" in (vscode.project / "calc.py").read_text()
    await vscode.say("I do, after all")
    await vscode.expect_answerable()
    await lens(vscode).get_by_role("button", name="Allow").click()
    await vscode.expect_editor("a + b")


async def test_several_edits_are_allowed_together_but_none_of_high_risk(vscode: VSCode) -> None:
    paths = "one.txt", "src/two.txt", ".vscode/tasks.json", "three.txt"
    edits = [call("edit", command="create", path=path, text="++ x\n") for path in paths]
    vscode.script(calls(*edits), say("Written."))
    await vscode.open()
    await vscode.say("write them")
    every = vscode.approval.locator(".all")
    allow_all = every.get_by_role("button", name="Allow all")
    await expect(allow_all).to_have_text("Allow all 3")
    await expect(every).to_contain_text("You are still asked about 1 of high risk")
    await vscode.answer("more")
    labels = vscode.approval.locator(".menu button")
    await expect(labels).to_have_text(
        [
            "Allow edits of this file in this conversation",
            "Allow edits of any file in this conversation",
            "Always allow edits of this file in this folder",
        ]
    )
    # What one click allows is seen whole.
    await expect(every.get_by_role("listitem")).to_contain_text(
        ["Create src/two.txt", "Create three.txt"]
    )
    await expect(every.locator(".rows")).to_have_text(["+++ x", "+++ x"])
    await take_picture(vscode, "several", ("dark",))
    await allow_all.click()
    await expect(vscode.approval).to_have_attribute("data-risk", "high")
    await expect(vscode.approval.locator(".primary")).to_have_count(0)
    await expect(vscode.approval.locator(".menu button")).to_have_count(0)
    assert not (vscode.project / ".vscode/tasks.json").exists()
    # By key, a note goes along.
    await vscode.expect_answerable()
    await vscode.page.keyboard.press("Control+Alt+Shift+Backspace")
    note = vscode.approval.get_by_label("Note to the agent")
    await expect(note).to_be_focused()
    await note.press_sequentially("not there")
    await note.press("Enter")
    await vscode.expect_answers("Written.")
    assert "not there" in str(vscode.llm.requests[-1].body["messages"][-4:])
    created_paths = {path for path in paths if (vscode.project / path).exists()}
    assert created_paths == {"one.txt", "src/two.txt", "three.txt"}


@pytest.mark.full
async def test_a_diff_that_is_cut_is_not_opened_by_half(vscode: VSCode) -> None:
    long = "".join(f"line {n:06}\n" for n in range(4_000))
    vscode.script(VIEW, call("edit", command="create", path="long.txt", text=long), say("No."))
    await vscode.open(file="calc.py")
    await vscode.say("Write it")
    await vscode.approval.get_by_role("button", name="Open diff").click()
    toast = vscode.page.locator(".notification-toast")
    await expect(toast).to_contain_text("long.txt has changed since, or the change is too long")
    await expect(vscode.page.locator(".monaco-diff-editor")).to_have_count(0)
    await vscode.answer("reject")
    await expect(vscode.panel.locator(".agent")).to_have_text("No.")


@pytest.mark.full
async def test_single_changes_are_left_out_of_an_edit_before_it_is_written(vscode: VSCode) -> None:
    """By key in the panel; the open diff follows, and the choice survives a reload."""
    lines = vscode.project / "lines.txt"
    lines.write_text(LINES)
    edits = [{"old_text": f"line {n}\n", "new_text": f"agent {n}\n"} for n in (3, 11, 29)]
    edit = call("edit", command="replace", path="lines.txt", edits=edits)
    vscode.script(VIEW_LINES, edit, say("As you wish."))
    await vscode.open(file="lines.txt")
    await vscode.say("Change the lines")
    allow = vscode.approval.locator('[data-option="allow-once"]')
    await expect(vscode.approval.locator(".one-hunk")).to_have_count(3)
    await expect(allow).to_have_text("Allow Ctrl+Alt+↵")
    await change(vscode, "Leave out change 3 of 3").press("Enter")
    await expect(change(vscode, "Take change 3 of 3")).to_be_focused()
    await expect(vscode.approval.get_by_role("heading")).to_have_text("Make 2 of 3 changes?")
    await expect(allow).to_have_text("Allow 2 of 3 changes Ctrl+Alt+↵")
    await expect(vscode.approval.locator(".counts")).to_have_text("+2 −2")
    # An answer that lasts applies only to a whole edit.
    await expect(vscode.approval.locator('[data-option="allow-conversation"]')).to_be_hidden()

    await vscode.approval.get_by_role("button", name="Open diff").click()
    proposed_editor = vscode.page.locator(
        ".monaco-diff-editor .editor.modified .lines-content > .view-lines"
    )
    await expect(proposed_editor).to_contain_text("agent\u00a03")
    await expect(proposed_editor).not_to_contain_text("agent\u00a029")
    await change(vscode, "Leave out change 1 of 3").press("Enter")
    await expect(allow).to_have_text("Allow 1 of 3 changes Ctrl+Alt+↵")
    await expect(proposed_editor).not_to_contain_text("agent\u00a03")
    await change(vscode, "Take change 3 of 3").press("Enter")
    await expect(proposed_editor).to_contain_text("agent\u00a029")

    approval_id = await vscode.approval.get_attribute("data-id")
    await vscode.expect_kept(f'"{approval_id}":{{"omitted":[0]}}')
    await vscode.reload()
    await expect(allow).to_have_text("Allow 2 of 3 changes Ctrl+Alt+↵")
    # The choice also applies to an answer in the diff, while the panel is out of sight.
    await expect(allow).to_be_enabled()
    await vscode.approval.get_by_role("button", name="Open diff").click()
    await expect(proposed_editor).to_contain_text("agent\u00a029")
    await vscode.page.keyboard.press("Control+b")
    await expect(vscode.approval).to_have_count(0)
    await vscode.page.get_by_role("button", name="Allow Once").click()
    await expect(vscode.page.locator(".monaco-diff-editor")).to_have_count(0)
    await vscode.page.keyboard.press("Control+b")
    await vscode.show_agent()
    await vscode.panel.get_by_role("button", name="Resume").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("As you wish.")
    new_text = LINES.replace("line 11\n", "agent 11\n").replace("line 29\n", "agent 29\n")
    assert lines.read_text() == new_text
    assert "-line 3\\n+agent 3" in left_out(vscode)
    assert allowed_lines(vscode) == [10, 28]


@pytest.mark.full
async def test_of_a_patch_whole_files_and_single_changes_are_left_out(vscode: VSCode) -> None:
    lines = vscode.project / "lines.txt"
    lines.write_text(LINES)
    vscode.script(say("Hello."), VIEW_LINES, call("apply_patch", input=PATCH), say("As you wish."))
    await vscode.open(file="lines.txt")
    await vscode.say("Hello")
    await expect(vscode.panel.locator(".agent")).to_have_text("Hello.")
    await vscode.choose("model", PATCHES)
    await vscode.say("Change the lines")
    heading, allow = (
        vscode.approval.get_by_role("heading"),
        vscode.approval.locator('[data-option="allow-once"]'),
    )
    # The button is in sight however long the edit is.
    await expect(allow).to_be_in_viewport(ratio=1)
    await expect(vscode.approval.locator(".badge")).to_have_text("new")
    await expect(lens(vscode)).to_have_text("Proposed +2 −2 · and 1 more file | Reject | Review")
    for n in (1, 2, 3):
        await change(vscode, f"Leave out change {n} of 3").click()
    await expect(heading).to_have_text("Every change is left out")
    await expect(allow).to_be_disabled()
    await change(vscode, "Take change 2 of 3 in lines.txt").click()
    await expect(allow).to_have_text("Allow 1 of 3 changes Ctrl+Alt+↵")
    await allow.click()
    await expect(vscode.panel.locator(".agent").last).to_have_text("As you wish.")
    note = vscode.panel.locator('.card[data-kind="fileChange"] .note')
    await expect(note).to_have_text("Without the changes that you left out")
    assert lines.read_text() == LINES.replace("line 20\n", "agent 20\n")
    assert not (vscode.project / "made.txt").exists()
    assert all(each in left_out(vscode) for each in ("-line 5\\n+agent 5", "+made"))
    assert allowed_lines(vscode) == [19]


def lens(vscode: VSCode) -> Locator:
    return vscode.page.locator(".editor-instance .codelens-decoration")


def change(vscode: VSCode, name: str) -> Locator:
    return vscode.approval.get_by_role("button", name=name)


def left_out(vscode: VSCode) -> str:
    """Return what the model was told about changes that were left out."""
    last_message = str(vscode.llm.requests[-1].body["messages"][-1])
    return last_message.partition("The user left this out of your edit")[2]


def allowed_lines(vscode: VSCode) -> list[int]:
    """Return the line at which each allowed hunk starts, from the answer in the log."""
    [log] = vscode.project.glob(".openhands/conversations/*/events.jsonl")
    answers = [line for line in log.read_text().split("\n") if '"approval.resolved"' in line]
    [answer] = [json.loads(line)["event"] for line in answers]
    return [hunk["oldStart"] for hunk in answer["editedSubject"]["hunks"]]
