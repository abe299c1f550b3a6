"""People look into the agent's terminals, type there, and end programs; the agent hears of it."""

import re
from typing import Any

import psutil
import pytest
from fake_llm import call, calls, say
from leftovers import wait_until_gone
from processes import argv, cwd
from raw_client import RawClient
from world import KEY, World, content_of, items

from oh_daemon.system.reaper import inner_number

pytestmark = pytest.mark.one_daemon

Json = dict[str, Any]


def read_until(client: RawClient, params: Json, expected: str) -> str:
    """Follow a terminal, as a client does, until it has shown this; return what it showed."""
    text, offset = "", 0
    while expected not in text:
        page = client.request("terminal/read", {**params, "offset": offset})
        text, offset = text + page["data"], page["nextOffset"]
    return text


def notes(world: World, nth: int) -> list[str]:
    """Return the notes in the nth request."""
    messages = world.llm.requests[nth].body["messages"]
    return [m["content"] for m in messages if m["role"] == "user" and "<note>" in m["content"]]


def pids(world: World, expected_text: str) -> list[int]:
    """Return the processes in the project with the process id that a shell printed."""
    [number] = re.findall(r"^pid (\d+)$", expected_text, re.MULTILINE)
    in_project = (one for one in psutil.process_iter() if cwd(one) == str(world.project))
    return [one.pid for one in in_project if inner_number(one.pid) == int(number)]


SLEEP = ": $(sleep 1000)"
"""It says nothing when its program is ended, and goes on."""


def end_sleep(world: World) -> None:
    """End what a command waits for, in a sandbox or not, once it is there."""
    while not (processes := [one for one in psutil.process_iter() if _sleeps(world, one)]):
        pass
    for one in processes:
        one.kill()


def _sleeps(world: World, one: psutil.Process) -> bool:
    return argv(one)[:1] == ["sleep"] and cwd(one) == str(world.project)


