"""The command line through its real console script: what it prints, and each exit code."""

import json
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mcp_odd_server
import mcp_server
import pytest
from cli_runs import begin, run
from command_line import Ran, end, environment, read_terminal, run_python, start, type_into
from fake_llm import Step, call, calls, error, hang, hold_step, reply, say, with_usage
from git_projects import git, repository
from mcp_world import vault
from starts import SCRIPT
from world import World

from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.cli.doctor import login_shell_line
from oh_daemon.storage.user_state import UserState

Json = dict[str, Any]
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])"
AS_ANA = "-c user.name=Ana -c user.email=ana@example.org"
LOGIN, HTML = b"<html><body>Log in</body></html>", {"content-type": "text/html"}

INTERRUPTED_QUESTIONS = """
import os, pty, signal, sys, time
from rich.console import Console
from oh_daemon.frontends.cli.terminal_user import TerminalUser

class Control:
    def interrupt(self): os._exit(0)
    def is_pending(self, request): return True

def ask(stdin, stdout):
    os.setsid()
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    sys.stdin, sys.stdout = open(0), open(1, "w")
    user.take({"event": {"type": "input.requested", "input": {"prompt": "Now?"}}}, is_shown=True)
    user.ask_next()

user = TerminalUser(Control(), Console(), is_there=True)
lost = 0
for _ in range(1000):
    own_end, far_end = pty.openpty()
    printed, prints = os.pipe()
    pid = os.fork()
    if pid == 0:
        ask(far_end, prints)
    os.close(far_end)
    os.close(prints)
    output = b""
    while b"Your answer" not in output:
        output += os.read(printed, 100)
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + 10
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            lost += 1
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.001)
    os.close(own_end)
    os.close(printed)
print(lost, "lost")
"""


def task(world: World, *steps: Step, args: tuple[str, ...] = ()) -> Ran:
    world.script(*steps)
    return run(world, "run", "Do it", *args)


def events(ran: Ran) -> list[Json]:
    return [json.loads(line) for line in ran.out.splitlines()]


def logs(world: World) -> list[Path]:
    return sorted(world.project.glob(".openhands/conversations/*/events.jsonl"))


def id_of(world: World) -> str:
    [log] = logs(world)
    return log.parent.name


# run


def test_json_prints_the_lines_of_the_log_and_nothing_else(world: World) -> None:
    outcome = task(world, call("terminal", command="echo hi"), say("Done."), args=("--json",))
    actual_records = events(outcome)
    [log] = logs(world)
    records = [line for line in log.read_bytes().splitlines() if b'"event":' in line]
    for line, record in zip(outcome.out.encode().splitlines(), records, strict=False):
        assert line.endswith(record[1:])
    assert {p["conversationId"] for p in actual_records} == {log.parent.name}
    assert all(p["epoch"] for p in actual_records)
    assert actual_records[-1]["event"]["type"] == "turn.completed"
    assert outcome.code == 0
    assert stat.S_IMODE(log.stat().st_mode) & 0o077 == 0, "what belongs to the user is private"


def test_the_users_mcp_servers_are_there_also_those_to_sign_in_to(world: World) -> None:
    with vault() as far:
        settings = {"mcpServers": {"shop": mcp_server.settings(), "vault": far}}
        (world.home / "settings.json").write_text(json.dumps(settings))
        world.variables["BROWSER"] = f"{sys.executable} -c '{BROWSER}' %s"
        outcome = run(world, "mcp", "login", "vault")
        assert (outcome.code, outcome.out.splitlines()[0]) == (
            0,
            "Sign in with a browser on this machine:",
        )
        assert outcome.out.endswith("\n'vault' is connected, with 2 tools\n")
        calls = call("shop__price", item="tea"), call("vault__open_vault")
        outcome = task(world, *calls, say("Done."), args=("--json", "--ask", "never"))
    items_done = [
        e["event"]["item"] for e in events(outcome) if e["event"]["type"] == "item.completed"
    ]
    price, opened_text = (str(item["content"]) for item in items_done if item["kind"] == "toolCall")
    assert ("tea costs 3 coins" in price, "gold" in opened_text) == (True, True)
    assert outcome.code == 0
    outcome = run(world, "mcp", "login", "volt")
    assert (outcome.code, "no MCP server 'volt' in the settings; known: shop, " in outcome.err) == (
        2,
        True,
    )


def test_progress_is_readable_and_the_warnings_come_first(world: World) -> None:
    outcome = task(
        world,
        call("todo", tasks=[{"text": "Say hi", "status": "in_progress"}]),
        call("terminal", command="echo hi; false"),
        call("edit", command="create", path="a.txt", text="new\n"),
        call("finish", message="All of it is done."),
        args=("--ask", "never"),
    )
    assert outcome.code == 0
    for part in (
        *("> Do it", "Plan\n  ▸ Say hi", "\n$ echo hi; false\n  hi\n  exit code 1"),
        *("• Create a.txt", "  +new", "All of it is done.", "Done · 4 steps · 400 tokens in"),
    ):
        assert part in outcome.out
    assert outcome.out.count("exit code") == 1
    assert "\x1b" not in outcome.out
    works, cost = outcome.err.splitlines()[0], outcome.err.splitlines()[-2]
    assert str(world.project) in works
    assert "on this machine and with your permissions" in works
    assert "openai/fake" in cost
    assert "costs nothing" in cost
    assert id_of(world)[:12] in outcome.err.splitlines()[-1]


