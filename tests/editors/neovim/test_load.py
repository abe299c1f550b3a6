"""Long conversations: all of a long log is shown, and a fast stream arrives whole."""

import json
from pathlib import Path
from typing import Any

import psutil
from desk import Desk
from fake_llm import call, chunks, say

N_EVENTS = 20_000


def _grow(log: Path) -> None:
    """Repeat the command of a finished conversation until its log is as long as that of a month."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    records = [line for line in lines if "event" in line]
    of_command = [r for r in records if r["event"].get("item", {}).get("kind") == "command"]
    assert [r["event"]["type"] for r in of_command] == ["item.started", "item.completed"]
    seq = records[-1]["seq"]
    more: list[str] = []
    while seq < N_EVENTS:
        for record in of_command:
            seq += 1
            item_id = f"item-{(seq - 1) // 2}"
            item: dict[str, Any] = {**record["event"]["item"], "id": item_id}
            item["call"] = {**item["call"], "id": item_id, "batch": item_id}
            event = {**record["event"], "item": item}
            more.append(json.dumps({**record, "seq": seq, "itemId": item_id, "event": event}))
    with log.open("a", encoding="utf-8") as end:
        end.write("\n".join([*more, json.dumps(lines[-1])]) + "\n")


def test_twenty_thousand_events_are_shown_and_the_conversation_goes_on(desk: Desk) -> None:
    desk.script(call("terminal", command="echo one; echo two"), say("Ready."), chunks(5000, "x "))
    editor = desk.start(settings={"approval": "askNever"})
    editor.edit(desk.file)
    editor.command("Oh begin")
    editor.wait_for_event("TurnFinished")
    started = editor.processes()
    editor.quit()
    psutil.wait_procs(started, timeout=30)
    [log] = (desk.project / ".openhands/conversations").glob("*/events.jsonl")
    _grow(log)

    editor = desk.start(settings={"approval": "askNever"}, chat={"folded": 0})
    editor.edit(desk.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end")
    editor.command("Oh conversations")
    editor.wait(f"(require('oh').conversation() or {{ seq = 0 }}).seq >= {N_EVENTS}")
    # Not the text but the number of lines: that is cheap enough to ask for all the time.
    n_lines = """
    (function()
      local buf = require("oh.chat").of(require("oh").conversation()).buf
      return vim.api.nvim_buf_line_count(buf) > 59000
    end)()
    """
    editor.wait(n_lines)
    assert editor.chat().count("\ntwo\n") > 9900
    screen = editor.screen()
    assert screen.count("✓ Run echo one; echo two  (5 lines)") > 10, "folded, a line each"

    editor.command("Oh go on")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat(("x " * 5000).rstrip())
    at_end = """
    local win = require("oh.windows").window_of("oh-chat")
    return vim.api.nvim_win_call(win, function() return vim.fn.line(".") == vim.fn.line("$") end)
    """
    assert editor.lua(at_end)
