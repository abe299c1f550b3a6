"""An open Jupyter notebook: the agent reads its cells and edits their text next to the user."""

import json

import pytest
from fake_llm import call, say
from playwright.async_api import Locator, expect
from window import VSCode

pytestmark = pytest.mark.one_window


def _cell(number: int, source: str) -> dict[str, object]:
    output = {"name": "stdout", "output_type": "stream", "text": ["printed\n"]}
    return {
        "cell_type": "code",
        "execution_count": 1,
        "id": f"cell-{number}",
        "metadata": {},
        "outputs": [output] if number == 1 else [],
        "source": source.splitlines(keepends=True),
    }


def _json(*sources: str) -> str:
    cells = [_cell(number, source) for number, source in enumerate(sources, 1)]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1) + "\n"


def _sources(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def _cells(vscode: VSCode) -> Locator:
    return vscode.page.locator(".notebookOverlay .cell-list-container .code-cell-row .view-lines")


async def test_agent_edits_cells_unsaved_and_other_parts_of_a_saved_notebook_only(
    vscode: VSCode,
) -> None:
    path = vscode.project / "plan.ipynb"
    path.write_text(_json("one = 1\nprint(one)", "two = 2"))
    view = call("edit", command="view", path="plan.ipynb")
    edit = {"command": "replace", "path": "plan.ipynb"}
    change = call("edit", **edit, old_text='"two = 2"', new_text='"two = 2\\n",\n    "print(two)"')
    three = json.dumps(_cell(3, "three = 3"))
    addition = call("edit", **edit, old_text='"cells": [', new_text=f'"cells": [{three},')
    vscode.script(view, change, addition, say("Refused."), view, addition, say("Added."))
    await vscode.open()
    await vscode.choose("mode", "full")
    await vscode.open_notebook("plan.ipynb")
    await expect(_cells(vscode)).to_have_count(2)
    await _cells(vscode).first.click()
    await vscode.page.keyboard.press("Control+End")
    await vscode.page.keyboard.insert_text("  # typed")
    await vscode.run_command("Notebook: Insert Code Cell Below")
    await expect(_cells(vscode)).to_have_count(3)
    dirty = vscode.page.locator(".tab.dirty")
    await expect(dirty).to_have_count(1)
    await vscode.say("go on")
    await vscode.expect_answers("Refused.")
    cells, change_result, addition_error = [
        message["content"]
        for message in vscode.llm.requests[-1].body["messages"]
        if message["role"] == "tool"
    ]
    assert "print(one)  # typed\n[output]\nprinted\n\n[cell 2, code]\n\n\n[cell 3, code]" in cells
    assert "Edited plan.ipynb" in change_result
    assert "save the notebook first" in addition_error
    assert path.read_text() == _json("one = 1\nprint(one)", "two = 2")
    await expect(_cells(vscode).nth(2)).to_contain_text("print(two)")
    await expect(dirty).to_have_count(1)
    await _cells(vscode).nth(2).click()
    await vscode.page.keyboard.press("Control+z")
    await expect(_cells(vscode).nth(2)).not_to_contain_text("print(two)")
    await expect(_cells(vscode).first).to_contain_text("# typed")
    await vscode.page.keyboard.press("Control+s")
    await expect(dirty).to_have_count(0)
    await vscode.say("now")
    await vscode.expect_answers("Refused.", "Added.")
    sources = ["three = 3", "one = 1\nprint(one)  # typed", "", "two = 2"]
    assert _sources(path.read_text()) == sources
    await expect(_cells(vscode)).to_have_count(4)
    await expect(_cells(vscode).first).to_contain_text("three")