@pytest.mark.parametrize("args", [(), ("--json",)], ids=["progress", "json"])
def test_while_nothing_is_to_be_seen_a_terminal_says_so(
    world: World, args: tuple[str, ...]
) -> None:
    gate = threading.Event()
    world.script(hold_step(say("Done."), gate, after=0))
    own_end, far_end = pty.openpty()
    process = begin(world, "run", "Do it", *args, stdout=far_end)
    os.close(far_end)
    output = b""
    while not (args or output.endswith(b"working; Ctrl-C stops it\x1b[0m")):
        output += read_terminal(own_end)
    gate.set()
    while piece := read_terminal(own_end):
        output += piece
    assert end(process).code == 0
    assert (b"working" in output) == (not args)
    assert b"Done." in output


def test_a_command_is_shown_while_it_runs(world: World) -> None:
    wait = "until [ -e gate ]; do read -t 0.05 <> <(:); done; echo over"
    world.script(call("terminal", command=wait), say("Done."))
    process = begin(world, "run", "Do it", "--ask", "never")
    assert process.stdout
    while (line := process.stdout.readline()) != f"$ {wait}\n":
        assert line
    (world.project / "gate").touch()
    outcome = end(process)
    assert outcome.out.startswith("  over\n  exit code 0")
    log_text = run(world, "log", id_of(world)).out
    assert f"$ {wait}\n  over\n" in log_text


def test_the_task_can_come_from_stdin_begin_with_a_command_and_show_an_image(world: World) -> None:
    world.script(say("Done."))
    (world.project / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n...")
    process = begin(world, "run", "-", "--image", "shot.png", stdin=subprocess.PIPE)
    out, _ = process.communicate("/review app.py\n", timeout=120)
    assert "> /review app.py\n" in out
    assert process.returncode == 0
    text_part, image = world.llm.requests[0].body["messages"][-1]["content"]
    text = text_part["text"]
    assert (text.startswith("Review the changes"), text.endswith("app.py")) == (True, True)
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    (world.project / "notes.txt").touch()
    for args, message in (
        (("--resume", id_of(world), "--image", "shot.png"), "--image needs a task"),
        (("Do it", "--image", "notes.txt"), "'notes.txt' is no PNG"),
    ):
        outcome = run(world, "run", *args)
        assert (outcome.code, message in outcome.err) == (2, True)
    process = begin(world, "run", "-", stdin=subprocess.PIPE)
    _, err = process.communicate("x" * (1 << 20) + "x", timeout=120)
    assert (process.returncode, "oh-daemon: text: " in err, "Trace" in err) == (2, True, False)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("run", "x", "--api-key", "sk-1"), "process list"),
        (("run", "x", "--bogus"), "No such option: --bogus; see `oh-daemon run --help`"),
        (("run", "x", "--ask", "maybe"), "'always', 'risky', 'never'"),
        (("run", "x", "--tool-choice", "none"), "'auto', 'required'"),
        (("run", "x", "--max-steps", "0"), "--max-steps"),
        (("run", "x", "--max-cost", "0"), "--max-cost"),
        (("run", "x", "--max-cost", "lots"), "--max-cost"),
        (("run", "x", "--workspace", "/nowhere"), "'/nowhere' does not exist"),
        (("run", "x", "--settings", "/nowhere.json"), "/nowhere.json"),
        (("run", "x", "--settings", "wrong.json"), "did you mean 'maxSteps'"),
        (("run", "x", "--settings", "broken.json"), "broken.json cannot be read"),
        (("run", "x", "--result-schema", "broken.json"), "--result-schema: "),
        (("run", "x", "--result-schema", "wrong.json"), "resultSchema: it is not a JSON Schema"),
        (("run", "x", "--resume", "abc", "--autoresume"), "exclude each other"),
        (("run",), 'oh-daemon run "task"'),
        (("run", "--autoresume"), 'oh-daemon run "task"'),
        (("log", "abc"), "there are no conversations in "),
        (("log",), "Missing argument 'ID'"),
        (("ask", "abc", " "), 'oh-daemon ask ID "question"'),
        (("lst",), "No such command 'lst'. Did you mean 'list'; see"),
        (("usage", "--since", "yesterday"), "--since yesterday: a day is written as 2026-11-21"),
        (("export", "x", "--format", "pdf"), "'--format': 'pdf' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_one_line_with_the_way_out(
    world: World, args: tuple[str, ...], message: str
) -> None:
    (world.project / "wrong.json").write_text('{"maxStep": 3, "type": "nonsense"}')
    (world.project / "broken.json").write_text("{")
    outcome = run(world, *args)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("oh-daemon: ")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert "left out" not in outcome.err
    assert logs(world) == []


def test_a_run_works_in_the_folder_that_it_is_told(world: World) -> None:
    other_folder = world.home / "other"
    other_folder.mkdir()
    folder_option = ("--workspace", str(other_folder))
    outcome = task(
        world,
        call("terminal", command="touch made"),
        say("Done."),
        args=("--ask", "never", *folder_option),
    )
    assert (outcome.code, str(other_folder) in outcome.err.splitlines()[0]) == (0, True)
    assert ((other_folder / "made").exists(), logs(world)) == (True, [])
    [log] = other_folder.glob(".openhands/conversations/*/events.jsonl")
    assert log.parent.name[:12] in run(world, "list", *folder_option).out
    assert "$ touch made" in run(world, "log", log.parent.name, *folder_option).out


def test_a_lost_log_exits_1_and_is_said(world: World) -> None:
    outcome = task(
        world, call("terminal", command="rm -r .openhands"), say("?"), args=("--ask", "never")
    )
    assert outcome.code == 1
    assert outcome.err.count("deleted") == 1


