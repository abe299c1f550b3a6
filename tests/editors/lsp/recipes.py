"""The recipes of docs/lsp.md, with the command of the tests in place of the product's."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs/lsp.md"
COMMANDS = {"eglot": ('"oh-daemon" "--stdio"', " "), "neovim": ('"oh-daemon", "--stdio"', ", ")}
"""How each recipe names the command, and what stands between its words."""


def recipe(editor: str, daemon: Sequence[str]) -> str:
    block = block_of(PAGE, editor)
    command, between = COMMANDS[editor]
    assert block.count(command) == 1
    return block.replace(command, between.join(map(json.dumps, daemon)))


def block_of(page: Path, name: str) -> str:
    """Return the text of the fence with this name."""
    block = re.search(rf"```\w+ {name}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert block
    return block[1]
