"""Servers that bend the protocol: one odd part costs at most itself, and text is always shown."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_odd_server
import mcp_server
import pytest
from mcp_odd_server import ANSWERS, LISTED
from mcp_world import serving

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.features.mcp.servers import McpTool, ResourceTool, ServerPool
from oh_daemon.kernel.actions import run_tool
from oh_daemon.kernel.ports import ToolContext, ToolResult
from oh_daemon.protocol.mcp import McpServerInfo, McpServerSettings
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.spawner import Spawner

Json = dict[str, Any]
SCHEMA: Json = {"type": "object"}
PAGE_TEXT = "<html>the quota of this month is used up</html>"


class Shop:
    """A pool with one server."""

    def __init__(self, settings: Mapping[str, Any], cwd: Path) -> None:
        self._spawner = Spawner()
        around = ServerEnvironment(self._spawner, os.environ, Masker(), cwd)
        by_name = {"odd": McpServerSettings.model_validate(dict(settings))}
        self.pool = ServerPool(run_on_loop, lambda: by_name, around)
        self.pool.wait_s = 60
        self.pool.begin()
        self.tools: dict[str, McpTool] = {
            tool.spec.name: tool for tool in self.pool.tools(CancelToken())
        }
        self.live_output: list[str] = []

    @property
    def info(self) -> McpServerInfo:
        [info] = self.pool.infos()
        return info

    def call(self, name: str = "odd__fine") -> ToolResult:
        context = ToolContext("c", "i", CancelToken(), self.live_output.append, Masker())
        return run_tool(self.tools[name], {}, context)

    def resource(self, **args: Any) -> ToolResult:
        tool = ResourceTool(self.pool.readable(), run_on_loop)
        context = ToolContext("c", "i", CancelToken(), self.live_output.append, Masker())
        return run_tool(tool, {"server": "odd", **args}, context)

    def close(self) -> None:
        self.pool.close()
        self._spawner.close()


@contextmanager
def open_shop(tmp_path: Path, script: Json, transport: str = "stdio") -> Generator[Shop]:
    if transport == "stdio":
        shop = Shop(mcp_odd_server.settings(script), tmp_path)
        try:
            yield shop
        finally:
            shop.close()
        return
    with serving("http", None, json.dumps(script), program=mcp_odd_server.__file__) as port:
        shop = Shop({"url": f"http://127.0.0.1:{port}/mcp"}, tmp_path)
        try:
            yield shop
        finally:
            shop.close()


def text_of(result: ToolResult) -> str:
    return "\n".join(json.dumps(part) for part in result.content)


TRANSPORTS = ("stdio", "http")
ODD_TOOLS: dict[str, tuple[Any, str | None]] = {
    "schema of two types": ({"inputSchema": {"type": ["object", "null"]}}, None),
    "title is a number": ({"inputSchema": SCHEMA, "title": 7}, None),
    "description is a list": ({"inputSchema": SCHEMA, "description": ["a"]}, None),
    "mark is a word": ({"inputSchema": SCHEMA, "annotations": {"readOnlyHint": "yes"}}, None),
    "marks are a list": ({"inputSchema": SCHEMA, "annotations": ["a"]}, None),
    "icons are a string": ({"inputSchema": SCHEMA, "icons": "a.png"}, None),
    "output schema is a string": ({"inputSchema": SCHEMA, "outputSchema": "text"}, None),
    "output schema is a list": ({"inputSchema": SCHEMA, "outputSchema": [SCHEMA]}, None),
    "execution is a word": ({"inputSchema": SCHEMA, "execution": "now", "_meta": 3}, None),
    "no schema": ({}, "no input schema"),
    "schema is null": ({"inputSchema": None}, "no input schema"),
    "schema of a string": ({"inputSchema": {"type": "string"}}, "not of an object"),
    "name is null": ({"name": None, "inputSchema": SCHEMA}, "no name"),
    "name is a number": ({"name": 5, "inputSchema": SCHEMA}, "no name"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_odd_tool_costs_at_most_itself(tmp_path: Path, transport: str) -> None:
    tools = [{"name": name.replace(" ", "-"), **tool} for name, (tool, _) in ODD_TOOLS.items()]
    listing = {"tools": [*LISTED["tools"], *tools, "no tool", None]}
    with open_shop(
        tmp_path, {"tools/list": listing, "tools/call": {"content": []}}, transport
    ) as shop:
        assert (shop.info.status, shop.info.error) == ("running", None)
        names = {
            f"odd__{name.replace(' ', '-')}" for name, (_, why) in ODD_TOOLS.items() if not why
        }
        assert {*shop.info.tools} == {"odd__fine", *names}
        reasons = "\n".join(shop.info.omitted)
        for name, (tool, why) in ODD_TOOLS.items():
            label = "" if "name" in tool else name.replace(" ", "-")
            assert why is None or any(
                label in line and why in line for line in shop.info.omitted
            ), f"{name}: {reasons}"
        assert len(shop.info.omitted) == sum(bool(why) for _, why in ODD_TOOLS.values()) + 2


ODD_RESULTS: dict[str, tuple[Any, str]] = {
    "unknown type": ({"content": [{"type": "chart", "text": "up 3 %"}]}, "up 3 %"),
    "unknown type without text": ({"content": [{"type": "chart", "points": [41]}]}, "41"),
    "no type": ({"content": [{"text": "hello"}]}, "hello"),
    "content is null": ({"content": None, "structuredContent": {"a": 41}}, "41"),
    "content is absent": ({"structuredContent": {"a": 41}}, "41"),
    "content is a string": ({"content": "hello"}, "hello"),
    "content is a block": ({"content": {"type": "text", "text": "hello"}}, "hello"),
    "part is a string": ({"content": ["hello"]}, "hello"),
    "part is null": ({"content": [None, {"type": "text", "text": "hello"}]}, "hello"),
    "text is null": (
        {"content": [{"type": "text", "text": None}, {"type": "text", "text": "hello"}]},
        "hello",
    ),
    "text is a number": ({"content": [{"type": "text", "text": 41}]}, "41"),
    "resource without text": (
        {"content": [{"type": "resource", "resource": {"uri": "shop://hours"}}]},
        "shop://hours",
    ),
    "resource without address": (
        {"content": [{"type": "resource", "resource": {"text": "hello"}}]},
        "hello",
    ),
    "odd annotations": (
        {"content": [{"type": "text", "text": "hello", "annotations": {"priority": "high"}}]},
        "hello",
    ),
    "image without data": (
        {"content": [{"type": "image"}, {"type": "text", "text": "hello"}]},
        "hello",
    ),
    "structured content is a list": ({"content": [], "structuredContent": [41]}, "41"),
    "_meta is a list": ({"content": [{"type": "text", "text": "hello"}], "_meta": ["a"]}, "hello"),
    "declared structure is missing": ({"content": [{"type": "text", "text": "hello"}]}, "hello"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_odd_part_of_result_costs_at_most_itself(tmp_path: Path, transport: str) -> None:
    tool = {"name": "fine", "inputSchema": SCHEMA, "outputSchema": {**SCHEMA, "required": ["a"]}}
    script = {
        "tools/list": {"tools": [tool]},
        "tools/call": {ANSWERS: [result for result, _ in ODD_RESULTS.values()]},
    }
    with open_shop(tmp_path, script, transport) as shop:
        for name, (_, text) in ODD_RESULTS.items():
            result = shop.call()
            assert not result.is_error, f"{name}: {text_of(result)}"
            assert text in text_of(result), name


FAILURES: dict[str, tuple[Any, str]] = {
    "flag is a word": (
        {"content": [{"type": "text", "text": "sold out"}], "isError": "true"},
        "sold out",
    ),
    "server's own -32000": ({"error": {"code": -32000, "message": "sold out"}}, "sold out"),
    "data of an error": (
        {"error": {"code": -32603, "message": "Internal error", "data": {"why": "sold out"}}},
        "sold out",
    ),
}
FAILURES_OF_HTTP: dict[str, tuple[Any, str]] = {
    "page": ({"http": [500, "text/html", PAGE_TEXT]}, "HTTP 500: " + PAGE_TEXT),
    "text": ({"http": [429, "text/plain", "too many calls"]}, "HTTP 429: too many calls"),
    "other JSON": ({"http": [403, "application/json", '{"why": "sold out"}']}, "sold out"),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_text_of_failed_call_is_shown(tmp_path: Path, transport: str) -> None:
    cases = FAILURES | (FAILURES_OF_HTTP if transport == "http" else {})
    script = {"tools/call": {ANSWERS: [answer for answer, _ in cases.values()]}}
    with open_shop(tmp_path, script, transport) as shop:
        for name, (_, text) in cases.items():
            result = shop.call()
            assert result.is_error, name
            assert text in str(result.content), f"{name}: {text_of(result)}"
            assert shop.info.status == "running", name


def page(*names: str, cursor: Any = None) -> Json:
    tools = [{"name": name, "inputSchema": SCHEMA} for name in names]
    return {"tools": tools, **({} if cursor is None else {"nextCursor": cursor})}


PAGINGS: dict[str, tuple[list[Json], int, str]] = {
    "two pages": ([page("a", cursor="2"), page("b")], 2, ""),
    "equal cursor": ([page("a", cursor="2"), page("a", cursor="2")], 1, "repeats"),
    "cursors in a circle": (
        [*[page("a", cursor="2"), page("b", cursor="1")] * 2, page("c", cursor="2")],
        2,
        "repeats",
    ),
    "a hundred pages with one tool": (
        [*(page(f"t{n}", cursor=str(n)) for n in range(99)), page("last")],
        100,
        "",
    ),
    "no end": ([page(cursor=str(n)) for n in range(300)], 0, "more than 200 pages"),
    "cursor is a number": ([page("a", cursor=2), page("b")], 2, ""),
    "cursor is empty": ([page("a", cursor="")], 1, ""),
    "list is an object": ([{"tools": {"a": {}}}], 0, "no list of tools"),
    "list is missing": ([{}], 0, "no list of tools"),
}


@pytest.mark.parametrize("name", PAGINGS)
def test_list_of_tools_ends_and_its_flaws_are_shown(tmp_path: Path, name: str) -> None:
    pages, n_tools, reason = PAGINGS[name]
    with open_shop(tmp_path, {"tools/list": {ANSWERS: pages}}) as shop:
        assert (shop.info.status, shop.info.error) == ("running", None)
        assert len(shop.info.tools) == n_tools
        assert len(shop.info.omitted) == bool(reason)
        assert reason in "".join(shop.info.omitted)


REFUSED = {"error": {"code": -32601, "message": "Method not found"}}
RESOURCE: Json = {"uri": "shop://hours", "name": "hours"}
PARTIAL: dict[str, tuple[Json, str]] = {
    "tools are announced and refused": ({"tools/list": REFUSED}, "shop://hours"),
    "no templates": ({"resources/templates/list": REFUSED}, "shop://hours"),
    "templates only": (
        {
            "resources/list": REFUSED,
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "shop://{day}"}]},
        },
        "shop://{day}",
    ),
    "odd resources": (
        {"resources/list": {"resources": [None, {"name": 4}, {**RESOURCE, "size": "big"}]}},
        "shop://hours",
    ),
    "capabilities are odd": (
        {"initialize": {**mcp_odd_server.GREETING, "capabilities": {"resources": True}}},
        "shop://hours",
    ),
    "server has no name": (
        {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"resources": {}, "tools": {}},
                "serverInfo": None,
            }
        },
        "shop://hours",
    ),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_server_that_has_only_some_of_the_methods_is_used(tmp_path: Path, name: str) -> None:
    script, text = PARTIAL[name]
    script = {"resources/list": {"resources": [RESOURCE]}, **script}
    read = {"contents": [{"text": "always", "uri": 5}, "daily", {"uri": "shop://hours", "text": 8}]}
    with open_shop(tmp_path, {**script, "resources/read": read}) as shop:
        assert (shop.info.status, shop.info.error) == ("running", None)
        assert text in text_of(shop.resource())
        assert "always" in text_of(shop.resource(uri="shop://hours"))


LOST: dict[str, Json] = {
    "empty body": {"http": [404, "text/plain", ""]},
    "text": {"http": [404, "text/plain", "Session not found"]},
    "JSON-RPC error": {
        "http": [
            404,
            "application/json",
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}',
        ]
    },
    "400 of an older package": {
        "http": [400, "text/plain", "Bad Request: No valid session ID provided"]
    },
}


@pytest.mark.parametrize("name", LOST)
def test_lost_session_is_one_new_session(tmp_path: Path, name: str) -> None:
    answer = {"content": [{"type": "text", "text": "sessions: N_SESSIONS"}]}
    calls = [answer, LOST[name], answer, LOST[name], answer]
    with open_shop(tmp_path, {"tools/call": {ANSWERS: calls}}, "http") as shop:
        for n_sessions in (1, 2, 3):
            result = shop.call()
            assert not result.is_error, text_of(result)
            assert f"sessions: {n_sessions}" in text_of(result)
        assert shop.info.status == "running"


FRAMES: dict[str, tuple[Json, str]] = {
    "result is text": ({"result": "hello"}, "hello"),
    "result is a list": ({"result": ["hello"]}, "hello"),
    "error is text": ({"error": "sold out"}, "sold out"),
    "error has no code": ({"error": {"message": "sold out"}}, "sold out"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_odd_frame_of_answer_is_read(tmp_path: Path, name: str) -> None:
    frame, text = FRAMES[name]
    answer = frame if "error" in frame else frame["result"]
    with open_shop(tmp_path, {"tools/call": answer}) as shop:
        assert text in text_of(shop.call())


@contextmanager
def real_server(tmp_path: Path, transport: str, **settings: Any) -> Generator[Shop]:
    if transport == "stdio":
        shop = Shop({**mcp_server.settings(), **settings}, tmp_path)
        try:
            yield shop
        finally:
            shop.close()
        return
    with serving("http") as port:
        shop = Shop({"url": f"http://127.0.0.1:{port}/mcp", **settings}, tmp_path)
        try:
            yield shop
        finally:
            shop.close()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_limit_of_call_counts_from_last_progress(tmp_path: Path, transport: str) -> None:
    with real_server(tmp_path, transport, timeoutS=1) as shop:
        assert text_of(shop.call("odd__brew")).count("tea") == 1
        assert shop.live_output == [f"{n}/4 pouring\n" for n in range(1, 5)]


DISCOVERED: Json = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}
ROOTS_ASKED: Json = {
    "resultType": "input_required",
    "inputRequests": {"folders": {"method": "roots/list"}},
    "requestState": "first",
}
WAYS_TO_ASK: dict[str, tuple[str, Json]] = {
    "request to the client": ("stdio", {"tools/call": {"ask": "roots/list"}}),
    **{
        f"result of 2026, {transport}": (
            transport,
            {
                "server/discover": DISCOVERED,
                "tools/call": {ANSWERS: [ROOTS_ASKED, {"content": "PARAMS"}] * 2},
            },
        )
        for transport in TRANSPORTS
    },
}


@pytest.mark.parametrize("name", WAYS_TO_ASK)
def test_roots_are_open_folders(tmp_path: Path, name: str) -> None:
    transport, script = WAYS_TO_ASK[name]
    with open_shop(tmp_path, script, transport) as shop:
        assert tmp_path.as_uri() in str(shop.call().content)
        folders = (tmp_path / "one", tmp_path / "two words")
        shop.pool.open_folders = lambda: folders
        text = str(shop.call().content)
        assert all(folder.as_uri() in text for folder in folders), text
