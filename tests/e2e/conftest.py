"""One world per test."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fake_llm import FakeLLM
from world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    with ExitStack() as stack:
        llm = stack.enter_context(FakeLLM())
        yield World(project, home, llm, stack)
