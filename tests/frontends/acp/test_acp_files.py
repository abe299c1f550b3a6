"""The client's buffers: its unsaved text counts, and no client's way with files loses any text."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp_client import FS, AcpClient, choose
from fake_llm import call, say
from world import World

from oh_daemon.conformance.rpc_process import RpcError

Json = dict[str, Any]
Start = Callable[..., AcpClient]


@dataclass
class Buffers:
    """The files as a client has them, and what it does when it is asked for them."""

    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Unsaved texts by path."""
    written_texts: list[str] = field(default_factory=list[str])
    show: Callable[[str], str] = lambda text: text
    """What it makes of a text that it reads."""
    keep: Callable[[str], str | None] = lambda text: text
    """What it writes in place of a text; None for nothing."""
    written_result: Any = None

    def read(self, params: Json) -> Json:
        path = params["path"]
        if path not in self.texts and not Path(path).exists():
            raise RpcError({"code": -32002, "message": "Resource not found"})
        return {"content": self.show(self.texts.get(path) or Path(path).read_text())}

    def write(self, params: Json) -> Any:
        self.written_texts.append(params["path"])
        text = self.keep(params["content"])
        if text is not None:
            self.texts.pop(params["path"], None)
            Path(params["path"]).write_text(text)
        return self.written_result


def start_client(start: Start, buffers: Buffers, name: str = "zed") -> AcpClient:
    client = start()
    client.initialize(name, **FS)
    client.answer("fs/read_text_file", buffers.read)
    client.answer("fs/write_text_file", buffers.write)
    client.allow()
    return client


def view(path: str) -> Any:
    return call("edit", command="view", path=path)


def replace(path: str, old: str, new: str) -> Any:
    return call("edit", command="replace", path=path, old_text=old, new_text=new)


def observation_text(world: World, nth: int) -> str:
    """Return what the nth request says of the last call."""
    return str(world.llm.requests[nth].body["messages"][-1]["content"])


def test_unsaved_text_is_read_and_the_edit_says_that_it_is_saved(
    start: Start, world: World
) -> None:
    path = world.project / "rule.md"
    path.write_text("Rule: 10 %\n")
    buffers = Buffers({str(path): "Rule: 25 %\n"})
    client = start_client(start, buffers)
    world.script(view("rule.md"), replace("rule.md", "25", "26"), say("Done."))
    session = client.new(world.project)
    client.request("session/set_mode", {"sessionId": session, "modeId": "autoEdit"})
    client.prompt(session, "Raise it")
    assert "25 %" in observation_text(world, 1)
    [permission_request] = client.requests_of("session/request_permission")
    assert "also saves your unsaved changes in 'rule.md'" in str(
        permission_request["toolCall"]["content"]
    )
    assert buffers.written_texts == [str(path)]
    assert path.read_text() == "Rule: 26 %\n"


def test_saved_and_new_files_go_through_the_client(start: Start, world: World) -> None:
    path, new = world.project / "a.py", world.project / "b.py"
    path.write_text("x = 1\n")
    buffers = Buffers()
    client = start_client(start, buffers)
    create = call("edit", command="create", path="b.py", text="y = 2\n")
    world.script(view("a.py"), replace("a.py", "1", "3"), create, say("Done."))
    client.prompt(client.new(world.project), "Change both")
    assert buffers.written_texts == [str(path), str(new)]
    assert (path.read_text(), new.read_text()) == ("x = 3\n", "y = 2\n")
    edits = [each for each in client.updates("tool_call_update") if each["status"] == "completed"]
    assert edits[-1]["content"][0] == {"type": "diff", "path": str(new), "newText": "y = 2\n"}


@pytest.mark.parametrize("name", ["CodeCompanion.nvim", ""])
def test_a_client_that_would_lose_text_is_not_written_to(
    start: Start, world: World, name: str
) -> None:
    path = world.project / "a.py"
    path.write_text("x = 1\n")
    # What CodeCompanion reads is the disk, so nothing says that the user has typed there.
    actual_buffers = {str(path): "x = 1\n# typed\n"} if name else {}
    buffers = Buffers(dict(actual_buffers))
    client = start_client(start, buffers, name)
    world.script(view("a.py"), replace("a.py", "1", "3"), say("Done."))
    client.prompt(client.new(world.project), "Change it")
    assert (buffers.written_texts, buffers.texts) == ([], actual_buffers)
    assert path.read_text() == "x = 3\n"
    assert bool(client.requests_of("fs/read_text_file")) == (name == "")


