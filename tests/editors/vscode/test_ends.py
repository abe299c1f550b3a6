"""A killed daemon, a reloaded editor and a closed window lose nothing and leave no process."""

import re
import threading

import pytest
from code_server import RESTART_KEY
from fake_llm import call, calls, hold_step, say
from partial_texts import wait_until_kept
from playwright.async_api import expect
from window import VSCode, expect_ended

pytestmark = pytest.mark.one_window


async def test_a_turn_of_a_killed_daemon_is_paused_and_goes_on(vscode: VSCode) -> None:
    sleep = call("terminal", command="sleep 300")
    vscode.script(sleep, sleep, say("On we go."))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.say("wait for the other")
    await expect(vscode.commands).to_have_attribute("data-status", "running")
    await vscode.start_anew()
    await vscode.say("wait")
    await expect(vscode.commands).to_have_attribute("data-status", "running")
    vscode.server.daemon().kill()
    await vscode.expect_status("Paused: the daemon was restarted")
    await expect(vscode.commands).to_have_attribute("data-status", "cancelled")
    await expect(vscode.commands).to_contain_text("it is unknown whether this happened")
    await vscode.panel.get_by_role("button", name="Resume").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("On we go.")
    # Nobody has opened the other one since, but nobody works on it either.
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    other_row = vscode.panel.locator(".conversation", has_text="wait for the other")
    await expect(other_row.locator(".row-meta")).to_have_text(re.compile("^paused · "))
    # The next daemon opens the conversation again, but the user stays in the list.
    before = vscode.server.daemons()
    await vscode.run_command("oh: Restart the Daemon")
    await expect_ended(*before)
    search = vscode.panel.get_by_label("Search conversations")
    await search.fill("none of these")
    await expect(vscode.panel.locator(".conversations")).to_have_text("Nothing found.")
    await expect(search).to_be_visible()
    await search.fill("")
    await other_row.locator(".row").click()
    await vscode.expect_status("Paused: the daemon was restarted")


async def test_a_question_survives_a_killed_daemon_and_a_reload(vscode: VSCode) -> None:
    touch = call("terminal", command="touch made", security_risk="low")
    vscode.script(touch, say("Made."))
    await vscode.open()
    await vscode.say("make it")
    await vscode.expect_status("Waits for you")
    await vscode.input.fill("a draft before the kill")
    vscode.server.daemon().kill()
    await vscode.expect_status("Paused: the daemon was restarted")
    command = vscode.approval.get_by_role("textbox", name="Command")
    note = vscode.approval.get_by_label("Note to the agent")
    await command.fill("touch other")
    await vscode.answer("note")
    await note.fill("another name")
    await vscode.expect_kept("another name")
    await vscode.reload()
    await expect(vscode.input).to_have_value("a draft before the kill")
    await expect(command).to_have_value("touch other")
    await expect(note).to_have_value("another name")
    await vscode.answer("allow-once")
    await vscode.panel.get_by_role("button", name="Resume").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    assert (vscode.project / "other").exists()
    assert not (vscode.project / "made").exists()


@pytest.mark.full
async def test_what_a_killed_daemon_was_writing_stands_there_as_cut_off(vscode: VSCode) -> None:
    gate = threading.Event()
    vscode.script(hold_step(say("Half of it. The rest.", n_chunks=2), gate), say("All of it."))
    await vscode.open()
    await vscode.say("tell me")
    await expect(vscode.panel.locator(".agent")).to_contain_text("Half of")
    wait_until_kept(vscode.project, "Half of it.")
    vscode.server.daemon().kill()
    await vscode.expect_status("Paused: the daemon was restarted")
    cut_text = "Half of it.Cut off: the daemon ended while it wrote this answer"
    await expect(vscode.panel.locator(".agent")).to_have_text(cut_text)
    gate.set()
    await vscode.panel.get_by_role("button", name="Resume").click()
    await vscode.expect_answers(cut_text, "All of it.")


@pytest.mark.full
async def test_a_reload_in_the_middle_of_a_turn_loses_neither_text_nor_draft(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(hold_step(calls(say("Half of it. "), say("The rest.")), gate), say("Next."))
    await vscode.open()
    await vscode.say("tell me")
    await expect(vscode.panel.locator(".agent")).to_have_text("Half of it.")
    await vscode.input.press_sequentially("@calc")
    await expect(vscode.panel.locator(".completion .label")).to_have_text(["calc.py"])
    await vscode.input.press("Enter")
    await vscode.input.fill("a draft before the reload")
    await vscode.expect_kept("a draft before the reload")
    daemon = vscode.server.daemon()
    await vscode.reload()
    # The daemon's end holds the turn; until then, it would still hear the end of the answer.
    await expect_ended(daemon)
    await expect(vscode.input).to_have_value("a draft before the reload")
    await expect(vscode.panel.locator(".attached .chip")).to_have_text("calc.py")
    await expect(vscode.panel.locator(".user")).to_have_text(["tell me"])
    gate.set()
    await vscode.panel.get_by_role("button", name="Resume").click()
    await expect(vscode.panel.locator(".agent").last).to_have_text("Next.")


@pytest.mark.full
async def test_a_message_to_a_daemon_that_ends_goes_to_the_next_one(vscode: VSCode) -> None:
    vscode.script(say("One."), say("Two."))
    await vscode.open()
    daemon = vscode.server.daemon()
    daemon.suspend()
    await vscode.say("first")
    await expect(vscode.panel.locator(".user")).to_have_text("first")
    daemon.kill()
    await vscode.expect_answers("One.")

    vscode.server.daemon().suspend()
    await vscode.say("second")
    await expect(vscode.panel.locator(".user")).to_have_text(["first", "second"])
    await vscode.page.keyboard.press(RESTART_KEY)
    await vscode.expect_answers("One.", "Two.")
    await expect(vscode.panel.locator(".user")).to_have_text(["first", "second"])
    await expect(vscode.input).to_have_value("")
