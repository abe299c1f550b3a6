"""What two callers may ask of the MCP servers at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from oh_daemon.contract.mcp import McpServerSettings
from oh_daemon.core.secrets import Masker
from oh_daemon.mcp_servers.connections import Surroundings
from oh_daemon.mcp_servers.servers import McpServers
from oh_daemon.workspace.spawner import Spawner


class World:
    """Servers that never get ready, and a loop on which requests wait for each other."""

    def __init__(self, cwd: Path) -> None:
        self.wanted = {name: McpServerSettings(command="cat") for name in ("a", "b")}
        self.asked: list[Coroutine[Any, Any, Any]] = []
        self._spawner = Spawner()
        around = Surroundings(self._spawner, os.environ, Masker(), cwd)
        self.servers = McpServers(self._ask, lambda: self.wanted, around)

    def _ask(self, coroutine: Coroutine[Any, Any, Any], cancel: object) -> Any:  # noqa: ARG002 - the port's shape.
        self.asked.append(coroutine)

    async def together(self) -> None:
        """Run what was asked for, side by side."""
        asked, self.asked = self.asked, []
        await asyncio.gather(*asked)

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
        world.wanted = {"c": McpServerSettings(command="cat")}
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
        world.servers.set_enabled("a", enabled=True)
        world.servers.set_enabled("a", enabled=False)
        await world.together()
        assert world.at_work() == ["mcp-b"]
        await world.close()

    asyncio.run(check())
