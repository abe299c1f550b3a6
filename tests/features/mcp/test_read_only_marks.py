"""A server's own mark that a tool only reads counts once the user trusts the server's marks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mcp_server
import pytest
from cli_runs import run
from fake_llm import call, calls, say
from mcp_world import Json, daemon
from raw_client import RawClient
from world import World, items

from oh_daemon.common.masking import Masker
from oh_daemon.features.mcp.connections import ServerEnvironment
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.system.spawner import Spawner

PRICE = call("shop__price", item="tea")
ASK = {"approval": "askRisky"}
TRUST = "allow-server"


def approval_of(client: RawClient, nth: int = 1) -> Json:
    event = client.wait_for_event(lambda p: p["event"]["type"] == "approval.requested", nth=nth)
    return event["event"]["approval"]


def answer(client: RawClient, approval: Json, option_id: str) -> None:
    params = {"approvalId": approval["id"], "digest": approval["digest"], "optionId": option_id}
    client.request("approval/respond", params)


def n_asked(client: RawClient) -> int:
    events = client.notifications("conversation/event")
    return sum(each["event"]["type"] == "approval.requested" for each in events)


@pytest.mark.own_daemon
def test_marked_tool_asks_until_the_user_trusts_the_marks(world: World) -> None:
    world.script(PRICE, PRICE, call("shop__order", item="tea"), say("Ordered."))
    client = daemon(world, shop=mcp_server.settings())
    world.start(client, options=ASK)
    approval = approval_of(client)
    assert approval["risk"] == "medium"
    assert "only its own server says" in approval["reason"]
    [option] = [each for each in approval["options"] if each["id"] == TRUST]
    assert option == {
        "id": TRUST,
        "label": "Trust this server's read-only marks",
        "effect": "allow",
        "scope": "server",
    }
    answer(client, approval, TRUST)
    unmarked = approval_of(client, nth=2)
    assert unmarked["title"] == "shop: order"
    assert TRUST not in [each["id"] for each in unmarked["options"]]
    answer(client, unmarked, "allow-once")
    assert world.turn(client)["finalText"] == "Ordered."

    # Another daemon of this user knows the answer; another command line is another server.
    world.script(PRICE, say("Cheap."))
    again = daemon(world, shop=mcp_server.settings())
    world.start(again, options=ASK)
    assert world.turn(again)["finalText"] == "Cheap."
    assert n_asked(again) == 0
    world.script(PRICE)
    other_client = daemon(world, shop=mcp_server.settings("turns"))
    world.start(other_client, options=ASK)
    assert approval_of(other_client)["title"] == "shop: price"

    assert run(world, "mcp", "marks").out == "shop\n"
    unknown = run(world, "mcp", "marks", "--withdraw", "shoe")
    assert (unknown.code, "trusted: shop" in unknown.err) == (2, True)
    outcome = run(world, "mcp", "marks", "--withdraw", "shop")
    assert outcome.out == "No server's read-only marks are trusted.\n"
    world.script(PRICE)
    world.start(again, options=ASK)
    assert approval_of(again)["title"] == "shop: price"


@pytest.mark.own_daemon
def test_trust_covers_the_next_call_of_the_same_step(world: World) -> None:
    world.script(calls(PRICE, PRICE), say("Cheap."))
    client = daemon(world, shop=mcp_server.settings())
    world.start(client, options=ASK)
    answer(client, approval_of(client), TRUST)
    assert world.turn(client)["finalText"] == "Cheap."
    assert n_asked(client) == 1
    assert [item["status"] for item in items(client, "toolCall")] == ["completed"] * 2


def test_marked_tool_does_not_run_in_mode_plan(world: World) -> None:
    world.script(PRICE, say("Hm."))
    client = daemon(world, shop=mcp_server.settings())
    world.start(client, options={"mode": "plan"})
    world.turn(client)
    assert [item["status"] for item in items(client, "toolCall")] == ["rejected"]


@pytest.mark.parametrize(
    ("name", "change", "is_of_project"),
    [
        ("other", {}, False),
        ("shop", {"command": "/usr/bin/other"}, False),
        ("shop", {"args": ("b",)}, False),
        ("shop", {"command": None, "args": (), "url": "https://shop.test/a"}, False),
        ("shop", {"command": None, "args": (), "url": "https://shop.test/b"}, False),
        ("shop", {}, True),
    ],
)
def test_trust_is_bound_to_name_and_command_line(
    tmp_path: Path, name: str, change: dict[str, Any], is_of_project: bool
) -> None:
    settings = McpServerSettings(command="shop", args=("a",))
    spawner = Spawner()
    of_user = ServerEnvironment(spawner, os.environ, Masker(), tmp_path)
    of_project = ServerEnvironment(
        spawner, os.environ, Masker(), tmp_path, prepare=lambda each: (spawner, each)
    )
    other = of_project if is_of_project else of_user
    other_settings = McpServerSettings.model_validate({**settings.model_dump(), **change})
    assert other.identity(name, other_settings) != of_user.identity("shop", settings)
    elsewhere = ServerEnvironment(spawner, os.environ, Masker(), tmp_path / "elsewhere")
    assert elsewhere.identity("shop", settings) == of_user.identity("shop", settings)
    spawner.close()
