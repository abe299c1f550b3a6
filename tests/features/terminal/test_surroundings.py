"""Commands started the way cron, hooks, pipes and odd folders start them."""

import json
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from command_line import Ran, environment
from fake_llm import call, say
from starts import SCRIPT
from world import World


def run(world: World, *args: str | bytes, how: str = "", stdin: bytes = b"", **more: str) -> Ran:
    """Run the script from a line of a shell that has `how` in it, such as redirections."""
    line = how if '"$0"' in how else f'exec "$0" "$@" {how}'
    command: Sequence[str | bytes | Path] = ["bash", "-c", line, SCRIPT, *args]
    env = environment(world.home, **world.environment) | more
    outcome = subprocess.run(
        command,
        check=False,
        cwd=world.project,
        env=env,
        input=stdin,
        capture_output=True,
        timeout=120,
    )
    return Ran(outcome.returncode, outcome.stdout.decode(), outcome.stderr.decode())


def test_a_run_needs_none_of_the_standard_streams(world: World) -> None:
    world.script(call("terminal", command="echo hi; echo err >&2; cat > made"), say("Done."))
    outcome = run(world, "run", "x", "--ask", "never", how="<&- >&- 2>&-")
    assert outcome == Ran(0, "", "")
    [log] = world.project.glob(".openhands/conversations/*/events.jsonl")
    assert '"stopReason":"endTurn"' in log.read_text()
    assert "oh-daemon:" not in log.read_text(), "no file got the number of a closed stream"


def test_input_in_no_encoding_is_read_as_far_as_it_goes(world: World) -> None:
    world.script(say("Fine."), say("Fine."))
    piped_result = run(world, "run", "-", stdin=b"\xef\xbb\xbfcaf\xe9\r\nau lait\r\n")
    assert "> caf�\nau lait\n" in piped_result.out
    assert "> caf�\n" in run(world, "run", b"caf\xe9").out


def test_what_the_output_cannot_show_or_take_is_no_traceback(world: World) -> None:
    world.script(say("Fine."))
    assert run(world, "run", "café 😀", PYTHONIOENCODING="ascii").code == 0
    assert "caf? ?" in run(world, "list", PYTHONIOENCODING="ascii").out
    message = "oh-daemon: the output cannot be written: no space left on device\n"
    for is_unbuffered in ("", "1"):
        for command in ("list", "--version"):
            full = run(world, command, how=">/dev/full", PYTHONUNBUFFERED=is_unbuffered)
            assert full == Ran(1, "", message)


def test_the_name_of_a_folder_cannot_speak_for_the_command(world: World) -> None:
    named_folder = world.project / "a\x1b[31m"
    named_folder.mkdir()
    outcome = run(world, "doctor", "--workspace", str(named_folder))
    assert "\x1b" not in outcome.out
    assert "logs can be written in" in outcome.out
    command_outcome = run(world, b"caf\xe9", how='mkdir "$1" && cd "$1" && exec "$0" run x')
    assert (command_outcome.code, command_outcome.err.count("\n")) == (2, 1)
    assert "has a name that is not UTF-8; rename it" in command_outcome.err


def test_tools_are_served_over_pipes_only_and_a_person_is_told(world: World) -> None:
    for how in ("</dev/null", ">served", "<&-"):
        outcome = run(world, "mcp", how=how)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert "another agent starts this command" in outcome.err


def test_a_way_out_is_said_once(world: World) -> None:
    (world.project / ".openhands").mkdir()
    (world.project / ".openhands/conversations").write_text("")
    outcome = run(world, "run", "x")
    assert (outcome.code, outcome.err.count("\n"), outcome.err.count("try again")) == (2, 1, 1)


def test_a_notice_says_why_and_prose_keeps_its_emoji(world: World) -> None:
    settings = {"mcpServers": {"shop": {"command": "/no/such"}}}
    (world.home / "settings.json").write_text(json.dumps(settings))
    world.script(call("terminal", command="echo \u200d"), say("⚠️ Mind 👩‍💻."))
    outcome = run(world, "run", "x", "--ask", "never")
    assert "! The MCP server 'shop' failed\n  there is no program '/no/such' here" in outcome.out
    assert "$ echo \\u{200d}" in outcome.out
    assert "⚠️ Mind 👩‍💻." in outcome.out
    assert "MCP" not in outcome.err, "it is said once, and not by the log"


def test_a_proxy_of_the_environment_is_named_when_it_is_not_there(world: World) -> None:
    (world.home / "settings.json").write_text('{"llm": {"maxAttempts": 1}}')
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        proxy = f"socks5://127.0.0.1:{deaf.getsockname()[1]}"
        outcome = run(world, "run", "x", ALL_PROXY=proxy, NO_PROXY="")
    assert outcome.code == 5
    assert "NO_PROXY=127.0.0.1 goes past it" in outcome.out
