"""MCP servers that people use, from npm and PyPI, and results that are not text."""

import os
import sys
from base64 import b64decode
from pathlib import Path

import mcp_server
import pytest
from fake_llm import call, say
from mcp_world import Json, daemon, offered_names, wait_for_notification
from places import TESTS
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon

NPM = TESTS / "mcp_servers/node_modules/@modelcontextprotocol"


@pytest.fixture
def npm() -> Path:
    if not NPM.exists() and not os.environ.get("CI"):
        pytest.skip("`make mcp-servers` installs the servers from npm")
    return NPM


def test_servers_from_npm_list_and_call_their_tools(world: World, npm: Path) -> None:
    (world.project / "notes.txt").write_text("buy tea\n")
    steps = [
        call("everything__echo", message="hello"),
        call("everything__get-sum", a=2, b=3),
        call("everything__get-tiny-image"),
        call("everything__get-resource-links", count=2),
        call("mcp_resource", server="everything", uri="demo://resource/dynamic/text/2"),
        call("files__read_text_file", path=str(world.project / "notes.txt")),
        call("files__read_text_file", path="/etc/hostname"),
        call("rooted__list_allowed_directories"),
    ]
    world.script(*steps, say("All of it."))
    everything, files = (
        npm / f"server-{name}/dist/index.js" for name in ("everything", "filesystem")
    )
    client = daemon(
        world,
        everything={"command": "node", "args": [str(everything), "stdio"]},
        files={"command": "node", "args": [str(files), str(world.project)]},
        # It works in the roots of its client, since its command line names no folder.
        rooted={"command": "node", "args": [str(files)]},
    )
    for name in ("everything", "files", "rooted"):
        wait_for_notification(
            client,
            lambda server, name=name: server["name"] == name and server["status"] == "running",
        )
    world.start(client)
    assert world.turn(client)["finalText"] == "All of it."
    echo, total, image, links, resource, notes, outside, roots = items(client, "toolCall")
    assert "hello" in content_of(echo)
    assert "5" in content_of(total)
    [picture] = [part for part in image["content"] if part["type"] == "image"]
    assert b64decode(picture["data"]).startswith(b"\x89PNG")
    assert [part["type"] for part in links["content"]] == ["text", "resource_link", "resource_link"]
    assert resource["content"][0]["resource"]["text"].startswith("Resource 2")
    assert "buy tea" in content_of(notes)
    assert outside["status"] == "failed"
    assert str(world.project) in content_of(roots)
    assert "<resource uri='demo://" in str(world.llm.requests[-1].body["messages"])


def test_a_server_from_pypi_lists_and_calls_its_tools(world: World) -> None:
    (world.project / "new.txt").write_text("new\n")
    world.script(call("git__git_status", repo_path=str(world.project)), say("Seen."))
    args = ["-m", "mcp_server_git", "--repository", str(world.project)]
    client = daemon(world, git={"command": sys.executable, "args": args})
    world.start(client)
    world.turn(client)
    assert "git__git_diff_unstaged" in offered_names(world)
    assert "new.txt" in content_of(items(client, "toolCall")[0])


def test_what_is_large_is_kept_beside_the_log_and_what_is_broken_is_said(world: World) -> None:
    world.script(call("shop__show"), say("Seen."))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    world.turn(client)
    picture, sound, file, broken_call = items(client, "toolCall")[0]["content"]
    assert (picture["type"], picture["mimeType"]) == ("image", "image/png")
    assert sound == {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}
    assert file["resource"]["uri"] == "shop://catalog"
    assert broken_call == {"type": "text", "text": "(image: broken, or larger than 12 MiB)"}
    for ref, start, size in (
        (picture["outputRef"], b"\x89PNG", 60_000 + len(mcp_server.PIXEL)),
        (file["resource"]["outputRef"], b"%PDF", 60_008),
    ):
        params: Json = {"conversationId": conversation, "outputRef": ref, "encoding": "base64"}
        read = client.request("output/read", params)
        assert b64decode(read["text"]).startswith(start)
        assert read["total"] == size
    notice_message, result_message = world.llm.requests[1].body["messages"][-2:]
    assert notice_message["content"].startswith(
        "(an image, in the message after the results)\n(audio content"
    )
    [image] = result_message["content"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")


def test_resources_are_listed_and_read_through_one_tool_also_in_mode_plan(world: World) -> None:
    steps = [
        call("mcp_resource", server="shop"),
        call("mcp_resource", server="shop", uri="shop://hours"),
    ]
    world.script(*steps, call("mcp_resource", server="shop", uri="shop://none"), say("Seen."))
    client = daemon(world, shop=mcp_server.settings("resources"))
    world.start(client, options={"mode": "plan"})
    world.turn(client)
    list_call, hours, none = items(client, "toolCall")
    assert content_of(list_call) == "shop://hours  hours  When it is open."
    assert hours["content"][0]["resource"]["text"] == "always"
    assert none["status"] == "failed"
