"""Replicas of clients with their habits: each does a task with an approval, a cancel and a reload.

The habits are read from the sources of the clients; their unsaved text is there at the end.
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp_client import AcpClient, choose, wait_for_answer
from fake_llm import call, hang, say
from world import World

from oh_daemon.conformance.rpc_process import RpcError

Json = dict[str, Any]
Start = Callable[..., AcpClient]
UNSAVED = "Rule: 25 %\n"


@dataclass
class Buffer:
    """A file that is open in the client, with text that was not saved."""

    path: Path
    unsaved_text: str | None = UNSAVED


@dataclass(frozen=True)
class Habits:
    """What a client says of itself and does."""

    name: str
    read: Callable[[Buffer, str], Json]
    write: Callable[[Buffer, str, str], Any]
    without: Sequence[str] = ()
    """Variables that its agents do not have."""
    answers_unknown: bool = True
    new: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What it sends with `session/new` besides the folder."""
    sees_unsaved_text: bool = True
    """Whether the agent can know the unsaved text."""


def read_buffer(buffer: Buffer, path: str) -> Json:
    if Path(path) == buffer.path and buffer.unsaved_text is not None:
        return {"content": buffer.unsaved_text}
    if not Path(path).exists():
        raise RpcError({"code": -32002, "message": "Resource not found"})
    return {"content": Path(path).read_text()}


def read_disk(_buffer: Buffer, path: str) -> Json:
    return {"content": Path(path).read_text() if Path(path).exists() else ""}


def write_buffer(buffer: Buffer, path: str, text: str) -> None:
    if Path(path) == buffer.path:
        buffer.unsaved_text = None
    Path(path).write_text(text)


def fail_as_text(_buffer: Buffer, _path: str, _text: str) -> str:
    return "Failed to write the file"


CLIENTS = [
    Habits("zed", read_buffer, write_buffer, new={"mcpServers": []}),
    Habits("JetBrains IDE", read_buffer, write_buffer, without=["SHELL", "TERM"]),
    Habits(
        "CodeCompanion.nvim",
        read_disk,
        write_buffer,
        answers_unknown=False,
        sees_unsaved_text=False,
    ),
    Habits("", read_buffer, fail_as_text, without=["HOME", "SHELL", "LANG"]),  # avante
]


def start_client(start: Start, habits: Habits, buffer: Buffer) -> AcpClient:
    client = start(without=habits.without)
    if not habits.answers_unknown:
        for method in ("elicitation/create", "terminal/create"):
            client.answer(method, wait_for_answer)
    client.answer("fs/read_text_file", lambda params: habits.read(buffer, params["path"]))
    client.answer(
        "fs/write_text_file",
        lambda params: habits.write(buffer, params["path"], params["content"]),
    )
    client.answer("session/request_permission", lambda params: choose(params, "allow_once"))
    fs = {"readTextFile": True, "writeTextFile": True}
    client.initialize(habits.name, fs=fs, terminal=False)
    return client


@pytest.mark.parametrize(
    "habits",
    [
        pytest.param(each, id=each.name or "avante", marks=[pytest.mark.full] if number else [])
        for number, each in enumerate(CLIENTS)
    ],
)
def test_a_client_does_a_whole_task(start: Start, world: World, habits: Habits) -> None:
    rule, other_file = world.project / "rule.md", world.project / "prices.py"
    rule.write_text("Rule: 10 %\n")
    other_file.write_text("# Prices\nrate = 10\n")
    buffer = Buffer(rule)
    client = start_client(start, habits, buffer)
    world.script(
        call("edit", command="view", path="rule.md"),
        call("edit", command="view", path="prices.py", start_line=2, end_line=2),
        call("edit", command="replace", path="prices.py", old_text="10", new_text="25"),
        call("terminal", command="touch made"),
        say("Done."),
        hang(say("Never", n_chunks=1)),
    )
    session = client.new(world.project, **habits.new)
    assert client.prompt(session, "Do what the rule says") == {"stopReason": "end_turn"}
    last_message = str(world.llm.requests[1].body["messages"][-1]["content"])
    assert ("25 %" in last_message) == habits.sees_unsaved_text
    assert other_file.read_text() == "# Prices\nrate = 25\n"
    # Lines are counted from 1, as the schema has it.
    places = [place for each in client.updates() for place in each.get("locations", ())]
    assert {"path": str(other_file), "line": 2} in places
    assert (world.project / "made").exists()
    prompt = client.send_prompt(session, "And more")
    world.llm.wait_for_requests(6)
    client.cancel(session)
    assert client.result_of(prompt) == {"stopReason": "cancelled"}
    client.process.send_signal(signal.SIGTERM)
    assert client.process.wait(90) == 0

    again = start_client(start, habits, buffer)
    world.script(say("Still here."))
    again.request(
        "session/load", {"sessionId": session, "cwd": str(world.project), "mcpServers": []}
    )
    assert "Do what the rule says" in again.text("user_message_chunk")
    assert again.prompt(session, "Are you there?") == {"stopReason": "end_turn"}
    assert again.text().endswith("Still here.")
    assert (buffer.unsaved_text, rule.read_text()) == (UNSAVED, "Rule: 10 %\n")