def test_unsaved_text_of_an_unknown_client_is_read_and_left_alone(
    start: Start, world: World
) -> None:
    path = world.project / "a.py"
    path.write_text("x = 1\n")
    buffers = Buffers({str(path): "x = 2\n"})
    client = start_client(start, buffers, "")
    world.script(view("a.py"), replace("a.py", "2", "3"), say("Well."))
    client.prompt(client.new(world.project), "Change it")
    assert "x = 2" in observation_text(world, 1)
    assert "unsaved changes" in observation_text(world, 2)
    assert (path.read_text(), buffers.texts) == ("x = 1\n", {str(path): "x = 2\n"})


def test_a_client_that_does_not_reload_what_was_edited_has_no_unsaved_text(
    start: Start, world: World
) -> None:
    path = world.project / "a.py"
    path.write_text("x = 1\n")
    buffers = Buffers({str(path): "x = 1\n"})
    client = start_client(start, buffers, "")
    wait = call("terminal", command="sleep 0.4")  # For longer than a look at a file counts.
    world.script(view("a.py"), replace("a.py", "1", "3"), wait)
    world.script(replace("a.py", "3", "4"), wait, say("Done."))
    world.script(view("a.py"), replace("a.py", "4", "5"), say("Well."))
    session = client.new(world.project)
    client.prompt(session, "Change it")
    assert path.read_text() == "x = 4\n"
    buffers.texts[str(path)] = "x = 1\n# typed\n"
    client.prompt(session, "Once more")
    assert "# typed" in observation_text(world, 7)
    assert path.read_text() == "x = 4\n"


LINES = "one\r\ntwo\r\n"


@pytest.mark.parametrize(
    ("disk", "show"),
    [
        ("one\ntwo\n", lambda text: text.removesuffix("\n")),
        (LINES, lambda text: text.replace("\r\n", "\n")),
        ("\ufeffone\ntwo\n", lambda text: text),
        ("one\ntwo\n", lambda _text: ""),
    ],
)
def test_a_saved_file_does_not_count_as_changed(
    start: Start, world: World, disk: str, show: Callable[[str], str]
) -> None:
    path = world.project / "a.txt"
    path.write_bytes(disk.encode())
    client = start_client(start, Buffers(show=show))
    world.script(view("a.txt"), replace("a.txt", "two", "2"), say("Done."))
    client.prompt(client.new(world.project), "Change it")
    assert "unsaved" not in observation_text(world, 1)
    assert path.read_bytes() == disk.replace("two", "2").encode()


@pytest.mark.parametrize(
    ("buffers", "expected_text"),
    [
        (Buffers(keep=lambda _text: None), "was not edited"),
        (Buffers(keep=lambda text: text.replace("3", "33")), "changed the text after your edit"),
        (Buffers(keep=lambda _text: None, written_result="no such buffer"), "did not take"),
        (Buffers(written_result={}), "+1 -1 lines."),
    ],
)
def test_what_a_client_says_of_a_write_is_checked(
    start: Start, world: World, buffers: Buffers, expected_text: str
) -> None:
    (world.project / "a.py").write_text("x = 1\n")
    client = start_client(start, buffers)
    world.script(view("a.py"), replace("a.py", "1", "3"), say("Done."))
    client.prompt(client.new(world.project), "Change it")
    assert expected_text in observation_text(world, 2)


def test_a_client_that_fails_at_reads_is_passed_over(start: Start, world: World) -> None:
    def refuse(_params: Json) -> Json:
        raise RpcError({"code": -32603, "message": "it broke"})

    (world.project / "a.py").write_text("x = 1\n")
    client = start_client(start, Buffers())
    client.answer("fs/read_text_file", refuse)
    world.script(view("a.py"), replace("a.py", "1", "3"), say("Done."))
    client.prompt(client.new(world.project), "Change it")
    assert (world.project / "a.py").read_text() == "x = 3\n"


def test_a_rejected_edit_touches_no_buffer(start: Start, world: World) -> None:
    path = world.project / "a.py"
    path.write_text("x = 1\n")
    buffers = Buffers({str(path): "x = 2\n"})
    client = start_client(start, buffers)
    client.answer("session/request_permission", lambda params: choose(params, "reject_once"))
    world.script(view("a.py"), replace("a.py", "2", "3"), say("Well."))
    client.prompt(client.new(world.project), "Change it")
    assert buffers.written_texts == []
    assert buffers.texts == {str(path): "x = 2\n"}
