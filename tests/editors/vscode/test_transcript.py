"""How the panel shows an answer: Markdown, thoughts, the plan, the work, and what it took."""

import re
import threading

import pytest
from common_window import PRICED
from fake_llm import call, calls, hold_step, reason, say
from looks import THEMES
from playwright.async_api import Request, expect
from window import VSCode

pytestmark = pytest.mark.one_window

ANSWER = """Not <b>bold</b>, no <img src="x" onerror="alert(1)">.

<script>alert(1)</script>

See [the page](https://example.com/), not [this](javascript:alert(1)), nor ![it](https://a.org/b.png).

1. First

   and its second paragraph

- [x] done

- [ ] to do

| a &lt; b | c |
| --- | ---: |
| one<br>two | 3 |

שלום `add`, עולם

```python title="calc.py"
add(1, 2)
```
"""
ADDRESS = "http://web.invalid/?q=a%26b%2Bc"
LINKS = f"""It is [add](calc.py:2), [on the web]({ADDRESS}),
see [notes](<my notes/a.md#L3>), their [folder](./my%20notes/),
[gone](gone.py); not [here](#here), [there](//evil/a.py) or [run](command:workbench.action.quit).

See calc.py:2, `calc.py`, **calc.py:1-2** and [calc.py:1](calc.py:1); not gone.py:1, `gone.py`,
../outside.py:1, `add.py()`, calc.py or http://web.invalid/calc.py:2. [Outside](../outside.py)."""
PARAGRAPH = "Words that take more lines in a narrow panel. " * 4
LONG_PASTE = "".join(f"line {n}\n" for n in range(400))
RIGHT_OF_TEXT = """(element) => {
  const text = document.createRange();
  text.selectNodeContents(element.firstChild);
  return {text: text.getBoundingClientRect().right, box: element.getBoundingClientRect().right};
}"""
ADDRESSES = "(links) => links.map((link) => link.getAttribute('href'))"
READ_POLICY = "() => document.querySelector('meta[http-equiv=Content-Security-Policy]').content"
POLICY = "default-src 'none'; style-src 'nonce-(.+)'; img-src data:; script-src 'nonce-(.+)'"
"""The panel may load nothing from elsewhere."""
PLAN = [
    {"text": "Read the rules", "status": "completed"},
    {"text": "Round the prices", "status": "in_progress"},
    {"text": "Run the tests", "status": "pending"},
]
WATCH_SENDING = """() => {
  window.wasShown = new Promise((resolve) => {
    new MutationObserver(() => {
      const shown = document.querySelector(".state-box .user");
      if (shown) resolve([shown.textContent, document.querySelectorAll(".log .user").length]);
    }).observe(document.body, {subtree: true, childList: true});
  });
}"""
"""Notes what is shown before the daemon has answered."""


def is_for_the_web(request: Request) -> bool:
    return "web.invalid" in request.url


