"""The panel to the eye, to the keyboard and to a screen reader, narrow and wide, in four themes."""

import os
from pathlib import Path

import pytest
from fake_llm import call, calls, reason, say
from playwright.async_api import expect
from window import Server, VSCode

AXE = Path(__file__).parents[3] / "editors/vscode/node_modules/axe-core/axe.min.js"
RUN_AXE = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ["violations"]});
  return violations.flatMap(({id, nodes}) =>
    nodes.map((node) => `${id}: ${node.html.slice(0, 150)} ${node.failureSummary}`));
}"""
PICTURES = os.environ.get("OH_TEST_PICTURES")
"""A folder to put pictures into, for the README and for whoever changes the looks."""
SHOWN = {"dark-520": "dark", "light-280": "narrow"}
THEMES = {
    "dark": "Default Dark Modern",
    "light": "Default Light Modern",
    "contrast-dark": "Default High Contrast",
    "contrast-light": "Default High Contrast Light",
}
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
SCRIPT = (
    reason(
        "The tests say more than the message.",
        calls(
            say("I will look at **`prices.py`** and run its tests first."),
            call("terminal", command="echo 'test_large_order ... FAILED'; false"),
        ),
    ),
    call("edit", command="view", path="prices.py"),
    call(
        "edit",
        command="replace",
        path="prices.py",
        old_text="int(cents * 0.9)",
        new_text="round(cents * 0.85)",
    ),
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


async def violations(vscode: VSCode) -> list[str]:
    await vscode.frame().evaluate(AXE.read_text())
    found = await vscode.frame().evaluate(RUN_AXE)
    return list(found)


async def overflow(vscode: VSCode) -> int:
    return await vscode.frame().evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


@pytest.fixture
def prices(project: Path) -> None:
    (project / "prices.py").write_text(PRICES)


@pytest.mark.usefixtures("prices")
async def test_a_turn_that_asks_is_readable_and_accessible_in_every_theme_and_width(
    vscode: VSCode, server: Server
) -> None:
    vscode.script(*SCRIPT)
    await vscode.open(file="prices.py")
    assert await violations(vscode) == []
    await vscode.choose("mode", "autoEdit")
    await vscode.say("The discount for large orders is off. Make it follow RULES.md.")
    await expect(vscode.approval.get_by_role("textbox", name="Command")).to_have_value(
        "python3 -m pytest -q tests/test_prices.py --maxfail=1 && git add -A"
    )
    found: list[str] = []
    for name, theme in THEMES.items():
        server.write_settings({"workbench.colorTheme": theme})
        kind = theme_class(name)
        await expect(vscode.panel.locator("body")).to_have_attribute("data-vscode-theme-kind", kind)
        for width in (280, 520):
            await vscode.set_width(width)
            found += [f"{name} {width}: {each}" for each in await violations(vscode)]
            assert await overflow(vscode) == 0
            await picture(vscode, f"{name}-{width}")
    assert found == [], "\n".join(found)


def theme_class(name: str) -> str:
    kinds = {
        "contrast-dark": "vscode-high-contrast",
        "contrast-light": "vscode-high-contrast-light",
    }
    return kinds.get(name, f"vscode-{name}")


async def picture(vscode: VSCode, name: str) -> None:
    if PICTURES and name in SHOWN:
        await vscode.page.screenshot(path=Path(PICTURES) / f"vscode-{SHOWN[name]}.png")


async def test_everything_is_done_with_the_keyboard_alone(vscode: VSCode) -> None:
    vscode.script(call("terminal", command="touch made"), say("Made."), say("Again."))
    await vscode.open(file="calc.py")
    await vscode.page.locator(".editor-instance .view-lines").first.click()
    await vscode.page.keyboard.press("Control+Alt+o")
    await expect(vscode.input).to_be_focused()
    await vscode.page.keyboard.type("make it")
    await vscode.page.keyboard.press("Enter")
    allow = vscode.approval.locator('[data-option="allow-once"]')
    await expect(allow).to_be_enabled()
    await expect(vscode.input).to_be_focused()  # The question took no focus.
    await vscode.page.keyboard.press("Control+Alt+Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text("Made.")
    await vscode.page.keyboard.press("ArrowUp")
    await expect(vscode.input).to_have_value("make it")
    await vscode.page.keyboard.press("Enter")
    await expect(vscode.panel.locator(".agent")).to_have_text(["Made.", "Again."])
