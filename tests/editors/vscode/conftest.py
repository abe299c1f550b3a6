"""The extension, packed and installed once a worker; a VS Code and a model for each test."""

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fake_llm import FakeLLM
from playwright.async_api import async_playwright, expect
from window import (
    HOST,
    WAIT_MS,
    Server,
    VSCode,
    browser_options,
    code_server,
    host_environment,
    new_page,
)

EXTENSION = Path(__file__).parents[3] / "editors/vscode"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)
FAILURES = os.environ.get("OH_TEST_SCREENSHOTS")
"""A folder for a picture of each window at the end of its test."""
CALC = "def add(a, b):\n    return a - b\n"

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packed extension installed, as a user gets it."""
    if not (CHROMIUM and HOST.exists() and (EXTENSION / "oh.vsix").exists()):
        pytest.skip("needs a Chromium on the PATH, and what `make editors` makes")
    home, folder = tmp_path_factory.mktemp("installer"), tmp_path_factory.mktemp("extensions")
    install = code_server(home, folder, "--install-extension", str(EXTENSION / "oh.vsix"))
    subprocess.run(
        install, env=host_environment(home), check=True, capture_output=True, timeout=120
    )
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
    home = tmp_path / "home"
    environment = {
        "OH_DAEMON_HOME": str(home / "oh"),
        "OH_DAEMON_MODEL": "openai/fake",
        "OH_DAEMON_BASE_URL": llm.url,
        "OH_DAEMON_API_KEY": "sk-test-abcdefghijklmnop123456",
    }
    return Server(home, extensions, environment)


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


@asynccontextmanager
async def opened_window(server: Server, project: Path, llm: FakeLLM) -> AsyncGenerator[VSCode]:
    """The browser goes first: then the extension host ends by itself, and the daemon with it."""
    address = server.start()
    complaints: list[str] = []
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=list(browser_options())
            )
            page = await new_page(browser, complaints, width=1200, height=900)
            try:
                yield VSCode(project, llm, address, page, complaints)
            finally:
                if FAILURES:
                    await page.screenshot(path=Path(FAILURES) / f"{project.parent.name}.png")
                await browser.close()
    finally:
        server.stop()
    assert complaints == []
