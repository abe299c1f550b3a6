"""The agent edits beside the user, whose own edits are neither lost nor saved unasked."""

import pytest
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

VIEW = call("edit", command="view", path="calc.py")
EDIT = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")


async def test_what_the_user_types_while_an_edit_waits_stays_beside_it(vscode: VSCode) -> None:
    vscode.script(VIEW, EDIT, say("Fixed."))
    await vscode.open(file="calc.py")
    await vscode.say("Fix add")
    await expect(vscode.approval.locator(".add")).to_contain_text("return a + b")
    await vscode.type_in_editor("# mine\n", at="Control+Home")
    await vscode.answer("allow-once")
    # The edit is no longer the one that was shown, so it is shown again.
    await expect(vscode.approval.locator(".diff")).to_contain_text("# mine")
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Fixed.")
    await vscode.expect_editor("# mine")
    await vscode.expect_editor("return a + b")
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+z")
    await vscode.expect_editor("return a - b")
    await vscode.expect_editor("# mine")


@pytest.mark.full
async def test_an_edit_of_text_that_the_user_has_changed_meanwhile_is_refused(
    vscode: VSCode,
) -> None:
    vscode.script(VIEW, EDIT, say("Then I leave it."))
    await vscode.open(file="calc.py")
    await vscode.say("Fix add")
    await expect(vscode.approval.locator(".add")).to_contain_text("return a + b")
    await vscode.type_in_editor("def add(*n):\n    return sum(n)\n", at="Control+a")
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Then I leave it.")
    await expect(vscode.panel.locator('.card[data-kind="fileChange"]')).to_have_attribute(
        "data-status", "failed"
    )
    assert "return sum(n)" in str(vscode.llm.requests[-1].body["messages"][-1])
    await vscode.expect_editor("return sum(n)")
    assert await vscode.page.locator(".editor-instance", has_text="a + b").count() == 0


@pytest.mark.full
async def test_a_file_that_is_not_open_is_edited_on_disk_and_opens_no_editor(
    vscode: VSCode,
) -> None:
    vscode.script(VIEW, EDIT, say("Fixed."))
    (vscode.project / "other.py").write_text("import calc\n")
    await vscode.open(file="other.py")
    await vscode.choose("mode", "full")
    await vscode.say("Fix add")
    await expect(vscode.panel.locator(".agent")).to_have_text("Fixed.")
    assert "return a + b" in (vscode.project / "calc.py").read_text()
    await expect(vscode.page.locator(".tab")).to_have_count(1)
    await expect(vscode.page.locator(".tab.dirty")).to_have_count(0)

    # A message that is too large costs the daemon the texts that it follows; it asks for them.
    await vscode.type_in_editor("# unsaved\n")
    (vscode.project / "large.txt").write_text(('"' * 63 + "\n") * (9 << 14))
    await vscode.open_file("large.txt")
    vscode.script(call("edit", command="view", path="other.py"), say("Seen."))
    await vscode.say("Look")
    await vscode.expect_answers("Fixed.", "Seen.")
    assert "# unsaved" in str(vscode.llm.requests[-1].body["messages"][-1])


@pytest.mark.full
async def test_unsaved_text_above_5_mib_is_read_and_edited_in_its_editor(vscode: VSCode) -> None:
    path = vscode.project / "large.txt"
    path.write_text("one\n" + ("x" * 999 + "\n") * 6000)
    on_disk = path.read_bytes()
    edit = call("edit", command="replace", path="large.txt", old_text="one", new_text="two")
    vscode.script(call("edit", command="view", path="large.txt"), edit, say("Edited."))
    await vscode.open(file="large.txt")
    await vscode.type_in_editor("typed ", at="Control+Home")
    await vscode.choose("mode", "full")
    await vscode.say("edit it")
    await vscode.expect_answers("Edited.")
    await vscode.expect_editor("typed two")
    await expect(vscode.page.locator(".tab.dirty")).to_have_count(1)
    assert path.read_bytes() == on_disk


async def test_before_a_command_runs_the_unsaved_edits_are_saved_when_the_user_agrees(
    vscode: VSCode,
) -> None:
    vscode.script(VIEW, EDIT, call("terminal", command="cat calc.py"), say("Checked."))
    await vscode.open(file="calc.py")
    await vscode.type_in_editor("# mine\n", at="Control+Home")
    await vscode.choose("mode", "autoEdit")
    await vscode.say("Fix add and check")
    await expect(vscode.approval.get_by_role("heading")).to_have_text("Save these files first?")
    await expect(vscode.approval.locator(".exact")).to_have_text("calc.py")
    assert "mine" not in (vscode.project / "calc.py").read_text()
    await vscode.answer("allow-once")
    await expect(vscode.panel.locator(".agent")).to_have_text("Checked.")
    output = vscode.commands.locator(".output")
    await expect(output).to_contain_text("# mine")
    await expect(output).to_contain_text("return a + b")
    await expect(vscode.page.locator(".tab.dirty")).to_have_count(0)
