"""MCP servers at an address: both transports, what is sent to them, what they may not do."""

import json

import pytest
from fake_llm import call, say
from mcp_world import daemon, free_port, serving, stand
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon


@pytest.mark.parametrize(("transport", "path"), [("http", "mcp"), ("sse", "sse")])
def test_a_server_behind_an_address_works_and_gets_its_headers(
    world: World, transport: str, path: str
) -> None:
    world.script(call("shop__price", item="tea"), call("shop__headers"), say("Three coins."))
    world.variables["COINS"] = "hush-9876543210"
    with serving(transport) as port:
        url = f"http://127.0.0.1:{port}/{path}"
        settings = {"url": url, "transport": transport, "headers": {"X-Key": "id ${COINS}"}}
        client = daemon(world, shop=settings)
        conversation = world.start(client)
        world.turn(client)
    price, headers = items(client, "toolCall")
    assert content_of(price) == "tea costs 3 coins"
    assert json.loads(content_of(headers))["x-key"] == "id <secret hidden>"
    logs = [world.log_of(conversation), world.home / "daemon.log"]
    assert not [log for log in logs if b"hush-9876543210" in log.read_bytes()]


@pytest.mark.parametrize(("transport", "path"), [("http", "mcp"), ("sse", "sse")])
def test_a_server_that_comes_back_at_its_address_is_reached_again(
    world: World, transport: str, path: str
) -> None:
    port = free_port()
    address = {"url": f"http://127.0.0.1:{port}/{path}", "transport": transport}
    with serving(transport, port):
        client = daemon(world, shop=address)
    with serving(transport, port):
        # It may take the first call to find the old connection dead, and a while to replace it.
        world.script(
            *(call("shop__price", item=item) for item in ("salt", "oil", "tea")), say("Ok.")
        )
        world.start(client)
        world.turn(client)
        assert content_of(items(client, "toolCall")[-1]) == "tea costs 3 coins"


@pytest.mark.parametrize(("transport", "path"), [("http", "mcp"), ("sse", "sse")])
def test_a_redirect_to_another_address_is_not_followed(
    world: World, transport: str, path: str
) -> None:
    with serving(transport) as target:
        address = f"http://127.0.0.1:{target}/{path}"
        with serving("redirects", None, address) as port:
            url = f"http://127.0.0.1:{port}/{path}"
            client = daemon(world, status="failed", shop={"url": url, "transport": transport})
            assert "edirect" in stand(client)["error"]
            assert address in stand(client)["error"]
