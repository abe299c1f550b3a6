"""How the chat reads: code, tables, folds, the plan; and what is never shown other than it is."""

from typing import get_args

from fake_llm import Step, call, calls, say
from neovim_workspace import Workspace
from places import TESTS

from oh_daemon.protocol.items import StopReason
from oh_daemon.protocol.status import PauseReason

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


def test_markdown_of_the_agent_is_laid_out_and_all_else_is_exact(workspace: Workspace) -> None:
    command = "echo __dunder__ *all*; (exit 3)"
    workspace.script(calls(say("I try `it`."), call("terminal", command=command)), say(ANSWER))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh what is __add__?")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("-- so")
    editor.set(lines=60)
    editor.focus("oh-chat")
    editor.type("zR")
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

    code = editor.lua("return vim.fn.search('^local sum', 'w') - 1")
    assert "@keyword.lua" in editor.lua(_GROUPS, code, 0)
    assert "OhCode" in editor.lua(_GROUPS, code, 0)
    assert "OhUser" in editor.lua(_GROUPS, 0, 3)
    assert "OhUserText" in editor.lua(_GROUPS, 2, 0)
    editor.lua("vim.api.nvim_win_set_width(0, 90)")
    editor.wait_for_chat("makes the **new** **thing** from all that")


def _todo(*states: str) -> Step:
    return call("todo", tasks=[{"text": f"Task {n}", "status": s} for n, s in enumerate(states)])


def test_every_reason_for_an_end_has_words(workspace: Workspace) -> None:
    words_table = workspace.start().lua("""
    local words = require("oh.words")
    return { vim.tbl_keys(words.STOPS), vim.tbl_keys(words.PAUSES) }
    """)
    # The first two end a turn well; the others are told by the turn's status.
    reasons = {"endTurn", "finished", "cancelled", "error"}
    assert set(get_args(StopReason)) - reasons == set(words_table[0])
    assert set(get_args(PauseReason)) == set(words_table[1])


_CLOSED = "vim.fn.foldclosed(vim.fn.search(..., 'nw'))"


def test_a_turn_has_one_plan_and_its_work_folds_into_one_line_when_it_is_done(
    workspace: Workspace,
) -> None:
    workspace.script(
        calls(say("I look."), _todo("in_progress", "pending")),
        calls(_todo("completed", "in_progress"), call("terminal", command="seq 1 300")),
        call("ask", question="Go on?"),
        _todo("completed", "completed"),
        say("All done."),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh do it")
    editor.wait_for_chat("? Go on?")
    assert "- [x] Task 0\n- [-] Task 1\n" in editor.chat(), "the plan is updated where it is"
    editor.focus("oh-chat")
    assert editor.lua("return " + _CLOSED, "^I look") == -1, "while it works, its work is seen"
    editor.command("Oh answer yes")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("All done.")
    assert editor.chat().count("Task 0") == 1
    editor.wait(_CLOSED + " > 0", "^I look")
    screen = [line.partition("│")[2] for line in editor.screen().splitlines()]
    [folded_line] = [line for line in screen if line.startswith("▸ Worked ")]
    assert folded_line.endswith(" s · 5 steps")
    assert "I look." not in screen
    assert "All done." in screen

    editor.command("call search('^I look', 'w')")
    editor.type("zo")
    assert editor.lua("return " + _CLOSED, "^I look") == -1
    assert "\n150\n" not in editor.chat(), "a long output comes when its fold is opened"
    assert "✓ Run seq 1 300  (300 lines)" in editor.screen()
    editor.command("call search('^✓ Run seq', 'w')")
    editor.type("zo")
    editor.screen()
    editor.wait_for_chat("\n150\n")
    assert editor.lua("return " + _CLOSED, "^I look") == -1


def test_what_is_drawn_while_the_user_writes_is_folded_afterwards(workspace: Workspace) -> None:
    workspace.script(call("terminal", command="seq 1 30"), say("Done."))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh")
    assert editor.nvim.api.get_mode()["mode"] == "i"
    editor.lua("require('oh').send('count')")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("Done.")
    window = "require('oh.windows').window_of('oh-chat')"
    chat = f"vim.api.nvim_win_call({window}, function() return %s end)"
    fold_lua = chat % "vim.fn.foldclosed(vim.fn.search('^15$', 'nw'))"
    assert editor.lua("return " + fold_lua) == -1
    editor.type("<Esc>")
    editor.wait(fold_lua + " > 0")
    assert editor.lua("return " + chat % "vim.fn.line('.') == vim.fn.line('$')")


def test_a_log_of_a_later_release_shows_what_this_one_cannot(workspace: Workspace) -> None:
    log = workspace.project / ".openhands/conversations/aa08108da68a40159e0dbd488cd22e92"
    log.mkdir(parents=True)
    text = (TESTS / "golden/later/approvals.jsonl").read_text("utf-8")
    text = text.replace("file:///project", workspace.project.as_uri())
    (log / "events.jsonl").write_text(text, "utf-8")
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end")
    editor.command("Oh conversations")
    editor.wait_for_chat("There is one file.")
    chat = editor.chat()
    assert "Rehearse the deployment" in chat
    assert "(rehearsal: this version cannot show it)" in chat
