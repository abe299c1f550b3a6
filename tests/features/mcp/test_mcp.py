"""Tools of real MCP servers in a conversation, and servers that behave badly."""

import mcp_server
import pytest
from fake_llm import call, say
from leftovers import wait_until_gone
from mcp_world import Json, daemon, offered_names, stand, wait_for_notification
from world import World, content_of, items, text

pytestmark = pytest.mark.one_daemon
NODE_CRASH = "printf '%s\\n' \"Error: Cannot find module 'a.js'\" '  at node' 'Node.js v20' >&2"


def test_a_tool_of_a_server_is_offered_runs_and_answers(world: World) -> None:
    world.script(call("shop__price", item="tea"), say("Three coins."))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    assert world.turn(client)["finalText"] == "Three coins."
    assert {"shop__price", "shop__order"} <= set(offered_names(world))
    [item] = items(client, "toolCall")
    assert item["title"] == "shop: price"
    assert content_of(item) == "tea costs 3 coins"
    types = [record["event"]["type"] for record in world.records_of(conversation)]
    assert "agent.changed" in types  # The log has the tools as the model got them.
    assert stand(client)["status"] == "running"


def test_a_secret_is_put_in_by_its_name_and_masked_and_a_place_is_not(world: World) -> None:
    world.script(call("shop__price", item="tea"), call("shop__words"), say("Hm."))
    world.variables["COINS"] = "hush-9876543210"
    settings = mcp_server.settings("says", "${COINS}", "${HOME}/notes", "${UNKNOWN}")
    client = daemon(world, shop={**settings, "env": {"PRICE": "${COINS}"}})
    conversation = world.start(client)
    world.turn(client)
    price, words = items(client, "toolCall")
    assert content_of(price) == "tea costs <secret hidden> coins"
    assert content_of(words) == f"<secret hidden> {world.home}/notes ${{UNKNOWN}}"
    logs = [world.log_of(conversation), world.home / "daemon.log"]
    assert not [log for log in logs if b"hush-9876543210" in log.read_bytes()]


def test_lasting_answer_covers_the_tool_as_its_server_described_it(world: World) -> None:
    order = call("shop__order", item="tea")
    world.script(order, order, say("Ordered."))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client, options={"approval": "askRisky"})
    approval_event = client.wait_for_event(lambda p: p["event"]["type"] == "approval.requested")
    approval = approval_event["event"]["approval"]
    assert approval["title"] == "shop: order"
    always = {"approvalId": approval["id"], "digest": approval["digest"]}
    client.request("approval/respond", {**always, "optionId": "allow-folder"})
    assert world.turn(client)["finalText"] == "Ordered."
    assert len(items(client, "toolCall")) == 2
    # "Always" applies to the tool as its server described it at that time.
    client.request("conversation/close", {"conversationId": conversation})
    client = daemon(world, shop=mcp_server.settings("turns"))
    world.script(order, say("Paid."))
    world.start(client, options={"approval": "askRisky"})
    approval_event = client.wait_for_event(lambda p: p["event"]["type"] == "approval.requested")
    assert approval_event["event"]["approval"]["title"] == "shop: order"


def test_the_settings_choose_among_the_tools(world: World) -> None:
    world.script(say("Hm."))
    some = mcp_server.settings(allow=["price", "order"], deny=["order"])
    client = daemon(world, shop=some)
    world.start(client)
    world.turn(client)
    assert offered_names(world) == ["shop__price"]


def test_what_a_tool_raises_is_told_to_the_model(world: World) -> None:
    world.script(call("shop__order", item="moon"), say("Sold out."))
    client = daemon(world, shop=mcp_server.settings())
    world.start(client)
    world.turn(client)
    [item] = items(client, "toolCall")
    assert item["status"] == "failed"
    assert "Error executing tool order" in content_of(item)


def test_a_server_that_dies_in_a_call_is_started_again(world: World) -> None:
    world.script(call("shop__leave"), say("Gone."))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    world.turn(client)
    [item] = items(client, "toolCall")
    assert item["status"] == "failed"
    world.script(call("shop__price", item="tea"), say("Back."))
    world.send(client, conversation, "And now?")
    world.turn(client, nth=2)
    assert "tea costs" in content_of(items(client, "toolCall")[-1])