def test_something_to_ask_and_nobody_there_exits_3(world: World) -> None:
    outcome = task(world, call("terminal", command="touch made"), say("I may not."))
    assert outcome.code == 3
    assert not (world.project / "made").exists()
    assert "? Run touch made\n  medium risk" in outcome.out
    assert "  rejected: the user cannot be asked" in outcome.out
    for output in (outcome.out, run(world, "log", id_of(world)).out):
        assert output.count("touch made") == 1
        assert output.count("rejected") == 1


REACH = "python3 -c 'import urllib.request as u; u.urlopen(\"http://1.1.1.1/\")'"
IN_OWN_FOLDER = "mkdir .openhands/made; echo 1 > .openhands/made/x"


@pytest.mark.parametrize(
    ("command", "args", "code", "words"),
    [
        ("echo 1 > made", (), 3, "no one could answer: "),
        ("echo 1 > made", ("--json",), 3, "no one could answer: "),
        (f"git init -q made; git -C made {AS_ANA} commit -q --allow-empty -m c", (), 3, "made"),
        (IN_OWN_FOLDER, ("--ask", "never"), 3, "not applied: "),
        (REACH, (), 3, "no connection to 1.1.1.1"),
        (REACH, ("--json",), 3, "no connection to 1.1.1.1"),
        (REACH, ("--ask", "never"), 0, "no connection to 1.1.1.1"),
    ],
)
def test_run_exits_with_3_and_prints_what_was_refused_although_the_agent_went_on(
    world: World, command: str, args: tuple[str, ...], code: int, words: str
) -> None:
    world.variables["OH_DAEMON_SANDBOX"] = "overlay"
    steps = (call("terminal", command=command), call("terminal", command="true"), say("Done."))
    outcome = task(world, *steps, args=args)
    assert outcome.code == code, outcome.err
    assert words in outcome.err
    assert not (world.project / "made").exists()


def test_refusal_in_a_sub_agent_exits_with_3(world: World) -> None:
    def play(request: Json) -> Step:
        is_sub_agent = "Make it there" in str(request["messages"][1])
        has_result = request["messages"][-1]["role"] == "tool"
        if has_result:
            return say("Done.")
        if is_sub_agent:
            return call("terminal", command="touch made")
        return call(
            "delegate", tasks=[{"agent": "general", "title": "Make", "task": "Make it there"}]
        )

    world.llm.play(play)
    outcome = run(world, "run", "Do it")
    assert (outcome.code, "no one could answer: Run touch made" in outcome.err) == (3, True)


def test_refused_changes_by_git_exit_3(world: World) -> None:
    world.variables["OH_DAEMON_SANDBOX"] = "overlay"
    folder = repository(world.home / "main") / "lib"
    folder.mkdir()
    commit = call("terminal", command="git rm -q ../a.txt && git commit -qm Less")
    args = ("--ask", "never", "--workspace", str(folder))
    outcome = task(world, commit, say("Done."), args=args)
    assert outcome.code == 3
    assert f"open the repository's root, {folder.parent}, for that" in outcome.out
    assert git(folder.parent, "status", "--porcelain") == ""


def test_nobody_is_asked_where_nobody_is_and_the_run_goes_on(world: World) -> None:
    """Finding D5: a question ended the run, and nothing said that nobody was there."""
    question = call("ask", question="Which colour?", choices=["red", "blue"])
    outcome = task(world, question, say("Red, I decided."), args=("--ask", "never"))
    assert (outcome.code, "Red, I decided." in outcome.out) == (0, True)
    first, second = (request.body for request in world.llm.requests)
    prompt = first["messages"][0]["content"]
    assert "ask" not in {tool["function"]["name"] for tool in first["tools"]}
    assert "user: nobody is here" in prompt
    assert "`ask`" not in prompt
    assert second["messages"][-1]["content"] == "You cannot ask the user here: decide, and say so."


def test_the_limit_of_steps_exits_4(world: World) -> None:
    outcome = task(world, *[call("think", thought="hm")] * 3, args=("--max-steps", "2"))
    assert outcome.code == 4
    assert len(world.llm.requests) == 2
    assert "Stopped at the limit of steps · 2 steps" in outcome.out


def test_the_limit_of_cost_exits_4(world: World) -> None:
    settings = {"llm": {"inputCostPerToken": 0.01, "outputCostPerToken": 0.01}}
    (world.project / "prices.json").write_text(json.dumps(settings))
    args = ("--max-cost", "1", "--settings", "prices.json")
    outcome = task(world, *[call("think", thought="hm")] * 3, args=args)
    assert outcome.code == 4
    assert len(world.llm.requests) == 1
    assert "Stopped at the limit of cost" in outcome.out
    assert "cost $1.1000" in outcome.out


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([error(401, "bad key")], "key"),
        ([error(404, "no such model")], "no such model"),
        ([error(503, "come back later", {"retry-after": "0"})] * 4, "come back later"),
        ([reply(200, LOGIN, HTML)], "answered with text/html instead of a stream: Log in"),
        ([reply(402, LOGIN, HTML)], "Log in"),
        ([reply(301, b"", {"location": "/elsewhere"})], "redirects are not followed"),
    ],
    ids=["key", "model", "provider", "page", "no credit", "moved"],
)
def test_a_model_that_does_not_answer_exits_5(
    world: World, steps: list[Step], message: str
) -> None:
    steps = [
        Step(status=s.status, body=s.body, headers={**s.headers, "retry-after": "0"}) for s in steps
    ]
    outcome = task(world, *steps)
    assert outcome.code == 5
    assert message in outcome.out
    if len(steps) == 4:
        condense_result = run(world, "condense", id_of(world))
        assert (
            condense_result.code,
            "`oh-daemon run --resume` continues" in condense_result.err,
        ) == (2, True)