@pytest.mark.full
async def test_links_open_files_here_and_pages_in_the_browser(vscode: VSCode) -> None:
    (vscode.project / "my notes").mkdir()
    (vscode.project / "my notes/a.md").write_text("first\n\nthird\n")
    vscode.project.with_name("outside.py").write_text("outside\n")
    vscode.script(say(LINKS))
    await vscode.open()
    await vscode.say("where is it?")
    links = vscode.panel.locator(".agent .link")
    file_names = ["add", "notes", "folder", "gone"]
    places = ["calc.py:2", "calc.py", "calc.py:1-2", "calc.py:1"]
    await expect(links).to_have_text([*file_names, *places, "Outside"])
    async with vscode.page.context.expect_event("request", is_for_the_web) as request_info:
        await vscode.panel.get_by_role("link", name="on the web").click()
    assert (await request_info.value).url == ADDRESS
    # It is opened once: a second time would ask again, and its address was decoded.
    await expect(vscode.page.get_by_role("dialog")).to_have_count(0)
    line = vscode.page.locator(".editor-status-selection, #status\\.editor\\.selection")
    await links.nth(0).click()
    await vscode.tab("calc.py").wait_for()
    await expect(line).to_contain_text("Ln 2, Col 1")
    await links.nth(1).click()
    await vscode.tab("a.md").wait_for()
    await expect(line).to_contain_text("Ln 3, Col 1")
    await links.nth(3).click()
    await expect(vscode.panel.get_by_role("alert")).to_contain_text("There is no gone.py")
    await links.nth(2).click()
    tree = vscode.page.get_by_role("treeitem", name="my notes")
    await expect(tree.first).to_be_visible()
    await vscode.show_agent()
    await expect(links).to_have_count(9)
    await links.nth(4).click()
    await vscode.tab("calc.py").wait_for()
    await expect(line).to_contain_text("Ln 2, Col 1")
    # A link out of the folders is followed only if the user says so.
    await links.last.click()
    dialog = vscode.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("outside this window's folders")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(vscode.tab("outside.py")).to_have_count(0)


async def test_an_answer_is_markdown_without_html_and_its_code_is_copied_and_inserted(
    vscode: VSCode,
) -> None:
    await vscode.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    vscode.script(say(ANSWER, n_chunks=20))
    await vscode.open(file="calc.py")
    await vscode.say("how?")
    answer = vscode.panel.locator(".agent")
    await expect(answer.locator("pre")).to_have_text("add(1, 2)")
    await expect(answer).to_contain_text('Not <b>bold</b>, no <img src="x" onerror="alert(1)">.')
    await expect(answer).to_contain_text("<script>alert(1)</script>")
    await expect(answer.locator("b, img, script")).to_have_count(0)
    assert re.fullmatch(POLICY, await vscode.frame().evaluate(READ_POLICY))
    addresses = await answer.locator("a").evaluate_all(ADDRESSES)
    assert addresses == ["https://example.com/", "https://a.org/b.png"]
    first, second = [await answer.locator("ol p").nth(n).bounding_box() for n in range(2)]
    assert first
    assert second
    assert second["y"] >= first["y"] + first["height"]
    await expect(answer.locator(".task")).to_have_text(["☑ done", "☐ to do"])
    await expect(answer.locator("th").first).to_have_text("a < b")
    await expect(answer.locator("td br")).to_have_count(1)
    await expect(answer.locator("td").last).to_have_css("text-align", "right")
    await expect(answer.locator(".code-head span")).to_have_text("python")
    # The colours are those of the theme, by the name that VS Code gives to a number.
    number = answer.locator("pre .token", has_text="1")
    await expect(number).to_have_css("color", "rgb(181, 206, 168)")
    begins = answer.locator("p", has_text="שלום")
    at = await begins.evaluate(RIGHT_OF_TEXT)
    assert at["text"] > at["box"] - 2, "text from right to left begins at the right"

    await answer.get_by_role("button", name="Copy").click()
    await expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert await vscode.page.evaluate("() => navigator.clipboard.readText()") == "add(1, 2)"
    await vscode.focus_editor()
    await vscode.page.keyboard.press("Control+End")
    await answer.get_by_role("button", name="Insert").click()
    await vscode.expect_editor("add(1, 2)")

    light = {
        "workbench.colorTheme": THEMES["light"],
        "editor.tokenColorCustomizations": {"[*Light*]": {"numbers": "#112233"}},
    }
    dark_body = vscode.panel.locator('body[data-vscode-theme-kind="vscode-light"]')
    await vscode.server.change_settings(light, dark_body)
    await expect(number).to_have_css("color", "rgb(17, 34, 51)")

    vscode.script(say(">" * 6000 + " deep \u202eereh\u202c \x1b[2J"))
    await vscode.say("how deep?")
    await expect(answer.last).to_contain_text(r"> deep \u{202e}ereh\u{202c} \u{1b}[2J")


