"""Ends and failures: `:qa`, a daemon that cannot start, a first run without a key."""

import re
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest
from fake_llm import Step, call, hold_step, say
from neovim_editor import DAEMON, Neovim
from neovim_workspace import Workspace
from partial_texts import wait_until_kept


def test_quitting_leaves_no_process(workspace: Workspace) -> None:
    # The process leaves its session before it prints.
    away = "setsid bash -c 'echo begun; exec sleep 300' & sleep 300"
    workspace.script(call("terminal", command=away, timeout_s=600))
    editor = workspace.start(cmd=DAEMON, settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh sleep")
    editor.wait_for_chat("```console\nbegun")
    processes = editor.processes()
    assert len(processes) > 3
    editor.quit()
    _, survivors = psutil.wait_procs(processes, timeout=60)
    assert survivors == []


def test_a_daemon_that_cannot_start_says_why_and_what_to_do(workspace: Workspace) -> None:
    editor = workspace.start(cmd=["no-such-daemon"])
    editor.edit(workspace.file)
    editor.try_command("Oh hello")
    assert '"no-such-daemon" is not there; install oh-daemon' in editor.messages()
    assert editor.windows() == ["calc.py"]
    assert 'ERROR "no-such-daemon" is not executable' in _health(editor)
    editor.options(cmd=["false"])
    editor.command("Oh hello")
    editor.wait_for_event("Exit")
    assert "the daemon ended (exit code 1); `:Oh restart`" in editor.messages()
    assert editor.lua("return require('oh').status()") == "oh: stopped"
    assert f"WARNING {workspace.project}: stopped" in _health(editor)
    autocommands = editor.lua("return vim.api.nvim_get_autocmds({ event = 'CursorMoved' })")
    assert [a for a in autocommands if a.get("desc", "").startswith("oh: ")] == []


def test_a_message_to_a_daemon_that_never_answers_goes_to_the_one_that_replaces_it(
    workspace: Workspace,
) -> None:
    workspace.script(say("Here I am."), say("Still here."))
    editor = workspace.start(cmd=[sys.executable, "-c", "import sys; sys.stdin.read()"])
    editor.edit(workspace.file)
    editor.command("Oh hello")
    screen_lines = [line.partition("│")[2].strip() for line in editor.screen().splitlines()]
    assert screen_lines[:4] == ["starting", "You (sending)", "", "hello"], "it is shown at once"
    editor.options(cmd=DAEMON)
    editor.command("Oh restart")
    editor.wait_for_chat("## You\n\nhello\n\n## Oh\n\nHere I am.")
    assert "(sending)" not in editor.chat()
    editor.command("Oh and now?")
    editor.wait_for_chat("Still here.")


@pytest.mark.full
def test_a_daemon_that_hangs_is_replaced_and_what_was_written_to_it_is_a_draft_again(
    workspace: Workspace,
) -> None:
    workspace.script(say("Here I am."), say("Still here."), say("And now too."))
    editor = workspace.start(cmd=DAEMON)
    editor.edit(workspace.file)
    editor.command("Oh hello")
    editor.wait_for_chat("Here I am.")
    editor.wait_for_status("idle")
    hung = editor.daemon()
    hung.suspend()
    editor.command("2,3Oh are you there?")
    editor.wait_for_chat("## You (sending)\n\n@calc.py:2-3\nare you there?")
    for message in "1234":
        editor.command(f"Oh {message}")
    editor.focus("oh-input")
    editor.type("ihold")
    editor.command("Oh restart")
    editor.command("Oh restart")
    editor.wait_for_event("Started", nth=2)
    assert not psutil.pid_exists(hung.pid)
    assert "the daemon does not end, so it is killed" in editor.messages()
    assert "ended before it answered; what you wrote is in the input again" in editor.messages()
    editor.type(" on")
    lines_expected = ["@calc.py:2-3", "are you there?", *"1234"]
    assert editor.draft() == ["hold on", *lines_expected], "in order, and not where the user writes"
    editor.type("<Esc>")
    editor.wait("not _G.chat_text():find('(sending)', 1, true)")
    editor.wait_for_status("idle")
    editor.lua("require('oh.windows').focus_input()")
    editor.type("<C-s>")
    editor.wait_for_chat("Still here.")
    assert editor.draft() == [""]

    editor.wait_for_status("idle")
    editor.command("Oh restart")
    editor.command("Oh and now?")
    editor.wait_for_chat("And now too.")
    assert editor.draft() == [""], "what is written while it ends is for the next one"


def test_what_a_killed_daemon_was_writing_stands_there_as_cut_off(workspace: Workspace) -> None:
    gate = threading.Event()
    workspace.script(call("terminal", command="echo begun; sleep 300", timeout_s=600))
    workspace.script(hold_step(say("Half of it. The rest.", n_chunks=2), gate), say("All of it."))
    editor = workspace.start(cmd=DAEMON, settings={"approval": "askNever"})
    editor.edit(workspace.file)
    editor.command("Oh run it")
    editor.wait_for_chat("● Run echo begun; sleep 300\n```console\nbegun")
    wait_until_kept(workspace.project, "begun\n")
    editor.daemon().kill()
    ended_line = "⊘ Run echo begun; sleep 300  the daemon ended; the outcome is unknown"
    editor.wait_for_chat(ended_line + "\n```console\nbegun")
    message = "oh: the daemon ended (signal 9); `:Oh restart` goes on where it was"
    assert [line for line in editor.messages().splitlines() if line] == [message], (
        "and no more lines"
    )
    editor.command("Oh restart")
    editor.wait_for_chat("> Interrupted: the daemon was restarted; `:Oh resume` goes on.")
    assert f"{ended_line}\n```console\n" in editor.chat()
    assert "\nbegun\n" in editor.chat(), "also once the log is all there is"
    assert "daemonRestarted" not in editor.screen()
    editor.command("Oh! instead tell me")
    editor.wait_for_chat("Half of")
    wait_until_kept(workspace.project, "Half of it.")
    editor.daemon().kill()
    editor.wait_for_event("Exit", nth=2)
    editor.focus("oh-chat")
    editor.lua("vim.api.nvim_feedkeys(vim.keycode('<C-c>'), 'mt', false)")
    editor.wait_for_message("the daemon does not run; `:Oh restart` starts it")
    assert "Error" not in editor.messages()
    editor.command("Oh restart")
    editor.wait_for_chat("Half of it.\n(cut off: the daemon ended while it wrote this answer)")
    gate.set()
    editor.command("Oh! resume but be brief")
    editor.wait_for_chat("All of it.")
    assert "but be brief" in workspace.prompts()


def test_a_message_that_no_daemon_takes_is_a_draft_again(workspace: Workspace) -> None:
    editor = workspace.start(cmd=["false"])
    editor.edit(workspace.file)
    editor.command("Oh hello")
    editor.wait(
        "require('oh.input') and vim.api.nvim_exec2('messages', { output = true })"
        ".output:find('in the input again')"
    )
    assert editor.draft() == ["hello "]


def test_an_error_of_the_model_says_what_to_do_and_is_tried_again(workspace: Workspace) -> None:
    refusal = b'{"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}'
    workspace.script(Step(status=401, body=refusal), say("Better."))
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh hello")
    editor.wait_for_chat("`:Oh resume` tries again.")
    assert "refuses the key" in editor.chat()
    assert "> set the key in your editor, or the provider's variable" in editor.chat()
    editor.wait_for_status("error")
    editor.command("Oh resume")
    editor.wait_for_chat("Better.")
    assert "tries again" not in editor.chat(), "what is past offers nothing"


def test_a_first_run_without_a_key_names_the_way_out(workspace: Workspace) -> None:
    environ = {"OH_DAEMON_MODEL": "", "OH_DAEMON_API_KEY": "", "OH_DAEMON_BASE_URL": ""}
    editor = workspace.start(environ=environ)
    editor.edit(workspace.file)
    editor.command("Oh hello")
    editor.wait_for_message("oh: ")
    assert "ANTHROPIC_API_KEY" in editor.messages()
    welcome = " ".join(line.partition("│")[2].strip() for line in editor.screen().splitlines())
    assert "> no model is set" in welcome, "also where the message would have been"
    assert "> `:Oh model demo` looks around without a key." in welcome
    assert "Write what you want done below." in welcome
    assert "no model can be used" in _health(editor)
    editor.command("Oh model demo")
    assert "no model is set" not in editor.screen(), "what is solved is not told any more"


def test_what_runs_is_in_the_report_of_the_health_check(workspace: Workspace) -> None:
    editor = workspace.start()
    editor.edit(workspace.file)
    editor.command("Oh")
    editor.wait_for_event("Started")
    editor.command("wincmd t | stopinsert")
    editor.command("map ]h <Plug>(oh-next-change)")
    report = _health(editor)
    assert "OK a message is sent by <CR> in normal mode and by <C-s> in insert mode" in report
    assert "OK the agent's changes are shown in the files themselves" in report
    assert "no key for <Plug>(oh-keep), <Plug>(oh-previous-change), <Plug>(oh-undo); see" in report
    assert "OK the parser for Markdown, which colours the chat" in report
    assert (
        f"{workspace.project}: oh-daemon {version('oh-daemon')}, protocol 1.0, process " in report
    )
    assert "OK model: openai/fake" in report


def _health(editor: Neovim) -> str:
    """Return what `:checkhealth oh` says, without its signs."""
    editor.command("checkhealth oh")
    report = "\n".join(editor.nvim.current.buffer[:])
    editor.command("close")
    return re.sub("[✅⚠️❌] ?", "", report)


@pytest.mark.full
def test_the_agent_works_on_another_machine_and_here_again(workspace: Workspace) -> None:
    workspace.script(call("terminal", command="hostname"), say("Done there."), say("Done here."))
    editor = workspace.start(cmd=DAEMON)
    editor.edit(workspace.file)
    path = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
    namespace = "unshare --user --map-root-user --uts --pid --fork --kill-child"
    command = f"sh -c 'hostname elsewhere; exec env {path} \"$@\"' -"
    editor.command(f"Oh remote cmd:{namespace} {command}")
    editor.wait_for_event("Started")
    assert "the agent works on cmd:unshare" in editor.messages()
    editor.command("Oh trust full")
    editor.command("Oh approval askNever")
    editor.command("Oh where are you?")
    editor.wait_for_chat("Done there.")
    assert "elsewhere" in workspace.tool_results()[-1]
    editor.command("Oh remote here")
    editor.wait_for_event("Started", nth=2)
    editor.command("Oh and now?")
    editor.wait_for_chat("Done here.")
    editor.command("Oh remote cmd:false")
    editor.wait_for_event("Exit", nth=3)
    assert "cmd:false cannot be reached" in editor.messages()
