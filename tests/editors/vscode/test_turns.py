"""A task from the keystroke to the file: streamed, run, edited in the open document, undone."""

import re
import threading

import psutil
import pytest
from fake_llm import call, calls, error, hold_step, say, with_finish
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

VIEW = call("edit", command="view", path="calc.py")
IS_END_IN_SIGHT = """(output) => {
  const text = document.createRange();
  text.selectNodeContents(output);
  return text.getBoundingClientRect().bottom <= output.getBoundingClientRect().bottom;
}"""
EDIT = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")


async def test_a_task_streams_runs_and_edits_the_dirty_document_in_one_undo_step(
    vscode: VSCode,
) -> None:
    vscode.script(
        calls(say("Let me **look** at `calc.py`."), call("terminal", command="echo one; echo two")),
        VIEW,
        EDIT,
        say("Done: `add` adds.\n\n```python\nadd(1, 2)\n```"),
    )
    before = (vscode.project / "calc.py").read_text()
    await vscode.open(file="calc.py")
    await vscode.type_in_editor("# mine\n")
    for key in ("Control+Home", "ArrowDown", "Home"):
        await vscode.page.keyboard.press(key)
    await vscode.page.keyboard.insert_text("\U0001f600; ")
    await vscode.expect_editor("\U0001f600; return a - b")
    await vscode.tab("calc.py").and_(vscode.page.locator(".dirty")).wait_for()

    await vscode.choose("mode", "full")
    await vscode.say("Fix add")

    await expect(vscode.panel.locator(".agent strong")).to_have_text("look")
    await expect(vscode.commands.locator(".meta")).to_contain_text("exit 0")
    await expect(vscode.commands.locator(".output")).to_contain_text("one\ntwo")
    await expect(vscode.panel.locator(".card .add")).to_contain_text("return a + b")
    await expect(vscode.panel.locator(".card .add")).to_have_attribute("data-line", "2")
    await expect(vscode.panel.locator(".card .word")).to_have_text(["-", "+"])
    await expect(vscode.panel.locator(".numbered > span")).to_contain_text(["def add", "return"])
    await expect(vscode.panel.locator(".agent pre")).to_have_text("add(1, 2)")
    await vscode.expect_editor("\U0001f600; return a + b")
    assert (vscode.project / "calc.py").read_text() == before

    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+z")
    await vscode.expect_editor("\U0001f600; return a - b")
    await vscode.expect_editor("mine")


async def test_stop_ends_a_running_command_and_its_live_output_stays(vscode: VSCode) -> None:
    vscode.script(call("terminal", command="seq 99; echo started; sleep 300"))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.say("wait")
    await expect(vscode.commands.locator(".output")).to_contain_text("started")
    await vscode.input.press("Escape")
    await expect(vscode.commands).to_have_attribute("data-status", re.compile("cancelled|failed"))
    assert await vscode.commands.locator(".output").evaluate(IS_END_IN_SIGHT)
    await expect(vscode.panel.get_by_label("Stop", exact=True)).to_be_hidden()
    # Only in this project: other windows run such a command too.
    command = {"cmdline": ["sleep", "300"], "cwd": str(vscode.project)}
    assert [p for p in psutil.process_iter(["cmdline", "cwd"]) if p.info == command] == []


