"""What one test works with: a project, a scripted model, editors with the real daemon."""

import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_llm import FakeLLM, Step
from neovim_editor import DAEMON, Neovim

CODE = 'def add(a, b):\n    """Add two numbers."""\n    return a - b\n\n\nprint(add(2, 3))\n'


@dataclass
class Workspace:
    """What one test works with."""

    project: Path
    llm: FakeLLM
    environment: Mapping[str, str]
    """The environment of every editor: a home of its own, and where the model is."""
    start: Callable[..., Neovim]

    @property
    def file(self) -> Path:
        return self.project / "calc.py"

    def script(self, *steps: Step) -> None:
        self.llm.add(*steps)

    def prompts(self) -> str:
        """Return what the model was told last, as text."""
        return str(self.llm.requests[-1].body["messages"])

    def tool_results(self) -> list[str]:
        """Return what the tools answered so far, as the model was told last."""
        messages = self.llm.requests[-1].body["messages"]
        return [message["content"] for message in messages if message["role"] == "tool"]


@contextmanager
def workspace_in(folder: Path, daemon: Sequence[str] = DAEMON) -> Generator[Workspace]:
    """Make a workspace in an empty folder; its editors end with it, and start this daemon."""
    project, home = folder / "project", folder / "home"
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
            # The tests' keys, however fast, are meant for what is shown, so no delay is needed.
            options = {"cmd": daemon, "chat": {"inert_ms": 0}, **o}
            if trust is not None:
                options = {"trust": trust, **options}
            variables = {**environment, **(environ or {})}
            return stack.enter_context(Neovim(project, variables, options))

        yield Workspace(project, llm, environment, start)
