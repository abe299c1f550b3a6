"""The servers under test: the base layer alone, and the product as editors start it.

The tests of modules that are marked `one_daemon` share one server of each kind.
"""

import importlib.util
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import TESTS
from raw_client import RawClient

ECHO_SERVER = (sys.executable, str(TESTS / "support/echo_server.py"))
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


class Shared:
    """Initialized servers that tests use one after the other, by the name of the subject."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self._home = home
        self._stack = stack
        self._clients_at_rest: dict[str, RawClient] = {}

    @contextmanager
    def lend(self, subject: str) -> Generator[RawClient]:
        """Lend a server. It is lent again if the test has left nothing open, and not ended it."""
        client = self._clients_at_rest.pop(subject, None) or self._start(subject)
        with ExitStack() as cleanup:
            cleanup.callback(client.kill)
            yield client
            client.settle()
            cleanup.pop_all()
        self._clients_at_rest[subject] = client

    def _start(self, subject: str) -> RawClient:
        client = _spawner(_subjects()[subject], self._home, self._stack)()
        client.initialize()
        return client


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with ExitStack() as stack:
        yield Shared(tmp_path_factory.mktemp("home"), stack)


@pytest.fixture(params=sorted(_subjects()))
def subject(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def spawn(subject: str, tmp_path: Path) -> Iterator[Spawn]:
    """Start the server under test, not initialized; check and end it after the test."""
    with ExitStack() as stack:
        yield _spawner(_subjects()[subject], tmp_path, stack)


@pytest.fixture
def spawn_echo(tmp_path: Path) -> Iterator[Spawn]:
    """Start the echo server, for faults that the product cannot produce."""
    with ExitStack() as stack:
        yield _spawner(ECHO_SERVER, tmp_path, stack)


@pytest.fixture
def spawn_product(tmp_path: Path) -> Iterator[Spawn]:
    """Start the product, for what only its imports show."""
    with ExitStack() as stack:
        yield _spawner(PRODUCT, tmp_path, stack)


@pytest.fixture
def client(request: pytest.FixtureRequest, subject: str) -> Iterator[RawClient]:
    """The server under test, initialized."""
    yield from _initialized_client(request, subject, "spawn")


@pytest.fixture
def echo(request: pytest.FixtureRequest) -> Iterator[RawClient]:
    """The echo server, initialized."""
    yield from _initialized_client(request, "echo", "spawn_echo")


def _initialized_client(
    request: pytest.FixtureRequest, subject: str, own: str
) -> Iterator[RawClient]:
    marker = request.node.get_closest_marker
    if marker("one_daemon") and not marker("own_daemon"):
        shared: Shared = request.getfixturevalue("shared")
        with shared.lend(subject) as client:
            yield client
        return
    client: RawClient = request.getfixturevalue(own)()
    client.initialize()
    yield client
