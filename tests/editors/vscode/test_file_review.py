"""What a turn changed: one diff, kept or undone by file and hunk, around the user's text."""

import json
import re
import threading

import pytest
from common_window import CALC
from fake_llm import Step, call, calls, hold_step, say
from looks import take_picture
from playwright.async_api import Locator, expect
from window import VSCode

pytestmark = pytest.mark.one_window

BEFORE = "\n".join(f"line {n}" for n in range(1, 13)) + "\n"
AFTER = BEFORE.replace("line 2\n", "line two\n").replace("line 11\n", "line eleven\n")


def replace(path: str, old: str, new: str) -> Step:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


@pytest.fixture
def task(vscode: VSCode) -> VSCode:
    """The agent edits one file in two places, and creates another one."""
    (vscode.project / "lines.txt").write_text(BEFORE)
    vscode.script(
        call("edit", command="view", path="lines.txt"),
        calls(
            replace("lines.txt", "line 2\n", "line two\n"),
            replace("lines.txt", "line 11\n", "line eleven\n"),
            call("edit", command="create", path="made/new.txt", text="new\n"),
        ),
        say("Done."),
    )
    return vscode


CLICK_AT_ONCE = """(name) => {
  const click = () => [...document.querySelectorAll(".disclose")].find((each) =>
    each.textContent.startsWith(name))?.click();
  const drawn = new MutationObserver(() => {
    if (!document.querySelector(".log .changes")) return;
    drawn.disconnect();
    click();
  });
  drawn.observe(document.body, {subtree: true, childList: true});
}"""
"""Clicks a file as soon as it is drawn, when it is not known yet what was decided about it."""


def file_row(vscode: VSCode, name: str) -> Locator:
    return vscode.panel.locator(".file", has_text=name)


async def test_a_turn_is_reviewed_in_one_diff_by_file_and_by_hunk_with_the_keyboard(
    task: VSCode,
) -> None:
    vscode = task
    await vscode.open(file="lines.txt")
    await vscode.choose("mode", "full")
    await vscode.say("Change the lines")
    card = vscode.panel.get_by_role("region", name="2 files changed")
    await expect(card.locator(".changes-title .counts")).to_have_text("+3 \N{MINUS SIGN}2")

    await card.get_by_role("button", name="Review").click()
    await expect(vscode.page.locator(".multiDiffEditor")).to_be_visible()
    await expect(vscode.page.locator(".multiDiffEntry")).to_have_count(2)

    await vscode.reload()
    await vscode.open_file("lines.txt")
    await card.get_by_role("button", name="Keep made/new.txt").click()
    await expect(file_row(vscode, "new.txt")).to_have_attribute("data-state", "kept")
    await card.get_by_role("button", name="lines.txt", exact=True).press("Enter")
    await expect(card.locator(".one-hunk")).to_have_count(2)
    await card.get_by_role("button", name="Undo change 2 of 2").press("Enter")
    await expect(card.locator(".one-hunk")).to_have_count(1)
    expected = AFTER.replace("line eleven", "line 11")
    await vscode.expect_editor("line two")
    assert (vscode.project / "lines.txt").read_text() == expected
    await card.get_by_role("button", name=re.compile("Keep change 1 of 1")).press("Enter")
    await expect(file_row(vscode, "lines.txt")).to_have_attribute("data-state", "kept")
    assert (vscode.project / "lines.txt").read_text() == expected
    assert (vscode.project / "made/new.txt").read_text() == "new\n"


async def test_what_the_user_wrote_since_is_never_reverted(task: VSCode) -> None:
    vscode = task
    await vscode.open(file="lines.txt")
    await vscode.choose("mode", "full")
    await vscode.frame().evaluate(CLICK_AT_ONCE, "made/new.txt")
    await vscode.say("Change the lines")
    await expect(file_row(vscode, "lines.txt")).to_have_attribute("data-state", "pending")
    await expect(file_row(vscode, "new.txt").locator(".one-hunk")).to_have_count(1)
    await expect(vscode.tab("new.txt")).to_have_count(0)
    # The user adds a line of their own, and changes one that the agent wrote.
    await vscode.type_in_editor("mine\n", at="Control+End")
    await vscode.type_in_editor("better ", at="Control+Home")
    for key in ("ArrowDown", "Home"):
        await vscode.page.keyboard.press(key)
    await vscode.page.keyboard.insert_text("my ")

    await vscode.panel.get_by_role("button", name="Undo lines.txt").click()
    row = file_row(vscode, "lines.txt")
    await expect(row.get_by_role("alert")).to_contain_text("the same lines were changed since")
    await vscode.expect_editor("my line two")
    await row.get_by_role("button", name="lines.txt", exact=True).click()
    await row.get_by_role("button", name="Undo change 2 of 2").click()
    await vscode.expect_editor("line 11")
    await vscode.expect_editor("my line two")
    await vscode.expect_editor("mine")
    # A file that only the agent wrote goes as a whole.
    await vscode.panel.get_by_role("button", name="Undo made/new.txt").click()
    row_of_new = file_row(vscode, "new.txt")
    await expect(row_of_new).to_have_attribute("data-state", "undone")
    assert not (vscode.project / "made/new.txt").exists()
    await row_of_new.get_by_role("button").click()
    problem = vscode.panel.locator(".problem p")
    await expect(problem).to_have_text("made/new.txt does not exist any more.")


