"""The servers under test: the base layer alone, and the product as editors start it."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from raw_client import RawClient

ECHO_SERVER = (sys.executable, str(Path(__file__).with_name("echo_server.py")))
PRODUCT = (sys.executable, "-m", "oh_daemon", "--stdio")

Spawn = Callable[..., RawClient]


def _subjects() -> dict[str, tuple[str, ...]]:
    has_product = importlib.util.find_spec("oh_daemon.__main__") is not None
    return {"echo": ECHO_SERVER, **({"product": PRODUCT} if has_product else {})}


def _spawner(command: tuple[str, ...], home: Path, stack: ExitStack) -> Spawn:
    def spawn(**options: Any) -> RawClient:
        folders = {f"XDG_{kind}_HOME": str(home / kind) for kind in ("STATE", "CONFIG", "CACHE")}
        env = {"HOME": str(home), **folders, **options.pop("env", {})}
        return stack.enter_context(RawClient.start(command, home, env, **options))

    return spawn


@pytest.fixture(params=sorted(_subjects()))
def spawn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Spawn]:
    """Start the server under test, not initialized; check and end it after the test."""
    with ExitStack() as stack:
        yield _spawner(_subjects()[request.param], tmp_path, stack)


@pytest.fixture
def spawn_echo(tmp_path: Path) -> Iterator[Spawn]:
    """Start the echo server, for faults that the product cannot produce."""
    with ExitStack() as stack:
        yield _spawner(ECHO_SERVER, tmp_path, stack)


@pytest.fixture
def client(spawn: Spawn) -> RawClient:
    """The server under test, initialized."""
    started = spawn()
    started.initialize()
    return started


@pytest.fixture
def echo(spawn_echo: Spawn) -> RawClient:
    """The echo server, initialized."""
    started = spawn_echo()
    started.initialize()
    return started