def test_a_missing_key_is_one_line_before_any_connection(world: World) -> None:
    """It was four attempts to connect, 21 s without a network."""
    world.variables |= {"OH_DAEMON_API_KEY": "", "OH_DAEMON_BASE_URL": ""}
    world.variables["HTTPS_PROXY"] = "http://127.0.0.1:9"
    outcome = run(world, "run", "x", "--model", "openai/gpt-x")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (5, "", 1)
    assert "no key for openai/gpt-x: set OPENAI_API_KEY" in outcome.err
    assert not logs(world)


def test_a_settings_file_is_a_layer_over_the_users(world: World) -> None:
    """It replaced the user's file: an address in there was gone, and the provider was asked."""
    (world.home / "settings.json").write_text(
        json.dumps({"maxSteps": 7, "llm": {"baseUrl": world.llm.url, "temperature": 0.5}})
    )
    more = {"maxSteps": 5, "llm": {"topP": 0.25}}
    (world.project / "more.json").write_text(json.dumps(more))
    world.script(say("Done."))
    world.variables["OH_DAEMON_BASE_URL"] = ""
    assert run(world, "run", "x", "--settings", "more.json").code == 0
    body = world.llm.requests[0].body
    assert (body["temperature"], body["top_p"]) == (0.5, 0.25)
    assert json.loads(logs(world)[0].read_text().splitlines()[1])["event"]["maxSteps"] == 5


def test_an_address_that_is_none_exits_2_before_the_providers_own_is_asked(world: World) -> None:
    world.variables["OH_DAEMON_BASE_URL"] = "localhost:8000"
    outcome = run(world, "run", "x")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "llm.baseUrl: a URL begins with http:// or https://" in outcome.err


def test_no_model_at_all_exits_5_before_anything_is_done(world: World) -> None:
    process = start([SCRIPT, "run", "x"], world.project, environment(world.home))
    outcome = end(process)
    assert (outcome.code, outcome.out) == (5, "")
    assert "ANTHROPIC_API_KEY" in outcome.err.splitlines()[-1]
    assert logs(world) == []


def test_a_name_without_a_provider_exits_5_before_anything_is_done(world: World) -> None:
    for name in ("nosuch", "nosuch/model"):
        outcome = run(world, "run", "x", "--model", name)
        assert (outcome.code, outcome.out) == (5, "")
        assert f"the model name '{name}' does not say which provider has it" in outcome.err
        assert "costs money" not in outcome.err
        assert logs(world) == []