async def test_changes_are_seen_and_settled_in_the_open_buffer_by_click_and_by_key(
    vscode: VSCode,
) -> None:
    (vscode.project / "lines.txt").write_text(BEFORE)
    vscode.script(
        call("edit", command="view", path="lines.txt"),
        calls(
            replace("lines.txt", "line 2\n", "line two\n"),
            replace("lines.txt", "line 7\n", ""),
            replace("lines.txt", "line 11\n", "line 11\nline 11 and a half\n"),
            call("edit", command="create", path="made/new.txt", text="new\n"),
        ),
        say("Done."),
    )
    await vscode.open(file="lines.txt")
    await vscode.choose("mode", "full")
    await vscode.say("Change the lines")
    lenses = vscode.page.locator(".editor-instance .codelens-decoration")
    await expect(lenses).to_have_text(
        [
            re.compile(rf"^Change {n} of 4 · {counts}.*Keep.*Undo$")
            for n, counts in enumerate((r"\+1 −1", r"\+0 −1", r"\+1 −0"), start=1)
        ]
    )
    bar = vscode.page.locator(".statusbar")
    await expect(bar).to_contain_text("1 of 4 changes · 2 files")
    await take_picture(vscode, "inline")

    # What the buffer no longer holds is shown by the editor's own peek, which settles it too.
    await lenses.nth(1).get_by_role("button", name=re.compile("Change 2")).click()
    peek = vscode.page.locator(".peekview-widget")
    await expect(peek.locator(".deleted-sign, .line-delete").first).to_be_visible()
    await expect(peek).to_contain_text(re.compile(r"line\s7"))
    await take_picture(vscode, "peek")
    await peek.locator(".codicon-discard").click()
    await vscode.expect_editor("line 7")
    await expect(lenses).to_have_count(2)
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+Home")
    await vscode.page.keyboard.insert_text("mine\n")
    await vscode.page.keyboard.press("Alt+F5")
    await vscode.page.keyboard.press("Control+Alt+Backspace")
    await vscode.expect_editor("line 2")
    await expect(bar).to_contain_text("1 of 2 changes · 2 files")
    await vscode.page.keyboard.press("Alt+F5")
    await vscode.page.keyboard.press("Alt+F5")
    await vscode.tab("new.txt").wait_for()
    await expect(bar).to_contain_text("2 of 2 changes · 2 files")
    await bar.get_by_role("button", name="Keep all").click()
    await expect(bar).not_to_contain_text("changes")
    vscode.script(call("edit", command="create", path="empty.txt", text=""), say("Made."))
    await vscode.say("Make an empty file")
    await expect(bar).to_contain_text("1 file")
    await expect(bar).not_to_contain_text("change")
    await expect(lenses).to_have_count(0)
    assert (vscode.project / "made/new.txt").read_text() == "new\n"


@pytest.mark.full
async def test_an_instruction_for_lines_changes_them_in_place(vscode: VSCode) -> None:
    gate = threading.Event()
    vscode.script(
        hold_step(call("edit", command="view", path="calc.py"), gate),
        replace("calc.py", "a - b", "a + b"),
        call("terminal", command="touch made"),
        say("It adds now."),
        replace("calc.py", "a + b", "b + a"),
        say("Left as it was."),
        call("edit", command="view", path="calc.py"),
        replace("calc.py", "a + b", "a * b"),
    )
    await vscode.open(file="calc.py")
    await instruct(vscode, "make it add")
    lens = vscode.page.locator(".editor-instance .codelens-decoration")
    await expect(lens).to_have_text(re.compile("The agent edits this.*Stop"))
    last_message = json.dumps(vscode.llm.requests[0].body["messages"][-1])
    assert "make it add" in last_message
    assert "calc.py" in last_message
    assert "return a - b" in last_message
    gate.set()
    # The change is what the user has asked for; a command is not.
    await vscode.expect_editor("a + b")
    await lens.get_by_role("button", name="The agent asks you").click()
    await expect(vscode.approval.get_by_role("heading")).to_contain_text("command")
    await vscode.answer("reject")
    await vscode.expect_answers("It adds now.")
    await expect(lens).to_have_text(re.compile("Change 1 of 1.*Keep.*Undo.*It adds now.*Dismiss"))
    await take_picture(vscode, "instructed")
    # What a later message changes is asked about as ever.
    await vscode.say("the other way round")
    await expect(vscode.approval.get_by_role("heading")).to_contain_text("edit")
    await vscode.answer("reject")
    await vscode.expect_answers("It adds now.", "Left as it was.")
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(lens).to_have_count(0)
    assert (vscode.project / "calc.py").read_text() == CALC.replace("a - b", "a + b")

    # Who wants to be asked about everything is asked about this too.
    await vscode.start_anew()
    await vscode.choose("approval", "askAlways")
    await instruct(vscode, "make it multiply")
    await expect(lens).to_contain_text("The agent asks you")
    await vscode.page.keyboard.press("Escape")
    await expect(lens).to_have_count(0)
    await expect(vscode.page.get_by_role("button", name="Open the agent panel.")).to_be_visible()


async def instruct(vscode: VSCode, text: str) -> None:
    await vscode.focus_editor()
    for n, key in enumerate(("Control+Home", "ArrowDown"), start=1):
        await vscode.page.keyboard.press(key)
        await vscode.page.get_by_role("button", name=f"Ln {n}, Col 1").wait_for()
    await vscode.page.keyboard.press("Control+i")
    field = vscode.page.locator('.quick-input-widget input[type="text"]')
    await expect(vscode.page.locator(".quick-input-title")).to_contain_text("Edit calc.py:2")
    await field.fill(text)
    await field.press("Enter")
    await expect(field).to_be_hidden()
