"""Steering, queueing, pausing, stopping; resuming a conversation in another editor."""

import os
import subprocess
import sys
import threading

from fake_llm import call, calls, hold_step, reason, say
from neovim_workspace import Workspace

# Reads the conversation anew, and notes what arrives whatever the plugin makes of it.
_READ_ANEW = """
local handlers = vim.lsp.get_clients({ name = "oh" })[1].handlers
local on_event = handlers["conversation/event"]
handlers["conversation/event"] = function(err, params)
  _G.heard = params.event.to or _G.heard
  return on_event(err, params)
end
require("oh").conversation():forget()
require("oh").conversation():fetch()
"""
_CHOOSE_FIRST = """
vim.ui.select = function(items, opts, choose)
  _G.row = (opts.format_item or tostring)(items[1])
  choose(items[1])
end
"""
_HOLD_CHOICE_OF_LAST = """
vim.ui.select = function(items, _, choose)
  _G.choose = function()
    _G.choose = nil
    choose(items[#items])
  end
end
"""


def test_a_running_turn_is_steered_queued_behind_paused_and_stopped(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(
        call("terminal", command="read line; echo got-$line", timeout_s=0.2),
        hold_step(calls(say("First.", n_chunks=3), call("think", thought="hm")), gate),
        say("First answer."),
        say("Second answer."),
        call("terminal", command="echo begun; sleep 300", terminal_id="two", timeout_s=600),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh first")
    workspace.llm.wait_for_requests(2)
    editor.wait_for_status("running")
    editor.command("Oh! queue second")
    editor.wait_for_chat("## You (after this turn)\n\nsecond")
    editor.command("Oh pause")
    editor.wait_for_status("pausing")
    gate.set()
    editor.wait_for_status("paused")
    editor.wait_for_chat("> Paused; `:Oh resume` goes on.")
    editor.command("Oh resume")
    editor.wait_for_chat("> Paused.\n")
    editor.wait_for_chat("Second answer.")
    assert editor.chat().index("First answer.") < editor.chat().index("second")
    assert "(after this turn)" not in editor.chat()

    editor.wait_for_status("idle")
    editor.command("Oh third")
    editor.wait_for_chat("● Run echo begun; sleep 300\n```console\nbegun")
    editor.command("Oh and be quick")
    editor.command("Oh stop")
    editor.wait_for_chat("> Interrupted.")
    assert not [p for p in editor.processes() if p.name() == "sleep"]

    editor.command("Oh mode plan")
    editor.wait("require('oh').conversation().options.mode == 'plan'")
    bar = "return require('oh.status').bar(require('oh').conversation())"
    assert "plan · openai/fake" in editor.lua(bar)
    editor.command("Oh mode full")
    editor.wait("require('oh').conversation().options.mode == 'full'")
    assert "%#OhApproval#full: never asks%#OhDim# · openai/fake" in editor.lua(bar)
    assert editor.lua("return require('oh.command').complete('Oh approval ask')") == [
        "askAlways",
        "askNever",
        "askRisky",
    ]


def test_trust_policy_and_model_are_set_before_the_first_message(workspace: Workspace) -> None:
    workspace.script(call("terminal", command="touch made", security_risk="medium"), say("Made."))
    editor = workspace.start(trust=None)
    editor.edit(workspace.file)
    editor.command("Oh trust full")
    editor.wait_for_message(f"{workspace.project}: full")
    editor.command("Oh approval askNever")
    editor.command("Oh model openai/other")
    editor.command("Oh make it")
    editor.wait_for_chat("Made.")
    assert (workspace.project / "made").exists()
    assert workspace.llm.requests[-1].body["model"] == "other"
    names = editor.lua("return vim.tbl_map(function(e) return e.name end, _G.events)")
    assert "OhApprovalRequested" not in names
    editor.command("Oh log")
    assert editor.nvim.current.buffer.name == editor.lua("return vim.lsp.log.get_filename()")


def test_messages_that_wait_are_put_first_taken_back_or_sent_now(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(hold_step(say("Begun."), gate, after=0), say("As you say."), say("And later."))
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[table.remove(_G.p)]) end")

    def choose(message: int, act: int) -> None:
        editor.lua(f"_G.p = {{ {act}, {message} }}")
        editor.command("Oh queue")

    editor.command("Oh begin")
    editor.wait_for_chat("## You\n\nbegin\n\n● Working")
    for word in ("one", "two", "three"):
        editor.command(f"Oh! queue {word}")
        editor.wait_for_chat(f"## You (after this turn)\n\n{word}")
    choose(2, 2)
    editor.wait("require('oh').conversation().queue[1].content[1].text == 'two'")
    choose(2, 3)
    editor.wait("not _G.chat_text():find('one', 1, true)")
    assert editor.draft() == ["one "]
    choose(2, 1)
    editor.wait("require('oh').conversation().queue[2].delivery == 'steer'")
    gate.set()
    editor.wait_for_chat("And later.")
    chat = editor.chat()
    assert chat.index("three") < chat.index("As you say.") < chat.index("two")
    assert "'one'" not in workspace.prompts()
    editor.command("Oh queue")
    assert "no message waits" in editor.messages()


def test_a_message_steers_a_turn_is_taken_back_or_takes_the_place_of_the_turn(
    workspace: Workspace,
) -> None:
    gate = threading.Event()
    workspace.script(
        hold_step(calls(say("I look.", n_chunks=3), call("think", thought="hm")), gate, after=0),
        say("As you say."),
        call("terminal", command="echo begun; sleep 300", timeout_s=600),
        say("Now this."),
        call("terminal", command="echo once more; sleep 300", timeout_s=600),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh begin")
    editor.wait_for_chat("## You\n\nbegin\n\n● Working")
    editor.command("Oh use tabs, please")
    editor.command("Oh! queue and later that")
    editor.wait_for_chat("## You (before the next step)\n\nuse tabs, please")
    editor.wait_for_chat("## You (after this turn)\n\nand later that")
    editor.command("Oh unqueue")
    editor.wait("not _G.chat_text():find('and later that', 1, true)")
    assert editor.draft() == ["and later that "]
    gate.set()
    editor.wait_for_chat("As you say.")
    editor.wait_for_status("idle")
    editor.wait("not _G.chat_text():find('Working', 1, true)")
    assert "use tabs, please" in workspace.prompts()
    assert "and later that" not in workspace.prompts()

    editor.command("Oh third")
    editor.wait_for_chat("```console\nbegun")
    editor.command("Oh! instead do this")
    editor.wait_for_chat("Now this.")
    editor.wait_for_status("idle")
    editor.command("Oh fourth")
    editor.wait_for_chat("```console\nonce more")
    editor.command("Oh! queue and then that")
    editor.wait_for_chat("## You (after this turn)\n\nand then that")
    editor.command("Oh stop")
    editor.wait_for_chat("## You (waits; `:Oh queue` sends it)\n\nand then that")
    chat = editor.chat()
    assert chat.index("> Interrupted.") < chat.index("do this") < chat.index("Now this.")


def test_what_is_written_belongs_to_what_was_chosen_before_it_also_while_that_is_on_its_way(
    workspace: Workspace,
) -> None:
    workspace.script(say("Done."), say("Done."), say("Again."), say("After."), say("First again."))
    editor = workspace.start()
    editor.edit(workspace.file)
    for command in ("Oh first", "Oh new", "Oh second"):
        editor.command(command)
    assert "first" not in editor.screen()
    editor.wait_for_event("TurnFinished", nth=2)
    editor.wait_for_chat("## You\n\nsecond\n\n## Oh\n\nDone.")
    editor.command("Oh third")
    editor.wait_for_chat("Again.")
    assert editor.chat().startswith("## You\n\nsecond")

    editor.lua(_HOLD_CHOICE_OF_LAST)
    for commands, answer in (["Oh new", "Oh after"], "After."), (["Oh again"], "First again."):
        editor.command("Oh conversations")
        editor.wait("_G.choose ~= nil")
        daemon = editor.daemon()
        daemon.suspend()
        editor.lua("_G.choose()")
        for command in commands:
            editor.command(command)
        daemon.resume()
        editor.wait_for_chat(answer)
    assert editor.chat().startswith("## You\n\nfirst\n\n## Oh\n\nDone.\n\n## You\n\nagain")


def test_what_happens_while_the_log_is_read_is_shown_too(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(hold_step(calls(say("The first half, "), say("the second half.")), gate))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh tell me")
    editor.wait_for_chat("The first half, ")
    editor.delay("conversation/events")
    editor.lua(_READ_ANEW)
    editor.wait("_G.arrive ~= nil")
    gate.set()
    editor.wait("_G.heard == 'idle'")
    editor.lua("_G.arrive()")
    editor.wait_for_chat("the second half.")
    editor.wait_for_status("idle")


def test_what_happens_while_a_map_waits_for_a_key_is_shown_afterwards(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(
        hold_step(say("The first half. The second.", n_chunks=2), gate), say("Another.")
    )
    editor = workspace.start()
    editor.edit(workspace.file)
    # While such a map waits, as those of many plugins do, Neovim lets no text be changed.
    editor.lua("vim.keymap.set('n', '<F3>', 'getcharstr()[1:0]', { expr = true })")
    editor.command("Oh tell me")
    editor.wait_for_chat("The first")
    editor.type("<F3>")
    gate.set()
    editor.wait_for_event("TurnFinished")
    # Long enough for a frame, and below for the answers to a first message.
    editor.lua("vim.wait(200)")
    editor.type("x")
    editor.wait_for_chat("The second.")

    editor.command("Oh new")
    editor.type("<Esc>")
    editor.command("Oh and now?")
    editor.type("<F3>")
    editor.lua("vim.wait(500)")
    editor.type("x")
    editor.wait_for_chat("Another.")
    assert "(sending)" not in editor.chat()
    assert editor.messages() == ""

    daemon = editor.daemon()
    daemon.suspend()
    editor.command("Oh are you there?")
    editor.type("<F3>")
    daemon.kill()
    editor.wait_for_event("Exit")
    editor.type("x")
    editor.wait_for_message("what you wrote is in the input again")
    assert editor.draft() == ["are you there? "]


def test_another_editor_goes_on_with_all_of_the_history(workspace: Workspace) -> None:
    workspace.script(
        reason("Let me think.", calls(say("Looking."), call("terminal", command="seq 30"))),
        call("todo", tasks=[{"text": "Fix it", "status": "completed"}]),
        say("All is well."),
        say("Still well."),
    )
    editor = workspace.start(settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh look at @calc.py")
    editor.wait_for_event("TurnFinished")
    editor.wait_for_chat("All is well.")
    # The frame that shows the end of the turn folds its work around the folds of its calls.
    editor.wait("""(function()
      local win = require("oh.windows").window_of("oh-chat")
      return vim.api.nvim_win_call(win, function()
        return vim.fn.foldlevel(vim.fn.search("seq 30", "bnw")) == 2
      end)
    end)()""")
    first = editor.chat()
    assert "✓ Thought  (1 line)" in first
    assert "- [x] Fix it" in first
    folds = editor.lua("""
    local win = require("oh.windows").window_of("oh-chat")
    return vim.api.nvim_win_call(win, function()
      vim.fn.search("seq 30", "bw")
      vim.cmd("normal! zo")
      return vim.fn.foldclosedend(".") - vim.fn.line(".")
    end)
    """)
    assert folds == 32, "the output is folded below its line"
    assert (
        editor.lua("""
    local win = require("oh.windows").window_of("oh-chat")
    local is_markdown = vim.treesitter.highlighter.active[vim.api.nvim_win_get_buf(win)] ~= nil
    return is_markdown and vim.api.nvim_win_call(win, function()
      return vim.fn.foldclosedend(vim.fn.search("Thought", "bw")) - vim.fn.line(".")
    end)
    """)
        == 1
    ), "the thought is folded too"
    editor.quit()

    editor = workspace.start(environ={"TZ": "IST-5:30"})
    editor.edit(workspace.file)
    editor.lua(_CHOOSE_FIRST)
    editor.command("Oh conversations")
    editor.wait_for_chat("All is well.")
    assert editor.chat() == first
    editor.command("3Oh and this?")
    editor.wait_for_chat("Still well.")
    assert "@calc.py:3-3\nand this?" in editor.chat()
    assert "return a - b" in str(workspace.llm.requests[-1].body["messages"][-1])

    info = {"title": "T", "status": "idle", "messageCount": 1, "pendingCount": 0}
    info |= {"updatedAt": "2026-07-31T20:15:00.1Z", "fileCount": 2}
    lines = editor.lua("return require('oh.conversations').format(...)", info)
    expected = "T  · idle · 1 message · 2 files · 2026-08-01 01:45"
    assert lines == expected, "the time is that of the user"


def test_a_conversation_is_renamed_put_away_brought_back_and_deleted(workspace: Workspace) -> None:
    workspace.script(say("Hello."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh greet me")
    editor.wait_for_event("TurnFinished")
    editor.lua("vim.ui.input = function(_, answer) answer('Greetings, 100 %') end")
    editor.command("Oh rename")
    editor.wait("require('oh').conversation().title == 'Greetings, 100 %'")
    bar = "require('oh.status').bar(require('oh').conversation())"
    assert "Greetings, 100 %%" in editor.lua(f"return {bar}")

    editor.command("Oh new")
    editor.command("Oh conversations farewell")
    editor.wait_for_message('no conversation has "farewell" in it')
    editor.lua(_CHOOSE_FIRST)
    editor.command("Oh conversations hello")
    editor.wait_for_chat("Hello.")
    assert editor.lua("return _G.row").endswith(" │ Hello.")

    editor.command("Oh archive")
    editor.wait("require('oh').conversation() == nil")
    assert "Write what you want done below." in editor.screen()
    editor.command("Oh conversations")
    editor.wait_for_message("no conversation")
    editor.lua(_CHOOSE_FIRST)
    editor.command("Oh archived")
    editor.wait_for_chat("Hello.")

    log = next((workspace.project / ".openhands/conversations").glob("*/events.jsonl"))
    editor.command("Oh delete")
    assert log.exists(), "the first choice keeps it"
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[2]) end")
    editor.command("Oh delete")
    editor.wait("require('oh').conversation() == nil")
    assert not log.exists()


def test_a_second_window_watches_until_the_first_one_is_gone(workspace: Workspace) -> None:
    workspace.script(
        call("terminal", command="touch made", security_risk="medium"),
        say("Made."),
        say("Mine now."),
    )
    first = workspace.start()
    first.edit(workspace.file)
    first.command("Oh make it")
    first.wait_for_event("ApprovalRequested")

    second = workspace.start()
    second.edit(workspace.file)
    second.lua(_CHOOSE_FIRST)
    second.command("Oh conversations")
    second.wait_for_chat("waiting for an answer in the window that runs it")
    state = "require('oh.status').state(require('oh').conversation())"
    second.wait(f"{state} == '1 to allow elsewhere'")
    second.command("Oh approve")
    assert "another window runs this conversation; answer there" in second.messages()
    second.command("Oh and quickly")
    second.wait_for_message("be watched")
    assert second.draft() == ["and quickly "], "what cannot be sent is not lost"
    assert not (workspace.project / "made").exists()

    first.command("Oh approve")
    second.wait_for_chat("Made.")
    first.wait_for_status("idle")
    daemon = first.daemon()
    first.quit()
    daemon.wait(60)
    second.command("Oh and now?")
    second.wait_for_chat("Mine now.")
    assert "elsewhere" not in second.lua(f"return {state}")


def test_the_end_of_a_conversation_is_seen_while_it_is_being_opened(workspace: Workspace) -> None:
    workspace.script(say("The answer."), say("And more."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh begin")
    editor.wait_for_event("TurnFinished")
    editor.quit()

    editor = workspace.start()
    editor.edit(workspace.file)
    editor.lua("vim.ui.select = function(items, _, choose) choose(items[1]) end")
    editor.command("Oh toggle")
    editor.wait_for_event("Started")
    editor.delay("conversation/open")
    editor.command("Oh conversations")
    editor.wait_for_chat("## You\n\nbegin\n\n## Oh\n\nThe answer.")
    editor.wait_for_status("opening")
    editor.command("Oh go on")
    editor.wait("_G.arrive ~= nil")
    editor.lua("_G.arrive()")
    editor.wait_for_chat("And more.")
    assert editor.chat().count("The answer.") == 1


def test_two_editors_that_attach_to_one_daemon_write_into_one_conversation(
    workspace: Workspace,
) -> None:
    workspace.script(say("One."), say("Two."))
    argv = (sys.executable, "-m", "oh_daemon", "serve")
    environment = {**os.environ, **workspace.environment}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert b"serves clients" in server.stdout.readline()
        first, second = workspace.start(attach="auto"), workspace.start(attach="auto")
        first.edit(workspace.file)
        first.command("Oh of the first")
        first.wait_for_chat("One.")
        second.edit(workspace.file)
        second.lua(_CHOOSE_FIRST)
        second.command("Oh conversations")
        second.wait_for_chat("One.")
        second.command("Oh of the second")
        for editor in (first, second):
            editor.wait_for_chat("of the second")
            editor.wait_for_chat("Two.")
            editor.quit()
        server.terminate()
