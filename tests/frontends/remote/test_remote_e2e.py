"""A daemon on another machine: carried stdio, models from here, and how it ends.

The other machine is a namespace with its own processes, no network, and a home of its own.
"""

import io
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import end, environment, start, type_into
from editor import Editor
from fake_llm import call, chunks, error, hang, say
from raw_client import WITHIN_S
from starts import SCRIPT
from world import KEY, World, content_of, items

from oh_daemon import LLM, Agent, Conversation, Record, Tool, UserError, Workspace
from oh_daemon.protocol.approvals import ApprovalRequested

Json = dict[str, Any]
BIN = Path(sys.executable).parent
NAMESPACE = "unshare --user --map-root-user --pid --net --mount-proc --fork"


def run_elsewhere(
    world: World, tmp_path: Path, *, ending: str = "--kill-child", at: str = ""
) -> Path:
    """Let the world's daemons run in a namespace; return a file with all that they are sent.

    There, the project is in the folder `at` as well.
    """
    home, sent_file = tmp_path / "there", tmp_path / "sent"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntee {sent_file} | oh-daemon "$@"\n')
    program.chmod(0o755)
    bind = f"mount --bind {world.project} {at} && " if at else ""
    greeting = f"sh -c '{bind}echo Welcome; exec \"$@\"' sh"
    path = f"{BIN}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    own = f"HOME={home} OH_DAEMON_HOME={home} OH_DAEMON_MODEL=nobody/none"
    command = f"env PATH={path} {own} {greeting}"
    options = ("--program", str(program), *(("--map", f"{world.project}={at}") if at else ()))
    target = f"cmd:{NAMESPACE} {ending} {command}"
    world.product = (sys.executable, "-m", "oh_daemon", "remote", target, *options)
    world.variables["PATH"] = path
    return sent_file


def test_a_turn_there_sees_unsaved_text_and_asks_the_model_from_here(
    world: World, tmp_path: Path
) -> None:
    remote_folder = tmp_path / "src"
    remote_folder.mkdir()
    sent_file = run_elsewhere(world, tmp_path, at=str(remote_folder))
    file = world.project / "a.txt"
    file.write_text("saved\n")
    command = "tr '\\0' ' ' < /proc/1/cmdline; cat /proc/[0-9]*/environ | grep -c sk-test-"
    world.script(
        call("edit", command="view", path="a.txt"),
        call("terminal", command=command),
        call("edit", command="replace", path="a.txt", old_text="typed", new_text="done"),
        chunks(3, "Done. "),
    )
    editor = Editor(world, settings={"llm": {"apiKey": "sk-test-of-the-editor"}})
    client = editor.client
    client.request("secret/set", {"name": "GROQ_API_KEY", "value": "sk-test-lent-by-it"})
    editor.open(file, "typed\n")
    client.request("workspace/setTrust", {"folder": world.project.as_uri(), "trusted": "full"})
    conversation = world.start(client)
    turn = world.turn(client)
    assert (turn["status"], turn["finalText"]) == ("completed", "Done. Done. Done. ")
    assert editor.buffers[file.as_uri()].text == "done\n"
    # The first process there is the daemon's shell, and no process there has the key.
    [command_item] = items(client, "command")
    assert "/program --stdio 0\n" in content_of(command_item)
    assert command_item["cwd"] == str(remote_folder)
    # The text came in pieces, and the key with the request from here.
    deltas = client.notifications("conversation/delta")
    assert "".join(d["text"] for d in deltas if d["channel"] == "text") == "Done. Done. Done. "
    headers = {request.headers["authorization"] for request in world.llm.requests}
    assert headers == {"Bearer sk-test-of-the-editor"}
    data = sent_file.read_bytes() + world.log_of(conversation).read_bytes()
    assert b"typed" in data
    assert not any(key in data for key in (KEY.encode(), b"sk-test-of", b"sk-test-lent"))
    assert b'"trusted":true' not in data.replace(b" ", b"")


