"""What one test works with: a project, a scripted model, editors with the real daemon."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fake_llm import FakeLLM, Step
from neovim_editor import Neovim

CODE = 'def add(a, b):\n    """Add two numbers."""\n    return a - b\n\n\nprint(add(2, 3))\n'


@dataclass
class Desk:
    """What one test works with."""

    project: Path
    llm: FakeLLM
    environment: Mapping[str, str]
    """Of every editor: a home of its own, and where the model is."""
    start: Callable[..., Neovim]

    @property
    def file(self) -> Path:
        return self.project / "calc.py"

    def script(self, *steps: Step) -> None:
        self.llm.add(*steps)

    def prompts(self) -> str:
        """What the model was told last, as text."""
        return str(self.llm.requests[-1].body["messages"])
