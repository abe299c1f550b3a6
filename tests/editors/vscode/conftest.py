"""The extension, packed and installed once a worker; a VS Code and a model for each test."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from fake_llm import FakeLLM
from playwright.async_api import expect
from window import (
    CHROMIUM,
    EXTENSION,
    HOST,
    WAIT_MS,
    Server,
    VSCode,
    install_extension,
    opened_window,
)

CALC = "def add(a, b):\n    return a - b\n"

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packed extension installed, as a user gets it."""
    if not (CHROMIUM and HOST.exists() and (EXTENSION / "oh.vsix").exists()):
        pytest.skip("needs a Chromium on the PATH, and what `make editors` makes")
    home, folder = tmp_path_factory.mktemp("installer"), tmp_path_factory.mktemp("extensions")
    install_extension(home, folder)
    return folder


@pytest.fixture
def llm() -> Generator[FakeLLM]:
    with FakeLLM() as fake:
        yield fake


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "calc.py").write_text(CALC)
    return folder


@pytest.fixture
def server(tmp_path: Path, llm: FakeLLM, extensions: Path) -> Server:
    """Not started yet, so that a test can change its settings and environment."""
    return Server.with_model(tmp_path / "home", extensions, llm.url)


@pytest.fixture
async def vscode(server: Server, project: Path, llm: FakeLLM) -> AsyncGenerator[VSCode]:
    """A window that is not open yet."""
    async with opened_window(server, project, llm) as opened:
        yield opened


@pytest.fixture
async def vscode_without_model(
    server: Server, project: Path, llm: FakeLLM
) -> AsyncGenerator[VSCode]:
    server.environment = {"OH_DAEMON_HOME": str(server.home / "oh")}
    async with opened_window(server, project, llm) as opened:
        yield opened


@pytest.fixture
async def vscode_without_daemon(
    server: Server, project: Path, llm: FakeLLM
) -> AsyncGenerator[VSCode]:
    server.settings = {"oh.daemon.command": [str(project / "missing")]}
    async with opened_window(server, project, llm) as opened:
        yield opened
