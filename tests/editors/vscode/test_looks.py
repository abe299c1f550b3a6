"""The panel for the eye, the keyboard and a screen reader: narrow and wide, in four themes."""

import re
import threading

import pytest
from common_window import PATCHES
from fake_llm import call, calls, error, hold_step, reason, say
from looks import THEMES, overflow, take_picture, violations
from playwright.async_api import expect
from window import VSCode

pytestmark = pytest.mark.one_window

IS_ON_TOP = """(element) => {
  const {left, top, width, height} = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}"""
PLAN = [
    {"text": "Read prices.py and its rules", "status": "completed"},
    {"text": "Round to whole cents, half up", "status": "in_progress"},
    {"text": "Run the tests", "status": "pending"},
]
PRICES = '''"""What an order costs."""


def discount(cents: int) -> int:
    """The price after the discount for large orders."""
    if cents < 10_000:
        return cents
    return int(cents * 0.9)
'''
DISCOUNT = call(
    "edit",
    command="replace",
    path="prices.py",
    old_text="int(cents * 0.9)",
    new_text="round(cents * 0.85)",
)
CLEANUP = call(
    "edit",
    command="replace",
    path="prices.py",
    edits=[
        {"old_text": "What an order costs.", "new_text": "What an order costs, in cents."},
        {"old_text": "cents < 10_000", "new_text": "cents < LARGE_ORDER"},
    ],
)
SCRIPT = (
    reason(
        "The tests say more than the message.",
        calls(
            say("I will look at **`prices.py`** and run its tests first."),
            call("terminal", command="echo 'test_large_order ... FAILED'; false"),
        ),
    ),
    call("edit", command="view", path="prices.py"),
    DISCOUNT,
    calls(
        say(
            "The rate is wrong:\n\n1. `RULES.md` says **15 %**\n2. the code takes 10 %\n\n"
            "> and cuts instead of rounding"
        ),
        call(
            "terminal",
            command="python3 -m pytest -q tests/test_prices.py --maxfail=1 && git add -A",
        ),
    ),
)


LONG_NAME = "services/checkout/discounts/test_discount_for_large_orders_with_rounding.py"
EXPLANATION = """The rate is right now. What I changed:

- `discount` takes **15 %**, as `RULES.md` says
- it rounds to whole cents instead of cutting

| order | before | now |
| --- | --- | --- |
| 100.01 | 90.00 | 85.01 |
"""

LINKED = "One [link](https://example.com), and [another](calc.py)."
ADD = call("edit", command="replace", path="calc.py", old_text="a - b", new_text="a + b")


@pytest.fixture
def prices(vscode: VSCode) -> None:
    project = vscode.project
    (project / "prices.py").write_text(PRICES)
    (project / LONG_NAME).parent.mkdir(parents=True)
    (project / LONG_NAME).write_text("from prices import discount\n")


