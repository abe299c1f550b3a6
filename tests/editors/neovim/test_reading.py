"""How the chat reads: code, tables and who speaks; and what is never shown other than it is."""

from desk import Desk
from fake_llm import call, calls, say

ANSWER = """\
# What it is

`add` takes **two** numbers, see a[1] and [the page](https://example.org).

| name | what it does | |
|------|--------------|---|
| `__init__` | makes the **new thing** from all that it is given by whoever calls it | 1 |

```lua
local sum = 1 + 2 -- so
```
"""
_GROUPS = """
local row, column = ...
local found = vim.inspect_pos(nil, row, column).treesitter
local groups = vim.tbl_map(function(each) return each.hl_group end, found)
local space, how = vim.api.nvim_get_namespaces()["oh.chat"], { details = true }
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, space, { row, 0 }, { row, -1 }, how)) do
  table.insert(groups, mark[4].hl_group or mark[4].line_hl_group)
end
return groups
"""


def test_markdown_of_the_agent_is_laid_out_and_all_else_is_exact(desk: Desk) -> None:
    command = "echo __dunder__ *all*; (exit 3)"
    desk.script(calls(say("I try `it`."), call("terminal", command=command)), say(ANSWER))
    editor = desk.start(settings={"approval": "askNever"})
    editor.edit(desk.file)
    editor.command("Oh what is __add__?")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("-- so")
    editor.set(lines=60)
    screen = [line.partition("│")[2] for line in editor.screen().splitlines()]
    assert screen[1:4] == ["You", "", "what is __add__?"]
    assert "I try it." in screen
    assert f"✗ Run {command}" in "".join(screen), "no character is concealed"
    words = " ".join(" ".join(screen).split())
    assert "add takes two numbers, see a[1] and" in words
    assert "[the page](https://example.org)" in words, "a link says where it leads"
    assert "local sum = 1 + 2 -- so" in screen
    assert "```" not in editor.screen()
    table = [line for line in screen if line.startswith("|")]
    assert len(table) > 3
    assert {line.rindex("|") for line in table} == {table[0].rindex("|")}, "the columns stand"
    assert table[0].rindex("|") < 40
    assert "[exit code" not in editor.chat(), "that is for the model"

    editor.focus("oh-chat")
    code = editor.lua("return vim.fn.search('^local sum', 'w') - 1")
    assert "@keyword.lua" in editor.lua(_GROUPS, code, 0)
    assert "OhCode" in editor.lua(_GROUPS, code, 0)
    assert "OhUser" in editor.lua(_GROUPS, 0, 3)
    assert "OhUserText" in editor.lua(_GROUPS, 2, 0)
    editor.lua("vim.api.nvim_win_set_width(0, 90)")
    editor.wait_for_chat("makes the **new** **thing** from all that")
