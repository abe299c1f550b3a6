"""Ends and failures: `:qa`, a daemon that cannot start, a first run without a key."""

import sys

import psutil
from desk import Desk
from fake_llm import call, say
from neovim_editor import DAEMON


def test_quitting_leaves_no_process(desk: Desk) -> None:
    # It gets away before it says so.
    away = "setsid bash -c 'echo begun; exec sleep 300' & sleep 300"
    desk.script(call("terminal", command=away, timeout_s=600))
    editor = desk.start(settings={"approval": "askNever"})
    editor.edit(desk.file)
    editor.command("Oh sleep")
    editor.wait_for_chat("```console\nbegun")
    started = editor.processes()
    assert len(started) > 3
    editor.quit()
    _, survivors = psutil.wait_procs(started, timeout=60)
    assert survivors == []


def test_a_daemon_that_cannot_start_says_why_and_what_to_do(desk: Desk) -> None:
    editor = desk.start(cmd=["no-such-daemon"])
    editor.edit(desk.file)
    editor.try_command("Oh hello")
    assert '"no-such-daemon" is not there; install oh-daemon' in editor.messages()
    assert editor.windows() == ["calc.py"]
    editor.options(cmd=["false"])
    editor.command("Oh hello")
    editor.wait_for_event("Exit")
    assert "the daemon ended (exit code 1); `:Oh restart`" in editor.messages()
    assert editor.lua("return require('oh').status()") == "oh: stopped"


def test_a_message_to_a_daemon_that_never_answers_goes_to_the_one_that_replaces_it(
    desk: Desk,
) -> None:
    desk.script(say("Here I am."), say("Still here."))
    editor = desk.start(cmd=[sys.executable, "-c", "import sys; sys.stdin.read()"])
    editor.edit(desk.file)
    editor.command("Oh hello")
    editor.options(cmd=DAEMON)
    editor.command("Oh restart")
    editor.wait_for_chat("Here I am.")
    editor.command("Oh and now?")
    editor.wait_for_chat("Still here.")


def test_a_first_run_without_a_key_names_the_way_out(desk: Desk) -> None:
    environ = {"OH_DAEMON_MODEL": "", "OH_DAEMON_API_KEY": "", "OH_DAEMON_BASE_URL": ""}
    editor = desk.start(environ=environ)
    editor.edit(desk.file)
    editor.command("Oh hello")
    editor.wait("vim.api.nvim_exec2('messages', { output = true }).output:find('oh: ')")
    assert "ANTHROPIC_API_KEY" in editor.messages()
    editor.command("checkhealth oh")
    report = "\n".join(editor.nvim.current.buffer[:])
    assert "no model can be used" in report
    assert "protocol 1.0" in report