def test_an_interrupt_ends_a_call_that_hangs_and_a_deadline_does_too(world: World) -> None:
    world.script(call("shop__hang"))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    client.wait_for_event(lambda p: p["event"].get("status") == "running")
    client.request("conversation/interrupt", {"conversationId": conversation})
    assert world.turn(client)["status"] == "interrupted"

    # Progress extends the limit, at most six times; then the server is notified of the end. On a
    # busy machine, its answer to that may be late as well.
    second = daemon(world, shop=mcp_server.settings(timeoutS=1))
    world.script(call("shop__wait"), *[call("shop__was_cancelled")] * 3, say("Too slow."))
    world.start(second)
    assert world.turn(second)["finalText"] == "Too slow."
    late, *told_of_it = map(content_of, items(second, "toolCall"))
    assert "no answer within 6 s, though it reported progress" in late
    assert "yes" in told_of_it


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (mcp_server.settings("dies"), "no licence was found"),
        ({"command": "bash", "args": ["-c", NODE_CRASH]}, "Cannot find module 'a.js'"),
        ({"command": "no-such-server"}, "there is no program 'no-such-server'"),
        ({"url": "http://127.0.0.1:9/mcp"}, "connect"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_holds_up_nothing(
    world: World, settings: Json, says: str
) -> None:
    world.script(say("Without it."))
    client = daemon(world, status="failed", shop=settings)
    world.start(client)
    assert world.turn(client)["finalText"] == "Without it."
    state = stand(client)
    assert state["status"] == "failed"
    assert says in state["error"]
    [notice] = items(client, "notice")
    assert notice["title"] == "The MCP server 'shop' failed"


def test_a_server_that_never_answers_is_given_up_and_leaves_no_process(world: World) -> None:
    world.script(say("Without it."))
    client = daemon(world, status="starting", shop={**mcp_server.silent_tool(), "startTimeoutS": 3})
    world.start(client)
    assert world.turn(client)["finalText"] == "Without it."
    error = wait_for_notification(client, lambda server: server["status"] == "failed")["error"]
    assert "did not start within 3 s" in error
    child = int(error.rpartition(": ")[2])
    wait_until_gone([child])


def test_what_is_no_message_is_passed_over_and_a_too_long_one_is_an_error(
    world: World,
) -> None:
    world.script(call("shop__price", item="tea"), call("shop__flood"), say("Heard."))
    client = daemon(world, shop=mcp_server.settings("noisy"))
    world.start(client)
    world.turn(client)
    price, flood = items(client, "toolCall")
    assert "tea costs" in content_of(price)
    assert "longer than 8 MiB" in content_of(flood)


def test_a_flood_of_tools_is_capped_and_said(world: World) -> None:
    world.script(say("Hm."))
    client = daemon(world, shop=mcp_server.settings("many"))
    world.start(client)
    world.turn(client)
    assert len(stand(client)["tools"]) == 128
    left_out = stand(client)["omitted"]
    assert any("longer than 64 KiB" in reason for reason in left_out)
    assert any("only 128 tools" in reason for reason in left_out)


def test_a_tool_that_changes_after_it_was_offered_is_taken_back(world: World) -> None:
    world.script(call("shop__grow"), say("Grown."))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    world.turn(client)
    wait_for_notification(client, lambda server: bool(server.get("omitted")))
    world.script(say("Seen."))
    world.send(client, conversation, "And now?")
    world.turn(client, nth=2)
    assert "shop__refund" in offered_names(world)
    assert "shop__price" not in offered_names(world)
    assert "changed since it was first offered" in stand(client)["omitted"][0]


def test_an_interrupted_call_is_cancelled_at_the_server_though_it_tells_of_progress(
    world: World,
) -> None:
    world.script(call("shop__wait"))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    client.wait_for_event(lambda p: p["event"].get("status") == "running")
    client.request("conversation/interrupt", {"conversationId": conversation})
    world.script(call("shop__was_cancelled"), say("It was."))
    world.send(client, conversation, "And now?")
    world.turn(client, nth=2)
    assert content_of(items(client, "toolCall")[-1]) == "yes"


def test_a_server_that_hears_nothing_more_is_started_again(world: World) -> None:
    steps = [call("shop__deafen"), *[call("shop__price", item="tea")] * 2]
    world.script(*steps, say("Back."))
    client = daemon(world, shop=mcp_server.settings())
    world.start(client)
    world.turn(client)
    assert "tea costs" in content_of(items(client, "toolCall")[-1])


def test_what_a_server_asks_of_its_client_is_refused(world: World) -> None:
    world.script(call("shop__pry"), say("Refused."))
    client = daemon(world, shop=mcp_server.settings())
    world.start(client)
    world.turn(client)
    told_to_server = content_of(items(client, "toolCall")[0])
    for what in ("sampling", "elicitation"):
        assert f"{what}: refused" in told_to_server


@pytest.mark.own_daemon
def test_a_server_is_switched_off_and_on(world: World) -> None:
    world.script(say("One."), say("Two."), say("Three."))
    client = daemon(world, shop=mcp_server.settings())
    conversation = world.start(client)
    world.turn(client)
    off = client.request("mcp/setEnabled", {"server": "shop", "enabled": False})
    assert off["servers"][0]["status"] == "disabled"
    world.send(client, conversation, "two")
    world.turn(client, nth=2)
    assert offered_names(world) == []
    n_before = len(client.messages)
    client.request("mcp/restart", {"server": "shop"})
    # A turn waits ten seconds for a server, and a busy machine may need more for the start.
    wait_for_notification(client, lambda server: server["status"] == "running", after=n_before)
    world.send(client, conversation, "three")
    world.turn(client, nth=3)
    assert "shop__price" in offered_names(world)
    answer = client.error("mcp/restart", {"server": "shoe"})
    assert "no MCP server 'shoe'; known: shop" in str(answer)


def test_to_rename_or_delete_a_closed_conversation_starts_no_server(world: World) -> None:
    world.script(say("One."))
    first = world.daemon()
    conversation = world.start(first)
    world.turn(first)
    first.request("conversation/close", {"conversationId": conversation})
    settings = {"mcpServers": {"shop": mcp_server.settings()}}
    client = world.daemon(settings=settings)
    client.request("conversation/update", {"conversationId": conversation, "title": "Tea"})
    client.request("conversation/delete", {"conversationId": conversation})
    assert client.notifications("mcp/statusChanged") == []
    world.script(say("Two."))
    world.start(client)
    world.turn(client)
    wait_for_notification(client, lambda server: server["status"] == "running")


def test_a_repository_cannot_name_servers(world: World) -> None:
    (world.project / ".openhands").mkdir(exist_ok=True)
    config_text = '{"mcpServers": {"bad": {"command": "touch", "args": ["pwned"]}}}'
    (world.project / ".openhands" / "settings.json").write_text(config_text)
    world.script(say("Hm."))
    client = world.daemon()
    client.request("conversation/start", {"content": text("go")})
    world.turn(client)
    assert client.request("mcp/list") == {"servers": []}
    assert not (world.project / "pwned").exists()