@pytest.fixture
def hangups() -> Iterator[None]:
    """Let children be ended by SIGHUP, even when `nohup` has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_an_interrupt_ends_the_turn_and_exits_130(world: World, number: signal.Signals) -> None:
    world.script(hang())
    process = begin(world, "run", "Do it", "--json")
    [request] = world.llm.wait_for_requests(1, 60)
    outcome = end(process, number)
    assert outcome.code == 130
    assert request.close_event.wait(120)
    assert events(outcome)[-1]["event"]["turn"]["status"] == "interrupted"


@pytest.mark.parametrize("moment", [" http.client", "works in"])
def test_an_interrupt_while_it_starts_ends_it_without_a_traceback(
    world: World, moment: str
) -> None:
    world.variables["PYTHONPROFILEIMPORTTIME"] = "1"
    world.script(hang())
    process = begin(world, "run", "Do it")
    assert process.stderr
    while moment not in (line := process.stderr.readline()):
        assert line
    outcome = end(process, signal.SIGINT)
    assert (outcome.code, "Traceback" in outcome.err) == (130, False)


def test_resume_goes_on_with_a_conversation_and_autoresume_with_the_newest(world: World) -> None:
    calls_made = [call("terminal", command=f"echo {n}") for n in range(6)]
    failed_result = task(world, *calls_made, error(400, "not today"))
    assert (failed_result.code, "not today" in failed_result.out) == (1, True)
    conversation = id_of(world)
    world.script(say("Resumed."), say("To count."), say("Six lines."), say("And again."))
    assert "Resumed." in run(world, "run", "--resume", conversation[:8]).out
    for args, message in (
        ((), 'its last turn is complete; say what to do next: oh-daemon run "task" --resume '),
        (("More", "--max-steps", "3"), "--max-steps is for new conversations"),
    ):
        outcome = run(world, "run", *args, "--autoresume")
        assert (outcome.code, outcome.out, outcome.err.count("\n"), message in outcome.err) == (
            2,
            "",
            1,
            True,
        )
    # A question beside the work, and a summary of the work so far.
    outcome = run(world, "ask", conversation[:8], "Why six?")
    assert (outcome.code, outcome.out, outcome.err) == (0, "To count.\n", "")
    outcome = run(world, "condense", conversation[:8], "Keep the last number.")
    assert (outcome.code, "Older steps are summarized: about " in outcome.out) == (0, True)
    third = run(world, "run", "Yet more", "--resume", conversation, "--model", "openai/other")
    assert "And again." in third.out
    assert id_of(world) == conversation
    side_request, condense_request, last = world.llm.requests[-3:]
    assert "Why six?" in side_request.body["messages"][-1]["content"]
    assert "Keep the last number." in str(condense_request.body["messages"])
    users = [m["content"] for m in last.body["messages"] if m["role"] == "user"]
    assert ("Six lines." in users.pop(1), users) == (True, ["Do it", "Yet more"])
    assert [r.body["model"] for r in world.llm.requests] == ["fake"] * 10 + ["other"]
    world.script(say("Fresh."), say("Newest."))
    run(world, "run", "Another")
    assert "Newest." in run(world, "run", "Go on", "--autoresume").out
    users = [m["content"] for m in world.llm.requests[-1].body["messages"] if m["role"] == "user"]
    assert users == ["Another", "Go on"]


def test_rollback_takes_back_the_last_message_with_its_files_around_what_changed_since(
    world: World,
) -> None:
    task(world, call("terminal", command="echo one > a"), say("Done."), args=("--ask", "never"))
    world.script(call("terminal", command="echo two > a; echo two > b"), say("Done."))
    run(world, "run", "More", "--autoresume")
    a, b = world.project / "a", world.project / "b"
    b.write_text("mine\n")
    name = id_of(world)[:8]

    # A rollback needs no model, and asks none.
    world.variables = {"OH_DAEMON_MODEL": ""}
    outcome = run(world, "rollback", name, "--dry-run")
    assert (outcome.code, a.read_text()) == (1, "two\n")
    assert outcome.out.startswith("Would go back to before: More\n  would be as it was: a\n")
    outcome = run(world, "rollback", name)
    assert (outcome.code, a.read_text(), b.read_text()) == (1, "one\n", "mine\n")
    assert outcome.out.startswith(
        "Went back to before: More\n  is as it was: a\n  stays as it is: b ("
    )
    outcome = run(world, "rollback", name)
    assert (outcome.code, a.exists(), b.read_text()) == (1, False, "mine\n")
    b.unlink()
    outcome = run(world, "rollback", name)
    assert (outcome.code, "no message to go back to" in outcome.err) == (2, True)
    outcome = run(world, "rollback", "")
    assert (outcome.code, "no conversation begins with ''" in outcome.err) == (2, True)


def test_rollback_without_an_id_takes_the_last_turn_of_the_newest_conversation(
    world: World,
) -> None:
    task(world, say("Old."))
    old_id = id_of(world)
    world.script(call("terminal", command="echo one > a"), say("Done."))
    run(world, "run", "Make a", "--ask", "never")
    outcome = run(world, "rollback")
    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "Went back to before: Make a")
    assert not (world.project / "a").exists()
    new_id = next(log.parent.name for log in logs(world) if log.parent.name != old_id)
    assert f"conversation {new_id[:12]}" in outcome.err
    run(world, "archive", new_id)
    assert run(world, "rollback").out.startswith("Went back to before: Do it")


def test_conversations_are_renamed_archived_and_deleted(world: World) -> None:
    task(world, say("Done."))
    id_ = id_of(world)[:6]

    def titles_in_list(*options: str) -> list[str]:
        lines = run(world, "list", "--json", *options).out.splitlines()
        return [json.loads(line)["title"] for line in lines]

    assert run(world, "rename", id_, "  Fix the sum ").code == 0
    assert (titles_in_list(), titles_in_list("--archived")) == (["Fix the sum"], [])
    too_long = run(world, "rename", id_, "x" * 201)
    assert (too_long.code, "200" in too_long.err) == (2, True)
    assert run(world, "archive", id_).code == 0
    assert (titles_in_list(), titles_in_list("--archived")) == ([], ["Fix the sum"])
    assert run(world, "archive", id_, "--undo").code == 0
    assert titles_in_list() == ["Fix the sum"]

    refusal = run(world, "delete", id_)
    assert (refusal.code, "--yes" in refusal.err, titles_in_list()) == (2, True, ["Fix the sum"])
    env = environment(world.home, **world.environment)
    for answer, titles in ((b"n\n", ["Fix the sum"]), (b"y\n", [])):
        question = {f"Delete conversation {id_}": answer}
        type_into([SCRIPT, "delete", id_], world.project, env, question)
        assert titles_in_list() == titles
    [deleted_log] = world.project.glob(".openhands/conversations/.trash/*/events.jsonl")
    assert deleted_log.parent.name.startswith(id_)


def test_delete_names_pending_changes_before_it_removes_them(world: World) -> None:
    world.variables["OH_DAEMON_SANDBOX"] = "overlay"
    task(world, call("terminal", command="echo 1 > made"), say("Done."), args=("--isolated",))
    id_ = id_of(world)
    env = environment(world.home, **world.environment)
    _, output = type_into([SCRIPT, "delete", id_], world.project, env, {"[y/N]": b"n\n"})
    assert "with pending changes in 1 file?" in output
    outcome = run(world, "delete", id_, "--yes", "--permanent")
    assert (outcome.code, logs(world), run(world, "list", "--json").out) == (0, [], "")


def test_a_result_is_printed_in_the_form_that_was_asked_for(world: World) -> None:
    (world.project / "count.json").write_text('{"type": "integer"}')
    end = call("finish", message="Counted.", result=3)
    outcome = task(world, end, args=("--result-schema", "count.json"))
    assert (outcome.code, outcome.out.count("\n3\n")) == (0, 1)


def test_options_beat_the_settings_file_and_the_environment(world: World) -> None:
    settings = {"model": "openai/from-file", "instructions": "Be kind.", "maxSteps": 1}
    (world.project / "mine.json").write_text(json.dumps(settings))
    args = ("--settings", "mine.json", "--model", "openai/from-option", "--max-steps", "5")
    args += ("--tool-choice", "required")
    assert task(world, call("think", thought="hm"), say("Done."), args=args).code == 0
    assert world.llm.requests[0].body["model"] == "from-option"
    assert "Be kind." in str(world.llm.requests[0].body["messages"][0])
    assert [r.body.get("tool_choice") for r in world.llm.requests] == ["required", None]


def on_terminal(
    world: World, *args: str, replies: Sequence[bytes] = (), leave: signal.Signals | None = None
) -> tuple[int, str]:
    """Run with a terminal as stdin and answer each question; return exit code and output.

    At the question after these, `leave` is sent.
    """
    own_end, far_end = pty.openpty()
    process = begin(world, "run", *args, stdin=far_end, start_new_session=True)
    os.close(far_end)
    assert process.stdout
    output = ""
    for nth, answer in enumerate((*replies, b"") if leave else replies, start=1):
        while output.count("Your answer") < nth:
            piece = process.stdout.read(1)
            assert piece, output
            output += piece
        os.write(own_end, answer)
    outcome = end(process, leave)
    os.close(own_end)
    return outcome.code, output + outcome.out


def test_on_a_terminal_it_asks_and_the_answer_counts(world: World) -> None:
    world.script(call("terminal", command="ls"), say("Done."))
    code, output = on_terminal(world, "Do it", "--ask", "always", replies=[b"1\n"])
    assert code == 0
    assert "? Run ls" in output
    assert "allowed" in output
    assert "exit code 0" in output


def test_an_answer_that_covers_the_next_request_leaves_that_unasked(world: World) -> None:
    edits = (call("edit", command="create", path=name, text="x") for name in ("a.txt", "b.txt"))
    world.script(calls(*edits), say("Both are made."))
    code, output = on_terminal(world, "Make both", replies=[b"3\n"])
    assert (code, output.count("Your answer")) == (0, 1)
    assert "any file in this conversation" in output.split("Your answer")[0]
    assert (world.project / "b.txt").read_text() == "x"


@pytest.mark.parametrize("kind", ["approval", "question"])
def test_what_another_client_answers_is_withdrawn(world: World, kind: str) -> None:
    is_approval = kind == "approval"
    action = call("terminal", command="touch made") if is_approval else call("ask", question="Hm?")
    world.script(action, say("Gone on."))
    world.serve()
    client = world.daemon()
    own_end, far_end = pty.openpty()
    args = ("run", "Do it", "--ask", "always", "--attach")
    process = begin(world, *args, stdin=far_end, start_new_session=True)
    os.close(far_end)
    assert process.stdout
    output = ""
    while "Your answer" not in output:
        output += process.stdout.read(1)
    os.write(own_end, b"half a line")
    [summary] = client.request("conversation/list")["conversations"]
    state = client.request("conversation/open", {"conversationId": summary["id"], "replay": "none"})
    [pending] = state["pending"]
    if is_approval:
        answer = {"approvalId": pending["id"], "digest": pending["digest"]}
        client.request("approval/respond", {**answer, "decision": {"effect": "allow"}})
    else:
        client.request(
            "input/respond", {"inputId": pending["id"], "action": "accept", "content": "Yes."}
        )
    outcome = end(process)
    os.close(own_end)
    assert outcome.code == 0
    assert "Settled elsewhere; no answer is needed." in outcome.out
    assert "Gone on." in outcome.out


def test_on_a_terminal_a_question_is_asked_there(world: World) -> None:
    replies_by_kind = {
        "a number": b"2\n",
        "words": b" light green \n",
        "nothing": b"\n",
        "Ctrl-D": b"\x04",
    }
    actual_answers = ["blue", "light green", "Skipped by the user", "Skipped by the user"]
    questions = [
        call("ask", question=f"Which for {way}?", choices=["red", "blue"])
        for way in replies_by_kind
    ]
    world.script(*questions, say("Done."))
    code, output = on_terminal(world, "Do it", replies=[*replies_by_kind.values()])
    assert code == 0
    answers = [m for m in world.llm.requests[-1].body["messages"] if m["role"] == "tool"]
    log = run(world, "log", id_of(world)[:12]).out
    for text in (output, log):
        parts = re.split(r"\? Which for (.+)\?\n  1  red\n  2  blue\n", text)[1:]
        assert parts[::2] == [*replies_by_kind]
        assert all(
            words in part for words, part in zip(actual_answers, parts[1::2], strict=True)
        ), text
    for words, answer in zip(actual_answers, answers, strict=True):
        assert str(answer["content"]).startswith(words)


def test_all_of_a_long_command_and_of_an_edit_is_shown_before_it_is_allowed(world: World) -> None:
    command = "echo " + "x" * 300 + "; touch made"
    world.script(call("terminal", command=command), say("Done."))
    _, output = on_terminal(world, "Do it", "--ask", "risky", replies=[b"1\n"])
    assert (world.project / "made").exists()
    assert "touch made" in output.split("Your answer")[0].replace("\n", "")
    (world.project / "a.txt").write_text("one\n")
    change = {"command": "replace", "path": "a.txt", "old_text": "one", "new_text": "two"}
    world.script(call("edit", command="view", path="a.txt"), call("edit", **change), say("Done."))
    _, output = on_terminal(world, "Do it", replies=[b"1\n"])
    assert "  -one\n  +two\n" in output.split("Your answer")[0]


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ({"replies": [b"\x04"]}, 0),
        ({"leave": signal.SIGINT}, 130),
        ({"leave": signal.SIGTERM}, 130),
    ],
    ids=["Ctrl-D", "Ctrl-C", "SIGTERM"],
)
def test_a_question_can_be_refused_by_leaving_it(world: World, way: Json, code: int) -> None:
    world.script(call("terminal", command="touch made"), say("Done."))
    assert on_terminal(world, "Do it", **way)[0] == code
    assert not (world.project / "made").exists()


@pytest.mark.full
def test_no_ctrl_c_at_a_question_is_lost(world: World) -> None:
    assert run_python(["-c", INTERRUPTED_QUESTIONS], environment(world.home)) == "0 lost\n"


def test_what_a_killed_run_had_asked_is_asked_again(world: World) -> None:
    choice = call("ask", question="Which?", choices=["red", "blue"])
    world.script(choice, call("terminal", command="touch made"), say("I may not."))
    on_terminal(world, "Do it", leave=signal.SIGKILL)
    outcome = run(world, "run", "--autoresume")
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "it asks 'Which?'; give the answer as the task: oh-daemon run" in outcome.err
    _, output = on_terminal(world, "--autoresume", replies=[b"2\n"], leave=signal.SIGKILL)
    for part in ("? Which?\n  1  red\n  2  blue\n", "? Run touch made\n"):
        assert part in output
    assert world.llm.requests[1].body["messages"][-1]["content"] == "blue"
    outcome = run(world, "condense", id_of(world))
    assert (outcome.code, "`oh-daemon run --resume` continues that" in outcome.err) == (2, True)
    outcome = run(world, "run", "--autoresume")
    assert (outcome.code, "rejected: the user cannot be asked" in outcome.out) == (3, True)
    assert not (world.project / "made").exists()


# log, list, doctor, help


def test_a_log_of_a_repository_cannot_speak_to_the_terminal(world: World) -> None:
    task(world, say("Done."))
    [log] = logs(world)
    evil = r"\u001b]0;owned\u0007\u009b2J"
    text = log.read_text()
    for part in ("Do it", "openai/fake", "Done."):
        text = text.replace(f'"{part}"', f'"{part}{evil}"')
    log.write_text(text)
    log.with_name("meta.json").unlink()
    for args in (("list",), ("usage",), ("log", id_of(world)), ("export", id_of(world))):
        outcome = run(world, *args)
        assert outcome.code == 0
        assert "owned" in outcome.out
        assert not re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", outcome.out), args


def test_log_renders_what_run_showed_and_takes_the_start_of_an_id(world: World) -> None:
    outcome = task(world, call("terminal", command="ls"), with_usage(say("Done."), None))
    log_result = run(world, "log", id_of(world)[:6])
    assert log_result == Ran(0, outcome.out, "")
    as_json = run(world, "log", id_of(world), "--json")
    assert [e["seq"] for e in events(as_json)] == list(range(1, len(events(as_json)) + 1))


def test_log_follows_a_conversation_while_it_runs(world: World) -> None:
    task(world, say("One."))
    [log] = (world.project / ".openhands/conversations").glob("*/events.jsonl")
    with log.open("a") as file:
        file.write("null\n")  # Damage of which the rest of the log must not suffer.
    follower = begin(world, "log", id_of(world), "--follow", "--json")
    assert follower.stdout
    records: list[Json] = []

    def read_to_the_end_of_turn(number: int) -> None:
        while [e["event"]["type"] for e in records].count("turn.completed") < number:
            line = follower.stdout.readline() if follower.stdout else ""
            assert line
            records.append(json.loads(line))

    read_to_the_end_of_turn(1)
    world.script(say("Two."))
    assert run(world, "run", "More", "--autoresume").code == 0
    read_to_the_end_of_turn(2)
    assert "Two." in str(records)
    outcome = end(follower, signal.SIGINT)
    assert (outcome.code, outcome.err) == (130, "")


def test_list_tells_what_runs_from_what_was_killed_and_can_go_on(world: World) -> None:
    world.script(hang())
    process = begin(world, "run", "Do it")
    world.llm.wait_for_requests(1, 60)
    assert "  running  " in run(world, "list").out
    end(process, signal.SIGKILL)
    assert "  stopped  " in run(world, "list").out
    assert [row["status"] for row in events(run(world, "list", "--json"))] == ["stopped"]
    # The end of the killed turn, which opening the log adds, is no end of this run.
    world.script(say("Back."))
    outcome = run(world, "run", "--autoresume")
    assert (outcome.code, outcome.out[:7], "Interrupted" in outcome.out) == (0, "\nBack.\n", False)
    world.script(hang())
    process = begin(world, "run", "More", "--autoresume")
    world.llm.wait_for_requests(3, 60)
    end(process, signal.SIGKILL)
    world.script(say("Back again."))
    outcome = run(world, "run", "--autoresume", "--json")
    types = [event["event"]["type"] for event in events(outcome)]
    assert (types[0], types.index("turn.completed")) == ("turn.started", len(types) - 1)


def test_list_and_usage_show_the_newest_first_and_the_cost_also_as_json(world: World) -> None:
    assert "No conversations" in run(world, "list").out
    usage = {"prompt_tokens": 1000, "completion_tokens": 5, "cost": 0.25}
    usage |= {"prompt_tokens_details": {"cached_tokens": 960}}
    for words in ("first task", "second task"):
        world.script(with_usage(say("Done."), usage))
        outcome = run(world, "run", words)
        assert "1,000 tokens in (96% cached), 5 out · cost $0.2500" in outcome.out
    head, second, first = run(world, "list").out.splitlines()
    assert head.split() == ["id", "updated", "status", "cost", "cached", "title"]
    row = r"[0-9a-f]{12}  \d{4}-\d\d-\d\d \d\d:\d\d  idle +\$0.25  96% +second task *"
    assert re.fullmatch(row, second)
    assert "first task" in first
    _, model, *_, everything = run(world, "usage").out.splitlines()
    columns = ["2", "2,000", "96%", "10", "$0.50"]
    assert [model.split(), everything.split()] == [["openai/fake", *columns], ["all", *columns]]
    [usage_row] = events(run(world, "usage", "--json", "--since", "2999-01-01"))
    assert usage_row == {"usage": {}, "byModel": [], "byDay": []}
    assert [e["title"] for e in events(run(world, "list", "--json"))] == [
        "second task",
        "first task",
    ]


def test_doctor_says_what_works_and_what_to_do(world: World) -> None:
    (world.project / ".doctor").mkdir()
    (world.project / ".doctor/notes").write_text("the user's")
    skill = world.project / ".agents/skills/ship.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ntrigger: {type: keywrod}\n---\nShip.\n")
    before = sorted(world.project.rglob("*"))
    outcome = run(world, "doctor")
    assert outcome.code == 0
    assert "✓ commands run: GNU bash" in outcome.out
    assert "✓ environment: this terminal's; an editor started from a desktop gets" in outcome.out
    assert f"✓ logs can be written in {world.project}" in outcome.out
    assert "✓ model: openai/fake; --try-model sends it a short request\n" in outcome.out
    assert sorted(world.project.rglob("*")) == before
    assert "daemon.log" in outcome.out, "where to look when something is wrong"
    assert world.llm.requests == []
    assert f"! the skill {skill} is not used: trigger.type: must be" in outcome.out
    without = end(start([SCRIPT, "doctor"], world.project, environment(world.home)))
    assert without.code == 1
    assert "✗ no model: run `oh-daemon login`, or `export ANTHROPIC_API_KEY=" in without.out
    assert f"set `model` in {world.home / 'settings.json'}" in without.out
    world.variables["OH_DAEMON_MODEL"] = "nosuch"
    wrong = run(world, "doctor")
    assert (wrong.code, "✗ model nosuch: the model name 'nosuch'" in wrong.out) == (1, True)


@pytest.mark.parametrize(
    ("start_up", "settings", "level", "line"),
    [
        ("PATH=$OWN_PATH; export COLOR=blue", {}, "0", "COLOR from bash's start-up files ("),
        (
            "PATH=$OWN_PATH",
            {},
            "1",
            "this terminal's; an editor started from a desktop gets that of bash's",
        ),
        ("exit 3", {}, "1", "bash's start-up files could not be read: something in them ended it;"),
        ("exit 3", {"loginShell": False}, "0", "the daemon's own, since the setting `loginShell`"),
    ],
)
def test_doctor_shows_what_the_login_shell_changes(
    tmp_path: Path, start_up: str, settings: Json, level: str, line: str
) -> None:
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    (tmp_path / ".bashrc").write_text(start_up)
    own = {**os.environ, "HOME": str(tmp_path), "OH_DAEMON_HOME": str(tmp_path)}
    own |= {"SHLVL": level, "SHELL": shutil.which("bash") or "", "OWN_PATH": own["PATH"]}
    mark, text = login_shell_line(own, tmp_path)
    assert (mark == "!", text.startswith(f"environment: {line}")) == ("ended" in line, True), text


def test_run_and_doctor_show_mcp_servers_with_tools_and_omissions(world: World) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("price", "order")]
    listing = {"tools": [*tools, {"name": "odd", "inputSchema": {"type": "string"}}]}
    servers = {
        "shop": mcp_odd_server.settings({"tools/list": listing}),
        "broken": {"command": "no-such-program"},
    }
    settings = world.home / "settings.json"
    settings.write_text(json.dumps({"mcpServers": servers, "browser": True}))
    left_out = "MCP server 'shop' leaves out odd: its input schema is none: it is not of an object"
    line = "MCP server 'shop': running, 2 tools: price, order"
    outcome = task(world, say("Done."))
    assert f"oh-daemon: {line}\noh-daemon: {left_out}\n" in outcome.err
    assert "MCP server 'broken' failed" in outcome.out
    # A folder's trust is the user's decision in an editor; doctor starts nothing without it.
    outcome = run(world, "doctor")
    assert f"MCP servers not started, since {world.project} is not trusted: broken" in outcome.out
    UserState(Places({"OH_DAEMON_HOME": str(world.home)}).decisions_file).set_trust(
        world.project, "full"
    )
    outcome = run(world, "doctor")
    assert f"✓ {line}\n! {left_out}\n" in outcome.out
    assert "! MCP server 'broken': failed: there is no program 'no-such-program'" in outcome.out
    assert re.search("^[✓!] browser: ", outcome.out, re.MULTILINE)


def test_doctor_tries_the_model_when_it_is_told_to(world: World) -> None:
    world.script(say("yes"), error(401, "wrong key"))
    assert "✓ model openai/fake: it answers\n" in run(world, "doctor", "--try-model").out
    refused_result = run(world, "doctor", "--try-model")
    assert refused_result.code == 1
    assert re.search("^✗ model openai/fake: .*wrong key.*api.?key", refused_result.out, re.M | re.I)
    assert len(world.llm.requests) == 2


def test_doctor_exits_1_when_a_log_cannot_be_written(world: World) -> None:
    (world.project / ".openhands").symlink_to("/proc")
    outcome = run(world, "doctor")
    assert outcome.code == 1
    assert "✗ no log can be written" in outcome.out


def test_help_is_plain_and_hides_what_is_refused(world: World) -> None:
    outcome = run(world, "--help")
    assert re.search(r"^  run  ", outcome.out, re.MULTILINE)
    assert "api-key" not in run(world, "run", "-h").out
    assert re.fullmatch(r"oh-daemon \d+\.\d+\.\d+(rc\d+)?\n", run(world, "--version").out)


def test_lines_wrap_below_their_indentation_on_a_narrow_terminal(world: World) -> None:
    words = "word " * 30
    task(world, call("todo", tasks=[{"text": words, "status": "pending"}]), say("Done."))
    own_end, far_end = pty.openpty()
    env = environment(world.home, COLUMNS="40", TERM="xterm", NO_COLOR="1")
    process = start([SCRIPT, "log", id_of(world)], world.project, env, stdout=far_end)
    os.close(far_end)
    output = b""
    while piece := read_terminal(own_end):
        output += piece
    process.communicate(timeout=60)
    lines = re.sub(r"\x1b\[[\d;]*m|\r", "", output.decode()).splitlines()
    assert max(map(len, lines)) <= 40
    [plan] = [n for n, line in enumerate(lines) if "· word" in line]
    assert lines[plan + 1].startswith("  word")
