"""The extension, packed and installed once; a VS Code and a model for each test.

The tests of modules that are marked `one_window` share one VS Code, one after the other.
"""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from code_server import EXTENSION, HOST, WAIT_MS, Server, install_extension
from common_window import CommonWindow, make_project
from fake_llm import FakeLLM
from playwright.async_api import expect
from window import CHROMIUM, VSCode, keep_last_sight, opened_window

expect.set_options(timeout=WAIT_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Use one event loop for all tests: what outlives a test needs a loop that does too."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


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
    return make_project(tmp_path)


@pytest.fixture
def server(tmp_path: Path, llm: FakeLLM, extensions: Path) -> Server:
    """A server that has not started, so that a test can change its settings and environment."""
    return Server.with_model(tmp_path / "home", extensions, llm.url)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def common(
    tmp_path_factory: pytest.TempPathFactory, extensions: Path
) -> AsyncGenerator[CommonWindow]:
    window = CommonWindow(lambda: tmp_path_factory.mktemp("window"), extensions)
    yield window
    await window.close()


@pytest_asyncio.fixture(loop_scope="session")
async def vscode(
    request: pytest.FixtureRequest, common: CommonWindow, tmp_path: Path
) -> AsyncGenerator[VSCode]:
    """Yield the common window, or one of the test's own, which is not open yet."""
    if request.node.get_closest_marker("one_window"):
        n_failed = request.session.testsfailed
        lease = await common.lend()
        yield lease
        await keep_last_sight(lease, tmp_path.name)
        await common.take_back(has_passed=request.session.testsfailed == n_failed)
        return
    server, project, llm = map(request.getfixturevalue, ("server", "project", "llm"))
    async with opened_window(server, project, llm) as window:
        yield window


@pytest_asyncio.fixture(loop_scope="session")
async def vscode_without_model(
    server: Server, project: Path, llm: FakeLLM
) -> AsyncGenerator[VSCode]:
    home = str(server.home / "oh")
    addresses = dict.fromkeys(("OPENAI_BASE_URL", "OLLAMA_API_BASE"), llm.url)
    server.environment = {"OH_DAEMON_HOME": home, **addresses}
    async with opened_window(server, project, llm) as window:
        yield window
