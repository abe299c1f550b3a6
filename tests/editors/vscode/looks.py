"""How the panel looks: nothing overflows, and a screen reader finds its way, in each theme."""

import os
from collections.abc import Sequence
from pathlib import Path

from window import VSCode

AXE = Path(__file__).parents[3] / "editors/vscode/node_modules/axe-core/axe.min.js"
HAS_AXE = "() => 'axe' in globalThis"
RUN_AXE = """async (rules) => {
  const only = rules.length ? {runOnly: {type: "rule", values: rules}} : {};
  const {violations} = await axe.run(document, {resultTypes: ["violations"], ...only});
  return violations.flatMap(({id, nodes}) =>
    nodes.map((node) => `${id}: ${node.html.slice(0, 150)} ${node.failureSummary}`));
}"""
OVERFLOW = """() => Math.max(
  ...[document.documentElement, ...document.querySelectorAll(".rows")].map(
    (each) => each.scrollWidth - each.clientWidth,
  ),
)"""
RULES_OF_COLOR = ("color-contrast", "link-in-text-block")
"""All that a theme changes: the other rules are about elements, names and order."""
PICTURES = os.environ.get("OH_TEST_PICTURES")
"""A folder for pictures of all that is looked at, in each theme."""
THEMES = {
    "dark": "Default Dark Modern",
    "light": "Default Light Modern",
    "contrast-dark": "Default High Contrast",
    "contrast-light": "Default High Contrast Light",
}
THEME_KINDS = {
    "contrast-dark": "vscode-high-contrast",
    "contrast-light": "vscode-high-contrast-light",
}


async def take_picture(
    vscode: VSCode, state: str, themes: tuple[str, ...] = ("dark", "light")
) -> None:
    """Check that nothing overflows and a screen reader finds its way.

    If pictures are asked for, take them in all themes, and check all rules in each.
    """
    complaints_found: list[str] = []
    for theme in THEMES if PICTURES else themes:
        kind = THEME_KINDS.get(theme, f"vscode-{theme}")
        themed_body = vscode.panel.locator(f'body[data-vscode-theme-kind="{kind}"]')
        await vscode.server.change_settings({"workbench.colorTheme": THEMES[theme]}, themed_body)
        rules = () if PICTURES or theme == themes[0] else RULES_OF_COLOR
        complaints_found += [f"{state} {theme}: {each}" for each in await violations(vscode, rules)]
        assert await overflow(vscode) == 0
        if PICTURES:
            await vscode.page.screenshot(path=Path(PICTURES) / f"vscode-{state}-{theme}.png")
    assert complaints_found == [], "\n".join(complaints_found)


async def violations(vscode: VSCode, rules: Sequence[str] = ()) -> list[str]:
    """Return what breaks the rules, by default all that axe has."""
    frame = vscode.frame()
    if not await frame.evaluate(HAS_AXE):
        await frame.evaluate(AXE.read_text())
    return list(await frame.evaluate(RUN_AXE, rules))


async def overflow(vscode: VSCode) -> int:
    """Return by how many pixels the page, or a diff in it, is wider than what is seen of it."""
    return await vscode.frame().evaluate(OVERFLOW)
