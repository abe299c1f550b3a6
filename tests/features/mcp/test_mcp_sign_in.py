"""Servers that require the user to sign in: in the browser, refused, again after a restart."""

import json
import stat
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest
from fake_llm import call, say
from mcp_world import browse, daemon, serving, stand, vault, wait_for_notification
from raw_client import RawClient
from world import World, content_of, items

pytestmark = pytest.mark.one_daemon


def begin(client: RawClient) -> str:
    return client.request("mcp/authenticate", {"server": "vault"})["url"]


def kept_paths(world: World) -> list[Path]:
    """Return the files kept about servers, also by daemons of other tests, which share the home."""
    return list((world.home / "state/mcp").glob("*.json"))


@contextmanager
def far_away(server_name: str) -> Generator[tuple[int, list[str]]]:
    """Run the proxy to a public server that names an address of this machine for signing in.

    Yield its port, on which `named` is also reachable, and the requests that reach it directly.
    """
    direct: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/"):
                direct.append(self.path)
                self.send_error(404)
                return
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            resource = "http://vault.example/mcp"
            at = server_name.format(port=port)
            metadata = {"resource": resource, "authorization_servers": [at]}
            body = json.dumps(metadata).encode() if self.path.endswith("/meta") else b""
            self.send_response(200 if body else 401)
            challenge = 'Bearer resource_metadata="http://vault.example/meta"'
            self.send_header("WWW-Authenticate", challenge)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name is given.

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - given.
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_address[1]
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield port, direct
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("wrong_name", ["http://127.0.0.1:{port}", "http://localhost:{port}/a"])
def test_a_public_server_cannot_send_us_into_the_users_network(
    world: World, wrong_name: str
) -> None:
    with far_away(wrong_name) as (port, direct):
        inside = "127.0.0.1,localhost"
        proxy = f"http://127.0.0.1:{port}"
        world.variables.update(http_proxy=proxy, no_proxy=inside, NO_PROXY=inside)
        vault = {"url": "http://vault.example/mcp"}
        client = daemon(world, status="authRequired", vault=vault)
        assert "url" not in client.request("mcp/authenticate", {"server": "vault"})
        status = wait_for_notification(
            client, lambda server: "error" in server and server["status"] == "failed"
        )
        assert direct == []
        assert "on this machine or in its network" in status["error"]


def test_the_user_signs_in_with_the_browser_and_stays_signed_in(world: World) -> None:
    other_paths = kept_paths(world)
    world.script(say("Not yet."))
    with vault() as settings:
        client = daemon(world, status="authRequired", vault=settings)
        conversation = world.start(client)
        world.turn(client)
        assert "with `oh-daemon mcp login`" in stand(client, "vault")["error"]
        [notice] = items(client, "notice")
        assert notice["title"] == "The MCP server 'vault' is left out"

        assert "go back to where you came from" in browse(begin(client))
        wait_for_notification(client, lambda server: server["status"] == "running")
        world.script(call("vault__open_vault"), say("Gold."))
        world.send(client, conversation, "And now?")
        world.turn(client, nth=2)
        assert content_of(items(client, "toolCall")[0]) == "gold"

        second = daemon(world, vault=settings)
        assert stand(second, "vault")["status"] == "running"
    [file] = set(kept_paths(world)).difference(other_paths)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    tokens = json.loads(file.read_bytes())["tokens"]
    logs = [world.log_of(conversation), world.home / "daemon.log"]
    for secret in (tokens["access_token"], tokens["refresh_token"]):
        assert not [log for log in logs if secret.encode() in log.read_bytes()]


def test_an_old_token_is_refreshed_for_all_daemons_without_the_user(world: World) -> None:
    other_paths = kept_paths(world)
    with vault() as settings:
        client = daemon(world, status="authRequired", vault=settings)
        browse(begin(client))
        wait_for_notification(client, lambda server: server["status"] == "running")
        [file] = set(kept_paths(world)).difference(other_paths)
        first = json.loads(file.read_bytes())
        file.write_text(json.dumps({**first, "expiresAt": 1}))
        second = daemon(world, vault=settings)
        assert stand(second, "vault")["status"] == "running"
        now = json.loads(file.read_bytes())
        assert now["tokens"]["access_token"] != first["tokens"]["access_token"]
        assert now["expiresAt"] > first["expiresAt"] - 60

        # The tokens of the first daemon are refused from now on.
        world.script(call("vault__open_vault"), say("Gold."))
        world.start(client)
        world.turn(client)
        assert content_of(items(client, "toolCall")[0]) == "gold"


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_call_with_a_revoked_token_ends_at_once(world: World, transport: str) -> None:
    world.script(call("vault__revoke"), call("vault__open_vault"), say("Closed."))
    with vault(transport=transport) as settings:
        client = daemon(world, status="authRequired", vault=settings)
        browse(begin(client))
        wait_for_notification(client, lambda server: server["status"] == "running")
        world.start(client)
        assert world.turn(client)["finalText"] == "Closed."
        assert "with `oh-daemon mcp login`" in content_of(items(client, "toolCall")[1])
        assert stand(client, "vault")["status"] == "authRequired"


def test_who_is_refused_may_try_again_and_nobody_else_can_answer(world: World) -> None:
    with vault("denies") as settings:
        client = daemon(world, status="authRequired", vault=settings)
        url = begin(client)
        [back] = parse_qs(urlsplit(url).query)["redirect_uri"]
        assert back.startswith("http://127.0.0.1:")
        too_long = f"{back}?code={'x' * 100_000}"
        no_address = back.replace("/callback", "//[")
        wrong_place = back.replace("/callback", "/")
        guessed_url = f"{back}?code=x&state=guessed"
        for forged_url in (guessed_url, back, wrong_place, too_long, no_address):
            with pytest.raises(HTTPError, match="404") as error_info:
                browse(forged_url)
            error_info.value.close()
        browse(url)
        wait_for_notification(
            client, lambda server: r"\x1b[31mnot \u202eyou" in server.get("error", "")
        )
        assert "Unhandled exception" not in client.stderr
        assert stand(client, "vault")["status"] == "authRequired"
        assert begin(client) != url


@pytest.mark.own_daemon
def test_signing_in_ends_with_the_server_and_its_port_is_closed(world: World) -> None:
    with vault() as settings:
        client = daemon(world, status="authRequired", vault=settings)
        [back] = parse_qs(urlsplit(begin(client)).query)["redirect_uri"]
        off = client.request("mcp/setEnabled", {"server": "vault", "enabled": False})
        assert off["servers"][0]["status"] == "disabled"
        with pytest.raises(OSError, match="refused"):
            browse(back)


def test_only_a_server_with_an_address_is_signed_in_to(world: World) -> None:
    with serving() as port:
        client = daemon(world, shop={"url": f"http://127.0.0.1:{port}/mcp"})
        assert "url" not in client.request("mcp/authenticate", {"server": "shop"})
    second = daemon(world, status="failed", shop={"command": "no-such-server"})
    assert "with a `url`" in str(second.error("mcp/authenticate", {"server": "shop"}))
