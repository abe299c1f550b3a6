"""One world per test. The tests of modules that are marked `one_daemon` share a daemon."""

import subprocess
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from fake_llm import FakeLLM
from world import Common, World

HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[HAS_FAILED] = item.stash.get(HAS_FAILED, False) or report.failed
    return report


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
            has_failed = partial(request.node.stash.get, HAS_FAILED, False)
            stack.callback(lambda: common.take_back(world, has_failed=has_failed()))
            yield world
            return
        home.mkdir()
        llm = stack.enter_context(FakeLLM())
        yield World(project, home, llm, stack)
