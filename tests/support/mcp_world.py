"""Daemons with MCP servers, and servers that listen on a port."""

import os
import random
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import mcp_auth_server
import mcp_server
import starts
from raw_client import RawClient
from world import World

Json = dict[str, Any]


def daemon(world: World, *, status: str = "running", **servers: Json) -> RawClient:
    """Start a daemon and wait until one of its servers has this status."""
    client = world.daemon(settings={"mcpServers": servers})
    client.request("mcp/list")
    wait_for_notification(client, lambda server: server["status"] == status)
    return client


def stand(client: RawClient, name: str = "shop") -> Json:
    servers = client.request("mcp/list")["servers"]
    return next(server for server in servers if server["name"] == name)


def wait_for_notification(
    client: RawClient, is_wanted: Callable[[Json], bool], *, after: int = 0
) -> Json:
    """Wait for the first `mcp/statusChanged` with a wanted server; return its first server.

    The first messages are left out, as many as `after` says.
    """

    def is_found(message: Json) -> bool:
        return message.get("method") == "mcp/statusChanged" and any(
            map(is_wanted, message["params"]["servers"])
        )

    n_before = sum(map(is_found, client.messages[:after]))
    return client.wait_for(is_found, nth=n_before + 1)["params"]["servers"][0]


def offered_names(world: World) -> list[str]:
    """Return the names of the MCP tools that the last request offers the model."""
    tools = world.llm.requests[-1].body.get("tools", ())
    return [t["function"]["name"] for t in tools if "__" in t["function"]["name"]]


def free_port() -> int:
    """Return a port below those that the system assigns, so that it stays free until it is used."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def serving(
    transport: str = "http",
    port: int | None = None,
    *words: str,
    program: str = mcp_server.__file__,
) -> Generator[int]:
    """Run one of these servers on a port of this machine; yield the port once it listens."""
    port = port or free_port()
    argv = [sys.executable, program, transport, str(port), *words]
    with starts.start(argv, env=os.environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            next(line for line in process.stderr if "running on" in line)
            yield port
        finally:
            process.kill()


@contextmanager
def vault(answer: str = "agrees", transport: str = "http") -> Generator[Json]:
    """Run the server `vault`, which wants its users to sign in, and yield its settings."""
    program = mcp_auth_server.__file__
    with serving(transport, None, answer, program=program) as port:
        path = mcp_auth_server.PATHS[transport]
        yield {"url": f"http://127.0.0.1:{port}{path}", "transport": transport}


def browse(url: str) -> str:
    """Follow the page like a browser, which is redirected to the daemon; return what that shows."""
    with urllib.request.urlopen(url, timeout=60) as page:
        return page.read().decode()
