"""The input: what goes along with a message, commands, earlier messages, the queue; answers."""

import re
import threading

import pytest
from common_window import THINKING
from fake_llm import call, calls, hold_step, say
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
    "DwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PASTE = """([data, type, padding = 0]) => {
  const picture = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  const bytes = new Uint8Array(picture.length + padding);
  bytes.set(picture);
  const files = new DataTransfer();
  files.items.add(new File([bytes], "picture.png", {type: "image/png"}));
  const event = type === "paste"
    ? new ClipboardEvent("paste", {clipboardData: files, bubbles: true, cancelable: true})
    : new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true});
  document.querySelector("textarea.input").dispatchEvent(event);
}"""


@pytest.mark.full
async def test_what_a_message_brings_and_what_the_agent_asks_outlive_a_reload(
    vscode: VSCode,
) -> None:
    await attach_problems_images_and_commands(vscode)
    await ask_and_reload_while_an_answer_is_typed(vscode)
    await answer_by_a_choice(vscode)


async def attach_problems_images_and_commands(vscode: VSCode) -> None:
    """All of it reaches the model, and is shown."""
    (vscode.project / "broken.json").write_text('{"a": }\n')
    skill = vscode.project / ".agents/skills/money/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: How we count money\n---\nIn whole cents.\n")
    vscode.script(say("Fixed."))
    await vscode.open(file="broken.json")
    await expect(vscode.page.locator(".squiggly-error").first).to_be_attached()
    fix = vscode.panel.get_by_role("button", name="Fix the problem in broken.json")
    await expect(fix).to_be_visible()
    await expect(vscode.panel.locator(".looking")).to_have_text("broken.json")

    await vscode.input.press_sequentially("/fi")
    choices = vscode.panel.locator(".completion li")
    await expect(choices.locator(".label")).to_have_text(["/fix"])
    await vscode.input.press("Tab")
    await vscode.input.press_sequentially("the file @prob")
    await expect(choices.locator(".detail")).to_have_text(["1 in broken.json"])
    await vscode.input.press("Enter")
    await vscode.input.press_sequentially("@mone")
    await expect(choices.locator(".label").first).to_have_text("money")
    await vscode.input.press("Enter")
    # The last image is too large for the message itself, so it is sent ahead of it.
    for n, how in enumerate((["paste"], ["drop"], ["drop", 1_500_000]), start=1):
        await vscode.frame().evaluate(PASTE, [PIXEL, *how])
        await expect(vscode.panel.locator(".attached img")).to_have_count(n)
    await vscode.panel.get_by_role("button", name="Remove", exact=True).nth(2).click()
    await vscode.input.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Fixed.")
    await expect(vscode.panel.locator(".user code")).to_have_text("/fix")
    messages_text = str(vscode.llm.requests[0].body["messages"])
    assert "Find the cause" in messages_text
    assert "Value expected" in messages_text
    assert "In whole cents." in messages_text
    await expect(vscode.panel.locator(".divider")).to_have_text("Used the skill money")
    assert messages_text.count("data:image/png;base64," + PIXEL) == 1
    assert messages_text.count("data:image/png;base64,") == 2
    await expect_pictures(vscode)


async def ask_and_reload_while_an_answer_is_typed(vscode: VSCode) -> None:
    """What is half typed survives a hidden panel and a reload, like the question itself."""
    ask = call("ask", question="Which **host**?", choices=["here", "there"])
    port = call("ask", question="And the port?", choices=["8080", "9090"])
    vscode.script(ask, calls(port, call("terminal", command="echo one")), say("Good."))
    await vscode.say("serve it")
    question = vscode.panel.get_by_role("group", name="Question of the agent")
    await expect(question.locator("strong")).to_have_text("host")
    answer = question.get_by_label("Your answer")
    await answer.fill("the one that")
    await vscode.page.get_by_role("tab", name="Explorer").first.click()
    await expect(answer).to_be_hidden()
    await vscode.show_agent()
    await expect(answer).to_have_value("the one that")
    await answer.fill("the one that is free")
    await vscode.expect_kept("the one that is free")
    await vscode.reload()
    await expect_pictures(vscode)
    await expect(question.get_by_role("button", name="there")).to_be_visible()
    await expect(answer).to_have_value("the one that is free")
    await answer.press("Enter")
    await vscode.panel.get_by_role("button", name="Resume").click()
    await expect(question).to_contain_text("And the port?")


async def answer_by_a_choice(vscode: VSCode) -> None:
    question = vscode.panel.get_by_role("group", name="Question of the agent")
    await expect(vscode.commands).to_have_count(1)
    await expect(question.get_by_role("button", name="9090")).to_be_enabled()
    await vscode.input.press("2")
    await expect(vscode.panel.locator(".agent").last).to_have_text("Good.")
    await expect(question).to_have_count(0)
    # In the transcript, an answer stands before what came after its question.
    order = re.compile("serve it.*one that is free.*9090.*echo one", re.S)
    await expect(vscode.panel.locator(".log")).to_have_text(order)
    # The answers read like messages of the user.
    users = vscode.panel.locator(".user .text")
    await expect(users).to_contain_text(["", "serve it", "the one that is free", "9090"])
    answers = str(vscode.llm.requests[-1].body["messages"])
    assert "the one that is free" in answers
    assert "9090" in answers


async def expect_pictures(vscode: VSCode) -> None:
    for n in range(2):
        picture = vscode.panel.locator(".user img").nth(n)
        await expect(picture).to_have_js_property("naturalWidth", 1)


@pytest.mark.full
async def test_how_much_a_model_thinks_is_chosen_before_the_conversation(vscode: VSCode) -> None:
    vscode.script(say("Thought."))
    await vscode.open()
    effort = vscode.panel.locator('[data-option="effort"]')
    await expect(effort).to_have_count(0)
    await vscode.choose("model", THINKING)
    await vscode.choose("effort", "high")
    await vscode.say("think")
    await vscode.expect_answers("Thought.")
    assert vscode.llm.requests[-1].body["reasoning_effort"] == "high"
    await expect(effort).to_have_attribute("data-value", "high")


@pytest.mark.full
async def test_earlier_messages_come_back_at_the_edges_and_the_draft_stays(vscode: VSCode) -> None:
    vscode.script(say("One."), say("Two."))
    await vscode.open()
    await vscode.say("first")
    await expect(vscode.panel.locator(".agent")).to_have_text(["One."])
    await vscode.say("second")
    await expect(vscode.panel.locator(".agent")).to_have_text(["One.", "Two."])
    await vscode.input.fill("a draft")
    await vscode.input.press("ArrowUp")  # This only moves the caret.
    await expect(vscode.input).to_have_value("a draft")
    await vscode.input.press("Home")
    for key, expected in (
        ("ArrowUp", "second"),
        ("ArrowUp", "first"),
        ("ArrowUp", "first"),
        ("ArrowDown", "second"),
        ("ArrowDown", "a draft"),
    ):
        await vscode.input.press(key)
        await expect(vscode.input).to_have_value(expected)
    await vscode.start_anew()
    await vscode.panel.locator(".recent").get_by_role("button", name="first").click()
    await vscode.expect_answers("One.", "Two.")


async def test_a_waiting_message_is_changed_removed_or_sent_now(vscode: VSCode) -> None:
    gate = threading.Event()
    first = hold_step(calls(say("Working on it."), call("think", thought="hm")), gate)
    vscode.script(first, say("Steered."))
    await vscode.open()
    await vscode.say("one")
    await expect(vscode.panel.locator(".agent")).to_contain_text("Working")
    for text in ("two", "three"):
        await vscode.say(text, key="Alt+Enter")
    queue_rows = vscode.panel.locator(".queued")
    await expect(queue_rows).to_have_text(["two", "three"])
    await vscode.panel.get_by_role("button", name="Edit: three").click()
    await vscode.panel.get_by_label("Queued message", exact=True).fill("three and a half")
    await vscode.panel.get_by_label("Queued message", exact=True).press("Enter")
    await expect(queue_rows).to_have_text(["two", "three and a half"])
    await expect(vscode.input).to_be_focused()
    await vscode.panel.get_by_role("button", name="Remove: two").click()
    await expect(queue_rows).to_have_text(["three and a half"])
    await vscode.panel.get_by_role("button", name="Send now: three and a half").click()
    await expect(vscode.panel.locator(".when")).to_have_text("Soon")
    gate.set()
    await expect(vscode.panel.locator(".agent")).to_have_text(["Working on it.", "Steered."])
    assert await vscode.panel.locator(".user").all_text_contents() == ["one", "three and a half"]


@pytest.mark.full
async def test_the_mode_that_asks_for_nothing_says_so_and_leaves_nothing_to_choose(
    vscode: VSCode,
) -> None:
    await vscode.open(file="calc.py")
    approval = vscode.panel.locator('select[data-option="approval"]')
    banner = vscode.panel.get_by_text("Runs without asking.")
    await expect(approval).to_have_value("askRisky")
    await expect(banner).to_be_hidden()
    await vscode.choose("mode", "full")
    await expect(banner).to_be_visible()
    await expect(approval).to_have_count(0)
    vscode.script(say("It subtracts."))
    await vscode.panel.get_by_role("button", name="Explain calc.py").click()
    await vscode.expect_answers("It subtracts.")
    await expect(vscode.panel.locator(".user")).to_have_text("Explain calc.py.")
    await expect(banner).to_be_visible()
    await vscode.panel.get_by_role("button", name="Ask again").click()
    await expect(banner).to_be_hidden()
    await expect(vscode.panel.locator('select[data-option="mode"]')).to_have_value("ask")
    await expect(approval).to_have_value("askRisky")


async def test_a_secret_is_lent_to_commands_and_taken_back(vscode: VSCode) -> None:
    field = vscode.page.locator('.quick-input-widget input:not([type="checkbox"])')
    status = vscode.page.locator(".statusbar")
    await vscode.open()
    await vscode.run_command("oh: Expose a Secret to Commands")
    await field.fill("SHOP_TOKEN")
    await field.press("Enter")
    await expect(field).to_have_attribute("type", "password")
    await field.fill("a-token-of-the-shop")
    await field.press("Enter")
    # The editor stores the secret before the daemon hears of it.
    await expect(status).to_contain_text("exposed to commands that name it: SHOP_TOKEN")
    command = 'echo "$SHOP_TOKEN"; wc -c <<< "$SHOP_TOKEN"'
    vscode.script(call("terminal", command=command), say("Printed."))
    await vscode.say("Print it")
    await expect(vscode.approval).to_contain_text("it gets the secret SHOP_TOKEN")
    await vscode.answer("allow-once")
    output = vscode.panel.locator(".card", has_text="<secret hidden>").locator(".output")
    await expect(output).to_contain_text("20")

    await vscode.run_command("oh: Expose a Secret to Commands")
    await field.fill("SHOP")
    await field.press("Enter")
    await expect(field).to_have_attribute("type", "password")
    await field.press("Enter")
    await expect(status).to_contain_text("no secret is exposed")
    vscode.script(call("terminal", command=f"{command} # again"), say("Printed."))
    await vscode.say("Print it again")
    await expect(vscode.approval).to_contain_text("uses $SHOP_TOKEN")
    await expect(vscode.approval).not_to_contain_text("it gets the secret")
    await vscode.answer("reject")
    await expect(vscode.panel.get_by_text("Printed.")).to_have_count(2)
