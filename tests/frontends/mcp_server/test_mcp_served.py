"""`oh-daemon mcp`, driven by the mcp package's own client: on disk, and through an editor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from command_line import environment
from editor import Editor
from language_server import FEATURES, LanguageServer
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from planted_secrets import TOKENS
from starts import SCRIPT
from world import World

Json = dict[str, Any]
Call = Callable[..., Awaitable[str]]


def serve_tools(world: World, use: Callable[[Client, Call], Awaitable[None]]) -> None:
    """Let `use` talk to `oh-daemon mcp`, started in the project."""
    env = environment(world.home, **world.environment)
    args = ["mcp", "--workspace", str(world.project)]
    server = StdioServerParameters(command=str(SCRIPT), args=args, env=env)

    async def talk() -> None:
        async with asyncio.timeout(120), Client(server) as client:

            async def call(name: str, **value: Any) -> str:
                """Return the text of the result, with `!` before it when the call failed."""
                result = await client.call_tool(name, value)
                text = "\n".join(getattr(part, "text", "") for part in result.content)
                return f"!{text}" if result.is_error else text

            await use(client, call)

    asyncio.run(talk())


def test_another_agent_reads_searches_and_edits_by_the_same_rules(world: World) -> None:
    file, secret = world.project / "a.txt", world.project / ".env"
    file.write_bytes(b"one\r\ntwo\r\n")
    secret.write_text("KEY=abc\n")
    (world.project / "leak.txt").write_text(TOKENS["github"])
    rules = [{"tool": "list", "decision": "deny", "reason": "no lists"}]
    (world.home / "settings.json").write_text(json.dumps({"rules": rules}))

    async def use(client: Client, call: Call) -> None:
        tool_by_name = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tool_by_name) == {"edit", "grep", "glob", "list"}
        assert tool_by_name["grep"].annotations
        assert tool_by_name["grep"].annotations.read_only_hint is True
        assert tool_by_name["edit"].annotations
        assert tool_by_name["edit"].annotations.destructive_hint is True

        assert "a.txt" in await call("grep", pattern="two")
        edit: Json = {"command": "replace", "path": "a.txt", "old_text": "wo", "new_text": "hree"}
        assert (await call("edit", **edit)).startswith(
            "!"
        )  # A part of a line, and nothing has been read yet.
        assert "two" in await call("edit", command="view", path="a.txt")
        await call("edit", **edit)
        assert file.read_bytes() == b"one\r\nthree\r\n"

        assert "<secret hidden>" in await call("grep", pattern=".", path="leak.txt")
        assert TOKENS["github"] not in await call("edit", command="view", path="leak.txt")

        secrets = {"command": "create", "path": ".git/config", "text": "x"}
        refused_result = (
            await call("edit", command="view", path="/etc/passwd"),
            await call("edit", **secrets),
            await call("edit", command="view", path=".env"),
            await call("list"),
            await call("terminal", command="true"),
            await call("edit", command="view"),
        )
        assert [answer for answer in refused_result if not answer.startswith("!")] == []
        assert "only the user" in refused_result[2]
        assert "no lists" in refused_result[3]
        assert "There is no tool 'terminal'" in refused_result[4]

    serve_tools(world, use)


def test_a_repository_that_is_only_read_stays_as_it_is(world: World) -> None:
    (world.home / "settings.json").write_text(json.dumps({"mode": "plan"}))

    async def use(_client: Client, call: Call) -> None:
        answer = await call("edit", command="create", path="new.txt", text="x")
        assert "mode plan" in answer

    serve_tools(world, use)
    assert not (world.project / "new.txt").exists()


def test_with_an_editor_that_shares_them_its_buffers_and_servers_are_used(
    world: World,
) -> None:
    (world.home / "settings.json").write_text(json.dumps({"shareTools": True}))
    file = world.project / "a.txt"
    file.write_text("one\ntwo\n")
    (world.project / "load.py").write_text("def load(name):\n    return oops\n")
    (world.home / "state/doors").mkdir(parents=True)
    editor = Editor(world, features=FEATURES)
    LanguageServer(world, editor)
    buffer = editor.open(file, typed_text="one\ntyped\n")
    editor.client.request("daemon/status")  # Its answer says that it knows the buffer.

    async def use(_client: Client, call: Call) -> None:
        assert "typed" in await call("edit", command="view", path="a.txt")
        edit: Json = {"command": "replace", "path": "a.txt", "old_text": "one", "new_text": "1"}
        assert not (await call("edit", **edit)).startswith("!")
        symbols = await call("lookup", operation="symbols", query="oa")
        assert symbols == "load.py:1 function load"
        assert "load.py:2:12 error 'oops' is not defined" in await call("diagnostics")
        await call("edit", command="create", path="b.txt", text="x" * (1 << 20))
        with pytest.raises(MCPError, match="longer than 8 MiB"):
            await call("edit", command="create", path="c.txt", text="x" * (9 << 20))

    serve_tools(world, use)
    assert buffer.text == "1\ntyped\n"
    assert file.read_text() == "one\ntwo\n"
    assert (world.project / "b.txt").stat().st_size == 1 << 20
    [door] = (world.home / "state/doors").iterdir()
    assert door.stat().st_mode & 0o777 == 0o600


def test_without_that_setting_it_works_on_the_disk(world: World) -> None:
    file = world.project / "a.txt"
    file.write_text("saved\n")
    editor = Editor(world)
    editor.open(file, typed_text="typed\n")
    editor.client.request("daemon/status")

    async def use(_client: Client, call: Call) -> None:
        assert "saved" in await call("edit", command="view", path="a.txt")

    serve_tools(world, use)