@pytest.mark.full
async def test_a_thought_is_folded_when_the_answer_begins_and_stays_as_the_reader_left_it(
    vscode: VSCode,
) -> None:
    has_begun, has_ended = threading.Event(), threading.Event()
    thinking_step = reason("Rules first, then the code.", say("As the rules say.", n_chunks=3))
    vscode.script(hold_step(thinking_step, has_begun), hold_step(say("Yes."), has_ended, after=-1))
    vscode.script(say("Again."))
    await vscode.open()
    await vscode.say("why?")
    reasoning = vscode.panel.locator("details.reasoning")
    await expect(reasoning.locator(".markdown")).to_be_visible()
    await expect(reasoning.locator("summary")).to_have_text("Thinking…")
    has_begun.set()
    await vscode.expect_answers("As the rules say.")
    await expect(reasoning.locator("summary")).to_have_text(re.compile("^Thought"))
    await expect(reasoning.locator(".markdown")).to_be_hidden()
    await reasoning.locator("summary").click()
    await expect(reasoning.locator(".markdown")).to_have_text("Rules first, then the code.")

    # Until the next answer begins, the panel shows that one is awaited.
    dots = vscode.panel.locator(".dots")
    await expect(dots).to_be_hidden()
    await vscode.say("really?")
    await expect(dots).to_be_visible()
    # The windows of the tests are told to reduce motion, so nothing moves.
    await expect(dots.locator("span").first).to_have_css("animation-name", "none")
    has_ended.set()
    await vscode.expect_answers("As the rules say.", "Yes.")
    await expect(dots).to_be_hidden()
    await expect(reasoning.locator(".markdown")).to_be_visible()


@pytest.mark.full
async def test_the_first_message_is_shown_while_it_is_on_its_way(vscode: VSCode) -> None:
    vscode.script(say("Hello."))
    await vscode.open()
    await vscode.frame().evaluate(WATCH_SENDING)
    await vscode.say("hello")
    assert await vscode.frame().evaluate("() => window.wasShown") == ["hello", 0]
    await vscode.expect_answers("Hello.")
    await expect(vscode.panel.locator(".user")).to_have_text(["hello"])

    # A long one scrolls by itself: what comes before it is not screens away.
    vscode.script(say("A log."))
    await vscode.say(f"What is this?\n{LONG_PASTE}")
    await vscode.expect_answers("Hello.", "A log.")
    await expect(vscode.panel.locator(".user").first).to_be_in_viewport()


@pytest.mark.full
async def test_what_is_read_stays_in_sight_when_the_panel_gets_another_width(
    vscode: VSCode,
) -> None:
    vscode.script(say("\n\n".join([PARAGRAPH] * 60)))
    await vscode.open()
    await vscode.say("tell me")
    answer = vscode.panel.locator(".agent")
    await expect(answer.locator("p")).to_have_count(60)
    await vscode.set_width(600)
    read = answer.locator("p").nth(30)
    await read.evaluate("(each) => each.scrollIntoView({block: 'start'})")
    await vscode.expect_kept(str(await answer.get_attribute("data-item")))
    await vscode.page.get_by_role("button", name="Show Conversations").click()
    await vscode.panel.get_by_role("button", name="Back", exact=True).click()
    await expect(read).to_be_in_viewport()
    for width in (280, 600):
        await vscode.set_width(width)
        await expect(read).to_be_in_viewport()


