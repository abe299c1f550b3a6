"""One world per test. In the modules that are marked `one_daemon` they share a daemon."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fake_llm import FakeLLM
from world import Common, World


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Common]:
    with ExitStack() as stack:
        llm = stack.enter_context(FakeLLM())
        yield Common(tmp_path_factory.mktemp("home"), llm, stack)


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    with ExitStack() as stack:
        marker = request.node.get_closest_marker
        if marker("one_daemon") and not marker("own_daemon"):
            common: Common = request.getfixturevalue("common")
            world = World(project, common.home, common.llm, stack, common=common)
            stack.callback(common.take_back, world)
            yield world
            return
        home.mkdir()
        llm = stack.enter_context(FakeLLM())
        yield World(project, home, llm, stack)