def test_a_connection_that_is_cut_leaves_nothing_there_and_the_conversation_goes_on(
    world: World, tmp_path: Path
) -> None:
    run_elsewhere(world, tmp_path, ending="")
    world.script(call("terminal", command="sleep 1000", timeout_s=600), say("Done."))
    client = world.daemon()
    client.request("workspace/setTrust", {"folder": world.project.as_uri(), "trusted": "full"})
    conversation = world.start(client)
    client.wait_for_event(lambda params: params["event"].get("status") == "running")
    [carrier] = [
        child
        for child in psutil.Process(client.process.pid).children(recursive=True)
        if child.name() == "unshare"
    ]
    carrier.kill()
    assert client.exit_code() == 1
    assert "ended (exit code -9)" in client.stderr
    assert client.survivors() == []
    again = world.daemon()
    open_result = again.request("conversation/open", {"conversationId": conversation})[
        "conversation"
    ]
    assert (open_result["status"], open_result["statusReason"]) == ("paused", "daemonRestarted")
    again.request("conversation/resume", {"conversationId": conversation})
    assert world.turn(again)["finalText"] == "Done."
    again.process.kill()
    assert again.survivors() == []


def test_an_interrupt_ends_the_call_to_the_model_and_what_the_model_refuses_is_told(
    world: World, tmp_path: Path
) -> None:
    run_elsewhere(world, tmp_path)
    world.script(hang(chunks(1, "Well")), error(401, "no such key"))
    client = world.daemon()
    conversation = world.start(client)
    client.wait_for(lambda m: m.get("method") == "conversation/delta")
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert world.turn(client)["status"] == "interrupted"
    world.send(client, conversation, "again")
    actual_error = world.turn(client, nth=2)["error"]
    assert (actual_error["kind"], "oh-daemon login" in actual_error["hint"]) == (
        "authRequired",
        True,
    )


@dataclass
class Host:
    """An sshd on this machine, and what `ssh` needs to know to reach it."""

    port: int
    key: Path


@pytest.fixture
def host(world: World, tmp_path: Path) -> Iterator[Host]:
    sshd = shutil.which("sshd", path="/usr/sbin")
    if sshd is None:
        pytest.skip("there is no sshd")
    for name in ("key", "host"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "key.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    # ssh reads no configuration from HOME, so one of ours is in its place.
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {tmp_path}/config "$@"\n')
    ssh.chmod(0o755)
    (tmp_path / "config").write_text(
        f"IdentityFile {tmp_path}/key\nIdentitiesOnly yes\nUserKnownHostsFile {tmp_path}/known\n"
        "StrictHostKeyChecking accept-new\nGlobalKnownHostsFile none\n"
    )
    world.variables["PATH"] = f"{ssh.parent}:{BIN}:/usr/bin:/bin"
    # As root, it wants a folder that only the package's service makes.
    private = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs x /run && mkdir /run/sshd; exec "$@"',
        "-",
    ]
    prefix = private if os.geteuid() == 0 else []
    argv = [*prefix, sshd, "-D", "-e", "-f", "/dev/null", *words]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as server:
        assert b"Server listening" in (server.stderr or io.BytesIO()).readline()
        yield Host(port, tmp_path / "key")
        server.terminate()
        server.wait()