async def test_a_turn_folds_into_a_line_and_its_plan_and_what_it_took_stay_at_hand(
    vscode: VSCode,
) -> None:
    gate = threading.Event()
    plan_states = [{**PLAN[0], "status": "in_progress"}, {**PLAN[1], "status": "pending"}, PLAN[2]]
    vscode.script(calls(call("todo", tasks=plan_states), call("grep", pattern="return")))
    vscode.script(call("edit", command="view", path="calc.py"))
    vscode.script(call("todo", tasks=PLAN), call("grep", pattern="add"))
    vscode.script(call("terminal", command="touch made"), call("terminal", command="true"))
    vscode.script(hold_step(call("terminal", command="exit 3"), gate), say("Found."))
    await vscode.open()
    await vscode.choose("model", PRICED)
    await vscode.choose("mode", "full")
    # A message of more than one line.
    await vscode.input.press_sequentially("Where is it")
    await vscode.input.press("Shift+Enter")
    await vscode.input.press_sequentially("returned?")
    await vscode.input.press("Enter")
    await expect(vscode.commands).to_have_count(2)
    await expect(vscode.panel.locator(".user .text")).to_have_text("Where is it\nreturned?")

    # While the agent works, the last steps are open, and the plan is one, above the input.
    rows = vscode.panel.locator(".card:visible .card-head .title")
    await expect(vscode.fold).to_have_text("2 earlier steps")
    await expect(rows).to_have_text([re.compile("Grep 'add'"), "touch made", "true"])
    plan = vscode.panel.locator(".plan-box")
    await expect(plan.locator("summary")).to_have_text("Round the prices1 of 3")
    await plan.locator("summary").press("Enter")
    entries = plan.locator("li")
    await expect(entries).to_have_text([each["text"] for each in PLAN])
    for n, state in enumerate(("done", "in progress", "to do")):
        await expect(entries.nth(n).get_by_role("img", name=state)).to_be_visible()
    gate.set()
    await vscode.expect_answers("Found.")
    await expect(vscode.fold).to_have_text(re.compile(r"^Worked \d+ s · 6 steps · 1 file$"))
    await expect(rows).to_have_count(0)
    # What a command made is in the card of changed files, though no edit has told of it.
    await expect(vscode.panel.locator(".changes .file")).to_contain_text(["made"])

    await vscode.fold.press("Enter")
    search = vscode.panel.locator("details.card", has_text="Grep 'return'")
    await expect(search.locator(".output")).to_be_hidden()
    await search.locator("summary").click()
    await expect(search.locator(".output")).to_contain_text("return a - b")
    facts = vscode.commands.last.locator(".meta")
    await expect(facts).to_have_text(re.compile(r"^exit 3 · \d[\d.]* (ms|s)$"))
    # Both are as the reader left them when the panel is shown again.
    await vscode.page.get_by_role("tab", name="Search").click()
    await vscode.input.wait_for(state="detached")
    await vscode.show_agent()
    await expect(vscode.fold).to_have_attribute("aria-expanded", "true")
    await expect(facts).to_be_visible()
    await expect(entries.last).to_be_visible()
    await vscode.fold.click()
    await expect(facts).to_be_hidden()

    await see_what_it_took(vscode)
    await let_the_plan_go(vscode)


async def see_what_it_took(vscode: VSCode) -> None:
    await expect(vscode.panel.locator(".usage")).to_contain_text("880 tokens · $0.880")
    await vscode.panel.locator(".usage").click()
    usage_group = vscode.panel.get_by_role("group", name="What this conversation took")
    await expect(usage_group).to_contain_text("1 % of 10k tokens")
    await expect(usage_group).to_contain_text("$0.880")
    # The input stays free.
    box, workspace = [
        await each.bounding_box() for each in (usage_group, vscode.panel.locator(".composer"))
    ]
    assert box
    assert workspace
    assert box["y"] + box["height"] <= workspace["y"]


async def let_the_plan_go(vscode: VSCode) -> None:
    """A plan that a whole turn has left alone is not shown for the next one."""
    vscode.script(say("Yes."), say("No."))
    await vscode.say("anything else?")
    await vscode.expect_answers("Found.", "Yes.")
    await expect(vscode.panel.locator(".plan-box")).to_be_visible()
    await vscode.say("really?")
    await vscode.expect_answers("Found.", "Yes.", "No.")
    await expect(vscode.panel.locator(".plan-box")).to_be_hidden()
