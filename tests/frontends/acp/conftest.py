"""An agent that speaks ACP, for the project of a world, with the scripted model behind it."""

from collections.abc import Callable, Sequence

import pytest
from acp_client import AcpClient
from command_line import PLAIN
from world import World

from oh_daemon.storage.user_state import UserState

Start = Callable[..., AcpClient]


@pytest.fixture
def start(world: World) -> Start:
    """Start an agent; it is checked and ended after the test."""

    def begin(*, is_trusted: bool = True, without: Sequence[str] = ()) -> AcpClient:
        if is_trusted:
            UserState(world.home / "decisions.json").set_trust(world.project, "full")
        env = {**PLAIN, **world.environment}
        return world.stack.enter_context(AcpClient(world.project, env, without=without))

    return begin


@pytest.fixture
def client(start: Start) -> AcpClient:
    """An agent that is initialized, in a project that the user trusts."""
    start_result = start()
    start_result.initialize()
    return start_result
