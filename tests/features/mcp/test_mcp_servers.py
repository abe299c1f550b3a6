"""Requests that several callers make of the MCP servers at the same time."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import mcp_server

from oh_daemon.common.cancel import CancelToken
from oh_daemon.common.masking import Masker
from oh_daemon.features.mcp.connections import ServerEnvironment, connect_pipes
from oh_daemon.features.mcp.servers import ServerPool
from oh_daemon.protocol.mcp import McpServerSettings
from oh_daemon.system.io_loop import run_on_loop
from oh_daemon.system.spawner import Process, Spawner

WITHIN_S = 90
SILENT = McpServerSettings(command="sleep", args=("1000",))


class World:
    """Servers that never get ready, and requests that are collected until `together` runs them."""

    def __init__(self, cwd: Path) -> None:
        self.servers_wanted = {"a": SILENT, "b": SILENT}
        self.coroutines: list[Coroutine[Any, Any, Any]] = []
        self._spawner = Spawner()
        around = ServerEnvironment(self._spawner, os.environ, Masker(), cwd)
        self.servers = ServerPool(self._ask, lambda: self.servers_wanted, around)

    def _ask(self, coroutine: Coroutine[Any, Any, Any], cancel: object) -> Any:  # noqa: ARG002 - the port's shape.
        self.coroutines.append(coroutine)

    async def together(self) -> None:
        """Run the collected requests side by side."""
        pending, self.coroutines = self.coroutines, []
        await asyncio.gather(*pending)

    async def close(self) -> None:
        await self.together()
        self.servers.close()
        await self.together()
        self._spawner.close()

    def at_work(self) -> list[str]:
        return sorted(t.get_name() for t in asyncio.all_tasks() if t.get_name().startswith("mcp-"))


def test_two_conversations_may_find_other_settings_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        world = World(tmp_path)
        world.servers.begin()
        await world.together()
        world.servers_wanted = {"c": SILENT}
        world.servers.begin()
        world.servers.begin()
        await world.together()
        assert world.at_work() == ["mcp-c"]
        await world.close()

    asyncio.run(check())


def test_a_server_that_is_restarted_twice_at_once_runs_once(tmp_path: Path) -> None:
    async def check() -> None:
        world = World(tmp_path)
        world.servers.begin()
        await world.together()
        world.servers.restart("a")
        world.servers.restart("a")
        await world.together()
        assert world.at_work() == ["mcp-a", "mcp-b"]
        world.servers.set_enabled("a", is_enabled=True)
        world.servers.set_enabled("a", is_enabled=False)
        await world.together()
        assert world.at_work() == ["mcp-b"]
        await world.close()

    asyncio.run(check())


def test_a_server_that_is_not_up_at_the_start_is_tried_again_and_nobody_waits_for_that(
    tmp_path: Path,
) -> None:
    """It stayed `failed` until somebody restarted it by hand."""
    program = tmp_path / "late"
    settings_by_name = {"late": McpServerSettings(command=str(program))}
    spawner, is_up, has_failed = Spawner(), threading.Event(), threading.Event()
    around = ServerEnvironment(spawner, os.environ, Masker(), tmp_path)
    servers = ServerPool(run_on_loop, lambda: settings_by_name, around)

    def look_up() -> None:
        for info in servers.infos():
            {"running": is_up, "failed": has_failed}.get(info.status, threading.Event()).set()

    servers.on_change = look_up
    servers.begin()
    assert has_failed.wait(WITHIN_S)
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {mcp_server.__file__}\n")
    program.chmod(0o755)
    assert servers.tools(CancelToken()) == []
    assert not is_up.is_set(), "the first pause is not over"
    servers.first_pause_s = 0.0
    servers.tools(CancelToken())
    assert is_up.wait(WITHIN_S)
    assert servers.tools(CancelToken())
    servers.close()
    spawner.close()


def test_one_that_is_stopped_while_it_starts_gets_its_own_pipes_and_is_ended(
    tmp_path: Path,
) -> None:
    begins, is_stopped = threading.Event(), threading.Event()
    processes: list[Process] = []
    spawner = Spawner()

    def spawn(fds: Sequence[int]) -> Process:
        begins.set()
        assert is_stopped.wait(WITHIN_S)
        argv, env = ["sleep", "1000"], {"PATH": os.environ["PATH"]}
        processes.append(spawner.spawn(argv, cwd=tmp_path, env=env, fds=list(fds)))
        return processes[0]

    async def start() -> None:
        async with connect_pipes(spawn, deque[str](), lambda: None):
            raise AssertionError("it was stopped before")

    async def check() -> None:
        starting = asyncio.create_task(start())
        await asyncio.to_thread(begins.wait, WITHIN_S)
        starting.cancel()
        await asyncio.sleep(0)
        is_stopped.set()
        await asyncio.wait([starting])
        assert starting.cancelled()

    asyncio.run(check())
    assert processes[0].exit_code.result(WITHIN_S) != 0
    spawner.close()


def test_who_refreshes_a_token_too_late_goes_on_with_the_other_daemons_token(
    tmp_path: Path,
) -> None:
    def tokens(name: str, expires_at: float) -> dict[str, Any]:
        client = {"client_id": "us", "redirect_uris": ["http://127.0.0.1:9/callback"]}
        both = {"access_token": f"access-{name}", "refresh_token": f"refresh-{name}"}
        token_fields = {**both, "token_type": "Bearer"}
        return {"tokens": token_fields, "expiresAt": expires_at, "client": client}

    urls: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # The library calls this name.
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/token":
                token_store[url] = tokens("new", 9e9)
                self.send_error(400)
                return
            urls.append(self.headers["Authorization"])
            self.send_error(500 if urls[-1] == "Bearer access-new" else 401)

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as listening:
        url = f"http://127.0.0.1:{listening.server_port}/mcp"
        token_store: dict[str, Any] = {url: tokens("old", 1)}
        serving = threading.Thread(target=listening.serve_forever)
        serving.start()
        spawner = Spawner()
        around = ServerEnvironment(spawner, os.environ, Masker(), tmp_path, token_store)
        settings_by_name = {"far": McpServerSettings(url=url)}
        servers = ServerPool(run_on_loop, lambda: settings_by_name, around)
        servers.begin()
        servers.tools(CancelToken())
        [info] = servers.infos()
        servers.close()
        listening.shutdown()
        serving.join()
        spawner.close()
    assert "Bearer access-new" in urls
    assert info.status == "failed"


def test_servers_of_conversations_are_listed_and_controlled_with_those_of_settings(
    tmp_path: Path,
) -> None:
    """The browser's server was missing in `mcp/list`."""
    spawner = Spawner()
    around = ServerEnvironment(spawner, os.environ, Masker(), tmp_path)
    missing, shop = (
        McpServerSettings(command="no-such-server"),
        McpServerSettings(command=sys.executable, args=(mcp_server.__file__,)),
    )
    pool = ServerPool(run_on_loop, lambda: {"shop": missing}, around)
    changes: list[str] = []
    pool.on_change = lambda: changes.append("")
    first = pool.beside(lambda: {"browser": missing, "shop": shop}, tmp_path)
    second = pool.beside(lambda: {"browser": shop}, tmp_path)
    for each in (pool, first, second):
        each.begin()
        each.wait_s = WITHIN_S
        each.tools(CancelToken())
    # A server of the settings counts in any case, otherwise one that runs.
    statuses = {info.name: info.status for info in pool.infos()}
    assert statuses == {"browser": "running", "shop": "failed"}
    assert {info.name: info.status for info in first.own_infos()} == {
        "browser": "failed",
        "shop": "running",
    }
    assert changes
    pool.set_enabled("browser", is_enabled=False)
    assert [info.status for info in second.own_infos()] == ["disabled"]
    second.close()
    first.close()
    assert [info.name for info in pool.infos()] == ["shop"]
    pool.close()
    spawner.close()