@pytest.mark.usefixtures("prices")
async def test_a_turn_is_readable_and_accessible_from_the_start_to_an_error(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    answer = reason("Rules first, then the code.", say(EXPLANATION, n_chunks=40))
    vscode.script(
        call("edit", command="view", path="prices.py"),
        DISCOUNT,
        call("todo", tasks=PLAN),
        call("edit", command="view", path=LONG_NAME),
        call("terminal", command="grep -n return prices.py"),
        hold_step(answer, gate, after=20),
        error(401, "Incorrect API key provided: sk-test-****3456."),
    )
    await look_before_a_conversation(vscode)
    await vscode.choose("mode", "autoEdit")
    await vscode.say("The discount for large orders is off. Make it follow RULES.md.")
    await expect(vscode.panel.locator(".agent")).to_contain_text("as RULES.md says")
    await take_picture(vscode, "streaming")
    gate.set()
    await expect(vscode.panel.locator(".agent td").last).to_have_text("85.01")
    await vscode.fold.click()
    await vscode.panel.locator("summary", has_text="View prices.py").click()
    await vscode.panel.get_by_role("button", name="Open diff").first.click()
    await expect(vscode.page.locator(".monaco-diff-editor").first).to_be_visible()
    await take_picture(vscode, "diff")
    await vscode.say("Now the tests, please.")
    await expect(vscode.panel.get_by_role("alert")).to_contain_text("Incorrect API key")
    await take_picture(vscode, "error")
    await vscode.panel.locator(".usage").click()
    await vscode.panel.locator(".user").first.hover()
    await expect(vscode.panel.locator("dt").last).to_have_text("All today")
    await take_picture(vscode, "usage")
    task = {"task": "Who calls discount?", "title": "Find the callers", "agent": "explore"}
    vscode.script(
        call("delegate", tasks=[task]), hold_step(say("Two.", n_chunks=2), gate),
        say("Two callers, and both of them round."), say("Half cents **add up**."),
    )  # fmt: skip
    gate.clear()
    await vscode.say("Who else uses it?")
    await expect(vscode.panel.locator(".usage")).to_have_attribute("aria-expanded", "false")
    await vscode.panel.locator(".subagent").click()
    await expect(vscode.panel.locator(".agent")).to_have_text("Tw")
    assert await violations(vscode) == []
    await vscode.panel.get_by_role("button", name="Back", exact=True).click()
    await expect(vscode.panel.locator(".subagent .doing")).to_have_text("working")
    assert await violations(vscode) == []
    gate.set()
    await expect(vscode.panel.locator(".subagent .doing")).to_have_text("done")
    await expect(vscode.panel.locator(".agent").last).to_contain_text("both of them round")
    await expect(vscode.panel.get_by_label("Stop", exact=True)).to_be_hidden()
    await vscode.say("/ask why does it matter?")
    await expect(vscode.panel.locator(".aside strong").last).to_have_text("add up")
    await take_picture(vscode, "beside")
    await vscode.set_width(280)
    await vscode.choose("model", PATCHES)
    await vscode.choose("mode", "full")
    await expect(vscode.panel.get_by_role("button", name="Ask again")).to_be_visible()
    assert await overflow(vscode) == 0
    assert await violations(vscode) == []


async def look_before_a_conversation(vscode: VSCode) -> None:
    await vscode.open(file="prices.py")
    await vscode.set_width(420)
    await expect(vscode.panel.get_by_role("heading", name="What shall we do?")).to_be_visible()
    await vscode.model.wait_for()
    await take_picture(vscode, "empty")
    await vscode.model.click()
    await expect(vscode.panel.get_by_role("option")).not_to_have_count(1)
    await take_picture(vscode, "models", tuple(THEMES))
    await vscode.page.keyboard.press("Escape")
    await expect(vscode.model).to_be_focused()


@pytest.mark.full
@pytest.mark.usefixtures("prices")
async def test_a_question_is_readable_and_accessible_in_every_theme_and_width(
    vscode: VSCode,
) -> None:
    vscode.script(*SCRIPT)
    await vscode.open(file="prices.py")
    await vscode.choose("mode", "autoEdit")
    await vscode.say("The discount for large orders is off. Make it follow RULES.md.")
    await expect(vscode.approval.get_by_role("textbox", name="Command")).to_have_value(
        "python3 -m pytest -q tests/test_prices.py --maxfail=1 && git add -A"
    )
    await vscode.set_width(420)
    await take_picture(vscode, "approval", tuple(THEMES))
    await vscode.set_width(280)
    await take_picture(vscode, "narrow")
    # In a low panel, or with large letters, the buttons leave room for what is asked.
    await vscode.page.set_viewport_size({"width": 1200, "height": 400})
    for each in (
        vscode.approval.get_by_role("heading"),
        vscode.input,
        vscode.panel.get_by_role("heading").first,
    ):
        await expect(each).to_be_in_viewport(ratio=1)
        assert await each.evaluate(IS_ON_TOP), await each.text_content()
    await vscode.page.set_viewport_size({"width": 1200, "height": 900})
    vscode.script(CLEANUP)
    await vscode.choose("mode", "ask")
    # A key, since the button may move once more after the window has got its height back.
    await vscode.approval.locator('[data-option="reject"]').press("Enter")
    await vscode.approval.get_by_role("button", name="Leave out change 1 of 2").click()
    await expect(vscode.approval.get_by_role("heading")).to_have_text("Make 1 of 2 changes?")
    assert await overflow(vscode) == 0
    await vscode.set_width(420)
    await take_picture(vscode, "hunks", tuple(THEMES))
    vscode.script(call("terminal", command="rm -rf build dist && git push --force"))
    await vscode.answer("reject")
    dangers = vscode.approval.get_by_role("listitem")
    await expect(dangers).to_have_text([re.compile("git push --force"), re.compile("rm .*deletes")])
    await expect(vscode.approval.locator(".primary")).to_have_count(0)
    await take_picture(vscode, "danger", tuple(THEMES))
    long = call("edit", command="create", path=LONG_NAME.replace("test_d", "d"), text="x\n")
    vscode.script(long)
    await vscode.answer("reject")
    await expect(vscode.approval.locator(".diff-head .to")).to_be_in_viewport(ratio=1)
    await expect(vscode.approval.locator(".diff-head .link")).to_have_text(
        LONG_NAME.replace("test_d", "d")
    )
    await take_picture(vscode, "path")
    await vscode.set_width(300)
    title = vscode.panel.locator(".card").last
    await title.scroll_into_view_if_needed()
    for each in (title.locator(".cut .to"), vscode.approval.locator(".cut .to")):
        await expect(each).to_be_in_viewport(ratio=1)


@pytest.mark.full
async def test_lists_questions_and_reviews_are_accessible_in_every_theme(vscode: VSCode) -> None:
    gate = threading.Event()
    vscode.script(say(LINKED), call("ask", question="Which **port**?", choices=["80", "90"]))
    vscode.script(say("Good."), call("edit", command="view", path="calc.py"), ADD, say("Fixed."))
    vscode.script(
        hold_step(calls(say("Working."), call("think", thought="hm")), gate), say("Steered.")
    )
    await vscode.hold(("first", "One link, and another."))
    await take_picture(vscode, "links", tuple(THEMES))
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await expect(vscode.panel.locator(".row-title")).to_have_text(["first"])
    await take_picture(vscode, "list", tuple(THEMES))
    row = vscode.panel.locator(".row")
    for key in ("F2", "Delete"):
        await row.press(key)
        assert await violations(vscode) == []
        await vscode.page.keyboard.press("Escape")
    await row.click()
    await expect(vscode.input).to_be_visible()
    await vscode.input.press_sequentially("@calc")
    await expect(vscode.panel.locator(".completion li").first).to_be_visible()
    assert await violations(vscode) == []
    await vscode.input.press("Enter")
    await vscode.say("serve it")
    question = vscode.panel.get_by_role("group", name="Question of the agent")
    await expect(question).to_be_visible()
    await take_picture(vscode, "question", tuple(THEMES))
    await question.get_by_role("button", name="90").click()
    await expect(vscode.panel.locator(".agent").last).to_have_text("Good.")
    await vscode.choose("mode", "full")
    await vscode.say("fix it")
    file = vscode.panel.locator('.file[data-state="pending"]')
    await file.get_by_role("button", name="calc.py", exact=True).click()
    await expect(vscode.panel.locator(".changes .one-hunk")).to_have_count(1)
    await take_picture(vscode, "review", tuple(THEMES))
    await vscode.say("go on")
    await expect(vscode.panel.locator(".agent").last).to_have_text("Working.")
    for text, key in (("later", "Alt+Enter"), ("now", "Enter")):
        await vscode.say(text, key=key)
    await expect(vscode.panel.locator(".queued")).to_have_text(["now", "later"])
    await take_picture(vscode, "queue", tuple(THEMES))
    gate.set()


@pytest.mark.full
async def test_a_screen_reader_reads_an_answer_when_it_is_complete(vscode: VSCode) -> None:
    gate = threading.Event()
    thinking_step = reason("Rules first.", say("Half of it. The rest.", n_chunks=2))
    vscode.script(hold_step(thinking_step, gate, after=2))
    await vscode.open()
    await vscode.say("tell me")
    answer = vscode.panel.get_by_role("log").get_by_role("article", name="Agent")
    await expect(answer).to_contain_text("Half of")
    await expect(answer).to_have_attribute("aria-busy", "true")
    gate.set()
    await vscode.expect_answers("Half of it. The rest.")
    await expect(answer).to_have_attribute("aria-busy", "false")
    await expect(vscode.panel.locator(".log [aria-busy=true]")).to_have_count(0)


@pytest.mark.full
async def test_everything_is_done_with_the_keyboard_alone(vscode: VSCode) -> None:
    touch = call("terminal", command="touch made")
    vscode.script(touch, say("Made."), touch, say("Again."))
    await vscode.open(file="calc.py")
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+Alt+o")
    await expect(vscode.input).to_be_focused()
    await vscode.page.keyboard.type("make it")
    await vscode.page.keyboard.press("Enter")
    allow = vscode.approval.locator('[data-option="allow-once"]')
    await expect(allow).to_be_enabled()
    await expect(vscode.input).to_be_focused()  # The question has not taken the focus.
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    await vscode.page.keyboard.press("ArrowUp")
    await expect(vscode.input).to_have_value("make it")
    await vscode.page.keyboard.press("Enter")
    await expect(allow).to_be_enabled()
    await allow.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text(["Made.", "Again."])
    await expect(vscode.input).to_be_focused()
