"""Many tools of MCP servers: requests have two tools for them, and calls reach the tool itself."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mcp_odd_server
import pytest
import tiktoken
from cli_runs import run
from delegation import delegate, script, task
from fake_llm import call, say
from raw_client import RawClient
from world import World, content_of, items

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.features.mcp.offer import SelectedTool
from oh_daemon.features.mcp.on_demand import CALL, FIND, ToolsOnDemand
from oh_daemon.features.mcp.server import McpServer
from oh_daemon.features.mcp.servers import McpTool
from oh_daemon.kernel.ports import Tool, ToolCall, ToolContext, ToolSpec
from oh_daemon.kernel.tool_calls import parse_call
from oh_daemon.protocol.errors import ToolError
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.spawner import Spawner

Json = dict[str, Any]
SERVERS = ("docs", "issues", "shop")
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "description": "Its name, as the catalog of this year has it."},
        "options": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c", "d"]}},
    },
    "required": ["item"],
}


def mcp_tools(tmp_path: Path, n_tools: int, description: str = "Changes it.") -> dict[str, Tool]:
    around = ServerEnvironment(Spawner(), os.environ, Masker(), tmp_path)
    settings = McpServerSettings(command="shop")
    tools: dict[str, Tool] = {}
    for n in range(n_tools):
        name = SERVERS[n % 3]
        server = McpServer(name, settings, around, lambda: None, tuple)
        spec = ToolSpec(f"{name}__tool_{n}", f"{description} Number {n}.", SCHEMA, is_foreign=True)
        tools[spec.name] = McpTool(spec, SelectedTool(spec, f"tool_{n}", ""), server, run_on_loop)
    return tools


def direct_names(tools: dict[str, Tool]) -> list[str]:
    return [name for name, tool in tools.items() if tool.spec.access != "onDemand"]


@pytest.mark.parametrize(
    ("n_tools", "description", "is_on_demand"),
    [(30, "Changes it.", False), (31, "Changes it.", True), (10, "Very long. " * 200, True)],
)
def test_tools_are_on_demand_beyond_a_number_or_a_size(
    tmp_path: Path, n_tools: int, description: str, *, is_on_demand: bool
) -> None:
    tools = mcp_tools(tmp_path, n_tools, description)
    names = direct_names(ToolsOnDemand().arrange(tools, ()))
    assert names == ([FIND, CALL] if is_on_demand else [*tools])


def test_tools_stay_on_demand_under_one_description(tmp_path: Path) -> None:
    on_demand = ToolsOnDemand()
    first = on_demand.arrange(mcp_tools(tmp_path, 120), ())
    fewer = on_demand.arrange(mcp_tools(tmp_path, 3), ())
    assert first[FIND].spec == fewer[FIND].spec
    # Another process takes the description from the log.
    infos = [{"name": FIND, "description": first[FIND].spec.description}]
    again = ToolsOnDemand().arrange(mcp_tools(tmp_path, 4), infos)
    assert (again[FIND].spec, direct_names(again)) == (first[FIND].spec, [FIND, CALL])


def find(tools: dict[str, Tool], **args: Any) -> str:
    context = ToolContext("c", "i", CancelToken(), print, Masker())
    return tools[FIND].run(args, context).content[0]["text"]


def test_find_tools_returns_schemas_by_words_and_names_within_a_limit(tmp_path: Path) -> None:
    tools = ToolsOnDemand().arrange(mcp_tools(tmp_path, 120), ())
    by_name = find(tools, query="tool_41, issues__tool_40")
    assert [line for line in by_name.splitlines() if line.startswith("{")] == [
        json.dumps(SCHEMA)
    ] * 2
    by_words = find(tools, query="the shop's tools")
    assert by_words.startswith("shop__tool_2: Changes it.")
    assert by_words.count('"required"') == 8
    assert "Also found, find them by name: " in by_words
    assert len(find(tools).splitlines()) == 120
    with pytest.raises(ToolError, match="no tool has words of 'xyzzy'"):
        find(tools, query="xyzzy")


CALLS: list[tuple[str, Json, str | None, str | None]] = [
    (CALL, {"name": "shop__tool_2", "arguments": {"item": "tea"}}, "shop__tool_2", None),
    (CALL, {"name": "shop__tool_2", "arguments": '{"item": "tea"}'}, "shop__tool_2", None),
    ("shop__tool_2", {"item": "tea"}, "shop__tool_2", None),
    (CALL, {"name": "shop__tool_2", "arguments": {}}, "shop__tool_2", "'item' is a required"),
    (CALL, {"name": "shop__tool_2"}, "shop__tool_2", "'item' is a required property"),
    (CALL, {"name": "shop__nothing", "arguments": {}}, None, "There is no tool 'shop__nothing'"),
    (CALL, {"arguments": {}}, CALL, "'name' is a required property"),
    (CALL, {"name": CALL, "arguments": {"name": "shop__tool_2"}}, "shop__tool_2", "'item' is a"),
]


@pytest.mark.parametrize(("name", "args", "tool_name", "error"), CALLS)
def test_call_is_that_of_the_tool_and_history_has_it_as_written(
    tmp_path: Path, name: str, args: Json, tool_name: str | None, error: str | None
) -> None:
    tools = ToolsOnDemand().arrange(mcp_tools(tmp_path, 120), ())
    arguments = json.dumps({**args, "security_risk": "low", "summary": "Looks."})
    parsed_call = parse_call(ToolCall("1", name, arguments), tools)
    assert (parsed_call.tool and parsed_call.tool.spec.name) == tool_name
    assert (parsed_call.call.name, parsed_call.arguments) == (name, arguments)
    assert (error or "") in (parsed_call.error or "")
    assert bool(error) == bool(parsed_call.error)
    if error is None:
        assert (parsed_call.args, parsed_call.risk) == ({"item": "tea"}, "low")


def many_tools(name: str) -> Json:
    tools = [
        {
            "name": f"{verb}_{noun}",
            "description": f"{verb.capitalize()} one {noun.replace('_', ' ')} of {name}.",
            "inputSchema": SCHEMA,
        }
        for verb in ("create", "get", "list", "update", "delete")
        for noun in (
            "pull_request",
            "comment",
            "label",
            "milestone",
            "branch",
            "release",
            "team",
            "fork",
        )
    ]
    result = {"content": [{"type": "text", "text": f"{name} got PARAMS"}]}
    return mcp_odd_server.settings({"tools/list": {"tools": tools}, "tools/call": result})


def start(world: World, **more: Any) -> tuple[RawClient, str]:
    servers = {name: many_tools(name) for name in SERVERS}
    client = world.daemon(settings={"mcpServers": servers, **more})
    return client, world.start(client, options={"approval": "askRisky"})


def tools_of(request: Any) -> list[Json]:
    return request.body["tools"]


@pytest.fixture
def encoding(monkeypatch: pytest.MonkeyPatch) -> tiktoken.Encoding:
    litellm = find_spec("litellm")
    assert litellm is not None
    tables = Path(litellm.origin or "").parent / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tables))
    return tiktoken.get_encoding("cl100k_base")


def on_demand_tools(request: Any) -> str:
    """Return the two tools that stand for all tools of servers, as the request has them."""
    tools = [tool for tool in tools_of(request) if tool["function"]["name"] in {FIND, CALL}]
    assert len(tools) == 2
    return json.dumps(tools)


@pytest.mark.one_daemon
def test_tools_of_three_servers_are_found_and_called_as_if_natively(
    world: World, encoding: tiktoken.Encoding
) -> None:
    world.script(
        call(FIND, query="create release"),
        call(CALL, name="shop__create_release", arguments={"item": "tea"}),
        say("Released."),
    )
    client, conversation = start(world, logCompletions=True)
    event = client.wait_for_event(lambda p: p["event"]["type"] == "approval.requested")
    approval = event["event"]["approval"]
    assert approval["title"] == "shop: create_release"
    assert approval["subject"]["tool"] == "shop__create_release"
    assert approval["subject"]["args"] == {"item": "tea"}
    answer = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": "allow-once"}
    client.request("approval/respond", answer)
    assert world.turn(client)["finalText"] == "Released."
    search, release = items(client, "toolCall")
    assert json.dumps(SCHEMA) in content_of(search)
    assert (release["tool"], release["args"]) == ("shop__create_release", {"item": "tea"})
    assert "shop got" in content_of(release)
    assert "create_release" in content_of(release)
    requests = list(world.llm.requests)
    first, *others = requests
    assert len(encoding.encode(on_demand_tools(first))) < 1_000
    assert not [each for each in tools_of(first) if "__" in each["function"]["name"]]
    for before, after in zip(requests, others, strict=False):
        assert tools_of(after) == tools_of(before)
        n_messages = len(before.body["messages"])
        assert after.body["messages"][:n_messages] == before.body["messages"]
    # The history has the call as the model made it.
    [history_call] = others[-1].body["messages"][-2]["tool_calls"]
    assert history_call["function"]["name"] == CALL
    # It goes on with the same tools when it is opened again, even with fewer servers.
    client.request("conversation/close", {"conversationId": conversation})
    for name in ("docs", "issues"):
        client.request("mcp/setEnabled", {"server": name, "enabled": False})
    client.request("conversation/open", {"conversationId": conversation})
    world.script(say("Again."))
    world.send(client, conversation, "again")
    world.turn(client, nth=2)
    assert tools_of(world.llm.requests[-1]) == tools_of(first)
    outcome = run(world, "replay", conversation, "--strict")
    assert "no difference" in outcome.out, outcome


@pytest.mark.one_daemon
def test_rules_mean_the_tool_and_sub_agents_have_the_same(world: World) -> None:
    rule = {"tool": "shop__delete_*", "decision": "deny", "reason": "releases stay"}
    delete = call(CALL, name="shop__delete_release", arguments={"item": "tea"})
    script(
        world,
        go=[delegate(task("clean")), say("Done.")],
        clean=[delete, say("It is not allowed.")],
    )
    client, _ = start(world, rules=[rule])
    assert world.turn(client, nth=2)["finalText"] == "Done."
    requests = world.llm.requests
    assert len({on_demand_tools(request) for request in requests}) == 1
    last_messages = [str(request.body["messages"][-1]["content"]) for request in requests]
    assert len([text for text in last_messages if "releases stay" in text]) == 1
