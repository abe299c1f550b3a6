"""Rules for every suite: long loops on request, no skips in CI, and no process left behind.

At the end of a run stands how long the tests of each folder took. `world` gives a test a project, a
scripted model and the real daemon; tests of modules marked `one_daemon` share a daemon.

Two workers run the tests of VS Code, each in a window of its own, and the others begin with the
rest. One worker compares with litellm, which takes five seconds to import.
"""

import itertools
import os
import random
import re
import subprocess
import uuid
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
import starts
from fake_llm import FakeLLM
from hypothesis import HealthCheck, settings
from world import Common, World
from xdist.scheduler import LoadScopeScheduling

TOGETHER = re.compile(
    r"(?P<vscode_to_e>tests/editors/vscode/test_[a-e])|(?P<vscode>tests/editors/vscode/)"
    r"|(?P<litellm>tests/features/models/test_(?:both_ways|price_table|request_healing))"
)
"""Matches the names of tests that one worker runs: those of one group, one after another."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

SEED_VARIABLE = "OH_TEST_SEED"
"""The seed of everything that a test leaves to chance."""
RUN_VARIABLE = "OH_TEST_RUN"
"""Every child process inherits it, so a leftover of this run can be told from other processes."""
HAS_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked `full`")
    parser.addoption("--live", action="store_true", help="also run the tests with a real model")


def pytest_configure(config: pytest.Config) -> None:
    _make_chance_repeatable(is_full=bool(config.getoption("--full")))
    # The fake model's scripts plan every request, so the daemon must not ask for titles by itself.
    os.environ["OH_DAEMON_TITLES"] = "false"
    # Most tests are about what is asked and run as such; those of the sandbox name their level,
    # and those of terminals run at several.
    os.environ["OH_DAEMON_SANDBOX"] = os.environ.get("OH_TEST_SANDBOX", "off")
    # The variables are those of a terminal, wherever the tests are started.
    os.environ["SHLVL"] = "1"
    if _is_controller(config):
        os.environ[RUN_VARIABLE] = uuid.uuid4().hex


def pytest_report_header() -> str:
    return f"{SEED_VARIABLE}={os.environ[SEED_VARIABLE]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that nobody asked for; to skip them would be a failure in CI."""
    excluded_marks = [name for name in ("full", "live") if not config.getoption(f"--{name}")]
    left_out = [item for item in items if any(map(item.get_closest_marker, excluded_marks))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


class SomeTogether(LoadScopeScheduling):
    """Hands out single tests, but those that share what is expensive all at once, and first."""

    def _split_scope(self, nodeid: str) -> str:
        group = TOGETHER.match(nodeid)
        return group.lastgroup if group and group.lastgroup else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SomeTogether:
    return SomeTogether(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = _without_skip((yield))
    item.stash[HAS_FAILED] = item.stash.get(HAS_FAILED, False) or report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skip((yield))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    starts.end()
    if not _is_controller(session.config):
        return
    # xdist's workers are still ending here, so wait for them; a real leftover outlives any wait.
    _, survivors = psutil.wait_procs(_processes_of_this_run(), timeout=60)
    for process in survivors:
        print(f"\nleft behind by a test: {process}")  # noqa: T201 - the run's final report.
        process.kill()
    if survivors and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds = defaultdict[str, float](float)
    for report in itertools.chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0].rpartition("/")[0]] += report.duration
    terminalreporter.section("seconds by folder, of all workers together")
    for folder, sum_s in sorted(seconds.items()):
        terminalreporter.line(f"{sum_s:8.1f}  {folder}")


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


def _make_chance_repeatable(*, is_full: bool) -> None:
    """Try the same cases in each run; only a full run looks for new ones, and it names its seed."""
    os.environ.setdefault(
        SEED_VARIABLE, str(random.SystemRandom().getrandbits(32) if is_full else 1)
    )
    # There is no deadline: how long a case takes depends on what else the machine does.
    patient_settings = settings(
        deadline=None,
        database=None,
        derandomize=not is_full,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("patient", patient_settings)
    settings.load_profile("patient")


def _is_controller(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput")


def _without_skip(report: Report) -> Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


def _processes_of_this_run() -> list[psutil.Process]:
    mark = f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode()
    return [process for process in psutil.process_iter() if mark in _environment(process)]


def _environment(process: psutil.Process) -> bytes:
    try:
        return Path(f"/proc/{process.pid}/environ").read_bytes()
    except OSError:
        return b""  # The process has ended, is a kernel thread or belongs to another user.