def test_over_ssh_a_cut_connection_ends_what_runs_on_the_host(
    world: World, tmp_path: Path, host: Host
) -> None:
    program = tmp_path / "program"
    variables = f"OH_DAEMON_HOME={tmp_path} OH_DAEMON_TITLES=false OH_DAEMON_SANDBOX=off"
    program.write_text(f'#!/bin/sh\nexec env {variables} {BIN}/oh-daemon "$@"\n')
    program.chmod(0o755)
    target = f"ssh://127.0.0.1:{host.port}"
    world.product = (sys.executable, "-m", "oh_daemon", "remote", target, "--program", str(program))
    world.script(call("terminal", command="echo here; sleep 1000", timeout_s=600))
    client = world.daemon()
    client.request("workspace/setTrust", {"folder": world.project.as_uri(), "trusted": "full"})
    world.start(client)
    client.wait_for(lambda m: "here" in (m.get("params") or {}).get("text", ""))
    daemon = psutil.Process(client.request("daemon/status")["pid"])
    processes = [daemon, *daemon.children(recursive=True)]
    tree = psutil.Process(client.process.pid).children(recursive=True)
    next(child for child in tree if child.name() == "ssh").kill()
    assert client.exit_code() == 1
    assert psutil.wait_procs(processes, timeout=WITHIN_S)[1] == []
    host.key.unlink()
    refusal = world.raw().error("initialize", {"processId": None, "capabilities": {}})
    assert "Permission denied" in refusal.message
    assert "without a question: ssh -T" in refusal.data["hint"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("cmd:false", "(exit code 1)", "without a question: false sh -c true"),
        ("cmd:sh -c 'echo no route >&2; exit 9'", "(exit code 9): no route", "without a question"),
        ("cmd:env HOME=/nowhere PATH=/bin", "there is no program oh-daemon", "remote --install"),
    ],
)
def test_where_no_daemon_can_be_reached_initialize_says_what_to_try(
    world: World, words: str, message: str, hint: str
) -> None:
    world.product = (sys.executable, "-m", "oh_daemon", "remote", words)
    client = world.raw()
    refusal = client.error("initialize", {"processId": None, "capabilities": {}})
    assert message in refusal.message
    assert hint in refusal.data["hint"]
    assert client.exit_code() == 4
    assert hint in client.stderr


@pytest.mark.full
def test_on_request_this_installation_is_copied_and_serves_there(
    world: World, tmp_path: Path
) -> None:
    home = tmp_path / "there"
    home.mkdir()
    python = Path(sys.executable).resolve().parent
    target = f"cmd:{NAMESPACE} --kill-child env -i HOME={home} PATH={python}:/usr/bin:/bin"
    remote = (sys.executable, "-m", "oh_daemon", "remote", target)
    outcome = subprocess.run([*remote, "--install"], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip().endswith(f"oh-daemon {version('oh-daemon')}")
    world.product = remote
    client = world.daemon(settings={"titles": False})
    world.script(say("Hello."))
    world.start(client)
    assert world.turn(client)["finalText"] == "Hello."
    [copy] = (home / ".local/share/oh-daemon").iterdir()
    assert not [*copy.rglob("litellm")]


def test_a_run_there_shows_and_asks_here_and_ends_as_one_here_does(
    world: World, tmp_path: Path
) -> None:
    sent_file = run_elsewhere(world, tmp_path)
    on = ("--on", world.product[-3], "--program", world.product[-1])
    env = environment(world.home, **world.environment)
    # Nobody is there who could trust the folder.
    world.script(call("terminal", command="touch made"), say("I may not."))
    words = [SCRIPT, "run", "Do it", *on]
    outcome = end(start(words, world.project, env))
    assert (outcome.code, (world.project / "made").exists()) == (3, False)
    assert "rejected: the user cannot be asked" in outcome.out
    assert "no one could answer: Trust " in outcome.err
    assert "user: nobody is here" in world.llm.requests[0].body["messages"][0]["content"]
    # Somebody is: the same questions, the same words.
    question = call("ask", question="Which colour?", choices=["red", "blue"])
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    finish_call = call("finish", message="Done.", result={"n": 1})
    world.script(call("terminal", command="touch made; echo $TOKEN"), question, finish_call)
    env["TOKEN"] = "token-for-commands"
    more = ["--result-schema", schema, "--secret", "TOKEN"]
    replies = {"2  Trust this folder": b"2\n", "1  Allow once": b"1\n", "2  blue": b"2\n"}
    code, output = type_into([*words, *more], world.project, env, replies)
    assert code == 0
    for part in ("$ touch made; echo $TOKEN", "exit code 0", '"n": 1', "Done · 3 steps"):
        assert part in output
    assert (world.project / "made").exists()
    assert "blue" in str(world.llm.requests[-1].body["messages"][-1])
    # It goes on where the words at the end say, and prints the lines of the log.
    [again] = re.findall(r"for `oh-daemon (run .*)`", output.replace("\r\n", ""))
    world.script(say("Still here."))
    outcome = end(start([SCRIPT, *shlex.split(again), "And now?", "--json"], world.project, env))
    *_, last = lines = outcome.out.splitlines()
    last_record = json.loads(last)
    assert (outcome.code, last_record["event"]["turn"]["finalText"]) == (0, "Still here.")
    log = world.log_of(last_record["conversationId"]).read_text()
    assert all(line[line.index('"v":2') :] in log for line in lines)
    assert b'"trusted":true' not in sent_file.read_bytes().replace(b" ", b"")


@pytest.mark.full
def test_a_run_there_whose_connection_is_cut_says_how_to_go_on(
    world: World, tmp_path: Path
) -> None:
    run_elsewhere(world, tmp_path)
    on = ("--on", world.product[-3], "--program", world.product[-1])
    env = environment(world.home, **world.environment)
    world.script(hang(chunks(1, "Well")), say("Done."))
    process = start([SCRIPT, "run", "Do it", *on], world.project, env)
    world.llm.wait_for_requests(1)
    [carrier] = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if child.name() == "unshare"
    ]
    carrier.kill()
    outcome = end(process)
    assert outcome.code == 1
    assert "ended (exit code -9)" in outcome.err
    [again] = re.findall(r"for `oh-daemon (run .*)`", outcome.err)
    outcome = end(start([SCRIPT, *shlex.split(again)], world.project, env))
    assert (outcome.code, "Done." in outcome.out) == (0, True)