async def test_messages_while_the_agent_works_steer_it_or_wait_for_the_next_turn(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    first = hold_step(calls(say("Working on it."), call("think", thought="hm")), gate)
    vscode.script(first, say("Steered."), say("Second turn."), say("Third turn."))
    await vscode.open()
    await vscode.say("one")
    await expect(vscode.panel.locator(".agent")).to_contain_text("Working")
    await vscode.say("two, please", key="Alt+Enter")
    await expect(vscode.panel.locator(".queued")).to_have_text(["two, please"])
    await vscode.say("but in French")
    # The daemon must have it too before the answer ends, and the turn with it.
    await expect(vscode.panel.locator(".queued")).to_have_text(["but in French", "two, please"])
    await vscode.say("three", key="Alt+Enter")
    await vscode.panel.get_by_role("button", name="Move up: three").press("Enter")
    await expect(vscode.panel.locator(".queued")).to_have_text(
        ["but in French", "three", "two, please"]
    )
    # Three can go no further up, since what steers comes first; the focus stays in the queue.
    await expect(vscode.panel.get_by_role("button", name="Move up")).to_have_count(1)
    await expect(vscode.panel.locator(".queue-box button:focus")).to_have_count(1)
    gate.set()
    await expect(vscode.panel.locator(".agent")).to_have_text(
        ["Working on it.", "Steered.", "Second turn.", "Third turn."]
    )
    users = await vscode.panel.locator(".user").all_text_contents()
    assert users == ["one", "but in French", "three", "two, please"]


@pytest.mark.full
async def test_pause_holds_the_turn_and_resume_goes_on(vscode: VSCode) -> None:
    gate = threading.Event()
    vscode.script(
        hold_step(calls(say("Step one."), call("think", thought="hm")), gate), say("Step two.")
    )
    await vscode.open()
    await vscode.say("go")
    await expect(vscode.panel.locator(".agent")).to_contain_text("Step one")
    await vscode.panel.get_by_role("button", name="Pause").click()
    await vscode.expect_status("Pausing after this step")
    gate.set()
    await vscode.expect_status("Paused")
    await vscode.panel.get_by_role("button", name="Resume").click()
    await expect(vscode.panel.locator(".agent")).to_have_text(["Step one.", "Step two."])


@pytest.mark.full
async def test_commands_of_the_editor_hold_a_turn_and_the_status_bar_says_so(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(hold_step(calls(say("Step one."), call("think", thought="hm")), gate))
    vscode.script(call("terminal", command="sleep 300"))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.say("go")
    await expect(vscode.panel.locator(".agent")).to_contain_text("Step one")
    status = vscode.page.locator(".statusbar")
    await expect(status.get_by_role("button", name="The agent works.")).to_be_visible()
    await vscode.run_command("oh: Pause After This Step")
    await vscode.expect_status("Pausing after this step")
    gate.set()
    await expect(status.get_by_role("button", name="A turn is on hold.")).to_be_visible()
    await vscode.run_command("oh: Resume")
    await expect(vscode.commands).to_have_attribute("data-status", "running")
    await vscode.run_command("oh: Stop the Turn")
    await expect(vscode.commands).to_have_attribute("data-status", re.compile("cancelled|failed"))
    await expect(status.get_by_role("button", name="Open the agent panel.")).to_be_visible()


@pytest.mark.full
async def test_what_ends_a_turn_is_told_and_stays_over_a_reload_after_which_it_is_tried_again(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    vscode.script(
        with_finish(say("And then"), "length"),
        *[call("edit", command="view", path="gone.py")] * 4,
        error(429, "slow down", {"retry-after": "60"}),
        error(429, "slow down", {"retry-after": "1"}),
        hold_step(error(401, "wrong key"), gate, after=-1),
        say("Back again."),
    )
    await vscode.open()
    await be_cut_and_go_in_circles(vscode)
    await stop_before_the_next_attempt(vscode)
    await count_down_to_an_error(vscode, gate)

    problem = vscode.panel.get_by_role("alert")
    await vscode.reload()
    message_pattern = (
        "And then.*The answer was cut.*look at.*and was told to try another.*it was stopped"
        ".*or resume.*wait.*Interrupted.*more"
    )
    await expect(vscode.panel.locator(".log")).to_have_text(re.compile(message_pattern, re.S))
    await expect(problem).to_contain_text("wrong key")
    await problem.get_by_role("button", name="Try again").click()
    await expect(vscode.panel.locator(".agent")).to_have_text(["And then", "Back again."])
    await expect(problem).to_have_count(0)


async def be_cut_and_go_in_circles(vscode: VSCode) -> None:
    await vscode.say("begin")
    await expect(vscode.panel.locator(".notice")).to_contain_text("The answer was cut")
    await vscode.expect_answers("And then")
    await vscode.say("look at gone.py")
    await vscode.expect_status("Stopped: the agent went in circles")
    notices = ["The answer was cut", "and was told to try another", "it was stopped", "or resume"]
    await expect(vscode.panel.locator(".notice")).to_contain_text(notices)


async def stop_before_the_next_attempt(vscode: VSCode) -> None:
    await vscode.say("wait")
    await expect(vscode.panel.locator(".state-box .notice")).to_contain_text("Trying again")
    await vscode.input.press("Escape")
    order = re.compile("And then.*wait.*Interrupted", re.S)
    await expect(vscode.panel.locator(".log")).to_have_text(order)


async def count_down_to_an_error(vscode: VSCode, gate: threading.Event) -> None:
    await vscode.say("more")
    countdown = vscode.panel.locator(".state-box .notice")
    await expect(countdown).to_contain_text(re.compile(r"Trying again in \d s \(2 of 4\)"))
    await vscode.page.keyboard.press("Control+b")
    await expect(countdown).to_have_count(0)
    await vscode.page.keyboard.press("Control+b")
    await vscode.show_agent()
    await expect(countdown).to_contain_text(re.compile(r"Trying again in \d s \(2 of 4\)"))
    gate.set()
    problem = vscode.panel.get_by_role("alert")
    await expect(problem).to_contain_text("wrong key")
    await expect(problem.get_by_role("button", name="Set an API key")).to_be_visible()


@pytest.mark.full
async def test_a_selection_and_a_mentioned_file_reach_the_model(vscode: VSCode) -> None:
    (vscode.project / "RULES.md").write_text("Be brief.\n")
    vscode.script(say("Read."))
    await vscode.open(file="calc.py")
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+a")
    await vscode.run_command("oh: Add to Conversation")
    await expect(vscode.panel.locator(".attached .chip")).to_have_text("calc.py:1–3")
    # The same by mention, which offers the selection first, then the open files.
    await vscode.panel.get_by_role("button", name="Remove", exact=True).click()
    await vscode.input.press_sequentially("@")
    labels = vscode.panel.locator(".completion .label")
    await expect(labels.first).to_have_text("Selection")
    await expect(labels.nth(1)).to_have_text("calc.py")
    await vscode.input.press("Enter")
    await expect(vscode.panel.locator(".attached .chip")).to_have_text("calc.py:1–3")
    await vscode.input.press_sequentially("Follow @RUL")
    await expect(vscode.panel.locator(".completion .label")).to_have_text(["RULES.md"])
    await vscode.input.press("Enter")
    await vscode.input.press_sequentially("@https://example.org/?q=1")
    await expect(vscode.panel.locator(".completion .detail")).to_have_text("fetched when you send")
    await vscode.input.press("Enter")
    chips = vscode.panel.locator(".attached .chip")
    await expect(chips).to_have_text(["calc.py:1–3", "RULES.md", "https://example.org/?q=1"])
    await vscode.panel.get_by_role("button", name="Remove", exact=True).nth(2).click()
    await vscode.input.press_sequentially("now")
    await vscode.input.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Read.")
    messages_text = str(vscode.llm.requests[0].body["messages"])
    assert "return a - b" in messages_text
    assert "RULES.md" in messages_text