def test_a_person_answers_a_program_and_the_agent_is_told(world: World) -> None:
    ask = "read -p 'Go on? ' answer && echo got $answer && exit_code=7"
    poll_call = call("terminal", command="", is_input=True, timeout_s=60)
    world.script(call("terminal", command=ask), say("Waiting."), poll_call, say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    params: Json = {"conversationId": conversation, "terminalId": "main"}
    world.turn(client)
    assert "waiting for input" in content_of(items(client, "command")[0])
    [terminal] = client.request("terminal/list", {"conversationId": conversation})["terminals"]
    assert (terminal["command"], terminal["running"]) == (ask, True)
    assert "exitCode" not in terminal
    before = client.request("terminal/read", params)
    assert before["data"] == f"$ {ask}\nGo on? "
    assert (before["nextOffset"], before["eof"]) == (len(before["data"]), False)
    assert client.request("terminal/write", {**params, "data": "yes\n"}) == {}
    read_until(client, params, "got yes\n")
    world.send(client, conversation, "look")
    world.turn(client, nth=2)
    content = content_of(items(client, "command")[1])
    assert content.startswith("got yes\nThe user typed 'yes\\n' into this terminal.\n[exit code 0")
    after = client.request("terminal/read", params)
    assert (after["data"], after["eof"]) == (f"$ {ask}\nGo on? got yes\n", True)
    [terminal] = client.request("terminal/list", {"conversationId": conversation})["terminals"]
    assert (terminal["running"], terminal["exitCode"]) == (False, 0)
    assert terminal["sizeBytes"] == len(after["data"])


def test_a_person_ends_a_server_and_all_that_it_started(world: World) -> None:
    serve = "trap '' TERM; (trap '' TERM INT; sleep 1000) & echo pid $!; echo up; wait"
    world.script(
        call("terminal", command=serve, background=True, terminal_id="web"),
        say("Serving."),
        call("terminal", command="", is_input=True, terminal_id="web", timeout_s=60),
        call("terminal", command="echo again", terminal_id="web"),
        say("It ended."),
    )
    client = world.daemon()
    conversation = world.start(client)
    params: Json = {"conversationId": conversation, "terminalId": "web"}
    world.turn(client)
    pids_left = pids(world, read_until(client, params, "up\n"))
    assert client.request("terminal/kill", params) == {}
    assert pids_left
    wait_until_gone(pids_left)
    world.send(client, conversation, "look")
    world.turn(client, nth=2)
    _, first_text, again = (content_of(item) for item in items(client, "command"))
    assert "The user ended what ran in this terminal." in first_text
    assert "[exit code 1" in first_text
    assert again.startswith("again\n")
    assert "[exit code 0" in again


def test_a_command_that_the_agent_waits_for_ends_at_once(world: World) -> None:
    world.script(call("terminal", command="echo on; sleep 1000", timeout_s=900), say("It ended."))
    client = world.daemon()
    params: Json = {"conversationId": world.start(client), "terminalId": "main"}
    client.wait_for(lambda message: "on" in message.get("params", {}).get("text", ""))
    client.request("terminal/kill", params)
    world.turn(client)
    [content] = (content_of(item) for item in items(client, "command"))
    assert "The user ended what ran in this terminal.\n[exit code 130" in content


def test_jobs_that_a_command_left_behind_are_ended_too(world: World) -> None:
    leave = "sleep 1000 & echo pid $!; mark=kept"
    world.script(call("terminal", command=leave), say("Left."))
    world.script(call("terminal", command="echo $mark; jobs -l | wc -l"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    pids_left = pids(world, content_of(items(client, "command")[0]))
    client.request("terminal/kill", {"conversationId": conversation, "terminalId": "main"})
    world.send(client, conversation, "look")
    world.turn(client, nth=2)
    content = content_of(items(client, "command")[1])
    assert "The user ended what ran in this terminal." in content
    assert "kept\n" in content, "the shell must live on"
    assert pids_left
    wait_until_gone(pids_left)


def test_what_became_of_a_command_is_told_by_whatever_comes_next(world: World) -> None:
    one, two = (
        call("terminal", command=f"{SLEEP}; echo {word}; (exit 3)", timeout_s=0.2)
        for word in ("one", "two")
    )
    key = call("terminal", command="C-c", is_input=True)
    world.script(one, say("Slow."), key, say("I see."))
    world.script(two, say("Slow."), call("terminal", command="echo next"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    for nth in (1, 3):
        world.turn(client, nth=nth)
        end_sleep(world)
        params = {"conversationId": conversation}
        while client.request("terminal/list", params)["terminals"][0]["running"]:
            pass
        world.send(client, conversation, "look")
        world.turn(client, nth=nth + 1)
        if nth == 1:
            world.send(client, conversation, "again")
    _, typed_text, _, after = (content_of(item) for item in items(client, "command"))
    assert re.search(r"nothing was typed.*:\none\n\[exit code 3, .*\]$", typed_text)
    before = (
        r"\[the command before\]\ntwo\n\[exit code 3, .*\]\n\[now\]\nnext\n\[exit code 0, .*\]$"
    )
    assert re.match(before, after)


def test_the_end_of_a_job_is_told_once_with_its_own_duration(world: World) -> None:
    """Finding D10: it came only by a poll, as "exit code 254, 154.3 s", the time of polling."""
    world.script(
        call("terminal", command=f"{SLEEP}; (exit 7)", background=True, timeout_s=0),
        say("Started."),
        call("think", thought="Does it still run?"),
        call("terminal", command="echo again"),
        call("terminal", command="", is_input=True, terminal_id="job-1"),
        say("Done."),
    )
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    end_sleep(world)
    while client.request("terminal/list", {"conversationId": conversation})["terminals"][0][
        "running"
    ]:
        pass
    world.send(client, conversation, "look")
    world.turn(client, nth=2)
    _, later, poll = (content_of(item) for item in items(client, "command"))
    # Not only the next command tells of it, but whatever comes next.
    [after] = re.findall(r'\[job "job-1" ended with exit code 7 after (.*) s; ', notes(world, 2)[0])
    assert len(notes(world, -1)) == 1
    assert "job-1" not in later
    assert f"[exit code 7, {after} s, in" in poll


def test_what_a_command_lost_or_who_ended_it_is_told(world: World) -> None:
    """Findings D11 and D12: neither was told, so A was empty for no reason."""
    world.script(
        call("terminal", command="A=1"),
        say("Set."),
        call("terminal", command="echo [$A]"),
        call("terminal", command="echo [$A]", terminal_id="other"),
        call("terminal", command="sleep 1000"),
        say("Fine."),
    )
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    request_params = {"conversationId": conversation}
    client.request("conversation/close", request_params)
    client.request("conversation/open", request_params)
    world.send(client, conversation, "again")
    client.wait_for_event(
        lambda params: (
            params["event"].get("item", {}).get("command") == "sleep 1000"
            and params["event"]["type"] == "item.started"
        )
    )
    while not any(_sleeps(world, one) for one in psutil.process_iter()):
        pass
    client.request("conversation/interrupt", request_params)
    _, lost_text, other_text, stopped_text = (content_of(item) for item in items(client, "command"))
    notice = "Its earlier shells are gone, with their variables, folders and jobs."
    assert (lost_text.count(notice), other_text.count(notice), lost_text.startswith("[]")) == (
        1,
        0,
        True,
    )
    assert stopped_text.startswith("[The user interrupted this.]\n")


def test_commands_of_one_answer_that_only_read_take_turns_in_a_terminal(world: World) -> None:
    waits = call("terminal", command=f"{SLEEP}; echo gone", timeout_s=600)
    world.script(calls(waits, call("terminal", command="pwd")), say("Done."))
    client = world.daemon()
    world.start(client)
    end_sleep(world)
    world.turn(client)
    first, second = (content_of(item) for item in items(client, "command"))
    assert first.startswith("gone\n[exit code 0")
    assert second.startswith(f"{world.project}\n[exit code 0")


def test_the_agent_finds_all_of_a_long_output_in_a_file(world: World) -> None:
    world.script(call("terminal", command="seq 20000"), say("Long."))
    client = world.daemon()
    conversation = world.start(client)
    world.turn(client)
    [content] = (content_of(item) for item in items(client, "command"))
    assert len(content) < 20_000, "numbers take more tokens than other text"
    match = re.search(r"all of it, for grep or sed in a terminal, is in (\S+)", content)
    assert match
    world.script(call("terminal", command=f"grep -n ^9999$ {match[1]}"), say("Found."))
    world.send(client, conversation, "search it")
    world.turn(client, nth=2)
    assert content_of(items(client, "command")[-1]).startswith("9999:9999\n[exit code 0")


def test_a_look_at_a_flood_costs_little(world: World) -> None:
    """Finding D9: `yes` cost 32.9k tokens, and C-c after it as many of leftovers again."""
    flood = "while :; do echo $((RANDOM * RANDOM)); done"
    poll_args = {"is_input": True, "timeout_s": 0.5}
    world.script(
        call("terminal", command=flood, timeout_s=0.5),
        call("terminal", command="", **poll_args),
        call("terminal", command="C-c", **poll_args),
        say("Enough."),
    )
    client = world.daemon()
    world.start(client)
    world.turn(client)
    _, poll, stopped_text = (content_of(item) for item in items(client, "command"))
    assert "[still running after" in poll
    assert "[exit code 130" in stopped_text
    assert len(poll) < 4_000
    assert len(stopped_text) < 4_000


def test_only_what_is_kept_of_a_terminal_is_read_and_no_secret_of_it(world: World) -> None:
    (world.project / "key").write_text(f"{KEY}\n")
    world.script(call("terminal", command="seq 1 400000; cat key"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    params: Json = {"conversationId": conversation, "terminalId": "main"}
    world.turn(client)
    begin = client.request("terminal/read", {**params, "limit": 10})
    assert begin["nextOffset"] > 1 << 20, "the oldest is gone, and the offsets say so"
    text, offset, eof = begin["data"], begin["nextOffset"], begin["eof"]
    while not eof:
        page = client.request("terminal/read", {**params, "offset": offset})
        text, offset, eof = text + page["data"], page["nextOffset"], page["eof"]
    full_text = "".join(f"{n}\n" for n in range(1, 400_001)) + "<secret hidden>\n"
    assert full_text.endswith(text)
    assert len(text) >= 1 << 20
    [terminal] = client.request("terminal/list", {"conversationId": conversation})["terminals"]
    assert terminal["sizeBytes"] == len(text)
    past = client.request("terminal/read", {**params, "offset": offset + 9})
    assert (past["data"], past["nextOffset"], past["eof"]) == ("", offset, True)


@pytest.mark.parametrize("method", ["terminal/read", "terminal/write", "terminal/kill"])
def test_what_is_not_there_is_said(world: World, method: str) -> None:
    world.script(call("terminal", command="true"), say("Done."))
    client = world.daemon()
    conversation = world.start(client)
    params: Json = {"conversationId": conversation, "data": "x"}
    world.turn(client)
    unknown = client.error(method, {**params, "terminalId": "web"})
    assert (unknown.code, unknown.data["errors"][0]["path"]) == (-32602, "terminalId")
    assert "it has main" in unknown.message
    if method == "terminal/write":
        idle = client.error(method, {**params, "terminalId": "main"})
        assert (idle.code, idle.data["kind"]) == (-31006, "invalidState")
    assert client.request("terminal/list", {"conversationId": conversation})["terminals"] != []
    client.request("conversation/close", {"conversationId": conversation})
    assert client.request("terminal/list", {"conversationId": conversation}) == {"terminals": []}
    error = client.error(method, {**params, "terminalId": "main"})
    assert (error.code, error.data["kind"]) == (-31002, "conversationNotFound")