def test_a_program_has_its_agent_there_with_models_functions_and_answers_from_here(
    world: World, tmp_path: Path
) -> None:
    sent_file = run_elsewhere(world, tmp_path)
    workspace = Workspace.remote(world.product[-3], world.project, program=world.product[-1])
    llm = LLM(model="openai/fake", api_key=KEY, base_url=world.llm.url, max_attempts=1)
    prices: list[str] = []

    def price(item: str) -> str:
        """Say what something costs."""
        prices.append(item)
        return f"{item}: 3"

    tools = (*workspace.tools, Tool.from_function(price, read_only=True))
    agent = Agent(llm=llm, tools=tools, approval="askRisky")
    question = call("ask", question="Which colour?")
    world.script(call("price", item="tea"), call("terminal", command="touch made"), question)
    world.script(say("Done."))
    titles: list[str] = []

    def answer(record: Record) -> None:
        if isinstance(record.event, ApprovalRequested):
            titles.append(record.event.approval.title)
            conversation.respond(record.event.approval, allow=True)

    with Conversation(agent, workspace, on_question=lambda _question: "red") as conversation:
        conversation.register_callback(answer)
        turn = conversation.run("go")
        assert (turn.status, turn.final_text, prices) == ("completed", "Done.", ["tea"])
        # It asks for trust in the folder there, then about the command.
        assert (len(titles), titles[-1]) == (2, "Run touch made")
        assert (world.project / "made").exists()
        assert "red" in str(world.llm.requests[-1].body["messages"][-1])
        history = conversation.history
        assert [record.seq for record in history] == [*range(1, len(history) + 1)]
        assert (conversation.state.pending, conversation.state.usage.requests) == ((), 4)
        with pytest.raises(UserError, match="not on another machine; let the agent run"):
            conversation.run_command("ls")
    with pytest.raises(UserError, match="system_prompt: not on another machine"):
        Conversation(agent.model_copy(update={"system_prompt": "Be kind."}), workspace)
    world.script(say("Still here."))
    with Conversation(agent, workspace, conversation_id=conversation.id) as again:
        assert again.run("And now?").final_text == "Still here."
        assert len(again.history) > len(history)
    # Isolated, it changes nothing there until that is landed from here.
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", world.project]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    world.script(call("edit", command="create", path="new.txt", text="new\n"), say("Done."))
    with Conversation(agent, workspace, is_isolated=True) as conversation:
        conversation.register_callback(answer)
        conversation.run("go")
        [change] = conversation.isolated_changes.list()
        assert ("+new" in (change.patch or ""), (world.project / "new.txt").exists()) == (
            True,
            False,
        )
        conversation.isolated_changes.apply(["new.txt"])
        assert (world.project / "new.txt").read_text() == "new\n"
    assert KEY.encode() not in sent_file.read_bytes()
